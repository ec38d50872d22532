"""Random programs with barriers and returns, and which threads bypass a barrier according to the programs'
text: a model for leaving.py.

A statement is a tuple: its kind, and what belongs to it. A place is a path of (position in a list, kind or arm) pairs from
the kernel's body inwards.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count

THREADS, N = 8, 10
_KINDS = {
    "barrier": 4,
    "work": 2,
    "if": 3,
    "switch": 1,
    "loop": 3,
    "call": 1,
    "return": 3,
    "break": 1,
    "continue": 0.6,
}
_LOOPS = {  # before and after the body
    "for": ("for (int {k} = 0; {k} < {trips}; {k}++) {{", "}}"),
    "while": ("for (int {k} = -1; ++{k} < {trips};) {{", "}}"),
    "forever": ("for (int {k} = 0;; {k}++) {{\nif ({k} >= {trips}) break;", "}}"),
    "do": ("for (int {k} = 0, once = 1; once; once = 0)\ndo {{", "}} while (++{k} < {trips});"),
}
_BRANCHES = {
    "if": ("if ({condition}) {{", "}} else {{", "}}"),
    "switch": ("switch ({condition}) {{\ncase 1: {{", "}}\nbreak;\ndefault: {{", "}}\n}}"),
}


class Jump(Exception):
    """kind, place, the iterations there."""


# -- programs -------------------------------------------------------------------------------------------


def some_program(rng, depth: int = 0, loops: str = "") -> list[tuple]:
    return [_statement(rng, depth, loops) for _ in range(rng.randint(1, 3 if depth else 4))]


def _statement(rng, depth: int, loops: str) -> tuple:
    left_out = {"if", "switch", "loop", "call"} if depth == 3 else {"loop"} if len(loops) == 2 else set()
    left_out |= set() if loops else {"break", "continue"}
    kinds = [k for k in _KINDS if k not in left_out]
    kind = rng.choices(kinds, [_KINDS[k] for k in kinds])[0]
    if kind == "call":
        return kind, some_program(rng, depth + 1)
    if kind in _BRANCHES:
        other = some_program(rng, depth + 1, loops) if rng.random() < 0.4 else []
        return kind, _condition(rng, loops), some_program(rng, depth + 1, loops), other
    if kind == "loop":
        name = "kj"[len(loops)]
        trips = rng.choice(["1", "2", "3"] * 3 + ["(1 + i % 2)", "(i < 3)"])
        return kind, name, trips, some_program(rng, depth + 1, loops + name), rng.choice([*_LOOPS])
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
    values = dict(
        a=a, b=rng.randrange(a), c=rng.randint(1, 7), u=rng.choice((5, 15)), k=rng.choice(loops or " ")
    )
    return rng.choice(forms).format(**values)


def source(name: str, program: list[tuple]) -> str:
    """A kernel in CUDA C++, a statement a line, and the functions that it calls."""
    functions: list[str] = []
    head = f'extern "C" __global__ void {name}(float* b, int n) {{\nint i = threadIdx.x;'
    kernel = "\n".join([head, *_lines(program, name, functions), "}"])
    return "\n".join([*functions, kernel])


def _lines(program: list[tuple], name: str, functions: list[str]) -> list[str]:
    lines = []
    for kind, *parts in program:
        if kind in _BRANCHES:
            before, between, after = (line.format(condition=parts[0]) for line in _BRANCHES[kind])
            arms = [_lines(arm, name, functions) for arm in parts[1:]]
            lines += [before, *arms[0], *([between, *arms[1]] if arms[1] or kind == "switch" else []), after]
        elif kind == "loop":
            before, after = (line.format(k=parts[0], trips=parts[1]) for line in _LOOPS[parts[3]])
            lines += [before, *_lines(parts[2], name, functions), after]
        elif kind == "call":
            body = _lines(parts[0], name, functions)
            function = f"{name}_{len(functions)}"
            functions.append(
                "\n".join([f"__device__ void {function}(float* b, int n, int i) {{", *body, "}"])
            )
            lines.append(f"{function}(b, n, i);")
        else:
            lines.append({"barrier": "__syncthreads();", "work": "b[i] += 1;"}.get(kind, f"{kind};"))
    return lines


# -- what they do ----------------------------------------------------------------------------------------


def expected(program: list[tuple]) -> str:
    """ "elsewhere", "round" or "returned": what happened at the first barrier that some threads do not reach;
    or "nothing"."""
    running = {i: _walk(program, {"i": i, "n": N}, (), {}, True) for i in range(THREADS)}
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


def _walk(program: list[tuple], names: dict, path: tuple, turns: dict, last: bool):
    """Yields (place, iterations) at each barrier. last: nothing follows but the end of the kernel. Errors: Jump."""
    for at, (kind, *parts) in enumerate(program):
        inside = (*path, (at, kind))
        ends = last and at == len(program) - 1
        if kind == "barrier":
            yield inside, dict(turns)
        elif kind in ("return", "break", "continue"):
            raise Jump(kind, inside, dict(turns))
        elif kind in _BRANCHES:
            arm = 1 if eval(parts[0], {}, names) else 2
            with _caught("break" if kind == "switch" else ""):
                yield from _walk(parts[arm], names, (*path, (at, arm)), turns, ends)
        elif kind == "call":
            waits = "barrier" in str(parts[0])  # else the compiled function is called as it is
            with _caught("" if ends and waits else "return"):
                yield from _walk(parts[0], {"i": names["i"], "n": N}, inside, turns, ends and waits)
        elif kind == "loop":
            name, trips, body, how = parts
            with _caught("break"):
                for turns[inside] in count():
                    names[name] = turns[inside]
                    if not (how == "do" and turns[inside] == 0) and names[name] >= eval(trips, {}, names):
                        break
                    with _caught("continue"):
                        yield from _walk(body, names, inside, turns, False)


@contextmanager
def _caught(kind: str):
    try:
        yield
    except Jump as jump:
        if jump.args[0] != kind:
            raise


def _went_round(wait: tuple, out: tuple) -> bool:
    """Whether a thread that left at `out` bypassed the place `wait`, rather than returning before it."""
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
