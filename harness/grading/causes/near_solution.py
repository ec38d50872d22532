"""Where a wrong kernel almost agrees with the solution: the same terms with another sign, the values of two
variables swapped, another size as a bound, `break` for `continue`.

Expressions are compared by their terms, not by their spelling. The solution's text is never shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from ...cuda.evaluate import fingerprint
from ...cuda.follow import value_of
from ...cuda.parts import index_of, reached, shown, start_of
from ...cuda.pieces import Piece
from ...cuda.text import CudaText
from ...cuda.tree import LOOPS
from .array_steps import products
from .findings import Slip
from .same_values import (
    comparisons,
    ends_at_a_thread,
    lost_limits,
    other_functions,
    other_scales,
    rounded_down,
    stores_the_same,
    values,
)

Sum = frozenset  # of (sign, names in alphabetical order)


def differences(mine: CudaText, solution: CudaText, kernel: str, given: Iterable[str]) -> list[Slip]:
    """given: the names that mean the same in both: sizes, the stub's variables, the axes of arrays."""
    both = [[f.body for f in reached(file, kernel)] for file in (mine, solution)]
    compared = [*other_bounds(*both, set(given)), *other_ends(*both)]
    found = [
        *other_signs(*both),
        *other_factors(*both),
        *other_constants(*both),
        *lost_limits(*both),
        *ends_at_a_thread(*both),
        *other_functions(*both),
        *stores_the_same(*both),
        *rounded_down(*both),
        *exchanged(*both),
        *compared,
        *leaves(*both),
        *other_strides(*both),
    ]
    guesses = ([*look(*both)][:1] for look in (other_loops, other_names, other_indices, other_scales))
    return found or next(filter(None, guesses), [])


def other_signs(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """A sum of the solution's terms in which some, but not all, have another sign; the innermost of nested
    sums."""
    known, strange = {s for body in solution for _, s in sums(body)}, strangers(mine, solution)
    plain = {frozenset(names for _, names in s): s for s in known}
    found = []
    for e, s in (each for body in mine for each in sums(body)):
        other = plain.get(frozenset(names for _, names in s))
        if other is None or s in known or frozenset((-sign, names) for sign, names in s) in known:
            continue
        if has(s, strange):
            continue
        if wrong := [term for term in s if term not in other]:
            found.append((e, wrong))
    for e, wrong in found:
        if any(inner is not e and e.holds(inner) for inner, _ in found):
            continue
        says = f"Line {e.line}: are all signs right in {shown(e)}?"
        if len(wrong) == 1:
            ((sign, names),) = wrong
            does = "adds" if sign > 0 else "subtracts"
            says = f"Line {e.line} {does} {written(names)} in {shown(e)}: is that the right sign?"
        yield Slip(e.line, says)


def other_factors(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """A sum of the solution's names in which one has another numeric factor, or none."""

    def plain(s: Sum) -> Sum:
        return frozenset((sign, tuple(n for n in names if not n.isdecimal())) for sign, names in s)

    known = {s for body in solution for _, s in sums(body, True)}
    alike = {plain(s): s for s in known if all(names for _, names in plain(s))}
    strange = strangers(mine, solution)
    found = [(e, s) for body in mine for e, s in sums(body, True) if s not in known and plain(s) in alike]
    found = [(e, s) for e, s in found if not has(s, strange)]
    for e, s in sorted(found, key=lambda each: len(each[0].code))[:1]:
        product = written(min(s - alike[plain(s)])[1])
        yield Slip(e.line, f"Line {e.line}: is {product} multiplied by what it should be in {shown(e)}?")


def other_constants(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """A sum of the solution's terms and one more with a number in it: `(b * H + h + 1) * W + w`; not if the
    sum without it occurs as well: then both places are meant."""
    known, own = ({s for body in some for _, s in sums(body, True)} for some in (solution, mine))
    strange = strangers(mine, solution)
    for body in mine:
        for e, s in sums(body, True):
            more = [term for term in s if any(n.isdecimal() for n in term[1]) and s - {term} in known - own]
            if more and any(begins_later(e, name) for _, names in s for name in names):
                continue
            if more and s not in known and len(s) > 2 and not has(s, strange):
                sign, names = more[0]
                does = "adds" if sign > 0 else "subtracts"
                yield Slip(e.line, f"Line {e.line} {does} {written(names)} in {shown(e)}: is that too much?")
                return


def strangers(mine: list[Piece], solution: list[Piece]) -> set[str]:
    """The variables that have another value here than those of the same name in the solution."""
    own, right = values(mine), values(solution)
    return {name for name in own.keys() & right.keys() if another(own[name], right[name])}


def has(s: Sum, names: set[str]) -> bool:
    return any(not names.isdisjoint(product) for _, product in s)


def begins_later(e: Piece, name: str) -> bool:
    """Whether a variable is the counter of an enclosing loop that starts at a number other than 0."""
    for loop in e.file.around(e.start, "for_statement"):
        start = loop.part("initializer")
        for d in start.all("init_declarator") if start else ():
            first = d.part("value")
            if d.part("declarator").code == name and first and first.kind == "number_literal":
                return first.code != "0"
    return False


def sums(body: Piece, numbers: bool = False) -> Iterator[tuple[Piece, Sum]]:
    """The sums of two or more terms that are names or products of names, optionally with numbers."""
    for e in body.all("binary_expression"):
        inner = e.outer.kind == "binary_expression" and e.outer.part("operator").code in ("+", "-")
        if inner or e.part("operator").code not in ("+", "-"):
            continue
        terms = [(sign, tuple(sorted(names))) for sign, names in products(e, shown)]
        plain = numbers or not any(n.isdecimal() for _, names in terms for n in names)
        if 1 < len(terms) == len(set(terms)) and plain:
            yield e, frozenset(terms)


def written(names: Iterable[str]) -> str:
    """A product of names and numbers, without factors of 1."""
    return " * ".join(name for name in names if name != "1") or "1"


def exchanged(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """Two variables whose values are swapped compared with the solution."""
    right = values(solution)
    own = {name: piece for name, piece in values(mine).items() if right.get(name)}
    for a, piece in own.items():
        for b, other in own.items():
            if a < b:
                pair = [" ".join(p.code.split()) for p in (piece, other, right[a], right[b])]
                if pair[:2] == pair[:1:-1] and pair[0] != pair[1]:
                    lines = sorted({piece.line, other.line})
                    where = f"Line {lines[0]}" if len(lines) == 1 else f"Lines {lines[0]} and {lines[1]}"
                    verb = "gives" if len(lines) == 1 else "give"
                    yield Slip(
                        lines[0],
                        f"{where} {verb} {a} the value {shown(piece)}, and {b} the value {shown(other)}: is it the other way round?",
                    )


def other_bounds(mine: list[Piece], solution: list[Piece], given: set[str]) -> Iterator[Slip]:
    """A comparison of something with a size, where the solution compares it with another size more often."""
    own, right = list(comparisons(mine)), list(comparisons(solution))
    counts = [Counter((left, bound) for _, left, bound in found) for found in (own, right)]
    known = {(left, bound) for _, left, bound in right}
    for e, left, bound in own:
        bounds = {b for _, a, b in right if a == left and b != "0"}
        sizes = given.issuperset(re.findall(r"\w+", bound))
        if not bounds or (left, bound) in known or left not in given or not sizes:
            continue
        named = {a for a, b in known if b == bound} - {a for _, a, _ in own}  # under another name here
        if named or any(b in bounds and a not in given and (a, b) not in known for _, a, b in own):
            continue
        if any(counts[0][left, b] < counts[1][left, b] for b in bounds):
            yield Slip(
                e.line,
                f"Line {e.line} compares {left} with {bound}: does {left} really run up to {bound}?",
            )
            return


def other_ends(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """`i > n` for `i >= n`: they differ only if both sides are equal."""
    known: dict[tuple[str, str], set[tuple[bool, bool]]] = {}
    for e, left, bound in comparisons(solution):
        known.setdefault((left, bound), set()).add((_takes_equal(e), begins_later(e, left)))
    for e, left, bound in comparisons(mine):
        found = known.get((left, bound), set())
        if found and _takes_equal(e) not in {equal for equal, _ in found}:
            if begins_later(e, left) in {later for _, later in found}:
                yield Slip(
                    e.line, f"Line {e.line}: is {shown(e)} also right where {left} is equal to {bound}?"
                )


def _takes_equal(e: Piece) -> bool:
    """Whether equal values are treated like smaller ones: for `<=` and `>`."""
    return e.part("operator").code in ("<=", ">")


def other_strides(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """A loop over the same variable from the same start with another step."""
    known: dict[tuple[str, str], set[str]] = {}
    for _, loop, step in strides(solution):
        known.setdefault(loop, set()).add(step)
    for piece, loop, step in strides(mine):
        if step not in known.get(loop, {step}):
            yield Slip(
                piece.line,
                f"The loop in line {piece.line} steps by {step}: does that leave anything out, or do anything twice?",
            )


def strides(bodies: list[Piece]) -> Iterator[tuple[Piece, tuple[str, str], str]]:
    """(loop, (variable, start), step) of loops that count upwards."""
    for loop in (loop for body in bodies for loop in body.all("for_statement")):
        update, first = loop.part("update"), start_of(loop)
        begins = said(first) if first else ""
        if update and update.kind == "update_expression" and "++" in update.code:
            yield loop, (update.part("argument").code, begins), "1"
        elif update and update.kind == "assignment_expression" and update.part("operator").code == "+=":
            yield loop, (update.part("left").code, begins), plain(update.part("right"))


def other_loops(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """A loop of the solution that begins or ends elsewhere here."""
    own, right = (
        [(loop, ends_of(loop, key, step)) for loop, key, step in strides(x)] for x in (mine, solution)
    )
    missing = list((Counter(ends for _, ends in right) - Counter(ends for _, ends in own)).elements())
    for loop, ends in own:
        if ends in [other for _, other in right] or len(missing) != 1 or len(own) != len(right):
            continue
        if not mine[0].holds(loop):  # what a function is given is not known here
            continue
        differ = [i for i, (a, b) in enumerate(zip(ends, missing[0], strict=True)) if a != b]
        if differ in ([1], [2]):
            begins = differ == [1]
            test = loop.part("condition")
            place = start_of(loop) if begins else test and (test.part("right") or test)
            if place is None:
                continue  # it begins or ends somewhere else
            yield Slip(
                loop.line,
                f"The loop over {ends[0]} in line {loop.line} {'begins' if begins else 'ends'} at {shown(place)}: does that leave "
                "anything out, or do anything twice?",
            )
            return


def ends_of(loop: Piece, key: tuple[str, str], step: str) -> tuple[str, str, str, str]:
    """(variable, start, end with its comparison, step)."""
    test = loop.part("condition")
    compared = test and test.kind == "binary_expression" and test.part("left").code == key[0]
    bound = said(test.part("right")) if compared else " ".join(test.code.split()) if test else ""
    bound += " + 1" * (compared and _takes_equal(test))
    return key[0], key[1], bound, step


def said(e: Piece) -> str:
    """A key that is equal for expressions that always have the same value, however they are written. Quotients that are 0
    for most sizes are compared as they are written."""
    known = fingerprint(e)
    return spelled(e) if None in known or not any(known) else str(known)


def spelled(e: Piece) -> str:
    """An expression, with variables that are never changed replaced by their values."""
    words = [(t, value_of(t.file, t.code, t.start) if t.kind == "identifier" else None) for t in e.tokens]
    if e.kind == "identifier" and words[0][1]:
        return spelled(words[0][1])
    return "".join(f"({spelled(value)})" if value else t.code for t, value in words)


def plain(e: Piece) -> str:
    """An expression, with a variable that is never changed replaced by its value, as is warpSize."""
    while e.kind == "identifier" and (value := value_of(e.file, e.code, e.start)):
        e = value
    return "32" if e.code == "warpSize" else " ".join(e.code.split())


def other_names(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """One name for another, in the value of a variable or as the whole index of an array; not for names that
    only this file has."""
    right, own = values(solution), values(mine)
    of_one = names_of(mine) ^ names_of(solution)
    for name, value in own.items():
        wrong, other = one_name(value, right[name]) if name in right else ("", "")
        if (
            wrong
            and not of_one & {wrong, other}
            and not any(another(own.get(n), right.get(n)) for n in (wrong, other))
        ):
            yield Slip(value.line, f"Line {value.line}: is {wrong} the right one in {name} = {shown(value)}?")
    known = {(a, i) for body in solution for _, a, i in indices(body)}
    for body in mine:
        for access, array, index in indices(body):
            others = {i for a, i in known if a == array}
            if others and index not in others and others <= set(own) and index in {i for _, i in known}:
                yield Slip(access.line, f"Line {access.line}: is {index} the right index for {array}?")


def another(mine: Piece | None, solution: Piece | None) -> bool:
    """Whether a name stands for something else in the solution, by the values of the variables, if they have
    any."""
    if mine is None or solution is None:
        return mine is not solution
    return fingerprint(mine) != fingerprint(solution)


def names_of(bodies: list[Piece]) -> set[str]:
    """Of the variables of their files."""
    return {v.name for body in bodies for v in body.file.variables}


def one_name(mine: Piece, solution: Piece) -> tuple[str, str]:
    """The only tokens in which two expressions differ, if they are names."""
    both = [p.tokens for p in (mine, solution)]
    if len(both[0]) != len(both[1]):
        return "", ""
    differ = [(a.code, b.code) for a, b in zip(*both, strict=True) if a.code != b.code]
    names = len(differ) == 1 and all(re.fullmatch(r"[A-Za-z_]\w*", word) for word in differ[0])
    return differ[0] if names else ("", "")


def other_indices(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """`tile[y][n]`, where the solution has `tile[x][n]`, and no such access."""
    own, right = ([found for body in x for found in accesses(body)] for x in (mine, solution))
    of_one = names_of(mine) ^ names_of(solution)
    missing = {tuple(index) for _, index in right} - {tuple(index) for _, index in own}
    for access, index in own:
        for other in missing if tuple(index) not in {tuple(i) for _, i in right} else ():
            differ = [both for both in zip(index, other, strict=False) if both[0] != both[1]]
            if len(index) == len(other) > 2 and len(differ) == 1 and index[0] == other[0]:
                wrong, right_one = differ[0]
                if of_one.isdisjoint(re.findall(r"[A-Za-z_]\w*", f"{wrong} {right_one}")):
                    yield Slip(
                        access.line, f"Line {access.line}: is {wrong} the right index in {shown(access)}?"
                    )
                    return


def accesses(body: Piece) -> Iterator[tuple[Piece, list[str]]]:
    """(access, [array, index, index]) of arrays of several axes."""
    for access in body.all("subscript_expression"):
        if access.outer.kind != "subscript_expression" or access.outer.parts[0] != access:
            inner, found = access, []
            while inner.kind == "subscript_expression":
                index = index_of(inner)
                found.append(" ".join(index.code.split()) if index else "")
                inner = inner.parts[0]
            yield access, [inner.code, *reversed(found)]


def indices(body: Piece) -> Iterator[tuple[Piece, str, str]]:
    """(access, array, index) of the accesses whose index is a single name."""
    for access in body.all("subscript_expression"):
        index = index_of(access)
        if index and index.kind == "identifier" and access.parts[0].kind == "identifier":
            yield access, access.parts[0].code, index.code


def leaves(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """A `break` where the solution has `continue`."""

    kinds = {p.kind for body in solution for p in body.all("break_statement", "continue_statement")}
    if kinds != {"continue_statement"}:
        return
    for body in mine:
        for leave in body.all("break_statement"):
            loops = leave.file.around(leave.start, *LOOPS, "switch_statement")
            if loops and loops[0].kind == "for_statement":
                yield Slip(
                    leave.line,
                    f"The break in line {leave.line} ends the whole loop that begins in line {loops[0].line}: is only one "
                    "iteration to be skipped, by continue?",
                )
