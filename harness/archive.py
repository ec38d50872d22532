"""Puts the reference into the wheel, and the course's files as one archive, from which `backwarp init` makes a course."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RELEASED = "harness/released"  # made by backwarp.maintain.release
HELD = ("puzzles", "solutions", "notebooks", ".devcontainer", ".github", ".vscode", ".gitignore", "LICENSE")
HELD += ("README.md",)
LEFT_OUT = {"cases.toml", "__pycache__", ".ipynb_checkpoints", "workflows", "CONTRIBUTING.md"}
DATE = (1980, 1, 1, 0, 0, 0)  # the same files give the same archive


def archive(root: Path, path: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as held:
        for start, top in (*((root, top) for top in HELD), (root / RELEASED, ".")):
            for file in sorted(p for p in (start / top, *(start / top).rglob("*")) if p.is_file()):
                name = file.relative_to(start)
                if not LEFT_OUT & {*name.parts} and file.suffix != ".pyc" and ".bak-" not in file.name:
                    entry = zipfile.ZipInfo(name.as_posix(), DATE)
                    held.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        if version == "editable":  # a checkout has the files themselves
            return
        handle, self.path = tempfile.mkstemp(suffix=".zip")
        os.close(handle)
        archive(Path(self.root), self.path)
        build_data["force_include"] |= {self.path: "backwarp/course.zip", "reference": "backwarp/reference"}

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        if version != "editable":
            os.unlink(self.path)
