"""Calls: of device functions, through pointers, and of system functions.

Source: PTX ISA, section 7 (abstracting the ABI) and 9.7.12.5 (call).
"""

from __future__ import annotations

from ....errors import CompileError, Diagnostic, Unsupported
from ...nvrtc.compiler import demangle
from ..ptx.callgraph import symbol_name
from ..ptx.ir import Function, Instruction, Variable
from .control import DEAD


def emit(e, ins: Instruction) -> bool:
    """Whether it ends the block."""
    returns, name, arguments = ins.called
    function = e.module.ptx.functions.get(name)
    if function is None:
        _call_pointer(e, ins, name, returns, arguments)
        return False
    if function.body is None:
        return _external(e, ins, name, returns, arguments)
    _call_function(e, ins, function, returns, arguments)
    return False


def _call_function(e, ins: Instruction, function: Function, returns, arguments) -> None:
    args = [] if e.module.raw else ["i64 %env", "i64 %thr", f"i32 {e.sites.of(ins)}"]
    for formal, actual in zip(function.params, arguments, strict=True):
        if formal.is_array:
            args.append(f"ptr {e.variables.parameter(actual)}")
        else:
            t = f"i{8 * formal.size}"
            args.append(f"{t} {_argument(e, actual, formal)}")
    returned = "void"
    for formal, actual in zip(function.returns, returns, strict=False):
        if formal.is_array:
            args.append(f"ptr {e.variables.parameter(actual)}")
        else:
            returned = f"i{8 * formal.size}"
    text = f"call {returned} {symbol_name(function.name, e.module.raw)}({', '.join(args)})"
    if returned == "void":
        e.line(text)
    else:
        result = e.fresh("result")
        e.line(f"{result} = {text}")
        if returns:
            e.line(f"store {returned} {result}, ptr {e.variables.parameter(returns[0])}")
    if not e.module.raw:
        alive = e.fresh_label("returned")
        dead = e.op("icmp ne i32", e.state.load("Thread", "dead", volatile=True), 0)
        e.branch(dead, DEAD, alive, unlikely=True)
        e.label(alive)


def _call_pointer(e, ins: Instruction, register: str, returns, arguments) -> None:
    """A call through a pointer: a switch over the functions whose address is taken and whose signature
    fits."""
    if e.values.types.get(register) is None:
        raise Unsupported(f"the function {register}")
    pointer, after = e.value(register, "u64"), e.fresh_label("after")
    candidates = [f for f in e.module.graph.pointed if _fits(e, f, returns, arguments)]
    if any(e.module.waits.must_wait(f.name) for f in candidates):
        raise Unsupported("a barrier or warp collective in a function that is called through a pointer")
    labels = [e.fresh_label("target") for _ in candidates]
    cases = " ".join(
        f"i64 {e.module.function_address(f.name)}, label %{label}"
        for f, label in zip(candidates, labels, strict=True)
    )
    nowhere = e.fresh_label("nowhere")
    e.line(f"switch i64 {pointer}, label %{nowhere} [ {cases} ]")
    e.label(nowhere)
    e.control.fault(ins)
    known = e.text.remembered()
    for f, label in zip(candidates, labels, strict=True):
        e.label(label)
        e.text.recall(known)
        _call_function(e, ins, f, returns, arguments)
        e.line(f"br label %{after}")
    e.label(after)
    e.text.recall(known)


def _fits(e, function: Function, returns, arguments) -> bool:
    if len(function.params) != len(arguments) or len(function.returns) < len(returns):
        return False
    given, wanted = (*arguments, *returns), (*function.params, *function.returns[: len(returns)])
    return all(e.variables.find(a).size == v.size for a, v in zip(given, wanted, strict=True))


def _argument(e, actual: str, formal: Variable) -> str:
    if pointer := e.variables.parameter(actual):
        return e.emit(f"load i{8 * formal.size}, ptr {pointer}, align 1")
    return e.value(actual, f"b{8 * formal.size}")


def _external(e, ins: Instruction, name: str, returns, arguments) -> bool:
    """Functions that CUDA's device library leaves to the system."""
    if e.module.raw:
        _external_raw(e, name, returns, arguments)
        return False
    if name == "vprintf":
        values = [_argument(e, a, Variable("param", "b64", "", 8, 8)) for a in arguments]
        result = e.state.call("rt_printf", *values, site=e.sites.of(ins))
        if returns:
            e.line(f"store i32 {result}, ptr {e.variables.parameter(returns[0])}")
        return False
    if name == "__assertfail":
        values = []
        for argument, size in ((arguments[0], 8), (arguments[2], 4)):
            value = _argument(e, argument, Variable("param", f"b{8 * size}", "", size, size))
            values.append(e.resize(value, f"i{8 * size}", "i64"))
        e.state.call("rt_assert", *values, site=e.sites.of(ins))
        e.line(f"br label %{DEAD}")
        return True
    if name in ("malloc", "free"):
        _heap(e, ins, name, returns, arguments)
        return False
    if name.startswith(("cuda", "__cuda")):  # of CUDA's runtime on the device
        raise Unsupported(f"dynamic parallelism: {name}() is called, which only the host can do here")
    at = e.sites.location(ins)
    message = f"{demangle(name, qualified=True)}() is called here, but nothing in this file says what it does"
    place = at.file or e.module.name, at.line
    raise CompileError(message, (Diagnostic("error", message, *place),))


def _heap(e, ins: Instruction, name: str, returns, arguments) -> None:
    """malloc() and free(), which new and delete also use."""
    value = _argument(e, arguments[0], Variable("param", "b64", "", 8, 8))
    e.module.declare(f"rt_{name}")
    result = e.state.call(f"rt_{name}", value, site=e.sites.of(ins))
    if name == "free":
        good = e.fresh_label("freed")
        e.branch(e.op("icmp ne i32", result, 0), good, DEAD)
        e.label(good)
    elif returns:
        e.line(f"store i64 {result}, ptr {e.variables.parameter(returns[0])}")


def _external_raw(e, name: str, returns, arguments) -> None:
    """The runtime calls host functions by name."""
    function = e.module.ptx.functions[name]
    args = [f"i{8 * f.size} {_argument(e, a, f)}" for f, a in zip(function.params, arguments, strict=True)]
    returned = f"i{8 * function.returns[0].size}" if function.returns else "void"
    e.module.declare(name, returned, ", ".join(args))
    text = f"call {returned} @{name}({', '.join(args)})"
    if returned == "void":
        e.line(text)
    else:
        result = e.emit(text)
        if returns:
            e.line(f"store {returned} {result}, ptr {e.variables.parameter(returns[0])}")
