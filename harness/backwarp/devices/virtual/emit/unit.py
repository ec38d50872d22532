"""One module of LLVM text under construction."""

from __future__ import annotations

import re
import zlib

from ....errors import Unsupported
from ...launching import limits_of
from ..analyse import debuginfo
from ..analyse.facts import ModuleFacts
from ..analyse.padding import Padding
from ..compile.modules import KernelInfo, Lowered
from ..ptx.callgraph import align_up, defined, split_arguments
from ..ptx.ir import Function, Instruction, Location, Variable
from ..run.arena import SHARED_GUARD, slots_start
from ..runtime import abi
from ..runtime.abi import SHARED_START

_FIRST_NODE = 3  # of metadata that `lower` does not write itself
_LIMITS = limits_of("sm_90a")  # the most that any target has
_FUNCTIONS = 1 << 60  # pointers to functions begin here
_ASIDE = " nounwind willreturn memory(read, inaccessiblemem: readwrite)"


class Unit:
    """What the functions of a module have in common: declarations, sites, metadata, variables, kernels."""

    def __init__(self, facts: ModuleFacts, name: str, arena_size: int):
        self.facts, self.ptx = facts, facts.module
        self.graph, self.barriers, self.waits = facts.graph, facts.barriers, facts.waits
        self.name, self.arena_size = name, arena_size
        self.raw = not facts.waits.threads  # the runtime's own code
        self.slots_start = slots_start(arena_size)
        self.declarations: dict[str, str] = {}
        self._metadata: list[str] = []
        self.sites: list[tuple[Location, str]] = [(Location(), "")]
        self.variables: dict[str, tuple[int, Variable]] = {}
        self.variables_bytes = 0
        self.kernels: dict[str, KernelInfo] = {}
        self.paddings: list[Padding] = []  # of local variables
        self.helpers: dict[str, str] = {}  # functions that the code of others calls, by their names
        self._place_variables()

    def lowered(self, text: list[str]) -> Lowered:
        """The module, of the text of its functions."""
        head = [f"declare {d}" for d in self.declarations.values() if not self._is_defined(d)]
        tail = [
            '!0 = !{!"branch_weights", i32 1, i32 100000}',
            "!1 = !{}",
            '!2 = !{!"branch_weights", i32 100000, i32 1}',
            *self._metadata,
        ]
        return Lowered(
            "\n".join([*head, *self.helpers.values(), *text, *tail]) + "\n",
            self.kernels,
            self.sites,
            self.variables,
            self.variables_bytes,
            self._names_global_variables(),
            self._takes_memory(),
            {f.name: self.function_address(f.name) for f in self.graph.pointed},
            self.facts.segments,
            self.paddings,
            debuginfo.structs(self.ptx.debug),
        )

    def _names_global_variables(self) -> bool:
        names = {v.name for v in self.ptx.variables.values() if v.space == "global"}
        return bool(names) and any(
            name in names
            for function in defined(self.ptx)
            for item in function.body
            if isinstance(item, Instruction)
            for o in item.operands
            for name in o.names
        )

    def _takes_memory(self) -> bool:
        return not self.declarations.keys().isdisjoint(("rt_malloc", "rt_free"))

    def _is_defined(self, declaration: str) -> bool:
        name = re.search(r"@([\w.$]+)\(", declaration)
        if not (name and self.raw):
            return False
        function = self.ptx.functions.get(name[1])
        return name[1].startswith("call_") or function is not None and function.body is not None

    def _place_variables(self) -> None:
        """Module variables at offsets from globals_base, with red zones between; __constant__ ones together, last."""
        top = first_constant = 0
        for space in ("global", "const"):
            first_constant = top
            for variable in (v for v in self.ptx.variables.values() if v.space == space):
                if variable.extern:
                    raise Unsupported(f"the external variable {variable.name}", self.name)
                top = align_up(top, max(variable.align, 16))
                self.variables[variable.name] = (top, variable)
                top += align_up(variable.size, 16) + max(256, align_up(variable.size, 256))
        self.variables_bytes = top
        self.constants = first_constant, top - first_constant

    def declare(self, name: str, returns: str = "", arguments: str = "") -> None:
        """Declare a function that is called. Those of the runtime are known by their name."""
        if name in self.declarations:
            return
        types = tuple(a.strip().rsplit(" ", 1)[0] for a in split_arguments(arguments))
        if name in abi.FUNCTIONS and not self.raw:
            known = abi.FUNCTIONS[name]
            assert known == (returns or known[0], types or known[1]), f"{name} is called as {returns} {types}"
            returns, types = known
        aside = _ASIDE * (name in abi.ASIDE)
        self.declarations[name] = f"{returns} @{name}({', '.join(types)}){aside}"

    def declare_intrinsic(self, text: str) -> None:
        """text: its whole declaration."""
        self.declarations[text] = text

    def metadata(self, text: str) -> int:
        """A new node of LLVM's metadata. text: what it is, `{n}` its own number, which is returned."""
        n = _FIRST_NODE + len(self._metadata)
        self._metadata.append(f"!{n} = {text.format(n=n)}")
        return n

    def new_site(self, at: Location, what: str) -> int:
        self.sites.append((at, what))
        return len(self.sites) - 1

    def padding(self, variable: Variable) -> int:
        """Which of `paddings` are those of a variable, as a word: see `rt_local`."""
        if not variable.padding:
            return 0
        self.paddings += variable.padding
        return len(self.paddings) - len(variable.padding) << 16 | len(variable.padding)

    def function_address(self, name: str) -> int:
        """The value of a function pointer: not a memory address, so that a read through it is a fault."""
        return _FUNCTIONS + 16 * zlib.crc32(name.encode())  # the same in every build

    def shared_layout(self, kernel: Function):
        """(arrays, bytes as CUDA counts, start of dynamic memory): module-level and function-level symbols. Each is aligned
        as declared, and in the bank where CUDA puts it."""
        symbols = self.facts.shared[kernel.name]
        arrays, packed, top = [], 0, SHARED_START
        for variable in sorted((v for v in symbols if not v.extern), key=lambda v: -v.align):
            packed, top = align_up(packed, variable.align), align_up(top, variable.align)
            arrays.append((variable.name, top, variable.size))
            packed += variable.size
            top += variable.size + SHARED_GUARD + align_up(variable.size, 128)
        dynamic = align_up(top, max([16] + [v.align for v in symbols if v.extern]))
        end = dynamic + _LIMITS.shared_per_block_optin
        if packed <= _LIMITS.shared_per_block and end > abi.RESERVED["begin"]:
            raise Unsupported(f"{len(arrays)} shared variables in {kernel.name}", self.name)
        return tuple(arrays), packed, dynamic
