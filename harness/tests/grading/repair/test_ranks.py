"""The cost of insertions: what fits a place costs less than what does not."""

from __future__ import annotations

from backwarp.grading.repair.edits import Edit
from backwarp.grading.repair.repair import Repair, rank
from backwarp.grading.repair.schemata import Schemata
from tests.devices.virtual.launches import K

SOURCE = """
extern "C" __global__ void k(const float* a, float* out, int H, int W, int stride_h, int stride_w, int R) {
    int w = threadIdx.x % W, h = threadIdx.x / W;
    if (h >= H) return;
    float sum = 0.0f;
    for (int r = 0; r < R; r++) sum += a[(w * H + h) * R + r];
    out[h * W + w] = sum;
}
"""


def costs(place: str, source: str = SOURCE) -> dict[str, float]:
    """Of all edits of an expression in the index of `a`, by what stands there then."""
    sites = [s for s in Schemata(source, "k").sites if s.piece.code == place and s.piece.line == 6]
    found: dict[str, float] = {}
    for c in (c for s in sites if s.replaces for c in s.choices()):
        found[c.edit.after] = min(c.cost, found.get(c.edit.after, c.cost))
    return found


def test_a_stride_of_the_direction_is_a_factor_and_an_extent_is_no_term():
    found = costs("h")
    assert found["h * stride_h"] < found["h * stride_w"] and found["h * stride_h"] < found["h * R"]
    assert found["(h + w)"] < found["(h + W)"]


def test_a_factor_of_columns_is_one_of_rows():
    rows, columns = (
        SOURCE.replace("a[(w * H + h)", f"a[({index})") for index in ("h * W + 2 * w", "h * W + w")
    )
    assert costs("h", rows)["h * 2"] < costs("h", columns)["h * 2"]


def test_a_place_is_replaced_by_one_that_is_made_of_the_same():
    found = costs("w * H + h")
    assert found["h * W + w"] < found["H"] and found["h * W + w"] < found["r"]


def test_edits_come_by_operations_and_by_what_they_cost():
    for site in Schemata(SOURCE, "k").sites:
        every = sorted((c.operation, c.a, c.b, c.cost) for c in site.choices())
        bounds = [(-9.0, 1.0), (1.0, 1.75), (1.75, 99.0)]
        parts = [c for low, high in bounds for c in site.choices(low=low, high=high)]
        assert every == sorted((c.operation, c.a, c.b, c.cost) for c in parts)
        assert all(low <= c.cost < high for low, high in bounds for c in site.choices(low=low, high=high))


def test_a_barrier_stands_before_some_threads_leave():
    source = 'extern "C" __global__ void k(float* a, int n) {\n    a[0] = 0;\n    if (n) return;\n    a[1] = 0;\n}\n'
    places = [source.index(text) for text in ("a[1]", "if", "a[0]")]
    made = [Repair((Edit(at, at, "__syncthreads(); ", "a barrier"),), 1.0, source) for at in places]
    assert [r.line for r in sorted(made, key=lambda r: rank(r, "k"))] == [3, 2, 4]


def test_a_loop_over_the_grid_may_step_by_all_its_threads():
    loop = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x) x[i] = 0;"
    source = f"{K}k(float* x, int n) {{ {loop} }}\n"
    steps = [s for s in Schemata(source, "k").sites if s.piece.code == "blockDim.x"][-1]
    assert min(c.cost for c in steps.choices() if c.edit.after == "blockDim.x * gridDim.x") < 1.6
    assert "gridDim" not in {
        c.edit.after
        for s in Schemata(source.replace("blockIdx.x * blockDim.x + ", ""), "k").sites
        for c in s.choices()
    }


def test_what_is_only_set_is_likely_to_be_missing():
    text = SOURCE.replace("int w =", "int i = 0, j = R; i += R; j += i; int w =")
    found = costs("h", text)
    assert found["j"] < found["i"]
