"""Hostile text: PTX and kernels with changes that nobody makes by accident.

`python -m tests.soak.hostile [--count N] [--seed N] [--kernels] [--run SHARE] [--jobs N]` changes the PTX of the samples
and of the course's solutions, or with --kernels their CUDA: names, sizes, declarations, braces, whole pieces of others,
definitions that grow; what is looked for in the text of a wrong kernel is looked for in these. Each mutant is refused
in a sentence, or becomes code that LLVM takes; a share of these is run, on a device with a canary. Crashes, exceptions, hangs and broken canaries are FOUND, and end it with status 1.
"""

from __future__ import annotations

import re
import signal
import sys
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from queue import SimpleQueue
from random import Random

import click
import llvmlite.binding as llvm

from backwarp.cuda.text import read
from backwarp.cuda.values import tunables
from backwarp.devices.child import Child, attach, serve
from backwarp.devices.nvrtc import compiler as nvrtc
from backwarp.devices.virtual.compile import build, pipeline
from backwarp.devices.virtual.compile.recipes import RECIPES, recipe
from backwarp.devices.virtual.run.workers import available_cores
from backwarp.errors import BackwarpError, DeviceError
from backwarp.grading.slips.statements import slips
from tests.attacks.test_text import TEXTS
from tests.devices.virtual.launches import FLAVOURS
from tests.soak import fuzz
from tests.soak.mutate import mutate_cuda, mutate_ptx

LIMIT = 60  # seconds for a mutant
SECONDS = 5  # for NVRTC, of the processor's time; then the limits of a build decide
MEMORY = 3 << 30  # bytes that its process may use
ARENA = 1 << 32
_NUMBER = re.compile(r"(?<![\w.$%])-?\d+\b")
_WORD = re.compile(r"[%$A-Za-z_][\w$]*")
_EXTREMES = (
    0,
    1,
    -1,
    3,
    7,
    8,
    31,
    32,
    33,
    255,
    4096,
    4352,
    65535,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    1 << 63,
    1 << 64,
)
_TYPES = "b8 u8 s8 b16 u16 s16 f16 b32 u32 s32 f32 b64 u64 s64 f64 f16x2 bf16 pred b128 v2 v4".split()
_MARKS = '{ } ( ) [ ] ; : , " /* */ // @ @! % .. \0 \u202e \n'.split(" ")
#: a statement a line
_PTX = r"""
    .reg .b32 %new<4>;
    .reg .pred p;
    .local .align 16 .b8 own[32];
    .shared .b8 s[64];
    .param .b8 p[16];
    {
    }
    here: bra here;
    bra here;
    ret;
    exit;
    trap;
    bar.sync 0;
    bar.sync %r1;
    call f;
    t: .branchtargets here, here; brx.idx %r1, t;
    call %rd1, (p), f;
    st.param.b32 [p+12], %r1;
    mov.u64 %rd1, own; st.shared.u32 [%rd1], %r1;
    ld.param.v4.u32 {%r1,%r2,%r3,%r4}, [p];
    vote.sync.ballot.b32 %r1, %p1, -1;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%r1];
    shfl.sync.idx.b32 %r1|%p1, %r2, %r3, %r4, %r5;
    cp.async.ca.shared.global [%r1], [%rd1], 16, %r2;
    @%p1 mov.u64 %rd1, %rd2;
    { .reg .b64 %rd1; mov.u64 %rd1, 1; st.u32 [%rd1], 1; }
    .pragma "used_bytes_mask 0";
"""
_CPP = r"""
    __device__ int f(int n) { return n ? f(n - 1) : 0; }
    asm volatile("%s");
    #define int long
    #include "x"
    __launch_bounds__(1 << 30)
    template <int N> struct T : T<N + 1> {};
    goto nowhere;
    nowhere:;
    for (;;) {}
    __shared__ int big[12000];
    int local[1 << 20];
    ((int*)0)[threadIdx.x] = 1;
    ((void (*)())7)();
    __trap();
    printf("%*s%n", 1 << 30, (char*)8);
    assert(0 && "\x1b");
    __syncthreads();
    return;
    }
    {
    "
    /*
    __syncwarp(threadIdx.x);
    extern __shared__ double d[];
    constexpr int c = c;
    static_assert(sizeof(int) == 8);
"""
#: what defines v0, and what defines the next by the one before: its text stays short, and what it stands for does not
_GROWING = (
    ("int v0 = threadIdx.x;", "int v{n} = v{before} + v{before} * 2;"),
    ("auto v0 = 1.5f;", "auto v{n} = v{before} * v{before} + v{before};"),
    ("bool v0 = threadIdx.x > 3;", "bool v{n} = v{before} || (v{before} && threadIdx.x < {n});"),
    ("long v0 = 1;", f"long v{{n}} = {'(' * 40}v{{before}} - 1{')' * 40};"),
    ("#define v0 threadIdx.x", "#define v{n} (v{before} + v{before})"),
    (
        "auto f0 = [=](int x) { return x; };",
        "auto f{n} = [=](int x) {{ return f{before}(x) + f{before}(x); }}; int v{n} = 1;",
    ),
    (
        "#define FOR0(i) for (int i = 0; i < 2; i++)",
        "#define FOR{n}(i) FOR{before}(i) FOR{before}(i)\nint v{n} = 2;",
    ),
)
_COUNTS = (4, 9, 30, 400)  # of definitions
_STATEMENTS = (
    *(body for _, body, _ in TEXTS.values() if body and len(body) < 400),
    *map(str.strip, _PTX.strip().splitlines()),
)
_CUDA = tuple(map(str.strip, _CPP.strip().splitlines()))


# -- changes ---------------------------------------------------------------------------------------------------


def hostile_ptx(text: str, other: str, rng: Random) -> str:
    """A text with one to four changes; other: one to take pieces from."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        text = rng.choice(_CHANGES)(text, other, rng)
    return text


def hostile_cuda(text: str, other: str, rng: Random) -> str:
    for _ in range(rng.choice((1, 1, 2, 3))):
        change = rng.choice(
            (_statement_of(_CUDA), _number, _word, _mark, _piece, _lines, _growing, None, None)
        )
        text = change(text, other, rng) if change else mutate_cuda(text, rng)
    return text


def _match(pattern: re.Pattern, text: str, rng: Random) -> re.Match | None:
    start = rng.randrange(max(len(text), 1))
    return pattern.search(text, start) or pattern.search(text)


def _put(text: str, match: re.Match | None, new: str) -> str:
    return text[: match.start()] + new + text[match.end() :] if match else text


def _spelled(value: int, rng: Random) -> str:
    form = rng.choice(("{}", "{}", "0x{:x}", "0{:o}", "0b{:b}", "{}U"))
    return ("-" if value < 0 else "") + form.format(abs(value))


def _number(text: str, other: str, rng: Random) -> str:
    return _put(text, _match(_NUMBER, text, rng), _spelled(rng.choice(_EXTREMES), rng))


def _word(text: str, other: str, rng: Random) -> str:
    new = _match(_WORD, text if rng.random() < 0.8 else other, rng)
    return _put(text, _match(_WORD, text, rng), new[0] if new else "x")


def _type(text: str, other: str, rng: Random) -> str:
    return _put(text, _match(re.compile(rf"(?<=\.)(?:{'|'.join(_TYPES)})\b"), text, rng), rng.choice(_TYPES))


def _mark(text: str, other: str, rng: Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(_MARKS) + text[at + rng.choice((0, 0, 1)) :]


def _statement_of(statements):
    def change(text: str, other: str, rng: Random) -> str:
        lines = text.split("\n")
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(statements))
        return "\n".join(lines)

    return change


def _lines(text: str, other: str, rng: Random) -> str:
    """Some lines are left out, repeated, or moved."""
    lines = text.split("\n")
    start = rng.randrange(len(lines))
    some = lines[start : start + rng.choice((1, 1, 2, 5, 20))]
    if rng.random() < 0.6:
        del lines[start : start + len(some)]
    if rng.random() < 0.6:
        at = rng.randrange(len(lines) + 1)
        lines[at:at] = some
    return "\n".join(lines)


def _piece(text: str, other: str, rng: Random) -> str:
    lines, others = text.split("\n"), other.split("\n")
    start, at = rng.randrange(len(others)), rng.randrange(len(lines) + 1)
    lines[at:at] = others[start : start + rng.choice((1, 3, 10))]
    return "\n".join(lines)


def _growing(text: str, other: str, rng: Random) -> str:
    """Many definitions in a row at the start of a block, and the last in place of a number."""
    (first, then), last = rng.choice(_GROWING), rng.choice(_COUNTS)
    defined = [first, *(then.format(n=n, before=n - 1) for n in range(1, last + 1))]
    text = _put(text, _match(_NUMBER, text, rng), f"(v{last})")
    return _put(text, _match(re.compile(r"(?<=\{)\n"), text, rng), "\n" + "\n".join(defined) + "\n")


def _cut(text: str, other: str, rng: Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _slip(text: str, other: str, rng: Random) -> str:
    return mutate_ptx(text, rng)


_TOKENS = (_number, _number, _number, _word, _word, _type, _type, _mark)
_CHANGES = (*_TOKENS, _lines, _lines, _piece, _cut, _slip, _slip, *(_statement_of(_STATEMENTS),) * 4)


# -- one mutant -------------------------------------------------------------------------------------------------


@cache
def originals() -> list:
    """The subjects that compile quickly."""
    return [s for s in fuzz.subjects().values() if "#include <c" not in s.source]


def ptx_of(subject, checks: str) -> str:
    return fuzz.original(subject, checks).text


def built(subject, text: str, checks: str, guarded: bool) -> str:
    """The PTX of a kernel. guarded: as in grading, by the compilers' process; it takes three times as long."""
    request = text, "kernel.cu", subject.include_dirs, subject.expressions, ()
    if guarded:
        return build.build(*request, checks, ARENA, quick=True).compiled.text
    job = nvrtc.gather(*request)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return nvrtc.compile_job(job, RECIPES[checks].ptx).text
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def compile_once(run):
    """NVRTC's `run`, whose first word on a file is the last: what -minimal refuses is compiled again otherwise."""
    log = ""

    def once(api, source, name, options, headers, expressions):
        nonlocal log
        if not set(nvrtc._SOONER) <= set(options):
            return None, {}, log
        found = run(api, source, name, options, headers, expressions)
        log = found[2]
        return found

    return once


def examine(seed: int, kernels: bool, share: float, guarded: bool) -> tuple[str, str, str]:
    """(what it was made of, how it ended, what is wrong with that)"""
    rng = Random(f"{seed} {kernels}")
    subject, other = (rng.choice(originals()) for _ in range(2))
    checks, quick, tracking = rng.choice(FLAVOURS), rng.random() < 0.5, rng.random() < 0.2
    text = ""
    try:
        if kernels:
            text = hostile_cuda(subject.source, other.source, rng)
            explain(text)
            ptx = built(subject, text, checks, guarded)
        else:
            text = ptx = hostile_ptx(ptx_of(subject, checks), ptx_of(other, checks), rng)
        how = recipe(checks, quick, tracking and checks == "full")
        llvm.parse_assembly(pipeline.lower(ptx, "kernel.cu", how, ARENA).text).verify()
        if rng.random() >= share:
            return subject.name, f"{checks}: lowered", ""
        result = fuzz.examine_text(subject, "cuda" if kernels else checks, text, rng)
        return subject.name, f"{checks}: {result.outcome}", result.found
    except BackwarpError as error:
        return subject.name, f"{checks}: {type(error).__name__}", defect(error, text if kernels else "")
    except Exception:  # noqa: BLE001
        return subject.name, "exception", traceback.format_exc()


def explain(source: str) -> None:
    """What is looked for in the text of a wrong kernel: it must end, and soon."""
    tunables(source)
    for kernel in read(source).kernels:
        slips(source, kernel.name)


def defect(error: BackwarpError, source: str) -> str:
    """What is wrong with how a text is refused. source: of a kernel, in whose verdict it is to be explained."""
    try:
        if source:
            fuzz.described(error, source)
    except Exception:  # noqa: BLE001
        return traceback.format_exc()
    return str(error) if isinstance(error, DeviceError) or not str(error) else ""


class Examiner:
    """Runs mutants in a separate process, which is replaced when one kills it."""

    def __init__(self, kernels: bool, share: float):
        self.how, self.child = (kernels, share), None

    def __call__(self, seed: int) -> tuple[str, str, str]:
        """What a mutant of CUDA does to NVRTC, it may do once: the same under the limits of a build must end well."""
        found = self._ask(seed, guarded=False)
        return self._ask(seed, guarded=True) if found[2] and not found[0] and self.how[0] else found

    def _ask(self, seed: int, guarded: bool) -> tuple[str, str, str]:
        self.child = self.child or Child("tests.soak.hostile", memory=MEMORY)
        self.child.granted = MEMORY
        try:
            found = self.child.ask("examine", (seed, *self.how, guarded), LIMIT)
        except (TimeoutError, MemoryError, EOFError, ConnectionError) as error:
            return "", type(error).__name__, self.end()
        if self.child.used() > MEMORY // 3:  # the compilers keep some
            self.end()
        return found

    def end(self) -> str:
        child, self.child = self.child, None
        return child.end() if child else ""


@click.command()
@click.option("--count", default=1000, help="How many mutants.")
@click.option("--seed", default=0, help="Of the first.")
@click.option("--kernels", is_flag=True, help="Change the CUDA text, not the PTX.")
@click.option("--run", "share", default=0.05, help="Of those that can be built, how many are run.")
@click.option("--jobs", default=available_cores(), help="How many at a time.")
def main(count: int, seed: int, kernels: bool, share: float, jobs: int) -> None:
    """Change text as an attacker would, and check that the only effect is a message."""
    tally, bad, seeds = Counter(), 0, iter(range(seed, seed + count))
    examiners = SimpleQueue()
    for _ in range(jobs):
        examiners.put(Examiner(kernels, share))

    def one(s: int) -> tuple:
        examiner = examiners.get()
        try:
            return s, *examiner(s)
        finally:
            examiners.put(examiner)

    with ThreadPoolExecutor(jobs) as pool:
        for s, subject, outcome, found in pool.map(one, seeds):
            tally[outcome] += 1
            if found:
                bad += 1
                click.echo(f"FOUND: seed {s}{' --kernels' * kernels}, {subject}: {outcome}: {found.strip()}")
    while not examiners.empty():
        examiners.get().end()
    for outcome, n in tally.most_common():
        click.echo(f"{n:6}  {outcome}")
    sys.exit(bool(bad))


def work() -> None:
    """The process of an Examiner."""
    channel = attach()
    build._store.put = lambda key, body: (
        None
    )  # mutants are not worth keeping, but the PTX of what they are made of is
    nvrtc.library.run = compile_once(nvrtc.library.run)
    serve(channel, {"examine": examine})


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].isdigit():  # started by `main`
        work()
    main()
