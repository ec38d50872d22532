"""Makes JupyterLab highlight CUDA cells as C++: `python -m harness.jupyterlab` installs the extension
here."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent


def install(prefix: Path = Path(sys.prefix)) -> Path:
    """Copies the extension to JupyterLab's extension folder; returns the folder. Errors: OSError."""
    folder = prefix / "share" / "jupyter" / "labextensions" / "backwarp"
    (folder / "static").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / "package.json", folder / "package.json")
    shutil.copyfile(HERE / "cuda.js", folder / "static" / "cuda.js")
    return folder
