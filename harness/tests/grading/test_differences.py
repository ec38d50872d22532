"""Where two texts differ: variables are matched by their use."""

from backwarp.cuda.text import read
from backwarp.grading.differences import differences, named_alike

RIGHT = read("""
__device__ float twice(float x) { return 2.0f * x; }
extern "C" __global__ void k(const float* in, float* out, int n) {
    int row = blockIdx.x, col = threadIdx.x;
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += in[(row * n + i) * n + col];
    out[row * n + col] = twice(sum);
}
""")
OWN = """
__device__ float twice(float x) { return 2.0f * x; }
extern "C" __global__ void k(const float* x, float* out, int n) {
    int c = threadIdx.x, r = blockIdx.x;
    float acc = 0.0f;
    for (int step = 0; step < n; step++) acc += x[(r * n + step) * n + c];
    out[r * n + c] = twice(acc);
}
"""


def told(text):
    return [(text[d.start : d.end], d.right) for d in differences(read(text), RIGHT, "k")]


def test_names_are_paired_by_their_uses_and_parameters_by_their_place():
    names = named_alike(read(OWN).function("k"), RIGHT.function("k"))
    assert names == dict(zip("in out n row col sum i".split(), "x out n r c acc step".split()))


def test_members_are_no_variables():
    """The `x` of `threadIdx.x` is not the parameter x."""
    same = OWN.replace("c = threadIdx.x, r = blockIdx.x", "r = blockIdx.x, c = threadIdx.x")
    assert told(same) == []
    assert told(same.replace("r * n + step", "c * n + step")) == [("c", "r")]


def test_functions_that_are_called_are_looked_at():
    assert told(OWN.replace("2.0f", "3.0f")).count(("3.0f", "2.0f")) == 1


def test_a_function_with_little_in_common_differs_as_a_whole():
    other = OWN.replace("return 2.0f * x;", 'float y = x; while (y < 2 * x) y += 1; asm(""); return y;')
    whole = next(found for found in told(other) if found[0].startswith("__device__"))
    assert whole[0].endswith("}") and whole[1].endswith("}")
