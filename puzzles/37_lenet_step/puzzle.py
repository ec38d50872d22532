from harness.course import Case, Program, Puzzle
from harness.lenet.checks import check_step
PUZZLE = Puzzle(title="One step of LeNet", part=5, teaches="x", lines=22, kernels=(),
    program=Program("step.py", ("forward(net)", "backward(net)"), check_step),
    cases=(Case("one_image", dict(batch=1)),Case("differences", dict(batch=3), check="gradient"),), hints=("a","b","c"))
