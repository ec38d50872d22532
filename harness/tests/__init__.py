"""The tests mirror the packages; what several of them share lies here."""

from pathlib import Path

#: CUDA sources of several tests
KERNELS = Path(__file__).with_name("kernels")
