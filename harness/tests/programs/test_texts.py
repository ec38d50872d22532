"""What becomes of a program's text before and after it is compiled: no compiler is needed."""

from __future__ import annotations

import pytest

from backwarp.programs import compiler, errors, memory
from backwarp.programs.lines import Lines, Place
from backwarp.programs.run import expression

IR = """
source_filename = "prog.cu"
target triple = "x86_64-unknown-linux-gnu"
declare void @stop()
define void @main() !dbg !4 {
  call void @stop(), !dbg !7
  call void @stop(), !dbg !8
  ret void, !dbg !9
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "prog.cu", directory: "/x")
!2 = !{i32 2, !"Dwarf Version", i32 4}
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = distinct !DISubprogram(name: "main", file: !1, line: 10, type: !5, unit: !0, spFlags: DISPFlagDefinition)
!5 = !DISubroutineType(types: !6)
!6 = !{}
!7 = !DILocation(line: 12, column: 5, scope: !4)
!8 = !DILocation(line: 700, column: 9, scope: !11, inlinedAt: !10)
!9 = !DILocation(line: 15, scope: !4)
!10 = distinct !DILocation(line: 13, column: 3, scope: !4)
!11 = distinct !DISubprogram(name: "at", file: !12, line: 690, type: !5, unit: !0, spFlags: DISPFlagDefinition)
!12 = !DIFile(filename: "vector", directory: "/lib")
"""


def test_lines_of_addresses_and_of_what_was_inlined():
    pytest.importorskip("elftools")
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
        reloc="static", codemodel="small"
    )
    lines = Lines(machine.emit_object(llvm.parse_assembly(IR)), ["prog.cu"])
    returns = [6, 11]  # after a push and the first call, and after the second
    assert lines.places(returns[:1]) == [Place("prog.cu", 12)]
    assert lines.place(returns[1:]) == Place("prog.cu", 13)  # not vector's line 700
    assert [p.column for p in lines.places([*returns, 0])] == [5, 3]


@pytest.mark.parametrize(
    "versions, newest",
    [
        ({"": 14}, 0),
        ({"": 14, "-15": 15}, 0),
        ({"": 14, "-17": 17, "-19": 19}, 19),
        ({"": 21, "-18": 18}, 21),
    ],
)
def test_the_compiler_of_the_system_is_the_newest_that_is_new_enough(versions, newest, tmp_path, monkeypatch):
    for suffix, version in versions.items():
        text = f'#!/bin/sh\n[ $1 = --version ] && echo "Debian clang version {version}.0.1" || echo /lib/{version}\n'
        path = tmp_path / f"clang++{suffix}"
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = compiler._system()
    assert (found and found.name) == (newest and f"clang {newest}.0.1" or None)
    assert not found or f"/lib/{newest}/include" in found.options


def test_bodies_on_the_device_are_blank_and_lines_stay():
    text = """// Größe – x²
__global__ void k(float* a) {
    a[0] = __device_only();
}
__host__ __device__ int both() { return 1; }
template <int N> __device__ int only() { return clock(); }
__device__ constexpr int known() { return 7; }
int main() { k<<<1, 1>>>(nullptr); }
void other() { k << <1, 1 >> > (nullptr); }
void third() { k
    << <1, 1 >> > (nullptr); }
"""
    found = compiler.without_device_code(text)
    assert found.count("\n") == text.count("\n")
    assert "__device_only" not in found and "clock" not in found
    assert "k<<<  1, 1 >>>  (nullptr)" in found and len(found) == len(text)
    assert "k\n<<<     1, 1 >>>  (nullptr)" in found
    assert "return 1" in found and "return 7" in found and "k<<<1, 1>>>(nullptr);" in found


def test_messages_of_the_compiler():
    said = "prog.cu:2:5: error: use of undeclared identifier 'x'\nprog.cu:1:10: fatal error: 'gtest/gtest.h' file not found\n"
    first, second = compiler._explained(said, "prog.cu", {"prog.cu": "int main() {\n    x;\n}"}).diagnostics
    assert (first.line, first.column, first.source) == (2, 5, "    x;")
    assert "GoogleTest is not here" in second.message


@pytest.mark.parametrize(
    "demangled, wanted",
    [
        ("void add<float>(float const*, int)", "add<float>"),
        ("void ns::tile<16, (Kind)1, true>(ns::V<int>)", "ns::tile<16, (Kind)1, true>"),
        ("plain(float*)", ""),
        ("void apply<main::{lambda(int)#1}>(main::{lambda(int)#1})", ""),
        ("void (anonymous namespace)::k<3>(int*)", "k<3>"),
    ],
)
def test_names_of_instances(demangled, wanted):
    assert expression(demangled) == wanted


@pytest.mark.parametrize(
    "line, name",
    [
        ("CHECK(cudaMalloc(&d_a, n * sizeof(float)));", "d_a"),
        ("cudaMalloc((void**)&m.data[i], n);", "m.data[i]"),
        ("cudaMallocManaged(&p, n);", "p"),
        ("cudaHostAlloc((void **) &h, n, 0);", "h"),
        ("float* p = device_memory(n);", ""),
    ],
)
def test_names_of_memory(line, name):
    assert memory.named(line) == name


def test_types_of_elements():
    assert memory.element(256 + 4, 400, "p", "") == "f4"
    assert memory.element(0, 400, "d_a", "double *h_a, *d_a;") == "f8"
    assert memory.element(0, 401, "d_a", "double *d_a;") == "u1"


def test_codes_of_errors():
    assert errors.codes()[700] == ("cudaErrorIllegalAddress", "an illegal memory access was encountered")
    assert errors.number("cudaErrorInvalidConfiguration") == 9
