"""Text and JSON of a Verdict: at most a dozen lines, no colour in files, nothing steers the terminal."""

from __future__ import annotations

import io
import json

import pytest

from backwarp.errors import CompileError, Diagnostic
from backwarp.grading.compile_errors import compile_error
from backwarp.grading.findings import Finding
from backwarp.grading.sentences import source_line
from backwarp.grading.verdict import ERROR, FAILED, PASSED, CaseResult, Verdict
from backwarp.report.json import dumps
from backwarp.report.terminal import show
from backwarp.report.text import MOST_LINES, show_verdict, show_verdict_around, verdict_lines
from tests.grading.said import cause, suspicion


class Terminal(io.StringIO):
    def isatty(self):
        return True


def text(verdict, width=100):
    return ["".join(part for part, _ in line) for line in verdict_lines(verdict, width)]


def wrong(**changes):
    fields = {
        "puzzle": "09_conv2d_backward_weights",
        "file": "kernel.cu",
        "kind": "wrong",
        "kernel": "weights",
        "device": "virtual GPU",
        "seed": 7,
        "next": "backwarp hint 09",
        "case": "batch_odd",
        "case_number": 2,
        "case_total": 6,
        "dims": {"batch": 2, "C_in": 3},
        "lines": [
            "grad_weights[k=0] = -1.1718, expected 0.4412   (107 of 108 elements differ)",
            "This is batch 0 alone.",
        ],
        "cases": [CaseResult("a", {}, "weights", PASSED), CaseResult("b", {}, "weights", FAILED, "wrong")],
    }
    return Verdict(**fields | changes)


def test_a_wrong_kernel_fact_place_remedy():
    assert text(wrong()) == [
        "x 09_conv2d_backward_weights   case 2 of 6  batch_odd: batch=2 C_in=3",
        "  grad_weights[k=0] = -1.1718, expected 0.4412   (107 of 108 elements differ)",
        "  This is batch 0 alone.",
        "  1 of 2 cases pass.   seed 7",
        "  Next: backwarp hint 09",
    ]


def test_a_passed_one_is_one_line_and_what_is_next():
    passed = wrong(
        status=PASSED, kind="", case="", lines=[], cases=[], seconds=0.8412, next="read puzzles/10/README.md"
    )
    assert text(passed) == [
        "ok 09_conv2d_backward_weights   6 cases on virtual GPU, 0.84 s",
        "  Next: read puzzles/10/README.md",
    ]


@pytest.mark.parametrize(("time", "shown"), [(99.4, "99 s"), (99.6, "100 s"), (123.4, "123 s")])
def test_long_times_are_whole_seconds(time, shown):
    passed = wrong(status=PASSED, kind="", case="", lines=[], cases=[], seconds=time)
    assert text(passed)[0].endswith(f", {shown}")


def test_two_kernels_are_counted_apart():
    cases = [CaseResult("a", {}, "weights", FAILED), CaseResult("a", {}, "bias", PASSED)]
    counted = "  weights passes 0 of 1 cases; bias passes all 1 cases."
    assert f"{counted}   seed 7" in text(wrong(cases=cases))
    narrow = text(wrong(cases=cases, lines=[]), len(counted) + 8)
    assert narrow[narrow.index(counted) + 1] == "  seed 7"


def test_what_stops_before_a_case_has_a_heading():
    assert text(wrong(case="", kind="compile"))[0] == "x 09_conv2d_backward_weights   does not compile"
    assert text(wrong(case="", kind="device", status=ERROR))[0].startswith("! ")


@pytest.mark.parametrize(("width", "most"), [(40, 18), (80, 15), (100, MOST_LINES), (140, MOST_LINES)])
def test_at_most_a_dozen_lines_and_the_next_step_is_never_cut(width, most):
    long = wrong(
        lines=["word " * 60] * 9, stdout="line\n" * 50, stdout_dropped=999_950, notes=["note " * 50] * 4
    )
    lines = text(long, width)
    assert len(lines) == most and lines[-1] == "  Next: backwarp hint 09"
    assert all(len(line) <= width for line in lines)


def test_a_report_that_is_too_long_keeps_the_element_and_the_facts_in_whole_sentences():
    """Where the value goes, the other line and the questions are left out."""
    element, goes = (
        "This reads tile[3], which was never written.",
        "It goes into c[0], which is line 9, " + "far " * 70,
    )
    facts = ["Line 8 is a fact. " + "It is long. " * 30 + "It ends.", "Line 7 is a short fact."]
    asked = "The loop in line 4 steps by 8: is that right?"
    source, other = source_line(6, "c[0] = tile[3];"), source_line(9, "y[0] = c[0];")
    found = ["a fault at line 6", *source, f"{element} {goes}.", *other, "There i = 3.", asked, *facts]
    values = Finding.of("values", values=["i = 3"])
    lines = text(wrong(lines=found, findings=[values, suspicion(asked, 4), *map(cause, facts)], cases=[]))
    assert len(lines) == MOST_LINES and lines.count("  ...") == 1
    for sentence in (element, "Line 7 is a short fact.", "Line 8 is a fact."):
        assert any(sentence in line for line in lines)
    assert not any("far far" in line for line in lines) and lines[-2].endswith(("fact.", "is long."))


def test_what_names_the_cause_of_a_fault_is_kept_before_shorter_facts():
    first = "This is thread number 4 of the launch, " + "and it has no element, " * 5 + "so it must return."
    facts = [first, *(f"Line {n} is a short fact." for n in range(9))]
    lines = text(
        wrong(
            lines=["a fault", *source_line(6, "c[0] = 1;"), "This reads c[0].", *facts],
            findings=[*map(cause, facts)],
        )
    )
    assert first in " ".join(" ".join(lines).split()) and "  ..." in lines and len(lines) == MOST_LINES


def test_below_what_is_decisive_the_place_is_kept():
    decisive, source = ["Line 8 is decisive.", "Line 9 as well."], source_line(6, "c[0] = tile[3];")
    facts = [f"Line {n} is a fact." for n in range(12)]
    lines = text(
        wrong(
            lines=[*decisive, "a fault", *source, *facts],
            findings=[*map(cause, (*decisive, *facts[:9]))],
            cases=[],
        )
    )
    assert len(lines) == MOST_LINES and all(any(part in line for line in lines) for part in source)


def test_printf_output_is_cut_and_it_is_said():
    lines = text(wrong(stdout="hello\n" * 1000, stdout_dropped=999_000))
    assert lines.count("    hello") == 4 and "    ... and 999,996 more lines, cut" in lines


def test_characters_that_hide_or_turn_text_are_shown():
    lines = text(wrong(stdout="a\u202eb\u200bc \u00e9\u4e2d", lines=["x\ufeff"]))
    assert "    a\\u202eb\\u200bc é中" in lines and any(r"x\ufeff" in line for line in lines)


def test_control_characters_do_not_reach_the_terminal():
    lines = text(wrong(stdout="\x1b[2Jgone\x07\r\n", lines=["\x1b]0;title\x07"]))
    assert not any(ord(c) < 32 or ord(c) == 127 for line in lines for c in line)


def test_source_lines_keep_their_columns():
    assert source_line(7, "\tint x = y;", 6) == ["    7 | " + "    int x = y;", "      | " + "        ^"]
    lines = text(wrong(lines=["kernel.cu:7: error", *source_line(7, "    a  =  b", 9)]))
    assert lines[2:4] == ["      7 |     a  =  b", "        |         ^"]


def test_a_long_source_line_is_cut_around_the_caret():
    code, caret = source_line(7, "x" * 400 + "HERE" + "y" * 400, 401)
    assert len(code) < 120 and code[caret.index("^")] == "H"
    assert code.startswith("    7 | ...x") and code.endswith("y...")
    assert source_line(7, "x" * 101)[0] == f"    7 | {'x' * 97}..."


def test_three_compiler_errors_are_shown_and_the_rest_counted():
    errors = tuple(Diagnostic("error", f"e{i}", "kernel.cu", i, 1, "code") for i in range(1, 8))
    warning = Diagnostic("warning", "w", "kernel.cu", 1, 1, "code")
    lines = compile_error(CompileError("x", (warning, *errors)))
    assert [line for line in lines if "error:" in line] == [f"kernel.cu:{i}: error: e{i}" for i in (1, 2, 3)]
    assert lines[-1].startswith("and 4 more") and len(lines) == 10


def test_a_refusal_without_diagnostics_is_shown():
    assert compile_error(CompileError("not allowed\nhere")) == ["not allowed", "here"]


def test_colour_only_on_a_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    file, terminal = io.StringIO(), Terminal()
    show_verdict(wrong(), file)
    show_verdict(wrong(), terminal)
    assert "\x1b" not in file.getvalue() and "\x1b[1;31mx" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    show_verdict(wrong(), plain)
    assert "\x1b" not in plain.getvalue()


def test_student_text_is_not_markup(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = Terminal()
    show([[("a[bold]b[/] :smile: [i=0]", "")]], terminal)
    assert "a[bold]b[/] :smile: [i=0]" in terminal.getvalue()


@pytest.mark.parametrize("line", [4, 5, 0])
@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_a_suspicion_that_the_repair_does_not_confirm_is_taken_back_and_a_question_waits_for_it(
    monkeypatch, kind, line
):
    """line: of the repair; 0: none is found."""
    asks, says = "Line 4 adds x: is that too much?", "Line 4 goes on to the end of the row."
    found = wrong(findings=[suspicion(asks, 4), suspicion(says, 4)])
    found.lines += [asks, says]
    out, during = kind(), []
    monkeypatch.setattr("sys.stdout", out)

    def look():
        during.append(out.getvalue())
        code = [{"line": line, "text": "x = y;"}]
        place = {"how": "changed", "first": line, "last": line}
        found.repair = [{"line": line, "places": [place], "code": code, "before": "x"}] if line else []

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    show_verdict_around(found, look)
    rewritten = kind is Terminal and line == 5
    assert ("Line 4" in during[0]) == (kind is Terminal)
    assert "too much?" not in during[0] and "cases pass" not in during[0]
    screen = out.getvalue()
    assert screen.count("\x1b[1A\x1b[J") == rewritten == screen.count("\x1b[J")
    if rewritten:
        before, after = screen.split("\x1b[1A\x1b[J")
        screen = "".join(before.splitlines(keepends=True)[:-1]) + after
    assert screen.splitlines() == text(found, 40)
    assert ("too much?" in screen) == (line == 4) and (says in screen) == (line != 5)


def test_among_several_an_untouched_stub_is_one_line():
    out = io.StringIO()
    show_verdict(wrong(case="", kind="untouched"), out, brief=True)
    assert out.getvalue() == "x 09_conv2d_backward_weights   not started yet\n"


def test_json_is_the_same_object():
    document = json.loads(dumps([wrong(mismatches=[{"got": float("nan")}]), wrong(status=PASSED)]))
    assert document["passed"] is False and document["exit_status"] == 1
    first = document["verdicts"][0]
    assert (
        first["mismatches"] == [{"got": "nan"}]
        and first["diagnosis"] == "wrong"
        and first["dims"]["C_in"] == 3
    )
