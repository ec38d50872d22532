"""The CUDA code that a file with all its edits is compiled with: one function for each operator, which checks
whether its site is edited. The operations are those of edits.py, by number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from .edits import (
    ASSIGN,
    ATOMIC,
    BEFORE,
    BINARY,
    CALL,
    CALLED,
    CHOSEN,
    CONDITION,
    FLOAT,
    FLOAT_BINARY,
    FLOAT_CALL,
    FLOAT_RELATION,
    FUNCTION,
    GUARD,
    INTEGER,
    RELATION,
    Operation,
)
from .pool import TERMS
from .sites import MOST_TOGETHER
from .terms import END, FLOATS_OF, INTEGERS_OF, LONGEST

_NAMES = "add subtract multiply divide remainder and or xor left right".split()
ARITHMETIC = dict(zip("+ - * / % & | ^ << >>".split(), _NAMES, strict=True))
RELATIONS = {"<": "less", "<=": "at_most", ">": "greater", ">=": "at_least", "==": "equal", "!=": "unequal"}
ASSIGNMENTS = {"=": "set", "+=": "add_to", "-=": "take_from", "*=": "scale", "/=": "divide_by"}
_TYPES = ("int", "unsigned", "long", "unsigned long", "long long", "unsigned long long", "float", "double")


POOL = "const BackwarpPool& p"
#: the pool's values, and what a term (terms.py) computes: a number, or an index and its array
_POOL = """
struct BackwarpEdit { int site, operation, a, b, c; };
struct BackwarpPool { const int* i; const float* f; const void* const* q; };
__constant__ struct { BackwarpEdit edits[MOST]; bool asked[SITES]; } backwarp;
__constant__ short backwarp_terms[][LONGEST] = { TERMS };
SLOW BackwarpEdit backwarp_edit(int s) {
    for (int i = 1; i < MOST; i++) if (backwarp.edits[i].site == s) return backwarp.edits[i];
    return backwarp.edits[0];
}
SLOW int backwarp_term(int n, const BackwarpPool& p, int& array) {
    int stack[LONGEST], top = 0;
    for (const short* t = backwarp_terms[n - FIRST]; *t != END; t++) {
        const int c = *t;
        if (c >= 0) stack[top++] = p.i[c];
        else if (c <= FLOATS_OF) array = FLOATS_OF - c;
        else if (c <= INTEGERS_OF) stack[top - 1] = static_cast<const int*>(p.q[INTEGERS_OF - c])[stack[top - 1]];
        else {
            const int r = stack[--top], l = stack[top - 1];
            stack[top - 1] = c == -1 ? l + r : c == -2 ? l - r : c == -3 ? l * r : r == 0 ? 0 : c == -4 ? l / r : l % r;
        }
    }
    return stack[0];
}
SLOW int backwarp_int(int a, const BackwarpPool& p) { int array; return a < FIRST ? p.i[a] : backwarp_term(a, p, array); }
SLOW float backwarp_float(int a, const BackwarpPool& p) {
    if (a < FIRST) return p.f[a];
    int array = -1, n = backwarp_term(a, p, array);
    return array < 0 ? n : static_cast<const float*>(p.q[array])[n];
}
SLOW int backwarp_operation(int s) { return backwarp_edit(s).operation; }
SLOW int backwarp_int_of(int s, const BackwarpPool& p) { return backwarp_int(backwarp_edit(s).a, p); }
SLOW float backwarp_float_of(int s, const BackwarpPool& p) { return backwarp_float(backwarp_edit(s).a, p); }
"""
_SLOW, _QUICK = "static __device__ __noinline__", "static __device__ __forceinline__"


def asked(site: str | int) -> str:
    """CUDA code that tests whether a site is edited."""
    return f"backwarp.asked[{site}]"


def pool_text(programs: Sequence[Sequence[int]], sites: int) -> str:
    """The storage for the edits of a file with this many sites, and for the pool of each function."""
    rows = ", ".join("{" + ", ".join(map(str, (*program, END))) + "}" for program in programs) or "{0}"
    values = {"MOST": MOST_TOGETHER, "SITES": sites + 1, "LONGEST": LONGEST + 1, "FIRST": TERMS, "END": END}
    values |= {
        "INTEGERS_OF": INTEGERS_OF,
        "FLOATS_OF": FLOATS_OF,
        "SLOW": _SLOW,
        "TERMS": rows,
    }
    return re.sub(r"\b[A-Z_]+\b", lambda m: str(values.get(m[0], m[0])), _POOL).replace("\n", " ") + "\n"


def _switch(operations: Iterable[Operation], made: str = "{}") -> str:
    cases = " ".join(f"case {i}: return {made.format(o.code)};" for i, o in enumerate(operations))
    return f"switch (edit.operation) {{ {cases} }}"


_EDIT = "const BackwarpEdit edit = backwarp_edit(s);"
_PAIR = "const int a = backwarp_int(edit.a, p), b = backwarp_int(edit.b, p);"
_BOTH = f"template <class L, class R> {_QUICK}"


@cache
def support(atomic: bool) -> str:
    """The code before a file with its edits: one slow function for each type, and fast ones that are inlined.

    atomic: sums may become atomic, which makes all loops slower, as their threads may then have to yield to
    one another.
    """
    lines = [f"template <class T> {_QUICK} T backwarp_value(int, T e, {POOL}) {{ return e; }}"]
    lines += [line for type_ in _TYPES for line in _of_type(type_)]
    lines += [*_operators(), *_calls(), *_assignments(atomic), *_conditions(), *_guards(), *_statements()]
    return "\n".join(lines) + "\n"


def _of_type(type_: str) -> list[str]:
    """The slow functions for one type."""
    real = type_ in ("float", "double")
    get, operations, binary = ("float", FLOAT, FLOAT_BINARY) if real else ("int", INTEGER, BINARY)
    values = ", ".join(f"{x} = backwarp_{get}(edit.{x}, p)" for x in ("a" if real else "abc"))
    return [
        f"{_SLOW} {type_} backwarp_changed(int s, {type_} e, {POOL}) {{ {_EDIT}"
        f" const {type_} {values}; {_switch(operations)} return e; }}",
        f"{_QUICK} {type_} backwarp_value(int s, {type_} e, {POOL}) {{"
        f" return backwarp.asked[s] ? backwarp_changed(s, e, p) : e; }}",
        f"{_SLOW} {type_} backwarp_combined(int s, {type_} l, {type_} r) {{ {_EDIT} {_switch(binary)} return l; }}",
        f"{_SLOW} bool backwarp_related(int s, {type_} l, {type_} r) {{ {_EDIT} {_switch(FLOAT_RELATION if real else RELATION)} return false; }}",
    ]


def _operators() -> Iterator[str]:
    """Arithmetic and comparisons whose operator may be replaced."""
    for sign, name in ARITHMETIC.items():
        yield (
            f"{_BOTH} auto backwarp_{name}(int s, L l, R r) -> decltype(l {sign} r) {{ using T = decltype(l {sign} r);"
            f" return backwarp.asked[s] ? backwarp_combined(s, T(l), T(r)) : l {sign} r; }}"
        )
    for sign, name in RELATIONS.items():
        yield (
            f"{_BOTH} bool backwarp_{name}(int s, L l, R r) {{ using T = decltype(l + r);"
            f" return backwarp.asked[s] ? backwarp_related(s, T(l), T(r)) : l {sign} r; }}"
        )


def _assignments(atomic: bool) -> Iterator[str]:
    """Stores that may be done in another way."""
    yield (
        f"template <class L, class R> {_SLOW} void backwarp_stored(int s, L& l, R r) {{ switch (backwarp_edit(s).operation) {{"
        + " ".join(
            f"case {i}: {o.code}; break;" for i, o in enumerate((*ASSIGN, ATOMIC) if atomic else ASSIGN)
        )
        + " } }"
    )
    for sign, name in ASSIGNMENTS.items():
        yield (
            f"{_BOTH} L& backwarp_{name}(int s, L& l, R r) {{"
            f" if (backwarp.asked[s]) backwarp_stored(s, l, r); else l {sign} r; return l; }}"
        )


def _conditions() -> list[str]:
    """Conditions that may be others, and what may come before a statement."""
    return [
        f"{_SLOW} bool backwarp_decision(const BackwarpEdit& edit, bool e, {POOL})"
        f" {{ {_PAIR} {_switch(CONDITION)} return e; }}",
        f"{_SLOW} bool backwarp_decided(int s, bool e, {POOL}) {{ for (int i = 0; i < {MOST_TOGETHER}; i++)"
        " if (backwarp.edits[i].site == s) e = backwarp_decision(backwarp.edits[i], e, p); return e; }",
        f"{_QUICK} bool backwarp_condition(int s, bool e, {POOL}) {{"
        " return backwarp.asked[s] ? backwarp_decided(s, e, p) : e; }",
        f"{_SLOW} bool backwarp_before(int s, {POOL}) {{ const bool e = true; for (int i = 0; i < {MOST_TOGETHER}; i++) {{"
        " const BackwarpEdit edit = backwarp.edits[i]; if (edit.site != s) continue;"
        f" {_PAIR} bool is = true; switch (edit.operation) {{ "
        + " ".join(f"case {i}: is = {o.code}; break;" for i, o in enumerate(BEFORE))
        + " } if (!is) return false; } return true; }",
    ]


def _guards() -> list[str]:
    """What may keep a statement from running."""
    return [
        # 0: the statement runs, 1: it does not, from 2: the kernel or the loop is left
        f"{_SLOW} int backwarp_guarded(int s, {POOL}) {{ for (int i = 0; i < {MOST_TOGETHER}; i++) {{"
        " const BackwarpEdit edit = backwarp.edits[i]; if (edit.site != s) continue;"
        f" const int n = {len(GUARD) - 1}; if (edit.operation == 0) return 1; {_PAIR}"
        " bool is = false; switch ((edit.operation - 1) % n) {"
        + " ".join(f"case {i}: is = {o.code}; break;" for i, o in enumerate(GUARD[1:]))
        + " } const int way = (edit.operation - 1) / n; if (way ? is : !is) return way + 1; } return 0; }",
    ]


def _statements() -> list[str]:
    """Choices, steps and stores."""
    return [
        f"{_SLOW} bool backwarp_chosen(int s, {POOL}) {{ {_EDIT} {_PAIR} {_switch(CHOSEN)} return true; }}",
        f"template <class T> {_SLOW} T backwarp_stepped(int s, T i, {POOL}, int c0, int c1, int c2, int c3, int c4) {{"
        f" {_EDIT} const int o = edit.operation;"
        " const int c = o == 0 ? c0 : o == 1 ? c1 : o == 2 ? c2 : o == 3 ? c3 : c4; const T a = backwarp_int(edit.a, p);"
        " return c == 0 ? i + a : c == 1 ? i - a : c == 2 ? i * a : a ? i / a : i; }",
        f"template <class T> {_SLOW} void backwarp_store(T* to, int s, {POOL}, bool real) {{ {_EDIT}"
        " T& at = to[backwarp_int(edit.a, p)];"
        " auto value = [&](int n) { return real ? T(backwarp_float(n, p)) : T(backwarp_int(n, p)); };"
        " const T b = value(edit.b); switch (edit.operation) { case 0: at = b; break;"
        " case 1: at += b; break; case 2: at -= b; break;"
        " case 3: at += b * value(edit.c); break; default: at -= b * value(edit.c); } }",
        f"{_SLOW} int backwarp_offset(int s, {POOL}) {{ {_EDIT} const int a = backwarp_int(edit.a, p);"
        " const int b = edit.operation ? backwarp_int(edit.b, p) : 0;"
        " return edit.operation == 0 ? a : edit.operation == 1 ? a * b : a - b; }",
        f"template <class L, class R> {_SLOW} void backwarp_exchange(L& l, R& r) {{ const L before = l; l = r; r = before; }}",
    ]


def _calls() -> Iterator[str]:
    """Calls whose function may be replaced or dropped."""
    for type_, operations in (("int", CALL), ("float", FLOAT_CALL)):
        yield f"{_SLOW} {type_} backwarp_called(int s, {type_} l, {type_} r) {{ {_EDIT} {_switch(operations)} return l; }}"
    yield f"{_SLOW} float backwarp_called(int s, float l) {{ {_EDIT} {_switch(FUNCTION)} return l; }}"
    for name, operations in CALLED.items():
        if operations is CALL:
            yield (
                f"template <class L, class R> {_QUICK} auto backwarp_call_{name}(int s, L l, R r) -> decltype(l + r) {{"
                f" using T = decltype(l + r); return backwarp.asked[s] ? T(backwarp_called(s, int(l), int(r))) : {name}(l, r); }}"
            )
            continue
        arguments = ["l"] if operations is FUNCTION else ["l", "r"]
        yield (
            f"{_QUICK} float backwarp_call_{name}(int s, {', '.join(f'float {a}' for a in arguments)}) {{"
            f" return backwarp.asked[s] ? backwarp_called(s, {', '.join(arguments)}) : {name}({', '.join(arguments)}); }}"
        )
    yield f"template <class A, class B> {_QUICK} A backwarp_other_call(bool, A a, B) {{ return a; }}"
    yield f"template <class A> {_QUICK} A backwarp_other_call(bool at, A a, A b) {{ return at ? b : a; }}"
