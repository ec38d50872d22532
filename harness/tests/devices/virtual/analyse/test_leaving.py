"""Threads missing at a barrier: one that returned before it is a note, one that bypassed it a fault."""

from __future__ import annotations

import random

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.analyse.leaving_programs import THREADS, N, expected, some_program, source
from tests.devices.virtual.launches import K, device, line_of

HELPERS = """
__device__ void leave() { asm volatile("exit;"); }
__device__ void wait() { __syncthreads(); }
__device__ void early(float* b, int n) {
  if (threadIdx.x >= n) return;
  __syncthreads();
  b[threadIdx.x] = 1;
}
__device__ float early_with_a_result(float* b, int n) {
  if (threadIdx.x >= n) return 3;
  __syncthreads();
  return b[threadIdx.x] = 1;
}
__device__ void outer(float* b, int n) { early(b, n); }
__device__ void around(float* b, int n) {
  if (threadIdx.x < n) {
    __syncthreads();
    b[threadIdx.x] = 1;
  }
}
__device__ void either(float* b) {
  if (b[50] > 100) __syncthreads();
  if (b[50] < 100) {
    b[threadIdx.x] = 1;
    return;
  }
  b[threadIdx.x] = 2;
}
struct Guard { float* b; __device__ Guard(float* p) : b(p) {} __device__ ~Guard() { b[40] = 1; } };
"""
RETURNED = {
    "at the top": "if (i >= n) return; __syncthreads(); b[i] = 1;",
    "in a nested if": """
      if (i > 3) {
        b[i] = 2;
        if (i >= n) {
          b[i] = 3;
          return;
        }
      }
      __syncthreads();
      b[i] = 1;""",
    "in the else": """
      if (i < n) {
        __syncthreads();
        b[i] = 1;
      } else {
        b[i] = 2;
        return;
      }
      b[i] += 1;""",
    "in a tree": """
      for (int s = n; s > 0; s /= 2) {
        if (i >= s) return;
        b[i] += 1;
        __syncthreads();
      }""",
    "behind the barrier, an iteration earlier": """
      for (int s = n; s > 0; s /= 2) {
        __syncthreads();
        b[i] += 1;
        if (i >= s) return;
      }""",
    "in a loop that only returns end": """
      for (int s = n;; s /= 2) {
        __syncthreads();
        if (i >= s) {
          b[i] = 4;
          return;
        }
      }""",
    "in an iteration without the barrier": """
      for (int k = 0; k < 4; k++) {
        if (k > 0) __syncthreads();
        b[i] += 1;
        if (i >= n / (k + 1)) return;
      }""",
    "between two barriers": """
      __syncthreads();
      b[i] = 1;
      if (i >= n) return;
      __syncthreads();
      b[i] = 2;""",
    "in nested loops": """
      for (int k = 0; k < 3; k++)
        for (int j = 0; j < 2; j++) {
          if (k == 1 && j == 1 && i >= n) return;
          __syncthreads();
          b[i] += 1;
        }""",
    "in nested loops, behind": """
      for (int k = 0; k < 3; k++)
        for (int j = 0; j < 2; j++) {
          __syncthreads();
          b[i] += 1;
          if (k == 1 && j == 1 && i >= n) return;
        }""",
    "after loops of different length": """
      for (int k = 0; k < 3; k++) {
        for (int j = 0; j < i; j++) {
          b[i] += 1;
          if (k > 8) __syncthreads();
          if (j == 100) return;
        }
        if (k == 1 && i >= n) return;
        __syncthreads();
      }""",
    "of a switch": """
      switch (i % 3) {
        case 0: b[i] = 1; break;
        case 1: return;
        default: b[i] = 2;
      }
      __syncthreads();
      b[i] = 3;""",
    "by exit": """
      if (i >= n) asm volatile("exit;");
      __syncthreads();
      b[i] = 3;""",
    "by exit in a function": """
      if (i >= n) leave();
      __syncthreads();
      b[i] = 3;""",
    "past a destructor": """
      Guard g(b);
      if (i >= n) return;
      __syncthreads();
      b[i] = 1;""",
    "of the kernel's implementation": "early(b, n);",
    "of an implementation with a result": "early_with_a_result(b, n);",
    "of the implementation's implementation": "outer(b, n);",
    "before the implementation": """
      if (i >= n) return;
      early(b, 40);""",
    "of another implementation": """
      if (i < 5) early(b, 3);
      else either(b);""",
    "of a lambda": """
      auto f = [&]() {
        if (i >= n) return;
        __syncthreads();
        b[i] = 1;
      };
      f();""",
    "before a barrier in a function": """
      for (int k = 0; k < 3; k++) {
        if (k == 2 && i >= n) return;
        wait();
        b[i] += 1;
      }""",
    "behind a barrier in a function": """
      for (int k = 0; k < 3; k++) {
        wait();
        b[i] += 1;
        if (k == 1 && i >= n) return;
      }""",
    "before a barrier that counts": """
      if (i >= n) return;
      b[i] = __syncthreads_count(i > 3);""",
}
WENT_ROUND = {
    "to the end": "if (i < n) { __syncthreads(); b[i] = 1; }",
    "another way to the end": """
      if (i < n) {
        __syncthreads();
        b[i] = 1;
      } else if (b[n - 1] > 1) b[0] = 2;""",
    "to what both do": """
      if (i < n) {
        __syncthreads();
      } else {
        b[i] = 2;
      }
      b[i] += 1;""",
    "to a return behind": """
      if (i < n) {
        __syncthreads();
        b[i] = 1;
      }
      if (i > 3) return;
      b[i] += 1;""",
    "to a return behind a loop": """
      for (int j = 0; j < 2; j++) {
        if (i < n) __syncthreads();
      }
      if (i >= n) return;
      b[i] = 1;""",
    "to a return that ends the kernel": """
      if (i < n) {
        __syncthreads();
        return;
      }
      b[i] = 2;
      return;""",
    "in a tree": """
      for (int s = n; s > 0; s /= 2) {
        if (i < s) {
          b[i] += 1;
          __syncthreads();
        }
      }""",
    "by break": """
      for (int s = n; s > 0; s /= 2) {
        if (i >= s) break;
        b[i] += 1;
        __syncthreads();
      }""",
    "by break behind": """
      for (int s = n; s > 0; s /= 2) {
        __syncthreads();
        b[i] += 1;
        if (i >= s) break;
      }
      b[i] = 5;""",
    "by continue": """
      for (int s = n; s > 0; s /= 2) {
        if (i >= s) continue;
        b[i] += 1;
        __syncthreads();
      }""",
    "by goto": """
      if (i >= n) goto end;
      __syncthreads();
      b[i] = 3;
    end:
      b[i] += 1;""",
    "then a return in the next iteration": """
      for (int k = 0; k < 4; k++) {
        if (k > 2 && i >= n) return;
        if (i < n) __syncthreads();
      }""",
    "in a loop of fewer iterations": """
      for (int j = i; j < 42; j += blockDim.x) {
        __syncthreads();
        b[i] += 1;
      }""",
    "in a while": """
      int j = i;
      while (j < 42) {
        __syncthreads();
        j += 32;
      }
      b[i] = 1;""",
    "in a do while": """
      int j = i;
      do {
        __syncthreads();
        j += 32;
      } while (j < 42);
      b[i] = 1;""",
    "in an inner loop": """
      for (int k = 0; k < 3; k++) {
        if (k == 1 && i >= n) return;
        for (int j = i < n ? 0 : 2; j < 2; j++) __syncthreads();
      }""",
    "by a case": """
      switch (i < n) {
        case 0: b[i] = 1; break;
        case 1: __syncthreads(); break;
        default: b[i] = 2;
      }
      b[i] = 3;""",
    "in the implementation": "around(b, n);",
    "by a return of a function": """
      early(b, n);
      b[i] = 7;""",
    "by a return of a function whose result is used": "b[i] = early_with_a_result(b, n);",
    "and round the next, which a return spares": """
      if (i < n) __syncthreads();
      b[i] = 1;
      if (i >= n) return;
      __syncthreads();
      b[i] = 2;""",
    "of a function, then a return": """
      for (int k = 0; k < 3; k++) {
        if (i < n) wait();
        b[i] += 1;
        if (k == 2 && i >= n) return;
      }""",
    "behind a condition": "if (i < n && __syncthreads_or(i == 3)) b[i] = 1;",
    "of one that counts": "if (i < n) b[i] = __syncthreads_count(i > 3);",
}
BODIES = {f"returned_{k}": v for k, v in RETURNED.items()} | {f"round_{k}": v for k, v in WENT_ROUND.items()}


def symbol(name: str) -> str:
    return name.replace(" ", "_").replace(",", "").replace("'", "")


SOURCE = HELPERS + "\n".join(
    f"{K}{symbol(name)}(float* b, int n) {{\n  int i = threadIdx.x;\n{body}\n}}"
    for name, body in BODIES.items()
)


@pytest.fixture(scope="module")
def module():
    return device().compile(SOURCE)


@pytest.mark.parametrize("name", BODIES)
def test_who_is_not_at_a_barrier(module, name):
    dev = device()
    try:
        for dev.schedule in (0, 1, 2):
            b = dev.array(np.zeros(64, np.float32))
            found = []
            try:
                notes = module.get_function(symbol(name))(1, 32, (b, np.int32(10))).notes
                found = [note for note in notes if note.kind == "barrier-divergence"]
            except KernelFault as fault:
                assert name.startswith("round") and fault.kind == "barrier-divergence"
                assert "round it" in fault.explanation
                continue
            assert name.startswith("returned") and len(found) >= 1
            assert all(note.severity == "note" and "had returned" in note.explanation for note in found)
    finally:
        dev.schedule = 0


MESSAGES = f"""
{K}note(float* b, int n) {{
  int i = threadIdx.x;
  if (i >= n) return;
  __syncthreads();  // NOTE
}}
{K}both(float* b, int n) {{
  int i = threadIdx.x;
  if (i >= 2 * n) return;
  if (i < n) __syncthreads();  // FAULT
}}
{K}one(float* b, int n) {{
  if (threadIdx.x == 0) __syncthreads();  // ONE
}}
"""


@pytest.mark.parametrize(
    "name, block, mark, severity, explanation",
    [
        (
            "note",
            32,
            "NOTE",
            "note",
            "22 threads had returned before this barrier: since Volta, it does not wait for them.",
        ),
        ("note", (8, 5), "NOTE", "nothing", ""),
        (
            "both",
            32,
            "FAULT",
            "error",
            "10 threads of the block wait at this barrier; 10 others went around it, the"
            " first of them thread (10,0,0). Put it where every thread of the block passes, not in a branch or loop"
            " that some skip.",
        ),
        (
            "both",
            (16, 4),
            "FAULT",
            "error",
            "40 threads of the block wait at this barrier; 24 others went around it, the"
            " first of them thread (10,0,0).",
        ),
        (
            "one",
            2,
            "ONE",
            "error",
            "1 thread of the block waits at this barrier; thread (1,0,0) went around it.",
        ),
    ],
)
def test_what_is_said(name, block, mark, severity, explanation):
    """Threads that have returned are not counted among those that bypassed it."""
    kernel = device().compile(MESSAGES).get_function(name)
    b = device().array(np.zeros(64, np.float32))
    try:
        found = kernel(1, block, (b, np.int32(10))).notes
    except KernelFault as fault:
        found = [fault, *fault.more]
    if severity == "nothing":
        assert not found
        return
    (found,) = found
    assert (found.severity, found.line) == (severity, line_of(MESSAGES, mark))
    assert found.explanation.startswith(explanation)
    assert found.headline.endswith("Divergent thread(s) in block")


# -- random programs ---------------------------------------------------------------------------------------


def check_programs(seed: int, many: int) -> dict[str, int]:
    """Run random programs and compare the findings with the model. Returns how many of each kind there
    were."""
    rng, programs, kinds = (
        random.Random(seed),
        [],
        dict.fromkeys(("returned", "round", "elsewhere", "nothing"), 0),
    )
    while len(programs) < many:
        program = some_program(rng)
        want = expected(program)
        if kinds[want] <= (many // 3 if want in ("returned", "round") else many // 6):
            programs.append((program, want))
            kinds[want] += 1
    module = device().compile("\n".join(source(f"k{x}", program) for x, (program, _) in enumerate(programs)))
    for x, (program, want) in enumerate(programs):
        b = device().array(np.zeros(THREADS, np.float32))
        try:
            notes = module.get_function(f"k{x}")(1, THREADS, (b, np.int32(N))).notes
            found = "returned" if notes else "nothing"
        except KernelFault as fault:
            assert fault.kind == "barrier-divergence"
            found = "round" if any("round it" in f.explanation for f in (fault, *fault.more)) else "elsewhere"
        assert found == want, source(f"k{x}", program)
    return kinds


@pytest.mark.parametrize("many", [18, pytest.param(72, marks=pytest.mark.soak)])
def test_random_programs(many):
    kinds = check_programs(seed=2, many=many)
    assert min(kinds.values()) > many // 12
