"""A puzzle's declaration as students get it: without hidden cases, without mistakes (which are edits of the
solution), and without the code that only these used.

The text is edited, not regenerated, so that the rest stays as its author wrote it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from ..course.declare import Case, Mistake
from ..course.parameters import require

Edit = tuple[int, int, bytes]  # from, to (in bytes), replacement


def for_students(text: str, name: str) -> str:
    """name: the file's name, for messages. Errors: CourseError if something hidden would remain."""
    text = edited(text, list(hiding(text, name)))
    while (shorter := edited(text, list(unused(text)))) != text:
        text = shorter
    text = re.sub(r"\n{3,}", "\n\n\n", text)
    found = executed(text, name)
    hidden = [c.name for c in found["PUZZLE"].cases if is_hidden(c)]
    require(not hidden, f"{name}: the case {''.join(hidden[:1])!r} cannot be left out where it is written")
    require(not any(map(is_mistake, found.values())), f"{name}: its mistakes cannot be left out")
    return text


def executed(text: str, name: str) -> dict:
    namespace = {"__name__": "puzzles.exported", "__file__": name}
    exec(compile(text, name, "exec"), namespace)
    return namespace


def is_hidden(case: Case) -> bool:
    return case.hidden or case.stress


def is_mistake(value: object) -> bool:
    """Whether it is a Mistake or a tuple of them."""
    return isinstance(value, Mistake) or isinstance(value, tuple) and any(map(is_mistake, value))


# ---- what is hidden --------------------------------------------------------------------------------------


def hiding(text: str, name: str) -> Iterator[Edit]:
    """Removes mistakes and hidden cases from PUZZLE, and mistakes from every other name."""
    namespace, place = executed(text, name), Places(text)
    for statement in ast.parse(text).body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        bound = statement.targets[0].id
        if is_mistake(namespace[bound]):
            yield (*place.of(statement.value), b"()")
        if bound == "PUZZLE":
            for keyword in statement.value.keywords:
                if keyword.arg == "mistakes":
                    yield place.element(keyword)
                if keyword.arg == "cases":
                    yield from hidden_cases(keyword.value, namespace, place)


def hidden_cases(written: ast.expr, namespace: dict, place: Places) -> Iterator[Edit]:
    """The hidden cases in `(Case(...), *some_cases(), *these_kernels(..., Case(...)), ...)`."""
    yield from _hidden(getattr(written, "elts", []), namespace["PUZZLE"].cases, namespace, place)


def _hidden(elements: list[ast.expr], cases: Sequence[Case], namespace: dict, place: Places):
    """cases: what the elements are, in this order."""
    at = 0
    for element in elements:
        found = cases[at : at + _count(element, namespace)]
        if found and all(map(is_hidden, found)):
            yield place.element(element)
        elif any(map(is_hidden, found)) and isinstance(getattr(element, "value", None), ast.Call):
            given = [x for x in element.value.args if _count(x, namespace)]
            if sum(_count(x, namespace) for x in given) == len(found):
                yield from _hidden(given, found, namespace, place)
        at += len(found)


def _count(element: ast.expr, namespace: dict) -> int:
    """How many cases an element of a tuple is."""
    plain = element.value if isinstance(element, ast.Starred) else element
    value = eval(compile(ast.Expression(plain), "cases", "eval"), namespace)
    found = [*value] if isinstance(element, ast.Starred) else [value]
    return sum(isinstance(x, Case) for x in found)


# ---- what only that needed -------------------------------------------------------------------------------


def unused(text: str) -> Iterator[Edit]:
    """Removes names that nothing in the file uses, including imports."""
    tree, place = ast.parse(text), Places(text)
    read = [set(names(s, ast.Load)) for s in tree.body]

    def is_used(name: str, statement: int) -> bool:
        return name == "PUZZLE" or any(name in found for i, found in enumerate(read) if i != statement)

    for i, statement in enumerate(tree.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            if getattr(statement, "module", "") == "__future__":
                continue
            kept = [a for a in statement.names if is_used((a.asname or a.name).split(".")[0], i)]
            if not kept:
                yield place.element(statement)
            elif kept != statement.names:
                statement.names = kept
                yield (*place.of(statement), ast.unparse(statement).encode())
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            if not is_used(statement.name, i):
                yield place.element(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            if not any(is_used(name, i) for name in names(statement, ast.Store)):
                yield place.element(statement)


def names(node: ast.AST, context: type) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)]


# ---- places in the text ----------------------------------------------------------------------------------


class Places:
    """The positions of a file's syntax nodes, in bytes."""

    def __init__(self, text: str):
        self.text = text.encode()
        self.lines = [0]
        for line in self.text.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def of(self, node: ast.AST) -> tuple[int, int]:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        return self.lines[first - 1] + node.col_offset, self.lines[node.end_lineno - 1] + node.end_col_offset

    def element(self, node: ast.AST) -> Edit:
        """A list element or a statement, with its comma, its comments, and the lines that contain nothing
        else."""
        start, end = self.of(node)
        end = re.compile(rb"\s*,|").match(self.text, end).end()
        alone = re.compile(rb"(?:^[ \t]*#.*\n)*^[ \t]*\Z", re.MULTILINE).search(self.text[:start])
        rest = re.compile(rb"[ \t]*(?:#.*)?\n").match(self.text, end)
        if alone and rest:
            return alone.start(), rest.end(), b""
        return start, end, b""


def edited(text: str, edits: list[Edit]) -> str:
    data = text.encode()
    for start, end, instead in sorted(edits, reverse=True):
        data = data[:start] + instead + data[end:]
    return data.decode()
