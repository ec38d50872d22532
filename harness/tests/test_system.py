"""On Windows and on a Mac, where modules of Linux are missing, every entrance says in a sentence where Backwarp runs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

from tests import ROOT, SOURCES

#: in a process of this system: Python's own modules and IPython are loaded before it is another
ELSEWHERE = """
import runpy, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="NoColor")
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "llvmlite", "cuda"):
    sys.modules[name] = None  # importing it is an ImportError
sys.platform = sys.argv.pop(1)
"""
ENTRANCES = {
    "python -m backwarp": "runpy.run_module('backwarp', run_name='__main__', alter_sys=True)",
    "backwarp": "from backwarp.__main__ import main; sys.exit(main())",
    "devices": "import backwarp.devices",
    "a launch": "import backwarp.run",
    "notebook": "shell.run_cell('%load_ext backwarp.notebook')",
}
SAYS = {"win32": "WSL", "darwin": "container", "freebsd14": "This system is freebsd14"}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("platform", SAYS)
def test_each_entrance_says_where_it_runs(entrance, platform, tmp_path):
    pytest.importorskip("IPython")
    done = subprocess.run(
        [sys.executable, "-P", "-c", ELSEWHERE + ENTRANCES[entrance], platform],
        env={"PYTHONPATH": str(SOURCES), "HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    *_, last = (done.stderr.strip() or done.stdout.strip()).splitlines()
    assert "Backwarp runs on Linux. " in last and SAYS[platform] in last
    if "backwarp" in entrance:
        assert done.returncode == 2 and done.stderr.strip() == last
    if entrance == "notebook":
        assert last.startswith("UsageError: ") and "Traceback" not in done.stdout + done.stderr


def test_what_only_linux_has_is_installed_only_there():
    """NVIDIA has no packages for a Mac: pip would refuse to install this one."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    for name in ("cuda-bindings", "llvmlite", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime"):
        (row,) = (row for row in asked if re.match(rf"{name}\b(?!-)", row))
        assert row.endswith("; sys_platform == 'linux'")
