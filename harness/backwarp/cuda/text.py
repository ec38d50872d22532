"""The text of a CUDA C++ file, parsed: functions, variables, statements and names, each with its place.

`read(text)` accepts any text and finds what it can understand (see `tree.py` and `pieces.py`). A
place is a character index from 0; lines and columns count from 1. `values.py` evaluates integers and
extents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from ..once import once
from . import tree
from .pieces import Function, Macro, Piece, Variable, last_name
from .tree import first_of

if TYPE_CHECKING:
    from tree_sitter import Node

_DECLARATIONS = (
    "declaration",
    "parameter_declaration",
    "optional_parameter_declaration",
    "field_declaration",
    "for_range_loop",
)
_DECLARATORS = (
    "init_declarator",
    "array_declarator",
    "pointer_declarator",
    "reference_declarator",
    "parenthesized_declarator",
    "function_declarator",
    "attributed_declarator",
)
#: names behind the value of a variable, and how deep the trees of all these values are, beyond which it is not followed;
#: three times what any kernel here has
_MOST_BEHIND, _DEEPEST_BEHIND = 1000, 100
_RECORDS = ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier")


@lru_cache(maxsize=16)
def read(text: str) -> CudaText:
    """The parsed text; the same object for the same text."""
    return CudaText(text)


class CudaText:
    """A parsed file. All sequences are in text order."""

    def __init__(self, text: str):
        self.text, self.lines = text, text.split("\n")
        self.root = tree.parse(text)
        self._pieces: dict[int, Piece] = {}  # by node id
        self.answers: dict[tuple, object] = {}  # cached answers, see `remembered`

    def _code(self, node: Node) -> str:
        return self.text[node.start_byte : node.end_byte]

    @property
    def whole(self) -> Piece:
        return self.piece(self.root)

    def within(self, node: Node, kinds: Iterable[str]) -> list[Piece]:
        """The nodes of these kinds at or below `node`, in order."""
        return [self.piece(n) for n in self._index.below(node, kinds)]

    def piece(self, node: Node | None) -> Piece | None:
        """The piece of a node; always the same object, which holds cached answers."""
        if not node:
            return None
        if node.id not in self._pieces:
            self._pieces[node.id] = Piece(self, node)
        return self._pieces[node.id]

    @once
    def _index(self) -> tree.Index:
        return tree.Index(self.root)

    # -- what there is ------------------------------------------------------------------------------------

    @once
    def functions(self) -> tuple[Function, ...]:
        found, wholes = [], {}
        for n in tree.walk(self.root):
            whole = wholes.get(n.id, n)
            if n.type in ("template_declaration", "linkage_specification"):
                wholes |= {child.id: whole for child in n.named_children if child.type != "declaration_list"}
            elif n.type == "function_definition":
                found += self._function(n, whole)
        return tuple(found)

    @property
    def kernels(self) -> tuple[Function, ...]:
        return tuple(f for f in self.functions if f.is_kernel)

    def function(self, name: str) -> Function | None:
        """The only function of this name, or the only kernel among several."""
        found = [f for f in self.functions if f.name == name]
        found = found if len(found) == 1 else [f for f in found if f.is_kernel]
        return found[0] if len(found) == 1 else None

    @once
    def variables(self) -> tuple[Variable, ...]:
        """All declared variables, including parameters, members and enumerators."""
        return tuple(v for n, scope in tree.walk_scopes(self.root) for v in self._declared(n, scope))

    @once
    def macros(self) -> tuple[Macro, ...]:
        return tuple(Macro(*found) for found in tree.macros(self.root, self.text))

    @once
    def comments(self) -> tuple[Piece, ...]:
        return tuple(self.whole.all("comment"))

    @once
    def tokens(self) -> tuple[Piece, ...]:
        """Words, punctuation and literals outside comments and directives."""
        return tuple(self.piece(n) for n in tree.tokens(self.root))

    # -- at a place ---------------------------------------------------------------------------------------

    def line_start(self, line: int) -> int:
        """The place of the first non-blank character of a line."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return self._line_starts[max(min(line - 1, len(self.lines)), 0)] + len(text) - len(text.lstrip())

    @once
    def _line_starts(self) -> list[int]:
        return list(accumulate((len(text) + 1 for text in self.lines), initial=0))

    def around(self, place: int, *kinds: str) -> list[Piece]:
        """The pieces of these kinds (default: all) that contain the character at `place`, innermost first."""
        node, found = self.root, []
        while node is not None:
            if not kinds or node.type in kinds:
                found.append(self.piece(node))
            node = next((n for n in node.children if n.start_byte <= place < n.end_byte), None)
        return found[::-1]

    def function_at(self, line: int) -> Function | None:
        """The function that contains the beginning of a line."""
        place = self.line_start(line)
        inside = [f for f in self.functions if f.whole.start <= place < f.whole.end]
        return max(inside, key=lambda f: f.start, default=None)

    def named(self, name: str, place: int) -> list[Variable]:
        """The variables a name may refer to at a place; several if the innermost scope declares it more than
        once."""
        if name not in self._by_name:
            return []
        seen = [v for v in self._by_name[name] if v.start < place and self._holds(v.scope, place)]
        inner = max(((v.scope.start_byte, -v.scope.end_byte) for v in seen), default=None)
        return [v for v in seen if (v.scope.start_byte, -v.scope.end_byte) == inner]

    def _holds(self, scope: Node, place: int) -> bool:
        return scope == self.root or scope.start_byte <= place < scope.end_byte

    def names_at(self, place: int) -> dict[str, Variable]:
        """The variables visible at a place: declared before it, and not hidden."""
        return {name: found for name in self._by_name if (found := self.variable_at(name, place))}

    def variable_at(self, name: str, place: int) -> Variable | None:
        """The visible variable of this name."""
        key = "variable", name, place
        if key not in self.answers:
            found = [v for v in self.named(name, place) if v.end <= place]
            self.answers[key] = found[-1] if found else None
        return self.answers[key]

    def is_followed(self, variable: Variable) -> bool:
        """Whether what a variable is computed from takes little time to follow: it is not when, variable by variable,
        each uses the one before it twice, or there are too many."""
        size, depth = self._behind.get(variable.start, (0, 0))
        return size <= _MOST_BEHIND and depth <= _DEEPEST_BEHIND

    @once
    def _behind(self) -> dict[int, tuple[int, int]]:
        """By a variable's place: how many names one reads who follows its value, the names in that, and so on; and how
        deep the last of these is in the tree of all values."""
        found: dict[int, tuple[int, int]] = {}
        for v in self.variables:
            size = deepest = 0
            for n, depth in tree.walk_depths(v.value.node) if v.value else ():
                if n.type == "identifier":
                    known = self.variable_at(self._code(n), n.start_byte)
                    more, deeper = found.get(known.start, (0, 0)) if known else (0, 0)
                    size, deepest = size + 1 + more, max(deepest, depth + deeper)
            found[v.start] = min(size, _MOST_BEHIND + 1), min(deepest, _DEEPEST_BEHIND + 1)
        return found

    @once
    def _by_name(self) -> dict[str, list[Variable]]:
        found: dict[str, list[Variable]] = {}
        for v in self.variables:
            found.setdefault(v.name, []).append(v)
        return found

    def members(self, name: str) -> list[Variable]:
        """The members of this name of all structs."""
        return [v for v in self._by_name.get(name, ()) if v.node.parent.type == "field_declaration"]

    def subscripts(self, array: str, line: int) -> list[Piece]:
        """The elements `array[...][...]` on a line, the innermost brackets last."""
        start = self.line_start(line)
        end = start + len(self.lines[line - 1].lstrip()) if 0 < line <= len(self.lines) else start
        found, inner = [], set()
        for piece in self.whole.all("subscript_expression"):
            if piece.node.id not in inner:
                first = piece.node
                while first.type == "subscript_expression":
                    first = first.children[0]
                    inner.add(first.id)
                if start <= first.start_byte < end and self._code(first) == array:
                    found.append(piece)
        return found

    # -- declarations -------------------------------------------------------------------------------------

    def _function(self, node: Node, whole: Node) -> Iterator[Function]:
        declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
        while declarator and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator") or first_of(
                declarator, "function_declarator"
            )
        name = declarator and declarator.child_by_field_name("declarator")
        if not name or not body:
            return
        listed, templates, outer = declarator.child_by_field_name("parameters"), (), whole
        while outer and outer != node:
            if outer.type == "template_declaration" and (names := outer.child_by_field_name("parameters")):
                templates = tuple(self._code(n) for p in names.named_children for n in _parameter_name(p))
            outer = first_of(outer, "template_declaration", "linkage_specification", "function_definition")
        parameters = [v for p in listed.named_children for v in self._declared(p, node)] if listed else []
        yield Function(
            self,
            node,
            last_name(self.piece(name)),
            self._words(node),
            tuple(parameters),
            templates,
            self.piece(body),
            self.piece(whole),
            name.start_point[0] + 1,
        )

    def _words(self, node: Node) -> tuple[str, ...]:
        """static, const, __shared__ and the like of a declaration."""
        type_, words = node.child_by_field_name("type"), []
        for n in node.children:
            if n.type in _DECLARATORS or n.type in ("identifier", "field_identifier", "compound_statement"):
                break
            if n != type_ and n.end_byte > n.start_byte and n.type not in ("comment", "launch_bounds"):
                words.append(self._code(n))
        return tuple(words)

    def _declared(self, node: Node, scope: Node) -> Iterator[Variable]:
        if node.type == "enumerator":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            yield Variable(
                self, node, self._code(name), "enum", ("const",), value=self.piece(value), scope=scope
            )
        if node.type not in _DECLARATIONS:
            return
        words = self._words(node)
        if node.type == "for_range_loop":
            scope, words = node, ()
        type_ = node.child_by_field_name("type")
        name = type_ and (type_.child_by_field_name("name") if type_.type in _RECORDS else type_)
        default = node.child_by_field_name("default_value") or node.child_by_field_name("value")
        for declarator in node.children_by_field_name("declarator"):
            yield from self._declarator(declarator, self._code(name) if name else "", words, default, scope)

    def _declarator(
        self, node: Node, type_: str, words, value: Node | None, scope: Node
    ) -> Iterator[Variable]:
        extents, pointer, inner = [], False, node
        while inner is not None and inner.type in _DECLARATORS:
            if inner.type == "function_declarator" and inner.children[0].type != "parenthesized_declarator":
                return
            if inner.type == "init_declarator":
                value = inner.child_by_field_name("value")
            elif inner.type == "array_declarator":
                extents.append(self.piece(inner.child_by_field_name("size")))
            pointer |= inner.type in ("pointer_declarator", "reference_declarator")
            inner = inner.child_by_field_name("declarator") or first_of(inner, *_DECLARATORS, "identifier")
        names = [inner] if inner is not None else []
        if inner is not None and inner.type == "structured_binding_declarator":
            names = inner.named_children
        for name in names:
            if name.type in ("identifier", "field_identifier"):
                yield Variable(
                    self,
                    node,
                    self._code(name),
                    type_,
                    words,
                    pointer,
                    tuple(extents[::-1]),
                    self.piece(value),
                    scope,
                )


def edited(text: str, edits: Iterable[tuple[Piece, str]]) -> str:
    """`text` with some pieces replaced; they must not overlap."""
    for piece, new in sorted(edits, key=lambda e: e[0].start, reverse=True):
        text = text[: piece.start] + new + text[piece.end :]
    return text


def _parameter_name(parameter: Node) -> list[Node]:
    """The name of a parameter of a template: the last word before its default."""
    default = parameter.child_by_field_name("default_value") or parameter.child_by_field_name("default_type")
    names = [n for n in tree.walk(parameter) if n.type in ("identifier", "type_identifier")]
    return [n for n in names if not default or n.end_byte <= default.start_byte][-1:]
