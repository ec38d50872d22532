"""The code is formatted and checked by ruff, as configured in pyproject.toml."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT, SOURCES


@pytest.mark.parametrize("command", [["check"], ["format", "--diff"]], ids=lambda command: command[0])
def test_ruff_has_nothing_to_say(command):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "."], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_function_fits_on_a_screen():
    long = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in (ROOT / "harness").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= 60
    ]
    assert not long


def test_only_single_characters_are_repeated_possessively():
    """With groups, and in atomic groups, Python 3.11.2 finds wrong matches; it is Debian 12's."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "harness").rglob("*.py")
        if "tests" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\)(?:[*+?]|\{\d*,?\d*\})\+|\(\?>", line)
    ]
    assert not found


def imports_of(path: Path, known: set[str]) -> set[str]:
    """The modules that a file imports, including in functions, but not those only for annotations."""
    folder = ".".join(path.relative_to(SOURCES).parent.parts)
    found, todo = set(), [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        for part in (
            "body",
            "orelse",
            "handlers",
            "finalbody",
            "cases",
        ):  # statements; expressions import nothing
            todo += getattr(node, part, ())
        if isinstance(node, ast.ImportFrom):
            above = folder.split(".")[: len(folder.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            named = {f"{module}.{alias.name}" for alias in node.names}
            found |= named & known or {module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & known


def imports() -> dict[str, set[str]]:
    """Module of the package -> the modules of it that it imports."""
    paths = {
        ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (SOURCES / "backwarp").rglob("*.py")
    }
    return {name: imports_of(path, paths.keys() - {name}) for name, path in paths.items()}


#: each imports those before it only; whatever is not named is above all
LAYERS = ("", "once", "errors", "system", "arrays", "cuda", "devices", "course", "grading")


def test_layers_point_one_way():
    def layer(module: str) -> int:
        name = (*module.split("."), "")[1]
        return LAYERS.index(name) if name in LAYERS else len(LAYERS)

    wrong = [f"{a} -> {b}" for a, found in imports().items() for b in found if layer(a) < layer(b)]
    assert not wrong


def test_modules_import_one_another_in_one_direction_only():
    edges = imports()
    reached = {}
    for name in edges:
        seen, todo = set(), [*edges[name]]
        while todo:
            if (module := todo.pop()) not in seen:
                seen.add(module)
                todo += edges[module]
        reached[name] = seen
    circles = {tuple(sorted(m for m in reached[n] if n in reached[m])) for n in reached if n in reached[n]}
    assert not circles
