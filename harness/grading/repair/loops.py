"""Two edits of the head of a loop: its start together with its end or its step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...cuda.pieces import Piece
from .edits import BINARY, INTEGER, PACE, RELATION
from .pool import GLOBAL, GRID, Entry
from .sites import Choice, Site

BOTH = 1.0  # the most that each of two edits of a start and an end may cost


def strided(sites: Sequence[Site]) -> Iterator[tuple[Choice, Choice]]:
    """`for (int i = 0; i < n; i++)` that should be shared among threads: its start and its step. The same
    for a `while` loop."""
    starts = {v: s for s in sites if s.replaces and (v := _started(s.piece))}
    for step in sites:
        if step.piece.kind != "update_expression" or step.operations[0].code != "+= a":
            continue
        name = step.piece.part("argument")
        found = name.file.named(name.code, name.start)
        start = starts.get(found[0].start) if len(found) == 1 else None
        if start is None or start.pool is not step.pool:
            continue
        pool = start.pool
        own = [i for i in start.here if pool[i].varies and _of_thread(pool[i])]
        far = [i for i in step.plain if not pool[i].varies and (pool[i].known or 2) > 1]
        all_ = [start.entry_of(GLOBAL), step.entry_of(GRID)]
        if None not in all_:
            yield start.replaced_by(all_[0]), step.chosen(0, all_[1])
        yield from ((start.replaced_by(a), step.chosen(0, b)) for a in own for b in far)


def walked(sites: Sequence[Site]) -> Iterator[tuple[Choice, Choice]]:
    """`b = B + x * K; … b++` that should go down a column: where a pointer starts, without a factor or with another, and its
    step."""
    for step in (s for s in sites if s.operations is PACE):
        name = step.piece.part("argument")
        (v,) = name.file.named(name.code, name.start)
        value = v.value
        starts = [c for s in sites if value is not None and value.holds(s.piece) for c in _other_start(s)]
        steps = [step.chosen(0, a) for a in step.sizes_here]
        yield from ((one, other) for one in starts for other in steps)


def _other_start(site: Site) -> Iterator[Choice]:
    sign = site.piece.part("operator")
    if site.operations is BINARY and sign is not None and sign.code == "*":
        yield from (site.chosen(_operation(site, side)) for side in "lr")
    if site.replaces and site.operations is INTEGER and site.own in site.sizes_here:
        yield from (site.replaced_by(a) for a in site.sizes_here if a != site.own)


def _started(e: Piece) -> int:
    """Where the variable is declared that begins with this 0; 0 if there is none."""
    declared = e.outer is not None and e.outer.kind == "init_declarator" and e.code == "0"
    return e.outer.start if declared else 0


def shared_out(sites: Sequence[Site]) -> Iterator[tuple[Choice, Choice]]:
    """`n / 32` elements for each of 32 threads: rounded up, and where a thread's loop ends, not past n."""
    for share in sites:
        if share.operations is not BINARY or share.piece.part("operator").code != "/":
            continue
        outer, of = share.piece.outer, share.piece.part("left")
        name = outer.part("declarator").code if outer is not None and outer.kind == "init_declarator" else ""
        for end in sites if name else ():
            if not end.is_of_loop or name not in {n.code for n in end.piece.all("identifier")}:
                continue
            index = end.piece.part("left")
            entries = [end.entry_of(e.code) if e is not None else None for e in (index, of)]
            if None not in entries:
                yield (
                    share.chosen(_operation(share, "(l + r - 1) / r")),
                    end.chosen(_operation(end, "e && a < b"), *entries),
                )


def _of_thread(entry: Entry) -> bool:
    """Whether it is a thread index or computed from it alone."""
    value = entry.variable.value.code if entry.variable and entry.variable.value else entry.text
    return value.startswith("threadIdx") and " / " not in value


def part_of_range(sites: Sequence[Site]) -> Iterator[tuple[Choice, Choice]]:
    """`for (int i = 0; i < n; i++)` that should run over one of several such ranges: from `g * n` up to `g * n + n`; or
    from `first` up to `first + n`."""
    product, first = (_number(code) for code in ("a * b", "a"))
    product_more, more = (_number(code) for code in ("a * b + e", "e + a"))
    for start, end in _ranges(sites):
        if start.piece.code != "0" or end.own is None:
            continue
        here = start.is_here & end.is_here
        for a in (i for i in here if start.pool[i].varies and start.pool[i].variable):
            yield start.chosen(first, a), end.chosen(more, a)
            if end.own in start.is_here:
                yield (
                    start.chosen(product, a, end.own),
                    end.chosen(product_more, a, end.own),
                )


def heads(sites: Sequence[Site]) -> Iterator[tuple[Choice, Choice]]:
    """An edit of where a loop starts and one of its comparison, neither of which inserts anything: `i = t + 1; i <= n`."""
    starts = [s for s in sites if _loop_begun(s.piece) is not None]
    for end in (s for s in sites if s.operations is RELATION and _is_condition(s.piece)):
        loop = end.piece.outer
        for start in (s for s in starts if _loop_begun(s.piece) == loop):
            plain = [
                [c for c in s.choices(most=BOTH + 0.3) if c.is_plain and c.cost <= BOTH] for s in (start, end)
            ]
            yield from (
                (one.site.chosen(one.operation), other.site.chosen(other.operation))
                for one in plain[0]
                for other in plain[1]
            )


def _ranges(sites: Sequence[Site]) -> Iterator[tuple[Site, Site]]:
    """The sites of the first value of a loop's variable and of what it must stay below."""
    values = {s.piece.node.id: s for s in sites if s.replaces and s.operations is INTEGER}
    for start in values.values():
        loop = _loop_begun(start.piece)
        condition = loop.part("condition") if loop is not None else None
        end = (
            condition.part("right")
            if condition is not None and condition.kind == "binary_expression"
            else None
        )
        if end is not None and condition.part("operator").code == "<" and end.node.id in values:
            if start.pool is values[end.node.id].pool and start.piece.outer.part("value") == start.piece:
                yield start, values[end.node.id]


def _loop_begun(e: Piece) -> Piece | None:
    """The `for` whose variable begins with a value that an expression is part of."""
    while e.kind.endswith("expression") or e.kind in ("identifier", "number_literal"):
        e = e.outer
    loop = e.outer.outer if e.kind == "init_declarator" and e.outer is not None else None
    is_loop = loop is not None and loop.kind == "for_statement"
    return loop if is_loop and loop.part("initializer") == e.outer else None


def _is_condition(e: Piece) -> bool:
    return e.outer is not None and e.outer.kind == "for_statement" and e.outer.part("condition") == e


def _number(code: str) -> int:
    return next(i for i, o in enumerate(INTEGER) if o.code == code)


def _operation(site: Site, code: str) -> int:
    return next(i for i, o in enumerate(site.operations) if o.code == code)
