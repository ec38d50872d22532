from harness.course import Case, Program, Puzzle
from harness.lenet.checks import check_training
PUZZLE = Puzzle(title="Training LeNet", part=5, teaches="x", lines=18, kernels=(),
    program=Program("train.py", ("learning_rate(step, steps)", "update(net, rate)","train(net, batches)","accuracy(net, batches)"), check_training, 60),
    cases=(Case("learning_rate", dict(steps=100)),Case("update", {}),Case("three_steps", dict(steps=3,batch=8)),Case("accuracy", dict(batch=16)),Case("overfit", dict(steps=60)),Case("train", dict(epochs=3,batch=32))), hints=("a","b","c"))
