"""The meaning of one spelling of an opcode, from the rows of `isa`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from .types import BITS, BYTES

CARRY = "%carry"  # the carry flag of takes-carry and leaves-carry, as a register
_SPACES = ("global", "shared", "local", "const", "param")
_ORDERING = ("volatile", "mmio", "relaxed", "acquire", "release", "acq_rel")
_SCOPES = ("cta", "cluster", "gpu", "sys")
_RANKS = ("1d", "2d", "3d", "4d", "5d")
_LETTERS = "dabc"  # the names of operands by position
_KINDS = {"u", "s", "b"}  # kinds of types that an address may have
_COORDINATES = {
    **{"1d": "x", "2d": "xy", "3d": "xyz_", "cube": "xyz_"},
    **{"a1d": "lx", "a2d": "lxy_", "acube": "lxyz"},
}


@dataclass(frozen=True)
class Role:
    """One operand. kind: "value" | "address" | "texel" | "label" | "table" | "imm".

    type: what it is read or written as. pair: a predicate may, or must, follow it. vector: the length of a
    vector, or 0. name: its letter in the table.
    """

    kind: str
    type: str = ""
    written: bool = False
    pair: str = ""  # "" | "may" | "must"
    vector: int = 0
    name: str = field(default="", compare=False)


@dataclass(frozen=True, eq=False)
class Op:
    """The meaning of one spelling; `spellings.find` makes one for each. Facts that do not apply are "" or False.

    operation: what it does within its family: "add" of an atomic, "any" of a vote. operands, memory, flow,
    collective, counts and the flags: see the table.
    """

    opcode: str
    operation: str
    operands: str
    memory: str
    flow: str
    collective: str
    counts: str
    facts: frozenset[str]

    def __hash__(self) -> int:
        return hash(self.opcode)

    @cached_property
    def base(self) -> str:
        return self.opcode.split(".", 1)[0]

    @cached_property
    def mods(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types among its modifiers."""
        return tuple(mod for mod in self.mods if mod in BITS)

    @cached_property
    def type(self) -> str:
        return self.types[-1] if self.types else ""

    @cached_property
    def roles(self) -> dict[int, tuple[Role, ...]]:
        """Number of operands -> their roles."""
        matches = list(_OPERAND.finditer(self.operands))
        optional = [m for m in matches if m["optional"]]
        found = {}
        for given in range(len(optional) + 1):
            present = [m for m in matches if m not in optional[given:]]
            found[len(present)] = tuple(_role(self, m) for m in present)
        return found

    @cached_property
    def moves(self) -> tuple[int, ...]:
        """The operands whose bits it moves, if that is all it does."""
        return tuple(map(_LETTERS.index, self._fact("moves=")))

    @cached_property
    def formula(self) -> str:
        """How its result is computed, if that is an address: see the table."""
        formula, types = self._fact("address="), self.types
        if not formula or not all(_KINDS.issuperset(t[0]) and BITS[t] >= 32 for t in types):
            return ""
        whole = len(types) == 2 and BITS[types[0]] >= BITS[types[1]]  # a conversion that does not truncate
        return "a" if whole and formula == "a?" else formula

    @cached_property
    def bases(self) -> tuple[int, ...]:
        """The operands that may be the address its result is computed from."""
        return tuple(map(_LETTERS.index, re.findall(r"(?<![-*])[abc](?!\*)", self.formula)))

    def _fact(self, start: str) -> str:
        """The rest of the fact that starts with this."""
        return next((fact.removeprefix(start) for fact in self.facts if fact.startswith(start)), "")

    @cached_property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return BYTES.get(self.type, 0)

    @cached_property
    def vector(self) -> int:
        """The number of elements of a load or store."""
        return 4 if "v4" in self.mods else 2 if "v2" in self.mods else 1

    @cached_property
    def width(self) -> int:
        """Bytes of an access; of ldmatrix and stmatrix, those of a row."""
        return 16 if self.moved_rows else self.nbytes * self.vector

    @cached_property
    def moved_rows(self) -> int:
        """The number of matrix rows that ldmatrix and stmatrix move; a lane gives the address of each."""
        if self.base not in ("ldmatrix", "stmatrix"):
            return 0
        return 8 * int(next(m for m in self.mods if m in ("x1", "x2", "x4"))[1])

    @cached_property
    def space(self) -> str:
        """The space of its address, "generic" if the spelling names none. For a copy, the destination's."""
        return self.spaces[0] if self.spaces else "generic"

    @cached_property
    def spaces(self) -> tuple[str, ...]:
        """All that the spelling names: of a copy, the destination's and the source's."""
        names = (mod.split("::")[0] for mod in self.mods)
        return tuple(name for name in names if name in _SPACES)

    @cached_property
    def to_cluster(self) -> bool:
        """Whether its address may be in the shared memory of another block of the cluster."""
        return "shared::cluster" in self.mods

    @cached_property
    def ordering(self) -> str:
        """The memory ordering of an access that is not plain."""
        return next((mod for mod in self.mods if mod in _ORDERING), "") if self.memory else ""

    @cached_property
    def scope(self) -> str:
        """The scope of an ordering access or fence."""
        if self.ordering in ("volatile", "mmio"):
            return "sys"
        return next(
            (mod for mod in self.mods if mod in _SCOPES), "gpu" if self.memory or "gl" in self.mods else "sys"
        )

    @cached_property
    def acquires(self) -> bool:
        return self.ordering in ("acquire", "acq_rel")

    @cached_property
    def releases(self) -> bool:
        return self.ordering in ("release", "acq_rel")

    @cached_property
    def has_result(self) -> bool:
        """Whether the first operand is written."""
        return any(roles and roles[0].written and roles[0].kind == "value" for roles in self.roles.values())

    @cached_property
    def address(self) -> int | None:
        """The index of its address operand; the first of two."""
        roles = next(iter(self.roles.values()))
        return next((i for i, role in enumerate(roles) if role.kind == "address"), None)

    @cached_property
    def accesses(self) -> bool:
        """Whether it reads or writes memory at its address; a prefetch does not."""
        return self.address is not None and bool(self.memory or self.collective or self.asynchronous)

    @cached_property
    def ends_block(self) -> bool:
        """Whether control may go elsewhere than to the next instruction; a call returns to it."""
        return self.flow not in ("", "call")

    @cached_property
    def branches(self) -> bool:
        """Whether it goes to a label."""
        return self.flow in ("branch", "switch")

    @cached_property
    def leaves(self) -> bool:
        """Whether it leaves the function."""
        return self.flow in ("return", "exit", "trap")

    @cached_property
    def is_move(self) -> bool:
        """Whether it just copies its operand."""
        return self.base == "mov"

    @cached_property
    def of_parameters(self) -> bool:
        """Whether it loads or stores parameters."""
        return self.space == "param" and self.memory in ("load", "store")

    @cached_property
    def has_effects(self) -> bool:
        """Whether it does anything besides writing its result."""
        return not self.has_result or bool(self.collective) or self.memory == "atomic" or self.asynchronous

    @cached_property
    def writes_memory(self) -> bool:
        return self.memory in ("store", "atomic", "reduction", "copy")

    @cached_property
    def stores_matrix(self) -> bool:
        return self.collective == "matrix" and self.operation == "d"

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K) of a matrix instruction: A has M x K elements, B K x N, C and D M x N."""
        return tuple(map(int, next(m for m in map(_SHAPE.fullmatch, self.mods) if m).groups()))

    @cached_property
    def elements(self) -> dict[str, str]:
        """The element types of those matrices, by the operands' names."""
        if "[" in self.operands:  # wmma.load, wmma.store
            return {self.operation: self.type}
        d, a, b, c = self.types if len(self.types) == 4 else (self.types[0], "f16", "f16", self.types[-1])
        return {"d": d, "a": a, "b": b, "c": c}

    @cached_property
    def rank(self) -> int:
        """The number of axes of a tensor that is copied."""
        return next((int(mod[0]) for mod in self.mods if mod in _RANKS), 0) if self.base == "cp" else 0

    @cached_property
    def geometry(self) -> str:
        """The dimensions of a texture or surface, prefixed with `a` if it has layers."""
        return next((mod for mod in self.mods if mod in _COORDINATES), "") if self.base != "cp" else ""

    @cached_property
    def coordinates(self) -> str:
        """Its coordinates, a letter each: a layer, a number of its kind, or ignored; of a tensor, all are alike."""
        return "i" * self.rank or _COORDINATES[self.geometry]

    @cached_property
    def is_fence(self) -> bool:
        """Whether it only orders memory accesses."""
        return self.base in ("fence", "membar")

    @cached_property
    def is_sc(self) -> bool:
        """Whether it is a fence of kind sc."""
        return self.is_fence and (self.base == "membar" or "sc" in self.mods)

    @cached_property
    def is_mbarrier(self) -> bool:
        """Whether it operates on an mbarrier itself."""
        return self.base == "mbarrier"

    asynchronous = cached_property(lambda self: "async" in self.facts)
    bulk = cached_property(lambda self: "bulk" in self.facts)
    texture = cached_property(lambda self: "texture" in self.facts)
    surface = cached_property(lambda self: "surface" in self.facts)
    waits = cached_property(lambda self: "waits" in self.facts)
    orders = cached_property(lambda self: "orders" in self.facts or self.acquires or self.releases)
    mark = cached_property(lambda self: "mark" in self.facts)
    own = cached_property(lambda self: "own" in self.facts)
    nothing = cached_property(lambda self: "nothing" in self.facts)
    wide = cached_property(lambda self: "wide" in self.facts)
    chooses = cached_property(lambda self: "chooses" in self.facts)
    bitwise = cached_property(lambda self: self.base if "bitwise" in self.facts else "")
    takes_carry = cached_property(lambda self: "takes-carry" in self.facts)
    leaves_carry = cached_property(lambda self: "leaves-carry" in self.facts)


# -- operands ------------------------------------------------------------------------------------------

_OPERAND = re.compile(
    r"(?P<optional>\{, )?(?P<name>\[\w\]|\w+)(?P<pair>\{?\|\w\}?)?(?::(?P<type>\w+))?\}?(?:, )?"
)
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def _role(op: Op, match: re.Match) -> Role:
    name, given = match["name"], match["type"]
    if name[0] == "[":
        return Role("texel" if name == "[t]" else "address", written=name == "[d]", name=name[1])
    if name in ("label", "table") or given == "imm":
        return Role(given or name, name=name)
    vector = op.vector if op.memory and op.vector > 1 else 0
    if name == "o":
        vector = op.rank - 2
    if op.texture or op.surface:
        axes = len(op.coordinates.strip("l_"))
        vector = {"d": op.vector, "b": op.vector, "g": axes + (axes == 3)}.get(name, 0)
    if op.collective in ("matrix", "group") and not given:
        given, vector = _fragment(op, name)
    pair = {None: "", "{": "may", "|": "must"}[match["pair"] and match["pair"][0]]
    return Role("value", _type(op, given), name == "d" and not op.stores_matrix, pair, vector, name)


def _type(op: Op, given: str | None) -> str:
    """given: the type in the table, if any."""
    if given == "2t":
        return f"{op.type[0]}{2 * BITS[op.type]}"
    return {None: op.type, "t2": op.types[-2] if len(op.types) > 1 else ""}.get(given, given)


def _fragment(op: Op, name: str) -> tuple[str, int]:
    """(type, number) of the registers of a lane that hold an operand of a matrix instruction."""
    if op.moved_rows:
        return "b32", op.moved_rows // 8
    if op.collective == "group":
        type_ = op.types[0]
        return ("b32", op.shape[1] // 4) if type_ == "f16" else (type_, op.shape[1] // 2)
    (m, n, k), which = op.shape, op.operation or name
    element = op.elements[which]
    each, number = max(1, 32 // BITS[element]), {"a": m * k, "b": k * n}.get(which, m * n) // 32
    vector = 8 if op.base == "wmma" and element == "f16" and which in "ab" else max(1, number // each)
    return element if element in ("f32", "f64", "s32") else "b32", vector
