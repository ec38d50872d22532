"""The index of noted accesses as a sum of variables times sizes, compared with the elements that they should be of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import permutations

import numpy as np

from ...course.parameters import Scalar
from ...devices.launching import triple
from .noted import Launch

TIMES = (1, 2, 3, 4)  # an axis' step may be multiplied by
MOST_LINES = 2  # where a variable is set
MOST_TURNED, MOST_WRONG = 800, 200  # ways to give axes to variables; accesses that an axis is derived from


class Index:
    """Of the accesses of one instruction to one array. rows: of the notes.

    flat: the flat indices; columns: the variables that change; pointers: what is behind local pointers into the array."""

    def __init__(self, launch: Launch, array: int, rows: Sequence[int]):
        self.where, self.site, self.call = launch.arrays[array], launch.site(rows[0]), launch.calls[rows[0]]
        noted, start, trial = launch.rows[list(rows)], self.where.start, launch.trial
        self.flat = (noted["address"] - start) // self.where.itemsize
        values = {
            name: noted["names"][:, i].astype(f"i{bits // 8}").astype(np.int64)
            for i, (name, bits) in enumerate(self.site.names)
        }
        inside = {n: v - start for n, v in values.items() if (v >= start).any()}
        self.pointers = {n: v // self.where.itemsize for n, v in inside.items()}
        for name, size in (("thread", trial.launch.block), ("block", trial.launch.grid)):
            number, (x, y, _), name = noted[name], triple(size, name), f"{name}Idx"
            values |= {f"{name}.x": number % x, f"{name}.y": number // x % y, f"{name}.z": number // (x * y)}
        known = dict.fromkeys([*(n for n, _ in self.site.names), *self.site.built_in])
        self.columns = {n: values[n] for n in known if n not in self.pointers and np.ptp(values[n])}
        scalars = (p for p in trial.outcome.kernel.params if isinstance(p, Scalar) and p.dtype == "int32")
        self.times = {*TIMES, *(p.resolve(trial.dims) for p in scalars)} - {0}

    @cached_property
    def steps(self) -> dict[str, int]:
        """By how much the index moves with each variable; {} if that is not all it depends on."""
        found = self._steps(self.flat)
        return found if np.ptp(self.flat - self._sum(found)) == 0 else {}

    def _steps(self, flat: np.ndarray) -> dict[str, int]:
        """By how much a number moves with each variable, from pairs of accesses that differ in it alone."""
        found, names = {}, list(self.columns)
        values = np.array([self.columns[n] for n in names]).T
        for i, name in enumerate(names):
            rest = np.delete(values, i, 1)
            order = np.lexsort((values[:, i], *rest.T))
            moved = np.diff(values[order, i])
            alone = (np.diff(rest[order], axis=0) == 0).all(1) & (moved != 0)
            slopes = np.unique(np.diff(flat[order])[alone] / moved[alone])
            if len(slopes) == 1 and slopes[0] == int(slopes[0]) != 0:
                found[name] = int(slopes[0])
        return found

    def _sum(self, steps: Mapping[str, int]) -> np.ndarray:
        return sum((by * self.columns[n] for n, by in steps.items()), np.zeros(len(self.flat), np.int64))

    def right_step(self, may: np.ndarray, whose: Sequence[int] = ()) -> dict[str, object]:
        """The only other step of a variable, or else steps of all, with which each access is of an element that it may be of.
        may: [accesses, elements]; whose: a number for each access; those of one are of no fewer elements than they were."""
        size = self.where.size
        groups = np.array(whose) if len(whose) else np.arange(len(self.flat))

        def many(flat: np.ndarray) -> int:
            return len(np.unique(groups * size + np.clip(flat, 0, size - 1)))

        for choices in self._choices():
            right = []
            for new in choices:
                changed = {n: step for n, step in new.items() if step != self.steps[n]}
                flat = self.flat + self._sum({n: step - self.steps[n] for n, step in changed.items()})
                inside = changed and (flat >= 0).all() and (flat < size).all()
                if inside and may[np.arange(len(flat)), flat].all() and many(flat) >= many(self.flat):
                    right.append(changed)
            least = [c for c in right if len(c) == min(map(len, right))]
            if least and all(c == least[0] for c in least):
                name, new = min(least[0].items(), key=lambda item: item[1])  # others may be multiples
                return dict(variable=name, step=self.steps[name], right_step=new, set_in=self._pointed(name))
        return {}

    def _choices(self) -> Iterator[list[dict[str, int]]]:
        """Steps of one variable: those of the axes, then multiples of them. Then steps of all variables."""
        names, own = list(self.steps), self.where.steps
        yield [{name: step} for name in names for step in own]
        yield [{name: times * step} for name in names for step in own for times in self.times]
        ways = permutations(own, len(names)) if len(names) < 6 else ()
        turned = [dict(zip(names, some, strict=True)) for some in ways]
        yield turned if len(turned) <= MOST_TURNED else []

    def _pointed(self, name: str) -> tuple[int, ...]:
        """The line of the local pointer that a variable is added to, if it is."""
        for pointer, flat in self.pointers.items():
            lines = self.site.set_in.get(pointer, (0,))[:1]
            if 0 not in lines and name not in self._steps(self.flat - flat):
                return lines
        return ()

    def along(self, may: np.ndarray) -> dict[str, object]:
        """The axis along which most wrong accesses are beside all that they may be of, its variable, and its lines."""
        wrong = np.flatnonzero(~may[np.arange(len(self.flat)), self.flat])[:MOST_WRONG]
        axes = {
            n: next(i for i, s in enumerate(self.where.steps) if by % s == 0) for n, by in self.steps.items()
        }
        expected = self.where.at(rest := self.flat - self._sum(self.steps))
        for n, axis in axes.items():  # as the variables have it, which may be beyond an axis
            expected[:, axis] += self.columns[n] * (self.steps[n] // self.where.steps[axis])
        if not axes or (rest < 0).any() or (rest >= self.where.size).any():
            expected = self.where.at(self.flat)
        boxes = [self.where.at(np.flatnonzero(may[i])) != expected[i] for i in wrong]
        off = np.array([box.all(0) for box in boxes])
        if not off.any():  # each index occurs, but not with the others
            off = np.array([box[box.sum(1).argmin()] for box in boxes])
        axis = int(off.sum(0).argmax())
        if 2 * off[:, axis].sum() <= len(wrong):
            return {}
        letter = self.where.array.letters[axis]
        names = [n for n in axes if axes[n] == axis] or [letter]
        lines = self.site.set_in.get(names[0], ()) if len(names) == 1 else ()
        lines = tuple(line or self.call for line in lines[:MOST_LINES])
        return dict(axis=letter, variable=names[0], set_in=lines) if lines else dict(axis=letter)
