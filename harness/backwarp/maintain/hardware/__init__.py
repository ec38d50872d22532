"""Everything that only a GPU can show, for a machine that is borrowed for an hour and has no network.

    python -m backwarp.maintain.hardware --gather wheels    with a network: fetch what the machine lacks
    python -m backwarp.maintain.hardware --out DIR          on the machine, until nothing is left to do
    python -m backwarp.maintain.hardware --collect DIR      back home: write the data file, the page and the
    pictures

From a checkout that is not installed: PYTHONPATH=harness python -m ... . The machine needs a driver, CuPy, PyTorch, and the CUDA toolkit with Nsight Compute and compute-sanitizer.
Each work item (steps.py) is a process with a time limit; when it ends, its result becomes a line in
DIR/results.jsonl (journal.py). A call starts nothing that may not end within its --minutes, and repeats no
item that has a line. An item that fails or hangs gets a line too, and the rest goes on; --again repeats
those.
"""
