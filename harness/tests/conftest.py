from __future__ import annotations

import fcntl
import gc
import os
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

# before NumPy is loaded: the threads of products of matrices would only wait for each other, as all processors are busy
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["BACKWARP_RESIDENT"] = "off"  # what a test starts ends with it
gc.disable()  # until all tests are collected: what is imported stays


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Every other worker of pytest-xdist collects backwards: so each compiles half of the files, and finds the
    bytecode of the rest."""
    report = yield
    if isinstance(collector, pytest.Directory) and _worker()[-1] in "13579":
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)  # before the marks are asked for
def pytest_collection_modifyitems(items):
    """A test marked `sampled` runs every third of its cases (or as the mark says); the others become `soak`."""
    items.sort(key=lambda item: item.path)
    numbers = Counter()
    for item in items:
        if (mark := item.get_closest_marker("sampled")) and not item.get_closest_marker("soak"):
            test = item.path, item.function.__qualname__
            if numbers[test] % (mark.args[0] if mark.args else 3):
                item.add_marker(pytest.mark.soak)
            numbers[test] += 1


def _worker() -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "gw0")


def pytest_collection_finish():
    """Thousands of tests live until the end, so the garbage collector should not scan them again and again; and what
    a test leaves is rarely part of a cycle. Of what collecting leaves, next to nothing is garbage."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_sessionfinish():
    """pytest collects garbage several times at its end, which is not needed any more."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def cache_directory(tmp_path_factory):
    """One fresh cache for the whole run, shared by the workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    cache = Path(base) / "backwarp-cache"
    before = os.environ.get("BACKWARP_CACHE")
    os.environ["BACKWARP_CACHE"] = str(cache)
    yield cache
    if before is None:
        del os.environ["BACKWARP_CACHE"]
    else:
        os.environ["BACKWARP_CACHE"] = before


@pytest.fixture(scope="session", autouse=True)
def forked_processes():
    """See forks.py."""
    from backwarp.devices import child
    from tests import forks

    child.subprocess = SimpleNamespace(**vars(subprocess) | {"Popen": forks.popen})
    child.Child._has_ended = forks.has_ended


@pytest.fixture(scope="session", autouse=True)
def one_runtime(cache_directory):
    """The pytest-xdist worker that first needs the virtual GPU's runtime compiles it; the others wait."""
    from backwarp.devices.virtual.compile import runtime_code

    make = runtime_code._made

    def found_or_made() -> bytes:
        cache_directory.mkdir(exist_ok=True, mode=0o700)
        with open(cache_directory / "runtime.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return make()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime_code, "_made", found_or_made)
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_beside():
    """Optimised code is not compiled beside launches, as a test has ended before it is used. Yields what to call for it."""
    from backwarp.devices.virtual.compile import build

    begin = build._begun

    def quick_only(key, work):
        quick = work.args[-1][3]  # of what `build` calls `how`
        return begin(key, work) if quick else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_begun", quick_only)
        yield lambda of_test: of_test.setattr(build, "_begun", begin)


@pytest.fixture
def built_beside(nothing_beside, monkeypatch):
    """What is compiled beside launches is."""
    nothing_beside(monkeypatch)


@pytest.fixture(scope="session")
def runtime(one_runtime):
    """The runtime is in the cache: a program that a test starts would not wait for it."""
    from backwarp.devices.virtual.compile import runtime_code

    runtime_code.code()


@pytest.fixture(scope="session")
def unchecked_device():
    """A virtual GPU for kernels that are trusted: no access is checked, and compiling is quick."""
    from backwarp.devices.virtual.device import VirtualGPU

    with VirtualGPU("none") as device:
        device.quick = True
        yield device
