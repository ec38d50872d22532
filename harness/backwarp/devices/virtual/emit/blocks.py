"""The function that runs one block of a kernel, `NAME.block(env)`."""

from __future__ import annotations

from ..runtime import abi

_OF_COROUTINES = """
define void @"{name}.block"(i64 %env) nounwind {{
  call void @rt_block(i64 %env)
  ret void
}}
"""
_HEAD = """
define void @"{name}.block"(i64 %env) nounwind {{
entry:
  %envp = inttoptr i64 %env to ptr
  %la = getelementptr i8, ptr %envp, i64 {launch}
  %launch = load ptr, ptr %la, !invariant.load !1
  %ta = getelementptr i8, ptr %envp, i64 {threads}
  %threads = load i64, ptr %ta, !invariant.load !1
  %na = getelementptr i8, ptr %launch, i64 {count}
  %n = load i32, ptr %na, !invariant.load !1
  %oa = getelementptr i8, ptr %launch, i64 {order}
  %order = load ptr, ptr %oa, !invariant.load !1
  %ka = getelementptr i8, ptr %launch, i64 {factor_field}
  %factor = load i32, ptr %ka, !invariant.load !1
  %several = icmp ugt i32 %factor, 1
"""
_OF_THREADS = """\
  br label %some
some:
  %first = phi i32 [ 0, %entry ], [ %after, %together ], [ %stop, %one ]
  %after = add i32 %first, {factor}
  %left = icmp ule i32 %after, %n
  %enough = and i1 %left, %several
  br i1 %enough, label %together, label %rest
together:
{together}
  br i1 %went, label %some, label %alone
rest:
  %any = icmp ult i32 %first, %n
  br i1 %any, label %alone, label %done
alone:
  %stop = phi i32 [ %after, %together ], [ %n, %rest ]
  br label %one
one:
  %i = phi i32 [ %first, %alone ], [ %next, %one ]
{address}
  call void @"{name}.thread"(i64 %env, i64 %thr)
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, %stop
  br i1 %more, label %one, label %some
done:
  ret void
}}
"""

_OF_LANES = """\
  %groups = udiv i32 %n, {width}
  %whole = select i1 %several, i32 %groups, i32 0
  %inside = mul i32 %whole, {width}
  %rest = sub i32 %n, %inside
  %count = add i32 %whole, %rest
  %fa = getelementptr i8, ptr %envp, i64 {first}
  %first = load i32, ptr %fa
  %pa = getelementptr i8, ptr %launch, i64 {piece}
  %piece = load i32, ptr %pa, !invariant.load !1
  %stop = add i32 %first, %piece
  %last = icmp ult i32 %stop, %count
  %end = select i1 %last, i32 %stop, i32 %count
  br label %one
one:
  %i = phi i32 [ %first, %entry ], [ %next, %on ]
{address}
  %together = icmp ult i32 %i, %whole
  br i1 %together, label %lanes, label %alone
lanes:
  %went = call i1 @"{name}.lanes"(i64 %env, i64 %thr)
  br i1 %went, label %on, label %alone
alone:
  %own = phi i64 [ %thr, %one ], [ %thr, %lanes ], [ %neighbour, %alone ]
  %left = phi i32 [ 1, %one ], [ {width}, %lanes ], [ %fewer, %alone ]
  call void @"{name}.thread"(i64 %env, i64 %own)
  %neighbour = add i64 %own, {thread}
  %fewer = sub i32 %left, 1
  %others = icmp ugt i32 %left, 1
  br i1 %others, label %alone, label %on
on:
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, %end
  br i1 %more, label %one, label %done
done:
  ret void
}}
"""


_OF_GROUPS = """\
  %groups = udiv i32 %n, {width}
  br label %one
one:
  %i = phi i32 [ 0, %entry ], [ %next, %one ]
{address}
  %went = call i1 @"{name}.lanes"(i64 %env, i64 %thr)
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, %groups
  br i1 %more, label %one, label %done
done:
  ret void
}}
"""


def of_coroutines(name: str) -> str:
    """The function that runs a block of coroutines: the runtime schedules them."""
    return _OF_COROUTINES.format(name=name)


def of_lanes(name: str, width: int, alone: bool = True) -> str:
    """The function that runs a block of threads, as lanes if their groups are complete. alone: it may have other
    threads, which run one by one."""
    if not alone:
        return _head(name) + _OF_GROUPS.format(name=name, width=width, address=address("%i", ""))
    offsets = {"first": abi.offset("Env", "first"), "piece": abi.offset("Launch", "piece")}
    offsets["thread"] = abi.DTYPES["Thread"].itemsize
    return _head(name) + _OF_LANES.format(name=name, width=width, address=address("%i", ""), **offsets)


def of_threads(name: str, factor: int) -> str:
    """The function that runs a block of threads, `factor` at a time if they are coarsened."""
    together = "  %went = icmp ugt i32 %first, %after"  # unreachable
    if factor > 1:
        lines = [f"  %i.{i} = add i32 %first, {i}\n" + address(f"%i.{i}", f".{i}") for i in range(factor)]
        arguments = ", ".join(f"i64 %thr.{i}" for i in range(factor))
        together = "\n".join([*lines, f'  %went = call i1 @"{name}.threads"(i64 %env, {arguments})'])
    return _head(name) + _OF_THREADS.format(
        name=name, factor=factor, together=together, address=address("%i", "")
    )


def _head(name: str) -> str:
    """The beginning, up to whether several threads run together in this launch."""
    offsets = {
        "launch": abi.offset("Env", "launch"),
        "threads": abi.offset("Env", "threads"),
        "count": abi.offset("Launch", "threads"),
        "order": abi.offset("Launch", "order"),
        "factor_field": abi.offset("Launch", "coarsening"),
    }
    return _HEAD.format(name=name, **offsets)


def address(number: str, suffix: str, bits: int = -1) -> str:
    """The state of the thread at a place in the order. bits: those of its number that count."""
    return f"""\
  %ip{suffix} = getelementptr i32, ptr %order, i32 {number}
  %in{suffix} = load i32, ptr %ip{suffix}, !invariant.load !1
  %id{suffix} = and i32 %in{suffix}, {bits}
  %wide{suffix} = zext i32 %id{suffix} to i64
  %at{suffix} = mul i64 %wide{suffix}, {abi.DTYPES["Thread"].itemsize}
  %thr{suffix} = add i64 %threads, %at{suffix}"""
