"""The same operation by cuDNN and cuBLAS, through PyTorch, for `backwarp bench`; in a separate process.

The result is {"software": ..., "rows": [...]} or {"problem": ...}. A row: {"arithmetic": a field of
peaks.Peak, "library": ..., "layout": ..., and "milliseconds": [...] or "problem": ...}.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..course.declare import Array, Kernel
from ..course.least_work import transposed
from ..devices.child import Child, attach, serve

FLUSH = 256 << 20  # bytes written between timed launches: more than any L2 cache holds
WARM_UP = 200.0  # milliseconds of work before the first timed launch, as for our own kernels
SECONDS = 300  # for all variants; cudnn.benchmark first tries many algorithms
#: output of a kernel -> the gradient to ask convolution_backward for: of the input, the weights, the bias
MASKS = {
    "grad_input": (True, False, False),
    "grad_weights": (False, True, False),
    "partial": (False, True, False),
}
CHANNELS_LAST = {4: "channels_last", 5: "channels_last_3d"}


def job_of(kernel: Kernel, dims: Mapping[str, int]) -> dict:
    """The library operation with the same result; {} if there is none.

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
    child, found = Child("backwarp.measure.baseline"), None
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
    """Every variant: float32 with TF32 off, TF32, half; each layout; convolutions also without cuDNN. A copy
    has no variants."""
    try:
        import torch
    except ImportError:
        return {"problem": "PyTorch is not installed"}
    if not torch.cuda.is_available():
        return {"problem": "PyTorch finds no GPU that it can use"}
    if job["operation"] == "copy":
        found = {"milliseconds": times(torch, copy(torch, job["nbytes"]), job["repeat"])}
        return {"software": f"PyTorch {torch.__version__}", "rows": [found]}
    torch.backends.cudnn.benchmark = True
    product = job["operation"] == "matmul"
    library = "cuBLAS" if product else "cuDNN"
    layouts = ["row-major"] if product else ["NCHW"]
    if not product and len(job["input"]) in CHANNELS_LAST:
        layouts.append("channels_last")
    variants = [(arithmetic, library, l) for arithmetic in ("float32", "tf32", "half") for l in layouts]
    rows = [variant(torch, job, *v) for v in variants + [("float32", "PyTorch", "NCHW")] * (not product)]
    version = "" if product else f" {torch.backends.cudnn.version()}"
    return {"software": f"{library}{version} through PyTorch {torch.__version__}", "rows": rows}


def variant(torch, job: dict, arithmetic: str, library: str, layout: str) -> dict:
    """A row. library: "PyTorch" means PyTorch's own kernel, used with cuDNN switched off."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = arithmetic == "tf32"
    torch.backends.cudnn.enabled = library != "PyTorch"
    dtype = torch.float16 if arithmetic == "half" else torch.float32
    row = {"arithmetic": arithmetic, "library": library, "layout": layout}
    try:
        make = matrix_product if job["operation"] == "matmul" else convolution
        return row | {"milliseconds": times(torch, make(torch, job, layout, dtype), job["repeat"])}
    except RuntimeError as error:  # no kernel for this variant, or no memory
        return row | {"problem": (str(error).splitlines() or ["RuntimeError"])[0]}


def copy(torch, nbytes: int):
    """The upper bound for memory: each byte is read once and written once."""
    source = torch.randn((nbytes // 4,), device="cuda", dtype=torch.float32)
    target = torch.empty(nbytes // 4, device="cuda", dtype=torch.float32)
    return lambda: target.copy_(source)


def matrix_product(torch, job: dict, layout: str, dtype):
    a = torch.randn((job["m"], job["k"]), device="cuda", dtype=dtype)
    b = torch.randn((job["k"], job["n"]), device="cuda", dtype=dtype)
    return lambda: torch.matmul(a, b)


def convolution(torch, job: dict, layout: str, dtype):
    """Computes a single output or gradient, so that the library is not charged for anything else."""
    arrays = {}
    for name in ("input", "weight", "output"):
        made = torch.randn(tuple(job[name]), device="cuda", dtype=dtype)
        if layout != "NCHW":
            made = made.contiguous(memory_format=getattr(torch, CHANNELS_LAST[made.dim()]))
        arrays[name] = made
    options = job["stride"], job["pad"], job["dilation"], job["transposed"], job["out_pad"], job["groups"]
    if job["operation"] == "convolution":
        return lambda: torch.ops.aten.convolution(arrays["input"], arrays["weight"], None, *options)
    grad, input, weight = arrays["output"], arrays["input"], arrays["weight"]
    return lambda: torch.ops.aten.convolution_backward(grad, input, weight, None, *options, job["mask"])


def times(torch, work, repeat: int) -> list[float]:
    """Milliseconds of each run by CUDA events, with L2 flushed before each, after WARM_UP milliseconds of runs."""
    scratch = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    first, start, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))

    def timed() -> float:
        scratch.zero_()
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)

    work()  # cuDNN tries its algorithms
    first.record()
    timed()
    while first.elapsed_time(end) < WARM_UP:
        timed()
    return [timed() for _ in range(repeat)]


if __name__ == "__main__":
    serve(attach(), {"run": run})
