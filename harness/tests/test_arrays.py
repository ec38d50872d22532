"""Array files with false headers."""

from __future__ import annotations

import os

import numpy as np
import pytest

from backwarp import arrays, cli


def npy(header: str, data: bytes = bytes(16), version=(1, 0)) -> bytes:
    text = header.encode("latin1") + b"\n"
    length = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + length + text + data


def shaped(shape: str, descr: str = "'<f4'", **how) -> bytes:
    return npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}", **how)


LIES = {
    "nothing": (b"", "damaged"),
    "noise": (bytes(range(256)), "damaged"),
    "a pickle": (b"\x80\x05.", "damaged"),
    "a header that is cut": (b"\x93NUMPY\x01\x00\xff", "damaged"),
    "a header of 2 GB": (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{", "damaged"),
    "a header in a later version": (npy("{}", version=(3, 0)), "damaged"),
    "a call": (shaped("__import__('os').getpid()"), "damaged"),
    "parentheses": (npy("(" * 5000, version=(2, 0)), "damaged"),
    "a terabyte": (shaped("(1 << 40,)".replace("1 << 40", str(1 << 40))), "promises 4398046511104 bytes, and 16 are there"),
    "a product that wraps": (shaped("(4294967296, 4294967296)"), "damaged"),
    "less than nothing": (shaped("(-2, -2)"), "promises"),
    "more than there is": (shaped("(5,)"), "promises 20 bytes, and 16 are there"),
    "less than there is": (shaped("(3,)"), "promises 12 bytes, and 16 are there"),
    "seventy dimensions": (shaped("(" + "1, " * 70 + ")", data=bytes(4)), "damaged"),
    "objects": (shaped("(2,)", "'|O'"), "not numbers"),
    "objects in structs": (shaped("(1,)", "[('a', '<f8'), ('b', '|O')]"), "not numbers"),
    "text": (shaped("(4,)", "'<U1'"), "not numbers"),
    "text in structs": (shaped("(1,)", "[('a', '<f8'), ('b', '<U2')]"), "not numbers"),
    "dates": (shaped("(2,)", "'<M8[D]'"), "not numbers"),
    "elements of no bytes": (shaped("(9999999,)", "'|V0'", data=b""), "not numbers"),
}  # fmt: skip


@pytest.mark.parametrize("what", LIES)
def test_a_lie_is_told(what, tmp_path):
    data, says = LIES[what]
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(ValueError, match=says):
        arrays.read(tmp_path / "x.npy")


def test_what_is_no_regular_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    for path in (tmp_path / "pipe.npy", "/dev/zero"):
        with pytest.raises(ValueError, match="not a regular file"):
            arrays.read(path)


@pytest.mark.parametrize(
    "array",
    [
        np.float32(3),
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 5)),
        np.array([(1, (2, 3))], [("a", ">i2"), ("b", "<f4", 2)]),
    ],
)
def test_arrays_are_read_as_they_were(array, tmp_path):
    np.save(tmp_path / "x.npy", array)
    found = arrays.read(tmp_path / "x.npy")
    assert found.dtype.isnative and found.shape == np.shape(array) and found.flags.c_contiguous
    assert str(found.tolist()) == str(array.tolist())


@pytest.mark.parametrize(
    "argument",
    ["x=\x1b[31m\u202e.npy", "x=zeros:1" + "x1" * 70, "x=zeros:" + "9" * 5000, "x=zeros:4:\x1b[31m"],
)
def test_an_argument_is_quoted_as_text(argument, tmp_path, capsys):
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(float* x) { x[0] = 1; }')
    with pytest.raises(SystemExit) as done:
        cli.main(["run", str(tmp_path / "k.cu"), "k", "--arg", argument, "--device", "cpu"])
    said = capsys.readouterr().err
    assert done.value.code == 2 and "internal" not in said and len(said) < 6000
    assert not set(said) & set("\x1b\u202e")
