"""Rows that keep their number while they are there, found by what some of their columns have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Ints, grown
from freshkeeper.maintenance.engine.native.group_index import GroupIndex


@dataclass(eq=False)
class IndexedRows:
    """A table whose changes cost what changes; the number of a row that is gone is another's later."""

    width: int
    """columns"""
    keys: Sequence[int]
    """the columns that rows are found by, from when they are added on"""
    columns: Ints = field(init=False)
    there: Bools = field(init=False)
    """by number: whether there is such a row"""
    size: int = 0
    """how many numbers are or were in use"""
    _free: Ints = field(default_factory=lambda: NO_INTS)

    def __post_init__(self) -> None:
        """Begin without rows, and with an index for each key."""
        self.columns, self.there = np.empty((self.width, 0), np.int64), np.empty(0, bool)
        self._indexes = {key: GroupIndex() for key in self.keys}

    @property
    def numbers(self) -> Ints:
        """Those of all rows."""
        return np.flatnonzero(self.there[: self.size])

    def add(self, rows: Ints) -> Ints:
        """Rows come; returns their numbers."""
        count = rows.shape[1]
        reused = min(count, self._free.size)
        numbers = np.concatenate([self._free[:reused], np.arange(self.size, self.size + count - reused)])
        self._free, self.size = self._free[reused:], self.size + count - reused
        self.columns, self.there = grown(self.columns, self.size, axis=-1), grown(self.there, self.size)
        self.columns[:, numbers], self.there[numbers] = rows, True
        for key, index in self._indexes.items():
            index.add(numbers, [rows[key]])
        return numbers

    def remove(self, numbers: Ints) -> Ints:
        """Rows go; returns what they were."""
        found: Ints = self.columns[:, numbers]
        for index in self._indexes.values():
            index.remove(numbers)
        self.there[numbers] = False
        self._free = np.concatenate([numbers, self._free])
        return found

    def having(self, key: int, values: Ints) -> Ints:
        """The numbers of the rows that have one of these different values in a column."""
        groups, total = self._indexes[key].find([values], values.size)
        return self._indexes[key].expand(groups, total)[1]
