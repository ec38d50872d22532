"""Where a kernel computes a number that an int does not hold, though nothing faults: what `backwarp run` notes.

The kernel runs once more with `row * n` written as `times<...>(row, n, 7)`, which computes it in 64 bits too and keeps what
does not fit. So the compiler says which expressions are of type int. threadIdx and the like are unsigned, and make unsigned
what they are added to: such a sum counts as one of ints, unless there is more in it that is unsigned. What is unsigned, as a
hash is, may wrap.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from .cuda.evaluate import plain
from .cuda.kinds import BUILTINS
from .cuda.pieces import Macro, Piece
from .cuda.text import CudaText, read
from .cuda.tree import MAX_SOURCE
from .cuda.values import tunables

NAME, BITS, MOST_NOTES = "backwarp_wide", 31, 3
LONGEST = 1000  # characters of an expression
_SPACE = "backwarp_int"
_SIGNS = {"+": "plus", "-": "minus", "*": "times", "<<": "shift"}
_SIGNS |= {f"{sign}=": f"{name}_to" for sign, name in _SIGNS.items() if sign != "<<"}
_MIXES = {
    "&",
    "|",
    "^",
    "&=",
    "|=",
    "^=",
    ">>",
    ">>=",
}  # of bits: what is not wanted is cut off, or it is a hash
_INT, _UNSIGNED = {"int", "int32_t", "signed", "signed int"}, {"unsigned", "unsigned int", "uint32_t", "uint"}
_LARGE = 1 << 16  # a number in the code from which on it may be a generator's

_PRELUDE = f"""extern "C" __device__ long long {NAME}[%d];
namespace {_SPACE} {{
template <class T> struct Of {{ static constexpr int bits = 0; }};
template <class T> struct Of<T&> : Of<T> {{}};
template <class T> struct Of<const T> : Of<T> {{}};
template <class T> struct Of<volatile T> : Of<T> {{}};
template <class T> struct Of<const volatile T> : Of<T> {{}};
#define OF(T, n) template <> struct Of<T> {{ static constexpr int bits = n; }};
OF(bool, 31) OF(char, 31) OF(signed char, 31) OF(unsigned char, 31) OF(short, 31) OF(unsigned short, 31) OF(int, 31)
OF(unsigned, 32) OF(long, 64) OF(long long, 64) OF(unsigned long, 65) OF(unsigned long long, 65)
#undef OF
template <class T> constexpr int bits = Of<T>::bits;
template <class... T> struct All {{
    static constexpr bool ints = ((bits<T> == 31) && ... && true), whole = ((bits<T> == 31 || bits<T> >= 64) && ... && true);
}};
template <class... T> __device__ All<T...> all(T...);
inline __device__ void keep(long long wide, int id) {{ atomicMax(&{NAME}[2 * id + (wide < 0)], wide < 0 ? ~wide : wide); }}
template <class R, class L, class To, bool last, class A, class B, class F>
constexpr __device__ void look(A a, B b, int id, F compute) {{
    if constexpr (bits<R> == 31 || (bits<R> == 32 && L::ints)) {{
        long long wide = compute((long long)(int)a, (long long)(int)b);
        long long most = bits<R> == 31 || bits<To> == 31 ? 2147483647ll : 4294967295ll;
        if (wide < -2147483648ll || wide > most) {{
            if (most == 4294967295ll) wide = compute((long long)a, (long long)b);  // or what is negative is meant
            if (wide < -2147483648ll || wide > most) keep(wide, id);
        }}
    }} else if constexpr (last && bits<R> >= 64 && bits<To> == 31 && L::whole) {{
        long long wide = compute((long long)a, (long long)b);
        if (wide != (int)wide) keep(wide, id);
    }}
}}
#define OP(name, sign) \\
    template <class L, class To, bool last, class A, class B> constexpr __device__ auto name(A a, B b, int id) {{ \\
        if constexpr (bits<A> && bits<B>) \\
            look<decltype(a sign b), L, To, last>(a, b, id, [](long long a, long long b) {{ return a sign b; }}); \\
        return a sign b; \\
    }}
#define TO(name, sign) \\
    template <class L, class To, bool last, class A, class B> constexpr __device__ decltype(auto) name##_to(A& a, B b, int id) {{ \\
        if constexpr (bits<A> && bits<B>) \\
            look<decltype(a sign b), L, A, true>(a, b, id, [](long long a, long long b) {{ return a sign b; }}); \\
        return a sign##= b; \\
    }}
OP(plus, +) OP(minus, -) OP(times, *) OP(shift, <<) TO(plus, +) TO(minus, -) TO(times, *)
#undef OP
#undef TO
}}
"""


@dataclass(frozen=True)
class Noted:
    """text: of the file in which operations are noted; places: those, by number."""

    text: str
    places: list[Piece]


def may_pass(source: str, threads: int, given: Mapping[str, object]) -> bool:
    """Whether numbers as large as those given, multiplied with one another, may be more than an int holds."""
    factors = [threads, *(abs(int(v)) for v in given.values() if isinstance(v, np.integer))]
    data = [v for v in given.values() if isinstance(v, np.ndarray) and v.dtype.kind in "iu" and v.size]
    factors += 2 * [max((max(abs(int(v.max())), abs(int(v.min()))) for v in data), default=1)]
    factors.append(max((int(n) for n in re.findall(r"(?<![\w.])[1-9]\d{1,8}(?![\w.])", source)), default=1))
    factors.append(max(tunables(source).values(), default=1))
    return sum(math.log2(f) for f in factors if f > 1) >= BITS


def noting(source: str) -> Noted | None:
    """None where there is nothing to note."""
    file, places, edits = read(source), [], []
    macros = {m.name for m in file.macros if not _is_one_operand(m)}
    for function in file.functions:
        if not {"__device__", "__global__"}.intersection(function.words):
            continue
        for piece in function.body.all("binary_expression", "assignment_expression"):
            sign = piece.part("operator")
            if (
                sign.code not in _SIGNS
                or piece.end - piece.start > LONGEST
                or macros.intersection(t.code for t in piece.tokens)
            ):
                continue
            if _mixes(piece) or any(piece.all("lambda_expression")):
                continue
            if sign.code == "<<" and piece.part("left").bare.kind == "number_literal":  # a bit
                continue
            to, last = _goes_to(piece)
            leaves = ", ".join(leaf.code for leaf in _leaves(file, piece))
            call = f"{_SPACE}::{_SIGNS[sign.code]}<decltype({_SPACE}::all({leaves})), {to}, {str(last).lower()}>("
            depth = piece.end - piece.start
            edits += [
                (piece.start, -depth, call),
                (sign.start, 0, ","),
                (piece.end, depth, f", {len(places)})"),
            ]
            places.append(piece)
    text = _PRELUDE % max(2 * len(places), 1) + _inserted(source, edits)
    return Noted(text, places) if places and len(text) <= MAX_SOURCE else None


def _inserted(source: str, edits: list[tuple[int, int, str]]) -> str:
    """edits: (place, order, what is put there); at one place, what ends comes first, the shortest before the others, then what
    begins, the longest first."""
    found, at = [], 0
    for place, _, text in sorted(edits, key=lambda e: (e[0], e[1] <= 0, e[1])):
        found += [source[at:place], text]
        at = place
        if text == ",":
            at += len(re.match(r"<<|[-+*]=?", source[place:])[0])
    return "".join(found) + source[at:]


def notes(noted: Noted, found: np.ndarray) -> Iterator[str]:
    """What is said. found: the numbers that the device has kept."""
    beyond = [
        (p, n) for p, kept in zip(noted.places, found.reshape(-1, 2), strict=True) if (n := _number(*kept))
    ]
    inner = [(p, n) for p, n in beyond if not any(p != q and p.holds(q) for q, _ in beyond)]
    first: dict[int, tuple[Piece, int]] = {}
    for piece, number in inner:
        first.setdefault(piece.line, (piece, number))
    for line, (piece, number) in sorted(first.items())[:MOST_NOTES]:
        code, wide = plain(piece), ""
        if piece.kind == "binary_expression" and not re.search(r"long long|64|size_t", code):
            wide = f" compute it in 64 bits, as (long long){code},"
        yield (
            f"line {line}: {code} is {number:,}, which does not fit into an int:{wide}{' and' * bool(wide)} keep it in a long long, or"
            " use unsigned numbers if it is to wrap."
        )


def _number(positive: int, negative: int) -> int:
    return int(positive) or (~int(negative) if negative else 0)


def _leaves(file: CudaText, piece: Piece) -> list[Piece]:
    """What is added or multiplied, except what is unsigned only because threadIdx and the like are."""
    found, work = [], [piece]
    while work:
        e = work.pop().bare
        if e == piece or e.kind == "binary_expression" and e.part("operator").code in _SIGNS:
            work += [e.part("right"), e.part("left")]
        elif e.kind == "unary_expression" and e.part("operator").code == "-":
            work.append(e.part("argument"))
        elif not _is_of_threads(file, e):
            found.append(e)
    return found


def _is_of_threads(file: CudaText, e: Piece) -> bool:
    """Whether it is threadIdx.x or the like, or an unsigned variable that counts threads: computed from it, and no hash."""
    if e.kind == "field_expression":
        return e.part("argument").code in BUILTINS
    variable = file.variable_at(e.code, e.start) if e.kind == "identifier" else None
    if not variable or variable.type not in _UNSIGNED or not variable.value:
        return False
    value = variable.value
    members = (m.part("argument").code for m in value.all("field_expression"))
    return (
        any(m in BUILTINS for m in members)
        and not _has_large(value)
        and not any(map(_is_mix, _binary(value)))
    )


def _binary(e: Piece) -> Iterator[Piece]:
    return e.all("binary_expression", "assignment_expression")


def _is_mix(e: Piece) -> bool:
    return e.part("operator").code in _MIXES


def _has_large(e: Piece) -> bool:
    numbers = (re.sub(r"[uUlL]+$", "", n.code.replace("'", "")) for n in e.all("number_literal"))
    return any(
        re.fullmatch(r"0[xX]\w+|\d+", n) and int(n, 0 if n[:1] != "0" or n[1:2] in "xX" else 8) >= _LARGE
        for n in numbers
    )


def _root(piece: Piece) -> Piece:
    """The whole sum or product that it is a part of."""
    while piece.outer and (
        piece.outer.kind == "parenthesized_expression"
        or (
            piece.outer.kind in ("binary_expression", "unary_expression")
            and piece.outer.part("operator").code in _SIGNS
        )
    ):
        piece = piece.outer
    return piece


def _mixes(piece: Piece) -> bool:
    """Whether only some of its bits are wanted."""
    root = _root(piece)
    outer = root.outer
    if not outer or outer.kind not in ("binary_expression", "assignment_expression") or not _is_mix(outer):
        return outer is not None and outer.kind == "unary_expression" and outer.part("operator").code == "~"
    return not outer.part("operator").code.startswith(">>") or _has_large(root)


def _goes_to(piece: Piece) -> tuple[str, bool]:
    """The type of the variable that its sum is put into, void if that is not known; whether it is all of that sum."""
    root = _root(piece)
    outer, kept = root.outer, "void"
    if outer and outer.kind == "init_declarator":
        plainly = outer.part("declarator").kind == "identifier" and outer.outer.part("type")
        kept = "int" if plainly and plainly.code in _INT else kept
    elif (
        outer
        and outer.kind == "assignment_expression"
        and outer.part("operator").code == "="
        and outer.part("right") == root
    ):
        kept = f"decltype({outer.part('left').code})"
    return kept, root.bare == piece and not _has_large(root) and not any(root.all("call_expression"))


def _is_one_operand(macro: Macro) -> bool:
    """Whether its text stays together wherever it is put."""
    value = macro.value.strip()
    return bool(re.fullmatch(r"[\w.]*|\([^()]*\)", value))
