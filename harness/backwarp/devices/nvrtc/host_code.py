"""Host code in a kernel file: what nvcc compiles for the CPU is blanked out, so the kernels keep their line
numbers.

NVRTC accepts only device code. A file for nvcc also has a `main`, launches and containers; `without` blanks
what no device code names: functions, variables and types, includes of host libraries, and what `#ifndef
__CUDACC_RTC__` hides. A function that device code calls stays even if its `__device__` is missing, unless
device code has one of that name: the compiler's message about that is better.

A class that device code needs keeps its fields. Its host methods go; its host constructors, destructors and
operators are called without being named, so they become `= delete`, and a kernel that uses one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from backwarp.cuda import tree as cuda_tree
from backwarp.errors import Diagnostic

from .host_items import DECLARATIONS, Item, is_broken, items, outside_functions, parts
from .host_macros import Macros
from .host_signs import PROGRAM, has_literals, has_sign, is_host

if TYPE_CHECKING:
    from tree_sitter import Node

_RTC = re.compile(r"(?P<not>!?)(?:defined\(?)?__CUDACC_RTC__\)?")
_INCLUDE = re.compile(r"[<\"]([^>\"]*)[>\"]")
_NAMESPACE = re.compile(r"\bnamespace\s+(\w+)")

Edit = tuple[int, int, str]  # where, and what is there instead


def without(
    source: str, name: str, has: Callable[[str], bool], headers: str | None = None
) -> tuple[str, tuple[Diagnostic, ...]]:
    """The source with its host code blanked, so that lines and columns stay the same; a note that says where
    it was.

    has: whether a header of some name exists. In a file with host code, any other <header> counts as host
    code. headers: all that the file includes, of any size, as one text, which is then also in front of the
    result; so all code is known, and what has no sign of being host code may be left out too.
    """
    whole = headers is not None
    file, source = source, (headers or "") + source
    if not whole and not has_sign(source) and not has_literals(source):
        return source, ()
    macros = Macros.of(source)
    calls = list(macros.calls(source))
    plain = _replaced(source, calls)
    root = cuda_tree.outline(plain, macros.blanks) if whole else cuda_tree.parse(plain)
    edits = list(_compound_literals(root, source)) if has_literals(source) else []
    dead: list[tuple[int, int]] = []
    if whole or has_sign(source):
        program = not whole and bool(PROGRAM.search(source))
        hidden = [*_hidden(root, source), *_host_includes(root, program, has)]
        found = items(root, source, {n.id for n in hidden}, macros)
        if not whole or is_broken(root, source):
            for item in found:
                item.host = item.host and not item.is_call
            calls = [call for call in calls if whole and call[2]]
        unneeded = _unneeded(found, whole)
        kept = [i for i in found if i not in unneeded]
        dead = [(n.start_byte, n.end_byte) for n in hidden] + [(i.from_, i.end) for i in unneeded]
        dead += [(a, b) for a, b, stand_in in calls if not stand_in and not _is_inside(a, b, kept)]
        edits += [e for i in kept for e in _deletions(i)]
        edits += list(_unknown_namespaces(found, source)) if whole else []
    if not dead and not edits:
        return source, ()
    text = _replaced(source, [*edits, *((a, b, "") for a, b in dead)])
    places = [(max(a - len(source) + len(file), 0), b - len(source) + len(file)) for a, b in dead]
    lines = sorted({k for a, b in places if b > 0 for k in _lines_of(file, a, b)})
    if not lines:
        return text, ()
    said = f"Host code in {_ranges(lines)} is left out: only kernels and what they call run here."
    return text, (Diagnostic("note", said, name, lines[0], 0, file.split("\n")[lines[0] - 1]),)


def _replaced(text: str, edits: Iterable[Edit]) -> str:
    """The text after some edits, with every line in its place; of two that overlap, the one that begins first counts."""
    pieces, at = [], 0
    for start, end, new in sorted(edits, key=lambda e: (e[0], -e[1] if e[0] < e[1] else 0)):
        if end < at or end == at and start < end:
            continue
        start = max(start, at)
        old = text[start:end]
        pieces += [
            text[at:start],
            new,
            re.sub(r"[^\n]", " ", old)[len(new) if "\n" not in old[: len(new)] else 0 :],
        ]
        at = end
    return "".join([*pieces, text[at:]])


def _lines_of(text: str, start: int, end: int) -> range:
    """The lines with something in a part of the text."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    first = text.count("\n", 0, start) + 1
    return range(first, first + text[start:end].rstrip().count("\n") + 1) if part.strip() else range(0)


def _ranges(lines: list[int]) -> str:
    """`line 3`, `lines 1-4 and 9`."""
    pairs: list[list[int]] = []
    for line in lines:
        if pairs and line == pairs[-1][1] + 1:
            pairs[-1][1] = line
        else:
            pairs.append([line, line])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in pairs]
    if len(texts) > 4:
        return f"{len(lines)} lines"
    listed = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
    return f"line {listed}" if lines[0] == lines[-1] else f"lines {listed}"


# ---- what is not needed ----------------------------------------------------------------------------------


def _header(include: Node) -> str:
    found = _INCLUDE.search(include.text.decode())
    return found[1] if found else ""


def _host_includes(root: Node, program: bool, has: Callable[[str], bool]) -> Iterator[Node]:
    for n in outside_functions(root):
        if n.type == "preproc_include":
            header = _header(n)
            if is_host(header) or program and b"<" in n.text and not has(header):
                yield n


def _hidden(root: Node, source: str) -> Iterator[Node]:
    """What `#ifndef __CUDACC_RTC__` and the like exclude, since it is defined here."""
    conditionals = ("preproc_ifdef", "preproc_if")
    for n in cuda_tree.walk(root) if "__CUDACC_RTC__" in source else ():
        if n.type not in conditionals:
            continue
        asked = n.child_by_field_name("name") or n.child_by_field_name("condition")
        match = _RTC.fullmatch(re.sub(r"\s", "", asked.text.decode())) if asked else None
        if not match:
            continue
        other = n.child_by_field_name("alternative")
        if bool(match["not"]) != (n.children[0].type == "#ifndef"):
            yield from (c for c in n.named_children if c not in (asked, other))
        elif other and other.type == "preproc_else":
            yield from other.children[1:]


def _unneeded(found: list[Item], whole: bool) -> set[Item]:
    """The declarations that device code does not use, even indirectly. whole: see `without`."""
    needed = [i for i in found if not i.outer and (i.device or not i.names and not i.macro)]  # grows
    host = {name for i in found if i.host for name in i.names}
    defined = {name for i in found if i.inner.type == "function_definition" for name in i.names}
    for item in found if whole else ():  # what is only declared is defined for the host, elsewhere
        if item.function and not item.device and not item.outer and item.inner.type in DECLARATIONS:
            item.host = item.host or not item.names & defined
    methods = {(name, m) for i in found for name in i.names for m in i.device_methods}
    special = {name for i in found if i.special for name in i.names}
    for item in found:
        if item.of_class and not item.device:  # as it is declared in its class
            (name,) = item.names
            item.device = (item.of_class, name) in methods
            item.host = not item.device and item.of_class in special and name in (item.of_class, "operator")
    needed = [
        i for i in found if not i.outer and (i.device or not i.names and not i.macro and not i.host)
    ]  # grows
    host = {name for i in found if i.host for name in i.names}
    for item in found:  # `template void run<int>(int*);` goes with its template
        goes = item.node.type == "template_instantiation" and not item.device and item.names <= host
        item.host = item.host or goes
    shared = {name for i in found if i.function and i.device for name in i.names}
    waiting = dict.fromkeys(i for i in found if (i.names or i.outer) and not i.device and not i.host)
    by_name: dict[tuple[str, str], list[Item]] = {}
    for item in waiting:
        kind = "method" if item.outer else "function" if item.function else ""
        for name in item.names:
            by_name.setdefault((kind, name), []).append(item)
    members: set[str] = set()
    while needed:
        item = needed.pop()
        words, called, own = item.uses
        members |= own - shared
        for key in (*(("", word) for word in words), *(("function", name) for name in called - shared)):
            more = [other for other in by_name.pop(key, ()) if other in waiting]
            needed += more
            for other in more:
                del waiting[other]
        if not needed:  # a method is called, of a class that is needed
            for name in members:
                more = [
                    i for i in by_name.get(("method", name), ()) if i in waiting and i.outer not in waiting
                ]
                needed += more
                for other in more:
                    del waiting[other]
    gone = {i for i in (*waiting, *(i for i in found if i.host)) if not i.macro}
    return gone | {i for i in found if i.outer in gone}


def _deletions(item: Item) -> Iterator[Edit]:
    """Its host constructors and operators as `= delete`, and destructors as empty, since a derived class calls them; those
    with types of host libraries go."""
    for node in item.special:
        start, head, end = parts(node)
        text = item.text[start:head]
        if "std::" in text:
            yield node.start_byte, end, ""
        elif "~" in text:
            yield start, start, "__device__ "
            yield head, end, " {}"
        else:
            yield head, end, " = delete;"


def _unknown_namespaces(found: list[Item], source: str) -> Iterator[Edit]:
    """A namespace whose headers are all left out is still there for `using namespace`."""
    known = None
    for item in found:
        if item.node.type == "using_declaration" and any(c.type == "namespace" for c in item.node.children):
            known = known or {*_NAMESPACE.findall(re.sub(r"\busing\s+namespace\b", "", source))}
            used = item.node.named_children[-1].text.decode().strip(":")
            if used.split("::")[0] not in known and re.fullmatch(r"\w+(?:::\w+)*", used):
                parts = used.split("::")
                opened = "".join(f"namespace {p}{{" for p in parts) + "}" * len(parts)
                yield item.node.start_byte, item.node.end_byte, f"{opened} using namespace {used};"


def _is_inside(start: int, end: int, kept: list[Item]) -> bool:
    return any(i.start < end and start < i.end for i in kept)


def _compound_literals(root: Node, source: str) -> Iterator[Edit]:
    """`(struct P){1, 2}`, which C and g++ have, as `P{1, 2}`."""
    for n in cuda_tree.walk(root):
        if n.type == "compound_literal_expression" and n.children[0].type == "(":
            opening, kind, closing = n.children[:3]
            name = kind.text.decode()
            if closing.type == ")" and re.fullmatch(r"(?:struct\s+)?[A-Za-z_][\w:]*", name):
                text = source[opening.start_byte : closing.end_byte]
                plain = name.split()[-1]
                yield opening.start_byte, closing.end_byte, " " * (len(text) - len(plain)) + plain
