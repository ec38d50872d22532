"""Arrays: NumPy's answers, shared memory, and what is unset."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from backwarp.cupy import core


def left(array) -> list[bool]:
    """Which elements are unset."""
    found = core._left(array)
    return [False] * array.size if found is None else found.ravel().tolist()


@pytest.mark.parametrize(
    "compute",
    [
        lambda xp, a: a + 1,
        lambda xp, a: 2 - a,
        lambda xp, a: a @ a.T,
        lambda xp, a: a.sum(axis=1, keepdims=True),
        lambda xp, a: a.astype(np.int64).max(),
        lambda xp, a: a[1:, ::2].T,
        lambda xp, a: a[xp.asarray([2, 0])],
        lambda xp, a: a[a > 3],
        lambda xp, a: a[..., None, 1],
        lambda xp, a: a[1][2],
        lambda xp, a: xp.where(a > 3, a, -a),
        lambda xp, a: xp.concatenate([a, a], axis=1),
        lambda xp, a: xp.linalg.norm(a),
        lambda xp, a: xp.fft.fft(a).real,
        lambda xp, a: xp.linspace(0, 1, 5),
        lambda xp, a: xp.divmod(a, 2)[1],
        lambda xp, a: xp.add.reduce(a, axis=0),
        lambda xp, a: xp.meshgrid(a[0], a[1])[1],
        lambda xp, a: xp.full_like(a, 3).reshape(-1),
        lambda xp, a: xp.array([a[0], a[1]], dtype=np.float16, order="F"),
        lambda xp, a: a.reshape(4, 3).argsort(axis=0),
        lambda xp, a: a.mean().reshape(1, 1),
        lambda xp, a: xp.zeros((2, 0)) + 1,
        lambda xp, a: xp.zeros_like(a.T, np.int8) + xp.ones_like(a.T, shape=(4, 3)),
    ],
)
def test_results_are_numpys(cp, compute):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    got, expected = compute(cp, cp.asarray(values)), compute(np, values)
    assert isinstance(got, cp.ndarray)
    assert (got.shape, got.dtype, got.strides) == (
        expected.shape,
        expected.dtype,
        np.asarray(expected).strides,
    )
    np.testing.assert_array_equal(got.get(), expected)


def test_views_share_memory_and_copies_do_not(cp):
    a = cp.zeros((3, 4), cp.float32)
    row, column, flat = a[1], a.T[2], a.ravel()
    a[1, 2] = 5
    assert row[2] == column[1] == flat[6] == 5
    assert row.data.ptr - a.data.ptr == 16 and not a.T.flags.c_contiguous
    for other in (
        a.copy(),
        cp.array(a),
        copy.copy(a),
        copy.deepcopy(a),
        pickle.loads(pickle.dumps(a)),
        a + 0,
    ):
        other[...] = 1
    assert a.sum() == 5
    assert cp.asarray(a) is a and cp.asarray(a, dtype=cp.float64) is not a


def test_operators_and_out_store_in_place(cp):
    a = cp.arange(4, dtype=cp.float32)
    kept, address = a, a.data.ptr
    a += 1
    a *= cp.asarray(2.0)
    assert cp.multiply(a, 2, out=a) is kept and a.data.ptr == address
    a[a > 10] = 0
    a.fill(float(a[1]))
    a.set(a.get() + 1)
    a.sort()
    cp.add.at(a, cp.asarray([0, 0]), 1)
    a.shape = (2, 2)
    assert a.tolist() == [[11, 9], [9, 9]] and kept.shape == (2, 2)


def test_scalars(cp):
    a = cp.asarray([1.5, 0.0])
    assert a[0].shape == () and isinstance(a.sum(), cp.ndarray)
    assert (float(a[0]), int(a[0]), bool(a[1]), f"{a[0]:.2f}", a[0].item()) == (1.5, 1, False, "1.50", 1.5)
    assert [0, 1, 2][cp.asarray(1)] == 1 and len(a) == 2 and [float(x) for x in a] == [1.5, 0.0]
    with pytest.raises(TypeError):
        hash(a)
    with pytest.raises(TypeError):
        len(a[0])


def test_arrays_of_host_and_device_do_not_mix(cp):
    a, host = cp.ones(3), np.ones(3)
    for mixed in (lambda: np.asarray(a), lambda: a + host, lambda: host + a, lambda: np.array(a)):
        with pytest.raises(TypeError):
            mixed()
    with pytest.raises(TypeError):
        a[:] = host
    with pytest.raises(TypeError):
        host[:] = a
    with pytest.raises(ValueError):
        cp.array(["a"])
    assert isinstance(np.sum(a), cp.ndarray) and isinstance(cp.asnumpy(a), np.ndarray)
    assert cp.get_array_module(a) is cp and cp.get_array_module(host) is np


def test_memory_as_another_array(cp):
    a = cp.arange(4, dtype=cp.int32)
    again = cp.ndarray((2,), cp.int32, a.data + 4)
    again[...] = cp.asarray([7, 8])
    assert a.tolist() == [0, 7, 8, 3] and a.view(cp.uint8).size == 16
    with pytest.raises(ValueError):
        cp.ndarray((4,), cp.int32, a.data + 4)
    held = cp.cuda.alloc(12)
    held.copy_from_device(a.data, 12)
    assert cp.ndarray(3, cp.int32, held).tolist() == [0, 7, 8]


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda cp, e: e, "uussuu"),
        (lambda cp, e: e[1:4], "uss"),
        (lambda cp, e: e[::-2], "usu"),
        (lambda cp, e: e.reshape(2, 3).T, "usuusu"),
        (lambda cp, e: e.copy(), "uussuu"),
        (lambda cp, e: e * 2 + 1, "uussuu"),
        (lambda cp, e: e.astype(cp.float64), "uussuu"),
        (lambda cp, e: cp.concatenate([e, cp.ones(1, cp.float32)]), "uussuus"),
        (lambda cp, e: e[cp.asarray([2, 0])], "su"),
        (lambda cp, e: e[2:4].sum(), "s"),
        (lambda cp, e: e.sum(), "u"),
        (lambda cp, e: cp.sort(e)[:2], "uu"),
        (lambda cp, e: cp.divmod(e, 2)[1], "uussuu"),
        (lambda cp, e: cp.zeros_like(e), "ssssss"),
        (lambda cp, e: cp.empty_like(e)[:1], "u"),
    ],
)
def test_what_is_unset_stays_unset(cp, make, expected):
    array = cp.empty(6, cp.float32)
    array[2:4] = 1
    assert "".join("su"[u] for u in left(make(cp, array))) == expected


def test_the_host_can_set_it(cp):
    for dtype in (cp.float32, cp.int8, cp.int16, cp.float64):
        array = cp.empty((2, 3), dtype)
        array[0, 1:] = 1
        assert left(array) == [True, False, False, True, True, True]
        array.T[0] = cp.asarray([1, 2])
        assert left(array) == [False, False, False, False, True, True]
        array[:, 0] = cp.empty(2, dtype)
        assert left(array) == [True, False, False, True, True, True]
        cp.add(array, 1, out=array)
        assert left(array)[0]
        cp.put(array, cp.asarray([0, 3]), 4)
        array[1:] = 1
        assert not any(left(array))
    array.fill(2)
    assert array.sum() == 12
