"""The registers that a function declares."""

from __future__ import annotations

from .ir import Instruction


class Registers:
    """Declared names and ranges, which may be huge; only registers that the function uses are expanded."""

    def __init__(self):
        self._names: dict[str, str] = {}  # in order of declaration; a range by its prefix
        self._ranges: dict[str, int] = {}

    def declare(self, name: str, type_: str, count: int) -> bool:
        """count: the length of a range, else -1. Returns False if the name is already declared."""
        if name in self._names:
            return False
        self._names[name] = type_
        if count >= 0:
            self._ranges[name] = count
        return True

    def used(self, body) -> dict[str, str]:
        """Register -> its type, in the order of declaration."""
        own = [item for item in body if isinstance(item, Instruction)]
        operands = {operand for ins in own for operand in ins.operands}
        names = {ins.pred for ins in own}.union(*(operand.registers for operand in operands))
        members: dict[str, set[int]] = {}
        for name in names:
            if name not in self._names or name in self._ranges:
                prefix = name.rstrip("0123456789")
                while prefix not in self._ranges and len(prefix) < len(name):
                    prefix = name[: len(prefix) + 1]  # a prefix that ends in a digit
                number = name[len(prefix) :]
                if number and (number == "0" or number[0] != "0") and int(number[:10]) < self._ranges[prefix]:
                    members.setdefault(prefix, set()).add(int(number))
        found: dict[str, str] = {}
        for name, type_ in self._names.items():
            if name in self._ranges:
                found |= {f"{name}{i}": type_ for i in sorted(members.get(name, ()))}
            else:
                found[name] = type_
        return found
