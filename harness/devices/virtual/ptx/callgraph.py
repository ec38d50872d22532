"""What PTX functions call and where they loop: questions about structure that several modules ask."""

from __future__ import annotations

from .ir import Function, Instruction, Label, Module


def align_up(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def symbol_name(name: str, raw: bool) -> str:
    """A suffix that no name in C++ has keeps a student's functions apart from the runtime's and the system's."""
    return f'@"{name}"' if raw else f'@"{name}.function"'


def defined(module: Module):
    return (f for f in module.functions.values() if f.body is not None)


def pointed_functions(module: Module) -> list[Function]:
    """Functions whose address is taken: named in an operand that is no call, or in an initialiser."""
    named = {
        operand.split("+")[0].strip()
        for f in defined(module) for i in f.body
        if isinstance(i, Instruction) and i.base == "mov" for operand in i.operands[1:]
    }  # fmt: skip
    named |= {v[1] for variable in module.variables.values() for v in variable.init if isinstance(v, tuple)}
    return [f for f in defined(module) if f.name in named and not f.entry]


def called(item) -> str | None:
    if isinstance(item, Instruction) and item.base == "call":
        return item.called[1]
    return None


def split_arguments(text: str) -> list[str]:
    """Split call arguments at top-level commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "(<{[") - (c in ")>}]")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p for p in parts + [text[start:]] if p.strip()]


def branch_targets(function: Function, ins: Instruction) -> tuple[str, ...]:
    """The labels that a `bra` or `brx` may go to."""
    return (ins.operands[0],) if ins.base == "bra" else function.tables.get(ins.operands[1], ())


def has_loop(function: Function) -> bool:
    positions = {item.name: i for i, item in enumerate(function.body) if isinstance(item, Label)}
    return any(
        positions.get(target, 1 << 60) <= i
        for i, item in enumerate(function.body)
        if isinstance(item, Instruction) and item.base in ("bra", "brx")
        for target in branch_targets(function, item)
    )


def spinning_loops(function: Function, touches_order) -> set[int]:
    """Positions of backward branches whose loop holds an instruction that `touches_order`."""
    positions = {item.name: i for i, item in enumerate(function.body) if isinstance(item, Label)}
    found = set()
    for i, item in enumerate(function.body):
        if isinstance(item, Instruction) and item.base == "bra":
            start = positions.get(item.operands[0], 1 << 60)
            if start <= i and any(
                isinstance(x, Instruction) and touches_order(x) for x in function.body[start:i]
            ):
                found.add(i)
    return found


def grid_waits(function: Function) -> set[int]:
    """Positions of backward branches of loops that wait at the barrier of a grid: until a bit of a word has flipped.

    So in cooperative_groups/details/sync.h, which has no name in the code that it is expanded into.
    """
    return spinning_loops(function, lambda ins: ins.opcode == "ld.acquire.gpu.u32") & spinning_loops(
        function, lambda ins: ins.opcode == "xor.b32"
    )
