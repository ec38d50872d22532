"""A stand-in for PyTorch: what baseline.py calls. Work takes a millisecond, with TF32 half of one, in half a quarter; a
convolution without cuDNN takes four."""

import math
import os
from types import SimpleNamespace

if os.environ.get("FAKE_TORCH") == "absent":
    raise ImportError("no PyTorch here")

__version__ = "2.9.9"
uint8, float16, float32 = "uint8", "float16", "float32"
channels_last, channels_last_3d = "nhwc", "ndhwc"
backends = SimpleNamespace(
    cudnn=SimpleNamespace(allow_tf32=None, benchmark=False, enabled=True, version=lambda: 91002),
    cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=None)),
)
clock = [0.0]  # milliseconds
flushed = [False]


class Tensor:
    def __init__(self, shape, layout="nchw", dtype=float32):
        self.shape, self.layout, self.dtype = tuple(shape), layout, dtype

    def dim(self):
        return len(self.shape)

    def contiguous(self, memory_format):
        assert memory_format == {4: channels_last, 5: channels_last_3d}[self.dim()]
        return Tensor(self.shape, memory_format, self.dtype)

    def copy_(self, other):
        assert self.shape == other.shape
        clock[0] += 1.0

    def zero_(self):
        flushed[0] = math.prod(self.shape) > 128 << 20  # more than an L2 holds
        clock[0] += 100


def randn(shape, device, dtype):
    assert device == "cuda"
    return Tensor(shape, dtype=dtype)


def empty(count, dtype, device):
    return Tensor((count,))


def _work(tensor, tf32, own=False):
    assert backends.cudnn.benchmark is True and tf32 in (True, False)
    milliseconds = 0.25 if tensor.dtype == float16 else 0.5 if tf32 else 4.0 if own else 1.0
    clock[0] += milliseconds if flushed[0] else 0.125
    flushed[0] = False


def matmul(a, b):
    assert a.shape[1] == b.shape[0]
    _work(a, backends.cuda.matmul.allow_tf32)


def _convolution(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, output=None
):
    assert bias is None and len({t.layout for t in (input, weight)}) == 1
    assert len(stride) == len(padding) == len(dilation) == len(output_padding) == input.dim() - 2
    a, b = (1, 0) if transposed else (0, 1)
    assert input.shape[1] == weight.shape[b] * (1 if transposed else groups)
    if output:
        assert output.shape[1] == weight.shape[a] * (groups if transposed else 1)
        for i, (n, taps) in enumerate(zip(input.shape[2:], weight.shape[2:])):
            reach = dilation[i] * (taps - 1) + 1
            if transposed:
                expected = (n - 1) * stride[i] - 2 * padding[i] + reach + output_padding[i]
            else:
                expected = (n + 2 * padding[i] - reach) // stride[i] + 1
            assert output.shape[2 + i] == expected
    _work(input, backends.cudnn.allow_tf32, own=not backends.cudnn.enabled)


def _backward(grad, input, weight, bias_sizes, *options_and_mask):
    *options, mask = options_and_mask
    assert sum(mask) == 1 and bias_sizes is None and grad.layout == input.layout
    _convolution(input, weight, None, *options, output=grad)


ops = SimpleNamespace(aten=SimpleNamespace(convolution=_convolution, convolution_backward=_backward))


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = clock[0]

    def elapsed_time(self, end):
        return end.at - self.at


cuda = SimpleNamespace(
    is_available=lambda: os.environ.get("FAKE_TORCH") != "no gpu", synchronize=lambda: None, Event=Event
)
