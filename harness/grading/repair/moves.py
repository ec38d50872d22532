"""The sites of statements that may belong elsewhere, before a neighbour, into a loop, or out of one; and of two names that
may have changed places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from ...cuda.kinds import kind_of_type
from ...cuda.pieces import Piece, Variable
from .edits import EXCHANGE, MOVED, TURNED, ZEROED, Edit, Operation
from .sites import Choice
from .support import asked

LONGEST = 240  # characters of a moved statement, as it is compiled twice
_LOOPS = ("for_statement", "while_statement", "do_statement")
_MOVED = ("expression_statement", "if_statement", *_LOOPS)
_LEAVES = ("return_statement", "continue_statement", "break_statement")


class Moves:
    """Writes what stands around statements; statements.py writes the statements themselves."""

    def __init__(self):
        self.moved: dict[int, list[int]] = defaultdict(list)  # by node: the sites that leave it out
        self.into: dict[int, list[str]] = {}  # by the body of a loop: what runs at its start and at its end

    def _unless_moved(self, p: Piece, text: str) -> str:
        unless = " && ".join(f"!{asked(number)}" for number in self.moved.get(p.node.id, ()))
        return f"if ({unless}) {{ {text} }}" if unless else text

    def _moved_to(self, p: Piece, operation, places: list[tuple[int, str]]) -> list[str]:
        """Code that runs a statement, written in this form, at each of these places instead of its own."""

        def made(choice: Choice) -> tuple[Edit, ...]:
            place, form = places[choice.operation]
            return Edit(p.start, p.end, "", MOVED.says), Edit(place, place, form % p.code, MOVED.says)

        number = self.schemata.add(p, (operation,) * len(places), made=made) if places else None
        if number is None:
            return [""] * len(places)
        self.moved[p.node.id].append(number)
        code = " ".join(token.code for token in p.tokens)
        which = f"{asked(number)} && backwarp_operation({number}) =="
        return [f"if ({which} {i}) {{ {code} }} " for i in range(len(places))]

    def _around(self, loop: Piece) -> tuple[str, str]:
        """Code before or after a loop: statements from inside it that may have to run only once, and sums set
        to 0."""
        body, before, after = loop.part("body"), self._zeroed(loop), ""
        for p in _in_loops(body):
            plain = p.kind == "expression_statement" or p.kind == "if_statement" and not _leaves_loop(p)
            if plain and self._fits(p, loop.start):
                places = [(loop.start, "%s "), (loop.end, " %s")]
                first, last = self._moved_to(p, MOVED, places)
                before, after = before + first, after + last
        return before, after

    def _out_of(self, p: Piece) -> str:
        """Code after an `if`: its last statement, which may have to run in any case."""
        body = p.part("consequence")
        last = body.parts[-1] if body.kind == "compound_statement" and len(body.parts) > 1 else None
        if last is None or p.part("alternative") or last.kind != "expression_statement":
            return ""
        fits = self._fits(last, p.start)
        return "".join(self._moved_to(last, MOVED, [(p.end, " %s")])) if fits else ""

    def _turned(self, block: Piece) -> tuple[dict[int, str], dict[int, str]]:
        """For a block, by node: code before or after a statement that swaps places with a neighbour. A
        statement next to a loop may have to run in every iteration."""
        before: dict[int, str] = defaultdict(str)
        after: dict[int, str] = defaultdict(str)
        for one, other in pairwise(p for p in block.parts if p.kind != "comment"):
            if self._fits(other, one.start) and (
                one.kind == "declaration" or len(other.code) <= len(one.code)
            ):
                mover, beside, place, form, where = other, one, one.start, "%s ", before
            elif self._fits(one, one.start) and not _is_named_in(one, other):
                mover, beside, place, form, where = one, other, other.end, " %s", after
            else:
                continue
            body = beside.part("body") if beside.kind in _LOOPS else None
            places = [(place, form)] if _matters(mover, beside) else []
            inside = (
                body is not None
                and body.kind == "compound_statement"
                and mover.kind == "expression_statement"
            )
            if inside:
                places.append((body.end - 1, "%s ") if mover is other else (body.start + 1, " %s"))
            texts = self._moved_to(mover, TURNED, places)
            if inside:
                self.into.setdefault(body.node.id, ["", ""])[mover is other] += texts.pop()
            where[beside.node.id] += "".join(texts)
        return before, after

    def _declared_before(self, p: Piece) -> list[Variable]:
        """The last variable of the declaration just before."""
        before = p.node.prev_named_sibling
        if before is None or before.type != "declaration":
            return []
        return [v for v in self.pool.locals if p.file.piece(before).holds(v)][-1:]

    def _exchanged(self, one: Variable, other: Variable, operation: Operation = EXCHANGE) -> str:
        """The names of two variables that are declared one after the other."""
        names = [_name_of(v) for v in (one, other)]

        def made(choice: Choice) -> tuple[Edit, ...]:
            after = (other.name, one.name)
            return tuple(Edit(n.start, n.end, text, EXCHANGE.says) for n, text in zip(names, after))

        number = self.schemata.add(other, (operation,), made=made)
        return "" if number is None else f"if ({asked(number)}) backwarp_exchange({one.name}, {other.name}); "

    def _list(self, p: Piece) -> str:
        """`{x, y, z}`, an array's first values: two neighbours may have changed places."""
        parts = [part for part in p.parts if part.kind != "comment"]
        kinds = {self.pool.kind(part) for part in parts}
        if len(kinds) != 1 or not kinds <= {"integer", "float"} or len(p.code) > LONGEST:
            return p.code
        type_ = p.outer.outer.part("type") if p.outer and p.outer.outer else None
        fits = type_ is not None and type_.code in ("int", "float") and kind_of_type(type_.code) in kinds
        texts = [self.write(part) if fits else part.code for part in parts]  # others might be narrowed
        for i, (one, other) in enumerate(pairwise(parts)):
            number = None if one.code == other.code else self._turned_values(one, other)
            if number is not None:
                texts[i] = f"{asked(number)} ? ({other.code}) : ({texts[i]})"
                texts[i + 1] = f"{asked(number)} ? ({one.code}) : ({texts[i + 1]})"
        return "{" + ", ".join(texts) + "}" + "\n" * p.code.count("\n")

    def _turned_values(self, one: Piece, other: Piece) -> int | None:
        def made(choice: Choice) -> tuple[Edit, ...]:
            return tuple(
                Edit(p.start, p.end, text, EXCHANGE.says)
                for p, text in ((one, other.code), (other, one.code))
            )

        return self.schemata.add(other, (EXCHANGE,), made=made)

    def _zeroed(self, loop: Piece) -> str:
        """`x[i] += …` or `atomicAdd(&x[i], …)` in a loop may have to begin with 0."""
        if loop.outer is None or loop.outer.kind != "compound_statement":
            return ""
        return "".join(self._zero(target, loop) for target in dict.fromkeys(self._sums(loop)))

    def _zeroed_before(self, p: Piece) -> str:
        """`if (…) return;` before an element is stored: it may have to be 0 then."""
        leaves = p.part("consequence")
        if leaves.kind == "compound_statement" and len(leaves.parts) == 1:
            leaves = leaves.parts[0]
        if leaves.kind != "return_statement" or not p.outer or p.outer.kind != "compound_statement":
            return ""
        later = (s.parts[0] for s in p.outer.parts if s.start > p.end and s.kind == "expression_statement")
        stored = [e.part("left") for e in later if e.kind == "assignment_expression"]
        fits = [
            t.code for t in stored if t.kind == "subscript_expression" and self._means_the_same(t, p.start)
        ]
        return "".join(self._zero(target, p) for target in dict.fromkeys(fits))

    def _sums(self, loop: Piece) -> Iterator[str]:
        body = loop.part("body")
        found = [e.part("left") for e in body.all("assignment_expression") if e.part("operator").code == "+="]
        found += [
            call.part("arguments").parts[0].part("argument")
            for name, call in body.calls()
            if name == "atomicAdd"
        ]
        for target in (t for t in found if t is not None):
            plain = target.kind in ("subscript_expression", "pointer_expression")
            if plain and self._means_the_same(target, loop.start):
                if self.pool.kind(target) in ("float", "integer"):
                    yield target.code

    def _zero(self, target: str, before: Piece) -> str:
        text = f"{target} = 0; "
        number = self.schemata.add(
            before, (ZEROED,), made=lambda _: Edit(before.start, before.start, text, ZEROED.says)
        )
        return "" if number is None else f"if ({asked(number)}) {{ {text}}} "

    def _fits(self, p: Piece, place: int) -> bool:
        """Whether a statement may run at another place."""
        plain = p.kind in _MOVED and len(p.code) <= LONGEST and "__sync" not in p.code and "#" not in p.code
        return plain and self._means_the_same(p, place)

    def _means_the_same(self, p: Piece, place: int) -> bool:
        """Whether every name in a statement means the same at another place."""
        names = [n for n in p.all("identifier") if self.schemata.file.named(n.code, n.start)]
        return all(
            self.schemata.file.named(n.code, n.start) == self.schemata.file.named(n.code, place)
            for n in names
        )


def _in_loops(body: Piece) -> Iterator[Piece]:
    """The statements of a loop's body, and of the loops in it."""
    for p in body.parts if body.kind == "compound_statement" else ():
        yield p
        if p.kind in _LOOPS:
            yield from _in_loops(p.part("body"))


def _is_named_in(one: Piece, other: Piece) -> bool:
    """Whether a declaration gives a name of a statement another meaning."""
    declared = (
        {d.part("declarator").code for d in other.all("init_declarator")}
        if other.kind == "declaration"
        else set()
    )
    return bool(declared & {n.code for n in one.all("identifier")})


def _matters(one: Piece, other: Piece) -> bool:
    """Whether the order of two statements matters: one sets what the other names, calls a function for its
    effect, or leaves."""
    if any(next(p.all(*_LEAVES), None) or _calls(p) for p in (one, other)):
        return True
    names = [{n.code for n in p.all("identifier")} for p in (one, other)]
    return bool(_set_in(one) & names[1] or _set_in(other) & names[0])


def _leaves_loop(p: Piece) -> bool:
    """Whether a statement has a `break` or `continue` of a loop around it."""
    inner = [loop for loop in p.all(*_LOOPS)]
    ways = p.all("break_statement", "continue_statement")
    return any(not any(loop.holds(way) for loop in inner) for way in ways)


def _calls(p: Piece) -> bool:
    return any(s.parts and s.parts[0].kind == "call_expression" for s in _statements(p))


def _statements(p: Piece) -> Iterator[Piece]:
    if p.kind == "expression_statement":
        yield p
    yield from p.all("expression_statement")


def _set_in(p: Piece) -> set[str]:
    """Names of variables and arrays that are assigned."""
    targets = [
        e.part("left") or e.part("argument") for e in p.all("assignment_expression", "update_expression")
    ]
    found = {d.part("declarator").code for d in p.all("init_declarator")}
    return found | {next((n.code for n in t.all("identifier")), t.code) for t in targets if t}


def _name_of(v: Variable) -> Piece:
    """Where a declaration has the variable's name."""
    found = v
    while inner := found.part("declarator"):
        found = inner
    return found
