"""The same operation by cuDNN and cuBLAS, through PyTorch, for `backwarp bench`; in a separate process.

What was measured: {"software": ..., "rows": [{"tf32": ..., "layout": ..., "milliseconds": [...]}]}, or {"problem": ...}.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..course.declare import Array, Kernel
from ..devices.child import Child, attach, serve
from .shapes import transposed

FLUSH = 256 << 20  # bytes written between timed launches: more than any L2 cache holds
SECONDS = 300  # for all variants; cudnn.benchmark tries many algorithms first
#: output of a kernel -> the gradient to ask convolution_backward for: of the input, the weights, the bias
MASKS = {
    "grad_input": (True, False, False),
    "grad_weights": (False, True, False),
    "partial": (False, True, False),
}
CHANNELS_LAST = {4: "channels_last", 5: "channels_last_3d"}


def job_of(kernel: Kernel, dims: Mapping[str, int]) -> dict:
    """What a library has to do for the same result; {} if there is nothing to compare with.

    Convolutions: shapes (N, C, ...), (K, C / groups, ...), (N, K, ...). Products: (m, k) x (k, n).
    """
    takes = {p.name for p in kernel.params if not isinstance(p, Array)}
    if {"M", "N", "K"} <= takes:
        return {"operation": "matmul", "m": dims["M"], "k": dims["K"], "n": dims["N"]}
    output = kernel.outputs[0].name
    if {"batch", *(f"{a}_out" for a in "DHW" if a in takes)} - dims.keys():
        return {}
    if {"n_in", "n_out"} <= takes:
        m, k, n = (
            dims[name]
            for name in {
                "output": ("batch", "n_in", "n_out"),
                "grad_weights": ("n_out", "batch", "n_in"),
                "grad_input": ("batch", "n_out", "n_in"),
            }[output]
        )
        return {"operation": "matmul", "m": m, "k": k, "n": n}
    if not {"C_in", "C_out"} <= takes or not takes & {"F", "R"} or output not in ("output", *MASKS):
        return {}
    axes = [a for a in "dhw" if a.upper() in takes]
    taps = {"d": "T", "h": "R", "w": "S"}
    one = {"stride": 1, "pad": 0, "dilation": 1, "out_pad": 0}
    options = {n: [dims.get(f"{n}_{a}", usual) for a in axes] for n, usual in one.items()}
    sides = [dims.get(taps[a], dims.get("F")) for a in axes]
    groups, channels = dims.get("groups", 1), (dims["C_in"], dims["C_out"])
    if transposed(kernel):
        weight = [channels[0], channels[1] // groups, *sides]
    else:
        weight = [channels[1], channels[0] // groups, *sides]
    return {
        "operation": "convolution" if output == "output" else "convolution_backward",
        "mask": MASKS.get(output),
        "input": [dims["batch"], dims["C_in"], *(dims[a.upper()] for a in axes)],
        "weight": weight,
        "output": [dims["batch"], dims["C_out"], *(dims[f"{a.upper()}_out"] for a in axes)],
        "transposed": transposed(kernel),
        "groups": groups,
        **options,
    }


def measure(job: dict) -> dict:
    """Runs the job in a separate process, so that PyTorch's memory and context are gone afterwards."""
    child, found = Child("harness.measure.baseline"), None
    try:
        found = child.ask("run", (job,), SECONDS)
    except TimeoutError:
        found = {"problem": f"PyTorch took more than {SECONDS} seconds"}
    except (EOFError, OSError):
        pass
    finally:
        how = child.end()
    return found or {"problem": f"PyTorch failed: {how}"}


# ---- in the other process ----------------------------------------------------------------------------------


def run(job: dict) -> dict:
    """Every variant: TF32 off and on, each layout."""
    try:
        import torch
    except ImportError:
        return {"problem": "PyTorch is not installed"}
    if not torch.cuda.is_available():
        return {"problem": "PyTorch finds no GPU that it can use"}
    torch.backends.cudnn.benchmark = True
    product = job["operation"] == "matmul"
    layouts = ["row-major"] if product else ["NCHW"]
    if not product and len(job["input"]) in CHANNELS_LAST:
        layouts.append("channels_last")
    rows = []
    for tf32 in (False, True):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
        for layout in layouts:
            work = matrix_product(torch, job) if product else convolution(torch, job, layout)
            rows.append({"tf32": tf32, "layout": layout, "milliseconds": times(torch, work, job["repeat"])})
    library = "cuBLAS" if product else f"cuDNN {torch.backends.cudnn.version()}"
    return {"software": f"{library} through PyTorch {torch.__version__}", "rows": rows}


def matrix_product(torch, job: dict):
    a = torch.randn((job["m"], job["k"]), device="cuda")
    b = torch.randn((job["k"], job["n"]), device="cuda")
    return lambda: torch.matmul(a, b)


def convolution(torch, job: dict, layout: str):
    """One output or one gradient only: anything else that a library computed would count against it."""
    arrays = {}
    for name in ("input", "weight", "output"):
        made = torch.randn(tuple(job[name]), device="cuda")
        if layout != "NCHW":
            made = made.contiguous(memory_format=getattr(torch, CHANNELS_LAST[made.dim()]))
        arrays[name] = made
    options = job["stride"], job["pad"], job["dilation"], job["transposed"], job["out_pad"], job["groups"]
    if job["operation"] == "convolution":
        return lambda: torch.ops.aten.convolution(arrays["input"], arrays["weight"], None, *options)
    grad, input, weight = arrays["output"], arrays["input"], arrays["weight"]
    return lambda: torch.ops.aten.convolution_backward(grad, input, weight, None, *options, job["mask"])


def times(torch, work, repeat: int) -> list[float]:
    """Milliseconds of each run by CUDA events, with L2 flushed before each, after warm-up runs."""
    for _ in range(3):
        work()
    scratch = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    found = []
    for _ in range(repeat):
        scratch.zero_()
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end))
    return found


if __name__ == "__main__":
    serve(attach(), {"run": run})
