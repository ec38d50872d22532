"""Matrix instructions of a warp: ldmatrix, stmatrix, mma.sync and wmma.mma.

The PTX ISA defines which lane holds which element for ldmatrix and mma (section 9.7.14.5); for wmma see
rewrite/fragments.py, which has made plain accesses of its loads and stores. The products are functions of the module
(see products), which runtime/matrix.cu calls.
"""

from __future__ import annotations

from ..analyse.chains import ALWAYS, NEVER
from ..ptx.ir import Vector
from ..runtime import abi
from ..runtime.abi import SUMS, WG_TYPES
from . import products
from .collectives import wait

#: element type -> number in runtime/matrix.cu
_ELEMENTS = {name: i for i, name in enumerate("f16 bf16 tf32 f64 s8 u8 f32 s32".split())}


def emit(e, ins) -> None:
    """Lower a matrix instruction."""
    if ins.op.collective == "group":
        return _multiply_of_group(e, ins)
    if ins.op.address is None:
        return _multiply(e, ins)
    return (_ldmatrix if ins.op.has_result else _stmatrix)(e, ins)


# -- Extra.data of this thread ---------------------------------------------------------------


def _data(e, index: int) -> str:
    """Host pointer to one element of it."""
    return e.state.pointer("Extra", "data", 8 * index)


def _give(e, index: int, value: str) -> None:
    e.line(f"store i64 {value}, ptr {_data(e, index)}")


def _take(e, index: int) -> str:
    return e.emit(f"load i64, ptr {_data(e, index)}")


# -- ldmatrix, stmatrix -------------------------------------------------------------------------


def _ldmatrix(e, ins) -> None:
    """Every lane gets two halves of a row, or of a column, of each matrix."""
    for target, places in zip(ins.operands[0].parts, _places(e, ins), strict=True):
        bits = 32 // len(places)
        values = [e.emit(f"load i{bits}, ptr {place}") for place in places]
        e.set(target, _packed(e, values, bits), "b32")


def _stmatrix(e, ins) -> None:
    """And puts them there."""
    for source, places in zip(ins.operands[1].parts, _places(e, ins), strict=True):
        value = e.value(source, "b32")
        for place in places:
            bits = 32 // len(places)
            e.line(f"store i{bits} {e.resize(value, 'i32', f'i{bits}')}, ptr {place}")
            value = e.op("lshr i32", value, 16)


def _places(e, ins) -> list[list[str]]:
    """For each matrix, the host pointers of this lane's two halves: one where they are neighbours.

    Lanes 0 to 8 * count - 1 give the address of a row of 16 bytes each, which they have checked.
    """
    op, transposed = ins.op, "trans" in ins.op.mods
    address, lane = e.variables.address(ins.address, "shared"), e.value("%laneid", "u32")
    _give(e, 0, e.op("add i64", address, "%sharedbase"))
    flags = int(transposed) | 2 * (not op.has_result)
    wait(e, "warp", "exchange", ins, [str(op.moved_rows // 8), str(flags)], "-1")
    quarter = e.cast("zext", "i32", e.op("and i32", lane, 3), "i64")
    row = e.cast("zext", "i32", e.op("lshr i32", lane, 2), "i64")
    within, each = (e.op("mul i64", row, 2), 2) if transposed else (e.op("mul i64", quarter, 4), 1)

    def place(i: int) -> str:
        return e.emit(f"getelementptr i8, ptr %arena, i64 {e.op('add i64', _take(e, i), within)}")

    return [[place(each * i + k) for k in range(each)] for i in range(op.moved_rows // 8)]


def _packed(e, parts, bits: int) -> str:
    """Integers of `bits` bits, the lowest first, as one of 32."""
    whole = "0"
    for i, part in enumerate(parts):
        part = e.op("shl i32", e.resize(part, f"i{bits}", "i32"), i * bits)
        whole = e.op("or i32", whole, part)
    return whole


# -- mma, wmma.mma -------------------------------------------------------------------------------


def _multiply(e, ins) -> None:
    """D = A B + C over the warp: each lane adds its fragments to the warp's and takes its part of D from
    there."""
    op = ins.op
    (m, n, k), type_ = op.shape, op.elements
    function = products.function(e.module, op)
    for which in "abc":
        t = f"i{products.width(type_[which])}"
        for i, part in enumerate(ins.named[which].parts[: products.registers(op, which)]):
            e.line(f"store {t} {e.value(part, 'b' + t[1:])}, ptr {_fragment(e, op, which, i)}")
    types = sum(_ELEMENTS[type_[name]] << 4 * i for i, name in enumerate("abcd"))
    what = m | n << 8 | k << 16 | types << 32 | (op.base == "wmma") << 48
    wait(e, "warp", "matrix", ins, [f'ptrtoint (ptr @"{function}" to i64)', str(what)], "-1")
    t = f"i{products.width(type_['d'])}"
    for i, target in enumerate(ins.named["d"].parts):
        e.set(target, e.emit(f"load {t}, ptr {_fragment(e, op, 'd', i)}"), f"b{t[1:]}")


# -- wgmma ---------------------------------------------------------------------------------------

#: where in `how` they are, see runtime/wgmma.cu
_A, _B, _D, _TRANSPOSED_A, _TRANSPOSED_B, _NEGATIVE_A, _NEGATIVE_B, _SCALED, _REGISTERS_A, _SATURATES = (
    *(12, 16, 20),
    *range(24, 31),
)
_SUMS = 31  # which of a group's lists of sums


def _multiply_of_group(e, ins) -> None:
    """D = A B + D over four warps: the group has the sums (see analyse/chains.py), and the products of a chain are computed with
    the last."""
    op, named = ins.op, ins.named
    d, a, b = (WG_TYPES.index(m) for m in op.mods if m in WG_TYPES)
    in_registers = isinstance(named["a"], Vector)
    # one for each operand that has no descriptor is left out
    transposed = [named[n].value for n in ("u", "v") if n in named]
    how = (
        op.shape[1]
        | a << _A
        | b << _B
        | d << _D
        | in_registers << _REGISTERS_A
        | ("satfinite" in op.mods) << _SATURATES
    )
    for value, place in zip(transposed[-2:], (_TRANSPOSED_A, _TRANSPOSED_B)[in_registers:]):
        how |= value << place
    for name, place in (("s", _NEGATIVE_A), ("t", _NEGATIVE_B)):
        how |= (name in named and named[name].value < 0) << place
    plan = e.facts.chains.products[ins]
    if plan.stores != NEVER:
        _hand_over(e, plan)
    for i, part in enumerate(named["a"].parts if in_registers else ()):
        e.line(f"store i32 {e.value(part, 'b32')}, ptr {_of_group(e, 'a', 4 * plan.place + i)}")
    scaled = e.op("shl i64", e.cast("zext", "i1", e.value(named["p"], "pred"), "i64"), _SCALED)
    first = "0" if in_registers else e.value(named["a"], "b64")
    site = e.op("shl i64", e.cast("zext", "i32", str(e.sites.of(ins)), "i64"), 32)
    how |= plan.sums % SUMS << _SUMS
    given = first, e.value(named["b"], "b64"), e.op("or i64", e.op("or i64", scaled, how), site)
    for field, value in enumerate(given):
        e.line(f"store i64 {value}, ptr {_of_group(e, 'posted', 3 * plan.place + field, 8)}")
    if plan.last:
        wait(e, "group", "wgmma", ins, [str(plan.place + 1)])
    e.line(f"store i1 true, ptr {_with_group(e, plan.sums)}")


def _with_group(e, sums: int) -> str:
    """Whether a list of sums is with the group."""
    name = f"%sums.{sums}"
    if name not in e.state.flags:
        e.state.flags.add(name)
        e.text.first(f"{name} = alloca i1", f"store i1 false, ptr {name}")
    return name


def _unless(e, certain: bool, sums: int, wanted: bool) -> str:
    """Begins what is done where a list of sums is, or is not, with the group; returns the label behind it; "" if that is certain."""
    if certain:
        return ""
    do, done = e.fresh_label("sums"), e.fresh_label("known")
    there = e.emit(f"load i1, ptr {_with_group(e, sums)}")
    e.branch(there, *((do, done) if wanted else (done, do)))
    e.label(do)
    return done


def _hand_over(e, plan) -> None:
    """The group gets a thread's sums, unless it has them."""
    registers, known = e.facts.chains.sums[plan.sums], e.text.remembered()
    done = _unless(e, plan.stores == ALWAYS, plan.sums, False)
    for i, register in enumerate(registers):
        e.line(f"store i32 {e.value(register, 'b32')}, ptr {_sum(e, plan.sums, i)}")
    group, at = e.state.group()[0], abi.offset("Group", "stale")
    e.line(f"store i32 1, ptr {e.emit(f'getelementptr i8, ptr {group}, i64 {at}')}")
    if done:
        e.text.recall(known)
        e.line(f"br label %{done}")
        e.label(done)


def bring_back(e, sums: int, certain: bool) -> None:
    """A thread gets its sums from the group, if they are there."""
    registers, known = e.facts.chains.sums[sums], e.text.remembered()
    done = _unless(e, certain, sums, True)
    for i, register in enumerate(registers):
        e.set(register, e.emit(f"load i32, ptr {_sum(e, sums, i)}"), "b32")
    e.line(f"store i1 false, ptr {_with_group(e, sums)}")
    if done:
        e.text.recall(known)
        e.text.forget(*registers)
        e.line(f"br label %{done}")
        e.label(done)


def _sum(e, sums: int, register: int) -> str:
    return _of_group(e, "file", sums % SUMS * abi.MOST_SUMS + register)


def _of_group(e, field: str, register: int, nbytes: int = 4) -> str:
    """Host pointer to a register of this thread, or to another number, among those of its four warps."""
    group, thread = e.state.group()
    at = abi.offset("Group", field) + nbytes * abi.WARPGROUP * register
    return e.emit(
        f"getelementptr i8, ptr {group}, i64 {e.op('add i64', e.op('mul i64', thread, nbytes), at)}"
    )


def _fragment(e, op, which: str, register: int) -> str:
    """Host pointer to a register of this lane's part of a matrix."""
    start, stride = products.place(op, which, register)
    fragments, lane = e.state.fragments()
    return e.emit(
        f"getelementptr i8, ptr {fragments}, i64 {e.op('add i64', e.op('mul i64', lane, stride), start)}"
    )
