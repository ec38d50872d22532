"""Modules that a program loads while it runs, as PTX or as the text of a file, and what it compiles by NVRTC."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from ..devices.nvrtc.symbols import demangle
from ..devices.store import digest
from ..devices.virtual.confined import ConfinedGPU, ConfinedModule
from ..errors import CompileError, DeviceError, LaunchError
from .launches import Kernels
from .memory import VARIABLE, Allocation
from .mistakes import Mistakes

Answer = tuple
INVALID_PTX, NOT_FOUND, INVALID_HANDLE = 218, 500, 400
_MOST = 64  # modules that are kept by what they were compiled to
_OPTION = re.compile(
    r"(-D|-U|-std|--std|--use_fast_math|-use_fast_math|--fmad|--define-macro|--undefine-macro)\b.*"
)


@dataclass
class Loaded:
    module: ConfinedModule
    name: str
    variables: dict[str, Allocation]


class Modules:
    """texts: those of the program's files, to which the ones that it compiles are added."""

    def __init__(self, device: ConfinedGPU, mistakes: Mistakes, kernels: Kernels, texts: dict[str, str]):
        self.device, self.mistakes, self.kernels, self.texts = device, mistakes, kernels, texts
        self._loaded: dict[int, Loaded] = {}
        self._numbers = itertools.count(1)
        self._compiled: dict[str, tuple[str, ConfinedModule]] = {}  # by the digest of what NVRTC has made

    # -- the driver

    def on_no_context(self, frames, words, extra) -> Answer:
        kind = "no-driver" if words[0] == 3 else "no-context"
        self.mistakes.name(kind, frames, name=called(extra))
        return (0,)

    def on_no_ptx(self, frames, words, extra) -> Answer:
        self.mistakes.name("no-ptx", frames, name=named(extra), large=words[0])
        return (0,)

    def on_no_file_here(self, frames, words, extra) -> Answer:
        self.mistakes.name("no-file", frames, name=named(extra))
        return (0,)

    def on_handle(self, frames, words, extra) -> Answer:
        self.mistakes.name("handle", frames, what=extra.decode("utf-8", "replace"))
        return (0,)

    def on_module(self, frames, words, extra) -> Answer:
        name, _, text = extra.partition(b"\0")
        name, text = name.decode("utf-8", "replace"), text.decode("utf-8", "replace").rstrip("\0")
        number = next(self._numbers)
        name, module = self._compiled.get(digest(text), (name, None))
        try:
            if module is None:
                if not name.endswith(".cu") and ".version" not in text:
                    raise CompileError("it is no PTX, which begins with .version")
                file = name if name.endswith((".cu", ".ptx")) else f"{name or 'module'}{number}.ptx"
                module = self._compile(file, text)
        except (CompileError, DeviceError) as error:
            self.mistakes.name("module", frames, name=name or "The module", why=first(error))
            return INVALID_PTX, 0
        self._loaded[number] = Loaded(module, name or "The module", {})
        self.kernels.add(module)
        return 0, number

    def _compile(self, name: str, text: str, expressions=(), options=()) -> ConfinedModule:
        self.texts.setdefault(name, text)
        return self.device.compile(text, name, (), expressions, options)

    def _module(self, frames, number: int) -> Loaded | None:
        if number not in self._loaded:
            self.mistakes.name("handle", frames, what="module")
        return self._loaded.get(number)

    def on_module_function(self, frames, words, extra) -> Answer:
        """The sizes of a kernel's parameters."""
        if (loaded := self._module(frames, words[0])) is None:
            return INVALID_HANDLE, b""
        symbol, known = extra.decode("utf-8", "replace"), loaded.module.lowered.kernels
        if symbol not in known:
            same = [k for k in known if symbol in (demangle(k), demangle(k, qualified=True))]
            facts = dict(name=symbol, module=loaded.name, same=same[:1], known=list(known)[:4])
            self.mistakes.name("no-function", frames, **facts)
            return NOT_FOUND, b""
        kernel = self.kernels.provide(f"{words[0]}/{symbol}", loaded.module, symbol)
        return 0, "".join(f" {size}" for size in kernel.params).encode()

    def on_module_global(self, frames, words, extra) -> Answer:
        if (loaded := self._module(frames, words[0])) is None:
            return INVALID_HANDLE, 0, 0
        name = extra.decode("utf-8", "replace")
        if name not in loaded.variables:
            if name not in loaded.module.variables:
                facts = dict(name=name, module=loaded.name, same=[], known=list(loaded.module.variables)[:4])
                self.mistakes.name("no-function", frames, **facts)
                return NOT_FOUND, 0, 0
            array = loaded.module.get_global(name)
            made = Allocation(array.pointer, array.nbytes, VARIABLE, name, array)
            loaded.variables[name] = made
            self.kernels.know(f"{words[0]}/{name}", made)
        made = loaded.variables[name]
        return 0, made.start, made.nbytes

    def on_module_end(self, frames, words, extra) -> Answer:
        if (loaded := self._module(frames, words[0])) is None:
            return (INVALID_HANDLE,)
        self.kernels.forget(f"{words[0]}/", loaded.module)
        for made in loaded.variables.values():
            made.freed = frames
        del self._loaded[words[0]]
        return (0,)

    # -- NVRTC

    def on_rtc(self, frames, words, extra) -> Answer:
        """What is compiled as lines "expression TAB symbol", an empty one and PTX; or what is wrong with it."""
        name, options, expressions, source = (
            part.decode("utf-8", "replace") for part in extra.split(b"\0", 3)
        )
        name = name if name.endswith((".cu", ".cuh", ".h")) else f"{name}.cu"
        wanted = tuple(filter(None, expressions.split("\n")))
        given = tuple(o for o in options.split("\n") if _OPTION.fullmatch(o))
        try:
            module = self._compile(name, source, tuple(filter(is_template, wanted)), given)
            names = [(e, module.compiled.find(e.removeprefix("&").strip())) for e in wanted]
        except (CompileError, DeviceError, LaunchError) as error:
            self.mistakes.name("module", frames, name=name, why=first(error))
            return 6, "\n".join(map(said, getattr(error, "diagnostics", ()) or [error])).encode()
        text = module.compiled.text
        if len(self._compiled) < _MOST:
            self._compiled[digest(text)] = name, module
        return 0, "".join([*(f"{e}\t{symbol}\n" for e, symbol in names), "\n", text]).encode()


def is_template(expression: str) -> bool:
    return "<" in expression


def called(extra: bytes) -> str:
    """A function's name, without the number of its version."""
    return re.sub(r"_v\d$", "", extra.decode("utf-8", "replace"))


def named(extra: bytes) -> str:
    return extra.decode("utf-8", "replace") or "The module"


def said(diagnostic) -> str:
    if not hasattr(diagnostic, "message"):
        return str(diagnostic)
    return f"{diagnostic.file}({diagnostic.line}): {diagnostic.severity}: {diagnostic.message}"


def first(error: Exception) -> str:
    """What is wrong, by its first message."""
    found = [d for d in getattr(error, "diagnostics", ()) if d.severity == "error"]
    place = f"line {found[0].line}: " if found and found[0].line else ""
    why = f"{place}{found[0].message}" if found else str(error)
    return why if why.endswith("?") else f"{why.rstrip('.')}."
