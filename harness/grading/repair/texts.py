"""Edits that cannot be selected at run time, each a file of its own: types, casts, slips, endless loops.

Each needs a reason in the text, so there are few: an integer that is assigned fractions, a type that is too
narrow, a semicolon before a block, a loop without a step.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, pairwise

from ...cuda.kinds import kind_of, kind_of_type
from ...cuda.pieces import Function, Piece, Variable
from ...cuda.text import CudaText, read
from .edits import Edit
from .fills import loops_that_fill
from .halves import as_floats
from .pool import Pool

SHORTEST = 20  # characters of a statement that is a slip if it occurs twice
LARGEST_BLOCK = 1024  # threads
OUTSIDE = ("out-of-bounds", "invalid-address")  # faults that a larger array would not have
NARROW = (
    "short",
    "unsigned short",
    "char",
    "unsigned char",
    "signed char",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
)


def edits(source: str, kernel: str) -> Iterator[tuple[Edit, ...]]:
    """The edits of a kernel and of the functions of its file: slips first, which are hardly ever intended."""
    file = read(source)
    others = {k.name for k in file.kernels} - {kernel}
    functions = [f for f in file.functions if f.name not in others]
    for function in functions:
        yield from ((edit,) for edit in _slips(function))
    calls: dict[str, list[tuple[Function, Piece]]] = {}
    for caller in functions:
        for name, call in caller.body.calls():
            calls.setdefault(name, []).append((caller, call))
    for function in functions:
        yield from as_floats(function)
        yield from loops_that_fill(function)
        yield from _signatures(function, file, calls.get(function.name, ()))
        yield from ((edit,) for edit in _otherwise(function, Pool(file, function, [])))


def _otherwise(function: Function, pool: Pool) -> Iterator[Edit]:
    yield from _types(function, pool)
    yield from _casts(function, pool)
    yield from _loops(function, pool)
    yield from _once(function)
    yield from _quotients(function, pool)
    yield from _unsigned(function, pool)
    yield from _fractions(function, pool)
    yield from _declared_again(function)
    yield from _joint_sums(function)


def _slips(function: Function) -> Iterator[Edit]:
    """`if (i < n); x[i] = 0;` and `for (…); { … }`, where what follows was meant to be inside; `if (i = n)`."""
    for head in function.body.all("if_statement", "for_statement", "while_statement"):
        body = head.part("consequence") or head.part("body")
        if body is not None and body.code == ";" and head.outer and _is_followed(head):
            yield Edit(body.start, body.end, "", "a statement too many")
    for e in function.body.all("assignment_expression"):
        sign, outer = e.part("operator"), e.outer
        while outer is not None and outer.kind == "parenthesized_expression":
            e, outer = outer, outer.outer
        asks = outer is not None and (outer.kind == "condition_clause" or outer.part("condition") == e)
        if sign.code == "=" and asks:
            yield Edit(sign.start, sign.end, "==", "a comparison")


def _is_followed(head: Piece) -> bool:
    """Whether a loop or an `if` is followed by a block, or by something indented like its body."""
    parts = head.outer.parts
    after = next((p for p in parts if p.start >= head.end), None)
    if after is None:
        return False
    return after.kind == "compound_statement" or head.kind == "if_statement" or after.column > head.column


def of_shared_arrays(source: str, kernel: str, fault: Mapping) -> Iterator[Edit]:
    """`__shared__` for a local array of a kernel with barriers; other sizes for the array of a fault."""
    file = read(source)
    function = file.function(kernel)
    words = {token.code for token in function.whole.tokens}
    words |= {e.code for e in function.body.all("field_expression")}
    lacks = "__syncthreads" in words and "__shared__" not in words
    for v in (
        v for v in file.variables if function.whole.holds(v) and (v.extents or "__shared__" in v.words)
    ):
        own = "__shared__" not in v.words and v.outer and v.outer.kind == "declaration"
        is_unset = fault.get("array") == v.name and fault.get("kind") == "uninitialised-read"
        if is_unset and not own and v.outer and _is_summed(function, v) and (text := _zeroed(v, words)):
            yield Edit(v.outer.end, v.outer.end, text, "a first value")
        if own and (lacks or "__syncthreads" in words and fault.get("array") == v.name):
            yield Edit(v.outer.start, v.outer.start, "__shared__ ", "a memory")
        is_of_fault = fault.get("array") == v.name
        if own and fault.get("kind") == "uninitialised-read" and v.value is None:
            yield Edit(v.end, v.end, " = {}", "a first value")
        too_small = is_of_fault and any(
            e and e.kind == "binary_expression" and " - " in e.code for e in v.extents
        )
        outside = is_of_fault and fault.get("kind") in OUTSIDE
        if outside or fault.get("kind") == "misaligned" or too_small:
            yield from _extents([e for e in v.extents if e], outside and len(v.extents) == 1)


def _is_summed(function: Function, v: Variable) -> bool:
    """Whether something is added to it."""
    sums = (
        e.part("left") for e in function.body.all("assignment_expression") if e.part("operator").code != "="
    )
    calls = (
        call.part("arguments").parts for name, call in function.body.calls() if name.startswith("atomic")
    )
    targets = [*sums, *(arguments[0] for arguments in calls if arguments)]
    return any(n.code == v.name for t in targets for n in t.all("identifier"))


def _zeroed(v: Variable, words: Collection[str]) -> str:
    """What sets a variable or a row that a block shares to 0 before anything else."""
    axes = [axis for axis in "xyz" if axis == "x" or f"threadIdx.{axis}" in words]
    first = " && ".join(f"threadIdx.{axis} == 0" for axis in axes)
    if not v.extents:
        return f" if ({first}) {v.name} = 0; __syncthreads();"
    size = v.extents[0].code if len(v.extents) == 1 and v.extents[0] else ""
    step = "i = threadIdx.x; i < {}; i += blockDim.x" if len(axes) == 1 else ""
    return f" for (int {step.format(size)}) {v.name}[i] = 0; __syncthreads();" if size and step else ""


def _extents(extents: Sequence[Piece], one_per_thread: bool = False) -> Iterator[Edit]:
    """Padding added to or removed from the last extent, or an element for every thread of a block; two extents swapped."""
    if not extents:
        return
    last = extents[-1]
    plain = last.part("left") if last.kind == "binary_expression" else last
    texts = [*(f"{plain.code} + {n}" for n in (4, 8, 1)), plain.code, f"2 * {plain.code}"]
    texts += [str(LARGEST_BLOCK)] if one_per_thread else []
    texts.sort(key=lambda text: " - " in last.code and text != plain.code)  # the smallest change first
    yield from (Edit(last.start, last.end, text, "a size") for text in texts if text != last.code)
    for one, other in pairwise(extents):
        both = last.file.text[one.end : other.start]
        if one.code != other.code:
            yield Edit(one.start, other.end, other.code + both + one.code, "a size")


def of_speed(source: str, kernel: str) -> Iterator[tuple[Edit, ...]]:
    """Edits that may make a right kernel faster: without a barrier, a wait or repeated work, tiles stored by
    columns, padded tiles, other tunables."""
    file = read(source)
    function = file.function(kernel)
    seen: set[str] = set()
    for statement in function.body.all("expression_statement"):
        again = len(statement.code) > SHORTEST and statement.code in seen
        if again or re.fullmatch(r"__syncthreads\(\);|\w*wait\w*(<\d+>)?\(\w*\);", statement.code):
            yield (Edit(statement.start, statement.end, "", "a statement too many"),)
        seen.add(statement.code)
    tiles = [v for v in file.variables if "__shared__" in v.words and function.whole.holds(v)]
    for v in tiles:
        if turned := tuple(_by_columns(function, v.name)):
            yield turned
    for v in tiles:
        sizes = _extents([e for e in v.extents if e])
        yield from ((edit,) for edit in islice(sizes, 4 if len(v.extents) > 1 else 0))
    for v in file.variables:
        if v.scope == file.root and "constexpr" in v.words and v.value and v.value.code.isdecimal():
            n = int(v.value.code)
            more = (4, 1) if n == 0 else (2 * n, 4 * n, n // 2)
            yield from ((Edit(v.value.start, v.value.end, str(m), "another value"),) for m in more if m)


def _by_columns(function: Function, tile: str) -> Iterator[Edit]:
    """`tile[x][y]` for `tile[y][x]`, everywhere."""
    for row in function.body.all("subscript_expression"):
        whole = row.outer
        if row.part("argument").code == tile and whole is not None and whole.part("argument") == row:
            first, second = row.part("indices"), whole.part("indices")
            if whole.kind == "subscript_expression" and first and second:
                yield Edit(first.start, whole.end, second.code + first.code, "two that are exchanged")


def _types(function: Function, pool: Pool) -> Iterator[Edit]:
    for v in pool.locals:
        place = v.outer.part("type") if v.outer else None
        if v.node.id in pool.parameters or place is None or v.pointer:
            continue
        if _without_signs(v.type) in NARROW:
            yield Edit(place.start, place.end, "int", "a type")
        elif kind_of(v) == "integer" and "float" in _given(function, pool, v):
            yield Edit(place.start, place.end, "float", "a type")


def _signatures(
    function: Function, file: CudaText, calls: Sequence[tuple[Function, Piece]]
) -> Iterator[tuple[Edit, ...]]:
    """`int f(int x)` that is called with a fraction, or returns one."""
    if function.is_kernel:
        return
    given: set[int] = set()
    for caller, call in calls:
        kinds = Pool(file, caller, [])
        given |= {i for i, e in enumerate(call.part("arguments").parts) if kinds.kind(e) == "float"}
    found = [
        Edit(place.start, place.end, "float", "a type")
        for i, v in enumerate(function.parameters)
        if i in given and kind_of(v) == "integer" and (place := v.outer.part("type"))
    ]
    result = function.part("type")
    of_integers = result is not None and kind_of_type(result.code) == "integer"
    inside = Pool(file, function, [])
    returned = [p.parts[0] for p in function.body.all("return_statement") if p.parts]
    changed = {v.name for i, v in enumerate(function.parameters) if i in given}
    fractions = any(
        inside.kind(e) == "float" or changed & {n.code for n in e.all("identifier")} for e in returned
    )
    if of_integers and fractions:
        result = Edit(result.start, result.end, "float", "a type")
        yield (result, *found)
    if found:
        yield tuple(found)


def _unsigned(function: Function, pool: Pool) -> Iterator[Edit]:
    """`unsigned i` that should go below 0."""
    for e in function.body.all("binary_expression"):
        left, sign, right = (e.part(name) for name in ("left", "operator", "right"))
        found = pool.file.named(left.code, e.start) if (sign.code, right.code) == (">=", "0") else []
        for v in found:
            if v.type.startswith("unsigned") and v.outer and (place := v.outer.part("type")):
                yield Edit(place.start, place.end, "int", "a type")


def _fractions(function: Function, pool: Pool) -> Iterator[Edit]:
    """`1 / n` where a fraction is meant."""
    for e in function.body.all("binary_expression"):
        outer = e.outer
        while outer is not None and outer.kind == "parenthesized_expression":
            outer = outer.outer
        if e.part("operator").code != "/" or pool.kind(e) != "integer" or outer is None:
            continue
        if outer.kind == "init_declarator":
            own = [v for v in pool.locals if outer.holds(v)]
            wanted = kind_of(own[-1]) if own else ""
        else:
            wanted = pool.kind(outer) if outer.kind.endswith("_expression") else ""
        if wanted == "float":
            left = e.part("left")
            yield Edit(left.start, left.end, f"(float)({left.code})", "a type")


def _declared_again(function: Function) -> Iterator[Edit]:
    """`float sum = 0.0f;` at the start of a loop that should continue the outer sum."""
    for loop in function.body.all("for_statement", "while_statement"):
        body = loop.part("body")
        for p in body.parts if body.kind == "compound_statement" else ():
            value = next((d.part("value") for d in p.all("init_declarator")), None)
            if p.kind != "declaration" or value is None or value.kind != "number_literal":
                continue
            between = p.file.text[loop.start : p.start]
            yield Edit(loop.start, p.end, f"{p.code} {between.rstrip()}", "where it stands")


def _without_signs(type_: str) -> str:
    return " ".join(word for word in type_.split() if word not in ("const", "volatile"))


def _given(function: Function, pool: Pool, v: Variable) -> set[str]:
    """The types of what a variable is set to."""
    found = {pool.kind(v.value)} if v.value else set()
    for e in function.body.all("assignment_expression"):
        if e.part("left").code == v.name and pool.file.named(v.name, e.start) == [v]:
            found.add(pool.kind(e.part("right")))
    return found


def _casts(function: Function, pool: Pool) -> Iterator[Edit]:
    for cast in function.body.all("cast_expression"):
        type_, value = cast.part("type").code, cast.part("value")
        if type_ in NARROW or kind_of_type(type_) == "integer" and pool.kind(value) == "float":
            yield Edit(cast.start, cast.end, value.code, "a type")


def _quotients(function: Function, pool: Pool) -> Iterator[Edit]:
    """`int(i * (1.0f / n))` is off by one for some i."""
    for e in function.body.all("call_expression", "cast_expression"):
        type_, inside = e.part("function") or e.part("type"), e.part("arguments") or e.part("value")
        while inside.kind in ("argument_list", "parenthesized_expression") and len(inside.parts) == 1:
            inside = inside.parts[0]
        if kind_of_type(type_.code) != "integer" or inside.kind != "binary_expression":
            continue
        left, sign, right = (inside.part(name) for name in ("left", "operator", "right"))
        names = [n.code for n in inside.all("identifier")]
        divides = re.fullmatch(r"\(?\s*1(\.0*)?f?\s*/\s*(\(float\)\s*)?\w+\s*\)?", right.code)
        if (
            sign.code == "*"
            and divides
            and len(names) == 2
            and all(pool.kind(n) == "integer" for n in inside.all("identifier"))
        ):
            yield Edit(e.start, e.end, f"({names[0]} / {names[1]})", "an operator")


def _joint_sums(function: Function) -> Iterator[Edit]:
    """`atomicAdd(&x[i], sum);` where nobody has set x[i] to 0, and nobody else adds to it."""
    for name, call in function.body.calls():
        arguments = call.part("arguments").parts
        alone = call.outer is not None and call.outer.kind == "expression_statement"
        if name == "atomicAdd" and alone and len(arguments) == 2 and arguments[0].code.startswith("&"):
            target, value = (a.code for a in arguments)
            yield Edit(call.start, call.end, f"{target[1:]} = {value}", "how it is stored")


def _loops(function: Function, pool: Pool) -> Iterator[Edit]:
    for loop in function.body.all("for_statement", "while_statement"):
        condition = loop.part("condition")
        if condition is None:
            continue
        names = {n.code for n in condition.all("identifier")}
        if names & set(_changed(loop)):
            continue
        if loop.kind == "while_statement":
            yield Edit(loop.start, loop.start + len("while"), "if", "a loop too many")
        elif loop.part("update") is None and (step := _step(loop, pool)):
            end = loop.part("body").start
            place = pool.file.text.rindex(")", 0, end)
            yield Edit(place, place, step, "the step of a loop")


def _once(function: Function) -> Iterator[Edit]:
    """`if (w >= W) { w -= W; h++; }` in a loop, where it may have to be done several times."""
    for p in (
        p for loop in function.body.all("for_statement", "while_statement") for p in loop.part("body").parts
    ):
        if p.kind == "if_statement" and not p.part("alternative"):
            names = {n.code for n in p.part("condition").all("identifier")}
            leaves = next(p.all("return_statement", "break_statement", "continue_statement"), None)
            if names & {*_changed(p.part("consequence"))} and not leaves:
                yield Edit(p.start, p.start + len("if"), "while", "a loop that is missing")


def _changed(loop: Piece) -> Iterator[str]:
    for e in loop.all("assignment_expression", "update_expression"):
        yield (e.part("left") or e.part("argument")).code


def _step(loop: Piece, pool: Pool) -> str:
    start = loop.part("initializer")
    own = [v for v in pool.locals if start and start.holds(v)]
    return f" {own[0].name}++" if own else ""
