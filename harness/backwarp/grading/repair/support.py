"""The CUDA code that a file with all its edits is compiled with: one function for each operator, which checks
whether its site is edited. The operations are those of edits.py, by number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from . import edits
from .edits import Operation
from .pool import TERMS
from .sites import MOST_TOGETHER
from .terms import END, FLOATS_OF, INTEGERS_OF, LONGEST

_NAMES = "add subtract multiply divide remainder and or xor left right".split()
ARITHMETIC = dict(zip("+ - * / % & | ^ << >>".split(), _NAMES, strict=True))
RELATIONS = {"<": "less", "<=": "at_most", ">": "greater", ">=": "at_least", "==": "equal", "!=": "unequal"}
ASSIGNMENTS = {"=": "set", "+=": "add_to", "-=": "take_from", "*=": "scale", "/=": "divide_by"}
_TYPES = ("int", "unsigned", "long", "unsigned long", "long long", "unsigned long long", "float", "double")


POOL = "const BackwarpPool& p"
_CAPITALS = re.compile(r"(?<![A-Za-z])[A-Z][A-Z_]+(?![A-Za-z_])")
#: what the names in capitals in these texts stand for, see _filled
_NAMED = {
    "SLOW": "static __device__ __noinline__",
    "QUICK": "static __device__ __forceinline__",
    "EDIT": "const BackwarpEdit edit = backwarp_edit(s);",
    "PAIR": "const int a = backwarp_int(edit.a, p), b = backwarp_int(edit.b, p);",
    "POOL": POOL,
    "MOST": MOST_TOGETHER,
    "LONGEST": LONGEST + 1,
    "FIRST": TERMS,
    "END": END,
    "INTEGERS_OF": INTEGERS_OF,
    "FLOATS_OF": FLOATS_OF,
}
#: the pool's values, and what a term (terms.py) computes: a number, or an index and its array
_POOL = """
struct BackwarpEdit { int site, operation, a, b; };
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
#: for each type of numbers: another value, operator or comparison
_OF_TYPE = """
SLOW TYPE backwarp_changed(int s, TYPE e, POOL) { EDIT const TYPE VALUES; switch (edit.operation) { CHANGED } return e; }
QUICK TYPE backwarp_value(int s, TYPE e, POOL) { return backwarp.asked[s] ? backwarp_changed(s, e, p) : e; }
SLOW TYPE backwarp_combined(int s, TYPE l, TYPE r) { EDIT switch (edit.operation) { COMBINED } return l; }
SLOW bool backwarp_related(int s, TYPE l, TYPE r) { EDIT switch (edit.operation) { RELATED } return false; }
"""
#: for each operator, comparison and assignment
_ARITHMETIC = """
template <class L, class R> QUICK auto backwarp_NAME(int s, L l, R r) -> decltype(l SIGN r) {
    using T = decltype(l SIGN r); return backwarp.asked[s] ? backwarp_combined(s, T(l), T(r)) : l SIGN r;
}
"""
_RELATION = """
template <class L, class R> QUICK bool backwarp_NAME(int s, L l, R r) {
    using T = decltype(l + r); return backwarp.asked[s] ? backwarp_related(s, T(l), T(r)) : l SIGN r;
}
"""
_ASSIGNMENT = """
template <class L, class R> QUICK L& backwarp_NAME(int s, L& l, R r) {
    if (backwarp.asked[s]) backwarp_stored(s, l, r); else l SIGN r; return l;
}
"""
#: of two integers; of two floats
_CALLS = (
    """
template <class L, class R> QUICK auto backwarp_call_NAME(int s, L l, R r) -> decltype(l + r) {
    using T = decltype(l + r); return backwarp.asked[s] ? T(backwarp_called(s, int(l), int(r))) : NAME(l, r);
}
""",
    """
QUICK float backwarp_call_NAME(int s, float l, float r) { return backwarp.asked[s] ? backwarp_called(s, l, r) : NAME(l, r); }
""",
)
#: and the rest
_OTHERS = """
template <class T> QUICK T backwarp_value(int, T e, POOL) { return e; }
SLOW int backwarp_called(int s, int l, int r) { EDIT switch (edit.operation) { OF_INTEGERS } return l; }
SLOW float backwarp_called(int s, float l, float r) { EDIT switch (edit.operation) { OF_FLOATS } return l; }
template <class L, class R> SLOW void backwarp_stored(int s, L& l, R r) { EDIT switch (edit.operation) { STORED } }
SLOW bool backwarp_decided(int s, bool e, POOL) { EDIT PAIR switch (edit.operation) { DECIDED } return e; }
QUICK bool backwarp_condition(int s, bool e, POOL) { return backwarp.asked[s] ? backwarp_decided(s, e, p) : e; }
template <class L, class R> SLOW void backwarp_exchange(L& l, R& r) { const L before = l; l = r; r = before; }
"""


def asked(site: str | int) -> str:
    """CUDA code that tests whether a site is edited."""
    return f"backwarp.asked[{site}]"


def pool_text(programs: Sequence[Sequence[int]], sites: int) -> str:
    """The storage for the edits of a file with this many sites, and for the pool of each function."""
    rows = ", ".join("{" + ", ".join(map(str, (*program, END))) + "}" for program in programs) or "{0}"
    return _filled(_POOL, SITES=sites + 1, TERMS=rows)


@cache
def support(atomic: bool) -> str:
    """The code before a file with its edits. atomic: sums may become atomic, which makes all loops slower."""
    lines = []
    for type_ in _TYPES:
        real = type_ in ("float", "double")
        get, operations, binary = "int", edits.INTEGER, edits.BINARY
        if real:
            get, operations, binary = "float", edits.FLOAT, edits.FLOAT_BINARY
        values = ", ".join(f"{x} = backwarp_{get}(edit.{x}, p)" for x in ("a" if real else "ab"))
        made = {"CHANGED": operations, "COMBINED": binary, "RELATED": edits.RELATION}
        lines.append(_filled(_OF_TYPE, TYPE=type_, VALUES=values, **_cases("return {};", made)))
    lines += [_filled(_ARITHMETIC, SIGN=sign, NAME=name) for sign, name in ARITHMETIC.items()]
    lines += [_filled(_RELATION, SIGN=sign, NAME=name) for sign, name in RELATIONS.items()]
    made = {"OF_INTEGERS": edits.CALL, "OF_FLOATS": edits.FLOAT_CALL, "DECIDED": edits.CONDITION}
    stored = {"STORED": (*edits.ASSIGN, edits.ATOMIC) if atomic else edits.ASSIGN}
    lines.append(_filled(_OTHERS, **_cases("return {};", made), **_cases("{}; break;", stored)))
    lines += [_filled(_ASSIGNMENT, SIGN=sign, NAME=name) for sign, name in ASSIGNMENTS.items()]
    kinds = (edits.CALL, edits.FLOAT_CALL)
    lines += [_filled(_CALLS[kinds.index(made)], NAME=name) for name, made in edits.CALLED.items()]
    return "".join(lines)


def _cases(form: str, made: Mapping[str, Sequence[Operation]]) -> dict[str, str]:
    """The cases of a `switch` by the number of an operation."""
    return {
        name: " ".join(f"case {i}: {form.format(o.code)}" for i, o in enumerate(operations))
        for name, operations in made.items()
    }


def _filled(text: str, **values: object) -> str:
    """A text in one line, with its names in capitals replaced."""
    values = _NAMED | values
    found = _CAPITALS.sub(lambda m: str(values.get(m[0], m[0])), text.strip())
    return found.replace("\n", " ") + "\n"
