"""Random expressions of CUDA C++, in every build of the virtual GPU against exact models.

`kernels(seed)` draws kernels of many expressions; `disagreements` compiles them as one file, runs them and
reports wrong bits, each time with the smallest expression that still gives them. `python -m
tests.soak.values` does that for as long as you like.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from random import Random

import numpy as np

from backwarp.devices.virtual.device import VirtualGPU
from tests.conformance.exact import NAN
from tests.conformance.operations import BLOCK, C_TYPES, CASES, EXCHANGES, HELPERS
from tests.conformance.ptx_rows import FORMATS, Case, _samples, operand, width

ROUNDS = 3  # of a loop
#: what threads compute, and how many of them together
Operation = tuple[Case, int]
#: build -> (checks, quick, compiled for the values of its integer parameters)
BUILDS = {
    "full": ("full", True, False),  # as in grading
    "memory": ("memory", False, False),
    "fixed": ("memory", False, True),
    "full, optimised": ("full", False, False),
    "memory, quick": ("memory", True, False),
    "count": ("count", False, False),
    "draft": ("draft", False, False),
}
_NAME = re.compile(r"(?<![\w.])[abc](?!\w)")
_LITERALS = {
    "f32": "__uint_as_float(0x{:x}u)",
    "f64": "__longlong_as_double(0x{:x}ll)",
    "f16": "__ushort_as_half((unsigned short)0x{:x})",
    "bf16": "__ushort_as_bfloat16((unsigned short)0x{:x})",
}


@dataclass(eq=False)
class Node:
    """A value that each thread computes: C++ of the operands a, b, c, and the expected bit patterns.

    values: of every thread of the block, for each round of a loop. slot: where an input is read.
    """

    type_: str
    text: str
    values: list[int]
    operands: tuple[Node, ...] = ()
    slot: int | None = None

    @property
    def expression(self) -> str:
        """The full expression, for messages."""
        if self.slot is not None:
            return f"in{self.slot}"
        names = dict(zip("abc", self.operands, strict=False))
        return _NAME.sub(
            lambda m: f"({names[m[0]].expression})" if names[m[0]].operands else names[m[0]].expression,
            self.text,
        )

    def all(self) -> list[Node]:
        """All nodes of the expression, operands first, each once."""
        found: dict[int, Node] = {}

        def visit(node: Node) -> None:
            if id(node) not in found:
                for each in node.operands:
                    visit(each)
                found[id(node)] = node

        visit(self)
        return list(found.values())


@dataclass
class Kernel:
    """Expressions that one kernel computes. loop: 0, or how often; barrier: in each round of it."""

    roots: list[Node]
    loop: int = 0
    barrier: bool = False
    inputs: list[list[int]] = field(default_factory=list)  # slot -> patterns


# -- drawing -------------------------------------------------------------------------------------------------


def _pattern(result, type_: str) -> int:
    """A model's result as bits; the canonical NaN for any NaN."""
    if isinstance(result, tuple):
        return _pattern(result[0], type_[:-2]) | _pattern(result[1], type_[:-2]) << 16
    if result is NAN:
        f = FORMATS[type_]
        return f.infinity | (1 << f.fraction) - 1
    return int(result) & (1 << width(type_)) - 1


def _apply(case: Case, group: int, operands: list[Node]) -> list[int]:
    columns = [[operand(v, t) for v in node.values] for node, t in zip(operands, case.operands, strict=True)]
    if group == 1:
        return [_pattern(case.expected(*row), case.result) for row in zip(*columns, strict=True)]
    results = []
    for start in range(0, len(columns[0]), group):
        results += case.expected(*(column[start : start + group] for column in columns))
    return [_pattern(r, case.result) for r in results]


@cache
def _operations(exchanges: bool) -> dict[str, list[list[Operation]]]:
    """Type -> the operations that give it, those together that differ by a rounding, a number or a type only."""
    found: dict[str, dict] = {t: {} for t in C_TYPES}
    for case, group in EXCHANGES if exchanges else [(case, 1) for case in CASES]:
        alike = re.sub(r"_r[nzud]\b|\d+\b|\((\w+ ?)+\)", "", case.line)
        found[case.result].setdefault(alike, []).append((case, group))
    return {type_: list(groups.values()) for type_, groups in found.items()}


@cache
def _columns(type_: str) -> tuple[list[int], list[int]]:
    return _samples(type_, np.random.default_rng(0))


class Draw:
    """Draws the expressions of one kernel."""

    def __init__(self, rng: Random, loop: int, exchanges: bool):
        self.rng, self.loop, self.exchanges = rng, loop, exchanges
        self.made: dict[str, list[Node]] = {t: [] for t in C_TYPES}
        self.inputs: list[list[int]] = []

    def node(self, type_: str, depth: int) -> Node:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.1:
            if self.made[type_] and rng.random() < 0.3:
                return rng.choice(self.made[type_])
            return self.leaf(type_)
        case, group = rng.choice(rng.choice(_operations(self.exchanges and rng.random() < 0.25)[type_]))
        operands = tuple(self.node(t.removesuffix("i"), depth - rng.choice((1, 1, 2))) for t in case.operands)
        made = Node(type_, case.line, _apply(case, group, list(operands)), operands)
        self.made[type_].append(made)
        return made

    def leaf(self, type_: str) -> Node:
        count = BLOCK * (self.loop or 1)
        edges, others = _columns(
            type_ + "i" if type_ in ("f32", "f64") and self.rng.random() < 0.3 else type_
        )
        if self.rng.random() < 0.2 and not type_.endswith("x2"):
            value = self.rng.choice(edges + others)
            literal = _LITERALS.get(type_, f"({C_TYPES[type_]}){{}}" + "ull" * (width(type_) == 64))
            made = Node(type_, literal.format(value), [value] * count)
        else:
            values = [
                self.rng.choice(edges if self.rng.random() < 0.6 or not others else others)
                for _ in range(count)
            ]
            made = Node(type_, "", values, slot=len(self.inputs))
            self.inputs.append(values)
        self.made[type_].append(made)
        return made


def kernels(seed: int, expressions: int = 10) -> list[Kernel]:
    """A kernel of each sort: without and with exchanges between threads, and with loops, without and with
    barriers."""
    rng, made = Random(seed), []
    for sort in range(4):
        loop = ROUNDS if sort > 1 else 0
        draw = Draw(rng, loop, sort == 1)
        roots = [
            draw.node(rng.choice(list(C_TYPES)), rng.choice((1, 2, 3, 3, 4))) for _ in range(expressions)
        ]
        made.append(Kernel(roots, loop, sort == 3, draw.inputs))
    return made


# -- as CUDA C++ ---------------------------------------------------------------------------------------------

_FOLDED = """
__device__ u64 folded(float x) { return x == x ? __float_as_uint(x) : 0x7fffffff; }
__device__ u64 folded(double x) { return x == x ? (u64)__double_as_longlong(x) : 0x7fffffffffffffffull; }
__device__ u64 folded(__half x) { return __hisnan(x) ? 0x7fff : __half_as_ushort(x); }
__device__ u64 folded(__nv_bfloat16 x) { return __hisnan(x) ? 0x7fff : __bfloat16_as_ushort(x); }
__device__ u64 folded(__half2 x) { return folded(__low2half(x)) | folded(__high2half(x)) << 16; }
__device__ u64 folded(__nv_bfloat162 x) { return folded(__low2bfloat16(x)) | folded(__high2bfloat16(x)) << 16; }
"""
_FOLDED += "".join(
    f"__device__ u64 folded({C_TYPES[t]} x) {{ return ({C_TYPES['u' + t[1:]]})x; }}\n"
    for t in C_TYPES
    if t[1:].isdigit() and t[0] in "su"
)
_FOLDED += "__device__ u64 folded(bool x) { return x; }\n"
_FACTOR = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def source(kernels_: list[Kernel]) -> str:
    return HELPERS + _FOLDED + "\n".join(_kernel(f"k{i}", k) for i, k in enumerate(kernels_))


def _kernel(name: str, kernel: Kernel) -> str:
    """Every root's value folded to 64 bits at out[root][thread]; of a loop, what its rounds give together."""
    nodes: dict[int, Node] = {id(n): n for root in kernel.roots for n in root.all()}
    names = {key: f"v{i}" for i, key in enumerate(nodes)}
    lines = []
    for key, node in nodes.items():
        if node.slot is not None:
            text = f"*(const {C_TYPES[node.type_]}*)&in[{node.slot * BLOCK} * n + i]"
        else:
            operands = dict(zip("abc", (names[id(o)] for o in node.operands), strict=False))
            text = _NAME.sub(lambda m, operands=operands: operands[m[0]], node.text)
        lines.append(f"{C_TYPES[node.type_]} {names[key]} = {text};")
    folds = [f"folded({names[id(root)]})" for root in kernel.roots]
    head = f'extern "C" __global__ void {name}(const u64* in, u64* out, int n) {{\n'
    if not kernel.loop:
        lines += [f"out[{k * BLOCK} + threadIdx.x] = {fold};" for k, fold in enumerate(folds)]
        return head + "    int i = threadIdx.x;\n    " + "\n    ".join(lines) + "\n}"
    lines += [f"r{k} = r{k} * {_FACTOR:#x}ull + {fold};" for k, fold in enumerate(folds)]
    lines.append("sum = __fmaf_rn(sum, 0.5f, (float)(j + threadIdx.x));")
    lines += ["__syncthreads();"] * kernel.barrier
    results = "".join(f"    u64 r{k} = 0;\n" for k in range(len(folds)))
    stores = "".join(f"    out[{k * BLOCK} + threadIdx.x] = r{k};\n" for k in range(len(folds)))
    body = "\n        ".join(lines)
    return (
        f"{head}{results}    float sum = 0;\n    for (int j = 0; j < n; j++) {{\n"
        f"        int i = j * {BLOCK} + threadIdx.x;\n        {body}\n    }}\n"
        f"{stores}    out[{len(folds) * BLOCK} + threadIdx.x] = __float_as_uint(sum);\n}}"
    )


# -- running -------------------------------------------------------------------------------------------------


def _folded(node: Node, pattern: int) -> int:
    """The pattern with the canonical NaN for any."""
    type_ = node.type_
    if type_.endswith("x2"):
        half = Node(type_[:-2], "", [])
        return _folded(half, pattern & 0xFFFF) | _folded(half, pattern >> 16) << 16
    if type_ in FORMATS and FORMATS[type_].is_nan(pattern):
        return _pattern(NAN, type_)
    return pattern


def expected(kernel: Kernel, root: Node) -> list[int]:
    values = [_folded(root, v) for v in root.values]
    if not kernel.loop:
        return values
    results = [0] * BLOCK
    for start in range(0, len(values), BLOCK):
        results = [(r * _FACTOR + v) & _MASK for r, v in zip(results, values[start:], strict=False)]
    return results


@dataclass
class Found:
    """A root with a wrong value, and the first thread that has it."""

    kernel: Kernel
    root: Node
    thread: int
    got: int
    wanted: int

    def __str__(self) -> str:
        leaves = {
            f"in{n.slot}": n.values[self.thread :: BLOCK] for n in self.root.all() if n.slot is not None
        }
        inputs = ", ".join(f"{name}={'/'.join(map(hex, values))}" for name, values in leaves.items())
        where = f"thread {self.thread}" + ", in a loop" * bool(self.kernel.loop)
        return f"{self.root.expression} ({inputs}; {where}): {self.got:#x} instead of {self.wanted:#x}"


def launch(device: VirtualGPU, function, kernel: Kernel) -> np.ndarray:
    """What each root gives in each thread, and behind them, in a loop, a sum that each thread carries."""
    flat = np.array([v for values in kernel.inputs for v in values] or [0], np.uint64)
    out = device.array(np.zeros((len(kernel.roots) + 1, BLOCK), np.uint64))
    function(1, BLOCK, (device.array(flat), out, np.int32(kernel.loop or 1)))
    return out.get()


def run(device: VirtualGPU, kernels_: list[Kernel], fixed: bool) -> tuple[list[Found], int]:
    """(what is wrong, in how many kernels threads ran together)."""
    module = device.compile(source(kernels_))
    found, together = [], 0
    for i, kernel in enumerate(kernels_):
        function = module.get_function(f"k{i}")
        if fixed and kernel.loop:
            function = function.fixed((None, None, np.int32(kernel.loop)))
        together += function.info.together > 1
        for root, got in zip(kernel.roots, launch(device, function, kernel).tolist(), strict=False):
            wanted = expected(kernel, root)
            if got != wanted:
                thread = next(t for t in range(BLOCK) if got[t] != wanted[t])
                found.append(Found(kernel, root, thread, got[thread], wanted[thread]))
    return found, together


def smallest(device: VirtualGPU, found: Found, fixed: bool) -> Found:
    """The smallest part of the expression with the same error."""
    nodes = [n for n in found.root.all() if n.operands]
    alone = [Kernel([n], found.kernel.loop, found.kernel.barrier, found.kernel.inputs) for n in nodes]
    wrong, _ = run(device, alone, fixed)
    return min(wrong, key=lambda f: len(f.root.all()), default=found)


def disagreements(drawn: list[Kernel], build: str) -> tuple[list[str], int]:
    """(a line for each of the first expressions that are wrong, kernels whose threads ran together)."""
    checks, quick, fixed = BUILDS[build]
    with VirtualGPU(checks, cores=1) as device:
        device.quick = quick
        found, together = run(device, drawn, fixed)
        return [str(smallest(device, each, fixed)) for each in found[:5]], together
