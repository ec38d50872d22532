"""Tree-sitter's tree of a CUDA C++ file: parsing, and walking the nodes. `text.py` interprets it.

The grammar accepts any text: what is not C++ becomes ERROR nodes, and the rest is still parsed. Macros are
not expanded, and both branches of an `#if` are read, except for `#if 0`. Walks are iterative, since a tree
can be as deep as the text is long. Nodes count characters from 0. The parser is loaded on first use.
"""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

MAX_SOURCE = 256 << 10  # characters of a kernel file; the course's have about 2000
LOOPS = ("for_statement", "for_range_loop", "while_statement", "do_statement")
FUNCTIONS = ("function_definition", "lambda_expression")
#: nodes that limit the scope of names declared in them
SCOPES = """
    translation_unit compound_statement if_statement switch_statement catch_clause declaration_list
    field_declaration_list template_declaration
""".split()
SCOPES += (*LOOPS, *FUNCTIONS)
CONDITIONALS = ("preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef")
LITERALS = ("string_literal", "raw_string_literal", "char_literal")

# Only single characters are repeated possessively here: with groups, Python 3.11.2, Debian's, finds wrong matches.

# Syntax that the grammar does not know and nothing here needs: replaced by blanks.
_UNKNOWN = re.compile(
    r"\b(?:__align__|__cluster_dims__|__block_size__|__maxnreg__)[ \t]*\((?:[^(){};\n]|\([^(){};\n]*+\))*\)"
    r"|^[ \t]*\#[ \t]*pragma\b(?:\\\r?\n|(?!\*/|/\*|//)[^\n])*",
    re.MULTILINE,
)
# A macro with such a value stands for statements or specifiers.
_NO_EXPRESSION = re.compile(
    r"[;{}]|\A\s*\Z|\b(?:extern|static|inline|template|__\w+__)\b(?!\s*\()|\b__attribute__\b"
)
_WORD_OR_DIRECTIVE = re.compile(r"^[ \t]*+\#(?:\\\r?\n|[^\n])*|\b[A-Za-z_]\w*+(?!\s*\()", re.MULTILINE)


_JOINED, _MOST_ROUNDS = re.compile(r"&&|\|\|"), 8  # what stands in no template's arguments

_SECONDS_OF_ALL = 10.0  # the same for a file with all its headers
_SECONDS = 2.0  # seconds of processor time per text; the longest real file takes a tenth of one
_CHUNK = 1 << 10  # bytes passed to the parser at a time, and copied for the text of a node
_MOST_NODES, _DEEPEST = (
    50_000,
    250,
)  # most nodes and depth of a tree: ten times as many, and five times as deep, as the largest kernel here


def parse(text: str) -> Node:
    """The root of the tree of `text`; of an empty text if it is too long for a kernel file."""
    plain = _readable(text) if len(text) <= MAX_SOURCE else ""
    root = _root(plain)
    if root.has_error:
        blanks = {
            n for n, value, parameters in macros(root, text) if not parameters and is_no_expression(value)
        }
        if blanks:
            plain = _WORD_OR_DIRECTIVE.sub(lambda m: _blank(m[0]) if m[0] in blanks else m[0], plain)
            root = _root(plain)
    return _compared(root, plain)


def outline(text: str, blanks: Collection[str]) -> Node:
    """The root of the tree of a text of any size, for readers that look only at what is outside functions. blanks: macros
    that stand for statements or specifiers."""
    plain = _readable(text)
    if blanks:
        plain = _WORD_OR_DIRECTIVE.sub(lambda m: _blank(m[0]) if m[0] in blanks else m[0], plain)
    return (_tree(plain, _SECONDS_OF_ALL) or _tree("", _SECONDS)).root_node


def is_no_expression(value: str) -> bool:
    """Whether a macro's value is statements or specifiers."""
    return bool(_NO_EXPRESSION.search(value))


def _compared(root: Node, text: str) -> Node:
    """The root again, but where the grammar takes `y < H && x >` in `y < H && x >= 0` for a template's arguments: there it
    gets a sign to read that compares as well and begins no arguments."""
    for _ in range(_MOST_ROUNDS):
        places = {
            n.start_byte
            for n in walk(root)
            if n.type == "template_argument_list"
            and n.parent.type == "template_function"
            and _JOINED.search(text, n.start_byte, n.end_byte)
        }
        if not places:
            break
        text = "".join(">" if i in places else c for i, c in enumerate(text))
        other = _root(text)
        if other.has_error and not root.has_error:
            break
        root = other
    return root


def _root(text: str) -> Node:
    """The root of the tree, or of an empty text's if parsing takes too long (a hostile text can take
    quadratic time) or the tree is too large or deep: readers of a tree may recurse into it, and walk all of
    it once per node."""
    tree = _tree(text, _SECONDS)
    if tree is None or tree.root_node.descendant_count > _MOST_NODES or _is_too_deep(tree):
        tree = _parsers.own.parse(b"")
    return tree.root_node


def _tree(text: str, seconds: float) -> Tree | None:
    """None if parsing takes more processor time."""
    data, end = text.encode(), time.thread_time() + seconds
    try:
        return _parsers.own.parse(
            lambda at, _: data[at : at + _CHUNK], progress_callback=lambda *_: time.thread_time() > end
        )
    except ValueError:  # parsing was stopped
        _parsers.own.reset()
        return None


def _is_too_deep(tree: Tree) -> bool:
    at = tree.walk()
    while True:
        while at.goto_first_child():
            if at.depth > _DEEPEST:
                return True
        while not at.goto_next_sibling():
            if not at.goto_parent():
                return False


class _Parsers(threading.local):
    """Each thread has its own: while one parses, others may run."""

    @cached_property
    def own(self) -> Parser:
        import tree_sitter
        import tree_sitter_cuda

        return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


_parsers = _Parsers()


def _readable(text: str) -> str:
    """The text without what the grammar does not know, a byte for each character."""
    plain = _UNKNOWN.sub(lambda m: _blank(m[0]), text)
    return "".join(map(_ascii, plain)) if not plain.isascii() or "\0" in plain else plain


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _ascii(character: str) -> str:
    """Replaces a character by one byte, so that the parser's offsets are those of the text."""
    if character.isascii():
        return character if character != "\0" else " "
    return "_" if character.isalnum() else " " if character.isspace() else "?"


def walk(node: Node) -> Iterator[Node]:
    """All nodes of a tree in text order, except those excluded by `#if 0`."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        if node.child_count:
            stack.extend(reversed(_children(node)))


class Index:
    """The nodes of `walk`, by kind. Parts are queried so often that walking each time would dominate."""

    def __init__(self, root: Node):
        self._nodes, self._ends = [], []  # a node's end: the number of nodes up to its last descendant
        self._places, self._kinds = {}, {}
        stack: list[Node | int] = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, int):  # all descendants of the node at this place have been visited
                self._ends[node] = len(self._nodes)
                continue
            place = self._places[node.id] = len(self._nodes)
            self._kinds.setdefault(node.type, []).append(place)
            self._nodes.append(node)
            self._ends.append(place + 1)
            if node.child_count:
                stack.append(place)
                stack.extend(reversed(_children(node)))

    def below(self, node: Node, kinds: Iterable[str]) -> list[Node]:
        """The nodes of some kinds at or below `node`."""
        if node.id not in self._places:  # excluded by `#if 0`
            return [n for n in walk(node) if n.type in kinds]
        first, found = self._places[node.id], []
        for places in (self._kinds[kind] for kind in kinds if kind in self._kinds):
            found += places[bisect_left(places, first) : bisect_left(places, self._ends[first])]
        return [self._nodes[place] for place in sorted(found)]


def walk_depths(root: Node) -> Iterator[tuple[Node, int]]:
    """Like walk, but yields (node, how deep it is)."""
    stack = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        if node.child_count:
            stack.extend((child, depth + 1) for child in reversed(_children(node)))


def walk_scopes(root: Node) -> Iterator[tuple[Node, Node]]:
    """Like walk, but yields (node, its innermost scope)."""
    stack = [(root, root)]
    while stack:
        node, scope = stack.pop()
        yield node, scope
        if node.child_count:
            prototype = node.type == "function_declarator" and scope.type not in FUNCTIONS
            inner = node if prototype or node.type in SCOPES else scope
            stack.extend((child, inner) for child in reversed(_children(node)))


def tokens(root: Node) -> Iterator[Node]:
    """The words, punctuation and literals of a tree outside comments and directives."""
    stack = [root]
    while stack:
        n = stack.pop()
        if n.type in CONDITIONALS:
            asked = {child.id for name in ("condition", "name") for child in n.children_by_field_name(name)}
            stack.extend(c for c in reversed(_children(n)) if c.id not in asked and c.type != "\n")
        elif n.type == "comment" or n.type.startswith(("preproc_", "#")):
            continue
        elif n.child_count and n.type not in LITERALS:
            stack.extend(reversed(n.children))
        elif n.end_byte > n.start_byte:  # otherwise the parser inserted it for a missing one
            yield n


def macros(root: Node, text: str) -> Iterator[tuple[str, str, tuple[str, ...] | None]]:
    """(name, value, parameters, None without parentheses) of every `#define`."""

    def code(node: Node | None) -> str:
        return text[node.start_byte : node.end_byte] if node else ""

    for n in walk(root):
        if n.type in ("preproc_def", "preproc_function_def"):
            listed = n.child_by_field_name("parameters")
            names = tuple(map(code, listed.named_children)) if listed else None
            value = re.sub(r"\\\r?\n", " ", code(n.child_by_field_name("value")))
            yield code(n.child_by_field_name("name")), value, names


def first_of(node: Node, *kinds: str) -> Node | None:
    """The first child of one of the kinds."""
    return next((n for n in node.children if n.type in kinds), None)


def _children(node: Node) -> list[Node]:
    condition = node.child_by_field_name("condition") if node.type == "preproc_if" else None
    if condition and condition.type == "number_literal" and condition.text == b"0":
        return node.children_by_field_name("alternative")
    return node.children
