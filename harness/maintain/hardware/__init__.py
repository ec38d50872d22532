"""Everything that only a GPU can show, for a machine that is lent for an hour and has no network.

    python -m harness.maintain.hardware --gather wheels    where there is a network: what the machine lacks
    python -m harness.maintain.hardware --out DIR          there, as often as it says that something is left
    python -m harness.maintain.hardware --collect DIR      at home: the data file, the page and the pictures

The machine needs a driver, CuPy, PyTorch, and CUDA's toolkit with Nsight Compute and compute-sanitizer. Each item of
work (steps.py) is a process with a time limit; what it found is a line in DIR/results.jsonl as soon as it ends
(journal.py). A call starts nothing that may not end within its --minutes, and repeats nothing that has a line. An item
that fails or hangs has one too, and the rest goes on; --again repeats those.
"""
