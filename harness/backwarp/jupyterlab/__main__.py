import sys
from pathlib import Path

from . import install

if __name__ == "__main__":
    where = install(Path(sys.argv[1] if len(sys.argv) > 1 else sys.prefix).expanduser())
    print(f"installed in {where}: reload JupyterLab's page, and choose the kernel Backwarp.")
