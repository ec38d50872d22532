"""Warp collectives if a vector is a warp: shuffles, votes, redux, __syncwarp.

All live lanes are converged, and the mask names all.

Source: PTX ISA, section 9.7.9.6 (shfl) and 9.7.13 (vote, redux).
"""

from __future__ import annotations

from ...analyse.warps import IN_REGISTER
from ...ptx.ir import Instruction
from ...ptx.types import is_signed

_NEUTRAL = {
    "add": 0,
    "and": -1,
    "or": 0,
    "xor": 0,
    "umin": -1,
    "umax": 0,
    "smin": 0x7FFFFFFF,
    "smax": -1 << 31,
}


def emit(e, ins: Instruction, bounds: tuple[int, int]) -> None:
    """Lower one. bounds: the b and c of a shuffle."""
    if ins.base == "shfl":
        _shuffle(e, ins, *bounds)
    elif ins.base == "vote":
        _vote(e, ins)
    elif ins.base == "redux":
        _reduce(e, ins)


def sources(operation: str, b: int, c: int, width: int) -> list[tuple[int, bool]]:
    """For each lane, its source lane and whether that is in range."""
    segment, limit, b, found = c >> 8 & 31, c & 31, b & 31, []
    for lane in range(width):
        mine = lane & segment
        last = mine | limit & ~segment
        match operation:
            case "up":
                start = lane - b
            case "down":
                start = lane + b
            case "bfly":
                start = lane ^ b
            case _:
                start = mine | b & ~segment
        valid = start >= last if operation == "up" else start <= last
        found.append((start if valid else lane, valid))
    return found


def _shuffle(e, ins: Instruction, b: int, c: int) -> None:
    """The value from a lane that has exited is poison."""
    if b == IN_REGISTER:
        return _shuffle_by(e, ins, c)
    text, values, (target, *in_range) = e.text, e.values, ins.named["d"].parts
    found, t = sources(ins.op.operation, b, c, text.width), text.type("i32")
    value = text.named(text.spread(e.value(ins.named["a"], "b32"), "i32"), "i32")
    order = f"<{text.width} x i32> <{', '.join(f'i32 {start}' for start, _ in found)}>"
    result = text.vector(f"shufflevector {t} {value}, {t} poison, {order}")
    if values.mask:
        mask = text.type("i1")
        alive = text.vector(f"shufflevector {mask} {values.mask}, {mask} poison, {order}")
        result = text.vector(f"select {text.bools} {text.condition(alive)}, {t} {result}, {t} splat (i32 -1)")
    e.set(target, result, "b32")
    for each in in_range:
        true = "true" if text.masks == "i1" else "-1"
        false = "false" if text.masks == "i1" else "0"
        e.set(each, f"<{', '.join(f'{text.masks} {true if v else false}' for _, v in found)}>", "pred")


def _shuffle_by(e, ins: Instruction, c: int) -> None:
    """All lanes are there; b is the same for all, in a register."""
    text, (target, *in_range), t = e.text, ins.named["d"].parts, e.text.type("i32")
    segment, limit, lanes = c >> 8 & 31, c & 31, range(text.width)

    def each(numbers) -> str:
        return text.named(f"<{', '.join(f'i32 {n}' for n in numbers)}>", "i32")

    lane, last = each(lanes), each(i & segment | limit & ~segment for i in lanes)
    b = e.op("and i32", e.value(ins.named["b"], "u32"), 31)
    match operation := ins.op.operation:
        case "up" | "down":
            start = e.op("sub i32" if operation == "up" else "add i32", lane, b)
        case "bfly":
            start = e.op("xor i32", lane, b)
        case _:
            start = e.op("or i32", each(i & segment for i in lanes), e.op("and i32", b, ~segment & 31))
    valid = e.op("icmp sge i32" if operation == "up" else "icmp sle i32", start, last)
    source = text.vector(
        f"select {text.bools} {text.condition(valid)}, {t} {text.named(start, 'i32')}, {t} {lane}"
    )
    value = text.spread(e.value(ins.named["a"], "b32"), "i32")
    text.first(f"{(room := text.fresh('shuffled'))} = alloca {t}, align 64")
    e.line(f"store {t} {value}, ptr {room}, align 64")
    pointers = text.vector(f"getelementptr i32, ptr {room}, {t} {source}")
    name = text.masked("gather", "i32", True)
    given = f"{text.type('ptr')} align 4 {pointers}, {text.bools} splat (i1 true), {t} zeroinitializer"
    e.set(target, text.vector(f"call {t} @{name}({given})"), "b32")
    for register in in_range:
        e.set(register, valid, "pred")


def _vote(e, ins: Instruction) -> None:
    text, values = e.text, e.values
    given = text.named(text.spread(e.value(ins.named["a"], "pred"), "i1"), "i1")
    everyone = values.everyone()
    ballot, present = text.bits(e.op("and i1", given, everyone)), text.bits(everyone)
    operation, target = ins.op.operation, ins.named["d"]
    if operation == "ballot":
        return e.set(target, ballot, "b32")
    all_, none = e.op("icmp eq i32", ballot, present), e.op("icmp eq i32", ballot, 0)
    results = {"all": all_, "any": e.op("xor i1", none, "true"), "uni": e.op("or i1", all_, none)}
    e.set(target, results[operation], "pred")


def _reduce(e, ins: Instruction) -> None:
    """Lanes that have exited take no part."""
    text, values, how = e.text, e.values, ins.op.operation
    if how in ("min", "max"):
        how = ("s" if is_signed(ins.op.type) else "u") + how
    t, value = text.type("i32"), text.spread(e.value(ins.named["a"], "b32"), "i32")
    if values.mask:
        neutral = f"splat (i32 {_NEUTRAL[how]})"
        value = f"select {text.bools} {text.condition(values.mask)}, {t} {value}, {t} {neutral}"
        value = text.vector(value)
    e.set(ins.named["d"], text.reduced(how, text.named(value, "i32"), "i32"), "b32")
