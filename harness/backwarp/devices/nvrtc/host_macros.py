"""The macros of a kernel file, as `host_items` needs them: a parser does not expand them, and takes those that stand for
specifiers, declarations or braces for something else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from backwarp.cuda import tree as cuda_tree

DEVICE = re.compile(r"\b(?:__global__|__device__|__constant__|__shared__|__managed__|__grid_constant__)\b")
NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?P<arguments>\([^)\n]*\))?(?P<value>(?:\\\r?\n|[^\n])*)",
    re.MULTILINE,
)
# what a macro before a declaration, or one that is called outside functions, stands for
_ATTRIBUTE = re.compile(r"\s*(?:(?:__attribute__|__declspec)\s*\(.*\)|\[\[.*\]\])?\s*", re.DOTALL)
_FUNCTION = re.compile(r"\A[^;{}=]*\w\s*\([^;{}]*\)[^;{}()=]*\{", re.DOTALL)
_STATEMENT = re.compile(r"\s*(?:if|for|while|do|switch|return|else|try)\b")
_DECLARES = re.compile(r"\b(?:struct|class|union|enum|typedef|using|constexpr|static_assert)\b")
_DECLARED = re.compile(r"\s*(?:[\w:]+[\s*&]+)+\w+\s*\(")


@dataclass(frozen=True)
class Macros:
    """The macros of a text. device: those that stand for `__device__` and the like. blanks: those without arguments that
    stand for no expression. called: those with arguments that stand for an attribute, for the definition of a host
    function, or for an argument that declares one. braces: what stands for those that open or close braces."""

    device: frozenset[str]
    blanks: frozenset[str]
    called: frozenset[str]
    braces: dict[str, str]
    types: frozenset[str]  # those that declare types or constants
    passing: frozenset[str]  # those of `called` that stand for an argument

    @classmethod
    def of(cls, text: str) -> Macros:
        found: dict[str, list[tuple[str, str]]] = {}  # a macro may have several definitions
        for m in _DEFINE.finditer(text):
            value = NOT_CODE.sub(" ", m["value"].replace("\\\n", "\n"))
            found.setdefault(m["name"], []).append((m["arguments"] or "", value))
        values = {name: " ".join(value for _, value in all_) for name, all_ in found.items()}
        device = {name for name, value in values.items() if DEVICE.search(value)}
        words = {name: set(re.findall(r"\w+", value)) for name, value in values.items()}
        while more := {name for name in found if name not in device and words[name] & device}:
            device |= more
        braces = {n: _balance(all_[0][1]) for n, all_ in found.items() if all(_balance(v) for _, v in all_)}
        blanks = {
            n for n, all_ in found.items() if any(not a and cuda_tree.is_no_expression(v) for a, v in all_)
        }
        called = {n for n, all_ in found.items() if all(a and _is_called_outside(a, v) for a, v in all_)}
        passing = {n for n in called if any(_passes(a, v) for a, v in found[n])}
        types = {name for name, value in values.items() if _DECLARES.search(value)}
        return cls(
            frozenset(device),
            frozenset(blanks - braces.keys()),
            frozenset(called - device),
            braces,
            frozenset(types),
            frozenset(passing),
        )

    def calls(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where macros of `called` and `braces` are called at the beginning of a line, and what stands for them."""
        names = "|".join(map(re.escape, sorted({*self.called, *self.braces})))
        last = 0
        for match in re.finditer(rf"^[ \t]*({names})\b[ \t]*(\()?", text, re.MULTILINE) if names else ():
            if match.start() < last:
                continue
            last = _closing(text, match.end() - 1) if match[2] else match.end()
            if not last:
                break
            stand_in = self.braces.get(match[1], "")
            host = match[2] and not DEVICE.search(text, match.start(), last)
            if match[1] in self.passing:  # a statement in a kernel may be one of them too
                host = host and _DECLARED.match(text, match.end(), last)
            if stand_in or host:
                yield match.start(), last, stand_in


def _balance(value: str) -> str:
    """Text that a parser can read for the value of a macro that opens or closes braces; "" for another."""
    opened = value.count("{") - value.count("}")
    if opened == 1:
        return "int f(){" if re.search(r"\)[^)=]*\{\s*\Z", value) else "int f[]={"
    return "};" if opened == -1 else ""


def _is_called_outside(arguments: str, value: str) -> bool:
    """Whether a macro is called outside functions: see `Macros.called`."""
    names = re.findall(r"\w+", arguments)
    plain = re.sub(rf"\b(?:{'|'.join(names)})\b", "", value) if names else value
    return bool(_ATTRIBUTE.fullmatch(plain)) or bool(_FUNCTION.match(value)) and not _STATEMENT.match(value)


def _passes(arguments: str, value: str) -> bool:
    """Whether a macro's argument is in its value outside attributes."""
    plain = re.sub(r"(?:__attribute__|__declspec)\s*\(.*\)|\[\[.*\]\]", "", value, flags=re.DOTALL)
    return bool(set(re.findall(r"\w+", arguments)) & set(re.findall(r"\w+", plain))) and not _FUNCTION.match(
        value
    )


def _closing(text: str, opening: int) -> int:
    """The place after the parenthesis that closes the one at `opening`; 0 if there is none."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, opening):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return 0
