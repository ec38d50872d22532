"""Parts of the products of four warps (runtime/wgmma.cu) that are written in LLVM, for the sake of its vectors."""

from __future__ import annotations

_BLOCK = 8  # rows and columns of a product at a time
_ROWS = range(_BLOCK)


def text() -> str:
    """All of them."""
    return _multiply("double") + _multiply("float") + _REGISTERS + _block() + _ALIKE


def _multiply(type_: str) -> str:
    """C (64 x n) += A (64 x k) B (k x n): A and B of doubles, and C of this type, to which each sum is rounded once. n is a
    multiple of 8."""
    vector, fma, c = f"<{_BLOCK} x double>", f"llvm.fma.v{_BLOCK}f64", f"<{_BLOCK} x {type_}>"

    def converted(to: str, from_: str, how: str) -> list[str]:
        """What C holds as doubles, or back."""
        a, b = (c, vector) if how == "fpext" else (vector, c)
        if type_ == "double":
            return [f"%{to}.{i} = bitcast {a} %{from_}.{i} to {b}" for i in _ROWS]
        return [f"%{to}.{i} = {how} {a} %{from_}.{i} to {b}" for i in _ROWS]

    lines = [
        f"declare {vector} @{fma}({vector}, {vector}, {vector})" * (type_ == "double"),
        f"define void @call_multiply_{type_}(i64 %a.at, i64 %b.at, i64 %c.at, i64 %n, i64 %k) noinline {{",
        *(f"%{name} = inttoptr i64 %{name}.at to ptr" for name in "abc"),
        "br label %rows",
        "rows:",
        "%row = phi i64 [ 0, %0 ], [ %row.next, %columns.end ]",
        *(f"%row.{i} = add i64 %row, {i}" for i in _ROWS),
        *(f"%a.row.{i} = mul i64 %row.{i}, %k" for i in _ROWS),
        *(f"%c.row.{i} = mul i64 %row.{i}, %n" for i in _ROWS),
        "br label %columns",
        "columns:",
        "%column = phi i64 [ 0, %rows ], [ %column.next, %steps.end ]",
        *(f"%c.i.{i} = add i64 %c.row.{i}, %column" for i in _ROWS),
        *(f"%c.p.{i} = getelementptr {type_}, ptr %c, i64 %c.i.{i}" for i in _ROWS),
        *(f"%c.in.{i} = load {c}, ptr %c.p.{i}, align 4" for i in _ROWS),
        *converted("c", "c.in", "fpext"),
        "br label %steps",
        "steps:",
        "%step = phi i64 [ 0, %columns ], [ %step.next, %steps ]",
        *(f"%sum.{i} = phi {vector} [ %c.{i}, %columns ], [ %more.{i}, %steps ]" for i in _ROWS),
        "%b.row = mul i64 %step, %n",
        "%b.i = add i64 %b.row, %column",
        "%b.p = getelementptr double, ptr %b, i64 %b.i",
        f"%b.v = load {vector}, ptr %b.p, align 8",
    ]
    lines += _step(vector, fma)
    stores = [
        *converted("c.out", "more", "fptrunc"),
        *(f"store {c} %c.out.{i}, ptr %c.p.{i}, align 4" for i in _ROWS),
    ]
    for name, by, end, then in (
        ("step", 1, "%k", stores),
        ("column", _BLOCK, "%n", []),
        ("row", _BLOCK, "64", []),
    ):
        lines += [
            f"%{name}.next = add i64 %{name}, {by}",
            f"%{name}.more = icmp ult i64 %{name}.next, {end}",
            f"br i1 %{name}.more, label %{name}s, label %{name}s.end",
            f"{name}s.end:",
            *then,
        ]
    lines += ["ret void", "}"]
    return "\n".join(lines) + "\n"


def _step(vector: str, fma: str) -> list[str]:
    """Adds a product to the sums of each row."""
    lines = []
    for i in _ROWS:
        lines += [
            f"%a.i.{i} = add i64 %a.row.{i}, %step",
            f"%a.p.{i} = getelementptr double, ptr %a, i64 %a.i.{i}",
            f"%a.e.{i} = load double, ptr %a.p.{i}, align 8",
            f"%a.o.{i} = insertelement {vector} poison, double %a.e.{i}, i64 0",
            f"%a.v.{i} = shufflevector {vector} %a.o.{i}, {vector} poison, <{_BLOCK} x i32> zeroinitializer",
            f"%more.{i} = call {vector} @{fma}({vector} %a.v.{i}, {vector} %b.v, {vector} %sum.{i})",
        ]
    return lines


#: a row of accumulators: of each 8 columns four lanes have the even ones in one register, the odd ones in the next
_REGISTERS = """
define void @call_gather(i64 %from.at, i64 %to.at, i64 %n) noinline {
  %from = inttoptr i64 %from.at to ptr
  %to = inttoptr i64 %to.at to ptr
  br label %columns
columns:
  %column = phi i64 [ 0, %0 ], [ %next, %columns ]
  %register = mul i64 %column, 64
  %even.p = getelementptr float, ptr %from, i64 %register
  %odd.p = getelementptr float, ptr %even.p, i64 128
  %even = load <4 x float>, ptr %even.p, align 4
  %odd = load <4 x float>, ptr %odd.p, align 4
  %all = shufflevector <4 x float> %even, <4 x float> %odd, <8 x i32> <INTERLEAVED>
  %to.p = getelementptr float, ptr %to, i64 %column
  store <8 x float> %all, ptr %to.p, align 4
  %next = add i64 %column, 8
  %more = icmp ult i64 %next, %n
  br i1 %more, label %columns, label %end
end:
  ret void
}
define void @call_scatter(i64 %from.at, i64 %to.at, i64 %n) noinline {
  %from = inttoptr i64 %from.at to ptr
  %to = inttoptr i64 %to.at to ptr
  br label %columns
columns:
  %column = phi i64 [ 0, %0 ], [ %next, %columns ]
  %from.p = getelementptr float, ptr %from, i64 %column
  %all = load <8 x float>, ptr %from.p, align 4
  %even = shufflevector <8 x float> %all, <8 x float> poison, <4 x i32> <i32 0, i32 2, i32 4, i32 6>
  %odd = shufflevector <8 x float> %all, <8 x float> poison, <4 x i32> <i32 1, i32 3, i32 5, i32 7>
  %register = mul i64 %column, 64
  %even.p = getelementptr float, ptr %to, i64 %register
  %odd.p = getelementptr float, ptr %even.p, i64 128
  store <4 x float> %even, ptr %even.p, align 4
  store <4 x float> %odd, ptr %odd.p, align 4
  %next = add i64 %column, 8
  %more = icmp ult i64 %next, %n
  br i1 %more, label %columns, label %end
end:
  ret void
}
""".replace("INTERLEAVED", ", ".join(f"i32 {i // 2 + 4 * (i % 2)}" for i in range(8)))


def _block() -> str:
    """Eight chunks of 16 bytes of an operand, `pitch` bytes apart before the swizzle: their hash is added to eight sums, and if there
    is room for them, their halves or bfloat16 become doubles. Row i of the result has those of chunk i, or the i-th of each.

    how: 1 they are bfloat16, 2 the i-th of each. Each product of the hash has what stands beside it in a chunk, so that every bit
    counts, and a key of its place.
    """
    lines = [
        "define void @call_chunks(i64 %shared, i64 %at, i64 %pitch, i64 %mask, i64 %sums.at, i64 %key, i64 %to.at, i64 %stride,"
        " i64 %how) noinline {"
    ]
    for i in _ROWS:
        lines += [
            f"%apart.{i} = mul i64 %pitch, {i}",
            f"%plain.{i} = add i64 %at, %apart.{i}",
            f"%high.{i} = lshr i64 %plain.{i}, 7",
            f"%bits.{i} = and i64 %high.{i}, %mask",
            f"%shift.{i} = shl i64 %bits.{i}, 4",
            f"%place.{i} = xor i64 %plain.{i}, %shift.{i}",
            f"%host.{i} = add i64 %shared, %place.{i}",
            f"%p.{i} = inttoptr i64 %host.{i} to ptr",
            f"%d.{i} = load <2 x i64>, ptr %p.{i}, align 8",
        ]
    return "\n".join([*lines, *_hash(), *_widened(), "}"]) + "\n"


def _hash() -> list[str]:
    wide, lines = "<8 x i64>", ["%sums = inttoptr i64 %sums.at to ptr"]
    lines += [f"%sum.0 = load {wide}, ptr %sums, align 8"]
    lines += [f"%key.one = insertelement {wide} poison, i64 %key, i64 0"]
    lines += [f"%keys = shufflevector {wide} %key.one, {wide} poison, <8 x i32> zeroinitializer"]
    for s in range(2):
        pairs = []
        for half in range(2):
            first = 4 * s + 2 * half
            pairs.append(f"%pair.{s}.{half}")
            lines.append(
                f"{pairs[-1]} = shufflevector <2 x i64> %d.{first}, <2 x i64> %d.{first + 1}, {_mask(range(4))}"
            )
        own = ", ".join(f"i64 {0x9E3779B97F4A7C15 * (8 * s + i + 1) % 2**64 | 1}" for i in range(8))
        lines += [
            f"%data.{s} = shufflevector <4 x i64> {pairs[0]}, <4 x i64> {pairs[1]}, {_mask(range(8))}",
            f"%own.{s} = add {wide} %keys, <{own}>",
            f"%keyed.{s} = xor {wide} %data.{s}, %own.{s}",
            f"%low.{s} = and {wide} %keyed.{s}, splat (i64 4294967295)",
            f"%up.{s} = lshr {wide} %keyed.{s}, splat (i64 32)",
            f"%product.{s} = mul {wide} %low.{s}, %up.{s}",
            f"%beside.{s} = shufflevector {wide} %data.{s}, {wide} poison, {_mask(i ^ 1 for i in range(8))}",
            f"%with.{s} = add {wide} %sum.{s}, %product.{s}",
            f"%sum.{s + 1} = add {wide} %with.{s}, %beside.{s}",
        ]
    return [*lines, f"store {wide} %sum.2, ptr %sums, align 8"]


def _widened() -> list[str]:
    words, lines = "<8 x i16>", ["%wanted = icmp ne i64 %to.at, 0", "br i1 %wanted, label %widen, label %end"]
    lines += ["widen:", "%to = inttoptr i64 %to.at to ptr"]
    lines += [f"%w.{i} = bitcast <2 x i64> %d.{i} to {words}" for i in _ROWS]
    lines += ["%which = and i64 %how, 1", "%is.bfloat = icmp ne i64 %which, 0", "%turn = and i64 %how, 2"]
    lines += ["%is.turned = icmp ne i64 %turn, 0", "br i1 %is.turned, label %turned, label %rows", "turned:"]
    rows = [f"%w.{i}" for i in _ROWS]
    for stage, apart in enumerate((1, 2, 4)):  # neighbours of 1, 2, then 4 words go together
        made = list(rows)
        for pair in range(4):
            a = pair // apart * 2 * apart + pair % apart
            for half in range(2):
                each = range(8 // apart // 2 * half, 8 // apart // 2 * (half + 1))
                order = (apart * i + k + 8 * side for i in each for side in (0, 1) for k in range(apart))
                name = f"%x.{stage}.{pair}.{half}"
                lines.append(
                    f"{name} = shufflevector {words} {rows[a]}, {words} {rows[a + apart]}, {_mask(order)}"
                )
                made[a + apart * half] = name
        rows = made
    # row r has the word whose number is r with its three bits reversed
    rows = [rows[int(f"{i:03b}"[::-1], 2)] for i in _ROWS]
    lines += ["br label %rows", "rows:"]
    for i in _ROWS:
        lines += [f"%row.{i} = phi {words} [ %w.{i}, %widen ], [ {rows[i]}, %turned ]"]
    for i in _ROWS:
        lines += [
            f"%half.{i} = bitcast {words} %row.{i} to <8 x half>",
            f"%of.half.{i} = fpext <8 x half> %half.{i} to <8 x float>",
            f"%long.{i} = zext {words} %row.{i} to <8 x i32>",
            f"%shifted.{i} = shl <8 x i32> %long.{i}, splat (i32 16)",
            f"%of.bfloat.{i} = bitcast <8 x i32> %shifted.{i} to <8 x float>",
            f"%single.{i} = select i1 %is.bfloat, <8 x float> %of.bfloat.{i}, <8 x float> %of.half.{i}",
            f"%wide.{i} = fpext <8 x float> %single.{i} to <8 x double>",
            f"%start.{i} = mul i64 %stride, {i}",
            f"%to.{i} = getelementptr double, ptr %to, i64 %start.{i}",
            f"store <8 x double> %wide.{i}, ptr %to.{i}, align 8",
        ]
    return [*lines, "br label %end", "end:", "ret void"]


def _mask(order) -> str:
    numbers = [f"i32 {i}" for i in order]
    return f"<{len(numbers)} x i32> <{', '.join(numbers)}>"


#: whether 128 numbers are the same
_ALIKE = """
declare i64 @llvm.vector.reduce.or.v8i64(<8 x i64>)
define i64 @call_alike(i64 %at) noinline {
  %p = inttoptr i64 %at to ptr
  %one = load i64, ptr %p
  %first = insertelement <8 x i64> poison, i64 %one, i64 0
  %all = shufflevector <8 x i64> %first, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %then, %next ]
  %so.far = phi <8 x i64> [ zeroinitializer, %0 ], [ %more, %next ]
  %here = getelementptr i64, ptr %p, i64 %i
  %these = load <8 x i64>, ptr %here, align 8
  %differ = xor <8 x i64> %these, %all
  %more = or <8 x i64> %so.far, %differ
  %then = add i64 %i, 8
  %go = icmp ult i64 %then, 128
  br i1 %go, label %next, label %end
end:
  %any = call i64 @llvm.vector.reduce.or.v8i64(<8 x i64> %more)
  %same = icmp eq i64 %any, 0
  %found = zext i1 %same to i64
  ret i64 %found
}
"""
