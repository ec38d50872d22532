"""Replaces calls of functions that return their argument, like `T& as(U& x)`, by copies.

    st.param.b64 [param0+0], %rd1;            mov.b64 %rd2, %rd1;
    call (retval0), as, (param0);       ->
    ld.param.b64 %rd2, [retval0+0];

Unoptimised code is full of them, and a call would hide which array an address belongs to.
"""

from __future__ import annotations

from dataclasses import replace

from ..ptx.ir import Address, Function, Instruction, Label, Module


def run(module: Module) -> None:
    """In place."""
    names = {f.name for f in module.functions.values() if _is_identity(f)}
    for function in module.functions.values() if names else ():
        if function.body is not None and function.name not in names:
            function.body = _without_calls(function.body, names)


def _is_identity(function: Function) -> bool:
    if function.body is None or function.entry or len(function.params) != 1 or len(function.returns) != 1:
        return False
    steps = [i for i in function.body if isinstance(i, Instruction)]
    if len(steps) != 3 or not (_moves_word(steps[0], "load") and _moves_word(steps[1], "store")):
        return False
    load, store, last = steps
    parameter, result = function.params[0].name, function.returns[0].name
    places = _place(load.address), _place(store.address)
    return (
        last.op.flow == "return"
        and places == ((parameter, 0), (result, 0))
        and store.operands[1] == load.operands[0]
    )


def _moves_word(item: Instruction | Label, how: str) -> bool:
    """Whether it loads or stores a parameter of 64 bits."""
    if isinstance(item, Label) or item.pred:
        return False
    return item.op.of_parameters and item.op.memory == how and item.op.vector == 1 and item.op.nbytes == 8


def _place(address: Address) -> tuple[str, int]:
    return address.base, address.offset


def _without_calls(body: list, names: set[str]) -> list:
    given = {_place(i.address): i.operands[1] for i in body if _moves_word(i, "store")}
    handed, dropped, calls = {}, set(), set()
    for ins in body:
        if isinstance(ins, Instruction) and ins.op.flow == "call":
            returns, callee, arguments = ins.called
            if callee in names and returns and not ins.pred and (arguments[0], 0) in given:
                handed[returns[0], 0] = given[arguments[0], 0]
                dropped.add((arguments[0], 0))
                calls.add(ins)
    new = []
    for item in body:
        if isinstance(item, Label):
            new.append(item)
        elif _moves_word(item, "load") and _place(item.address) in handed:
            value = handed[_place(item.address)]
            new.append(replace(item, opcode="mov.b64", operands=(item.operands[0], value)))
        elif item not in calls and not (_moves_word(item, "store") and _place(item.address) in dropped):
            new.append(item)
    return new if any(isinstance(item, Instruction) for item in new) else body
