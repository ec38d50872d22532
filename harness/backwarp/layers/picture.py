"""A picture of the graphs that torch.compile makes from a LeNet on the course's operators."""

from __future__ import annotations

from types import ModuleType

import torch
from matplotlib.figure import Figure
from torch._dynamo.backends.common import aot_autograd

from ..lenet.picture import BLUE, FAINT, INK, ORANGE

Row = tuple[str, str]  # an operation, and the shapes that it returns


def graphs(file: ModuleType, batch: int = 32) -> tuple[list[Row], list[Row]]:
    """The operations of a step's forward and backward graphs, in order."""
    found: list[list[Row]] = []

    def keep(graph: torch.fx.GraphModule, _):
        found.append([row(node) for node in graph.graph.nodes if node.op == "call_function"])
        return graph

    torch._dynamo.reset()
    model = torch.compile(
        file.LeNet(), backend=aot_autograd(fw_compiler=keep, bw_compiler=keep), fullgraph=True
    )
    logits = model(torch.zeros(batch, 1, 28, 28))
    torch.nn.functional.cross_entropy(logits, torch.zeros(batch, dtype=torch.int64)).backward()
    forward, backward = ([r for r in rows if "getitem" not in r[0]] for rows in found)
    return forward, backward


def row(node: torch.fx.Node) -> Row:
    values = node.meta["val"]
    values = values if isinstance(values, tuple | list) else (values,)
    name = str(node.target).removesuffix(".default")
    return name, "   ".join(" x ".join(map(str, v.shape)) for v in values if v is not None)


def graphs_picture(file: ModuleType) -> Figure:
    """Forward from top to bottom, and beside it backward from bottom to top: each operator faces its own backward."""
    forward, backward = graphs(file)
    height = max(len(forward), len(backward))
    figure = Figure(figsize=(10.5, 0.36 * height + 0.9), dpi=100, layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0, 2.05), ylim=(-0.2, height + 0.7))
    axes.axis("off")
    for left, title, rows in (
        (0, "forward, read down", forward),
        (1.05, "backward, read up", backward[::-1]),
    ):
        axes.text(left, height + 0.3, title, color=INK, weight="bold")
        for i, (name, shapes) in enumerate(rows):
            own = name.startswith("backwarp.")
            y, colour = height - 1 - i, (ORANGE if left else BLUE) if own else FAINT
            axes.add_patch(_box(left, y, colour))
            axes.text(
                left + 0.02,
                y + 0.42,
                name,
                color=INK,
                va="center",
                weight="bold" if own else "normal",
                size=9,
            )
            axes.text(left + 0.98, y + 0.42, shapes, color=INK, va="center", ha="right", size=7.5)
    return figure


def _box(left: float, y: float, colour: str):
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.02"
    return FancyBboxPatch((left, y), 1, 0.84, style, facecolor=colour, alpha=0.25, edgecolor="none")
