"""The rows of `isa`, read: what one spelling of an opcode is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

from .isa import CLASSES, TABLE
from .types import BYTES, TYPES

CARRY = "%carry"  # what takes-carry and leaves-carry are about, as a register
_MEMORY = ("load", "store", "atomic", "reduction", "copy")
_FLOW = ("branch", "switch", "return", "exit", "call")
_COLLECTIVE = ("block", "warp", "matrix")
_COUNTS = ("integer", "division", "add", "mul", "fma", "other", "tensor")
_FLAGS = ("mark", "async", "waits", "orders", "own", "nothing", "wide", "takes-carry", "leaves-carry")
_FACTS = {*_MEMORY, *_FLOW, *_COLLECTIVE, *_COUNTS, *_FLAGS, "moves=a", "moves=ab"}
_SPACES = ("global", "shared", "local", "const", "param")
_ORDERING = ("volatile", "mmio", "relaxed", "acquire", "release", "acq_rel")
_PER_REGISTER = {"f16": 2, "bf16": 2, "s8": 4, "u8": 4}  # elements of a matrix


@dataclass(frozen=True)
class Role:
    """One operand. kind: "value" | "address" | "label" | "table" | "imm".

    type: what it is read or written as. pair: a predicate may, or must, stand behind it. lanes: the length of a vector,
    0 where it is none.
    """

    kind: str
    type: str = ""
    written: bool = False
    pair: str = ""  # "" | "may" | "must"
    lanes: int = 0


@dataclass(frozen=True)
class Op:
    """What one spelling is. Where nothing is said, "" or False.

    types: those among its modifiers. roles: of its operands, by how many there are. memory, flow, collective, counts and
    the flags: see the table. moves: positions of operands.
    """

    opcode: str
    types: tuple[str, ...]
    roles: dict[int, tuple[Role, ...]]
    memory: str
    flow: str
    collective: str
    counts: str
    moves: tuple[int, ...]
    facts: frozenset[str]

    def __hash__(self) -> int:
        return hash(self.opcode)

    @cached_property
    def mods(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])

    @property
    def type(self) -> str:
        return self.types[-1] if self.types else ""

    @cached_property
    def nbytes(self) -> int:
        """Of one element."""
        return BYTES.get(self.type, 0)

    @cached_property
    def lanes(self) -> int:
        """Elements that a load or store is of."""
        return 4 if "v4" in self.mods else 2 if "v2" in self.mods else 1

    @cached_property
    def space(self) -> str:
        """Of its address; "generic" where the spelling names none. Of a copy, where it goes to."""
        names = (mod.split("::")[0] for mod in self.mods)
        return next((name for name in names if name in _SPACES), "generic")

    @cached_property
    def ordering(self) -> str:
        """Of an access that is more than a plain one."""
        return next((mod for mod in self.mods if mod in _ORDERING), "") if self.memory else ""

    @cached_property
    def scope(self) -> str:
        old = {"gl": "gpu"} if self.opcode.startswith("membar") else {}
        return next(
            (old.get(m, m) for m in self.mods if old.get(m, m) in ("cta", "cluster", "gpu", "sys")), ""
        )

    @cached_property
    def has_result(self) -> bool:
        """Whether the first operand is written."""
        return any(roles and roles[0].written and roles[0].kind == "value" for roles in self.roles.values())

    @cached_property
    def address(self) -> int | None:
        """Which operand is the address; the first of two."""
        roles = next(iter(self.roles.values()))
        return next((i for i, role in enumerate(roles) if role.kind == "address"), None)

    @cached_property
    def ends_block(self) -> bool:
        """Whether another instruction than the next one may follow; after a call the next one does."""
        return self.flow not in ("", "call")

    @cached_property
    def leaves(self) -> bool:
        """Whether it leaves the function."""
        return self.flow in ("return", "exit")

    @cached_property
    def has_effects(self) -> bool:
        """Whether it does anything beside writing its result."""
        return not self.has_result or bool(self.collective) or self.memory == "atomic" or self.asynchronous

    asynchronous = property(lambda self: "async" in self.facts)
    waits = property(lambda self: "waits" in self.facts)
    orders = property(
        lambda self: "orders" in self.facts or self.ordering in ("acquire", "release", "acq_rel")
    )
    mark = property(lambda self: "mark" in self.facts)
    own = property(lambda self: "own" in self.facts)
    nothing = property(lambda self: "nothing" in self.facts)
    wide = property(lambda self: "wide" in self.facts)
    takes_carry = property(lambda self: "takes-carry" in self.facts)
    leaves_carry = property(lambda self: "leaves-carry" in self.facts)


@cache
def find(opcode: str) -> Op | None:
    """What a full spelling is; None where PTX, as far as it goes here, has none."""
    for pattern, operands, facts in _rows().get(opcode.split(".", 1)[0], ()):
        if compiled(pattern).fullmatch(opcode):
            return _op(opcode, pattern, operands, facts.split())
    return None


def compiled(pattern: str) -> re.Pattern:
    """The regular expression of a pattern in the manual's notation."""
    while "<" in pattern:
        pattern = re.sub(
            r"<(\w+)>", lambda m: CLASSES[m[1]] if m[1] == "order" else f"({CLASSES[m[1]]})", pattern
        )
    return re.compile(pattern.replace(".", r"\.").replace("{", "(?:").replace("}", ")?"))


@cache
def _rows() -> dict[str, list[tuple[str, str, str]]]:
    """Opcode up to its first dot -> (pattern, operands, facts) of its rows."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for line in TABLE.splitlines():
        if line.startswith("  "):
            pattern, *columns = re.split(r"\s{2,}", line.strip())
            facts = columns.pop() if columns and _FACTS.issuperset(columns[-1].split()) else ""
            row = pattern, columns[0] if columns else "", facts
            heads = re.match(r"[^.{<]+", pattern)[0]
            choices = [part.strip("()").split("|") for part in re.findall(r"\([^)]*\)|[^()]+", heads)]
            for base in map("".join, product(*choices)):
                found.setdefault(base, []).append(row)
    return found


def _op(opcode: str, pattern: str, operands: str, facts: list[str]) -> Op:
    types = tuple(m for m in opcode.split(".")[1:] if m in TYPES or m == "tf32")
    roles = _roles(opcode, operands, types)
    if "<bool>" in pattern and "{, c" in operands:  # the predicate belongs to the operation
        count = max(roles) if {"and", "or", "xor"} & set(opcode.split(".")) else min(roles)
        roles = {count: roles[count]}

    def one(words) -> str:
        return next((fact for fact in facts if fact in words), "")

    moves = next((f.removeprefix("moves=") for f in facts if f.startswith("moves=")), "")
    return Op(opcode, types, roles, one(_MEMORY), one(_FLOW), one(_COLLECTIVE), one(_COUNTS),
              tuple("dabc".index(name) for name in moves), frozenset(facts))  # fmt: skip


# -- operands ------------------------------------------------------------------------------------------

_OPERAND = re.compile(
    r"(?P<optional>\{, )?(?P<name>\[\w\]|\w+)(?P<pair>\{?\|\w\}?)?(?::(?P<type>\w+))?\}?(?:, )?"
)


def _roles(opcode: str, text: str, types: tuple[str, ...]) -> dict[int, tuple[Role, ...]]:
    """How many operands -> what they are."""
    matches = [] if text == "..." else list(_OPERAND.finditer(text))
    optional = [m for m in matches if m["optional"]]
    found = {}
    for given in range(len(optional) + 1):
        present = [m for m in matches if m not in optional[given:]]
        found[len(present)] = tuple(_role(opcode, m, types) for m in present)
    return found


def _role(opcode: str, match: re.Match, types: tuple[str, ...]) -> Role:
    name, given = match["name"], match["type"]
    if name[0] == "[":
        return Role("address", written=name == "[d]")
    if name in ("label", "table") or given == "imm":
        return Role(given or name)
    lanes = 0
    if (base := opcode.split(".", 1)[0]) in ("ld", "ldu", "st"):
        lanes = 4 if ".v4." in opcode else 2 if ".v2." in opcode else 0
    elif base in ("mma", "wmma", "ldmatrix") and not given:
        given, lanes = _fragment(opcode, name, types)
    type_ = {None: types[-1] if types else "", "t2": types[-2] if len(types) > 1 else ""}.get(given, given)
    if given == "2t":
        type_ = f"{types[-1][0]}{2 * TYPES[types[-1]][1]}"
    pair = {None: "", "{": "may", "|": "must"}[match["pair"] and match["pair"][0]]
    store = opcode.startswith("wmma.store")
    return Role("value", type_, name == "d" and not store, pair, lanes)


def _fragment(opcode: str, name: str, types: tuple[str, ...]) -> tuple[str, int]:
    """(type, number) of the registers of a lane that hold an operand of a matrix instruction."""
    mods = opcode.split(".")
    if mods[0] == "ldmatrix":
        return "b32", int(next(m for m in mods if m in ("x1", "x2", "x4"))[1])
    m, n, k = map(int, re.search(r"\.m(\d+)n(\d+)k(\d+)", opcode).groups())
    if mods[1] in ("load", "store"):
        name, element = mods[2], types[-1]
    else:
        d, a, b, c = types if len(types) == 4 else (types[0], "f16", "f16", types[-1])
        element = {"d": d, "a": a, "b": b, "c": c}[name]
    each, number = _PER_REGISTER.get(element, 1), {"a": m * k, "b": k * n}.get(name, m * n) // 32
    lanes = 8 if mods[0] == "wmma" and element == "f16" and name in "ab" else max(1, number // each)
    return element if element in ("f32", "f64", "s32") else "b32", lanes
