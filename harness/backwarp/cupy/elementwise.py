"""ElementwiseKernel and ReductionKernel: a kernel around the user's expressions, which runs one thread for each element, or for
each result, on contiguous arrays. CuPy reduces in a tree; here one thread takes the elements one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import place
from .core import array, call, ndarray
from .raw import RawKernel

_THREADS = 128
#: NumPy's types, and what kernels call them
_C = {
    np.dtype(code): name
    for code, name in {
        **{
            "?": "bool",
            "i1": "signed char",
            "i2": "short",
            "i4": "int",
            "i8": "long long",
            "u1": "unsigned char",
        },
        **{
            "u2": "unsigned short",
            "u4": "unsigned int",
            "u8": "unsigned long long",
            "f2": "float16",
            "f4": "float",
        },
        **{"f8": "double", "c8": "complex<float>", "c16": "complex<double>"},
    }.items()
}
_BEGIN = """
struct _Index { long long n; __device__ long long size() const { return n; } };
template <typename T> struct _Raw {
    T* p; long long n;
    __device__ T& operator[](long long i) const { return p[i]; }
    __device__ long long size() const { return n; }
};
"""
_INDEX = "(long long)blockIdx.x * blockDim.x + threadIdx.x"


@dataclass(frozen=True)
class Parameter:
    """`raw T x`. type: a placeholder of one letter, or NumPy's name of a type."""

    type: str
    name: str
    raw: bool

    @classmethod
    def read(cls, text: str) -> tuple[Parameter, ...]:
        words = [part.split() for part in text.split(",") if part.strip()]
        return tuple(cls(w[-2], w[-1], "raw" in w[:-2]) for w in words)


class _Made(RawKernel):
    extern = False  # a C function of the user's name might exist


class _Kernel:
    """What both kinds have in common. texts: the user's expressions, the main one first."""

    def __init__(
        self, in_params: str, out_params: str, texts: tuple[str, ...], name: str, preamble="", options=()
    ):
        self.ins, self.outs = Parameter.read(in_params), Parameter.read(out_params)
        self.params, self.nin, self.nout = self.ins + self.outs, len(self.ins), len(self.outs)
        self.name = self.__name__ = name
        self.texts, self.preamble, self.options = texts, preamble, tuple(options)
        self._kernels: dict[tuple, RawKernel] = {}
        self._place = place.find(texts[0], place.callers())

    def _typed(self, args) -> tuple[list, dict[str, np.dtype]]:
        """The arguments, None for each output that was not given; and what each type is."""
        if len(args) not in (self.nin, len(self.params)):
            raise TypeError(
                f"{self.name} takes {self.nin} arguments, or {len(self.params)} with its outputs, not {len(args)}"
            )
        if any(isinstance(value, np.ndarray) for value in args):
            raise TypeError(f"Unsupported type {np.ndarray}")
        values = [*args, *[None] * (len(self.params) - len(args))]
        types = {p.type: np.dtype(p.type) for p in self.params if len(p.type) > 1}
        pairs = [(v, p) for v, p in zip(values, self.params) if v is not None]
        pairs = pairs[self.nin :] + pairs[: self.nin]
        for strong in (True, False):  # a Python number has no say where there is an array
            for value, p in pairs:
                if hasattr(value, "dtype") == strong:
                    types.setdefault(p.type, value.dtype if strong else np.asarray(value).dtype)
        if unknown := [p for p in self.params if p.type not in types]:
            raise TypeError(f"{self.name}: the type of {unknown[0].name} does not follow from the arguments")
        return values, types

    def _launch(self, types, values, count: int, *more: int) -> None:
        """values: contiguous arrays and scalars. more: further whole numbers for the kernel."""
        key = (*types.items(), *(isinstance(v, ndarray) for v in values))
        if key not in self._kernels:
            self._kernels[key] = self._made(types, values)
        sizes = [np.int64(v.size) for v, p in zip(values, self.params) if p.raw]
        if count:
            passed = (*values, *sizes, *map(np.int64, (count, *more)))
            self._kernels[key]((-(-count // _THREADS),), (_THREADS,), passed)

    def _made(self, types, values) -> RawKernel:
        before = "#include <cupy/complex.cuh>\n" * any(t.kind == "c" for t in types.values())
        before += "#include <cupy/float16.cuh>\n" * (np.dtype("f2") in types.values())
        before += _BEGIN + "".join(
            f"typedef {_C[t]} {name};\n" for name, t in types.items() if len(name) == 1
        )
        before += self.preamble + "\n"
        self._c = {p: _C[types[p.type]] for p in self.params}
        self._arrays = {p: isinstance(v, ndarray) for p, v in zip(self.params, values)}
        source = before + self._source()
        file, line = self._place  # of the user's text, if there is room above for what comes before it
        above = line - source.count("\n", 0, source.find(self.texts[0]))
        return _Made(source, self.name, self.options, stands=(file, above) if above >= 0 else None)

    def _taken(self, params) -> str:
        """The parameters of a function for one element."""
        how = {True: "_Raw<{}> {}", False: "{}& {}"}
        each = [
            how[p.raw].format(self._c[p] if p.raw or p in self.outs else f"const {self._c[p]}", p.name)
            for p in params
        ]
        return "".join(f", {one}" for one in each)

    def _given(self, params, index: str) -> str:
        """What it is called with."""
        at = [f"{p.name}[{index}]" if self._arrays[p] else p.name for p in params]
        return "".join(
            f", {{{p.name}, _{p.name}_size}}" if p.raw else f", {one}" for p, one in zip(params, at)
        )

    def _signature(self, more: str) -> str:
        each = [f"{self._c[p]}{'*' * self._arrays[p]} {p.name}" for p in self.params]
        each = [f"const {one}" if p in self.ins and not p.raw else one for p, one in zip(self.params, each)]
        each += [f"long long _{p.name}_size" for p in self.params if p.raw]
        return f"__global__ void {self.name}({', '.join(each)}, long long _n{more})"


class ElementwiseKernel(_Kernel):
    """cupy.ElementwiseKernel."""

    def __init__(
        self, in_params, out_params, operation, name="kernel", reduce_dims=True, preamble="", no_return=False,
        return_tuple=False, *, loop_prep="", after_loop="", options=(), **_,
    ):  # fmt: skip
        if after_loop:
            raise NotImplementedError("after_loop: here a thread has one element, and no loop")
        super().__init__(in_params, out_params, (operation,), name, preamble, options)
        self.no_return, self.return_tuple, self.loop_prep = no_return, return_tuple, loop_prep

    def __call__(self, *args, size=None, stream=None, block_size=_THREADS):
        values, types = self._typed(args)
        flat = [
            np.shape(getattr(v, "_host", v))
            for v, p in zip(values, self.params)
            if not p.raw and v is not None
        ]
        shape = (size,) if size is not None else np.broadcast_shapes(*flat)
        outs = [
            ndarray(shape, types[p.type]) if v is None else v for v, p in zip(values[self.nin :], self.outs)
        ]
        given = []
        for value, p in zip(values[: self.nin] + outs, self.params):
            if isinstance(value, ndarray) and not p.raw and p in self.ins:
                value = call(np.broadcast_to, value, shape)
            given.append(_contiguous(value, types[p.type]))
        self._launch(types, given, int(np.prod(shape)))
        for value, made, p in zip(values[: self.nin] + outs, given, self.params):
            if isinstance(value, ndarray) and made is not value and (p.raw or p in self.outs):
                value[...] = made
        if self.no_return:
            return None
        return outs[0] if len(outs) == 1 and not self.return_tuple else tuple(outs)

    def _source(self) -> str:
        return (
            f"__device__ void _each(ptrdiff_t i, _Index _ind, long long n{self._taken(self.params)}) {{ {self.loop_prep} {self.texts[0]};\n}}\n"
            f"{self._signature('')} {{\n    long long _i = {_INDEX};\n"
            f"    if (_i < _n) _each(_i, {{_n}}, _n{self._given(self.params, '_i')});\n}}\n"
        )


class ReductionKernel(_Kernel):
    """cupy.ReductionKernel."""

    def __init__(
        self, in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name="reduce_kernel", reduce_type=None,
        reduce_dims=True, preamble="", options=(),
    ):  # fmt: skip
        super().__init__(
            in_params, out_params, (map_expr, reduce_expr, post_map_expr), name, preamble, options
        )
        self.identity, self.reduce_type = identity, reduce_type

    def __call__(self, *args, out=None, axis=None, keepdims=False, stream=None):
        values, types = self._typed((*args, out) if out is not None else args)
        ins, (out,) = values[: self.nin], values[self.nin :]
        shape = np.broadcast_shapes(
            *[v.shape for v, p in zip(ins, self.ins) if isinstance(v, ndarray) and not p.raw]
        )
        axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = [range(len(shape))[i] for i in axes]
        kept = [i for i in range(len(shape)) if i not in axes]
        given = []
        for value, p in zip(ins, self.ins):
            if isinstance(value, ndarray) and not p.raw:
                value = call(np.transpose, call(np.broadcast_to, value, shape), [*kept, *axes])
            given.append(_contiguous(value, types[p.type]))
        made = ndarray([shape[i] for i in kept], types[self.outs[0].type])
        if not self.identity and 0 in shape:
            raise ValueError(f"zero-size array to reduction operation {self.name} which has no identity")
        self._launch(types, [*given, made], made.size, int(np.prod([shape[i] for i in axes])))
        if out is not None:
            out[...] = made.reshape(out.shape)
        result = made if out is None else out
        return (
            result.reshape([1 if i in axes else n for i, n in enumerate(shape)])
            if keepdims and out is None
            else result
        )

    def _source(self) -> str:
        mapped, reduced, after = self.texts
        kind = self.reduce_type or self._c[self.outs[0]]
        none = self.identity is None or self.identity == ""
        first = (
            "_map(_from, {_n * _each}" + self._given(self.ins, "_from") + ")"
            if none
            else f"_type({self.identity})"
        )
        sizes = "_Index _in_ind, _Index _out_ind"
        return (
            f"typedef {kind} _type;\n#define _i i\n"
            f"__device__ _type _map(ptrdiff_t i, _Index _in_ind{self._taken(self.ins)}) {{ return _type({mapped});\n}}\n#undef _i\n"
            f"__device__ _type _reduce(_type a, _type b) {{ return _type({reduced}); }}\n"
            f"__device__ void _after(_type a, {sizes}{self._taken(self.outs)}) {{ {after}; }}\n"
            f"{self._signature(', long long _each')} {{\n    long long _o = {_INDEX}, _from = _o * _each;\n"
            f"    if (_o >= _n) return;\n    _type _sum = {first};\n"
            f"    for (long long _k = _from + {int(none)}; _k < _from + _each; ++_k)\n"
            f"        _sum = _reduce(_sum, _map(_k, {{_n * _each}}{self._given(self.ins, '_k')}));\n"
            f"    _after(_sum, {{_n * _each}}, {{_n}}{self._given(self.outs, '_o')});\n}}\n"
        )


def _contiguous(value, dtype: np.dtype):
    """An array in row-major order, or a NumPy scalar, of this type."""
    if not isinstance(value, ndarray):
        return dtype.type(value)
    return value if value.flags.c_contiguous and value.dtype == dtype else array(value, dtype, order="C")
