"""Random idioms of synchronisation: a few programs by day, `python -m tests.soak.idioms` for as many as you like."""

from __future__ import annotations

from tests.devices.virtual.runtime.race_statements import How, Idiom, Op, races
from tests.soak.idioms import Bench

SEEDS = range(7000, 7040)


def test_one_launch_finds_the_races_of_all_orders_and_no_others():
    bench = Bench()
    bench.attempt(SEEDS, 1)
    found, racy = bench.sums(True)
    assert not bench.wrong
    assert racy > 10 and found >= racy - 1, [one.source() for one in bench.missed]


def test_the_interpreter_tries_every_order():
    """The second thread sees the flag only if it looks after the first has raised it."""
    flag = How("volatile", scope="sys")
    writes = (Op("write", 4, value=1), Op("store", 0, flag, value=1))
    seen = Op("if", register="r", what="==", value=1, then=(Op("read", 4),))
    reads = (Op("load", 0, flag, "r"), seen)
    assert races(Idiom("k", 2, 1, (((1, 0), reads), ((0, 0), writes))))
    fence = Op("fence", what="gpu")
    writes, reads = (writes[0], fence, writes[1]), (reads[0], fence, seen)
    assert not races(Idiom("k", 2, 1, (((1, 0), reads), ((0, 0), writes))))
