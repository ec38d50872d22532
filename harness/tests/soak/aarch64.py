"""A userland of 64-bit ARM, which QEMU runs on other machines: `python -m tests.soak.aarch64 DIR` makes it in a folder.

From Debian's packages (Python and what it needs) and PyPI's (what Backwarp needs), with apt-get, dpkg-deb and pip of this
machine, and qemu-aarch64-static (Debian: qemu-user-static). DIR/bin/python is then a Python of ARM's that runs the package of
this checkout, and starts its own processes in the same way. 900 MB. QEMU keeps the order of memory of the machine that it runs
on, and has no Landlock and no seccomp: neither is tried by this.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from tests import ROOT, SOURCES

QEMU = "qemu-aarch64-static"
SUITE, PYTHON = "bookworm", "3.11"  # Debian's, and its Python
DEBIAN = ("python3", "libstdc++6", "tzdata")
PLATFORMS = [f"manylinux_2_{n}_aarch64" for n in range(36, 16, -1)]  # of the C library, 2.36 and older
APT = """
APT::Architecture "arm64"; APT::Architectures {{"arm64";}}; APT::Install-Recommends "false"; APT::Sandbox::User "{user}";
Dir::State "{apt}/state"; Dir::State::status "{apt}/status"; Dir::Cache "{apt}/cache";
Dir::Etc::sourcelist "{apt}/list"; Dir::Etc::sourceparts "-"; Dir::Etc::parts "-";
"""
START = """#!/bin/sh
exec {qemu} -L {root} -0 "$0" {root}/usr/bin/python{version} "$@"
"""


def system(folder: Path) -> None:
    """Debian's packages, unpacked."""
    apt, root = folder / "apt", folder / "root"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (apt / part).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    (apt / "conf").write_text(APT.format(apt=apt, user="root" if os.geteuid() == 0 else ""))
    signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    (apt / "list").write_text(f"deb {signed} http://deb.debian.org/debian {SUITE} main\n")
    variables = os.environ | {"APT_CONFIG": str(apt / "conf")}
    for words in (["update"], ["install", "--yes", "--download-only", *DEBIAN]):
        subprocess.run(["apt-get", "--quiet", *words], env=variables, check=True)
    for package in sorted((apt / "cache/archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)


def packages(folder: Path) -> None:
    """PyPI's packages, unpacked."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    platforms = [part for name in PLATFORMS for part in ("--platform", name)]
    where = ["--quiet", "--dest", folder / "wheels", "--only-binary=:all:", "--python-version", PYTHON]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        *where,
        *platforms,
        *(row.split(";")[0] for row in wanted),
    ]
    subprocess.run(pip, check=True)
    site = folder / f"lib/python{PYTHON}/site-packages"
    for wheel in sorted((folder / "wheels").glob("*.whl")):
        zipfile.ZipFile(wheel).extractall(site)
    (site / "backwarp.pth").write_text(f"{SOURCES}\n")


def make(folder: Path) -> None:
    system(folder)
    packages(folder)
    root, start = folder / "root", folder / "bin" / "python"
    start.parent.mkdir(exist_ok=True)
    start.write_text(START.format(qemu=QEMU, root=root, version=PYTHON))
    start.chmod(0o755)
    (folder / "pyvenv.cfg").write_text(f"home = {root}/usr/bin\nversion = {PYTHON}\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
