"""The sites of statements: guards, barriers, first values; and the code between them that updates the
pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from ...cuda.pieces import Function, Piece, Variable
from .edits import ASSIGN, ATOMIC, BARRIERS, ELSE_ZERO, TOO_MANY, Edit, Operation
from .expressions import Expressions
from .moves import Exchanges, Moves, may_be_exchanged
from .pool import Pool
from .sites import Choice
from .support import asked

_LEAVE = (("return", "return;"), ("continue", "continue;"), ("break", "break;"))
_LEFT_OUT = ("constexpr", "static", "extern", "__shared__", "__constant__", "__device__")
_HEADS = ("if_statement", "for_statement", "while_statement", "do_statement", "for_range_loop")


class Writer(Exchanges, Expressions, Moves):
    """Writes one function. schemata: the owner."""

    def __init__(self, schemata, function: Function):
        self.schemata, self.function = schemata, function
        arrays, idle = schemata.arrays if function.name == schemata.kernel else (), schemata.idle
        self.pool = Pool(schemata.file, function, schemata.programs, arrays, idle)
        self.integers, self.floats = self.pool.integers, self.pool.floats
        kept = {"i": [e.variable for e in self.integers], "f": [e.variable for e in self.floats]}
        every = (
            (v, f"backwarp_{x}[{i}]")
            for x, vs in (kept | {"q": self.pool.kept}).items()
            for i, v in enumerate(vs)
        )
        self.kept = {v.node.id: place for v, place in every if v}
        self.loops = 0
        self.assign = ASSIGN if schemata.races is None else (*ASSIGN, ATOMIC)
        self.leaves = function.part("type") is not None and function.part("type").code == "void"

    def body(self) -> str:
        """The function's body, beginning with the constant values."""
        pools = {"i": self.integers, "f": self.floats}
        plain = {letter: [e for e in entries if not e.of] for letter, entries in pools.items()}
        first = [f"int backwarp_i[{len(plain['i']) or 1}]; float backwarp_f[{len(plain['f']) or 1}];"]
        first.append(f"const void* backwarp_q[{len(self.pool.kept) or 1}];")
        first.append("const BackwarpPool backwarp_p = {backwarp_i, backwarp_f, backwarp_q};")
        for letter, entries in plain.items():
            for e in entries:
                parameter = e.variable and e.variable.node.id in self.pool.parameters
                if e.variable is None or parameter or e.known is not None:
                    first.append(f"backwarp_{letter}[{e.code}] = {e.text};")
        pointers = (v for v in self.pool.kept if v.node.id in self.pool.parameters)
        first += [f"{self.kept[v.node.id]} = {v.name};" for v in pointers]
        self._find_moves()
        text = self.write(self.function.body)
        return "{ " + " ".join(first) + text[1:]

    def write(self, p: Piece) -> str:
        """A statement or an expression with its sites; unknown syntax stays as it is."""
        return getattr(self, f"_{p.kind}", self._leave)(p)

    def _leave(self, p: Piece) -> str:
        return p.code

    def _inside(self, p: Piece, **written: Callable[[Piece], str]) -> str:
        """The text of a piece with its children written; `written` gives the text of some fields."""
        ways = {self._id(p, name): way for name, way in written.items()}
        text, at = "", p.start
        for node in p.node.children:
            child = p.file.piece(node)
            text += p.file.text[at : child.start] + ways.get(node.id, self.write)(child)
            at = child.end
        return text + p.file.text[at : p.end]

    def _id(self, p: Piece, name: str) -> int:
        found = p.part(name)
        return found.node.id if found else 0

    # -- statements -----------------------------------------------------------------------------------

    def _compound_statement(self, p: Piece) -> str:
        """A block, with the barriers that may be inserted before its statements and at its end."""
        text, at = "", p.start
        for node in p.node.children:
            child = p.file.piece(node)
            barrier = self._barrier(child) if self.schemata.races is not None and node.type != "{" else ""
            text += p.file.text[at : child.start] + barrier + self._with_moves(child, self.write(child))
            at = child.end
        return text + p.file.text[at : p.end]

    def _barrier(self, p: Piece) -> str:
        if p.kind == "comment" or p.code.startswith("__sync"):
            return ""
        made = lambda choice: Edit(p.start, p.start, BARRIERS[choice.operation].code + " ", "a barrier")  # noqa: E731
        number = self.schemata.add(p, BARRIERS, made=made, order=True)
        if number is None:
            return ""
        which = f"if (backwarp_operation({number}) == 0) __syncthreads(); else __syncwarp();"
        return f"if ({asked(number)}) {{ {which} }} "

    def _children(self, p: Piece) -> str:
        return self._inside(p)

    _else_clause = _condition_clause = _parenthesized_expression = _children
    _argument_list = _subscript_argument_list = _init_statement = _comma_expression = _children

    def _return_statement(self, p: Piece) -> str:
        given, text = p.parts[0] if p.parts else None, p.code
        if given is not None:
            way = self._condition if self.pool.kind(given) == "bool" else self.write
            text = p.file.text[p.start : given.start] + way(given) + p.file.text[given.end : p.end]
        return self._guarded(p, self._left_otherwise(p, text))

    def _left_otherwise(self, p: Piece, text: str) -> str:
        """`break;` where `continue;` is meant."""
        others = [name for name, code in self._ways() if code != p.code] if not p.parts else []

        def made(choice: Choice) -> Edit:
            return Edit(p.start, p.end, operations[choice.operation].code, operations[0].says)

        operations = [Operation(f"{name};", "how it is left") for name in others]
        number = self.schemata.add(p, operations, made=made) if others else None
        for i, name in enumerate(others if number is not None else ()):
            text = f"if ({asked(number)} && backwarp_operation({number}) == {i}) {name}; else {text}"
        return text

    def _continue_statement(self, p: Piece) -> str:
        return self._guarded(p, self._left_otherwise(p, p.code))

    _break_statement = _continue_statement

    def _expression_statement(self, p: Piece) -> str:
        return self._guarded(p, self._inside(p), self._kept_after(p))

    def _if_statement(self, p: Piece) -> str:
        text = self._inside(p, condition=self._condition)
        return self._guarded(p, text + self._else_zero(p))

    def _else_zero(self, p: Piece) -> str:
        """`if (c) x[i] = v;` may have to store 0 if c does not hold."""
        body = p.part("consequence")
        if body.kind == "compound_statement" and len(body.parts) == 1:
            body = body.parts[0]
        stored = body.parts[0] if body.kind == "expression_statement" and body.parts else None
        if p.part("alternative") or stored is None or stored.kind != "assignment_expression":
            return ""
        target, value, kind = stored.part("left"), stored.part("right"), self.pool.kind(stored.part("left"))
        condition = p.part("condition").code[1:-1].strip()
        zero = {"float": "0.0f", "integer": "0"}.get(kind)
        if stored.part("operator").code != "=" or target.kind == "identifier" or not zero:
            return ""

        def made(choice: Choice) -> Edit:
            return Edit(p.start, p.end, f"{target.code} = {condition} ? {value.code} : {zero};", "a choice")

        number = self.schemata.add(p, (ELSE_ZERO,), made=made)
        return "" if number is None else f" else if ({asked(number)}) {target.code} = {zero};"

    def _guarded(self, p: Piece, text: str, after: str = "") -> str:
        """A statement that may be left out, and what follows it."""
        outer = p.outer
        if outer is None or outer.kind not in ("compound_statement", *_HEADS, "else_clause"):
            return text
        edit = Edit(p.start, p.end, ";" if outer.kind != "compound_statement" else "", TOO_MANY.says)
        how = dict(made=lambda _: edit, order=p.code.startswith("__sync"))
        number = None if self._is_last_value(p) else self.schemata.add(p, (TOO_MANY,), **how)
        text = text if number is None else f"if (!{asked(number)}) {{ {text} }}"
        return f"{{ {text} {after}}}" if after or number is not None else text

    def _ways(self) -> list[tuple[str, str]]:
        return [w for w in _LEAVE if (w[0] != "return" or self.leaves) and (w[0] == "return" or self.loops)]

    def _is_last_value(self, p: Piece) -> bool:
        """Whether it returns a function's value when nothing before has."""
        return p.kind == "return_statement" and bool(p.parts) and p == self.function.body.parts[-1]

    def _declaration(self, p: Piece) -> str:
        words = {p.file.piece(n).code for n in p.node.children}
        names = {p.file.piece(n).code for n in p.node.children_by_field_name("declarator")}
        if words & set(_LEFT_OUT):
            return p.code
        is_whole = p.outer and p.outer.kind == "compound_statement"
        text = self._one_by_one(p) if is_whole else self._inside(p)
        if is_whole:
            own = [v for v in self.pool.locals if p.holds(v) and names]
            pairs = [pair for pair in pairwise([*self._declared_before(p), *own]) if may_be_exchanged(*pair)]
            exchanged = "".join(self._exchanged(*pair) for pair in pairs)
            both = {id(v): v for pair in pairs for v in pair}.values()
            text += f" {exchanged}{self._stores(both)}{self._stores(own)}"
        return text

    def _one_by_one(self, p: Piece) -> str:
        """`int a = n, b = a;` as two declarations, after each of which the pool is up to date."""
        first, *others = (p.file.piece(n) for n in p.node.children_by_field_name("declarator"))
        head, text, at = p.file.text[p.start : first.start], "", p.start
        for d in (first, *others) if others and "//" not in head else ():
            text += "\n" * p.file.text[at : d.start].count("\n")
            text += f"{' '.join(head.split())} {self.write(d)}; "
            text += self._stores(v for v in self.pool.locals if d.holds(v))
            at = d.end
        return text or self._inside(p)

    def _init_declarator(self, p: Piece) -> str:
        declarator, value = p.part("declarator"), p.part("value")
        if value.kind == "initializer_list":
            return self._inside(p, declarator=self._leave, value=self._list)
        plain = declarator.kind == "identifier" or declarator.kind == "pointer_declarator"
        if not plain or declarator.code in self.schemata.fixed:
            return p.code
        way = self._condition if self.pool.kind(value) == "bool" else self.write
        return self._inside(p, declarator=self._leave, value=way)

    def _list(self, p: Piece) -> str:
        """`{x, y, z}`, an array's first values; those of another type might be narrowed."""
        kinds = {self.pool.kind(part) for part in p.parts if part.kind != "comment"}
        type_ = p.outer.outer.part("type") if p.outer and p.outer.outer else None
        fits = type_ is not None and kinds == {{"int": "integer"}.get(type_.code, type_.code)}
        return self._inside(p) if fits else p.code

    def _stores(self, variables: Iterable[Variable]) -> str:
        own = (v for v in variables if v.node.id in self.kept and not v.extents)
        return "".join(f"{self.kept[v.node.id]} = {v.name}; " for v in own)

    def _kept_after(self, p: Piece) -> str:
        """Updates the pool with what an expression assigns."""
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
        kept = after.replace(";", ",") if p.part("condition") else ""  # it may be compared with another bound
        body = self._loop_body("" if kept else after)
        text = self._inside(p, condition=lambda c: kept + self._condition(c), body=body)
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
            text = f"{{ {first}{self.write(p)} }}"
            self.loops -= 1
            return text

        return body
