"""The sites of what may be missing: an assignment, the 0 instead of an element that may not exist, and other
forms of a call."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import cached_property

from ...cuda.kinds import kind_of
from ...cuda.pieces import Piece, Variable
from .edits import CHOSEN, ONWARDS, Edit, Operation
from .pool import Entries, are_named_alike
from .sites import Choice
from .support import asked
from .terms import turned, words

TEMPLATE = 0.7  # the cost of a template argument, as there are few
MOST_TARGETS = 8  # variables that may be assigned at one place
LONGEST = 160  # characters of an added statement
#: a digit that has grown too large
_CARRY = re.compile(r"if \((\w+) >= (\w+)\) \{? ?\1 -= \2[,;] ?(\w+)\+\+; ?\}?")
_ADDED = ("expression_statement", "if_statement")
_INSIDE = ("for_statement", "while_statement", "do_statement", "if_statement", "else_clause")


class Insertions:
    """Writes what may be inserted; statements.py writes what is there."""

    def _assigned_before(self, p: Piece, block: Piece) -> str:
        """In a loop or a branch: assignments to a variable before a statement or at the end, `}`."""
        inside = block.outer is not None and block.outer.kind in _INSIDE
        if not inside or p.kind == "comment" or p.code == "{" or p == block.parts[0]:
            return ""
        text = ""
        for kind, entries in (("integer", self.integers), ("float", self.floats)):
            seen = [v for v in self._changing if kind_of(v) == kind and self._is_named(v, p.start)]
            targets = [v for v in seen if v not in self._kept_as_it_is or block.holds(v)]
            if targets := targets[-MOST_TARGETS:]:
                text += self._assigned(p, kind, entries, targets)
        return text

    def _onwards(self, end: Piece, block: Piece) -> str:
        """At the end of an iteration of a loop: steps of pointers that an inner loop has moved, from the end of one row to the
        start of the next."""
        if block.outer is None or block.outer.kind not in _INSIDE[:3]:
            return ""
        inner = [e for loop in block.all(*_INSIDE[:3]) for e in loop.all("update_expression")]
        moved = [e.part("argument") for e in inner if self.pool.kind(e.part("argument")) == "pointer"]
        found = {n.code: self.schemata.file.named(n.code, n.start) for n in moved}
        return "".join(self._moved_on(name, end) for name, (v, *_) in found.items() if not block.holds(v))

    def _moved_on(self, pointer: str, end: Piece) -> str:
        place = max(s.end for s in end.outer.parts)

        def made(choice: Choice) -> Edit:
            names = {"e": pointer, "a": self.integers[choice.a].text, "b": self.integers[choice.b].text}
            code = ONWARDS[choice.operation].code.replace(" +", " +=", 1)
            text = re.sub(r"\b[eab]\b", lambda m: names[m[0]], code)
            return Edit(place, place, f" {text};", ONWARDS[0].says)

        here = self.pool.here(self.integers, end.start)
        number = self.schemata.add(end, ONWARDS, self.integers, here, made)
        step = f"{pointer} += backwarp_offset({number}, backwarp_p);"
        return "" if number is None else f"if ({asked(number)}) {{ {step} }} "

    def _assigned(self, p: Piece, kind: str, entries: Entries, targets: list[Variable]) -> str:
        signs = [(v, sign) for v in targets for sign in ("=", "+=")]
        operations = [
            Operation(f"{sign} a", "a value that is set", 1.05 + 0.3 * (v in self._kept_as_it_is))
            for v, sign in signs
        ]

        def made(choice: Choice) -> Edit:
            v, sign = signs[choice.operation]
            return Edit(
                p.start, p.start, f"{v.name} {sign} {entries[choice.a].text}; ", "a value that is set"
            )

        here = self.pool.here(entries, p.start)
        number = self.schemata.add(p, operations, entries, here, made, targets=tuple(v for v, _ in signs))
        if number is None:
            return ""
        get = "int" if kind == "integer" else "float"
        text = f"const int backwarp_o = backwarp_operation({number});"
        text += f" const {get} backwarp_v = backwarp_{get}_of({number}, backwarp_p); "
        for i, (v, sign) in enumerate(signs):
            text += f"if (backwarp_o == {i}) {v.name} {sign} backwarp_v; "
        return f"if ({asked(number)}) {{ {text}{self._stores(targets)}}} "

    def _added_before(self, p: Piece, block: Piece) -> str:
        """Statements that may be missing before another: the counterpart for columns of one for rows, and the
        update of a variable that is used there and is updated that way elsewhere."""
        if p.kind == "comment" or p.code == "{" or p.line in self.schemata.plain:
            return ""
        before = next((s for s in reversed(block.parts) if s.end <= p.start and s.kind != "comment"), None)
        seen = {t.code for t in p.all("identifier")}
        found, places = {}, {}
        for beside in (before, p):
            if beside is not None and beside.kind in _ADDED and len(beside.code) <= LONGEST:
                for text in turned(_flat(beside), self._visible(beside.start)):
                    found[text], places[text] = "", beside.start
                if beside is p:
                    found |= self._carries(_flat(p), self._visible(p.start))
        found |= dict.fromkeys(self._next_of_series(p, block), "")
        found |= self._divided_away(before, p)
        for name, s in self._updates:
            if name in seen and s not in (before, p) and self._is_the_same(s, p.start):
                found[_flat(s)] = self._kept_after(s)
        codes = [code for code in found if not self._is_there(code)]
        codes += [code for code in found if found[code] and code in self._statements]
        places = [places.get(code, p.start) for code in codes]
        if not codes or (number := self._added(p, codes, places)) is None:
            return ""
        o = f"backwarp_operation({number})"
        added = " ".join(f"if ({o} == {i}) {{ {code} {found[code]}}}" for i, code in enumerate(codes))
        return f"if ({asked(number)}) {{ {added} }} "

    def _carries(self, code: str, names: set[str]) -> dict[str, str]:
        """`if (s >= S) s -= S, r++;` before `if (r >= R) r -= R, c++;`, and the code that keeps the pool up
        to date."""
        if not (carry := _CARRY.fullmatch(code)):
            return {}
        own, extent, _ = carry.groups()
        known = {e.text for e in self.integers if not e.of}
        found = {}
        for name in sorted(names - {own}):
            for size in sorted(s for s in known if are_named_alike(name, s)):
                text = code.replace(carry[3], "?")
                text = re.sub(rf"\b({own}|{extent})\b", lambda m: name if m[0] == own else size, text)
                variables = [v for v in self.pool.locals if v.name in (own, name) and v.node.id in self.kept]
                found[text.replace("?", own)] = self._stores(variables)
        return found

    def _divided_away(self, before: Piece | None, p: Piece) -> dict[str, str]:
        """`rest /= H;` after `row = rest % H`, and the code that keeps the pool up to date."""
        found = {}
        for e in before.all("binary_expression") if before is not None and before.kind not in _INSIDE else ():
            number, size = e.part("left"), e.part("right")
            v = self.schemata.file.named(number.code, e.start) if number.kind == "identifier" else []
            if e.part("operator").code != "%" or len(v) != 1:
                continue
            code = f"{number.code} /= {size.code if size.kind == 'identifier' else f'({size.code})'};"
            if v[0] in self._changing and self._is_named(v[0], p.start) and _flat(p) != code:
                found[code] = self._stores(v)
        return found

    def _next_of_series(self, p: Piece, block: Piece) -> Iterator[str]:
        """The next of `v.x = p[0]; v.y = p[1];`, or the one missing from the middle or the start."""
        parts = [s for s in block.parts if s.kind != "comment"]
        at = next((i for i, s in enumerate(parts) if s.start >= p.start), len(parts))
        for first, second, which in ((at - 2, at - 1, 2), (at - 1, at, 0.5), (at, at + 1, -1)):
            if 0 <= first and second < len(parts):
                pair = parts[first], parts[second]
                if all(s.kind in _ADDED and len(s.code) <= LONGEST for s in pair):
                    yield from in_series(*map(_flat, pair), which)

    def _added(self, p: Piece, codes: list[str], places: list[int]) -> int | None:
        def made(choice: Choice) -> Edit:
            place, code = places[choice.operation], codes[choice.operation]
            return Edit(place, place, f"{code} ", "a statement that is missing")

        operations = [Operation(code, "a statement that is missing", 1.0, is_text=True) for code in codes]
        return self.schemata.add(p, operations, made=made)

    def _visible(self, place: int) -> set[str]:
        """The variables that may be named there, except for arrays that cannot be changed: then `x` and `y`
        are not directions."""
        named = (v for v in self.pool.locals if self._is_named(v, place))
        return {v.name for v in named if not (v.pointer and "const" in v.words)}

    def _is_the_same(self, s: Piece, place: int) -> bool:
        named = self.schemata.file.named
        return all(named(n.code, n.start) == named(n.code, place) for n in s.all("identifier"))

    def _is_there(self, code: str) -> bool:
        """Whether the function has this statement, or an `if` that names nothing else, perhaps with a part
        missing."""
        alike = (words for other, words in self._statements.items() if other.startswith("if"))
        return code in self._statements or code.startswith("if") and any(w <= words(code) for w in alike)

    @cached_property
    def _statements(self) -> dict[str, frozenset[str]]:
        """The statements of the function, on one line each, and the names in them."""
        return {_flat(s): words(_flat(s)) for s in self.function.body.all(*_ADDED)}

    @cached_property
    def _updates(self) -> list[tuple[str, Piece]]:
        """Of `v = f(v);`: the variable, and the statement."""
        found = []
        for s in self.function.body.all("expression_statement"):
            e = s.parts[0] if s.parts and s.parts[0].kind == "assignment_expression" else None
            calls = e is not None and next(e.part("right").all("call_expression"), None)
            if calls and len(s.code) <= LONGEST and e.part("left").kind == "identifier":
                if e.part("left").code in {n.code for n in e.part("right").all("identifier")}:
                    found.append((e.part("left").code, s))
        return found

    @cached_property
    def _changing(self) -> list[Variable]:
        """Variables that may be assigned: those that are, and those with a similar first value."""
        return [
            v
            for v in self.pool.locals
            if kind_of(v)
            and v.node.id not in self.pool.parameters
            and not {"const", "constexpr", "__shared__", "__constant__", "static"}
            & {*v.words, *v.type.split()}
            and (v.outer is None or v.outer.outer is None or v.outer.outer.kind != "for_statement")
            and (v.name in self._set_again or v.value is None or self._begins(v))
        ]

    def _begins(self, v: Variable) -> bool:
        """Whether a variable's first value is a number, or differs between threads or over time."""
        return v.value.kind == "number_literal" or v.node.id not in self.pool._steady

    @cached_property
    def _kept_as_it_is(self) -> list[Variable]:
        """Those that are never assigned after their first value, which is not a number."""
        return [
            v
            for v in self._changing
            if v.name not in self._set_again
            and v.value is not None
            and not re.match(r"-?[\d.I]", v.value.code)
        ]

    @cached_property
    def _set_again(self) -> set[str]:
        body = self.function.body
        found = {e.part("left").code for e in body.all("assignment_expression")}
        return found | {e.part("argument").code for e in body.all("update_expression")}

    def _is_named(self, v: Variable, place: int) -> bool:
        """Whether its name refers to it at a place after its declaration."""
        return v.end <= place and self.schemata.file.named(v.name, place) == [v]

    def _or_zero(self, p: Piece, text: str) -> str:
        """A read of an element where some threads should use 0 instead."""
        outer = p.outer
        if outer is None or outer.kind not in ("assignment_expression", "init_declarator"):
            return text
        if outer.part("left") == p or self.pool.kind(p) not in ("integer", "float"):
            return text
        zero = "0.0f" if self.pool.kind(p) == "float" else "0"
        here = self.pool.here(self.integers, p.start)

        def made(choice: Choice) -> Edit:
            names = {"a": self.integers[choice.a].text, "b": self.integers[choice.b].text}
            condition = re.sub(r"\b[ab]\b", lambda m: names[m[0]], CHOSEN[choice.operation].code)
            return Edit(p.start, p.end, f"{condition} ? {p.code} : {zero}", "a choice")

        number = self.schemata.add(p, CHOSEN, self.integers, here, made)
        if number is None:
            return text
        return f"({asked(number)} && !backwarp_chosen({number}, backwarp_p) ? {zero} : {text})"

    def _called_otherwise(self, p: Piece, text: str) -> str:
        """`f(x, y);` where another function or another part of an array is meant."""
        call = p.parts[0] if len(p.parts) == 1 else None
        if call is None or call.kind != "call_expression":
            return text
        for where, codes, says in (
            self._other_functions(call),
            self._other_parts(call),
            self._other_numbers(call),
        ):
            if where is None or not codes:
                continue

            def made(choice: Choice, where=where, codes=codes, says=says) -> Edit:
                return Edit(where.start, where.end, codes[choice.operation], says)

            cost = TEMPLATE if where.outer.kind == "template_argument_list" else 1.1
            number = self.schemata.add(
                where, [Operation(code, says, cost, is_text=True) for code in codes], made=made
            )
            for i, code in enumerate(codes if number is not None else ()):
                other = p.file.text[p.start : where.start] + code + p.file.text[where.end : p.end]
                other = " ".join(other.split())
                text = f"if ({asked(number)} && backwarp_operation({number}) == {i}) {{ {other} }} else {{ {text} }}"
        return text

    def _other_functions(self, call: Piece) -> tuple[Piece, list[str], str]:
        """Functions called with as many arguments; for fragments, the transposed ones as well."""
        own = call.part("function")
        codes = self._called_with(len(call.part("arguments").parts), own.code)
        if own.code.startswith("ldmatrix_"):
            plain = own.code.removesuffix("_trans")
            codes.append(plain if plain != own.code else f"{plain}_trans")
        return own, [*dict.fromkeys(codes)], "a function"

    def _other_parts(self, call: Piece) -> tuple[Piece | None, list[str], str]:
        """`x` where the same function gets `x + 2` elsewhere."""
        for n, argument in enumerate(call.part("arguments").parts):
            found = {}
            for other in self._calls_of(call.part("function").code):
                arguments = other.part("arguments").parts
                e = arguments[n] if n < len(arguments) else argument
                if e.kind == "binary_expression" and e.part("left").code == argument.code:
                    found[e.code] = True
                elif argument.kind == "binary_expression" and argument.part("left").code == e.code:
                    found[e.code] = True
            literals = (
                [f"{argument.code} + {n}" for n in (1, 2, 4)]
                if argument.kind == "identifier"
                and self.pool.kind(argument) == "pointer"
                and not self.schemata.file.function(call.part("function").code)
                else []
            )
            if found or literals and n == len(call.part("arguments").parts) - 1:
                return argument, list(dict.fromkeys([*found, *literals])), "a place in memory"
        return None, [], ""

    def _other_numbers(self, call: Piece) -> tuple[Piece | None, list[str], str]:
        """For a template argument: one more and one less."""
        arguments = call.part("function").part("arguments")
        own = arguments.parts[0] if arguments is not None and len(arguments.parts) == 1 else None
        if own is None or not re.fullmatch(r"[\w\s+-]+", own.code):
            return None, [], ""
        found = re.fullmatch(r"(.*?)(?:\s*([+-])\s*)?(\d*)", own.code)
        name, n = found[1].strip(), int(found[3] or 0) * (-1 if found[2] == "-" else 1)
        texts = []
        for m in (n - 1, n + 1):
            if name:
                texts.append(name if m == 0 else f"{name} {'-' if m < 0 else '+'} {abs(m)}")
            elif m >= 0:
                texts.append(str(m))
        return own, texts, "another value"

    def _calls_of(self, name: str) -> list[Piece]:
        return [c for c in self.function.body.all("call_expression") if c.part("function").code == name]

    _called_with: Callable
    _kept_after: Callable
    _stores: Callable


def in_series(one: str, other: str, which: float) -> Iterator[str]:
    """The statement at a position of the series that two statements begin (0 and 1): numbers increase, and so
    do `x y z w`."""
    parts = [re.split(r"(\b(?:\d+|[xyzw])\b)", text) for text in (one, other)]
    if len(parts[0]) != len(parts[1]) or parts[0] == parts[1]:
        return
    found = []
    for i, pair in enumerate(zip(*parts)):
        if pair[0] == pair[1]:
            found.append(pair[0])
            continue
        members = "xyzw" if all(s in "xyzw" for s in pair) else None
        if i % 2 == 0 or not members and not all(s.isdigit() for s in pair):
            return
        first, last = (members.index(s) if members else int(s) for s in pair)
        value = first + (last - first) * which
        if value != int(value) or not 0 <= value < (len(members) if members else math.inf):
            return
        found.append(members[int(value)] if members else str(int(value)))
    yield "".join(found)


def _flat(statement: Piece) -> str:
    return " ".join(statement.code.split())
