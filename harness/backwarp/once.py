"""An attribute that is computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable


class once:
    """functools.cached_property without its lock, which before Python 3.12 costs more than most of what is computed
    here."""

    def __init__(self, compute: Callable):
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        found = instance.__dict__[self.name] = self.compute(instance)
        return found
