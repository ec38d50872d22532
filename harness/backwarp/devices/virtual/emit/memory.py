"""Memory instructions: address -> host pointer -> load, store, atomic. Also cvta and isspacep.

Accesses have already been checked: see `checks`.

Source: PTX ISA, section 9.7.9 (data movement) and 9.7.13.8 (atom, red).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ptx.ir import Symbol
from ..ptx.types import is_float, is_signed, llvm_type
from ..runtime.abi import PARAM_BYTES, SHARED_WINDOW, SLOT_BYTES
from .table import statement

#: what an atomic does -> LLVM's name for it, where that is another
_RMW = {"exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}


class Arrays:
    """What is known about a function's memory.

    held: .local symbol that LLVM keeps -> how its memory is called, and of how many bytes it is known whether they are
    written. written: addresses, as LLVM's values, that hold
    something, and how much.
    """

    def __init__(self):
        self.held: dict[str, tuple[str, int]] = {}
        self.written: set[tuple[str, int]] = set()
        self.tags: dict[tuple[str, str], str] = {}  # see `apart`


def emit(e, ins) -> None:
    """Lower a load, a store or an atomic; cvta, isspacep."""
    how = {"load": _load, "store": _store, "cvta": _cvta, "isspacep": _isspacep}
    how.get(ins.op.memory or ins.base, _atomic)(e, ins)


def place(e, ins) -> str:
    """The host pointer of an access."""
    op, operand = ins.op, ins.address
    if op.space == "param" and (pointer := e.variables.parameter_pointer(operand)):
        return pointer
    address = e.variables.address(operand, op.space)
    if e.module.raw:
        return e.cast("inttoptr", "i64", address, "ptr")
    if ins.array in e.arrays.held:
        return e.emit(
            f'getelementptr i8, ptr %{e.arrays.held[ins.array][0]}values", i64 {place_in(e, ins.array, address)}'
        )
    base = "%shared" if op.space == "shared" else "%arena"
    return e.emit(f"getelementptr i8, ptr {base}, i64 {address}")


def place_in(e, array: str, address: str, window: bool = False) -> str:
    """The offset of an address from the start of an array. window: as in `addresses`."""
    return e.once(f"sub i64 {address}, {e.variables.symbol(array, window)}")


# -- ld, st -----------------------------------------------------------------------------------


def _load(e, ins) -> None:
    op, pointer = ins.op, place(e, ins)
    how = f"load {'volatile ' * bool(op.ordering)}{llvm_type(op.type)}"
    for target, where in _elements(e, ins, ins.operands[0], pointer):
        e.set(target, e.emit(f"{how}, ptr {where}"), op.type)
    if op.ordering:
        e.line("fence acquire")


def _store(e, ins) -> None:
    op, pointer = ins.op, place(e, ins)
    if op.ordering:
        e.line("fence release")
    how = f"store {'volatile ' * bool(op.ordering)}{llvm_type(op.type)}"
    for source, where in _elements(e, ins, ins.operands[1], pointer):
        e.line(f"{how} {e.value(source, op.type)}, ptr {where}")


def _elements(e, ins, registers, pointer: str) -> Iterator[tuple[str, str]]:
    """Of a load or a store: each register, and where its element is, with what is known of the place."""
    op, tag = ins.op, "" if ins.op.ordering else data_tag(e, ins.array)
    known = not (op.space == "param" and type(ins.address.base) is Symbol)  # which may be anywhere
    for i, register in enumerate(registers.parts):
        where = e.emit(f"getelementptr i8, ptr {pointer}, i64 {i * op.nbytes}") if i else pointer
        yield register, f"{where}, align {(op.nbytes if i else op.width) if known else 1}{tag}"


# -- atom, red ------------------------------------------------------------------------------


def _atomic(e, ins) -> None:
    op, t = ins.op, llvm_type(ins.op.type)
    value = e.value(ins.named["b"], op.type)
    pointer = place(e, ins)
    if op.operation == "cas":
        new = e.value(ins.named["c"], op.type)
        pair = e.emit(f"cmpxchg ptr {pointer}, {t} {value}, {t} {new} seq_cst seq_cst")
        old = e.emit(f"extractvalue {{ {t}, i1 }} {pair}, 0")
    elif op.type == "f16x2":
        old = _atomic_add_half2(e, pointer, value)
    else:
        name = _RMW.get(op.operation, op.operation)
        if name in ("min", "max") and not is_signed(op.type):
            name = f"u{name}"
        name = "f" * is_float(op.type) + name
        old = e.emit(f"atomicrmw {name} ptr {pointer}, {t} {value} seq_cst")
    if op.has_result:
        e.set(ins.operands[0], old, op.type)


def _atomic_add_half2(e, pointer: str, value: str) -> str:
    """Two halves in one word: a compare-and-swap loop."""
    start, loop, done = (e.fresh_label(h) for h in ("first", "retry", "done"))
    e.line(f"br label %{start}")
    e.label(start)
    first = e.emit(f"load i32, ptr {pointer}, align 4")
    e.line(f"br label %{loop}")
    e.label(loop)
    old, seen = e.fresh("old"), e.fresh("seen")
    e.line(f"{old} = phi i32 [ {first}, %{start} ], [ {seen}, %{loop} ]")
    both = e.cast("bitcast", "i32", old, "<2 x half>")
    new = e.cast("bitcast", "<2 x half>", e.op("fadd <2 x half>", both, value), "i32")
    pair = e.emit(f"cmpxchg ptr {pointer}, i32 {old}, i32 {new} seq_cst seq_cst")
    e.line(f"{seen} = extractvalue {{ i32, i1 }} {pair}, 0")
    e.branch(e.emit(f"extractvalue {{ i32, i1 }} {pair}, 1"), done, loop)
    e.label(done)
    return e.cast("bitcast", "i32", old, "<2 x half>")


# -- generic addressing -------------------------------------------------------------------------


def _cvta(e, ins) -> None:
    """Only the shared window is separate; every other space uses the arena's own addresses."""
    type_, shared, operand = ins.op.type, ins.op.space == "shared", ins.operands[1]
    if isinstance(operand, Symbol):
        value = e.variables.symbol(operand.name, shared, operand.offset)
    else:
        value = e.value(operand, type_)
    if shared and not e.module.raw:
        value = e.resize(value, llvm_type(type_), "i64")
        value = e.op("sub i64" if "to" in ins.op.mods else "add i64", value, "%sharedbase")
        value = e.resize(value, "i64", llvm_type(type_))
    e.set(ins.operands[0], value, type_)


def _isspacep(e, ins) -> None:
    address = e.value(ins.operands[1], "u64")
    worker = e.op("sub i64", address, "%sharedbase")
    in_shared = e.op("icmp ult i64", worker, SHARED_WINDOW)
    if ins.op.to_cluster:
        inside = e.op("icmp ult i64", e.op("and i64", worker, SLOT_BYTES - 1), SHARED_WINDOW)
        first = e.op(
            "add i64",
            worker,
            e.op("mul i64", e.cast("zext", "i32", e.state.load("Env", "cluster_rank"), "i64"), SLOT_BYTES),
        )
        blocks = e.op("mul i64", e.cast("zext", "i32", e.state.load("Launch", "cluster"), "i64"), SLOT_BYTES)
        return e.set(ins.operands[0], e.op("and i1", inside, e.op("icmp ult i64", first, blocks)), "pred")
    in_slots = e.op("sub i64", address, e.module.slots_start)
    # which is as long as what comes before it
    local = e.op("icmp ult i64", in_slots, e.module.slots_start)
    outside = e.op("xor i1", in_shared, "true")
    params = e.state.load("Env", "params", invariant=True)
    first, nbytes = e.module.constants
    constant = e.op("sub i64", address, e.op("add i64", "%globals", first))
    in_const = e.op("icmp ult i64", constant, nbytes)
    result = {
        "shared": in_shared,
        "local": e.op("and i1", local, outside),
        "const": in_const,
        "param": e.op("icmp ult i64", e.op("sub i64", address, params), PARAM_BYTES),
        "global": e.op("xor i1", e.op("or i1", local, in_const), "true"),
    }[ins.op.space]
    e.set(ins.operands[0], result, "pred")


# -- what cannot be the same memory --------------------------------------------------------------------


@statement("apart")
def _apart(e, ins, mods, *arrays: str):
    """Tell LLVM which accesses never alias: those to different arrays, and those to the shadow."""
    domain = e.module.metadata("distinct !{{!{n}}}")
    data, shadow = (
        {name: e.module.metadata(f"distinct !{{{{!{{n}}, !{domain}}}}}") for name in (*arrays, "")}
        for _ in range(2)
    )

    def tag(mine: int, others) -> str:
        scopes = [
            e.module.metadata(f"!{{{{{', '.join(f'!{o}' for o in some)}}}}}") for some in ([mine], others)
        ]
        return f", !alias.scope !{scopes[0]}, !noalias !{scopes[1]}"

    everything = list(shadow.values())
    # "": an unknown access, which may be to any of the arrays
    for name in (*arrays, ""):
        rest = [data[o] for o in arrays if o != name and name]
        e.arrays.tags["data", name] = tag(data[name], everything + rest)
        rest = [shadow[o] for o in arrays if o != name and name]
        e.arrays.tags["shadow", name] = tag(shadow[name], list(data.values()) + rest)


def data_tag(e, array: str) -> str:
    return e.arrays.tags.get(("data", array), "")


def shadow_tag(e, array: str) -> str:
    return e.arrays.tags.get(("shadow", array), "")
