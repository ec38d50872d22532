"""Functions that look at the words of the granules which lanes access: the text of each kind, in LLVM's language.

They go from the most frequent case to the rarest: lanes in a row, all at one place, all where several threads have only read,
lane by lane. What none of these decides is for the runtime (runtime/lanes.cu). The words are those of runtime/epochs.cu.
Accesses of 4 bytes in a row are looked at where they are: a call would take as long again.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime import abi
from ...runtime.abi import INIT, WHO_SEVERAL, WORD_OTHERS, WORD_WRITTEN, WORD_WROTE

# The granules of some lanes, at {words}. part: those of lanes that take part; the others count as good, and do not change. own:
# the epoch of the thread that each belongs to.
_PART = """\
  %{p}.idle = xor <{n} x i1> {part}, splat (i1 true)
  %{p}.old.0 = insertelement <{n} x i64> poison, i64 %oldest, i64 0
  %{p}.old = shufflevector <{n} x i64> %{p}.old.0, <{n} x i64> poison, <{n} x i32> zeroinitializer
{loads}\
  %{p}.who = lshr <{n} x i64> %{p}.w, splat (i64 8)
  %{p}.when = lshr <{n} x i64> %{p}.w, splat (i64 32)
  %{p}.mine = icmp eq <{n} x i64> %{p}.who, {own}
  %{p}.fresh = icmp ult <{n} x i64> %{p}.when, %{p}.old
  %{p}.base = shl <{n} x i64> {own}, splat (i64 8)
"""
_LOADS = """\
  %{p}.w = load <{n} x i64>, ptr {words}, align 8
  %{p}.s = load <{n} x i8>, ptr {shadow}, align 1
"""
_READ = """\
  %{p}.set.0 = and <{n} x i8> %{p}.s, splat (i8 {init})
  %{p}.set = icmp ne <{n} x i8> %{p}.set.0, zeroinitializer
  %{p}.sev.0 = insertelement <{n} x i64> poison, i64 %several, i64 0
  %{p}.sev = shufflevector <{n} x i64> %{p}.sev.0, <{n} x i64> poison, <{n} x i32> zeroinitializer
  %{p}.shared = icmp eq <{n} x i64> %{p}.who, %{p}.sev
  %{p}.old.mine = or <{n} x i1> %{p}.mine, %{p}.shared
  %{p}.now = lshr <{n} x i64> %{p}.sev, splat (i64 24)
  %{p}.in.interval = icmp eq <{n} x i64> %{p}.when, %{p}.now
  %{p}.wrote = and <{n} x i64> %{p}.w, splat (i64 {wrote})
  %{p}.clean = icmp eq <{n} x i64> %{p}.wrote, zeroinitializer
  %{p}.join.0 = and <{n} x i1> %{p}.in.interval, %{p}.clean
  %{p}.join.1 = xor <{n} x i1> %{p}.old.mine, splat (i1 true)
  %{p}.join.2 = and <{n} x i1> %{p}.join.0, %{p}.join.1
  %{p}.joins = select i1 %alone, <{n} x i1> %{p}.join.2, <{n} x i1> zeroinitializer
  %{p}.good.0 = or <{n} x i1> %{p}.old.mine, %{p}.joins
  %{p}.good.1 = or <{n} x i1> %{p}.good.0, %{p}.fresh
  %{p}.good.2 = and <{n} x i1> %{p}.good.1, %{p}.set
  %{p}.joined = or <{n} x i64> %{p}.w, splat (i64 {together})
  %{p}.next.0 = select <{n} x i1> %{p}.joins, <{n} x i64> %{p}.joined, <{n} x i64> %{p}.w
  %{p}.next.1 = select <{n} x i1> %{p}.fresh, <{n} x i64> %{p}.base, <{n} x i64> %{p}.next.0
"""
_WRITE = """\
  %{p}.whole = shl <{n} x i64> {own}, splat (i64 1)
  %{p}.wrote.0 = lshr <{n} x i64> %{p}.w, splat (i64 7)
  %{p}.wrote.1 = or <{n} x i64> %{p}.whole, splat (i64 1)
  %{p}.again = icmp eq <{n} x i64> %{p}.wrote.0, %{p}.wrote.1
  %{p}.others = and <{n} x i64> %{p}.w, splat (i64 {others})
  %{p}.nobody = icmp eq <{n} x i64> %{p}.others, zeroinitializer
  %{p}.was.read = and <{n} x i1> %{p}.mine, %{p}.nobody
  %{p}.good.0 = or <{n} x i1> %{p}.again, %{p}.was.read
  %{p}.good.2 = or <{n} x i1> %{p}.good.0, %{p}.fresh
  %{p}.marked = or <{n} x i64> %{p}.w, splat (i64 {written})
  %{p}.new = or <{n} x i64> %{p}.base, splat (i64 {written})
  %{p}.next.1 = select <{n} x i1> %{p}.fresh, <{n} x i64> %{p}.new, <{n} x i64> %{p}.marked
"""
_PART_END = """\
  %{p}.good.3 = or <{n} x i1> %{p}.good.2, %{p}.idle
  %{p}.bits = bitcast <{n} x i1> %{p}.good.3 to i{n}
  %{p}.all = icmp eq i{n} %{p}.bits, -1
  br i1 %{p}.all, label %{p}.right, label %ask
{p}.right:
  %{p}.next.2 = select <{n} x i1> {part}, <{n} x i64> %{p}.next.1, <{n} x i64> %{p}.w
{stores}"""
_STORES = """\
  store <{n} x i64> %{p}.next.2, ptr {words}, align 8
"""
_MARKS = """\
  %{p}.{x}.0 = or <{n} x i8> %{p}.s, splat (i8 {init})
  %{p}.{x}.1 = select <{n} x i1> {part}, <{n} x i8> %{p}.{x}.0, <{n} x i8> %{p}.s
  store <{n} x i8> %{p}.{x}.1, ptr {shadow}, align 1
"""
# Lanes that are not in a row: all of them read one place.
_ONE = """\
  %same.0 = icmp ne <{width} x i64> %behind, zeroinitializer
  %same.1 = bitcast <{width} x i1> %same.0 to i{width}
  %same.2 = icmp eq i{width} %same.1, 0
  %count = call i{width} @llvm.ctpop.i{width}(i{width} %some)
  %many = icmp ugt i{width} %count, 1
  %same.3 = and i1 %same.2, %many
  %at.one = and i1 %same.3, %alone
  br i1 %at.one, label %one, label %apart
one:
  %one.own.0 = insertelement <{each} x i64> poison, i64 %several, i64 0
  %one.own = shufflevector <{each} x i64> %one.own.0, <{each} x i64> poison, <{each} x i32> zeroinitializer
{one}\
  ret i1 true
"""
# Each lane reads some granules, which several threads have read before. Lanes that take no part may have any address. Of several
# rows, one may have no lane that takes part.
_APART = """\
apart:
  %nobody = icmp eq i{width} %some, 0
  br i1 %nobody, label %sure, label %led
led:
  %lead = call i{width} @llvm.cttz.i{width}(i{width} %some, i1 false)
  %lead.w = zext i{width} %lead to i64
  %lead.p = getelementptr i64, ptr %room, i64 %lead.w
  %lead.at = load i64, ptr %lead.p
  %lead.v.0 = insertelement <{width} x i64> poison, i64 %lead.at, i64 0
  %lead.v = shufflevector <{width} x i64> %lead.v.0, <{width} x i64> poison, <{width} x i32> zeroinitializer
  %those = select <{width} x i1> %takes.part, <{width} x i64> %v, <{width} x i64> %lead.v
  %those.words = shl <{width} x i64> %those, splat (i64 1)
  %all.device = shl i64 %shared.base, 1
  %all.base = add i64 %wp.0, %all.device
  %all.p = inttoptr i64 %all.base to ptr
  %lead.words = shl i64 %lead.at, 1
  %lead.place = getelementptr i8, ptr %all.p, i64 %lead.words
  %lead.word = load i64, ptr %lead.place, align 8
  %several.w = shl i64 %several, 8
  %lead.read = icmp eq i64 %lead.word, %several.w
  %may.know = and i1 %lead.read, %alone
  br i1 %may.know, label %known, label %each
known:
  %all.0 = insertelement <{each} x i64> poison, i64 %several.w, i64 0
  %all.v = shufflevector <{each} x i64> %all.0, <{each} x i64> poison, <{each} x i32> zeroinitializer
{known}
  %differ.b = icmp ne <{each} x i64> %differ.{width}, zeroinitializer
  %differ.i = bitcast <{each} x i1> %differ.b to i{each}
  %all.known = icmp eq i{each} %differ.i, 0
  br i1 %all.known, label %sure, label %each
sure:
  ret i1 true
"""
_KNOWN = """\
  %at.{i} = extractelement <{width} x i64> %those.words, i64 {i}
  %p.{i} = getelementptr i8, ptr %all.p, i64 %at.{i}
  %words.{i} = load <{each} x i64>, ptr %p.{i}, align 8
  %other.{i} = xor <{each} x i64> %words.{i}, %all.v
  %differ.{next} = or <{each} x i64> {differ}, %other.{i}"""
# Each lane reads its own place, a constant apart from the next, all of them where lanes may read: first whether several threads
# have read them all before, which needs none of the registers that the rest would have to save.
_BY = """\
  %by.0 = shl i64 %several, 8
  %by.first = load i64, ptr %words, align 8
  %by.begins = icmp eq i64 %by.first, %by.0
  br i1 %by.begins, label %by, label %apart
by:
{words}\
  %by.same = icmp eq i64 {differ}, 0
  %by.known = and i1 %by.same, %alone
  br i1 %by.known, label %sure, label %apart
sure:
  ret i1 true
apart:
  %by.right = call preserve_mostcc i1 @{name}.apart(i64 %env, i64 %thread, ptr %room, i32 %mask, i32 %site, i32 %info, i64 %unread, i64 %linear, i64 %shared.base, i1 %alone) {keeping}
  ret i1 %by.right
"""
_BY_WORD = """\
  %by.p.{i} = getelementptr i8, ptr %words, i64 {offset}
  %by.w.{i} = load i64, ptr %by.p.{i}, align 8
  %by.x.{i} = xor i64 %by.w.{i}, %by.0
  %by.o.{i} = or i64 {differ}, %by.x.{i}
"""
_BY_EACH = """\
  %by.own.0 = insertelement <{width} x i64> poison, i64 %own, i64 0
  %by.own.1 = shufflevector <{width} x i64> %by.own.0, <{width} x i64> poison, <{width} x i32> zeroinitializer
  %by.own = add <{width} x i64> %by.own.1, <{numbers}>
{part}\
  ret i1 true
"""
# any places, lane by lane
_EACH = """\
each:
  br label %next
next:
  %i = phi i64 [ 0, %each ], [ %i.next, %on ]
  %i.n = trunc i64 %i to i{width}
  %shifted = lshr i{width} %some, %i.n
  %takes.this = trunc i{width} %shifted to i1
  br i1 %takes.this, label %lane, label %on
lane:
  %lane.p = getelementptr i64, ptr %room, i64 %i
  %lane.at = load i64, ptr %lane.p
  %lane.device = add i64 %lane.at, %shared.base
  %lane.twice = shl i64 %lane.device, 1
  %lane.wp = add i64 %wp.0, %lane.twice
  %lane.words = inttoptr i64 %lane.wp to ptr
  %lane.granule = lshr i64 %lane.device, 2
  %lane.sp = add i64 %sp.0, %lane.granule
  %lane.shadow = inttoptr i64 %lane.sp to ptr
  %lane.own.s = add i64 %own, %i
  %lane.own.0 = insertelement <{each} x i64> poison, i64 %lane.own.s, i64 0
  %lane.own = shufflevector <{each} x i64> %lane.own.0, <{each} x i64> poison, <{each} x i32> zeroinitializer
{lane}\
  br label %on
on:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, {width}
  br i1 %more, label %next, label %done
done:
  ret i1 true
"""
# tried first: most often nobody has accessed the place
_FRESH = """\
  %{p}.ready.0 = and <{n} x i8> %{p}.s, splat (i8 {needed})
  %{p}.ready = icmp eq <{n} x i8> %{p}.ready.0, splat (i8 {needed})
  %{p}.new.0 = and <{n} x i1> %{p}.fresh, %{p}.ready
  %{p}.new.1 = or <{n} x i1> %{p}.new.0, %{p}.idle
  %{p}.new.bits = bitcast <{n} x i1> %{p}.new.1 to i{n}
  %{p}.is.new = icmp eq i{n} %{p}.new.bits, -1
  br i1 %{p}.is.new, label %{p}.untouched, label %{p}.touched
{p}.untouched:
  %{p}.word = or <{n} x i64> %{p}.base, splat (i64 {flags})
  %{p}.word.1 = select <{n} x i1> {part}, <{n} x i64> %{p}.word, <{n} x i64> %{p}.w
  store <{n} x i64> %{p}.word.1, ptr {words}, align 8
{marked}\
  {end}
{p}.touched:
"""
_IN_ROW = """\
  %behind = sub <{width} x i64> %v, %first.v
  %row.0 = icmp ne <{width} x i64> %behind, <{steps}>
  %row.1 = bitcast <{width} x i1> %row.0 to i{width}
  %row.2 = icmp eq i{width} %row.1, 0
  br i1 %row.2, label %row, label %other
"""
_ROW = """\
row:
  %row.part = shufflevector <{width} x i1> %takes.part, <{width} x i1> poison, <{n} x i32> <{spread}>
  %own.0 = insertelement <{n} x i64> poison, i64 %own, i64 0
  %own.1 = shufflevector <{n} x i64> %own.0, <{n} x i64> poison, <{n} x i32> zeroinitializer
  %row.own = add <{n} x i64> %own.1, <{numbers}>
{row}\
  ret i1 true
"""
# for the runtime: the addresses of a row
_FILLED = """\
  %steps = add <{width} x i64> %first.v, <{steps}>
  store <{width} x i64> %steps, ptr %room, align 64
"""
_LOOK = """
define internal preserve_mostcc i1 @{name}(i64 %env, i64 %thread, {given}, i32 %mask, i32 %site, i32 %info, i64 %unread, i64 %linear, i64 %shared.base, i1 %alone) {how} {{
entry:
  %some = {narrowed} i32 %mask to i{width}
  %takes.part = bitcast i{width} %some to <{width} x i1>
{begin}
  %first.v.0 = insertelement <{width} x i64> poison, i64 %first, i64 0
  %first.v = shufflevector <{width} x i64> %first.v.0, <{width} x i64> poison, <{width} x i32> zeroinitializer
  %e = inttoptr i64 %env to ptr
  %ba = getelementptr i8, ptr %e, i64 {bar}
  %bar = load i32, ptr %ba
{clock}
  %stamp = zext i32 %stamp.0 to i64
  %high = shl i64 %stamp, 24
  %who.0 = add i64 %linear, 1
  %own = or i64 %high, %who.0
  %several = or i64 %high, {several}
  %fa = getelementptr i8, ptr %e, i64 {fresh}
  %oldest.0 = load i32, ptr %fa
  %oldest = zext i32 %oldest.0 to i64
  %wa = getelementptr i8, ptr %e, i64 {words}
  %wp.0 = load i64, ptr %wa
  %sa = getelementptr i8, ptr %e, i64 {shadow}
  %sp.0 = load i64, ptr %sa
  %device = add i64 %first, %shared.base
  %twice = shl i64 %device, 1
  %wp.1 = add i64 %wp.0, %twice
  %words = inttoptr i64 %wp.1 to ptr
  %granule = lshr i64 %device, 2
  %sp.1 = add i64 %sp.0, %granule
  %shadow = inttoptr i64 %sp.1 to ptr
{places}\
ask:
{filled}  %fine = call preserve_mostcc i1 @lanes.ask(i64 %env, i64 %thread, ptr %room, i32 %mask, i32 %site, i32 %info, i64 %unread, i64 {count}) {keeping}
  ret i1 %fine
}}
"""
#: asks the runtime; apart, because whoever calls that has to save all registers
ASK = """
define internal preserve_mostcc i1 @lanes.ask(i64 %env, i64 %thread, ptr %room, i32 %mask, i32 %site, i32 %info, i64 %unread, i64 %count) cold noinline {keeping} {{
  %places = ptrtoint ptr %room to i64
  %mask.w = zext i32 %mask to i64
  %info.w = zext i32 %info to i64
  %answer = call i32 @rt_look(i64 %env, i64 %thread, i32 %site, i64 %places, i64 %mask.w, i64 %info.w, i64 %unread, i64 %count)
  %fine = icmp ne i32 %answer, 0
  ret i1 %fine
}}
"""


@dataclass(frozen=True)
class Kind:
    """Of accesses: how many lanes, bytes of each access, how many in a row each lane makes. in_row: each lane's are known to
    follow the ones before. by: so many bytes are between those of lanes that read 4; 0: not known."""

    width: int
    size: int
    count: int
    writes: bool
    shared: bool
    in_row: bool
    by: int = 0

    @property
    def name(self) -> str:
        where, what = "shared" if self.shared else "global", "write" if self.writes else "read"
        row = ".row" * self.in_row + f".by.{self.by}" * bool(self.by)
        return f"lanes.look.{where}.{what}.{self.count}.{self.size}.{self.width}{row}"

    def text(self, alone: bool, keeping: str) -> str:
        """The function. alone: only barriers of the block order threads. keeping: see `targets.Target`."""
        width = self.width
        steps = ", ".join(f"i64 {i * self.count * self.size}" for i in range(width))
        begin = f"  %v = load <{width} x i64>, ptr %room, align 64\n  %first = extractelement <{width} x i64> %v, i64 0"
        if self.in_row:
            begin = f"  %room = alloca [{width} x i64], align 64"
        clock = "  %stamp.0 = add i32 %bar, 0"
        if not alone:
            clock = (
                "  %tp = inttoptr i64 %thread to ptr\n"
                f"  %ca = getelementptr i8, ptr %tp, i64 {abi.offset('Thread', 'clock')}\n"
                "  %clock = load i32, ptr %ca\n"
                "  %stamp.0 = call i32 @llvm.umax.i32(i32 %bar, i32 %clock)"
            )
        given = dict(
            width=width,
            given="i64 %first" if self.in_row else "ptr %room",
            begin=begin,
            filled=_FILLED.format(width=width, steps=steps) * self.in_row,
            keeping=keeping,
            how="alwaysinline" if self.in_row and self.count * self.size == 4 else f"noinline {keeping}",
            narrowed="trunc" if width < 32 else "bitcast",
            bar=abi.offset("Env", "bar"),
            clock=clock,
            several=WHO_SEVERAL,
            fresh=abi.offset("Env", f"fresh_{'shared' if self.shared else 'global'}"),
            words=abi.offset("Env", "words"),
            shadow=abi.offset("Env", "shadow"),
            count=self.count,
        )
        if self.by:
            apart = _LOOK.format(name=f"{self.name}.apart", places=self._apart(), **given)
            return apart + _LOOK.format(name=self.name, places=self._known(keeping), **given)
        places = self._places(steps) if self.size >= 4 else "  br label %ask\n"
        return _LOOK.format(name=self.name, places=places, **given)

    def _places(self, steps: str) -> str:
        """The text for lanes in a row, at one place, and anywhere."""
        width, each, writes = self.width, self.count * self.size // 4, self.writes
        n = width * each
        row = _ROW.format(
            width=width,
            n=n,
            spread=", ".join(f"i32 {i // each}" for i in range(n)),
            numbers=", ".join(f"i64 {i // each}" for i in range(n)),
            row=_part("row", n, writes, "%row.part", end="ret i1 true"),
        )
        if self.in_row:
            return f"  br label %row\n{row}"
        each_lane = _part(
            "lane", each, writes, words="%lane.words", shadow="%lane.shadow", end="br label %on"
        )
        other = "  br label %each\n"
        if not writes:
            one = _part("one", each, writes)
            other = _ONE.format(width=width, each=each, one=one)
            differ = ["zeroinitializer", *(f"%differ.{i}" for i in range(1, width))]
            known = (
                _KNOWN.format(i=i, next=i + 1, width=width, each=each, differ=differ[i]) for i in range(width)
            )
            other += _APART.format(width=width, each=each, known="\n".join(known))
        lanes = _EACH.format(width=width, each=each, lane=each_lane)
        return f"{_IN_ROW.format(width=width, steps=steps)}{row}other:\n{other}{lanes}"

    def _known(self, keeping: str) -> str:
        """The text for reads of 4 bytes at constant distances, which several threads have mostly read before."""
        differ = ["0", *(f"%by.o.{i}" for i in range(self.width))]
        words = (_BY_WORD.format(i=i, offset=2 * i * self.by, differ=differ[i]) for i in range(self.width))
        return _BY.format(words="".join(words), differ=differ[-1], name=self.name, keeping=keeping)

    def _apart(self) -> str:
        """The text for those that they have not."""
        width, loads = self.width, ""
        for what, t, start, size in (("w", "i64", "words", 16), ("s", "i8", "shadow", 2)):
            loads += _each(
                "load", f"%by.{what}", t, f"%{start}", [i * self.by * size // 8 for i in range(width)]
            )
        stores = _each("store", "%by.next.2", "i64", "%words", [2 * i * self.by for i in range(width)])
        part = _part("by", width, False, "%takes.part", loads=loads, stores=stores)
        numbers = ", ".join(f"i64 {i}" for i in range(width))
        return _BY_EACH.format(width=width, numbers=numbers, part=part)


def _each(what: str, vector: str, t: str, start: str, offsets: list[int]) -> str:
    """Loads or stores the elements of a vector, each at its place."""
    lines, type_, found = [], f"<{len(offsets)} x {t}>", "poison"
    for i, offset in enumerate(offsets):
        one = f"{vector}.{what}.{i}"
        lines.append(f"{one}.p = getelementptr i8, ptr {start}, i64 {offset}")
        if what == "store":
            lines.append(f"{one} = extractelement {type_} {vector}, i64 {i}")
            lines.append(f"store {t} {one}, ptr {one}.p")
        else:
            name = vector if i + 1 == len(offsets) else f"{one}.v"
            lines.append(f"{one} = load {t}, ptr {one}.p")
            lines.append(f"{name} = insertelement {type_} {found}, {t} {one}, i64 {i}")
            found = name
    return "".join(f"  {line}\n" for line in lines)


def _part(
    p: str,
    n: int,
    writes: bool,
    part: str = "splat (i1 true)",
    words: str = "%words",
    shadow: str = "%shadow",
    end: str = "",
    loads: str = _LOADS,
    stores: str = _STORES,
) -> str:
    """See _PART. end: what follows where nobody has accessed the place, which is tried first. loads, stores: of the words, and of
    the shadow."""
    given = dict(p=p, n=n, part=part, words=words, shadow=shadow, own=f"%{p}.own", init=INIT)
    given |= dict(loads=loads.format(**given), stores=stores.format(**given))
    marked, marks = (_MARKS.format(x=x, **given) if writes else "" for x in ("marked", "marks"))
    text = _PART + (_FRESH if end else "") + (_WRITE if writes else _READ) + _PART_END + marks
    return text.format(
        **given,
        end=end,
        marked=marked,
        needed=0 if writes else INIT,
        flags=WORD_WRITTEN * writes,
        wrote=WORD_WROTE,
        written=WORD_WRITTEN,
        others=WORD_OTHERS,
        together=WHO_SEVERAL << 8,
    )
