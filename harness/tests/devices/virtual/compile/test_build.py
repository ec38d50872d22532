"""Kernels that are large, odd or unsupported: built, or refused with the line, never a crash."""

from __future__ import annotations

import pickle
import random
import time
from pathlib import Path

import numpy as np
import pytest

from backwarp.devices import open_device
from backwarp.devices.confine import supported
from backwarp.devices.nvrtc.compiler import Ptx, compile_ptx, gather
from backwarp.devices.virtual.compile import build
from backwarp.devices.virtual.compile.build import build_ptx
from backwarp.errors import BackwarpError, CompileError, DeviceError, Unsupported
from tests.devices.virtual.launches import FLAVOURS, K, device, line_of, result, run

# --- size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [250, pytest.param(1000, marks=pytest.mark.soak)])
def test_hundreds_of_cases(many):
    cases = "\n".join(f"case {j}: r = r * 3 + {j * j % 97}; out[i] = r; break;" for j in range(many))
    i = np.arange(1024)
    got = result(
        f"int i = threadIdx.x, r = i; switch (i) {{ {cases} default: out[i] = -1; }}",
        1024,
        dtype=np.int32,
        block=1024,
        checks="memory",
    )
    np.testing.assert_array_equal(got, np.where(i < many, i * 3 + i * i % 97, -1))


def test_deep_nesting():
    ifs = "".join(f"if (i > {j}) {{ c++; " for j in range(120)) + "}" * 120
    got = result(f"int i = threadIdx.x, c = 0; {ifs} out[i] = c;", 128, dtype=np.int32, block=128)
    np.testing.assert_array_equal(got, np.minimum(np.arange(128), 120))
    loops = "".join(f"for (int j{j} = 0; j{j} < 2; j{j}++) " for j in range(12))
    assert result(f"int c = 0; {loops} c++; out[threadIdx.x] = c;", 1, dtype=np.int32, block=1).tolist() == [
        4096
    ]


@pytest.mark.parametrize("longest, loops", [(build.LONGEST, False), (100, True)])
def test_loops_unrolled_very_often_stay_loops(longest, loops, monkeypatch):
    """A kernel that takes too long to compile is compiled from less optimised PTX."""
    monkeypatch.setattr(build, "LONGEST", longest)
    dev = device("memory")
    monkeypatch.setattr(
        dev, "build", lambda *file, **_: build.build_here(gather(*file[:5]), None, *file[5:]), raising=False
    )
    module = dev.compile(f"""{K}k(int* a) {{
        #pragma unroll
        for (int s = 1; s < 64; s *= 2)
            #pragma unroll
            for (int i = 0; i < 64; i++)
                if (i & s) a[i] += a[i ^ s];
    }}""")
    a = dev.array(np.ones(64, np.int32))
    module.get_function("k")((1,), (1,), (a,))
    assert ("@%p" in module.compiled.text) == loops
    np.testing.assert_array_equal(a.get(), [1 << i.bit_count() for i in range(64)])


def test_many_registers():
    body = """
    float s[200];
    #pragma unroll
    for (int j = 0; j < 200; j++) s[j] = a[(threadIdx.x + j) % 32];
    float r = 0;
    #pragma unroll
    for (int j = 0; j < 200; j++) r += s[j] * s[199 - j];
    out[threadIdx.x] = r;"""
    a = np.arange(32, dtype=np.float32)
    wide = a[(np.arange(32)[:, None] + np.arange(200)) % 32].astype(np.float64)
    np.testing.assert_allclose(result(body, 32, a, checks="memory"), (wide * wide[:, ::-1]).sum(1), rtol=1e-6)


def test_huge_arrays_cost_only_what_is_touched():
    source = f"""__device__ float far[1u << 25];
    {K}k(float* out) {{ far[1u << 24] = 3; out[0] = far[1u << 24] + far[5]; }}"""
    out = device("memory").array(np.zeros(1, np.float32))
    run(source, out, block=1, checks="memory")
    assert out.get().tolist() == [3]


# --- refusals ------------------------------------------------------------------------------------


def test_a_function_that_is_only_declared():
    source = f"""namespace own {{ __device__ int helper(int n); }}
{K}k(int* out) {{
    out[0] = own::helper(3);
}}"""
    with pytest.raises(CompileError) as caught:
        device("full").compile(source)
    said = caught.value.diagnostics[0]
    assert said.message.startswith("own::helper() is called here, but nothing in this file says what it does")
    assert (said.line, said.source.strip()) == (3, "out[0] = own::helper(3);")


#: what is not supported -> a kernel that asks for it
REFUSED = {
    "the PTX instruction `foo.bar": f"""{K}k(int n) {{
      asm volatile("foo.bar %0;" :: "r"(n));  // HERE
    }}""",
    "the PTX instruction `add.rq.f32": f"""{K}k(float* out) {{
      asm volatile("add.rq.f32 %0, %0, %0;" : "+f"(out[0]));  // HERE
    }}""",
    "Blackwell's tcgen05": f"""{K}k() {{
      asm volatile("tcgen05.fence::before_thread_sync;");  // HERE
    }}""",
    "a barrier or warp collective inside the recursive function": f"""
    __device__ __noinline__ int f(int n, int* p) {{
      __syncthreads();
      p[n] = n;
      return n ? 3 * f(n - 1, p) + p[n] : 0;
    }}
    {K}k(int* out, int n) {{
      out[0] = f(n, out);  // HERE
    }}""",
    "a barrier or warp collective in a function that is called through a pointer": f"""
    __device__ int f(int n) {{ __syncthreads(); return n; }}
    __device__ int g(int n) {{ return 2; }}
    __device__ int (*table[2])(int) = {{f, g}};
    {K}k(int* out, int n) {{
      out[0] = table[n & 1](n);  // HERE
      if (n > 9) table[0] = g;
    }}""",
    "the PTX instruction `bra NOWHERE`, whose target is missing": f"""{K}k() {{
      asm volatile("bra NOWHERE;");  // HERE
    }}""",
    "PTX whose braces do not match": f"""{K}k() {{
      asm volatile("}} }}");  // HERE
    }}""",
    "the PTX statement": f"""{K}k() {{
      asm volatile("@@@ ;;; [[[");  // HERE
    }}""",
    "the PTX instruction `add.s32 %%r8, %%r9, 1`, which cannot write to %%r8": f"""{K}k() {{
      asm volatile("add.s32 %%r8, %%r9, 1;");  // HERE
    }}""",
    "the PTX directive .texref": f"""{K}k() {{
      asm volatile(".texref x;");  // HERE
    }}""",
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_the_line(what):
    source = REFUSED[what]
    for checks in FLAVOURS:
        with pytest.raises(Unsupported) as caught:
            device(checks).compile(source)
        assert what in caught.value.what
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.line == line_of(source, "HERE")
        assert diagnostic.source == source.splitlines()[diagnostic.line - 1]


@pytest.mark.parametrize(
    "asm",
    [
        "ret; } .visible .entry evil() { ret;",
        "{",
        ".global .b8 zz[4]; mov.u64 %%rd1, zz;",
        "call system, (%%rd1);",
        "call vprintf;",
        "mov.b64 {%%r1, %%rd2}, %%r1;",
        "add.s32 %%r1;",
        "ld.global.u32 %%r1;",
        "st.shared.f32 5, 6;",
        "bar.sync;",
        "shfl.sync.idx.b32 %%r1;",
        "setp.lt.s32 %%p1;",
        "atom.global.add.u32 %%r1, [%%rd1];",
        "brx.idx %%r1, nothing;",
        "cvt.u32.f32 %%r1, %%r1;",
        "mov.u64 %%rd1, _ZN4evilE;",
        "L: L:",
        "define void @f() { ret void }",
        "ld.param.u32 %%r1, [k_param_9];",
    ],
)
def test_assembly_that_no_compiler_wrote_is_refused_or_runs(asm):
    """Never a crash, only errors that a student can read."""
    source = f'{K}k(int* out) {{ out[threadIdx.x] = 1; asm volatile("{asm}"); }}'
    for checks in FLAVOURS:
        try:
            device(checks).compile(source)
        except CompileError as error:
            assert error.diagnostics or str(error)


def test_device_side_launch_does_not_compile():
    with pytest.raises(CompileError, match="device-side kernel launch"):
        device().compile(f"{K}child() {{}}\n{K}k() {{ child<<<1, 1>>>(); }}")


def test_too_much_static_shared_memory():
    with pytest.raises(CompileError, match=r"k uses too much shared data \(0xcb20 bytes, 0xc000 max\)"):
        device().compile(
            f"{K}k(float* out) {{ __shared__ float s[13000]; s[threadIdx.x] = 1; out[0] = s[5]; }}"
        )


@pytest.mark.parametrize("many", [12, pytest.param(50, marks=pytest.mark.soak)])
def test_damaged_ptx_is_built_or_refused(many):
    source = f"""
    __device__ __noinline__ int f(int v, int* p) {{
      int t[3] = {{v, 1, 2}};
      return p[0] < -5 ? t[v % 3] : f(v + 1, t) + 1;
    }}
    {K}k(float* out, int n) {{
      __shared__ float s[32];
      s[threadIdx.x] = out[threadIdx.x];
      __syncthreads();
      float v = __shfl_down_sync(~0u, s[31 - threadIdx.x], 2);
      switch (n) {{ case 0: v += 1; break; case 1: v *= 2; break; case 2: v -= 3; break; case 3: v /= 3; }}
      if (v > 3) printf("%f %d\\n", v, f(n, &n));
      out[threadIdx.x] = v;
    }}"""
    rng, outcomes = random.Random(3), {"built": 0, "refused": 0}
    texts = [
        compile_ptx(source, "kernel.cu", f).text.split("\n\t.section")[0].split("\n")
        for f in ("debug", "fast")
    ]
    for _ in range(many):
        lines = list(rng.choice(texts))
        i, j = rng.randrange(8, len(lines)), rng.randrange(8, len(lines))
        lines[i] = rng.choice(
            [lines[j], "", lines[i][: len(lines[i]) // 2], lines[i].replace("32", "64"), "}", "\tret;"]
        )
        try:
            build_ptx(Ptx("\n".join(lines)), "kernel.cu", "full", 1 << 34)
            outcomes["built"] += 1
        except BackwarpError:
            outcomes["refused"] += 1
    assert outcomes["built"] and outcomes["refused"]


# -- what the compilers' process may do ------------------------------------------------------------------

ASKS = """
#define GLUED(a, b) a##b
__global__ void f(int* found) {{
#if GLUED(__has_, include)("{path}")
    *found = 1;
#else
    *found = 0;
#endif
}}
"""


@pytest.mark.skipif(not supported().files, reason="this system has no Landlock")
def test_a_kernel_cannot_ask_which_files_there_are(tmp_path):
    (tmp_path / "secret.h").write_text("")
    with open_device("cpu", checks="memory") as device:
        found = device.array(np.full(1, 7, np.int32))
        device.compile(ASKS.format(path=tmp_path / "secret.h")).get_function("f")(1, 1, (found,))
        assert found.get() == [0]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")
def test_the_compilers_are_confined():
    with open_device("cpu", checks="memory") as device:
        device.compile(f"__global__ void f() {{}} // {time.time_ns()}")
    status = Path(f"/proc/{build._idle[-1].pid}/status").read_text()
    assert ("Seccomp:\t2" in status) == supported().calls


@pytest.mark.parametrize(("load", "times"), [(0.0, 1), (1.0, 1), (2.5, 2.5), (100.0, build.BUSY)])
def test_a_build_has_more_time_where_a_second_is_worth_less(load, times, monkeypatch):
    """load: of each core. What never ends, as templates that instantiate themselves, is stopped on any machine."""
    monkeypatch.setattr(build.os, "getloadavg", lambda: (load * build.os.cpu_count(), 0.0, 0.0))
    assert build.seconds_of_a_build() == build.SECONDS * build.patience() * times


def test_a_defect_of_the_compiler_is_said_to_be_one():
    job = gather("__global__ void f() {}")
    with pytest.raises(
        DeviceError,
        match=r"has a defect that this file shows .KeyError in compile/build.py, line \d+: 'no such build'",
    ):
        build._in_child((job, None, "no such build", 1 << 30))
    assert build._in_child((job, None, "memory", 1 << 30)).code  # the process goes on


@pytest.mark.parametrize("confined", [False, True])
def test_files_are_compiled_ahead_and_what_is_wrong_is_said_by_compile(confined, tmp_path, monkeypatch):
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path))
    sources = [f"{K}k{n}(int* a) {{ a[0] = {n}; }}" for n in range(3)]
    with open_device("cpu", "memory", confined=confined) as dev:
        dev.quick = True
        dev.compile_ahead((source, "kernel.cu", (), (), ()) for source in [*sources, "no kernel"])
        monkeypatch.setattr(build, "_in_child", lambda request: pytest.fail("compiled once more"))
        for n, source in enumerate(sources):
            a = dev.empty(1, np.int32)
            dev.compile(source).get_function(f"k{n}")(1, 1, (a,))
            assert a.get() == n
        monkeypatch.undo()
        with pytest.raises(CompileError):
            dev.compile("no kernel")


def test_what_the_cache_holds_is_not_run(tmp_path, monkeypatch):
    """A pickle in place of an entry: it would call a function when it is read."""
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path))
    mark = tmp_path / "mark"

    class Trap:
        def __reduce__(self):
            return Path.touch, (mark,)

    store = build.Store("modules")
    key = build.digest("a key")
    store.put(key, pickle.dumps(Trap()))
    monkeypatch.setattr(build, "digest", lambda *parts: key)
    with open_device("cpu", checks="memory") as device:
        assert device.compile("__global__ void f() {}").functions == ("f",)
    assert not mark.exists()
