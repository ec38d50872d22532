"""What a file with all its edits is compiled with, in CUDA: one function for each sign, which asks whether its site is
to be changed. The operations are those of edits.py, by their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from .edits import ASSIGN, ATOMIC, BINARY, CONDITION, FLOAT, FLOAT_BINARY, GUARD, INTEGER, RELATION, Operation

_NAMES = "add subtract multiply divide remainder and or xor left right".split()
ARITHMETIC = dict(zip("+ - * / % & | ^ << >>".split(), _NAMES, strict=True))
RELATIONS = {"<": "less", "<=": "at_most", ">": "greater", ">=": "at_least", "==": "equal", "!=": "unequal"}
ASSIGNMENTS = {"=": "set", "+=": "add_to", "-=": "take_from", "*=": "scale", "/=": "divide_by"}
_TYPES = ("int", "unsigned", "long", "unsigned long", "long long", "unsigned long long", "float", "double")


def _switch(operations: Iterable[Operation], made: str = "{}") -> str:
    cases = " ".join(f"case {i}: return {made.format(o.code)};" for i, o in enumerate(operations))
    return f"switch (edit.operation) {{ {cases} }}"


@cache
def support(atomic: bool) -> str:
    """What stands before a file with its edits. One slow function for each type, and quick ones that are inlined.

    atomic: sums may become atomic, which makes all loops slower, as their threads may then wait for one another.
    """
    slow, quick = "static __device__ __noinline__", "static __device__ __forceinline__"
    lines = [
        "struct BackwarpEdit { int site, operation, a, b; };",
        "__constant__ BackwarpEdit backwarp_edits[2];",
        f"{quick} bool backwarp_at(int s) {{ return backwarp_edits[0].site == s || backwarp_edits[1].site == s; }}",
        f"{quick} BackwarpEdit backwarp_edit(int s) {{ return backwarp_edits[backwarp_edits[0].site != s]; }}",
        f"template <class T> {quick} T backwarp_value(int, T e, const int*, const float*) {{ return e; }}",
    ]
    for type_ in _TYPES:
        real = type_ in ("float", "double")
        pool, operations, binary = ("f", FLOAT, FLOAT_BINARY) if real else ("i", INTEGER, BINARY)
        array = "const float*" if real else "const int*"
        lines += [
            f"{slow} {type_} backwarp_changed(int s, {type_} e, {array} p) {{ const BackwarpEdit edit = backwarp_edit(s);"
            f" const {type_} a = p[edit.a], b = p[edit.b]; {_switch(operations)} return e; }}",
            f"{quick} {type_} backwarp_value(int s, {type_} e, const int* i, const float* f) {{"
            f" return backwarp_at(s) ? backwarp_changed(s, e, {pool}) : e; }}",
            f"{slow} {type_} backwarp_combined(int s, {type_} l, {type_} r) {{ const BackwarpEdit edit = backwarp_edit(s);"
            f" {_switch(binary)} return l; }}",
            f"{slow} bool backwarp_related(int s, {type_} l, {type_} r) {{ const BackwarpEdit edit = backwarp_edit(s);"
            f" {_switch(RELATION)} return false; }}",
        ]
    head = f"template <class L, class R> {quick}"
    for sign, name in ARITHMETIC.items():
        lines.append(
            f"{head} auto backwarp_{name}(int s, L l, R r) -> decltype(l {sign} r) {{ using T = decltype(l {sign} r);"
            f" return backwarp_at(s) ? backwarp_combined(s, T(l), T(r)) : l {sign} r; }}"
        )
    for sign, name in RELATIONS.items():
        lines.append(
            f"{head} bool backwarp_{name}(int s, L l, R r) {{ using T = decltype(l + r);"
            f" return backwarp_at(s) ? backwarp_related(s, T(l), T(r)) : l {sign} r; }}"
        )
    lines.append(
        f"template <class L, class R> {slow} void backwarp_stored(int s, L& l, R r) {{ switch (backwarp_edit(s).operation) {{"
        + " ".join(
            f"case {i}: {o.code}; break;" for i, o in enumerate((*ASSIGN, ATOMIC) if atomic else ASSIGN)
        )
        + " } }"
    )
    for sign, name in ASSIGNMENTS.items():
        lines.append(
            f"{head} L& backwarp_{name}(int s, L& l, R r) {{"
            f" if (backwarp_at(s)) backwarp_stored(s, l, r); else l {sign} r; return l; }}"
        )
    lines += [
        f"{slow} bool backwarp_decided(int s, bool e, const int* p) {{ const BackwarpEdit edit = backwarp_edit(s);"
        f" const int a = p[edit.a], b = p[edit.b]; {_switch(CONDITION)} return e; }}",
        f"{quick} bool backwarp_condition(int s, bool e, const int* p) {{"
        " return backwarp_at(s) ? backwarp_decided(s, e, p) : e; }",
        # 0: the statement is run, 1: not, from 2: the kernel or the loop is left
        f"{slow} int backwarp_guarded(int s, const int* p) {{ for (int i = 0; i < 2; i++) {{"
        " const BackwarpEdit edit = backwarp_edits[i]; if (edit.site != s) continue;"
        f" const int n = {len(GUARD) - 1}; if (edit.operation == 0) return 1; const int a = p[edit.a], b = p[edit.b];"
        " bool is = false; switch ((edit.operation - 1) % n) {"
        + " ".join(f"case {i}: is = {o.code}; break;" for i, o in enumerate(GUARD[1:]))
        + " } const int way = (edit.operation - 1) / n; if (way ? is : !is) return way + 1; } return 0; }",
        f"{quick} int backwarp_before(int s, const int* p) {{ return backwarp_at(s) ? backwarp_guarded(s, p) : 0; }}",
        f"template <class T> {slow} T backwarp_other_step(int s, T i, const int* p, int c0, int c1, int c2, int c3, int c4) {{"
        " const BackwarpEdit edit = backwarp_edit(s); const int o = edit.operation;"
        " const int c = o == 0 ? c0 : o == 1 ? c1 : o == 2 ? c2 : o == 3 ? c3 : c4; const T a = p[edit.a];"
        " return c == 0 ? i + a : c == 1 ? i - a : c == 2 ? i * a : a ? i / a : i; }",
        f"template <class T> {quick} T backwarp_stepped(int s, T i, int sign, const int* p, int c0, int c1, int c2, int c3, int c4) {{"
        " return backwarp_at(s) ? backwarp_other_step(s, i, p, c0, c1, c2, c3, c4) : sign ? i - 1 : i + 1; }",
    ]
    return "\n".join(lines) + "\n"
