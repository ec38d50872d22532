"""CUDA's own samples, in a folder that the user names: BACKWARP_CUDA_SAMPLES=~/cuda-samples pytest ... Without it there
is nothing here to run.

Every kernel file compiles, or is refused by a message about the file; some kernels are run and have to be right.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from backwarp.errors import CourseError
from backwarp.run import Asked, run_file

FOLDER = os.environ.get("BACKWARP_CUDA_SAMPLES", "")
FILES = sorted(Path(FOLDER).expanduser().rglob("*.cu")) if FOLDER else []

#: file -> how a kernel of it is launched, and what the array holds afterwards; i numbers its elements
RUNS = {
    "vectorAdd.cu": (
        Asked(Path(), "vectorAdd", (4,), (64,), ("A=arange:256", "B=ones:256", "C=empty:256", "numElements=256")),
        ("C", "i + 1"),
    ),
    "asyncAPI.cu": (
        Asked(Path(), "increment_kernel", (4,), (64,), ("g_data=arange:256", "inc_value=26")),
        ("g_data", "i + 26"),
    ),
    "matrixMul.cu": (
        Asked(Path(), "MatrixMulCUDA<16>", (1, 1), (16, 16), ("C=empty:256", "A=ones:256", "B=arange:256", "wA=16", "wB=16")),
        ("C", "16 * (i % 16) + 16 * 120"),
    ),
    "transpose.cu": (
        Asked(Path(), "transposeNoBankConflicts", (1, 1), (32, 16), ("odata=empty:1024", "idata=arange:1024", "width=32", "height=32")),
        ("odata", "i % 32 * 32 + i // 32"),
    ),
    "inlinePTX.cu": (
        Asked(Path(), "sequence_gpu", (4,), (64,), ("d_ptr=empty:256", "length=256")),
        ("d_ptr", "i % 32"),
    ),
    "reduction_kernel.cu": (
        Asked(Path(), "reduce3<int>", (1,), (128,), ("g_idata=arange:256:int32", "g_odata=empty:1:int32", "n=256"), shared=512),
        ("g_odata", "i * 0 + 255 * 128"),
    ),
}  # fmt: skip


def sample(file: Path, asked: Asked) -> Asked:
    """With the headers that the samples share."""
    folder = Path(FOLDER).expanduser()
    return Asked(**vars(asked) | {"file": file, "folders": (folder / "Common", folder / "common" / "inc")})


if FOLDER:

    @pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(Path(FOLDER).expanduser())))
    def test_a_file_compiles_or_is_refused(file):
        try:
            errors = run_file(sample(file, Asked(file, count=False)), "cpu").errors
        except CourseError as asks:  # which kernel, with which arguments
            errors = [str(asks)]
        assert all(errors) and sum(map(len, errors)) < 4000

    @pytest.mark.parametrize("name", sorted(RUNS))
    def test_a_kernel_is_right(name):
        files = [file for file in FILES if file.name == name]
        assert files, f"the folder has no {name}"
        asked, (array, values) = RUNS[name]
        for file in files:
            done = run_file(sample(file, asked), "cpu")
            assert done.fault is None and not done.errors, done.fault or done.errors
            found = done.arrays[array].reshape(-1)
            assert np.array_equal(found, eval(values, {"i": np.arange(found.size)}))
