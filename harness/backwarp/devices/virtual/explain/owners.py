"""Which array an access was meant for: the one its pointer was computed from, else the one nearest to its
address."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np

from ...nvrtc.symbols import demangle, local_name
from ..analyse import debuginfo
from ..analyse.pointers import Likely, Origin, calls
from ..compile.recipes import Rewrite
from ..ptx import parse as ptx
from ..ptx.callgraph import align_up
from ..ptx.ir import Instruction
from ..ptx.statements import of_kernel
from ..rewrite import split_depots
from ..run.arena import LOCAL_BYTES, Owner
from ..runtime import abi
from .declarations import declared_shape, declared_type, local_arrays


class Text:
    """A module's kernel and what is known about it, the same for every launch. split: whether its local
    depots are split. pieces: the variables in the pieces."""

    def __init__(self, text: str, name: str, kernel: str, split: bool):
        self.kernel, self.module = kernel, ptx.parse(of_kernel(text, kernel), name)
        self.pieces: dict[str, debuginfo.Declared] = split_depots.run(self.module) if split else {}

    @cached_property
    def declared(self) -> tuple[debuginfo.Declared, ...]:
        return debuginfo.variables(self.module.debug)

    @cached_property
    def in_registers(self) -> dict[tuple[str, str], str]:
        return debuginfo.in_registers(self.module.debug)

    @cached_property
    def pointers(self) -> Likely:
        return Likely(self.module, self.kernel)


_read = lru_cache(maxsize=16)(Text)  # a file may have many kernels


_NEAR = 256  # bytes around a module variable that still count as its own
_UNKNOWN = "unknown"


class Owners:
    """The arrays of one launch. `run` is a launch's Execution: module, kernel, grid, block, arena."""

    def __init__(self, run):
        self.run, self.module, self.arena = run, run.module, run.arena
        self._access = 0

    def find(self, address: int, site: int, shared: bool, slot: int) -> Owner | None:
        """The owner of an element at a device address, accessed at a site; None if unknown.

        shared: the access named shared memory. A negative address is one that wrapped around. slot: where the
        block ran; each slot has its own shared and local memory.
        """
        self._window, self._access = (
            self._window_of(address, slot, shared),
            accessed(self.module.lowered.sites[site][1]),
        )
        space = self._space(address, shared)
        if image := self._image(address):
            return image
        beside = self._beside(address, space)
        elsewhere = space != "local" and beside is not None and beside.contains(address)
        found = [
            owner
            for origin in self._origins(site)
            if not (elsewhere and origin.kind == "local")  # a pointer that is kept in a local variable
            and (owner := self._of_origin(origin, address))
        ]
        if len({(o.name, o.start) for o in found}) == 1:
            return found[0]
        if len(holding := {o for o in found if o.contains(address)}) == 1:  # one of several passed
            return holding.pop()
        if found:
            return beside if beside and any(o.start == beside.start for o in found) else None
        return beside

    def at(self, address: int, slot: int) -> Owner | None:
        """The owner of what lies there, whatever it is used for."""
        self._window, self._access = self._window_of(address, slot), 0
        return self._beside(address, self._space(address, False))

    def _window_of(self, address: int, slot: int, own: bool = False) -> int:
        """Where the shared memory of a block begins: of another one of the cluster, if the address is in that."""
        place = address - self.arena.slots_start
        if (
            not own
            and self.run.kernel.info.clustered
            and place >= 0
            and place % abi.SLOT_BYTES < abi.SHARED_WINDOW
        ):
            slot = place // abi.SLOT_BYTES
        return self.arena.shared_base(slot)

    # -- where the address lies ------------------------------------------------------------------

    def _space(self, address: int, shared: bool) -> str:
        """ "global", "shared" or "local"."""
        inside = address - self._window
        if shared or 0 <= inside < abi.SHARED_WINDOW:
            return "shared"
        return "local" if abi.LOCAL_START <= inside < abi.SLOT_BYTES else "global"

    def _beside(self, address: int, space: str) -> Owner | None:
        """The array that contains an address, or in whose red zone it lies."""
        if space == "shared":
            arrays = self._shared()
            before = [o for o in arrays if o.start <= address]
            return (
                max(before, key=lambda o: o.start)
                if before
                else min(arrays, key=lambda o: o.start, default=None)
            )
        if space == "local":
            return Owner("a local array", address, 0, "local")
        owner = self.arena.nearest(address) if 0 <= address < self.arena.size else None
        if owner is self.module.variables_owner:
            near = [o for o in self._variables if o.start - _NEAR <= address < o.start + o.nbytes + _NEAR]
            return min(near, key=lambda o: distance(o, address), default=None)
        if owner and owner is getattr(self.run.device.heap, "owner", None):
            return self._in_heap(owner, address)
        if owner is None or distance(owner, address) > self.arena.red_zone(owner):
            return None
        return owner

    def _image(self, address: int) -> Owner | None:
        """A CUDA array containing the address: it is the owner whatever other arrays the line uses."""
        textures, owner = self.run.device.textures, self.arena.nearest(address) if address >= 0 else None
        inside = textures is not None and owner is not None and owner.contains(address)
        return owner if inside and textures.are_of(owner.start) else None

    def _in_heap(self, heap: Owner, address: int) -> Owner:
        """The block of memory that contains an address, or precedes it."""
        block = self.run.device.heap.block(address)
        if block is None:
            return heap
        line = self.module.lowered.sites[block["site"]][0].line if block["launch"] == self.run.tag else 0
        name = f"the memory from malloc(){f' in line {line}' * bool(line)}"
        return Owner(name, int(block["address"]), int(block["bytes"]), "heap", itemsize=self._access or 1)

    def shared(self) -> list[tuple[Owner, str]]:
        """The shared arrays of a block, as if its window began at 0, and their declared types; "" where that is not clear."""
        self._window = 0
        symbols = [name for name, *_ in self.run.kernel.info.shared] + self._dynamic_names()
        return [
            (o, declared_type(self.module.source, s)) for o, s in zip(self._shared(), symbols, strict=True)
        ]

    def _shared(self) -> list[Owner]:
        """The shared arrays of the block."""
        base, info, result = self._window, self.run.kernel.info, []
        for name, offset, size in info.shared:
            plain = local_name(name)
            shape, itemsize = self._shape(name, plain, size)
            result.append(Owner(plain, base + offset, size, "shared", shape, itemsize))
        size = self.run.shared_mem
        asked = f"the launch asks for {f'{size} bytes of' if size else 'no'} dynamic shared memory"
        for name in self._dynamic_names():
            start, itemsize = base + info.dynamic_offset, self._shape(name, demangle(name), size)[1]
            result.append(Owner(demangle(name), start, size, "shared", itemsize=itemsize, remark=asked))
        return result

    def _dynamic_names(self) -> list[str]:
        names = [v.name for v in self.parsed.variables.values() if v.space == "shared" and v.extern]
        return names or ["dynamic shared memory"] * bool(self.run.shared_mem)

    # -- where the pointer came from ---------------------------------------------------------------

    @cached_property
    def text(self) -> Text:
        split = Rewrite.DEPOTS in self.run.device.recipe
        return _read(self.module.compiled.text, self.module.name, self.run.kernel.info.name, split)

    @property
    def parsed(self) -> ptx.Module:
        return self.text.module

    @property
    def pointers(self) -> Likely:
        return self.text.pointers

    def variable(self, function: str, register: str) -> str:
        """The name of the variable that a register of a function holds, possibly as a copy; "" if unknown."""
        body = self.parsed.functions[function].body if function in self.parsed.functions else None
        for _ in range(8):
            if name := self.text.in_registers.get((function, register)):
                return name
            copied = {
                i.operands[1]
                for i in body or ()
                if isinstance(i, Instruction) and i.op.is_move and i.operands[0] == register
            }
            if len(copied) != 1:
                return ""
            register = copied.pop()
        return ""

    @cached_property
    def _variables(self) -> dict[Owner, str]:
        """The module's variables with their shapes, and their names in PTX."""
        return {
            replace(
                owner,
                **dict(zip(("shape", "itemsize"), self._shape(name, owner.name, owner.nbytes), strict=True)),
            ): name
            for name, owner in zip(self.module.lowered.variables, self.module.owners, strict=True)
        }

    def _origins(self, site: int) -> set[Origin]:
        origins = self.pointers.origins(*self.module.lowered.sites[site])
        return set() if any(o.kind == _UNKNOWN for o in origins) else origins

    def _of_origin(self, origin: Origin, address: int) -> Owner | None:
        if origin.kind == "param":
            return self._argument(origin)
        if origin.kind == "local":
            return self._local(origin, address)
        if owner := next((o for o, name in self._variables.items() if name == origin.name), None):
            return owner
        return next((o for o in self._shared() if o.name == local_name(origin.name)), None)

    def _argument(self, origin: Origin) -> Owner | None:
        """The array whose address was passed in a kernel's parameter."""
        for parameter in self.run.kernel.info.params:
            if parameter.name == origin.name and origin.offset + 8 <= parameter.size:
                start = self.run.device.params.start + parameter.offset + origin.offset
                address = int(self.arena.bytes[start : start + 8].view(np.uint64)[0])
                owner = self.arena.nearest(address) if 0 < address < self.arena.size else None
                if owner and owner.start == address and owner.space == "global":
                    return owner
        return None

    def _local(self, origin: Origin, address: int) -> Owner | None:
        """A local array: with its name if compiler or source provide it, and an index if its place is
        known."""
        function = self.parsed.functions[origin.function]
        variable = function.variables[origin.name]
        name, offset, nbytes, shape, itemsize = self._local_array(origin, function, variable.size)
        start = self._start_of_local(function, variable, address)
        if start is None:
            return Owner(name, address, 0, "local")
        return Owner(name, start + offset, nbytes, "local", shape, itemsize)

    def _local_array(self, origin: Origin, function: ptx.Function, nbytes: int):
        """(name, offset in the local variable of PTX, bytes, extents, bytes of an element)."""
        if d := self.text.pieces.get(origin.name):
            return d.name, 0, d.nbytes, d.shape, d.itemsize if d.shape else min(d.itemsize, 4)
        for d in self.text.declared:
            if d.symbol == origin.name and d.offset <= max(origin.offset, 0) < d.offset + d.nbytes:
                return d.name, d.offset, d.nbytes, d.shape, d.itemsize if d.shape else min(d.itemsize, 4)
        lines = [i.at.line for i in function.body or () if isinstance(i, Instruction) and i.at.line]
        arrays = local_arrays(self.module.source, min(lines, default=0), max(lines, default=0))
        if len(arrays) == 1 and not self.text.declared:
            name, shape, itemsize = arrays[0]
            if int(np.prod(shape, dtype=object)) * itemsize == nbytes:
                return name, 0, nbytes, shape, itemsize
        return "a local array", 0, nbytes, (), self._access or 4

    def _start_of_local(self, function: ptx.Function, variable: ptx.Variable, address: int) -> int | None:
        """The device address of a local variable of the thread whose local memory holds `address`."""
        starts = self._local_offsets.get((function.name, variable.name), set())
        if self._space(address, False) != "local" or len(starts) != 1:
            return None
        n = self.run.block[0] * self.run.block[1] * self.run.block[2]
        each = LOCAL_BYTES // n // 4096 * 4096
        first = self._window + abi.LOCAL_START
        return first + (address - first) // each * each + next(iter(starts))

    @cached_property
    def _local_offsets(self) -> dict[tuple[str, str], set[int]]:
        """(function, variable) -> its places in a thread's local memory: several, if it is called from
        several places."""
        offsets: dict[tuple[str, str], set[int]] = {}
        work, seen = [(self.run.kernel.info.name, 0)], set()
        while work and len(seen) < 1000:
            name, top = work.pop()
            function = self.parsed.functions.get(name)
            if function is None or (name, top) in seen:
                continue
            seen.add((name, top))
            for variable in function.variables.values():
                if variable.space == "local":
                    start = align_up(top, max(variable.align, 16))
                    offsets.setdefault((name, variable.name), set()).add(start)
                    top = start + align_up(variable.size, 4) + abi.LOCAL_GUARD
            work += [(ins.called[1], top) for ins in calls(function)]
        return offsets

    def _shape(self, symbol: str, plain: str, nbytes: int) -> tuple[tuple[int, ...], int]:
        """(extents, bytes of an element) of a variable: from the compiler, else from the source."""
        for d in self.text.declared:
            if d.symbol == symbol and (d.nbytes == nbytes or not d.nbytes):
                return (d.shape if d.nbytes else ()), d.itemsize
        return declared_shape(self.module.source, plain, nbytes, symbol, self._access)


def element(owner: Owner, address: int) -> str:
    """`input[b=0,c=2]`; only the name for a variable that is not an array."""
    if not owner.name.isidentifier():
        return f"element {owner.element(address)} of {owner.name}"
    if not owner.shape and owner.nbytes == owner.itemsize and owner.contains(address):
        return owner.name
    return f"{owner.name}[{owner.element(address)}]"


def accessed(text: str) -> int:
    """Bytes of the element that an instruction accesses (of one element in a vector); 0 if unknown."""
    ins = ptx.instruction(text)
    return ins.op.nbytes if ins and ins.op.memory else 0


def distance(owner: Owner, address: int) -> int:
    """Bytes from an array to an address outside it."""
    return max(owner.start - address, address - (owner.start + owner.nbytes) + 1, 0)
