"""Validates what comes from the process of a student's file: a hostile file may send anything."""

from __future__ import annotations

import numpy as np

from backwarp.reference.lenet import PARAMETERS


def is_arrays(found, none: bool = False) -> bool:
    return isinstance(found, list) and all(isinstance(a, np.ndarray) or none and a is None for a in found)


def is_applied(found) -> bool:
    match found:
        case {"outputs": outputs, "gradients": gradients, "fakes": list() as fakes}:
            compared = all(map(is_compared, fakes))
            return is_arrays(outputs) and (gradients is None or is_arrays(gradients, none=True)) and compared
    return False


def is_compared(found) -> bool:
    match found:
        case [str(), None | list() as told, list() as real]:
            return all(isinstance(d, list) and len(d) == 3 for d in [*(told or ()), *real])
    return False


def are_parameters(found, none: bool = False) -> bool:
    """Whether these are LeNet's parameters, or their gradients."""
    if not isinstance(found, dict) or found.keys() != PARAMETERS.keys():
        return False
    shapes = {name: getattr(a, "shape", None) for name, a in found.items()}
    return all(s == PARAMETERS[name] or none and s is None for name, s in shapes.items())


def is_step(found) -> bool:
    match found:
        case {"logits": np.ndarray(), "gradients": gradients}:
            return are_parameters(gradients, none=True)
    return False


#: by function of the driver
VALID = {
    "schema": lambda found: isinstance(found, str),
    "apply": is_applied,
    "opcheck": lambda found: isinstance(found, dict) and all(isinstance(r, str) for r in found.values()),
    "gradcheck": lambda found: isinstance(found, str),
    "step": is_step,
    "fit": lambda found: (
        isinstance(found, dict) and are_parameters(found.get("parameters")) and "losses" in found
    ),
}
