"""The pictures of the lessons of puzzles 37, 38 and 40: `python -m backwarp.maintain.lenet_pictures`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ..course.checkout import open_course
from ..course.progress import Progress
from ..devices import open_device
from ..lenet import data
from ..lenet.checks import solution_net
from ..lenet.model import GRADIENTS, VALUES
from ..lenet.picture import layers_picture
from ..lenet.run import TrainOptions
from ..lenet.run import main as train
from ..lenet.training_checks import quick_parameters


def main() -> None:
    """Draws the lessons' pictures, each from a run of the solutions. Puzzle 40's needs PyTorch."""

    puzzles = open_course().root / "puzzles"
    digits = data.load()
    with open_device("cpu", checks="memory") as device:
        net = solution_net(device, {}, quick_parameters())
        net.load(digits.test_images[1:2], digits.test_labels[1:2])
        net.forward()
        net.backward()
        values = {name: net[name].get() for name in (*VALUES, *GRADIENTS)}
    says = f"a {digits.test_labels[1]}, loss {values['losses'][0]:.2f}"
    layers_picture(values, says).savefig(puzzles / "37_lenet_step" / "layers.png")
    with tempfile.TemporaryDirectory() as folder:
        course = open_course()
        options = TrainOptions(
            kernels="solutions", device="cpu", picture=puzzles / "38_lenet_training" / "training.png"
        )
        train(course, Progress(Path(folder)), options)
    draw_graphs()


def draw_graphs() -> None:
    """What torch.compile makes of puzzle 40's solution."""
    import importlib.util

    from ..layers.picture import graphs_picture

    puzzle = open_course().load("40")
    spec = importlib.util.spec_from_file_location("layers", puzzle.solution_path)
    file = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(file)
    graphs_picture(file).savefig(puzzle.folder / "graphs.png")


if __name__ == "__main__":
    main()
