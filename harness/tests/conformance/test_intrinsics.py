"""CUDA's intrinsics for integers, rounding, conversion and halves, from source to result in both flavours.

Cases are those of `ptx_rows`, with an expression of a, b, c in place of the line of PTX.
"""

from __future__ import annotations

from functools import partial

import pytest

from backwarp.devices.virtual.device import VirtualGPU
from tests.conformance import exact
from tests.conformance.exact import BF16, F16, F32, F64
from tests.conformance.ptx_rows import Case, launch, mismatches, size, values
from tests.conformance.test_conversions import from_float, to_float
from tests.conformance.test_floats import rounded
from tests.conformance.test_integers import dp2a, dp4a, funnel, nth_set, permute, product24

C_TYPES = {
    "s16": "short",
    "s32": "int",
    "s64": "long long",
    "u32": "unsigned",
    "u64": "unsigned long long",
    "f16": "__half",
    "f32": "float",
    "f64": "double",
    "bf16": "__nv_bfloat16",
    "f16x2": "__half2",
    "bf16x2": "__nv_bfloat162",
}

INTEGERS = [
    Case("__brev(a)", "u32 -> u32", lambda a: int(f"{a:032b}"[::-1], 2)),
    Case("__brevll(a)", "u64 -> u64", lambda a: int(f"{a:064b}"[::-1], 2)),
    Case("__clz(a)", "u32 -> s32", lambda a: 32 - a.bit_length()),
    Case("__clzll(a)", "u64 -> s32", lambda a: 64 - a.bit_length()),
    Case("__ffs(a)", "u32 -> s32", lambda a: (a & -a).bit_length()),
    Case("__ffsll(a)", "u64 -> s32", lambda a: (a & -a).bit_length()),
    Case("__popc(a)", "u32 -> s32", lambda a: a.bit_count()),
    Case("__popcll(a)", "u64 -> s32", lambda a: a.bit_count()),
    Case("__fns(a, b & 31, c)", "u32 u32 s32 -> u32", lambda a, b, c: nth_set(a, b & 31, c)),
    Case("__byte_perm(a, b, c)", "u32 u32 u32 -> u32", lambda a, b, c: permute(a, b, c & 0x7777)),
    Case("__funnelshift_l(a, b, c)", "u32 u32 u32 -> u32", lambda a, b, c: funnel(True, True, a, b, c)),
    Case("__funnelshift_lc(a, b, c)", "u32 u32 u32 -> u32", lambda a, b, c: funnel(True, False, a, b, c)),
    Case("__funnelshift_r(a, b, c)", "u32 u32 u32 -> u32", lambda a, b, c: funnel(False, True, a, b, c)),
    Case("__funnelshift_rc(a, b, c)", "u32 u32 u32 -> u32", lambda a, b, c: funnel(False, False, a, b, c)),
    Case("__hadd(a, b)", "s32 s32 -> s32", lambda a, b: a + b >> 1),
    Case("__rhadd(a, b)", "s32 s32 -> s32", lambda a, b: a + b + 1 >> 1),
    Case("__uhadd(a, b)", "u32 u32 -> u32", lambda a, b: a + b >> 1),
    Case("__mulhi(a, b)", "s32 s32 -> s32", lambda a, b: a * b >> 32),
    Case("__umul64hi(a, b)", "u64 u64 -> u64", lambda a, b: a * b >> 64),
    Case("__mul64hi(a, b)", "s64 s64 -> s64", lambda a, b: a * b >> 64),
    Case("__mul24(a, b)", "s32 s32 -> s32", lambda a, b: product24("s32", a, b)),
    Case("__umul24(a, b)", "u32 u32 -> u32", lambda a, b: product24("u32", a, b)),
    Case("__sad(a, b, c)", "s32 s32 u32 -> u32", lambda a, b, c: abs(a - b) + c),
    Case("__dp4a(a, b, c)", "s32 s32 s32 -> s32", lambda a, b, c: dp4a("s32", "s32", a, b, c)),
    Case("__dp4a(a, b, c)", "u32 u32 u32 -> u32", lambda a, b, c: dp4a("u32", "u32", a, b, c)),
    Case("__dp2a_lo(a, b, c)", "s32 s32 s32 -> s32", lambda a, b, c: dp2a("s32", "s32", 0, a, b, c)),
    Case("__dp2a_hi(a, b, c)", "u32 u32 u32 -> u32", lambda a, b, c: dp2a("u32", "u32", 2, a, b, c)),
    Case("abs(a)", "s32 -> s32", abs),
    Case("min(a, b)", "s64 s64 -> s64", min),
    Case("max(a, b)", "u32 u32 -> u32", max),
    Case("a * b", "s16 s16 -> s32", lambda a, b: a * b),
    Case(
        "(a << (b & 31)) | (a >> (-b & 31))", "u32 s32 -> u32", lambda a, b: funnel(True, True, a, a, b & 31)
    ),
    Case(
        "a < b ? a / (b | 1) : a % (b | 1)",
        "u64 u64 -> u64",
        lambda a, b: a // (b | 1) if a < b else a % (b | 1),
    ),
    Case("(a >> 3) + (b << 2)", "s64 s64 -> s64", lambda a, b: (a >> 3) + (b << 2)),
]

# -- directed rounding, conversions ------------------------------------------------------------------

MODES = {"rn": "rn", "rz": "rz", "ru": "rp", "rd": "rm"}  # CUDA's names and PTX's
ROUNDED, CONVERSIONS = [], []
for suffix, mode in MODES.items():
    for t, prefix, fma in (("f32", "__f", "__fmaf"), ("f64", "__d", "__fma")):
        for op in ("add", "sub", "mul", "div", "sqrt", "rcp"):
            arguments, types = ("a, b", f"{t} {t}") if op in ("add", "sub", "mul", "div") else ("a", t)
            expected = partial(rounded, op, t, f".{mode}", "", "")
            ROUNDED.append(Case(f"{prefix}{op}_{suffix}({arguments})", f"{types} -> {t}", expected))
        expected = partial(rounded, "fma", t, f".{mode}", "", "")
        ROUNDED.append(Case(f"{fma}_{suffix}(a, b, c)", f"{t} {t} {t} -> {t}", expected))
    for integer, t in (("int", "s32"), ("uint", "u32"), ("ll", "s64"), ("ull", "u64")):
        for f, name in (("f32", "float"), ("f64", "double"), ("f16", "half")):
            values_of = f + "i" * (f != "f16")
            expected = partial(from_float, t, f, f"{mode}i", "", "")
            CONVERSIONS.append(Case(f"__{name}2{integer}_{suffix}(a)", f"{values_of} -> {t}", expected))
        for f, name in (("f32", "float"), ("f64", "double"), ("f16", "half"), ("bf16", "bfloat16")):
            if f != "f64" or t[1:] == "64":  # all of 32 bits fit into a double
                expected = partial(to_float, f, t, mode, "", "")
                CONVERSIONS.append(Case(f"__{integer}2{name}_{suffix}(a)", f"{t} -> {f}", expected))
    for f, name in ((F16, "half"), (BF16, "bfloat16")):
        to = {F16: "f16", BF16: "bf16"}[f]
        expected = partial(exact.convert, F32, f, mode=mode)
        CONVERSIONS.append(Case(f"__float2{name}_{suffix}(a)", f"f32i -> {to}", expected))
    expected = partial(exact.convert, F64, F32, mode=mode)
    CONVERSIONS.append(Case(f"__double2float_{suffix}(a)", "f64i -> f32", expected))
CONVERSIONS += [
    Case("__half2float(a)", "f16 -> f32", lambda a: exact.convert(F16, F32, a)),
    Case("__bfloat162float(a)", "bf16 -> f32", lambda a: exact.convert(BF16, F32, a)),
    Case("__saturatef(a)", "f32 -> f32", F32.saturate),
    Case("__float_as_int(a)", "f32 -> s32", lambda a: a),
    Case("__hiloint2double(a, b)", "s32 s32 -> f64", lambda a, b: (a & 0xFFFFFFFF) << 32 | b & 0xFFFFFFFF),
]

# -- halves ------------------------------------------------------------------------------------------


def lanes(function):
    """A function of patterns, in both halves of words."""
    return lambda *words: tuple(function(*((w >> shift) & 0xFFFF for w in words)) for shift in (0, 16))


HALVES = []
for t, f in (("f16", F16), ("bf16", BF16)):
    for name, function in (("add", exact.add), ("sub", exact.sub), ("mul", exact.mul)):
        g = partial(function, f)
        HALVES += [
            Case(f"__h{name}(a, b)", f"{t} {t} -> {t}", g),
            Case(f"__h{name}2(a, b)", f"{t}x2 {t}x2 -> {t}x2", lanes(g)),
        ]
    fused = partial(exact.fma, f)
    HALVES += [
        Case("__hfma(a, b, c)", f"{t} {t} {t} -> {t}", fused),
        Case("__hfma2(a, b, c)", f"{t}x2 {t}x2 {t}x2 -> {t}x2", lanes(fused)),
        Case("__hmin(a, b)", f"{t} {t} -> {t}", partial(exact.minimum, f)),
        Case("__hmax2(a, b)", f"{t}x2 {t}x2 -> {t}x2", lanes(partial(exact.minimum, f, sign=-1))),
    ]

GROUPS = {"integers": INTEGERS, "rounded": ROUNDED, "conversions": CONVERSIONS, "halves": HALVES}


def source(cases) -> str:
    kernels = []
    for i, case in enumerate(cases):
        names = [C_TYPES[t.removesuffix("i")] for t in case.operands]
        parameters = "".join(f"const {t}* p{k}, " for k, t in enumerate(names))
        loads = " ".join(f"{t} {n} = p{k}[i];" for k, (t, n) in enumerate(zip(names, "abc", strict=False)))
        count = len(values(case.operands))
        kernels.append(
            f'extern "C" __global__ void k{i}({parameters}{C_TYPES[case.result]}* out) {{\n'
            f"    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= {count}) return;\n"
            f"    {loads}\n    out[i] = {case.line};\n}}"
        )
    return "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n" + "\n".join(kernels)


#: all of them become opcodes each of which test_table covers, and optimised ones the same: by day a third of them
@pytest.mark.parametrize(
    ("checks", "every"),
    [("full", 3), *(pytest.param(checks, 1, marks=pytest.mark.soak) for checks in ("full", "memory"))],
)
@pytest.mark.parametrize("group", GROUPS)
def test_intrinsics(group, checks, every):
    cases, wrong = GROUPS[group][::every], []
    with VirtualGPU(checks) as device:
        device.quick = True  # optimised: test_values
        module = device.compile(source(cases))
        for i, case in enumerate(cases):
            inputs = values(case.operands)
            out = device.empty(len(inputs), f"u{size(case.result)}")
            launch(device, module.get_function(f"k{i}"), case.operands, inputs, out)
            wrong += mismatches(case, inputs, out.get().tolist())
    assert not wrong, "\n" + "\n".join(wrong)
