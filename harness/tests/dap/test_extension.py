"""The extension for VS Code, as it is packed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile

import pytest

from backwarp.dap.extension import write_extension
from backwarp.errors import CourseError
from tests import ROOT, SOURCES


def test_the_extension_starts_the_python_that_packed_it(tmp_path):
    write_extension(tmp_path / "backwarp.vsix")
    with zipfile.ZipFile(tmp_path / "backwarp.vsix") as held:
        about = json.loads(held.read("extension/package.json"))
        identity = ET.fromstring(held.read("extension.vsixmanifest"))[0][0].attrib
        ET.fromstring(held.read("[Content_Types].xml"))
    assert (identity["Id"], identity["Version"]) == (about["name"], about["version"])
    (debugger,) = about["contributes"]["debuggers"]
    command = [debugger["runtime"], *debugger["runtimeArgs"]]
    done = subprocess.run(
        command, input=b"", env=os.environ | {"PYTHONPATH": str(SOURCES)}, capture_output=True
    )
    assert command[0] == sys.executable and (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    known = debugger["configurationAttributes"]["launch"]["properties"]
    offered = json.loads((ROOT / ".vscode" / "launch.json").read_text())["configurations"]
    for each in (*offered, *debugger["initialConfigurations"]):
        assert each["type"] == debugger["type"] and each.keys() - {"type", "request", "name"} <= known.keys()


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(CourseError, match="cannot be written"):
        write_extension(tmp_path / "none" / "backwarp.vsix")
