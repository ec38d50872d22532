"""Slips: code that compiles but cannot be meant, found in the text of a wrong kernel.

Each is a fact about the file, whatever else is wrong: `if (i = n)`, `if (...);`, `1 / n`, a loop that steps
another loop's variable. None occurs in any right kernel written for this course or its tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...cuda.parts import index_of, reached, shown, sign_of
from ...cuda.pieces import Function, Piece, Variable
from ...cuda.text import read
from ...cuda.tree import LOOPS
from ...cuda.types import FLOAT, INTEGER, kind_of, of_type
from ..findings import Finding, distinct

COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
BODIES = {"if_statement": "consequence", **dict.fromkeys(LOOPS, "body")}


def slips(source: str, kernel: str) -> list[Finding]:
    """The slips in a kernel and in the functions that it calls, in source order."""
    file = read(source)
    all_ = [slip for function in reached(file, kernel) for detect in DETECTORS for slip in detect(function)]
    return sorted(distinct(all_), key=lambda slip: slip.lines[0])


# -- conditions and bodies ---------------------------------------------------------------------------------


def assigns_in_condition(function: Function) -> Iterator[Finding]:
    """`if (i = n)`; a second pair of parentheses says that it is intended."""
    for statement in function.body.all("if_statement", "while_statement", "for_statement"):
        inside = statement.part("condition")
        if inside and inside.kind == "condition_clause":
            inside = inside.part("value")
        if inside and inside.kind == "assignment_expression" and inside.part("operator").code == "=":
            left, right = inside.part("left"), inside.part("right")
            if left.kind == "identifier":
                yield Finding.of("assigns_in_condition", inside.line, left=left.code, right=shown(right))


def ends_at_once(function: Function) -> Iterator[Finding]:
    """`if (...);`, and `for (...);` before what was meant to be its body."""
    for statement in function.body.all("if_statement", "for_statement"):
        body = statement.part(BODIES[statement.kind])
        if not body or body.code != ";" or statement.part("alternative"):
            continue
        word = "if" if statement.kind == "if_statement" else "for"
        after = function.file.piece(
            body.node.next_named_sibling or statement.node.next_named_sibling or body.node
        )
        if word == "for" and not (after.kind == "compound_statement" or after.column > statement.column):
            continue
        yield Finding.of("ends_at_once", body.line, word=word)


def compares_twice(function: Function) -> Iterator[Finding]:
    """`0 <= p < n`, which compares the result of a comparison."""
    for e in function.body.all("binary_expression"):
        left = e.part("left")
        if sign_of(e) in ("<", ">", "<=", ">=") and sign_of(left) in ("<", ">", "<=", ">="):
            middle = shown(left.part("right"))
            yield Finding.of(
                "compares_twice",
                e.line,
                code=shown(e),
                left=shown(left),
                middle=middle,
                sign=sign_of(e),
                right=shown(e.part("right")),
            )


def compares_with_itself(function: Function) -> Iterator[Finding]:
    for e in function.body.all("binary_expression"):
        left, right = e.part("left"), e.part("right")
        if sign_of(e) in COMPARISONS and left.code.split() == right.code.split() and kind_of(left) == INTEGER:
            if left.kind in ("identifier", "field_expression", "subscript_expression"):
                yield Finding.of("compares_with_itself", e.line, name=left.code, code=shown(e))


def leaves_too_early(function: Function) -> Iterator[Finding]:
    """`if (i + 1 >= n) return;` before `c[i] = ...` and `c[i + 1] = ...`: the last of an odd number of
    elements is never stored."""
    stores = [e.part("left") for e in function.body.all("assignment_expression")]
    stores = [(store, index) for store in stores if (index := index_of(store))]
    for statement in function.body.all("if_statement"):
        body, test = statement.part("consequence"), statement.part("condition").part("value")
        left = body and body.kind == "return_statement" and sign_of(test) == ">=" and test.part("left")
        if not left or sign_of(left) != "+" or left.part("right").kind != "number_literal":
            continue
        name, bound = left.part("left").code, shown(test.part("right"))
        own = [store for store, index in stores if index.code == name]
        both = own and shown(left) in [shown(index) for _, index in stores]
        if both and all(store.start > statement.end for store, _ in stores):
            yield Finding.of(
                "leaves_too_early",
                statement.line,
                test=shown(test),
                name=name,
                bound=bound,
                element=shown(own[0]),
            )


# -- variables ---------------------------------------------------------------------------------------------


def hides_the_sum(function: Function) -> Iterator[Finding]:
    """A variable declared again in a loop or block, when the outer one of the same name is read
    afterwards."""
    local = [v for v in function.file.variables if function.body.holds(v) and not v.extents]
    for inner in local:
        hidden = [
            v for v in function.file.named(inner.name, inner.scope.start_byte) if function.body.holds(v)
        ]
        outer = hidden[0] if len(hidden) == 1 else None
        if not outer or inner.scope.type == "for_statement" or outer.scope.type == "for_statement":
            continue
        if inner.scope == outer.scope or not _set_later(inner) or _set_later(outer):
            continue
        if any(
            p.code == inner.name and p.start > inner.scope.end_byte for p in function.body.all("identifier")
        ):
            yield Finding.of("hides_the_sum", inner.line, outer.line, name=inner.name)


def _set_later(v: Variable) -> bool:
    """Whether a variable is set anywhere but in its declaration."""
    for p in v.file.piece(v.scope).all("identifier"):
        if p.code == v.name and p.start > v.end and v in v.file.named(v.name, p.start):
            outer = p.outer
            if outer.kind == "update_expression" or outer.kind == "pointer_expression":
                return True
            if outer.kind == "assignment_expression" and outer.part("left") == p:
                return True
    return False


def keeps_only_the_last(function: Function) -> Iterator[Finding]:
    """`sum = a * b` in every iteration of a loop, where `sum` begins with 0 and is used after the loop."""
    for e in function.body.all("assignment_expression"):
        name, value, sign = e.part("left"), e.part("right"), e.part("operator").code
        loop = e.outer.outer
        while loop and loop.kind == "compound_statement":
            loop = loop.outer
        if sign != "=" or name.kind != "identifier" or not loop or loop.kind != "for_statement":
            continue
        known = function.file.named(name.code, e.start)
        begun = known[0].value if len(known) == 1 and function.body.holds(known[0]) else None
        if begun is None or begun.code.strip("fF.0") or loop.holds(known[0]) or kind_of(value) != FLOAT:
            continue
        outermost = function.file.around(e.start, *LOOPS)
        outermost = [around for around in outermost if around.start > known[0].end][-1]
        uses = [p for p in function.body.all("identifier") if p.code == name.code and p.start > known[0].end]
        inside = [p for p in uses if outermost.holds(p) and p != name]
        multiplies = value.kind == "binary_expression" and sign_of(value) == "*"
        if not inside and multiplies and any(p.start > outermost.end for p in uses):
            yield Finding.of("keeps_only_the_last", e.line, name=name.code)


def stores_what_it_began_with(function: Function) -> Iterator[Finding]:
    """`float sum = 0;` that is stored although nothing was added to it."""
    for e in function.body.all("assignment_expression"):
        value = e.part("right")
        if e.part("left").kind != "subscript_expression" or value.kind != "identifier":
            continue
        known = function.file.named(value.code, e.start)
        first = known[0].value if len(known) == 1 and function.body.holds(known[0]) else None
        plain = first and first.kind == "number_literal" and not {"const", "constexpr"} & set(known[0].words)
        uses = (
            [p for p in function.body.all("identifier") if p.code == value.code and p.start > known[0].end]
            if plain
            else []
        )
        if (
            plain
            and kind_of(value) == FLOAT
            and not _set_later(known[0])
            and len(uses) == 1
            and e.part("operator").code == "="
        ):
            yield Finding.of("stores_what_it_began_with", e.line, value=value.code, first=first.code)


def tile_of_its_own(function: Function) -> Iterator[Finding]:
    """An array without __shared__ that is indexed by threadIdx, in a kernel with barriers."""
    if not any(name == "__syncthreads" for name, _ in function.body.calls()):
        return
    for v in function.file.variables:
        if not function.body.holds(v) or not v.extents or {"__shared__", "static"} & set(v.words):
            continue
        for access in function.body.all("subscript_expression"):
            base = access.indexed
            if base.code == v.name and _is_set(access) and _by_thread(access, base):
                yield Finding.of("tile_of_its_own", v.line, name=v.name)
                break


def _is_set(access: Piece) -> bool:
    outer = access.outer
    return outer.kind == "assignment_expression" and outer.part("left") == access


def _by_thread(access: Piece, base: Piece) -> bool:
    """Whether an index contains threadIdx or a variable set to it alone."""
    names = {p.code: p for p in access.all("identifier") if p.start > base.end}
    known = access.file.names_at(access.start)
    values = [known[name].value for name in names if name in known and known[name].value]
    return "threadIdx" in names or any(value.code.startswith("threadIdx.") for value in values)


def keeps_the_index(function: Function) -> Iterator[Finding]:
    """`if (x[k] > largest) largest = k;`."""
    for statement in function.body.all("if_statement"):
        inside = statement.part("condition")
        inside = inside.part("value") if inside and inside.kind == "condition_clause" else inside
        if not inside or sign_of(inside) not in ("<", ">", "<=", ">="):
            continue
        both = [inside.part("left"), inside.part("right")]
        for e in statement.part("consequence").all("assignment_expression"):
            name, value = e.part("left"), e.part("right")
            other = [p for p in both if p.code != name.code]
            if len(other) != 1 or e.part("operator").code != "=" or value.kind != "identifier":
                continue
            if [kind_of(p) for p in (name, other[0], value)] == [FLOAT, FLOAT, INTEGER]:
                yield Finding.of(
                    "keeps_the_index", e.line, other=shown(other[0]), name=name.code, value=value.code
                )


def keeps_another_place(function: Function) -> Iterator[Finding]:
    """`int best = y * W + x; ... v = img[at]; if (v > most) { most = v; best = j; }`: best starts as a place
    in the array and is then set to something else."""
    for e in function.body.all("assignment_expression"):
        name, value = e.part("left"), e.part("right")
        known = (
            function.file.variable_at(name.code, e.start) if name.kind == value.kind == "identifier" else None
        )
        branch = next(iter(function.file.around(e.start, "if_statement")), None)
        if (
            not known
            or known.value is None
            or of_type(known.type) != INTEGER
            or not branch
            or known.value.kind == "number_literal"
        ):
            continue
        indexed = [
            (access, index)
            for access in function.body.all("subscript_expression")
            if (index := index_of(access))
        ]
        arrays = {access.indexed.code for access, index in indexed if index.code == name.code}
        loops = [loop for loop in function.file.around(e.start, *LOOPS) if not loop.holds(known)]
        read = [
            access
            for access, index in indexed
            if loops and loops[0].holds(access) and access.indexed.code in arrays
        ]
        others = {index_of(access).code for access in read}
        if (
            loops
            and len(others) == 1
            and not others & {value.code, name.code}
            and e.part("operator").code == "="
        ):
            yield Finding.of(
                "keeps_another_place",
                e.line,
                read[0].line,
                name=name.code,
                value=value.code,
                array=read[0].indexed.code,
                index=others.pop(),
            )


# -- integers where fractions are meant -----------------------------------------------------------------------


def drops_the_fraction(function: Function) -> Iterator[Finding]:
    """`1 / n` and `1 / 2` in a calculation with floats."""
    for e in function.body.all("binary_expression"):
        left, right = e.part("left"), e.part("right")
        if sign_of(e) != "/" or kind_of(left) != INTEGER or kind_of(right) != INTEGER or not _among_floats(e):
            continue
        if left.kind != "number_literal":
            continue
        whole = right.kind == "number_literal"
        if whole and int(left.code.rstrip("uUlL"), 0) % (int(right.code.rstrip("uUlL"), 0) or 1) == 0:
            continue
        divisor = " ".join(right.code.split())
        yield Finding.of(
            "drops_the_fraction",
            e.line,
            code=shown(e),
            number=left.code,
            divisor=shown(right),
            written=divisor,
            whole=whole,
        )


def _among_floats(e: Piece) -> bool:
    """Whether an expression becomes an operand of float arithmetic unconverted."""
    outer = e.outer
    while outer.kind == "parenthesized_expression":
        e, outer = outer, outer.outer
    if outer.kind == "binary_expression" and sign_of(outer) in ("+", "-", "*", "/"):
        other = outer.part("right") if outer.part("left") == e else outer.part("left")
        return kind_of(other) == FLOAT or _among_floats(outer)
    if outer.kind == "assignment_expression":
        return outer.part("right") == e and kind_of(outer.part("left")) == FLOAT
    if outer.kind == "init_declarator":
        name = outer.part("declarator")
        known = [v for v in e.file.variables if v.start == outer.start and v.name == name.code]
        return bool(known) and known[0].type in ("float", "double") and not known[0].pointer
    return False


def counts_in_integers(function: Function) -> Iterator[Finding]:
    """`int sum` to which floats are added."""
    known_already = set()
    for e in function.body.all("assignment_expression"):
        left, right = e.part("left"), e.part("right")
        adds = e.part("operator").code in ("+=", "-=") or (
            sign_of(right) in ("+", "-") and left.code in (right.part("left").code, right.part("right").code)
        )
        if left.kind == "identifier" and adds and kind_of(left) == INTEGER and kind_of(right) == FLOAT:
            known = function.file.named(left.code, left.start)
            if known and known[0].start not in known_already:
                known_already.add(known[0].start)
                yield Finding.of("counts_in_integers", known[0].line, name=left.code, type=known[0].type)


def keeps_as_an_integer(function: Function) -> Iterator[Finding]:
    """`int x = a[i]`, of an array of floats; `int x = 0.5f * a[i]` before `a[i] = x`."""
    for e in function.body.all("init_declarator"):
        value, name = e.part("value"), e.part("declarator").code
        known = next((v for v in e.file.variables if v.start == e.start and v.name == name), None)
        integer = known and of_type(known.type) == INTEGER and not known.pointer
        fraction = integer and value and value.kind != "number_literal" and kind_of(value) == FLOAT
        if fraction and (value.kind == "subscript_expression" or any(map(is_taken_for_a_float, uses(known)))):
            yield Finding.of("keeps_as_an_integer", e.line, value=shown(value), name=name, type=known.type)


def uses(v: Variable) -> list[Piece]:
    """The uses of a variable after its declaration."""
    names = v.file.piece(v.scope).all("identifier")
    return [
        p for p in names if p.code == v.name and p.start > v.end and v in v.file.named(v.name, p.start)[-1:]
    ]


def is_taken_for_a_float(use: Piece) -> bool:
    """Whether an integer is stored as a float, or multiplied by one."""
    outer = use.outer
    if outer.kind == "assignment_expression":
        return outer.part("right") == use and kind_of(outer.part("left")) == FLOAT
    return sign_of(outer) == "*" and FLOAT in (kind_of(outer.part("left")), kind_of(outer.part("right")))


DETECTORS = (
    keeps_another_place,
    assigns_in_condition,
    ends_at_once,
    compares_twice,
    compares_with_itself,
    leaves_too_early,
    hides_the_sum,
    keeps_only_the_last,
    stores_what_it_began_with,
    keeps_the_index,
    tile_of_its_own,
    drops_the_fraction,
    counts_in_integers,
    keeps_as_an_integer,
)
