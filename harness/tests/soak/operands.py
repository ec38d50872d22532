"""Instructions of PTX with other operands, modifiers and opcodes: what `asm` could put into a kernel.

`python -m tests.soak.fuzz --by-operand` changes the PTX of the samples and of the course's solutions in this
way. Each mutant is refused, with its line, or runs to a result or to a fault.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from backwarp.devices.virtual.ptx.ir import Instruction
from backwarp.devices.virtual.ptx.isa import CLASSES
from backwarp.devices.virtual.ptx.op import Op, Role
from backwarp.devices.virtual.ptx.parse import instruction
from backwarp.devices.virtual.ptx.spellings import find, rows
from backwarp.devices.virtual.ptx.types import BITS
from backwarp.devices.virtual.ptx.verify import fits

_STRANGE = (
    "_ 0 1 -1 5 31 64 0xFFFFFFFF 0x8000000000000000 18446744073709551615 0f3F800000 0f7FC00000 0d3FF0000000000000 1e3 WARP_SZ"
    " %tid.x %laneid %clock64 %lanemask_lt %envreg1 %pm0 %nosuch [0] [-4] nowhere nowhere+4 [nowhere] {} () !%p1 %p1|%p2"
).split()
_NUMBERS = (0, 1, -1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 64, 255, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1)
_OFFSETS = (-8, -4, -1, 1, 2, 4, 8, 16, 4096, 1 << 20, 1 << 31, 1 << 40)
_BRANCHING = ("label", "table")
_PTX_ROWS = [row for row in rows() if "mark" not in row[2].split()]


# -- from the table ------------------------------------------------------------------------------------------


def spelling(pattern: str, rng: Random) -> str:
    """One of those that a row's pattern stands for."""
    text = pattern.replace("!", "")
    while "<" in text:
        text = re.sub(r"<(\w+)>", lambda m: f"({CLASSES[m[1]]})", text)
    while match := re.search(r"\{([^{}()]*)\}|\(([^{}()]*)\)", text):
        inside = rng.choice(("", match[1])) if match[2] is None else rng.choice(match[2].split("|"))
        text = text[: match.start()] + inside + text[match.end() :]
    return text


class Scope:
    """What an instruction can name where it stands. registers: name -> type; the others by how they are written."""

    def __init__(self, registers: dict[str, str], addresses: list[str], labels: list[str], tables: list[str]):
        self.registers, self.addresses, self.labels, self.tables = registers, addresses, labels, tables

    def new(self, rng: Random) -> str | None:
        """An instruction that the table allows; None where the scope has not what it needs."""
        pattern, operands, _ = rng.choice(_PTX_ROWS)
        return None if operands in ("...", *_BRANCHING) else self.made(spelling(pattern, rng), rng)

    def made(self, opcode: str, rng: Random) -> str | None:
        """With operands that fit."""
        op = find(opcode)
        roles = rng.choice(list(op.roles.values()))
        if op.collective == "group":  # its sums stand there once
            roles = [role for role in roles if role.name != "c"]
        given = [self.operand(op, role, rng) for role in roles]
        return None if None in given else f"{opcode} {', '.join(given)}"

    def operand(self, op: Op, role: Role, rng: Random) -> str | None:
        if role.type == "tile":
            role = replace(role, type="b32", vector=4) if rng.random() < 0.5 else replace(role, type="b64")
        if role.kind == "address":
            return rng.choice(self.addresses) if self.addresses else None
        if role.kind == "texel":
            return self.texel(op, rng)
        if role.kind == "imm":
            return str(rng.choice((4, 8, 16) if op.memory == "copy" else _NUMBERS[:14]))
        if role.kind in _BRANCHING:
            names = self.labels if role.kind == "label" else self.tables
            return rng.choice(names) if names else None
        parts = [self.value(op, role, rng) for _ in range(max(role.vector, 1))]
        if None in parts:
            return None
        pair = role.pair == "must" or role.pair == "may" and rng.random() < 0.3
        predicate = f"|{self.register('pred', False, rng)}" if pair else ""
        return (f"{{{', '.join(parts)}}}" if role.vector else parts[0]) + predicate

    def value(self, op: Op, role: Role, rng: Random) -> str | None:
        type_ = rng.choice(("pred", "u32")) if role.type == "ignore" else role.type
        if role.written or rng.random() < 0.7:
            return self.register(type_, op.wide, rng)
        if type_ == "pred":
            return f"!{register}" if (register := self.register(type_, False, rng)) else None
        if type_ in ("f32", "f64"):
            return rng.choice(("0f3F800000", "0d3FF0000000000000", "0f7FC00000", "0d8000000000000000"))
        return str(rng.choice(_NUMBERS))

    def texel(self, op: Op, rng: Random) -> str | None:
        """A place in a texture or a surface."""
        kind = op.types[-1] if op.texture else "b32"
        types = ["b64", *("b32" if letter in "l_" else kind for letter in op.coordinates)]
        handle, *places = [self.register(type_, False, rng) for type_ in types]
        return None if None in (handle, *places) else f"[{handle}, {{{', '.join(places)}}}]"

    def register(self, type_: str, wide: bool, rng: Random) -> str | None:
        found = [name for name, have in self.registers.items() if fits(have, type_, wide)]
        return rng.choice(found) if found else None


# -- changes of one instruction ------------------------------------------------------------------------------


def _fitting(ins: Instruction, scope: Scope, rng: Random) -> str | None:
    """One operand is another that the table allows."""
    places = [i for i, role in enumerate(ins.op.roles.get(len(ins.operands), ()))]
    if not places:
        return None
    place = rng.choice(places)
    return _with(ins, place, scope.operand(ins.op, ins.roles[place], rng))


def _any_operand(ins: Instruction, scope: Scope, rng: Random) -> str | None:
    others = (*_STRANGE, *scope.registers, *scope.addresses, *scope.labels)
    return _with(ins, rng.randrange(len(ins.operands)), rng.choice(others)) if ins.operands else None


def _other_number(ins: Instruction, scope: Scope, rng: Random) -> str | None:
    places = [i for i, o in enumerate(ins.operands) if re.search(r"(?<![\w%.$])-?\d+", o)]
    if not places:
        return None
    place = rng.choice(places)
    text = re.sub(r"(?<![\w%.$])-?\d+", str(rng.choice(_NUMBERS + _OFFSETS)), ins.operands[place], count=1)
    return _with(ins, place, text)


def _other_offset(ins: Instruction, scope: Scope, rng: Random) -> str | None:
    places = [i for i, o in enumerate(ins.operands) if o[0] == "["]
    if not places:
        return None
    place = rng.choice(places)
    return _with(ins, place, f"[{ins.operands[place].names[0]}+{rng.choice(_OFFSETS)}]")


def _other_parts(ins: Instruction, scope: Scope, rng: Random) -> str | None:
    """A vector has one part more, or less; a single value becomes one."""
    if not ins.operands:
        return None
    place = rng.randrange(len(ins.operands))
    parts = list(ins.operands[place].parts)
    parts = rng.choice((parts[:-1], [*parts, rng.choice(list(scope.registers) or ["_"])], parts * 2))
    return _with(ins, place, f"{{{', '.join(parts)}}}")


def _other_count(ins: Instruction, scope: Scope, rng: Random) -> str | None:
    """An operand is left out, repeated, or changes places with its neighbour."""
    if not ins.operands:
        return None
    operands, i = list(ins.operands), rng.randrange(len(ins.operands))
    j = rng.randrange(len(operands))
    rng.choice((operands.pop, lambda i: operands.insert(i, operands[j])))(i)
    return f"{_guard(ins)}{ins.opcode} {', '.join(operands)}"


def _other_modifier(ins: Instruction, scope: Scope, rng: Random) -> str | None:
    words = ins.opcode.split(".")
    new = rng.choice(
        [w for c in CLASSES.values() for w in c.split("|")] + ["v2", "sat", "ftz", "cc", "noftz", "aligned"]
    )
    i = rng.randrange(1, len(words) + 1)
    change = rng.randrange(3)
    if change == 0:
        words.insert(i, new)
    elif i < len(words):
        words[i : i + 1] = [new] if change == 1 else []
    return _opcode(ins, ".".join(words))


def _other_type(ins: Instruction, scope: Scope, rng: Random) -> str | None:
    words = ins.opcode.split(".")
    places = [i for i, word in enumerate(words) if word in BITS]
    if not places:
        return None
    words[rng.choice(places)] = rng.choice(list(BITS))
    return _opcode(ins, ".".join(words))


def _other_opcode(ins: Instruction, scope: Scope, rng: Random) -> str | None:
    """With as many operands, if one is found."""
    for _ in range(20):
        op = find(spelling(rng.choice(_PTX_ROWS)[0], rng))
        if len(ins.operands) in op.roles:
            return _opcode(ins, op.opcode)
    return None


def _new(ins: Instruction, scope: Scope, rng: Random) -> str | None:
    return scope.new(rng)


def _guarded(ins: Instruction, scope: Scope, rng: Random) -> str | None:
    predicate = scope.register("pred", False, rng)
    return predicate and f"@{rng.choice(('', '!'))}{predicate} {ins.opcode} {', '.join(ins.operands)}"


def _with(ins: Instruction, place: int, operand: str | None) -> str | None:
    if operand is None:
        return None
    operands = [*ins.operands[:place], operand, *ins.operands[place + 1 :]]
    return f"{_guard(ins)}{ins.opcode} {', '.join(operands)}"


def _opcode(ins: Instruction, opcode: str) -> str:
    return f"{_guard(ins)}{opcode} {', '.join(ins.operands)}"


def _guard(ins: Instruction) -> str:
    return f"@{'!' * ins.negated}{ins.pred} " if ins.pred else ""


_CHANGES = (
    *(_fitting, _new) * 4,
    *(_other_opcode, _other_number, _other_offset) * 2,
    _any_operand,
    _other_parts,
    _other_count,
    _other_modifier,
    _other_type,
    _guarded,
)


# -- of a text -----------------------------------------------------------------------------------------------


def mutate(text: str, rng: Random) -> str:
    """PTX in which one to three instructions are changed. What describes the source to a debugger is left alone."""
    code, mark, rest = text.partition("\n\t.section")
    lines = code.split("\n")
    places = [i for i, line in enumerate(lines) if line.startswith("\t") and _parsed(line)]
    for _ in range(rng.choice((1, 1, 1, 2, 3)) if places else 0):
        for _ in range(20):  # not every change finds something in every instruction
            at = rng.choice(places)
            ins = _parsed(lines[at])
            new = ins and rng.choice(_CHANGES)(ins, _scope(lines, at), rng)
            if new and new != str(ins):
                lines[at] = f"\t{new};"
                break
    return "\n".join(lines) + mark + rest


def _parsed(line: str) -> Instruction | None:
    return instruction(line.strip()[:-1]) if line.endswith(";") else None


def _scope(lines: list[str], at: int) -> Scope:
    """Of the function around a line."""
    start = next((i for i in range(at, -1, -1) if lines[i] == "{"), 0)
    end = next((i for i in range(at, len(lines)) if lines[i] == "}"), len(lines))
    body = "\n".join(lines[start:end])
    registers = {
        f"{name}{i}": type_
        for type_, name, count in re.findall(r"\.reg \.(\w+)\s+(%\w+?)<(\d+)>;", body)
        for i in range(1, min(int(count), 200))
    }
    labels = re.findall(r"^(\$L__BB\w+):", body, re.MULTILINE)
    return Scope(
        registers,
        sorted(set(re.findall(r"\[[^\]]*\]", body))),
        labels,
        re.findall(r"^(\$L__brx\w+):", body, re.M),
    )
