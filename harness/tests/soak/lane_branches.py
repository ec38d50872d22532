"""Random control flow for lanes.py: threads part and meet in branches, loops, early ends, and jumps."""

from __future__ import annotations

from random import Random

import numpy as np

N, SLOTS = 192, 8  # threads, and what each writes
KERNELS = 4  # in a file
BLOCKS = (32, (16, 4), 48, (8, 8))
INTS, FLOATS = ("a", "b", "c", "d"), ("f", "g")
_START = """
    __shared__ int tile[256], given[64];
    int me = threadIdx.y * blockDim.x + threadIdx.x;
    int t = (blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    for (int i = me; i < 256; i += blockDim.x * blockDim.y) tile[i] = x[i] * 3;
    __syncthreads();
    unsigned a = x[t], b = threadIdx.x, c = n, d = threadIdx.y;
    float f = y[t], g = 1;
"""
_END = "    out[t] = a; out[N + t] = b; out[2 * N + t] = c; out[3 * N + t] = d; out[4 * N + t] = __float_as_int(f + g);\n"


def source(seed: int) -> str:
    """kernels k0, k1, ... of (const int* x, const float* y, int* out, int n)."""
    random = Random(seed)
    texts = [
        f'extern "C" __global__ void k{k}(const int* __restrict__ x, const float* __restrict__ y, int* out, int n) {{'
        f"{_START}{_Program(random).text()}end:\n{_END}}}\n"
        for k in range(KERNELS)
    ]
    return f"constexpr int N = {N};\n" + "\n".join(texts)


def launch(device, function, block) -> np.ndarray:
    random = np.random.default_rng(1)
    x = device.array(random.integers(0, 64, 1024).astype(np.int32), name="x", readonly=True)
    y = device.array(random.integers(-64, 64, 1024).astype(np.float32) / 16, name="y", readonly=True)
    out = device.array(np.zeros(SLOTS * N, np.int32), name="out")
    threads = block if isinstance(block, int) else block[0] * block[1]
    function(N // threads, block, (x, y, out, np.int32(5)))
    return out.get()


class _Program:
    def __init__(self, random: Random):
        self.random, self.loops = random, 0

    def text(self) -> str:
        lines = []
        self.leaves, self.adds = self.random.random() < 0.5, self.random.random() < 0.1
        for _ in range(self.random.randint(2, 5)):
            lines += self._statement(1, 0)
            if not self.leaves and self.random.random() < 0.5:
                lines += self._exchange()
        return "\n".join(lines) + "\n"

    def _exchange(self) -> list[str]:
        """Threads give each other a number, several times; all of them must be there."""
        self.loops += 1
        i = f"i{self.loops}"
        return [
            f"for (unsigned {i} = 0; {i} < {self._pick('n', '2', '(n & 3)')}; {i}++) {{",
            f"    given[me] = {self._pick(*INTS)};",
            "    __syncthreads();",
            f"    {self._pick(*INTS)} ^= given[{self._pick('me ^ 1', 'blockDim.x * blockDim.y - 1 - me', i, 'me & 12')}];",
            "    __syncthreads();",
            *self._block(1, 0),
            "}",
        ]

    def _pick(self, *choices):
        return self.random.choice(choices)

    def _int(self, deep: int = 0) -> str:
        if deep > 1 or self.random.random() < 0.4:
            return self._pick(*INTS, *INTS, "n", "threadIdx.x", f"{self.random.randint(0, 9)}u")
        a, b = self._int(deep + 1), self._int(deep + 1)
        return self._pick(
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b})",
            f"({a} ^ {b})",
            f"({a} >> ({b} & 7))",
            f"min({a}, {b})",
            f"({self._condition()} ? {a} : {b})",
            f"x[{a} & 127]",
            f"tile[{a} & 127]",
            f"x[t + ({b} & 3)]",
            f"tile[threadIdx.x + {self.random.randint(0, 9)}]",
            f"((const unsigned char*)x)[{a} & 511]",
            f"((const short*)x)[2 * t + ({b} & 3)]",
            f"(unsigned)((const long long*)x)[{a} & 127]",
            f"((const int2*)x)[{self._pick('t', f'{b} & 127')}].y",
            f"x[{self._pick('1023 - t', '3 * t + 1', 't / 5 * 9 + t % 5', 't % 8 * n', 't / 16 * 20 + t % 16 + 2')}]",
            f"__popc({a})",
            f"({a} / ({b} | 1))",
        )

    def _condition(self) -> str:
        a, b = self._pick(*INTS), self._pick(*INTS, "n", "threadIdx.x")
        return self._pick(
            f"{a} < {b}",
            f"({a} & {self._pick(1, 2, 3, 7)}) == {self.random.randint(0, 2)}",
            f"{self._pick(*FLOATS)} > {self._pick(*FLOATS, '0.5f')}",
            f"(n & {self._pick(1, 2, 4)})",
            f"threadIdx.x < {self._pick(5, 8, 16, 20)}",
        )

    def _bound(self) -> str:
        return self._pick(
            "n", "2", "3", f"({self._pick(*INTS)} & 3)", f"({self._pick(*INTS)} & 7)", "(n & 3)"
        )

    def _statement(self, deep: int, inner: int) -> list[str]:
        """inner: how many loops are around."""
        kinds = ["assign", "assign", "float", "store"] + ["if", "if", "for", "while"] * (deep < 5)
        kinds += ["break", "continue"] * bool(inner) + ["leave"] * (
            self.leaves and deep > 1 and self.random.random() < 0.4
        )
        return getattr(self, f"_{self._pick(*kinds)}")(deep, inner)

    def _block(self, deep: int, inner: int) -> list[str]:
        lines = []
        for _ in range(self.random.randint(1, 4)):
            lines += self._statement(deep + 1, inner)
        return ["    " * deep + line for line in lines]

    def _assign(self, *_) -> list[str]:
        return [f"{self._pick(*INTS)} {self._pick('=', '+=', '^=')} {self._int()};"]

    def _float(self, *_) -> list[str]:
        given = self._pick(
            "y[t]", f"y[{self._pick(*INTS)} & 127]", "f", "g", f"(float)({self._pick(*INTS)} & 31)"
        )
        return [f"{self._pick(*FLOATS)} = fmaf({self._pick(*FLOATS)}, 0.5f, {given});"]

    def _store(self, *_) -> list[str]:
        if self.adds and self.random.random() < 0.3:  # the order does not matter
            return [f"atomicAdd(&out[{SLOTS - 1} * N + ({self._pick(*INTS)} & 31)], {self._pick(*INTS)});"]
        return [f"out[{self.random.randint(5, SLOTS - 2)} * N + t] = {self._pick(*INTS)};"]

    def _if(self, deep: int, inner: int) -> list[str]:
        lines = [f"if ({self._condition()}) {{", *self._block(deep, inner), "}"]
        if self.random.random() < 0.5:
            lines[-1:] = ["} else {", *self._block(deep, inner), "}"]
        return lines

    def _for(self, deep: int, inner: int) -> list[str]:
        if inner > 2:
            return self._assign()
        self.loops += 1
        i = f"i{self.loops}"
        body = self._block(deep, inner + 1)
        used = self._pick(
            f"a += tile[threadIdx.x + {i}];", f"c ^= x[t + {i}];", f"b += {i};", f"g += y[t + {i}];", ""
        )
        return [f"for (unsigned {i} = 0; {i} < {self._bound()}; {i}++) {{", f"    {used}", *body, "}"]

    def _while(self, deep: int, inner: int) -> list[str]:
        if inner > 2:
            return self._assign()
        self.loops += 1
        i = f"i{self.loops}"
        return [
            f"{{ unsigned {i} = {self._bound()};",
            f"while ({i}-- > 0 && {self._condition()}) {{",
            *self._block(deep, inner + 1),
            "}}",
        ]

    def _break(self, *_) -> list[str]:
        return [f"if ({self._condition()}) break;"]

    def _continue(self, *_) -> list[str]:
        return [f"if ({self._condition()}) continue;"]

    def _leave(self, *_) -> list[str]:
        return [f"if ({self._condition()}) {self._pick('return', 'goto end', 'goto end')};"]
