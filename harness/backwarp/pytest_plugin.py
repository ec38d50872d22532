"""A pytest plug-in: `pytest --virtual-gpu` runs the CUDA kernels of a project's tests where there is no GPU.

The rest is in testing.py, which is imported when a run asks for it.
"""

from __future__ import annotations

import sys

import pytest


def pytest_addoption(parser) -> None:
    group = parser.getgroup("backwarp", "CUDA kernels without a GPU")
    group.addoption(
        "--virtual-gpu",
        action="store_true",
        help="`import cupy` gives the virtual GPU: kernels run on the CPU, with all checks",
    )
    group.addoption(
        "--cuda-checks",
        choices=("full", "memory"),
        default="full",
        help="what is checked: every access, race and barrier (full), or the bounds of accesses only, which is faster (memory)",
    )
    group.addoption(
        "--cuda-sarif", metavar="FILE", help="write the kernels' faults to FILE in SARIF, for code scanning"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config) -> None:
    """Before any conftest.py can import cupy."""
    asked = early_config.known_args_namespace
    if asked.virtual_gpu:
        from . import cupy

        try:
            cupy.install(asked.cuda_checks)
        except RuntimeError as error:  # another plug-in has imported cupy
            raise pytest.UsageError(f"--virtual-gpu: {error}") from None


def pytest_configure(config) -> None:
    if config.option.virtual_gpu or config.option.cuda_sarif:
        _report(config)


def _report(config) -> None:
    """Starts the report of what kernels did, once."""
    from .testing import NAME, Report

    if not config.pluginmanager.has_plugin(NAME):
        config.pluginmanager.register(Report(config), NAME)


@pytest.fixture
def virtual_gpu(request, monkeypatch):
    """backwarp.cupy, which `import cupy` gives until the test ends."""
    from . import cupy

    _report(request.config)
    if sys.modules.get("cupy") is cupy:
        yield cupy
        return
    for name in [name for name in sys.modules if name == "cupy" or name.startswith("cupy.")]:
        monkeypatch.delitem(sys.modules, name)
    cupy.install(request.config.option.cuda_checks)
    yield cupy
    cupy.uninstall()
