"""Full checks of one access: bounds, then whether what is read has been written, then races.

What a correct program does all the time is decided here in a few instructions; the runtime
(runtime/sanitizer.cu) handles everything else.
"""

from __future__ import annotations

from ..compile.recipes import Check
from ..ptx.ir import Variable
from ..runtime.abi import (
    DTYPES,
    INFO_ATOMIC,
    INFO_BLIND,
    INFO_FINAL,
    INFO_SHARED,
    INFO_VALUE,
    INFO_WRITE,
    INIT,
    LANES_OF_A_RECORD,
    LOCAL_START,
    READ,
    SLOT_BYTES,
    SYMMETRIC_LANES,
    WRITE,
    offset,
)


class FullChecks:
    """Mixin of `function.Lowering`: `check_fully` for an access."""

    roots: dict[str, str]  # see pointers.rooted
    rooted: dict[str, Variable]
    written: set[tuple[str, int]]  # addresses, as LLVM's values, that hold something, and how much
    compared: tuple[str, str] | None  # type and value that a compare-and-swap compares with

    def check_fully(
        self, ins, address: str, nbytes: int, need: int, info: int, value: str | None, root: Variable | None
    ) -> None:
        """Check the access, and record what it writes. value: of a store, as i64, if known.

        root: the array that it is meant for, if known.
        """
        slow, site = self.fresh_label("slow"), self.site(ins)
        race, done = self.fresh_label("race"), self.fresh_label("checked")
        write, atomic = bool(info & INFO_WRITE), bool(info & INFO_ATOMIC)
        reads = (not write or atomic) and not self.module.tracking and ins not in self.facts.sets_bits
        unread = 0 if write else -1 if ins in self.facts.sets_bits else ~ins.used & (1 << nbytes) - 1
        if self.may_be_final(ins):
            info |= INFO_FINAL
        if atomic and ins in self.facts.unused:
            info |= INFO_BLIND
        own = False  # to this thread
        if root is not None and nbytes >= 4:
            own = root.space == "local"
            self._check_in_root(ins, root, address, nbytes, info, reads, slow, race, done, site)
            self.slow_check(slow, done if own else race, [(address, 0, site)], info, unread)
        else:
            self._check_anywhere(address, nbytes, need, info, reads, slow, race, done, site)
            self._look_closer(slow, race, address, site, info, unread)
        if not own:
            self.label(race)
            if value is not None:
                info |= INFO_VALUE
            what = self._if_equal(address, info) if self.compared else str(info)
            self.runtime_call("rt_race", address, what, value or "0", site=site)
            self.line(f"br label %{done}")
        self.label(done)

    def _if_equal(self, address: str, info: int) -> str:
        """The info of a compare-and-swap: one that finds a different value writes nothing."""
        type_, wanted = self.compared
        base = self.shared_memory if info & INFO_SHARED else self.arena
        where = self.emit(f"getelementptr i8, ptr {base}, i64 {address}")
        found = self.emit(f"load volatile {type_}, ptr {where}, align 1")
        equal = self.op(f"icmp eq {type_}", found, wanted)
        return self.emit(f"select i1 {equal}, i64 {info}, i64 {info & ~INFO_WRITE}")

    def may_be_final(self, ins) -> bool:
        """Whether a thread may end after an access while others go on to a barrier; what is called knows it from its
        caller: Env.final.
        """
        final = self.facts.final
        return self.races and self.function.entry and (ins in final or ins.original in final)

    def _look_closer(self, slow: str, race: str, address: str, site: str, info: int, unread: int) -> None:
        """Out of line, at the end of the function: the runtime decides exactly, as if nothing were known."""
        checked = self.fresh_label("closer")
        self.slow_check(slow, checked, [(address, 0, site)], info, unread)
        self.slow_paths.append(f"{checked}:")
        if info & INFO_WRITE and not info & INFO_ATOMIC:
            self.module.declare("rt_written")
            call = f"call i32 @rt_written(i64 %env, i64 {self.thread}, i32 {site}, i64 {address}, i64 {info})"
            self.slow_paths.append(f"  %written.{checked} = {call}")
        self.slow_paths.append(f"  br label %{race}")

    def _check_in_root(
        self, ins, root: Variable, address: str, nbytes: int, info: int, reads: bool, slow: str, race: str, done: str,
        site: str,
    ) -> None:  # fmt: skip
        """An access to a shared or local array made of whole granules."""
        offset = self._offset_in(root, address, nbytes, info, site)
        base, aligned = self.symbol(root.name, window=bool(info & INFO_SHARED)), self.fresh_label("aligned")
        place = offset if root.space == "local" else self.op("add i64", offset, self.shared_offset(root) % 16)
        self.branch(
            self.op("icmp ne i64", self.op("and i64", place, nbytes - 1), 0), slow, aligned, unlikely=True
        )
        self.label(aligned)
        first = self.op("lshr exact i64", base, 2) if base[0] == "%" else str(int(base) // 4)
        index = self.op("add i64", first, self.op("lshr i64", offset, 2))
        shared = bool(info & INFO_SHARED)
        if root.space != "local" and not info & INFO_WRITE:
            # where the memory is quiet for this instruction, it has been found to be written in this interval
            loud = self.fresh_label("loud")
            self._skip_quiet(address, nbytes, shared, loud, done, site)
            self.label(loud)
        if reads:
            self.check_shadow(index, nbytes // 4, INIT, shared, slow, self.shadow_tag(root))
            if not ins.pred and ins.used < 0:
                self.written.add((address, nbytes))
        elif info & INFO_WRITE and (address, nbytes) not in self.written:  # `x += y` has just read it
            self._mark_written(index, nbytes // 4, READ | WRITE | INIT, shared, root=root)
        self.line(f"br label %{done if root.space == 'local' else race}")

    def _offset_in(self, root: Variable, address: str, nbytes: int, info: int, site: str) -> str:
        """The place of an access in its array; a fault if it is outside."""
        base = self.symbol(root.name, window=bool(info & INFO_SHARED))
        offset = self.op("sub i64", address, base)
        outside, inside = self.fresh_label("outside"), self.fresh_label("inside")
        limit = max(root.size - nbytes + 1, 0)
        self.branch(self.op("icmp uge i64", offset, limit), outside, inside, unlikely=True)
        self.label(outside)
        self.runtime_call("rt_outside", address, str(info), site=site)
        self.line(f"br label %{self.dead_label}")
        self.label(inside)
        return offset

    def _check_anywhere(
        self,
        address: str,
        nbytes: int,
        need: int,
        info: int,
        reads: bool,
        slow: str,
        race: str,
        done: str,
        site: str,
    ) -> None:
        shared = bool(info & INFO_SHARED)
        granules = max(1, nbytes // 4)
        index = self.granule(address, nbytes, nbytes, shared, slow)
        state = self.check_shadow(
            index, granules, need | (INIT if reads else 0), shared, slow, self.shadow_tag(None)
        )
        if info & INFO_WRITE and not info & INFO_ATOMIC:
            if nbytes < 4:
                self.runtime_call("rt_written", address, str(info), site=site)
            else:
                self._mark_written(index, granules, INIT, shared, state)
        if shared and info & INFO_WRITE:
            self.line(f"br label %{race}")
        elif shared:
            self._skip_quiet(address, nbytes, shared, race, done, site)
        elif info & INFO_WRITE:
            self.branch(self._is_local(address), done, race)
        else:  # memory that no thread may write, or that is quiet in this interval, or that is a thread's own
            writable, loud = self.fresh_label("writable"), self.fresh_label("loud")
            t = f"i{8 * granules}"
            self.branch(self.op(f"icmp eq {t}", self.op(f"and {t}", state, WRITE), 0), done, writable)
            self.label(writable)
            self._skip_quiet(address, nbytes, shared, loud, done, site)
            self.label(loud)
            self.branch(self._is_local(address), done, race)

    def _mark_written(self, index: str, granules: int, bits: int, shared: bool, old=None, root=None) -> None:
        """Set bits of the shadow; without its old value, all of it."""
        t, value = f"i{8 * granules}", int.from_bytes(bytes([bits]) * granules, "little")
        where = self.emit(
            f"getelementptr i8, ptr {self.shared_shadow if shared else self.shadow}, i64 {index}"
        )
        new = self.op(f"or {t}", old, value) if old else str(value)
        self.line(f"store {t} {new}, ptr {where}, align 1{self.shadow_tag(root)}")

    def _skip_quiet(self, address: str, nbytes: int, shared: bool, race: str, done: str, site: str) -> None:
        """Further reads by this instruction need no check if the memory is only read in this interval; there
        is a word for each granule. If no collective orders the lanes of a warp, the same goes for memory
        touched by only one warp.
        """
        quiet = self.emit(f"inttoptr i64 {self.load_field('Env', 'quiet', invariant=True)} to ptr")
        at = self.op("add i64", address, self.shared_base) if shared else address
        if nbytes < 4:
            at = self.op("and i64", at, -4)
        place = self.op("shl i64", at, 1)
        bar = self.load_field("Env", "bar")
        if not self.function.entry and self.module.barriers.has_barriers:  # what is final has no token
            bar = self.emit(
                f"select i1 {self.op('icmp eq i32', self.load_field('Env', 'final'), 0)}, i32 {bar}, i32 0"
            )
        bar = self.cast("zext", "i32", bar, "i64")
        known = self.cast("zext", "i32", site, "i64") if site[0] == "%" else site
        which = self.op("shl i64", known, 6) if site[0] == "%" else str(int(site) << 6)
        token = self.op("or i64", self.op("shl i64", bar, 32), which)
        tokens = [token]
        if self.module.barriers.symmetric(self.function.name) & SYMMETRIC_LANES:
            warp = self.op("lshr i32", self.load_field("Thread", "linear", invariant=True), 5)
            tokens.append(
                self.op("add i64", token, self.cast("zext", "i32", self.op("add i32", warp, 1), "i64"))
            )
        n = max(1, nbytes // 4)
        loud = self.fresh_label("loud") if nbytes == 4 and len(tokens) > 1 else race
        for i in range(n):
            where = self.emit(
                f"getelementptr i8, ptr {quiet}, i64 {self.op('add i64', place, 8 * i) if i else place}"
            )
            found = self.emit(f"load volatile i64, ptr {where}, align 8")
            same = [self.op("icmp eq i64", found, t) for t in tokens]
            next_ = self.fresh_label("quiet") if i < n - 1 else done
            self.branch(same[0] if len(same) == 1 else self.op("or i1", *same), next_, loud)
            if i < n - 1:
                self.label(next_)
        if loud != race:
            self.label(loud)
            self._join_the_first(address, shared, where, found, tokens[1], done, race)

    def _join_the_first(
        self, address: str, shared: bool, quiet: str, found: str, in_warp: str, done: str, race: str
    ) -> None:
        """The granule's first record has one lane of this warp, which has read it here, and nobody else has come
        since: this lane is added to it. With two of them on record, the others need no look.
        """
        join, first = self.fresh_label("join"), str(1 << 31)
        self.branch(self.op("icmp eq i64", found, self.op("or i64", in_warp, first)), join, race)
        self.label(join)
        cells = self.emit(f"inttoptr i64 {self.load_field('Env', 'cells', invariant=True)} to ptr")
        at = self.op("add i64", address, self.shared_base) if shared else address
        place = self.op("mul i64", self.op("lshr i64", at, 2), DTYPES["Cell"].itemsize)
        lanes_at = self.op("add i64", place, offset("Cell", "record") + 4 * LANES_OF_A_RECORD)
        where = self.emit(f"getelementptr i8, ptr {cells}, i64 {lanes_at}")
        lane = self.op("and i32", self.load_field("Thread", "linear", invariant=True), 31)
        lanes = self.emit(f"load volatile i32, ptr {where}, align 4")
        more = self.op("or i32", lanes, self.op("shl i32", 1, lane))
        self.line(f"store volatile i32 {more}, ptr {where}, align 4")
        same = self.op("icmp eq i32", lanes, more)
        self.line(
            f"store volatile i64 {self.emit(f'select i1 {same}, i64 {found}, i64 {in_warp}')}, ptr {quiet}, align 8"
        )
        self.line(f"br label %{done}")

    def _is_local(self, address: str) -> str:
        """Local memory is a thread's own: past LOCAL_START in one of the slots, which are the arena's upper half."""
        upper = self.op("icmp uge i64", address, self.module.slots_start)
        late = self.op("icmp ne i64", self.op("and i64", address, SLOT_BYTES - LOCAL_START), 0)
        return self.op("and i1", upper, late)

    def suspect_at(self, label: str) -> None:
        """Out of line: something unset has been read."""
        self.module.declare("rt_suspect")
        self.slow_paths += [f"{label}:", f"  %suspect.{label} = call i32 @rt_suspect(i64 %env, i64 {self.thread}, i32 0)",
                            f"  br label %{self.dead_label}"]  # fmt: skip

    # -- arrays that only their function touches -------------------------------------------------------

    def look_at_arrays(self) -> None:
        """What accesses of the body mean, and which arrays LLVM may keep itself."""
        if Check.BOUNDS not in self.module.recipe:
            return
        self.rooted, self.roots = self.facts.arrays, self.facts.roots
        if not self.module.tracking:
            self.private = {name: f'"{name}.' for name in self.facts.private}
            self.unrolled = self.facts.unrolled

    def hold_privately(self, name: str, variable: Variable) -> None:
        """The values of an array, and for each granule whether it has been written. Its place in local memory
        stays empty."""
        granules = -(-variable.size // 4)
        self.module.declare("llvm.memset.p0.i64", "void", "ptr to, i8 value, i64 bytes, i1 volatile")
        for part, nbytes, value in (("values", 4 * granules, -1), ("written", granules, 0)):
            place = f'%{self.private[name]}{part}"'
            self.entry.append(f"  {place} = alloca [{nbytes} x i8], align 16")
            self.line(
                f"call void @llvm.memset.p0.i64(ptr align 16 {place}, i8 {value}, i64 {nbytes}, i1 false)"
            )

    def check_private(self, ins, address: str, nbytes: int, info: int, root: Variable) -> str:
        """Check an access and record what it writes; returns the pointer to the element."""
        site = self.site(ins)
        offset = self._offset_in(root, address, nbytes, info, site)
        crooked, straight = self.fresh_label("crooked"), self.fresh_label("straight")
        self.branch(
            self.op("icmp ne i64", self.op("and i64", offset, nbytes - 1), 0),
            crooked,
            straight,
            unlikely=True,
        )
        self.slow_check(crooked, self.dead_label, [(address, 0, site)], info)
        self.label(straight)
        granules, index = nbytes // 4, self.op("lshr i64", offset, 2)
        t, every = f"i{8 * granules}", int.from_bytes(bytes([INIT]) * granules, "little")
        if not info & INFO_WRITE:
            every = sum(INIT << 8 * i for i in range(granules) if ins.used >> 4 * i & 15)
        where = self.emit(f'getelementptr i8, ptr %{self.private[root.name]}written", i64 {index}')
        if info & INFO_WRITE:
            self.line(f"store {t} {every}, ptr {where}, align 1")
        else:
            unset, good = self.fresh_label("unset"), self.fresh_label("good")
            state = self.emit(f"load {t}, ptr {where}, align 1")
            if ins.used >= 0:
                state = self.op(f"and {t}", state, every)
            self.branch(self.op(f"icmp ne {t}", state, every), unset, good, unlikely=True)
            self.suspect_at(unset)
            self.label(good)
        return self.emit(f'getelementptr i8, ptr %{self.private[root.name]}values", i64 {offset}')

    # -- what cannot be the same memory -------------------------------------------------------------

    def start_scopes(self) -> None:
        """Tell LLVM which accesses of a kernel never alias: those to different known arrays, and those to the
        shadow.

        Not the arrays of functions, expanded or not: these take turns in the same memory.
        """
        expanded = self.expanded_variables
        own = [n for n in self.rooted if n not in expanded] if self.function.entry else []
        if Check.INITIALISED not in self.module.recipe or not own:
            return
        domain = self.module.metadata("distinct !{{!{n}}}")
        data = {name: self.module.metadata(f"distinct !{{{{!{{n}}, !{domain}}}}}") for name in (*own, None)}
        shadow = {name: self.module.metadata(f"distinct !{{{{!{{n}}, !{domain}}}}}") for name in (*own, None)}

        def tag(mine: int, others) -> str:
            scopes = [
                self.module.metadata(f"!{{{{{', '.join(f'!{o}' for o in some)}}}}}")
                for some in ([mine], others)
            ]
            return f", !alias.scope !{scopes[0]}, !noalias !{scopes[1]}"

        everything = list(shadow.values())
        # None: an unknown access, which may be to any of the arrays
        for name in (*own, None):
            rest = [data[o] for o in own if o != name and name]
            self.tags["data", name] = tag(data[name], everything + rest)
            rest = [shadow[o] for o in own if o != name and name]
            self.tags["shadow", name] = tag(shadow[name], list(data.values()) + rest)

    def data_tag(self, root: Variable | None) -> str:
        return self.tags.get(("data", root.name if root else None), "")

    def shadow_tag(self, root: Variable | None) -> str:
        return self.tags.get(("shadow", root.name if root else None), "")
