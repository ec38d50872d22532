"""Reads the rows of `isa`: which spellings of opcodes exist, and what each means (an `Op`)."""

from __future__ import annotations

import re
from functools import cache
from itertools import permutations, product

from .isa import CLASSES, TABLE
from .op import Op
from .types import BITS

_MEMORY = ("load", "store", "atomic", "reduction", "copy")
_FLOW = ("branch", "switch", "return", "exit", "trap", "call")
_COLLECTIVE = ("block", "warp", "matrix", "group", "cluster")
_COUNTS = ("integer", "division", "add", "mul", "fma", "minmax", "other", "tensor")
_FLAGS = (
    "mark",
    "async",
    "bulk",
    "texture",
    "surface",
    "waits",
    "orders",
    "own",
    "nothing",
    "wide",
    "takes-carry",
    "leaves-carry",
    "bitwise",
)
_MOVES = ("moves=a", "moves=ab", "chooses")
_FORMULAS = tuple(f"address={formula}" for formula in ("a", "a?", "a|b", "a+b", "a-b", "c+a*b"))
_FACTS = {*_MEMORY, *_FLOW, *_COLLECTIVE, *_COUNTS, *_FLAGS, *_MOVES, *_FORMULAS}
_COMBINES = {"and", "or", "xor"}
# opcodes whose modifiers ptxas accepts in any order, except for types
_ANY_ORDER = frozenset(
    """
    ld ldu st atom red ldmatrix stmatrix mma cvt add sub mul fma min max set setp vote shfl match redux fence prefetch bfind
    """.split()
)
_OF_THE_NAME = {"lo", "hi", "wide"}  # as in mul.lo
_MOST_MOVED = 6  # modifiers: 720 orders


@cache
def find(opcode: str) -> Op | None:
    """The Op of a full spelling; None if the virtual GPU does not have it."""
    for pattern, operands, facts in _rows().get(opcode.split(".", 1)[0], ()):
        if match := compiled(pattern).fullmatch(opcode):
            operation = match["operation"] if "!" in pattern else ""
            return _op(opcode, operation, pattern, "" if operands == "..." else operands, facts.split())
    return None


@cache
def in_order(opcode: str) -> str:
    """A spelling with its modifiers in the table's order, if only their order differs; others unchanged."""
    base, *mods = opcode.split(".")
    moved, fixed = [mod for mod in mods if mod not in BITS], [mod for mod in mods if mod in BITS]
    if (
        base not in _ANY_ORDER
        or len(moved) > _MOST_MOVED
        or not _OF_THE_NAME.isdisjoint(moved)
        or find(opcode)
    ):
        return opcode
    layouts = [mod for mod in moved if mod in ("row", "col")]  # A's, then B's
    for order in permutations(moved):
        spelling = ".".join((base, *order, *fixed))
        if find(spelling) and [mod for mod in order if mod in layouts] == layouts:
            return spelling
    return opcode


def compiled(pattern: str) -> re.Pattern:
    """The regular expression of a pattern in the manual's notation."""
    while "<" in pattern:
        pattern = re.sub(
            r"<(\w+)>", lambda m: CLASSES[m[1]] if m[1] == "order" else f"({CLASSES[m[1]]})", pattern
        )
    pattern = re.sub(
        r"!(\w+|\([^)]*\))", r"(?P<operation>\1)", pattern.replace("{", "(?:").replace("}", ")?")
    )
    return re.compile(pattern.replace(".", r"\."))


@cache
def rows() -> tuple[tuple[str, str, str], ...]:
    """(pattern, operands, facts) of the table."""
    found = []
    for line in re.sub(r"\n {10,}", "  ", TABLE).splitlines():
        if line.startswith("  "):
            pattern, *columns = re.split(r"\s{2,}", line.strip())
            facts = columns.pop() if columns and _FACTS.issuperset(columns[-1].split()) else ""
            found.append((pattern, columns[0] if columns else "", facts))
    return tuple(found)


@cache
def _rows() -> dict[str, list[tuple[str, str, str]]]:
    """Opcode up to its first dot -> its rows."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for row in rows():
        heads = re.match(r"[^.{<]+", row[0])[0]
        choices = [part.strip("()").split("|") for part in re.findall(r"\([^)]*\)|[^()]+", heads)]
        for base in map("".join, product(*choices)):
            found.setdefault(base, []).append(row)
    return found


def _op(opcode: str, operation: str, pattern: str, operands: str, facts: list[str]) -> Op:
    mods = opcode.split(".")
    if "{.<bool>}" in pattern:  # the predicate goes with the modifier
        operands = operands.replace("{, c:pred}", ", c:pred" * (not _COMBINES.isdisjoint(mods)))
    for modifier, operand in (("hint", ", h:b64"), ("multicast", ", k:u16")):
        if f"{{.<{modifier}>}}" in pattern:
            operands = operands.replace(f"{{{operand}}}", operand * (CLASSES[modifier] in mods))

    def one(words) -> str:
        return next((fact for fact in facts if fact in words), "")

    groups = map(one, (_MEMORY, _FLOW, _COLLECTIVE, _COUNTS))
    return Op(opcode, operation, operands, *groups, frozenset(facts))
