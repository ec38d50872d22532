"""Random programs with barriers and returns, and who went round a barrier by the programs' text: a model for leaving.py.

A statement is a tuple: its kind, and what belongs to it. A place is a path of (position in a list, kind or arm) pairs from
the kernel's body inwards.
"""

from __future__ import annotations

from itertools import count

THREADS, N = 8, 10
_KINDS = {"barrier": 4, "work": 2, "if": 4, "loop": 3, "return": 3, "break": 1, "continue": 0.6}
_HEADS = {
    "for": "for (int {k} = 0; {k} < {trips}; {k}++) {{",
    "while": "for (int {k} = -1; ++{k} < {trips};) {{",
    "forever": "for (int {k} = 0;; {k}++) {{\nif ({k} >= {trips}) break;",
}


class Jump(Exception):
    """kind, place, the iterations there."""


# -- programs -------------------------------------------------------------------------------------------


def some_program(rng, depth: int = 0, loops: str = "") -> list[tuple]:
    return [_statement(rng, depth, loops) for _ in range(rng.randint(1, 3 if depth else 4))]


def _statement(rng, depth: int, loops: str) -> tuple:
    left_out = {"if", "loop"} if depth == 3 else {"loop"} if len(loops) == 2 else set()
    left_out |= set() if loops else {"break", "continue"}
    kinds = [k for k in _KINDS if k not in left_out]
    kind = rng.choices(kinds, [_KINDS[k] for k in kinds])[0]
    if kind == "if":
        other = some_program(rng, depth + 1, loops) if rng.random() < 0.4 else []
        return kind, _condition(rng, loops), some_program(rng, depth + 1, loops), other
    if kind == "loop":
        name = "kj"[len(loops)]
        trips = rng.choice(["1", "2", "3"] * 3 + ["(1 + i % 2)", "(i < 3)"])
        return kind, name, trips, some_program(rng, depth + 1, loops + name), rng.choice([*_HEADS])
    if kind in ("return", "break", "continue"):
        before = [("work",)] if rng.random() < 0.4 else []
        condition = rng.choice([f"i >= {rng.randint(3, 8)}", _condition(rng, loops)])
        return "if", condition, [*before, (kind,)], []
    return (kind,)


def _condition(rng, loops: str) -> str:
    forms = ["i < {c}", "i % {a} == {b}", "n > {u}"]
    if loops:
        forms += ["{k} == {b}", "{k} + i > {c}", "({k} + i) % {a} == {b}"]
    a = rng.randint(2, 3)
    values = dict(a=a, b=rng.randrange(a), c=rng.randint(1, 7), u=rng.choice((5, 15)), k=rng.choice(loops or " "))
    return rng.choice(forms).format(**values)


def text(program: list[tuple]) -> str:
    """The program in CUDA C++, a statement a line."""
    lines = []
    for kind, *parts in program:
        if kind == "if":
            lines += [f"if ({parts[0]}) {{", text(parts[1]), *(["} else {", text(parts[2])] if parts[2] else []), "}"]
        elif kind == "loop":
            name, trips, body, how = parts
            lines += [_HEADS[how].format(k=name, trips=trips), text(body), "}"]
        else:
            lines.append({"barrier": "__syncthreads();", "work": "b[i] += 1;"}.get(kind, f"{kind};"))
    return "\n".join(lines)


# -- what they do ----------------------------------------------------------------------------------------


def expected(program: list[tuple]) -> str:
    """"elsewhere", "round" or "returned": what is the matter at the first barrier at which threads are missing; or "nothing"."""
    running = {i: _walk(program, {"i": i, "n": N}, (), {}) for i in range(THREADS)}
    waits, left, found = {}, [], "nothing"
    while True:
        for i in list(running):
            try:
                waits[i] = next(running[i])
            except (StopIteration, Jump) as end:
                left.append(end.args[1:])  # nothing at the closing brace
                del running[i]
        if not running:
            return found
        here = [waits[i] for i in running]
        if len({place for place, _ in here}) > 1:
            return "elsewhere"
        if any(_went_round(here[0], out) for out in left):
            return "round"
        found = "returned" if left else found


def _walk(program: list[tuple], names: dict, path: tuple, turns: dict):
    """Yields (place, iterations) at each barrier. Errors: Jump."""
    for at, (kind, *parts) in enumerate(program):
        if kind == "barrier":
            yield (*path, (at, kind)), dict(turns)
        elif kind in ("return", "break", "continue"):
            raise Jump(kind, (*path, (at, kind)), dict(turns))
        elif kind == "if":
            arm = 1 if eval(parts[0], {}, names) else 2
            yield from _walk(parts[arm], names, (*path, (at, arm)), turns)
        elif kind == "loop":
            name, trips, body, _ = parts
            inside = (*path, (at, kind))
            for turns[inside] in count():
                names[name] = turns[inside]
                if names[name] >= eval(trips, {}, names):
                    break
                try:
                    yield from _walk(body, names, inside, turns)
                except Jump as jump:
                    if jump.args[0] == "return":
                        raise
                    if jump.args[0] == "break":
                        break


def _went_round(wait: tuple, out: tuple) -> bool:
    """Whether a thread that left at `out` has passed by the place `wait`, rather than returned before."""
    if not out:
        return True
    (here, now), (there, then) = wait, out
    for depth, ((x, a), (y, b)) in enumerate(zip(here, there, strict=False), 1):
        if x != y:
            return y > x
        inside = here[:depth]
        if a == "loop" and now[inside] != then[inside]:
            return then[inside] > now[inside]
        if a != b:
            return False  # the other arm
    raise AssertionError("a thread cannot wait where another one leaves")
