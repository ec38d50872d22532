"""Values survive encoding as plain bytes; invalid bytes are refused."""

from __future__ import annotations

import contextlib
import pickle
import struct
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from backwarp.devices.child import Damaged
from backwarp.devices.plain import Codec
from backwarp.errors import CompileError, Diagnostic, KernelFault, LaunchError, Unsupported


@dataclass
class Pair:
    first: object
    second: object = 0


CODEC = Codec((Pair, CompileError, Diagnostic, KernelFault, LaunchError, Unsupported))


def value(rng: np.random.Generator, depth: int = 3) -> object:
    """A value of any kind, with others in it."""

    def text(most: int = 12) -> str:
        return "".join(
            chr(rng.choice([rng.integers(128), rng.integers(0xD800)])) for _ in range(rng.integers(most))
        )

    def some() -> list:
        return [value(rng, depth - 1) for _ in range(rng.integers(4))]

    kinds = (
        lambda: None,
        lambda: bool(rng.integers(2)),
        lambda: int(rng.integers(-10, 10)) ** int(rng.integers(1, 90)),
        lambda: float(rng.choice([0.0, -0.0, 1e-310, np.inf, rng.normal(), rng.normal() * 1e300])),
        text,
        lambda: rng.bytes(rng.integers(20)),
        some,
        lambda: tuple(some()),
        lambda: {key: each for key, each in zip((text(), int(rng.integers(9)), ""), some())},
        lambda: Pair(value(rng, depth - 1), value(rng, depth - 1)),
    )
    return kinds[rng.integers(len(kinds) if depth else 6)]()


def test_what_goes_in_comes_out():
    rng = np.random.default_rng(0)
    for _ in range(200):
        given = value(rng)
        assert repr(CODEC.loads(CODEC.dumps(given))) == repr(given)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::2],
        np.zeros((0, 4), np.int8),
        np.array(3, np.uint64),
        np.array([(1, 2.5)], [("a", "<i4"), ("b", "<f8")]),
        np.array([np.nan, -0.0], np.float16),
    ],
    ids=lambda a: str(a.dtype),
)
def test_arrays_keep_their_bits(array):
    found = CODEC.loads(CODEC.dumps(array))
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    found[...] = 0  # it is a copy that may be changed


def test_a_numpy_scalar_stays_one():
    found = CODEC.loads(CODEC.dumps(np.int16(-3)))
    assert type(found) is np.int16 and found == -3


def test_errors_travel_with_what_they_hold():
    fault = KernelFault("race", "headline", "explanation", line=3, thread=(1, 0, 0))
    fault.more, fault.address = [KernelFault("timeout", "h", "e")], 4096
    found = CODEC.loads(CODEC.dumps(fault))
    assert (str(found), found.thread, found.address) == (str(fault), (1, 0, 0), 4096)
    assert found.more[0].kind == "timeout"
    refused = CODEC.loads(CODEC.dumps(Unsupported("wgmma", "k.cu", 4)))
    assert (str(refused), refused.diagnostics[0].line) == (str(Unsupported("wgmma", "k.cu", 4)), 4)


def test_only_the_classes_that_were_agreed_on_travel():
    class Stranger:
        pass

    for value in (Stranger(), object(), print, np.array([object()]), Counter):
        with pytest.raises(TypeError, match="cannot travel"):
            CODEC.dumps(value)
    with pytest.raises(Damaged):
        Codec(()).loads(CODEC.dumps(Pair(1)))


def altered(old: bytes, new: bytes, value) -> bytes:
    assert len(old) == len(new)
    data = CODEC.dumps(value)
    assert old in data
    return data.replace(old, new)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        pickle.dumps(print),
        altered(b'"Pair"', b'"Path"', Pair(1)),
        altered(b"[1,0]", b"[1  ]", Pair(1)),
        altered(b'"tuple"', b'"print"', (1,)),
        altered(b'"<i4"', b'"|O8"'[:5], np.zeros(2, np.int32)),
        altered(b"[2]", b"[9]", np.zeros(2, np.int32)),
        altered(b'"args"', b'"_rgs"', LaunchError("no")),
        CODEC.dumps(["x" * 100])[:-1],
        CODEC.dumps(0)[:-1] + b"[" * 1,
    ],
)
def test_bytes_that_are_no_value_are_refused(data):
    with pytest.raises(Damaged):
        CODEC.loads(data)


def message(text: bytes, *buffers: bytes) -> bytes:
    parts = text, *buffers
    return b"".join([struct.pack(f"={len(parts) + 1}Q", len(parts), *map(len, parts)), *parts])


@pytest.mark.parametrize(
    "data",
    [
        message(b"[" + b"[]," * 2000 + b"[]]"),
        message(b"[" * 101 + b"]" * 101),
        message(b'["]]]]]",' + b"[" * 100 + b"]" * 101),
        message(b'"' + b"x" * 40_000 + b'"'),
        message(b"9" * 5000),
        message(b"[0]", *[b""] * 1001),
        struct.pack("=Q", 1 << 40) + bytes(800),
        message(b'{"dict":[[%d,0]]}' % (1 << 61)),
        message(b'{"dict":[[NaN,0]]}'),
        message(b'{"dict":[[{"tuple":[1]},0]]}'),
        message(b'{"set":[1.5]}'),
        message(b'[{"bytes":0},{"bytes":0}]', b"ab"),
        message(b'{"array":["<f4",[1],0,""]}', b"abcde"),
        message(b'{"array":["|V0",[1000000000000],0,""]}', b""),
    ],
    ids=range(14),
)
def test_a_message_that_would_take_long_to_read_is_refused(data):
    with pytest.raises(Damaged):
        Codec((), most=1000).loads(data)


def test_a_message_within_its_limits():
    value = {"[[[": list(range(800)), "b\\": [True, None, 2.5, b"xyz"], 7: {"a", 3}}
    assert Codec((), most=1000).loads(Codec(()).dumps(value)) == value


def test_damaged_bytes_raise_nothing_else():
    rng = np.random.default_rng(0)
    sound = CODEC.dumps([Pair((1, np.arange(3)), {"a": b"bc"}), LaunchError("no")])
    for _ in range(200):
        whole = bytearray(sound)
        for _ in range(rng.integers(1, 5)):
            whole[rng.integers(len(whole))] = rng.integers(256)
        with contextlib.suppress(Damaged):
            CODEC.loads(bytes(whole))
