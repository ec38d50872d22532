"""Values as bytes, for processes that do not trust each other: reading them runs no code.

Numbers, text, bytes, lists, tuples, dicts, NumPy arrays of plain types, and objects of classes that both
sides have agreed on. (A pickle may call any function in the reader's process.)
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import struct
from collections.abc import Iterable
from functools import cache

import numpy as np

from .child import Damaged

_LENGTH = struct.Struct("=Q")
_write = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode
_SIMPLE = {bool, float, int, str, type(None)}
_COLLECTIONS = {"tuple": tuple, "set": set, "frozenset": frozenset}
_LARGEST_KEY = 1 << 60  # below, no two integers have the same hash
_PER_VALUE = 32  # bytes of text for each value that a limited message may hold, on average
_DEEPEST = 100  # levels; an error for lack of stack could meet anything that is to be freed just then
_BRACKETS = re.compile(rb'\\.|"|[\[{]+|[\]}]+', re.DOTALL)
_HARMLESS = (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError, struct.error)


class Codec:
    """classes: dataclasses and exceptions whose objects may be encoded, with everything in them.

    most: how many values a message may hold, with what is in them, as from a process that may send anything: reading
    it then takes little time and memory, whatever it says.
    """

    def __init__(self, classes: Iterable[type], most: int | None = None):
        self._classes, self._most = {c.__name__: c for c in classes}, most

    def dumps(self, value: object) -> bytes:
        """Errors: TypeError for what cannot be encoded."""
        buffers: list[bytes] = []
        text = _write(self._node(value, buffers)).encode()
        lengths = [_LENGTH.pack(len(b)) for b in (text, *buffers)]
        return b"".join([_LENGTH.pack(len(lengths)), *lengths, text, *buffers])

    def loads(self, data: bytes) -> object:
        """Errors: Damaged."""
        try:
            (count,) = _LENGTH.unpack_from(data)
            self._require(count)
            lengths = struct.unpack_from(f"={count}Q", data, _LENGTH.size)
            at, parts = _LENGTH.size * (count + 1), []
            for length in lengths:
                parts.append(memoryview(data)[at : at + length])
                at += length
            if at != len(data):
                raise Damaged("the lengths do not add up")
            begins = _LENGTH.size * (count + 1)
            ends = begins + lengths[0]
            self._require(sum(data.count(sign, begins, ends) for sign in b",[{") + lengths[0] // _PER_VALUE)
            if self._most is not None and _depth(data[begins:ends]) > _DEEPEST:
                raise Damaged(f"more than {_DEEPEST} levels")
            return self._value(json.loads(str(parts[0], "utf-8")), parts[1:])
        except _HARMLESS as error:
            raise Damaged(str(error)) from None

    def _require(self, values: int) -> None:
        if self._most is not None and values > self._most:
            raise Damaged(f"more than {self._most} values")

    # -- writing ------------------------------------------------------------------------------------

    def _node(self, value, buffers: list[bytes]):
        kind = type(value)
        if kind in _SIMPLE:
            return value
        if kind in (list, tuple, set, frozenset):
            nodes = [v if type(v) in _SIMPLE else self._node(v, buffers) for v in value]
            return nodes if kind is list else {kind.__name__: nodes}
        if isinstance(value, dict):  # a Counter too
            return {"dict": [[self._node(k, buffers), self._node(v, buffers)] for k, v in value.items()]}
        if kind in (bytes, bytearray):
            return {"bytes": _kept(bytes(value), buffers)}
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            described = np.lib.format.dtype_to_descr(value.dtype)
            place = _kept(np.ascontiguousarray(value).tobytes(), buffers)
            one = "" if isinstance(value, np.ndarray) else "one"
            return {"array": [self._node(described, buffers), list(value.shape), place, one]}
        if self._classes.get(kind.__name__) is kind:
            return {"object": [kind.__name__, self._node(_state(value), buffers)]}
        raise TypeError(f"a {kind.__name__} cannot travel")

    # -- reading ------------------------------------------------------------------------------------

    def _value(self, node, buffers: list):
        if isinstance(node, list):
            return [n if type(n) in _SIMPLE else self._value(n, buffers) for n in node]
        if not isinstance(node, dict):
            return node
        ((kind, body),) = node.items()
        if kind in _COLLECTIONS:
            read = self._key if kind != "tuple" else lambda value: value
            return _COLLECTIONS[kind](
                [read(n if type(n) in _SIMPLE else self._value(n, buffers)) for n in body]
            )
        if kind == "dict":
            return {self._key(self._value(k, buffers)): self._value(v, buffers) for k, v in body}
        if kind == "bytes":
            return bytes(_taken(body, buffers))
        if kind == "array":
            return self._array(*body, buffers)
        if kind == "object":
            return self._object(*body, buffers)
        raise Damaged(f"no such kind of value: {kind!r}")

    def _key(self, value):
        """A key of a dict or an item of a set: what has a hash that nobody can choose."""
        if type(value) is tuple and self._most is None:
            return tuple(map(self._key, value))
        if type(value) not in (str, bool, type(None)) and not (
            type(value) is int and abs(value) < _LARGEST_KEY
        ):
            raise Damaged("a key that is no text and no number")
        return value

    def _array(self, described, shape: list[int], place: int, one: str, buffers: list):
        dtype = np.lib.format.descr_to_dtype(self._value(described, buffers))
        data = _taken(place, buffers)
        if dtype.hasobject or not dtype.itemsize or dtype.itemsize * math.prod(shape) != len(data):
            raise Damaged("an array of another size")
        found = np.frombuffer(data, dtype).reshape(shape).copy()
        return found[()] if one else found

    def _object(self, name: str, state, buffers: list):
        """Restores an object from its fields, without calling __init__."""
        class_, state = self._classes[name], self._value(state, buffers)
        made = class_.__new__(class_)
        if not issubclass(class_, BaseException):
            fields = _fields(class_)
            if type(state) is not list or len(state) != len(fields):
                raise Damaged(f"other fields than those of {name}")
            vars(made).update(zip(fields, state))
            return made
        made.args = state.pop("args")
        for field, value in state.items():
            if field.startswith("_"):
                raise Damaged(f"{name} has no {field}")
            object.__setattr__(made, field, value)
        return made


def _kept(data: bytes, buffers: list[bytes]) -> int:
    buffers.append(data)
    return len(buffers) - 1


def _depth(text: bytes) -> int:
    """How deep the lists and objects of a JSON text are nested; brackets in its strings do not count."""
    depth = deepest = 0
    text_begun = False
    for match in _BRACKETS.finditer(text):
        sign = match[0][:1]
        if sign == b'"':
            text_begun = not text_begun
        elif sign != b"\\" and not text_begun:
            depth += len(match[0]) * (1 if sign in b"[{" else -1)
            deepest = max(depth, deepest)
    return deepest


def _taken(place: int, buffers: list) -> memoryview:
    """A buffer, which belongs to a single value."""
    found, buffers[place] = buffers[place], None
    if found is None:
        raise Damaged("a buffer of two values")
    return found


def _state(value) -> dict | list:
    """An exception's attributes by name; a dataclass's fields in order, since there are thousands in a build."""
    if isinstance(value, BaseException):
        return {"args": value.args, **vars(value)}
    return [getattr(value, name) for name in _fields(type(value))]


@cache
def _fields(class_: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(class_))
