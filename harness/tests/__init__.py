"""The tests mirror the packages. What several of them share is here."""

from pathlib import Path

#: CUDA sources of several tests
KERNELS = Path(__file__).with_name("kernels")
