"""The part of racecheck in compiled code, based on the words of the granules that an access touches: see
runtime/epochs.cu."""

from __future__ import annotations

from functools import partial, reduce

from ..runtime.abi import (
    INFO_ATOMIC,
    INFO_FINAL,
    INFO_VOLATILE,
    INFO_WRITE,
    WHO_SEVERAL,
    WORD_OTHERS,
    WORD_UNSEEN,
    WORD_WRITTEN,
    WORD_WROTE,
)

#: accesses that the runtime always examines
LOOKED_AT = INFO_ATOMIC | INFO_VOLATILE


def only_read(e, address: str, nbytes: int, shared: bool) -> str:
    """Whether several threads have read these granules of shared memory in this interval and none has
    written, each after a check that they were initialised: then nothing else has to be checked."""
    words = _Words(e, address, nbytes, shared)
    return words.all("eq", words.found, e.op("shl i64", e.state.epochs()[1], 8))


def skip_known(
    e, address: str, info: int, shared: bool, in_shared: bool, seen: bool, race: str, done: str
) -> None:
    """Go to `done` where the words show that the access cannot be part of a race: only this thread has
    accessed the granules in this interval, and has written if it writes now; or several threads only read
    them, as it does. Or if that becomes so with this access, since nobody has accessed them, or others have
    only read them.

    in_shared: the memory is known to be shared. seen: what is read is known to have been written.
    """
    nbytes, writes = info & 255, bool(info & INFO_WRITE)
    if info & LOOKED_AT:
        e.line(f"br label %{race}")
        return
    touch(e, info)
    words, epochs = _Words(e, address, nbytes, shared), e.state.epochs()
    own, new = epochs[0], race if nbytes < 4 else e.fresh_label("new")
    if writes:
        good = words.all("eq", words.shifted(7), e.op("or i64", e.op("shl i64", own, 1), 1))
    else:
        last = words.shifted(8)
        same = (words.compare("eq", last, epoch) for epoch in epochs)
        good = words.whole(reduce(partial(e.op, f"or {words.bits}"), same))
    e.branch(good, done, new, likely=True)
    if nbytes < 4:
        return
    e.label(new)
    if e.state.may_be_final:  # then the runtime must be told
        early = e.fresh_label("early")
        e.branch(e.op("icmp eq i64", own, -1), race, early)
        e.label(early)
    unseen = 0 if writes or seen else WORD_UNSEEN
    when, fresh, others = words.shifted(32), e.fresh_label("fresh"), e.fresh_label("others")
    e.branch(words.all("ult", when, _oldest(e, address, in_shared)), fresh, others)
    e.label(fresh)
    words.store(words.splat(e.op("or i64", e.op("shl i64", own, 8), unseen | WORD_WRITTEN * writes)), done)
    e.label(others)
    if writes:  # it has read and now writes
        bits, same = WORD_WRITTEN, words.compare("eq", words.shifted(8), own)
        bad = WORD_OTHERS
    elif e.state.alone:  # others have read
        bits, same = WHO_SEVERAL << 8 | unseen, words.compare("eq", when, e.op("lshr i64", own, 24))
        bad = WORD_WROTE
    else:
        e.line(f"br label %{race}")
        return
    joins, left = e.fresh_label("joins"), e.op(f"and {words.type}", words.found, words.splat(str(bad)))
    e.branch(words.whole(e.op(f"and {words.bits}", same, words.compare("eq", left, "0"))), joins, race)
    e.label(joins)
    words.store(words.splat(str(bits)), done, words.found)


def touch(e, info: int) -> None:
    """Take note of an access after which the thread may end before the others' next barrier, which then does not order it."""
    if info & INFO_FINAL:
        e.state.store("Extra", "touched", e.state.load("Env", "bar"))


def _oldest(e, address: str, in_shared: bool) -> str:
    """The earliest time at which another thread can have accessed the memory."""
    times = [
        e.state.load("Env", f"fresh_{space}", volatile=True)
        for space in ("shared", "global")[: 2 - in_shared]
    ]
    time = times[0]
    if not in_shared:
        in_slots = e.op("icmp uge i64", address, e.module.slots_start)
        time = e.emit(f"select i1 {in_slots}, i32 {times[0]}, i32 {times[1]}")
    return e.cast("zext", "i32", time, "i64")


class _Words:
    """The words of the granules of an access, as one LLVM value."""

    def __init__(self, e, address: str, nbytes: int, shared: bool):
        self.e, self.n = e, max(1, nbytes // 4)
        self.type, self.bits = ("i64", "i1") if self.n == 1 else (f"<{self.n} x i64>", f"<{self.n} x i1>")
        words = e.emit(f"inttoptr i64 {e.state.load('Env', 'words', invariant=True)} to ptr")
        at = e.op("add i64", address, "%sharedbase") if shared else address
        if nbytes < 4:
            at = e.op("and i64", at, -4)
        self.where = e.emit(f"getelementptr i8, ptr {words}, i64 {e.op('shl i64', at, 1)}")
        self.found = e.emit(f"load volatile {self.type}, ptr {self.where}, align 8")

    def splat(self, value: str) -> str:
        """n times the same i64."""
        if self.n == 1:
            return value
        if value[0] != "%":
            return f"<{', '.join([f'i64 {value}'] * self.n)}>"
        one = self.e.emit(f"insertelement {self.type} poison, i64 {value}, i64 0")
        return self.e.emit(
            f"shufflevector {self.type} {one}, {self.type} poison, <{self.n} x i32> zeroinitializer"
        )

    def shifted(self, by: int) -> str:
        return self.e.op(f"lshr {self.type}", self.found, self.splat(str(by)))

    def compare(self, how: str, values: str, value: str) -> str:
        """A bit for each granule."""
        return self.e.op(f"icmp {how} {self.type}", values, self.splat(value))

    def whole(self, bits: str) -> str:
        """Whether all bits are set."""
        if self.n == 1:
            return bits
        return self.e.op(f"icmp eq i{self.n}", self.e.cast("bitcast", self.bits, bits, f"i{self.n}"), -1)

    def all(self, how: str, values: str, value: str) -> str:
        return self.whole(self.compare(how, values, value))

    def store(self, values: str, done: str, old: str = "") -> None:
        """Stores new words; old: keep the bits of these."""
        new = self.e.op(f"or {self.type}", old, values) if old else values
        self.e.line(f"store volatile {self.type} {new}, ptr {self.where}, align 8")
        self.e.line(f"br label %{done}")
