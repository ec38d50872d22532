"""Inlines functions that may suspend: a coroutine can suspend only in its own frame.

    call.uni (retval0), _Z3sumf, (param0);          enter _Z3sumf;
                                                    ld.param.f32 %f1..1, [param0];
                                              ->    ...
                                                    st.param.f32 [retval0], %f9..1;
                                                    bra $return..1;          // was `ret`
                                                 $return..1:
                                                    leave _Z3sumf;

Names in the body get a suffix, so that each copy has its own; parameters become the call's. At `enter` the
copy's registers become unset and its local variables are allocated; `leave` frees them. Only kernels are
rewritten: any caller of such a function is itself inlined.

Short functions are expanded as well where single threads check every access: an operator costs less than its call, and what is
passed by reference needs no address (see `promote.in_place`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import inf

from ....errors import Unsupported
from ..analyse.facts import ModuleFacts
from ..analyse.waits import Waits
from ..ptx.callgraph import called
from ..ptx.ir import Expansion, Function, Instruction, Label, operand, renamed

_LONGEST = 3000  # instructions of a kernel with all that it calls
_SHORT = 60  # those of a function that is expanded wherever it is called, with all that it calls
_SUFFIX = ".."  # no PTX identifier has a dot, and the parser appends only a single dot with a number


def run(waits: Waits) -> None:
    """In place, for all kernels of the module. Errors: Unsupported for a recursive function that waits."""
    for function in waits.graph.functions.values():
        if function.entry:
            _expand(function, waits, waits.may_wait)


def run_short(known: ModuleFacts) -> None:
    """Expand the calls of short functions, in place, in all that would be emitted, but for kernels that wait: how their threads
    leave is told by what has been expanded there."""
    waits, graph = known.waits, known.graph

    @cache
    def size(name: str) -> float:
        """Instructions of a function in which all calls are expanded; infinite if not all can be."""
        if name not in graph.functions or graph.is_recursive(name):
            return inf if name[0] == "%" or name in graph.functions else 0
        body = graph.functions[name].body or ()
        return len(body) + sum(size(callee) for item in body if (callee := called(item)))

    def is_short(name: str) -> bool:
        return size(name) <= _SHORT

    # callers first: what is copied has no copies in it
    for function in sorted(known.emitted, key=lambda f: -len(graph.closure(f.name))):
        more = sum(size(name) for item in function.body if (name := called(item)) and is_short(name))
        if len(function.body) + more <= _LONGEST and not waits.may_wait(function.name):
            _expand(function, waits, is_short)
    known.drop_unreached()


def _expand(function: Function, waits: Waits, wanted: Callable[[str], bool]) -> None:
    if any(_expanded(item, waits, wanted) for item in function.body or ()):
        _Expander(function, waits, wanted).run()


def run_all(function: Function, waits: Waits) -> bool:
    """Expand all calls of a kernel, in place. Returns whether that could be done."""
    if any(map(waits.graph.is_recursive, waits.graph.closure(function.name))):
        return False
    _expand(function, waits, lambda name: True)
    return len(function.body) <= _LONGEST


def plain_name(name: str) -> str:
    """The original name of something copied from an inlined function."""
    return name.partition(_SUFFIX)[0]


def _labels(function: Function) -> list[str]:
    return [item.name for item in function.body if isinstance(item, Label)]


def _number(name: str) -> int:
    """Of the copy that a name belongs to; 0: of none."""
    serial = name.rpartition(_SUFFIX)[2]
    return int(serial) if serial.isdigit() and _SUFFIX in name else 0


def _expanded(item, waits: Waits, wanted: Callable[[str], bool]) -> Function | None:
    """The function whose body replaces a call, if it does."""
    name = called(item)
    function = waits.graph.functions.get(name)
    if function is None or function.body is None or not wanted(name):
        return None
    return function


class _Expander:
    def __init__(self, kernel: Function, waits: Waits, wanted: Callable[[str], bool]):
        self.wanted = wanted
        self.kernel, self.waits, self.graph = kernel, waits, waits.graph
        self.body: list[Instruction | Label] = []
        self.serial = max(map(_number, (*kernel.regs, *kernel.variables, *_labels(kernel))), default=0)

    def run(self) -> None:
        self._copy(self.kernel, {}, None)
        self.kernel.body = self.body

    def _copy(self, function: Function, names: dict[str, str], into: Expansion | None, end: str = "") -> None:
        """Append a body. names: old -> new names. end: the target of its `ret`s."""
        for item in function.body:
            if isinstance(item, Label):
                self.body.append(Label(names[item.name]) if into else item)
                continue
            callee = _expanded(item, self.waits, self.wanted)
            copy = self._renamed(item, names, into, end) if into else item
            if callee is None:
                self.body.append(copy)
            else:
                self._expand(callee, copy)

    def _renamed(self, ins: Instruction, names: dict[str, str], into: Expansion, end: str) -> Instruction:
        if ins.op.flow == "return":
            return Instruction("bra", (operand(end),), ins.at, original=ins, expansion=into)
        operands = tuple(renamed(o, lambda name: names.get(name, name)) for o in ins.operands)
        return replace(
            ins, operands=operands, pred=names.get(ins.pred, ins.pred), original=ins, expansion=into
        )

    def _expand(self, function: Function, call: Instruction) -> None:
        if self.graph.is_recursive(function.name):
            at = call.at if call.at.line else self.graph.called_at(function.name)
            raise Unsupported(
                f"a barrier or warp collective inside the recursive function {function.name}",
                at.file,
                at.line,
            )
        end = self._label("return")
        suffix = f"{_SUFFIX}{self.serial}"
        names = self._declare(function, suffix)
        returns, _, arguments = call.called
        names |= {p.name: str(a) for p, a in zip(function.params, arguments, strict=True)}
        names |= {p.name: str(r) for p, r in zip(function.returns, returns, strict=False)}
        for unwanted in function.returns[len(returns) :]:
            names[unwanted.name] = unwanted.name + suffix
            self.kernel.variables[unwanted.name + suffix] = replace(unwanted, space="param", is_array=True)
        own = tuple(names[name] for name, v in function.variables.items() if v.space == "local")
        into = Expansion(function.name, call, tuple(names[r] for r in function.regs), own)
        mark = Instruction(
            "enter", (operand(function.name),), call.at, original=call.original or call, expansion=into
        )
        self.body.append(mark)
        self._copy(function, names, into, end)
        self.body += [Label(end), replace(mark, opcode="leave")]

    def _declare(self, function: Function, suffix: str) -> dict[str, str]:
        """Declare a copy's registers, variables and tables in the kernel. Returns old -> new names.

        Shared variables belong to the block, so they keep their names.
        """
        labels = _labels(function)
        own = [name for name, v in function.variables.items() if v.space != "shared"]
        names = {name: name + suffix for name in (*function.regs, *own, *labels, *function.tables)}
        kernel = self.kernel
        kernel.regs |= {names[name]: type_ for name, type_ in function.regs.items()}
        for name, variable in function.variables.items():
            new = names.get(name, name)
            kernel.variables[new] = variable if variable.space == "shared" else replace(variable, name=new)
        kernel.tables |= {
            names[name]: tuple(names.get(t, t) for t in targets) for name, targets in function.tables.items()
        }
        return names

    def _label(self, what: str) -> str:
        self.serial += 1
        return f"${what}{_SUFFIX}{self.serial}"
