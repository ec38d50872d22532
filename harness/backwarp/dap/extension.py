"""The extension for VS Code: a manifest, which names the Python that has this package."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

from .. import PACKAGE, SOURCES, __version__
from ..errors import CourseError

_NAMES = (PACKAGE / "editors", SOURCES / "editors")  # installed; in a checkout
_ABOUT = """<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
<Metadata>
<Identity Language="en-US" Id="{name}" Version="{version}" Publisher="{publisher}"/>
<DisplayName>{displayName}</DisplayName>
<Description>{description}</Description>
<Properties><Property Id="Microsoft.VisualStudio.Code.Engine" Value="{engine}"/></Properties>
</Metadata>
<Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
<Assets>
<Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
</Assets>
</PackageManifest>
"""
_TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="json" ContentType="application/json"/>
<Default Extension="vsixmanifest" ContentType="text/xml"/>
</Types>
"""


def manifest() -> dict:
    """With this Python's path, which need not be on the editor's."""
    folder = next(folder for folder in _NAMES if folder.is_dir())
    found = json.loads((folder / "vscode" / "package.json").read_text(encoding="utf-8"))
    found["version"] = __version__
    (debugger,) = found["contributes"]["debuggers"]
    debugger |= {"runtime": sys.executable, "runtimeArgs": ["-m", "backwarp", "dap"]}
    return found


def write_extension(target: Path) -> None:
    """Errors: CourseError."""
    about = manifest()
    files = {
        "[Content_Types].xml": _TYPES,
        "extension.vsixmanifest": _ABOUT.format(**about, engine=about["engines"]["vscode"]),
        "extension/package.json": json.dumps(about, indent=2),
    }
    try:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as held:
            for name, text in files.items():
                held.writestr(name, text)
    except OSError as error:
        raise CourseError(f"{target} cannot be written: {error.strerror}") from None
