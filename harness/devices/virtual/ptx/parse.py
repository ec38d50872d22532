"""PTX text -> Module, Function, Instruction, each instruction with its source line.

Only structure is understood here: whether an instruction is one that PTX has is asked by the verifier.

Source: PTX ISA, sections 4 (syntax), 5 (state spaces, types, variables) and 11 (debugging directives).
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace

from ....errors import Unsupported
from .ir import Function, Instruction, Label, Location, Module, Operand, Variable, operand
from .types import BYTES

_LINE_DIRECTIVE = re.compile(r"\.(loc|file|version|target|address_size|pragma)\b")
_SIMPLE = re.compile(r"[^;{}]*;")
_MARK = re.compile(r"[;{}]")
_FLAT = re.compile(r"[^()\[\]{}]*(?:\[[^,()\[\]{}]*\][^()\[\]{}]*)*")  # operands without a comma in brackets
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', re.S)  # or a string, which stays
_NAME = re.compile(r"(?<![\w$.%])[%A-Za-z_$][\w$]*")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_USED = re.compile(r'\.pragma\s+"used_bytes_mask\s+(\w+)"')
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
_VARIABLE = re.compile(r"(?P<space>reg|param|local|shared|const|global)\b(?P<rest>.*)", re.S)
_DECLARATOR = re.compile(
    r"(?:\.align\s+(?P<align>\d+)\s*)?(?P<ptr>\.ptr\b(?:\s*\.(?!align)\w+)*(?:\s*\.align\s+\d+)?\s*)?(?P<names>.*)",
    re.S,
)
_HEADER = re.compile(r"^(?:\.(?:visible|weak|extern|common)\s+)*\.(?:entry|func)\b")
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
        self.used = -1  # of the next instruction
        self.at_home: bool | None = None  # whether the current function is the student's; None: not known yet
        self.function: Function | None = None
        self.scopes: list[dict[str, str]] = []  # renamings of block-scoped registers and params
        self.scope_starts: list[int] = []  # where in the body each of them begins
        self.serial = 0

    # -- text -> statements ---------------------------------------------------------------

    def parse(self, text: str) -> Module:
        text, debug_sections, rest = text.partition("\n\t.section")
        self.module.debug = debug_sections + rest
        if "/*" in text:
            text = _COMMENT.sub(_blank, text)
        buffer: list[str] = []
        depth = 0  # braces inside a statement: vector operands, initialisers
        for line in text.splitlines():
            if "//" in line:
                line = _COMMENT.sub(_blank, line)
            line = line.strip()
            if not line:
                continue
            if line[0] == "." and (directive := _LINE_DIRECTIVE.match(line)):
                if directive[1] == "loc":
                    self._loc(line)
                elif match := _USED.match(line):
                    self.used = int(match[1], 0)
                continue
            if depth == 0 and not buffer and _SIMPLE.fullmatch(line):  # nearly all lines
                self._statement(line[:-1].rstrip())
                continue
            start = 0
            for match in _MARK.finditer(line):
                mark, end = match[0], match.start()
                if mark == ";" and depth == 0:
                    buffer.append(line[start:end])
                    self._statement(" ".join(buffer).strip())
                    buffer.clear()
                    start = end + 1
                elif mark == "{":
                    so_far = (" ".join(buffer) + " " + line[start:end]).strip()
                    so_far = self._labels(so_far)
                    if depth == 0 and (not so_far or _HEADER.match(so_far)):
                        self._open(so_far)
                        buffer.clear()
                        start = end + 1
                    else:
                        depth += 1
                elif mark == "}":
                    if depth:
                        depth -= 1
                    else:
                        self._unfinished(" ".join([*buffer, line[start:end]]))
                        self._close()
                        buffer.clear()
                        start = end + 1
            rest = line[start:].strip()
            if rest:
                if not buffer and depth == 0:
                    rest = self._labels(rest)
                if rest:
                    buffer.append(rest)
        self._unfinished(" ".join(buffer) if debug_sections else "")
        if self.scopes or depth:
            raise Unsupported("PTX whose braces do not match", self.at.file, self.at.line)
        return self.module

    def _unfinished(self, text: str) -> None:
        """What stands before a `}`: labels, and nothing else."""
        rest = self._labels(text.strip())
        if rest:
            raise Unsupported(f"the PTX statement {rest[:60]!r}", self.at.file, self.at.line)

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

    def _labels(self, text: str) -> str:
        """Take leading labels off a statement; returns the rest."""
        while self.function is not None and (match := _LABEL.match(text)):
            rest = text[match.end() :].strip()
            if rest.startswith((".branchtargets", ".callprototype", ".calltargets")):
                break
            self.function.body.append(Label(self._name(match[1])))
            text = rest
        return text

    def _open(self, header: str) -> None:
        if header:
            self.function = self._header(header)
            self.function.body = []
            self.module.functions[self.function.name] = self.function
            self.at, self.at_home = Location(), None
        elif self.function is None:
            raise Unsupported("a PTX block outside a function", self.at.file, self.at.line)
        self.scopes.append({})
        self.scope_starts.append(len(self.function.body))

    def _close(self) -> None:
        if not self.scopes:
            raise Unsupported("PTX whose braces do not match", self.at.file, self.at.line)
        self.scopes.pop()
        start = self.scope_starts.pop()
        if self.scopes:
            self._rename_labels(start)
        else:
            self._check_targets()
            self.function = None

    def _check_targets(self) -> None:
        """Every branch of the function leads somewhere."""
        names = [item.name for item in self.function.body if isinstance(item, Label)]
        labels = set(names)
        if len(labels) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise Unsupported(f"PTX with two labels {twice}", self.at.file, self.at.line)
        for ins in self.function.body:
            if isinstance(ins, Label) or ins.base not in ("bra", "brx"):
                continue
            targets = (
                self.function.tables.get(ins.operands[-1], ()) if ins.base == "brx" else ins.operands[:1]
            )
            if not targets or not labels.issuperset(targets):
                raise Unsupported(
                    f"the PTX branch `{ins}`, whose target is missing", ins.at.file, ins.at.line
                )

    def _rename_labels(self, start: int) -> None:
        """Labels of an inner block get a suffix too, and the branches to them; the compiler's own are unique."""
        body, tables = self.function.body, self.function.tables
        inner = {
            item.name for item in body[start:] if isinstance(item, Label) and not item.name.startswith("$")
        }
        if not inner:
            return
        self.serial += 1
        new = {name: f"{name}${self.serial}" for name in inner}
        for i in range(start, len(body)):
            item = body[i]
            if isinstance(item, Label):
                body[i] = Label(new.get(item.name, item.name))
            elif item.base == "bra":
                body[i] = replace(item, operands=tuple(operand(new.get(o, o)) for o in item.operands))
            elif item.base == "brx" and (targets := tables.get(item.operands[-1])):
                tables[item.operands[-1]] = tuple(new.get(t, t) for t in targets)

    # -- statements -----------------------------------------------------------------------

    def _statement(self, text: str) -> None:
        text = self._labels(text)
        if not text:
            return
        if text[0] == "." and _HEADER.match(text):
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
            self.function.tables[self._name(name)] = targets
            return
        linkage = re.match(r"((?:\.(?:visible|weak|extern|common)\s+)*)\.(.*)", text, re.S)
        extern, text = ".extern" in linkage[1], linkage[2]
        if text.startswith("pragma"):
            return
        match = _VARIABLE.match(text)
        if not match:
            raise Unsupported(f"the PTX directive .{text.split()[0]}", self.at.file, self.at.line)
        for variable in self._variables(match["space"], match["rest"], extern):
            if self.function is None:
                self.module.variables[variable.name] = variable
            elif variable.space == "reg":
                self._declare_register(variable)
            else:
                renamed = self._rename(variable.name, len(self.scopes) > 1)
                self.function.variables[renamed] = variable

    def _variables(self, space: str, rest: str, extern: bool = False):
        """`.align 4 .b8 name[12] = {1, 2}` -> Variables. A register range `%r<3>` gives one a register."""
        align = 0
        if match := re.match(r"\s*\.align\s+(\d+)", rest):
            align, rest = int(match[1]), rest[match.end() :]
        match = re.match(r"\s*(?:\.(v2|v4)\s*)?\.(texref|samplerref|surfref|\w+)\s*", rest)
        if not match or match[2] not in BYTES:
            raise Unsupported(f"the PTX declaration .{space} {rest.strip()[:40]}", self.at.file, self.at.line)
        lanes, type_ = int((match[1] or "v1")[1]), match[2]
        declarator = _DECLARATOR.match(rest[match.end() :])
        align = int(declarator["align"] or align)
        names, init = declarator["names"].strip(), ()
        if "=" in names:
            names, values = names.split("=", 1)
            init = _initialiser(values)
        for name in (n.strip() for n in names.split(",")):
            element = BYTES[type_] * lanes
            if match := re.match(r"([\w$%]+)<(\d+)>$", name):
                for i in range(int(match[2])):
                    yield Variable(space, type_, f"{match[1]}{i}", element, element)
                continue
            match = re.match(r"([\w$%.]+)\s*((?:\[\s*\d*\s*\])*)$", name)
            if not match:
                raise Unsupported(f"the PTX declaration .{space} {name[:40]}", self.at.file, self.at.line)
            size = element
            for extent in re.findall(r"\[\s*(\d*)\s*\]", match[2]):
                size *= int(extent or 0)
            yield Variable(space, type_, match[1], size, align or element, bool(match[2]), init, extern)

    def _declare_register(self, variable: Variable) -> None:
        """Every register's name starts with %: one that inline assembly calls `p` is renamed."""
        plain = variable.name[0] != "%"
        name = self._rename(variable.name, plain or len(self.scopes) > 1, "%" if plain else "")
        self.function.regs[name] = variable.type

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
            r"(?:\.\w+\s+)*\.(entry|func)\s*(?:\.noreturn\s*)?(?:\((?P<ret>[^()]*)\)\s*)?(?P<name>[\w$.]+)\s*"
            r"(?:\((?P<params>[^()]*)\))?(?P<attrs>.*)",
            text,
            re.S,
        )
        if not match:
            raise Unsupported(f"the PTX declaration {text[:40]}", self.at.file, self.at.line)
        attrs = match["attrs"] or ""
        threads = re.search(r"\.(?:maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", attrs)
        count = 0
        if threads:
            count = int(threads[1]) * int(threads[2] or 1) * int(threads[3] or 1)
        return Function(match["name"], match[1] == "entry", self._params(match["params"]), self._params(match["ret"]),
                        max_threads=count)  # fmt: skip

    def _params(self, text: str | None) -> list[Variable]:
        params = []
        for part in (text or "").split(","):
            part = part.strip()
            if part:
                match = _VARIABLE.match(part.lstrip("."))
                params.extend(self._variables("param", match["rest"]))
        return params

    def _instruction(self, text: str) -> None:
        match = _INSTRUCTION.fullmatch(text)
        if not match or self.function is None:
            raise Unsupported(f"the PTX statement {text[:60]!r}", self.at.file, self.at.line)
        negated, pred, opcode, rest = match.groups()
        operands = tuple(self._operand(o) for o in _split_operands(rest))
        self.function.body.append(
            Instruction(
                opcode, operands, self.at, self._name(pred) if pred else "", negated == "!", self.used
            )
        )
        self.used = -1

    def _operand(self, text: str) -> Operand:
        if len(self.scopes) > 1 or self.scopes[0]:
            text = _NAME.sub(lambda m: self._name(m[0]), text)
        return operand(text)


def _blank(comment: re.Match) -> str:
    """A comment as blanks and line ends; a string as it is."""
    text = comment[0]
    return text if text[0] == '"' else "\n" * text.count("\n") or " "


def _split_operands(text: str) -> list[str]:
    """Split at commas outside (), [] and {}; `a|b` stays one operand."""
    if _FLAT.fullmatch(text):
        return [part.strip() for part in text.split(",")] if text.strip() else []
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last or parts else []


def _initialiser(text: str) -> tuple:
    """Values of an initialiser in element order; nested braces only group."""
    values = []
    for token in re.findall(r"generic\([^()]*\)(?:\+\d+)?|[^\s,{}]+", text):
        if match := re.match(r"generic\(\s*([\w$]+)\s*(?:\+\s*(\d+))?\s*\)(?:\+(\d+))?$", token):
            values.append(("symbol", match[1], int(match[2] or 0) + int(match[3] or 0), True))
        elif re.match(r"0[fFdD][0-9a-fA-F]+$", token):
            values.append(int(token[2:], 16))
        elif re.match(r"-?(0[xX][0-9a-fA-F]+|\d+)U?$", token):
            values.append(int(token.rstrip("U"), 0))
        elif match := re.match(r"([A-Za-z_$][\w$]*)(?:\+(\d+))?$", token):
            values.append(("symbol", match[1], int(match[2] or 0), False))
        else:
            raise Unsupported(f"the initialiser {token[:40]!r}")
    return tuple(values)
