"""Calls of functions that return their argument, like `T& as(U& x)`, become copies.

    st.param.b64 [param0+0], %rd1;            mov.b64 %rd2, %rd1;
    call (retval0), as, (param0);       ->
    ld.param.b64 %rd2, [retval0+0];

Unoptimised code is full of them, and after a call it is no longer known which array an address belongs to.
"""

from __future__ import annotations

from dataclasses import replace

from ..ptx.ir import Function, Instruction, Label, Module


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
    if [i.opcode for i in steps] not in (
        ["ld.param.u64", "st.param.b64", "ret"],
        ["ld.param.b64", "st.param.b64", "ret"],
    ):
        return False
    load, store, _ = steps
    return (load.operands[1] == f"[{function.params[0].name}]" and store.operands[1] == load.operands[0]
            and store.operands[0] == f"[{function.returns[0].name}+0]")  # fmt: skip


def _without_calls(body: list, names: set[str]) -> list:
    given = {
        i.operands[0]: i.operands[1]
        for i in body
        if isinstance(i, Instruction) and i.opcode == "st.param.b64"
    }
    handed, dropped = {}, set()
    for ins in body:
        if isinstance(ins, Instruction) and ins.base == "call":
            returns, callee, arguments = ins.called
            place = f"[{arguments[0]}+0]" if callee in names and returns else ""
            if place in given:
                handed[f"[{returns[0]}+0]"] = given[place]
                dropped |= {place, str(ins)}
    new = []
    for item in body:
        if isinstance(item, Label):
            new.append(item)
        elif item.opcode == "ld.param.b64" and item.operands[1] in handed:
            new.append(replace(item, opcode="mov.b64", operands=(item.operands[0], handed[item.operands[1]])))
        elif str(item) not in dropped and not (item.opcode == "st.param.b64" and item.operands[0] in dropped):
            new.append(item)
    return new
