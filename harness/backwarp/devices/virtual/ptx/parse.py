"""PTX text -> Module, Function, Instruction, each instruction with its source line.

Only structure is checked here; the verifier checks whether PTX has an instruction.

Source: PTX ISA, sections 4 (syntax), 5 (state spaces, types, variables) and 11 (debugging directives).
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from functools import lru_cache
from typing import NoReturn

from ....errors import Unsupported
from . import special
from .ir import Function, Immediate, Instruction, Label, Location, Module, Operand, Symbol, Variable, operand
from .registers import Registers
from .spellings import in_order
from .statements import HEADER, split_operands, statements
from .types import BYTES, TYPES

_MOST_RENAMED = 4096  # registers of one range in an inner block
_OWN = {"%carry"}  # the emitter keeps them like registers
_IDENTIFIER = r"%?[A-Za-z_$][\w$]*|%"

_NAME = re.compile(r"(?<![\w$.%])[%A-Za-z_$][\w$]*")
_USED = re.compile(r'\.pragma\s+"used_bytes_mask\s+(0[xX][0-9a-fA-F]{1,16}|0|[1-9]\d{0,18})"')
_LOC = re.compile(r"\.loc\s+(\d{1,9})\s+(\d{1,9})\s+\d{1,9}(?:.*inlined_at\s+(\d{1,9})\s+(\d{1,9})\b)?")
_FILE = re.compile(r'\.file\s+(\d{1,9})\s+"((?:[^"\\]|\\.)*)"')
_VARIABLE = re.compile(r"(?P<space>reg|param|local|shared|const|global)\b(?P<rest>.*)", re.S)
_MANAGED = re.compile(r"\A\s*\.attribute\s*\(\s*\.managed\s*\)")
_DECLARATOR = re.compile(
    r"(?:\.align\s+(?P<align>\d+)\s*)?(?P<ptr>\.ptr\b(?:\s*\.(?!align)\w+)*(?:\s*\.align\s+\d+)?\s*)?(?P<names>.*)",
    re.S,
)
_INSTRUCTION = re.compile(r"(?:@(!?)\s*([%\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)


def parse(text: str, student_file: str = "kernel.cu") -> Module:
    """Parse one PTX module.

    student_file: instructions inlined from any other file (a CUDA header) carry the line of
    `student_file` they were inlined at, or none.
    Errors: Unsupported, naming the directive, for what the virtual GPU cannot represent.
    """
    files = {int(n): name for n, name in _FILE.findall(text)}
    return _Parser(files, student_file).parse(text)


class _Parser:
    def __init__(self, files: dict[int, str], student_file: str):
        self.module = Module(files, {}, {})
        base = student_file.rsplit("/", 1)[-1]
        self.student = {n for n, name in files.items() if name.rsplit("/", 1)[-1] == base}
        self.student_file = student_file
        beside = {posixpath.dirname(files[n]) for n in self.student}
        self.course = {
            n for n, name in files.items() if name.endswith(".cuh") and posixpath.dirname(name) in beside
        }
        self.at = Location()
        self.used = -1  # the location of the next instruction
        self.at_home: bool | None = None  # whether the current function is the student's; None: not known yet
        self.function: Function | None = None
        self.registers = Registers()
        self.scopes: list[dict[str, str]] = []  # renamings of block-scoped registers and params
        self.scope_starts: list[int] = []  # where each of them begins in the body
        self.serial = 0

    # -- statements of all kinds ----------------------------------------------------------

    def parse(self, text: str) -> Module:
        text, debug_sections, rest = text.partition("\n\t.section")
        self.module.debug = debug_sections + rest
        handlers = {
            "directive": self._line_directive,
            "label": self._label,
            "statement": self._statement,
            "open": self._open,
            "close": self._close,
            "unfinished": self._unfinished,
            "unmatched": self._unmatched,
        }
        for kind, part in statements(text, whole=bool(debug_sections)):
            handlers[kind](part)
        if self.scopes:
            self._unmatched()
        return self.module

    def _unfinished(self, text: str) -> NoReturn:
        self._refuse(f"the PTX statement {text[:60]!r}")

    def _unmatched(self, _: str = "") -> NoReturn:
        self._refuse("PTX whose braces do not match")

    def _line_directive(self, line: str) -> None:
        if line.startswith(".loc"):
            self._loc(line)
        elif match := _USED.match(line):
            self.used = int(match[1], 0)

    def _loc(self, line: str) -> None:
        match = _LOC.match(line)
        if not match:
            return
        file, number, outer_file, outer = match.groups()
        if self.at_home is None:
            self.at_home = int(file) in self.student
        if int(file) in self.student:
            if int(number):  # line 0 is the compiler's own: keep the line before
                self.at = Location(self.student_file, int(number))
        elif outer_file and int(outer_file) in self.student:
            self.at = Location(self.student_file, int(outer))
        elif not outer_file:  # in a student's function, code of a header belongs to the line before
            self.at = (
                replace(self.at, header=True) if self.at_home else Location(course=int(file) in self.course)
            )

    def _label(self, name: str) -> None:
        self.function.body.append(Label(self._name(name)))

    def _open(self, header: str) -> None:
        if header and self.scopes:
            self._unmatched()
        if header:
            self.function, self.registers = self._header(header), Registers()
            if (before := self.module.functions.get(self.function.name)) and before.body is not None:
                self._refuse(f"PTX with two functions {before.name}")
            self.function.body, self.serial = [], 0
            self.module.functions[self.function.name] = self.function
            self.at, self.at_home = Location(), None
        elif self.function is None:
            self._refuse("a PTX block outside a function")
        self.scopes.append({})
        self.scope_starts.append(len(self.function.body))

    def _close(self, _: str) -> None:
        if not self.scopes:
            self._unmatched()
        self.scopes.pop()
        self._rename_labels(self.scope_starts.pop())
        if not self.scopes:
            if not any(isinstance(item, Instruction) for item in self.function.body):
                self._instruction("ret")  # so that every function has an instruction
            self.function.regs = self.registers.used(self.function.body)
            self.function = None

    def _refuse(self, what: str) -> NoReturn:
        raise Unsupported(what, self.at.file, self.at.line)

    def _rename_labels(self, start: int) -> None:
        """Labels of a block get a suffix too, and so do branches to them; the compiler's own are unique."""
        body, tables = self.function.body, self.function.tables
        inner = {item.name for item in body[start:] if isinstance(item, Label) and item.name[0] != "$"}
        if not self.scopes:
            inner = {name for name in inner if "$" not in name}
        if not inner:
            return
        self.serial += 1
        new = {name: f"{name}${self.serial}" for name in inner}
        for i in range(start, len(body)):
            item = body[i]
            if isinstance(item, Label):
                body[i] = Label(new.get(item.name, item.name))
            elif item.op and item.op.flow == "branch":
                body[i] = replace(item, operands=tuple(operand(new.get(o, o)) for o in item.operands))
            elif (
                item.op
                and item.op.flow == "switch"
                and (targets := tables.get(item.operands[-1] if item.operands else ""))
            ):
                tables[item.operands[-1]] = tuple(new.get(t, t) for t in targets)

    # -- statements -----------------------------------------------------------------------

    def _statement(self, text: str) -> None:
        if text[0] == "." and HEADER.match(text):
            function = self._header(text)
            self.module.functions.setdefault(function.name, function)
        elif text[0] == "." or ":" in text and self._is_table(text):
            self._directive(text)
        else:
            self._instruction(text)

    def _is_table(self, text: str) -> bool:
        return bool(re.match(r"[\w$]+\s*:\s*\.(branchtargets|callprototype|calltargets)\b", text))

    def _directive(self, text: str) -> None:
        if match := re.match(r"([\w$]+)\s*:\s*\.(branchtargets|callprototype|calltargets)\b(.*)", text, re.S):
            name, kind, rest = match.groups()
            targets = (
                tuple(self._name(t.strip()) for t in rest.split(",")) if kind == "branchtargets" else (rest,)
            )
            if self.function is None:
                self._refuse(f"the PTX statement {text[:60]!r}")
            if kind == "branchtargets":
                self.scopes[-1][name] = name = f"{name}.{len(self.function.tables)}"
            self.function.tables[name] = targets
            return
        linkage = re.match(r"((?:\.(?:visible|weak|extern|common)\s+)*)\.(.*)", text, re.S)
        extern, text = ".extern" in linkage[1], linkage[2]
        if text.startswith("pragma"):
            return
        match = _VARIABLE.match(text)
        if not match:
            self._refuse(f"the PTX directive .{''.join(text.split()[:1])}")
        for variable, count in self._variables(match["space"], match["rest"], extern):
            if self.function is not None and variable.space == "reg":
                self._declare_register(variable, count)
            elif variable.space in ("reg", "param") and self.function is None or count >= 0:
                self._refuse(f"the PTX declaration .{variable.space} {variable.name}")
            elif self.function is None:
                self._declare(variable.name, variable, self.module.variables)
            else:
                renamed = self._rename(variable.name, len(self.scopes) > 1)
                self._declare(renamed, replace(variable, name=renamed), self.function.variables)

    def _declare(self, name: str, variable: Variable, among: dict[str, Variable]) -> None:
        formals = (*self.function.params, *self.function.returns) if self.function else ()
        if name in among or any(v.name == name for v in formals):
            self._refuse(f"PTX with two variables {name}")
        among[name] = variable

    def _variables(self, space: str, rest: str, extern: bool = False):
        """`.align 4 .b8 name[12] = {1, 2}` -> (Variable, -1). For a range `%r<3>`: the prefix and the
        count."""
        align = 0
        rest = _MANAGED.sub("", rest)  # one memory serves host and device here
        if match := re.match(r"\s*\.align\s+(\d{1,9})\b", rest):
            align, rest = int(match[1]), rest[match.end() :]
        match = re.match(r"\s*(?:\.(v2|v4)\s*)?\.(texref|samplerref|surfref|\w+)\s*", rest)
        if not match or match[2] not in BYTES:
            self._refuse(f"the PTX declaration .{space} {rest.strip()[:40]}")
        vector, type_ = int((match[1] or "v1")[1]), match[2]
        declarator = _DECLARATOR.match(rest[match.end() :])
        align = int(declarator["align"] or align)
        names, init = declarator["names"].strip(), ()
        if "=" in names:
            names, values = names.split("=", 1)
            init = _initialiser(values)
        for name in (n.strip() for n in names.split(",")):
            element = BYTES[type_] * vector
            if match := re.fullmatch(rf"({_IDENTIFIER})<(\d{{1,10}})>", name):
                yield Variable(space, type_, match[1], element, element), int(match[2])
                continue
            match = re.fullmatch(rf"({_IDENTIFIER})\s*((?:\[\s*\d{{0,15}}\s*\]){{0,9}})", name)
            if not match:
                self._refuse(f"the PTX declaration .{space} {name[:40]}")
            size = element
            for extent in re.findall(r"\[\s*(\d*)\s*\]", match[2]):
                size *= int(extent or 0)
            yield Variable(space, type_, match[1], size, align or element, bool(match[2]), init, extern), -1

    def _declare_register(self, variable: Variable, count: int) -> None:
        """Every register's name must start with %: a register `p` of inline assembly is renamed."""
        name, plain = variable.name, variable.name[0] != "%"
        if name in special.ROWS or f"{name}.x" in special.ROWS or variable.type not in TYPES:
            self._refuse(f"the PTX register {name}")
        if not plain and len(self.scopes) == 1 and name not in _OWN:
            good = self.registers.declare(name, variable.type, count)
        elif count > _MOST_RENAMED:
            self._refuse(f"{count} PTX registers {name} in a block")
        else:
            names = [name] if count < 0 else [f"{name}{i}" for i in range(count)]
            good = not any(n in self.scopes[-1] for n in names)
            for each in names:
                self.registers.declare(self._rename(each, True, "%" if plain else ""), variable.type, -1)
        if not good:
            self._refuse(f"PTX with two registers {name}")

    def _rename(self, name: str, scoped: bool, prefix: str = "") -> str:
        """A name declared in an inner block gets a suffix, so that scopes need no handling later."""
        if not scoped:
            return name
        self.serial += 1
        self.scopes[-1][name] = f"{prefix}{name}.{self.serial}"
        return self.scopes[-1][name]

    def _name(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _header(self, text: str) -> Function:
        match = re.match(
            r"(?:\.\w+\s+)*\.(entry|func)\s*(?:\.noreturn\s*)?(?:\((?P<ret>[^()]*)\)\s*)?(?P<name>[A-Za-z_$][\w$]*)\s*"
            r"(?:\((?P<params>[^()]*)\))?(?P<attrs>.*)",
            text,
            re.S,
        )
        if not match:
            self._refuse(f"the PTX declaration {text[:40]}")
        attrs = match["attrs"] or ""
        cluster = re.search(r"\.reqnctapercluster\s+([\d, ]+)", attrs)
        extents = tuple(map(int, re.findall(r"\d{1,9}", cluster[1]))) if cluster else ()
        if ".explicitcluster" in attrs and not cluster:
            self._refuse("clusters of a size that only the launch says")
        threads = re.search(
            r"\.(?:maxntid|reqntid)\s+(\d{1,9})(?:\s*,\s*(\d{1,9}))?(?:\s*,\s*(\d{1,9}))?", attrs
        )
        count = 0
        if threads:
            count = int(threads[1]) * int(threads[2] or 1) * int(threads[3] or 1)
        return Function(
            match["name"],
            match[1] == "entry",
            self._params(match["params"]),
            self._params(match["ret"]),
            max_threads=count,
            min_blocks=int(blocks[1]) if (blocks := re.search(r"\.minnctapersm\s+(\d{1,9})", attrs)) else 0,
            cluster=(*extents, 1, 1, 1)[:3],
        )

    def _params(self, text: str | None) -> list[Variable]:
        params = []
        for part in (text or "").split(","):
            part = part.strip()
            if part:
                match = _VARIABLE.match(part.lstrip("."))
                if not match or match["space"] != "param":
                    self._refuse(f"the PTX parameter {part[:40]}")
                params.extend(variable for variable, _ in self._variables("param", match["rest"]))
        return params

    def _instruction(self, text: str) -> None:
        known = _parts(text)
        if not known or self.function is None:
            self._refuse(f"the PTX statement {text[:60]!r}")
        opcode, operands, pred, negated = known
        if opcode.startswith("wgmma.mma_async"):  # its sums are read, and written
            operands = operands[0], *operands
        if any(self.scopes):
            operands = tuple(operand(_NAME.sub(lambda m: self._name(m[0]), o)) for o in operands)
            pred = pred and self._name(pred)
        self.function.body.append(Instruction(in_order(opcode), operands, self.at, pred, negated, self.used))
        self.used = -1


def instruction(text: str) -> Instruction | None:
    """Parses a printed instruction; None for any other text."""
    if (known := _parts(text)) is None:
        return None
    opcode, operands, *guard = known
    made = Instruction(opcode, operands, Location(), *guard)
    return made if made.op else None


@lru_cache(1 << 15)
def _parts(text: str) -> tuple[str, tuple[Operand, ...], str, bool] | None:
    """(opcode, operands, guard, whether it is negated) of an instruction; None for any other text."""
    match = _INSTRUCTION.fullmatch(text)
    if match is None:
        return None
    negated, pred, opcode, rest = match.groups()
    return opcode, tuple(map(operand, split_operands(rest))), pred or "", negated == "!"


def _initialiser(text: str) -> tuple:
    """Values of an initialiser in element order; nested braces only group."""
    values = []
    for token in re.findall(r"generic\([^()]*\)(?:\+\d+)?|[^\s,{}]+", text):
        generic = re.fullmatch(r"generic\(([^()]*)\)(?:\+(\d{1,9}))?", token)
        value = operand(generic[1].strip() if generic else token)
        if isinstance(value, Symbol) and value.offset >= 0:
            more = int(generic[2] or 0) if generic else 0
            values.append(("symbol", value.name, value.offset + more, bool(generic)))
        elif isinstance(value, Immediate) and not generic:
            values.append(value.value)
        else:
            raise Unsupported(f"the initialiser {token[:40]!r}")
    return tuple(values)
