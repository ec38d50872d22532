"""Refuses declarations that PTX does not allow, or that do not fit into any memory: see `verify`.

Source: PTX ISA, sections 5 (state spaces) and 7 (functions).
"""

from __future__ import annotations

from collections import Counter

from ....errors import Unsupported
from .callgraph import align_up
from .ir import Module, Variable
from .types import BYTES

PARAM_BYTES = 4352  # of all parameters of a function
PARAM_BYTES_IN_ALL = (
    1 << 18
)  # of the parameters and .param variables of all functions, which are on the host's stack
BYTES_OF_OTHERS = 1 << 48  # whether the device has that much shows when they are allocated
ALIGN, ALIGN_SHARED = 4096, 1 << 17  # at most: pages; all that a block can have


def run(module: Module, name: str) -> None:
    """Errors: Unsupported, naming the declaration."""
    _Declarations(module, name).check()


class _Declarations:
    """Functions and the variables of the module."""

    def __init__(self, module: Module, name: str):
        self.module, self.name = module, name

    def refuse(self, what: str) -> None:
        raise Unsupported(what, self.name)

    def check(self) -> None:
        for variable in self.module.variables.values():
            self.variable(variable)
            self.initialiser(variable)
        self.shared_once()
        total = 0
        for f in self.module.functions.values():
            if f.name in self.module.variables:
                self.refuse(f"PTX in which {f.name} is both a variable and a function")
            if f.entry and f.body is None:
                self.refuse(f"the PTX kernel {f.name} without a body")
            if f.entry and f.returns:
                self.refuse(f"the PTX kernel {f.name} with a result")
            formals = f.params + f.returns
            twice = [n for n, count in Counter(v.name for v in formals).items() if count > 1]
            if twice:
                self.refuse(f"PTX with two parameters {twice[0]}")
            for v in formals:
                self.variable(v)
            for v in f.variables.values():
                self.variable(v)
                if v.init:
                    self.refuse(f"the PTX variable {v.name} with an initial value in a function")
            end = 0
            for v in formals:
                end = align_up(end, v.align) + v.size
            if end > PARAM_BYTES:
                self.refuse(f"the PTX function {f.name} with more than {PARAM_BYTES} bytes of parameters")
            total += end + sum(v.size for v in f.variables.values() if v.space == "param")
        if total > PARAM_BYTES_IN_ALL:
            self.refuse(f"PTX with {total} bytes of .param variables")

    def shared_once(self) -> None:
        """Shared variables need unique names: a kernel's shared memory is laid out by name, over all its
        callees."""
        scopes = [self.module.variables, *(f.variables for f in self.module.functions.values())]
        names = Counter(v.name for scope in scopes for v in scope.values() if v.space == "shared")
        if twice := next((n for n, count in names.items() if count > 1), ""):
            self.refuse(f"PTX with two shared variables {twice}")

    def variable(self, v: Variable) -> None:
        if v.align < 1 or v.align & v.align - 1 or v.align > (ALIGN_SHARED if v.space == "shared" else ALIGN):
            self.refuse(f"the PTX variable {v.name} with an alignment of {v.align}")
        if v.size > (PARAM_BYTES if v.space == "param" else BYTES_OF_OTHERS):
            self.refuse(f"the PTX variable {v.name} of {v.size} bytes in {v.space} memory")
        if v.type == "pred":
            self.refuse(f"the PTX variable {v.name} of type .pred")

    def initialiser(self, v: Variable) -> None:
        if v.init and v.space not in ("global", "const") or len(v.init) * BYTES[v.type] > v.size:
            self.refuse(f"the initial values of the PTX variable {v.name}")
        for value in v.init:
            if isinstance(value, tuple):
                target, f = self.module.variables.get(value[1]), self.module.functions.get(value[1])
                pointed = f is not None and f.body is not None and not f.entry
                if not pointed and (target is None or target.space not in ("global", "const")):
                    self.refuse(f"the address of {value[1]} as an initial value")
