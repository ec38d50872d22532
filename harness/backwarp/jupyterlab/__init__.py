"""For JupyterLab: a kernel that knows the course's magics after every start, and colours for cells of CUDA.

Installing the package puts both where a JupyterLab of the same environment looks. `python -m backwarp.jupyterlab DIR` does
it for another one, whose prefix is DIR: `~/.local` is searched by all of them.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent


def install(prefix: Path = Path(sys.prefix)) -> Path:
    """Copies the files to a prefix; returns the folder. Errors: OSError."""
    folder = prefix / "share" / "jupyter"
    extension, kernel = folder / "labextensions" / "backwarp", folder / "kernels" / "backwarp"
    (extension / "static").mkdir(parents=True, exist_ok=True)
    kernel.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / "package.json", extension / "package.json")
    shutil.copyfile(HERE / "cuda.js", extension / "static" / "cuda.js")
    spec = json.loads((HERE / "kernel.json").read_text(encoding="utf-8"))
    spec["argv"][0] = sys.executable
    (kernel / "kernel.json").write_text(json.dumps(spec, indent=2), encoding="utf-8")
    return folder
