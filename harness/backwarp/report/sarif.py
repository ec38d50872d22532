"""Faults for GitHub: as annotations, and in SARIF 2.1.0 for code scanning. A fault: kind, message, file, line, and perhaps level."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..errors import CourseError

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def annotation(fault: dict) -> str:
    """A fault as an annotation of GitHub. Source: GitHub Docs, "Workflow commands for GitHub Actions"."""

    def escaped(text: str, more: str = "") -> str:
        for character in "%\r\n" + more:
            text = text.replace(character, f"%{ord(character):02X}")
        return text

    file = escaped(_relative(fault["file"]), ":,")
    command = "notice" if fault.get("level") == "note" else "error"
    return f"::{command} file={file},line={fault['line']},title={escaped(fault['kind'], ':,')}::{escaped(fault['message'])}"


def sarif(faults: Sequence[dict]) -> dict:
    """Faults in SARIF 2.1.0."""
    results = [
        {
            "ruleId": fault["kind"],
            "level": fault.get("level", "error"),
            "message": {"text": fault["message"]},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _relative(fault["file"]), "uriBaseId": "%SRCROOT%"},
                        "region": {"startLine": fault["line"]},
                    }
                }
            ],
        }
        for fault in faults
    ]
    rules = [{"id": kind} for kind in sorted({fault["kind"] for fault in faults})]
    tool = {"driver": {"name": "Backwarp", "version": __version__, "rules": rules}}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": tool, "results": results}]}


def _relative(file: str) -> str:
    """A path from the repository's root, with slashes."""
    return Path(os.path.relpath(file, os.environ.get("GITHUB_WORKSPACE") or None)).as_posix()


def add_to(path: Path, faults: Sequence[dict]) -> None:
    """Writes faults to a file, or adds them to those that it has. Errors: CourseError if it is no file of this kind."""
    made = sarif(faults)
    if path.exists() and path.stat().st_size:
        try:
            old = json.loads(path.read_text(encoding="utf-8"))["runs"][0]
            run = made["runs"][0]
            run["results"] = [*old["results"], *run["results"]]
            rules = {r["id"] for part in (old, run) for r in part["tool"]["driver"]["rules"]}
            run["tool"]["driver"]["rules"] = [{"id": kind} for kind in sorted(rules)]
        except (ValueError, LookupError, TypeError) as error:
            raise CourseError(
                f"{path} is there, and is no SARIF file of backwarp ({type(error).__name__})"
            ) from None
    path.write_text(json.dumps(made, indent=1), encoding="utf-8")
