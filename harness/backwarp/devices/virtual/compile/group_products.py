"""Parts of the products of four warps (runtime/wgmma.cu) that are written in LLVM, for the sake of its vectors."""

from __future__ import annotations

_BLOCK = 8  # rows and columns of a product at a time


def multiply() -> str:
    """C (64 x n) += A (64 x k) B (k x n), of doubles: see runtime/wgmma.cu. n is a multiple of 8."""
    vector, fma = f"<{_BLOCK} x double>", f"llvm.fma.v{_BLOCK}f64"
    rows = range(_BLOCK)
    lines = [
        f"declare {vector} @{fma}({vector}, {vector}, {vector})",
        "define void @call_multiply(i64 %a.at, i64 %b.at, i64 %c.at, i64 %n, i64 %k) noinline {",
        *(f"%{name} = inttoptr i64 %{name}.at to ptr" for name in "abc"),
        "br label %rows",
        "rows:",
        "%row = phi i64 [ 0, %0 ], [ %row.next, %columns.end ]",
        *(f"%row.{i} = add i64 %row, {i}" for i in rows),
        *(f"%a.row.{i} = mul i64 %row.{i}, %k" for i in rows),
        *(f"%c.row.{i} = mul i64 %row.{i}, %n" for i in rows),
        "br label %columns",
        "columns:",
        "%column = phi i64 [ 0, %rows ], [ %column.next, %steps.end ]",
        *(f"%c.i.{i} = add i64 %c.row.{i}, %column" for i in rows),
        *(f"%c.p.{i} = getelementptr double, ptr %c, i64 %c.i.{i}" for i in rows),
        *(f"%c.{i} = load {vector}, ptr %c.p.{i}, align 8" for i in rows),
        "br label %steps",
        "steps:",
        "%step = phi i64 [ 0, %columns ], [ %step.next, %steps ]",
        *(f"%sum.{i} = phi {vector} [ %c.{i}, %columns ], [ %more.{i}, %steps ]" for i in rows),
        "%b.row = mul i64 %step, %n",
        "%b.i = add i64 %b.row, %column",
        "%b.p = getelementptr double, ptr %b, i64 %b.i",
        f"%b.v = load {vector}, ptr %b.p, align 8",
    ]
    for i in rows:
        lines += [
            f"%a.i.{i} = add i64 %a.row.{i}, %step",
            f"%a.p.{i} = getelementptr double, ptr %a, i64 %a.i.{i}",
            f"%a.e.{i} = load double, ptr %a.p.{i}, align 8",
            f"%a.o.{i} = insertelement {vector} poison, double %a.e.{i}, i64 0",
            f"%a.v.{i} = shufflevector {vector} %a.o.{i}, {vector} poison, <{_BLOCK} x i32> zeroinitializer",
            f"%more.{i} = call {vector} @{fma}({vector} %a.v.{i}, {vector} %b.v, {vector} %sum.{i})",
        ]
    stores = [f"store {vector} %more.{i}, ptr %c.p.{i}, align 8" for i in rows]
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


#: a row of accumulators: of each 8 columns four lanes have the even ones in one register, the odd ones in the next
_ROW = """
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
  %wide = fpext <8 x float> %all to <8 x double>
  %to.p = getelementptr double, ptr %to, i64 %column
  store <8 x double> %wide, ptr %to.p, align 8
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
  %from.p = getelementptr double, ptr %from, i64 %column
  %wide = load <8 x double>, ptr %from.p, align 8
  %all = fptrunc <8 x double> %wide to <8 x float>
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

#: eight halves, or bfloat16, as doubles, `stride` apart
_WIDEN = """
define void @call_widen(i64 %from.at, i64 %to.at, i64 %stride, i64 %is.bfloat) noinline {
  %from = inttoptr i64 %from.at to ptr
  %to = inttoptr i64 %to.at to ptr
  %bits = load <8 x i16>, ptr %from, align 2
  %halves = bitcast <8 x i16> %bits to <8 x half>
  %of.half = fpext <8 x half> %halves to <8 x float>
  %long = zext <8 x i16> %bits to <8 x i32>
  %shifted = shl <8 x i32> %long, <SIXTEEN>
  %of.bfloat = bitcast <8 x i32> %shifted to <8 x float>
  %which = icmp ne i64 %is.bfloat, 0
  %single = select i1 %which, <8 x float> %of.bfloat, <8 x float> %of.half
  %wide = fpext <8 x float> %single to <8 x double>
  %dense = icmp eq i64 %stride, 1
  br i1 %dense, label %row, label %column
row:
  store <8 x double> %wide, ptr %to, align 8
  ret void
column:
EACH
  ret void
}
""".replace("SIXTEEN", ", ".join(["i32 16"] * 8)).replace(
    "EACH",
    "\n".join(
        f"""  %e{i} = extractelement <8 x double> %wide, i64 {i}
  %at{i} = mul i64 %stride, {i}
  %p{i} = getelementptr double, ptr %to, i64 %at{i}
  store double %e{i}, ptr %p{i}, align 8"""
        for i in range(8)
    ),
)


def text() -> str:
    """All of them."""
    return multiply() + _ROW + _WIDEN
