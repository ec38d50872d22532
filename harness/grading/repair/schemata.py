"""One kernel that is all its own variants: a constant says at run time which changes are made (mutant schemata).

    sum += x[i + 1];          the file
    sum += x[backwarp_value(7, backwarp_add(5, backwarp_value(4, i, ...), backwarp_value(6, 1, ...)), ...)];

Every expression, condition and statement that may be changed is a numbered site, and passes through a function that
returns what it was given unless `backwarp_edits` names the site: then it computes the operation asked for. What
could be put in, variables and constants, lies in two small arrays that the kernel keeps up to date; so an edit
costs no code of its own, and a file grows by a call for each site, however many edits there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from ...course.cuda_text import CudaText, Function, Piece, Variable, read
from .edits import (
    ASSIGN,
    BINARY,
    CONDITION,
    FLOAT,
    FLOAT_BINARY,
    GUARD,
    INTEGER,
    LOGICAL,
    RELATION,
    Edit,
    Operation,
    replaced,
)
from .pool import Pool, kind_of

_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "remainder", "&": "and",
               "|": "or", "^": "xor", "<<": "left", ">>": "right"}  # fmt: skip
_RELATIONS = {"<": "less", "<=": "at_most", ">": "greater", ">=": "at_least", "==": "equal", "!=": "unequal"}
_ASSIGNMENTS = {"=": "set", "+=": "add_to", "-=": "take_from", "*=": "scale", "/=": "divide_by"}
_UPDATES = {"++": "+=", "--": "-="}
_TYPES = ("int", "unsigned", "long", "unsigned long", "long long", "unsigned long long", "float", "double")
_LEAVE = (("return", "return;"), ("continue", "continue;"), ("break", "break;"))
_ATOMIC = Operation("atomicAdd(&l, L(r))", "how it is stored", 1.3)
_BARRIERS = (Operation("__syncthreads();", "a barrier", 1.0), Operation("__syncwarp();", "a barrier", 1.4))
_LEFT_OUT = ("constexpr", "static", "extern", "__shared__", "__constant__", "__device__")


@dataclass(frozen=True)
class Choice:
    """One edit of a site: the operation's number, and the pool's entries a and b. cost: see Operation."""

    site: Site
    operation: int
    a: int = 0
    b: int = 0
    cost: float = 0.0

    @property
    def edit(self) -> Edit:
        return self.site.edit_of(self)

    @property
    def row(self) -> tuple[int, int, int, int]:
        return self.site.number, self.operation, self.a, self.b


@dataclass(frozen=True, eq=False)
class Site:
    """A place that may be changed. here: the numbers of the entries that can be named there."""

    number: int
    piece: Piece
    operations: tuple[Operation, ...]
    pool: list = field(default_factory=list, repr=False)
    here: list[int] = field(default_factory=list, repr=False)
    made: Callable[[Choice], Edit | None] | None = None
    others: tuple[str, ...] = ()  # arrays that may be named in its place

    @property
    def replaces(self) -> bool:
        """Whether another value may stand in its place."""
        return self.made is None and bool(self.pool) and self.operations[0].code == "a"

    def is_before(self, line: int) -> bool:
        """Whether it is a line's statement, or one on the way to it in which the whole function may be left."""
        outermost = self.piece.outer.outer.kind == "function_definition"
        return self.piece.line == line or outermost and self.piece.line < line

    @property
    def is_guard(self) -> bool:
        """Whether it is a statement that some threads, or turns of a loop, may have to leave out."""
        return self.made is not None and self.operations[0] is GUARD[0]

    def entry_of(self, text: str) -> int | None:
        return next((i for i in self.here if self.pool[i].text == text), None)

    def replaced_by(self, entry: int) -> Choice:
        return Choice(self, 0, entry, cost=0.4)

    def choices(self, least: float, most: float) -> Iterator[Choice]:
        """Its edits that cost at least and less than so much."""
        varying = [i for i in self.here if self.pool[i].varies]
        extents = [i for i in self.here if not self.pool[i].varies and self.pool[i].variable]
        extents += [i for i in self.here if self.pool[i].text.startswith("blockDim")]
        for number, o in enumerate(self.operations):
            if not least <= o.cost < most:
                continue
            wanted = o.operands & {"a", "b"}
            if not wanted:
                yield Choice(self, number, cost=o.cost)
            elif wanted == {"a"}:
                yield from (Choice(self, number, a, cost=o.cost + self._far(a)) for a in self.here)
            else:
                seconds = self.here if o.code in ("a < b", "a >= b") else extents
                yield from (Choice(self, number, a, b, o.cost) for a in varying for b in seconds if a != b)

    def _far(self, a: int) -> float:
        """Literals that occur elsewhere are less likely than variables, 0 and 1."""
        entry = self.pool[a]
        return 0.0 if entry.variable or entry.known in (None, 0, 1) else 0.4

    def edit_of(self, choice: Choice) -> Edit:
        if self.made:
            return self.made(choice)
        names = (self.pool[i].text if self.pool else "" for i in (choice.a, choice.b))
        return replaced(self.piece, self.operations[choice.operation], *names)


class Schemata:
    """The text of a file with all its edits. without: lines that are left as they are.

    races: of what to do about threads in the wrong order; then these lines are changed, and in others only barriers.
    sites: the places that may be changed. text: what to compile; its lines are `before` later than the file's.
    """

    def __init__(
        self, source: str, kernel: str, without: Iterable[int] = (), races: Iterable[int] | None = None
    ):
        self.file, self.kernel, self.without = read(source), kernel, set(without)
        self.races = None if races is None else set(races)
        self.sites: list[Site] = []
        self.fixed = _fixed_names(self.file)
        others = {k.name for k in self.file.kernels} - {kernel}
        parts, at = [], 0
        for function in sorted(self.file.functions, key=lambda f: f.whole.start):
            if function.whole.start < at:
                continue
            if function.name in others:
                parts += [source[at : function.whole.start], "\n" * function.whole.code.count("\n")]
                at = function.whole.end
            elif not self.left_out(function):
                parts += [source[at : function.body.start], _Writer(self, function).body()]
                at = function.body.end
        header = support(self.races is not None)
        self.before = header.count("\n")
        self.text = header + _plain_pragmas("".join(parts) + source[at:])

    def left_out(self, function: Function) -> bool:
        return "constexpr" in function.words or function.body.node.has_error

    def add(
        self, piece: Piece, operations, pool=(), here=(), made=None, others=(), order=False
    ) -> int | None:
        """The number of a new site; None where the line is to be left alone. order: it concerns the order of threads."""
        if (
            piece.line in self.without
            or self.races is not None
            and not order
            and piece.line not in self.races
        ):
            return None
        self.sites.append(Site(len(self.sites) + 1, piece, tuple(operations), pool, list(here), made, others))
        return len(self.sites)


def _plain_pragmas(text: str) -> str:
    """Loops are not unrolled: every copy of a site would take its time."""
    return re.sub(r"^[ \t]*#[ \t]*pragma[ \t]+unroll[^\n]*", "", text, flags=re.MULTILINE)


def _fixed_names(file: CudaText) -> set[str]:
    """Names whose values the compiler must know."""
    places: list[Piece] = [p for v in file.variables for p in v.extents if p]
    places += [v.value for v in file.variables if v.value and "constexpr" in v.words]
    places += file.whole.all("template_argument_list", "case_statement", "static_assert_declaration")
    return {name.code for place in places for name in place.all("identifier")}


class _Writer:
    """Writes one function."""

    def __init__(self, schemata: Schemata, function: Function):
        self.schemata, self.function = schemata, function
        self.pool = Pool(schemata.file, function)
        self.integers, self.floats = self.pool.integers, self.pool.floats
        self.kept = {
            e.variable.node.id: f"backwarp_i[{i}]" for i, e in enumerate(self.integers) if e.variable
        }
        self.kept |= {e.variable.node.id: f"backwarp_f[{i}]" for i, e in enumerate(self.floats) if e.variable}
        self.loops = 0
        self.assign = ASSIGN if schemata.races is None else (*ASSIGN, _ATOMIC)
        self.leaves = function.part("type") is not None and function.part("type").code == "void"

    def body(self) -> str:
        """The function's body, which begins with the values that do not change."""
        first = [f"int backwarp_i[{len(self.integers) or 1}]; float backwarp_f[{len(self.floats) or 1}];"]
        for letter, entries in (("i", self.integers), ("f", self.floats)):
            for number, e in enumerate(entries):
                parameter = e.variable and e.variable.node.id in self.pool.parameters
                if e.variable is None or parameter or e.known is not None:
                    first.append(f"backwarp_{letter}[{number}] = {e.text};")
        text = self.write(self.function.body)
        return "{ " + " ".join(first) + text[1:]

    def write(self, p: Piece) -> str:
        """A statement or an expression with its sites; what is not known stays as it is."""
        return getattr(self, f"_{p.kind}", self._leave)(p)

    def _leave(self, p: Piece) -> str:
        return p.code

    def _inside(self, p: Piece, **written: Callable[[Piece], str]) -> str:
        """The text of a piece with its children written; fields named in `written` their own way."""
        ways = {self._id(p, name): way for name, way in written.items()}
        text, at = "", p.start
        for node in p.node.children:
            child = Piece(p.file, node)
            text += p.file.text[at : child.start] + ways.get(node.id, self.write)(child)
            at = child.end
        return text + p.file.text[at : p.end]

    def _id(self, p: Piece, name: str) -> int:
        found = p.part(name)
        return found.node.id if found else 0

    # -- statements -----------------------------------------------------------------------------------

    def _compound_statement(self, p: Piece) -> str:
        """With the barriers that may stand before its statements and at its end."""
        text, at = "", p.start
        for node in p.node.children:
            child = Piece(p.file, node)
            barrier = self._barrier(child) if self.schemata.races is not None and node.type != "{" else ""
            text += p.file.text[at : child.start] + barrier + self.write(child)
            at = child.end
        return text + p.file.text[at : p.end]

    def _barrier(self, p: Piece) -> str:
        if p.kind == "comment" or p.code.startswith("__sync"):
            return ""
        made = lambda choice: Edit(p.start, p.start, _BARRIERS[choice.operation].code + " ", "a barrier")  # noqa: E731
        number = self.schemata.add(p, _BARRIERS, made=made, order=True)
        if number is None:
            return ""
        which = f"if (backwarp_edit({number}).operation == 0) __syncthreads(); else __syncwarp();"
        return f"if (backwarp_at({number})) {{ {which} }} "

    def _children(self, p: Piece) -> str:
        return self._inside(p)

    _else_clause = _condition_clause = _parenthesized_expression = _children
    _argument_list = _subscript_argument_list = _init_statement = _children

    def _return_statement(self, p: Piece) -> str:
        return self._guarded(p, p.code)

    _continue_statement = _break_statement = _return_statement

    def _expression_statement(self, p: Piece) -> str:
        return self._guarded(p, self._inside(p), self._kept_after(p))

    def _if_statement(self, p: Piece) -> str:
        return self._guarded(p, self._inside(p, condition=self._condition))

    def _guarded(self, p: Piece, text: str, after: str = "") -> str:
        """A statement that may be left out, guarded, or left before."""
        outer = p.outer
        if outer is None or outer.kind not in ("compound_statement", *_HEADS, "else_clause"):
            return text
        number = self._guard_site(p)
        if number is None:
            return f"{{ {text} {after}}}" if after else text
        return f"{{ {self._leaves(number)}if (!backwarp_skips) {{ {text} }} {after}}}"

    def _leaves(self, number: int) -> str:
        """Asks whether the statement is run, and leaves the kernel or the loop if so asked."""
        text = f"const int backwarp_way = backwarp_before({number}, backwarp_i), backwarp_skips = backwarp_way == 1; "
        ways = [name for name, _ in self._ways()]
        for i, name in enumerate(ways, 2):
            text += f"if (backwarp_way == {i}) {name}; "
        return text

    def _ways(self) -> list[tuple[str, str]]:
        return [w for w in _LEAVE if (w[0] != "return" or self.leaves) and (w[0] == "return" or self.loops)]

    def _guard_site(self, p: Piece) -> int | None:
        here = self.pool.here(self.integers, p.start)
        operations = list(GUARD)
        for name, code in self._ways():
            more = 0.5 if name != "return" else -0.3 if p.outer.outer.kind == "function_definition" else 0.7
            operations += [Operation(f"{o.code} : {code}", f"a {name}", o.cost + more) for o in GUARD[1:]]

        def made(choice: Choice) -> Edit:
            operation = operations[choice.operation]
            if operation.code == "false":
                return Edit(
                    p.start, p.end, ";" if p.outer.kind != "compound_statement" else "", operation.says
                )
            condition, _, leave = operation.code.partition(" : ")
            for letter, entry in (("a", choice.a), ("b", choice.b)):
                condition = re.sub(rf"\b{letter}\b", self.integers[entry].text, condition)
            return Edit(p.start, p.start, f"if ({condition}) {leave or ''}".rstrip() + " ", operation.says)

        return self.schemata.add(p, operations, self.integers, here, made, order=p.code.startswith("__sync"))

    def _declaration(self, p: Piece) -> str:
        words = {Piece(p.file, n).code for n in p.node.children}
        names = {Piece(p.file, n).code for n in p.node.children_by_field_name("declarator")}
        if words & set(_LEFT_OUT):
            return p.code
        text = self._inside(p)
        if p.outer and p.outer.kind == "compound_statement":
            own = [v for v in self.pool.locals if p.holds(v) and names]
            text += " " + "".join(self._first_value(v) for v in own if v.value is None) + self._stores(own)
        return text

    def _first_value(self, v: Variable) -> str:
        """`float sum;` should perhaps begin with a value."""
        kind = kind_of(v)
        if not kind:
            return ""
        entries = self.integers if kind == "integer" else self.floats
        here = self.pool.here(entries, v.start)

        def made(choice: Choice) -> Edit:
            return Edit(v.end, v.end, f" = {entries[choice.a].text}", "a first value")

        number = self.schemata.add(v, [Operation("a", "a first value", 1.3)], entries, here, made)
        if number is None:
            return ""
        zero = f"static_cast<{v.type}>(0)"
        return f"if (backwarp_at({number})) {v.name} = backwarp_value({number}, {zero}, backwarp_i, backwarp_f); "

    def _init_declarator(self, p: Piece) -> str:
        declarator, value = p.part("declarator"), p.part("value")
        plain = declarator.kind == "identifier" or declarator.kind == "pointer_declarator"
        if not plain or value.kind == "initializer_list" or declarator.code in self.schemata.fixed:
            return p.code
        return self._inside(p, declarator=self._leave)

    def _stores(self, variables: Iterable[Variable]) -> str:
        return "".join(
            f"{self.kept[v.node.id]} = {v.name}; "
            for v in variables
            if v.node.id in self.kept and not v.extents
        )

    def _kept_after(self, p: Piece) -> str:
        """Keeps the pool up to date with what an expression assigns."""
        targets = [e.part("left") for e in p.all("assignment_expression")]
        targets += [e.part("argument") for e in p.all("update_expression")]
        found = {}
        for t in targets:
            if t and t.kind == "identifier" and len(named := self.schemata.file.named(t.code, t.start)) == 1:
                found[t.code] = named[0]
        return self._stores(found.values())

    # -- loops ------------------------------------------------------------------------------------------

    def _for_statement(self, p: Piece) -> str:
        head = [x for x in (p.part("initializer"), p.part("update")) if x]
        variables = [v for v in self.pool.locals if head and head[0].holds(v)]
        after = self._stores(variables) + "".join(self._kept_after(x) for x in head)
        text = self._inside(p, condition=self._condition, body=self._loop_body(after))
        return self._guarded(p, f'_Pragma("unroll 1") {text}')

    def _while_statement(self, p: Piece) -> str:
        kept = self._kept_after(p.part("condition"))
        text = self._inside(p, condition=self._condition, body=self._loop_body(kept))
        return self._guarded(p, f'_Pragma("unroll 1") {text}')

    def _do_statement(self, p: Piece) -> str:
        return '_Pragma("unroll 1") ' + self._inside(p, body=self._loop_body(""))

    def _loop_body(self, first: str) -> Callable[[Piece], str]:
        def body(p: Piece) -> str:
            self.loops += 1
            reset = self._resets(p)
            text = f"{{ {first}{reset}{self.write(p)} }}"
            self.loops -= 1
            return text

        return body

    def _resets(self, p: Piece) -> str:
        """A sum that should start again in every turn of a loop."""
        place = p.start + (p.kind == "compound_statement")
        variables = [
            v for v in self.pool.locals
            if kind_of(v) and v.end <= p.start and self.pool._holds(v, p.start) and not {"const", "constexpr"} & set(v.words)
            and v.node.id not in self.pool.parameters
        ]  # fmt: skip
        zero = {"float": "0.0f", "integer": "0"}
        operations = [Operation(f"{v.name} = {zero[kind_of(v)]};", "a start value", 2.5) for v in variables]

        def made(choice: Choice) -> Edit:
            operation = operations[choice.operation]
            return Edit(
                place,
                place,
                f" {operation.code}" if p.kind == "compound_statement" else f"{operation.code} ",
                operation.says,
            )

        if not variables or p.kind != "compound_statement":
            return ""
        number = self.schemata.add(p, operations, made=made)
        if number is None:
            return ""
        chain = "".join(
            f"if (backwarp_edit({number}).operation == {i}) {o.code} " for i, o in enumerate(operations)
        )
        return f"if (backwarp_at({number})) {{ {chain}}} "

    # -- expressions --------------------------------------------------------------------------------------

    def _condition(self, p: Piece) -> str:
        """Of an `if` or a loop."""
        if p.kind in ("condition_clause", "parenthesized_expression"):
            inner = p.part("value") or (p.parts[0] if len(p.parts) == 1 else None)
            if inner is None or inner.kind == "declaration":
                return p.code
            return f"({self._condition(inner)})"
        text = self.write(p)
        number = self.schemata.add(p, CONDITION, self.integers, self.pool.here(self.integers, p.start))
        return text if number is None else f"backwarp_condition({number}, {text}, backwarp_i)"

    def _value(self, p: Piece, text: str) -> str:
        """An expression in whose place another value may stand."""
        kind = self.pool.kind(p)
        if kind not in ("integer", "float"):
            return text
        operations, entries = (INTEGER, self.integers) if kind == "integer" else (FLOAT, self.floats)
        number = self.schemata.add(p, operations, entries, self.pool.here(entries, p.start))
        return text if number is None else f"backwarp_value({number}, {text}, backwarp_i, backwarp_f)"

    def _identifier(self, p: Piece) -> str:
        if p.code in self.schemata.fixed:
            return p.code
        if self.pool.kind(p) == "pointer":
            return self._pointer(p)
        return self._value(p, p.code)

    def _number_literal(self, p: Piece) -> str:
        return self._value(p, p.code)

    def _field_expression(self, p: Piece) -> str:
        return self._value(p, p.code)

    def _cast_expression(self, p: Piece) -> str:
        return self._value(p, self._inside(p, type=self._leave))

    def _subscript_expression(self, p: Piece) -> str:
        return self._value(p, self._target(p))

    def _pointer(self, p: Piece) -> str:
        """An array or a pointer: another of the same type may have been meant."""
        own = self.schemata.file.named(p.code, p.start)
        if len(own) != 1:
            return p.code
        others = [v for v in self.pool.pointers if self._alike(own[0], v, p.start)]
        if not others:
            return p.code
        operations = [Operation(v.name, "another array", 1.2) for v in others]

        def made(choice: Choice) -> Edit:
            return Edit(p.start, p.end, operations[choice.operation].code, "another array")

        number = self.schemata.add(p, operations, made=made, others=tuple(v.name for v in others))
        if number is None:
            return p.code
        text = p.code
        for i, v in enumerate(others):
            text = f"backwarp_edit({number}).operation == {i} ? {v.name} : {text}"
        return f"(backwarp_at({number}) ? ({text}) : {p.code})"

    def _alike(self, own: Variable, other: Variable, place: int) -> bool:
        same = [e and e.code for e in own.extents] == [e and e.code for e in other.extents]
        const = ("const" in own.words) == ("const" in other.words)
        seen = other.end <= place and self.pool._holds(other, place) and other.name != own.name
        return same and const and seen and own.type == other.type and own.pointer == other.pointer

    def _target(self, p: Piece) -> str:
        """What is assigned to, or whose address is taken: only what is inside of it may be changed."""
        match p.kind:
            case "subscript_expression":
                array = p.part("argument")
                way = self._target if array.kind != "identifier" else self._identifier
                return self._inside(
                    p, argument=way if self.pool.kind(array) in ("pointer", "") else self._target
                )
            case "parenthesized_expression":
                return self._inside(p) if len(p.parts) != 1 else f"({self._target(p.parts[0])})"
            case "pointer_expression" if p.part("operator").code == "*":
                return self._inside(p)
        return p.code

    def _pointer_expression(self, p: Piece) -> str:
        if p.part("operator").code == "*":
            return self._value(p, self._inside(p))
        return self._inside(p, argument=self._target)

    def _unary_expression(self, p: Piece) -> str:
        text = self._inside(p)
        if p.part("operator").code == "-" and self.pool.kind(p):
            return self._value(p, text)
        return text

    def _conditional_expression(self, p: Piece) -> str:
        return self._value(p, "(" + self._inside(p, condition=self._condition) + ")")

    def _call_expression(self, p: Piece) -> str:
        name, arguments = p.part("function").code, p.part("arguments")
        if name == "asm" or not arguments or arguments.kind != "argument_list":
            return p.code
        own = self.schemata.file.function(name)
        known = self.pool.kind(p)
        if own and any("&" in v.file.text[v.outer.start : v.end] for v in own.parameters):
            return p.code
        text = self._inside(p, function=self._leave)
        return self._value(p, text) if known else text

    def _assignment_expression(self, p: Piece) -> str:
        left, right, sign = p.part("left"), p.part("right"), p.part("operator").code
        target, value = self._target(left), self.write(right)
        plain = f"{target} {sign} {value}"
        if sign not in _ASSIGNMENTS or self.pool.kind(left) not in ("integer", "float"):
            return plain
        number = self.schemata.add(p, self.assign, made=self._stored(p))
        return plain if number is None else f"backwarp_{_ASSIGNMENTS[sign]}({number}, {target}, {value})"

    def _stored(self, p: Piece) -> Callable[[Choice], Edit]:
        left, right = p.part("left").code, p.part("right").code

        def made(choice: Choice) -> Edit:
            operation = self.assign[choice.operation]
            text = f"atomicAdd(&{left}, {right})"
            if operation in ASSIGN:
                text = f"{left} {operation.code.split()[1]} {right}"
            return Edit(p.start, p.end, text, operation.says)

        return made

    def _update_expression(self, p: Piece) -> str:
        """`i++` where its value is not used: the step may be another."""
        argument, sign = p.part("argument"), p.part("operator").code
        unused = p.outer and p.outer.kind in ("for_statement", "expression_statement")
        if not unused or argument.kind != "identifier" or self.pool.kind(argument) != "integer":
            return p.code
        here = self.pool.here(self.integers, p.start)
        operations = [Operation(f"{argument.code} {_UPDATES[sign]} a", "the step of a loop", 1.2)]
        operations += [
            Operation(f"{argument.code} {s} a", "the step of a loop", 1.6) for s in ("*=", "/=", "-=", "+=")
        ]

        def made(choice: Choice) -> Edit:
            o = operations[choice.operation]
            return Edit(p.start, p.end, o.code[:-1] + self.integers[choice.a].text, o.says)

        number = self.schemata.add(p, operations, self.integers, here, made)
        if number is None:
            return p.code
        codes = [_UPDATES[sign], "*=", "/=", "-=", "+="]
        signs = "+-*/".index
        known = " ".join(str(signs(c[0])) for c in codes).replace(" ", ", ")
        return f"({argument.code} = backwarp_stepped({number}, {argument.code}, {signs(sign[0])}, backwarp_i, {known}))"

    def _binary_expression(self, p: Piece) -> str:
        left, right, sign = p.part("left"), p.part("right"), p.part("operator").code
        kinds = {self.pool.kind(left), self.pool.kind(right)}
        if sign in ("&&", "||"):
            number = self.schemata.add(p, LOGICAL)
            plain = f"{self.write(left)} {sign} {self.write(right)}"
            if number is None:
                return plain
            ways = (f"{left.code} && {right.code}", f"{left.code} || {right.code}", left.code, right.code)
            o = f"backwarp_edit({number}).operation"
            text = f"{o} == 0 ? ({ways[0]}) : {o} == 1 ? ({ways[1]}) : {o} == 2 ? bool({ways[2]}) : bool({ways[3]})"
            return f"(backwarp_at({number}) ? ({text}) : ({plain}))"
        written = self.write(left), self.write(right)
        plain = f"{written[0]} {sign} {written[1]}"
        if not kinds <= {"integer", "float", "bool"}:
            return plain
        if sign in _RELATIONS:
            number = self.schemata.add(p, RELATION)
            return plain if number is None else f"backwarp_{_RELATIONS[sign]}({number}, {', '.join(written)})"
        operations = FLOAT_BINARY if "float" in kinds else BINARY
        number = self.schemata.add(p, operations) if sign in _ARITHMETIC else None
        if number is not None:
            plain = f"backwarp_{_ARITHMETIC[sign]}({number}, {', '.join(written)})"
        return self._value(p, plain)


_HEADS = ("if_statement", "for_statement", "while_statement", "do_statement", "for_range_loop")


# -- what a file is compiled with ---------------------------------------------------------------------------


def _switch(operations: Iterable[Operation], made: str = "{}") -> str:
    cases = " ".join(f"case {i}: return {made.format(o.code)};" for i, o in enumerate(operations))
    return f"switch (edit.operation) {{ {cases} }}"


@cache
def support(atomic: bool) -> str:
    """What stands before a file with its edits. One slow function for each type, and quick ones that are inlined.

    atomic: sums may become atomic, which makes all loops slower, as their threads may then wait for one another.
    """
    slow, quick = "static __device__ __noinline__", "static __device__ __forceinline__"
    lines = [
        "struct BackwarpEdit { int site, operation, a, b; };",
        "__constant__ BackwarpEdit backwarp_edits[2];",
        f"{quick} bool backwarp_at(int s) {{ return backwarp_edits[0].site == s || backwarp_edits[1].site == s; }}",
        f"{quick} BackwarpEdit backwarp_edit(int s) {{ return backwarp_edits[backwarp_edits[0].site != s]; }}",
        f"template <class T> {quick} T backwarp_value(int, T e, const int*, const float*) {{ return e; }}",
    ]
    for type_ in _TYPES:
        real = type_ in ("float", "double")
        pool, operations, binary = ("f", FLOAT, FLOAT_BINARY) if real else ("i", INTEGER, BINARY)
        array = "const float*" if real else "const int*"
        lines += [
            f"{slow} {type_} backwarp_changed(int s, {type_} e, {array} p) {{ const BackwarpEdit edit = backwarp_edit(s);"
            f" const {type_} a = p[edit.a], b = p[edit.b]; {_switch(operations)} return e; }}",
            f"{quick} {type_} backwarp_value(int s, {type_} e, const int* i, const float* f) {{"
            f" return backwarp_at(s) ? backwarp_changed(s, e, {pool}) : e; }}",
            f"{slow} {type_} backwarp_combined(int s, {type_} l, {type_} r) {{ const BackwarpEdit edit = backwarp_edit(s);"
            f" {_switch(binary)} return l; }}",
            f"{slow} bool backwarp_related(int s, {type_} l, {type_} r) {{ const BackwarpEdit edit = backwarp_edit(s);"
            f" {_switch(RELATION)} return false; }}",
        ]
    head = f"template <class L, class R> {quick}"
    for sign, name in _ARITHMETIC.items():
        lines.append(
            f"{head} auto backwarp_{name}(int s, L l, R r) -> decltype(l {sign} r) {{ using T = decltype(l {sign} r);"
            f" return backwarp_at(s) ? backwarp_combined(s, T(l), T(r)) : l {sign} r; }}"
        )
    for sign, name in _RELATIONS.items():
        lines.append(
            f"{head} bool backwarp_{name}(int s, L l, R r) {{ using T = decltype(l + r);"
            f" return backwarp_at(s) ? backwarp_related(s, T(l), T(r)) : l {sign} r; }}"
        )
    lines.append(
        f"template <class L, class R> {slow} void backwarp_stored(int s, L& l, R r) {{ switch (backwarp_edit(s).operation) {{"
        + " ".join(
            f"case {i}: {o.code}; break;" for i, o in enumerate((*ASSIGN, _ATOMIC) if atomic else ASSIGN)
        )
        + " } }"
    )
    for sign, name in _ASSIGNMENTS.items():
        lines.append(
            f"{head} L& backwarp_{name}(int s, L& l, R r) {{"
            f" if (backwarp_at(s)) backwarp_stored(s, l, r); else l {sign} r; return l; }}"
        )
    lines += [
        f"{slow} bool backwarp_decided(int s, bool e, const int* p) {{ const BackwarpEdit edit = backwarp_edit(s);"
        f" const int a = p[edit.a], b = p[edit.b]; {_switch(CONDITION)} return e; }}",
        f"{quick} bool backwarp_condition(int s, bool e, const int* p) {{"
        " return backwarp_at(s) ? backwarp_decided(s, e, p) : e; }",
        # 0: the statement is run, 1: not, from 2: the kernel or the loop is left
        f"{slow} int backwarp_guarded(int s, const int* p) {{ for (int i = 0; i < 2; i++) {{"
        " const BackwarpEdit edit = backwarp_edits[i]; if (edit.site != s) continue;"
        f" const int n = {len(GUARD) - 1}; if (edit.operation == 0) return 1; const int a = p[edit.a], b = p[edit.b];"
        " bool is = false; switch ((edit.operation - 1) % n) {"
        + " ".join(f"case {i}: is = {o.code}; break;" for i, o in enumerate(GUARD[1:]))
        + " } const int way = (edit.operation - 1) / n; if (way ? is : !is) return way + 1; } return 0; }",
        f"{quick} int backwarp_before(int s, const int* p) {{ return backwarp_at(s) ? backwarp_guarded(s, p) : 0; }}",
        f"template <class T> {slow} T backwarp_other_step(int s, T i, const int* p, int c0, int c1, int c2, int c3, int c4) {{"
        " const BackwarpEdit edit = backwarp_edit(s); const int o = edit.operation;"
        " const int c = o == 0 ? c0 : o == 1 ? c1 : o == 2 ? c2 : o == 3 ? c3 : c4; const T a = p[edit.a];"
        " return c == 0 ? i + a : c == 1 ? i - a : c == 2 ? i * a : a ? i / a : i; }",
        f"template <class T> {quick} T backwarp_stepped(int s, T i, int sign, const int* p, int c0, int c1, int c2, int c3, int c4) {{"
        " return backwarp_at(s) ? backwarp_other_step(s, i, p, c0, c1, c2, c3, c4) : sign ? i - 1 : i + 1; }",
    ]
    return "\n".join(lines) + "\n"
