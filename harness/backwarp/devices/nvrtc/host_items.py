"""The declarations of a kernel file, as `host_code` needs them: what each declares, uses and calls, and whether it
is device code.

Only what stands outside functions is visited, so that a host library of megabytes in one header is read in
seconds; the text of an item is looked into when device code turns out to need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from .host_macros import DEVICE, NOT_CODE, Macros
from .host_signs import PROGRAM

if TYPE_CHECKING:
    from tree_sitter import Node

_INSIDE = ("declaration_list", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "ERROR")
_IN_CLASS = (*_INSIDE[1:], "field_declaration_list", "template_declaration")
RECORDS = ("struct_specifier", "class_specifier", "union_specifier")
_TYPES = (*RECORDS, "enum_specifier")
DECLARATIONS = ("declaration", "field_declaration")
_PARAMETERS = """
    parameter_declaration optional_parameter_declaration type_parameter_declaration
    variadic_parameter_declaration
""".split()
_WRAPPED = ("template_declaration", "linkage_specification", "friend_declaration")
_HOST_NAMESPACES = (
    "std::chrono",
    "std::filesystem",
    "std::string_literals",
    "std::placeholders",
    "std::this_thread",
)
_USED = re.compile(r"(?P<member>\.\s*|->\s*|::\s*)?\b(?P<name>[A-Za-z_]\w*)(?P<call>\s*(?:\(|<))?")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_CALL = re.compile(r"[A-Z_][A-Z0-9_]*\s*\(")


@dataclass(eq=False)
class Item:
    """A declaration outside functions. start: where the one before it ends. methods: the host methods of a
    class, which are items of their own; special: its host constructors, destructors and operators; device_methods:
    the names of the others."""

    node: Node
    text: str  # of the file
    start: int
    end: int
    names: set[str]
    macros: Macros
    function: bool = False
    outer: Item | None = None
    methods: list[Item] = field(default_factory=list)
    special: list[Node] = field(default_factory=list)
    device_methods: set[str] = field(default_factory=set)

    @cached_property
    def inner(self) -> Node:
        return _inner(self.node)

    @cached_property
    def of_class(self) -> str:
        """The class of a member function that is defined outside of it."""
        declarator = (
            self.inner.child_by_field_name("declarator") if self.function and not self.outer else None
        )
        found = re.match(
            r"[\w:<>, ]*?(\w+)\s*(?:<[^()]*>)?\s*::\s*(?:~|operator\b|\w+\s*\()", _text(declarator)
        )
        return found[1] if found else ""

    @property
    def from_(self) -> int:
        """Where it begins, with the macros in front of it that no tree has, but not with a #pragma."""
        before = list(_DIRECTIVE.finditer(self.text, self.start, self.node.start_byte))
        return before[-1].end() if before else self.start

    @property
    def macro(self) -> bool:
        """Whether it is a directive: those stay, whether they are needed or not."""
        return self.node.type.startswith("preproc_")

    @cached_property
    def head(self) -> str:
        """Its text up to its body, if it is a function."""
        body = self.inner.child_by_field_name("body") if self.function else None
        return NOT_CODE.sub(" ", self.text[self.start : body.start_byte if body else self.node.end_byte])

    @cached_property
    def device(self) -> bool:
        words = set(re.findall(r"\w+", self.head))
        constant = "constexpr" in words and (not self.function or self.outer)
        return bool(DEVICE.search(self.head) or words & self.macros.device or constant)

    @cached_property
    def host(self) -> bool:
        """Whether it certainly is: it is main, launches kernels or calls CUDA's runtime."""
        if self.device or self.macro:
            return False
        if self.is_call:
            return not self.macros.types & set(re.findall(r"\w+", self.own))
        program = self.function and PROGRAM.search(self.own) and "constexpr" not in self.head
        return "main" in self.names or bool(program)

    @property
    def is_call(self) -> bool:
        """Whether it looks like a macro's call outside functions, and not like a statement of one that cannot be parsed."""
        first = self.node.type == "expression_statement" and self.node.start_point[1] == 0
        return (
            first and self.node.parent.type != "ERROR" and bool(_CALL.match(self.text, self.node.start_byte))
        )

    @cached_property
    def own(self) -> str:
        """Its text without that of its host methods, comments and strings."""
        text, at = [], self.node.start_byte
        for node in sorted((*(m.node for m in self.methods), *self.special), key=lambda n: n.start_byte):
            text.append(self.text[at : node.start_byte])
            at = max(at, node.end_byte)
        return NOT_CODE.sub(" ", "".join(text) + self.text[at : self.node.end_byte])

    @cached_property
    def uses(self) -> tuple[set[str], set[str], set[str]]:
        """The names that it uses, calls, and calls as members."""
        words, called, members = set(), set(), set()
        for match in _USED.finditer(self.own):
            words.add(match["name"])
            if match["call"] or self.macro:
                if match["member"]:
                    members.add(match["name"])
                if (match["member"] or ":").startswith(":"):
                    called.add(match["name"])
        if self.methods or "::" in self.head:
            members |= called
        nodes = [] if self.macro else _all(self.node, *DECLARATIONS, *_PARAMETERS)
        variables = {
            v for n in nodes for v in (declared(n) if n.type in DECLARATIONS else (declarator_name(n),))
        }
        return words - (variables - self.names), called, members


def items(root: Node, text: str, skipped: set[int], macros: Macros) -> list[Item]:
    """All declarations outside functions, also in namespaces, `extern "C"` and conditionals."""
    found, stack = [], [root]
    while stack:
        outer = stack.pop()
        last = 0 if outer is root else outer.start_byte
        for n in outer.children:
            body = n.child_by_field_name("body")
            if n.id in skipped or n.type == ";" or n.end_byte == n.start_byte + 1:
                pass
            elif n.type in _INSIDE:
                stack.append(n)
            elif body and body.type == "declaration_list":
                stack.append(body)
            elif n.is_named and n.type != "comment":
                inner = _inner(n)
                item = Item(n, text, last, _end(n), set(declared(inner)), macros, is_function(inner))
                found.append(item)
                if not item.function and not item.macro:
                    _add_methods(item)
                    found += item.methods
            last = n.end_byte
    return found


def is_broken(root: Node, text: str) -> bool:
    """Whether device code could not be parsed: parts of it may be outside functions then."""
    errors = (n for n in outside_functions(root) if n.type == "ERROR")
    return root.has_error and any(DEVICE.search(text, n.start_byte, n.end_byte) for n in errors)


def outside_functions(root: Node) -> Iterator[Node]:
    """All nodes outside functions and classes."""
    stack = [root]
    while stack:
        for n in stack.pop().children:
            yield n
            body = n.child_by_field_name("body")
            if n.type in _INSIDE or n.type in ("linkage_specification", "namespace_definition") and body:
                stack.append(body or n)


def _add_methods(item: Item) -> None:
    """Its member functions that are not device code."""
    classes = {
        _last_word(name): None for n in _all(item.node, *RECORDS) if (name := n.child_by_field_name("name"))
    }
    stack = list(_all(item.node, "field_declaration_list"))
    while stack:
        outer = stack.pop()
        last = outer.start_byte
        for n in outer.children:
            inner = _inner(n)
            if (
                n.type in _IN_CLASS
                and n.type != "template_declaration"
                and n.type != "field_declaration_list"
            ):
                stack.append(n)
            elif is_function(inner):
                name = declarator_name(inner)
                method = Item(n, item.text, last, n.end_byte, {name}, item.macros, True, item)
                special = _is_special(inner, item.text, classes)
                if method.device:
                    item.device_methods.add(name)
                elif not (special and _is_defaulted(inner)):
                    if special and n.type != "friend_declaration":
                        item.special.append(n)
                    else:
                        item.methods.append(method)
            last = n.end_byte


def _is_special(inner: Node, text: str, classes: Iterable[str]) -> bool:
    """Whether it is a constructor, destructor or operator, which is called without being named."""
    declarator = inner.child_by_field_name("declarator")
    head = text[inner.start_byte : _body_start(inner)]
    return "operator" in head or "~" in head or declarator_name(declarator or inner) in classes


def _is_defaulted(inner: Node) -> bool:
    return any(
        c.type in ("default_method_clause", "delete_method_clause") for c in inner.children
    ) and not any(c.type == "virtual" for c in inner.children)


def _body_start(inner: Node) -> int:
    body = inner.child_by_field_name("body")
    return body.start_byte if body else inner.end_byte


def parts(node: Node) -> tuple[int, int, int]:
    """Where a member function begins, apart from a template's parameters, where its head and where it ends."""
    inner = _inner(node)
    declarator = inner.child_by_field_name("declarator")
    while declarator.type not in ("function_declarator", "operator_cast"):
        declarator = _within(declarator)
    return inner.start_byte, declarator.end_byte, inner.end_byte


# ---- nodes -------------------------------------------------------------------------------------------------


def _inner(n: Node) -> Node:
    while n.type in _WRAPPED and n.named_children:
        n = n.named_children[-1]
    return n


def _text(n: Node | None) -> str:
    while n and n.type in ("pointer_declarator", "reference_declarator"):
        n = _within(n)
    return n.text.decode() if n else ""


def _end(n: Node) -> int:
    follows = n.type in _TYPES and n.next_sibling and n.next_sibling.type == ";"
    return n.next_sibling.end_byte if follows else n.end_byte


def _within(n: Node) -> Node | None:
    return n.child_by_field_name("declarator") or next(
        (c for c in n.named_children if c.type.endswith("declarator")), None
    )


def is_function(n: Node) -> bool:
    """Whether a declaration or definition is one of a function."""
    if n.type == "function_definition":
        return True
    if n.type not in DECLARATIONS:
        return False
    inner = n.child_by_field_name("declarator")
    while inner and inner.type in ("pointer_declarator", "reference_declarator"):
        inner = _within(inner)
    if inner is None or inner.type not in ("function_declarator", "operator_cast"):
        return False
    name = inner.child_by_field_name("declarator")
    return name is None or name.type != "parenthesized_declarator"


def declared(n: Node) -> Iterator[str]:
    """The names that a declaration introduces; none if it is not recognised as a declaration."""
    if n.type in (*_TYPES, "alias_declaration", "namespace_alias_definition"):
        if name := n.child_by_field_name("name"):
            yield _last_word(name)
        yield from (_last_word(c) for c in _all(n, "enumerator"))
    elif n.type in ("function_definition", "type_definition", "template_instantiation", *DECLARATIONS):
        for declarator in n.children_by_field_name("declarator"):
            yield declarator_name(declarator)
        kind = n.child_by_field_name("type")
        if kind and kind.child_by_field_name("body"):
            yield from declared(kind)
    elif n.type == "using_declaration":
        used = n.named_children[-1].text.decode()
        if used in _HOST_NAMESPACES or not any(c.type == "namespace" for c in n.children):
            yield _last_word(n.named_children[-1])
    elif n.type in ("preproc_def", "preproc_function_def"):
        yield n.child_by_field_name("name").text.decode()


def declarator_name(n: Node) -> str:
    while inner := _within(n):
        n = inner
    return _last_word(n)


def _last_word(n: Node) -> str:
    words = re.findall(r"[A-Za-z_]\w*", re.sub(r"<.*>", "", n.text.decode().split("=")[0]))
    return words[-1] if words else ""


def _all(n: Node, *kinds: str) -> Iterator[Node]:
    stack = [n]
    while stack:
        node = stack.pop()
        if node.type in kinds:
            yield node
        if node.child_count:
            stack.extend(reversed(node.children))
