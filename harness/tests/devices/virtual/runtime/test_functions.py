"""The runtime's functions have the signatures that compiled code assumes."""

from __future__ import annotations

import re
from pathlib import Path

from backwarp.devices.virtual.compile import link
from backwarp.devices.virtual.runtime import abi

EXPORTED = re.compile(r"^EXPORT ([\w ]+?\*?) (rt_\w+)\(([^)]*)\)", re.MULTILINE)
WORDS = {"u64": "i64", "i64": "i64", "s64": "i64", "u32": "i32", "i32": "i32", "int": "i32", "void": "void"}


def _type(text: str) -> str:
    return "i64" if "*" in text else WORDS[text.split()[0]]


def test_functions_are_declared_as_the_runtime_defines_them():
    defined = {}
    for path in Path(abi.__file__).parent.glob("*.cu"):
        if path.stem != "absent":
            for returns, name, arguments in EXPORTED.findall(path.read_text()):
                defined[name] = (
                    _type(returns),
                    tuple(_type(a.strip()) for a in arguments.split(",") if a.strip()),
                )
    assert abi.FUNCTIONS == {name: defined.get(name) for name in abi.FUNCTIONS}
    assert abi.FUNCTIONS.keys() >= abi.ASIDE
    assert defined.keys() - abi.FUNCTIONS.keys() <= set(link.ENTRIES)
