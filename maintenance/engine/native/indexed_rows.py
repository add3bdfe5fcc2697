"""Rows with stable numbers, indexed by some of their columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Ints, grown
from freshkeeper.maintenance.engine.native.group_index import GroupIndex


@dataclass(eq=False)
class IndexedRows:
    """A table in which a change costs only what changes; numbers of removed rows are used again."""

    width: int
    """the number of columns"""
    keys: Sequence[int]
    """the columns that are indexed"""
    columns: Ints = field(init=False)
    there: Bools = field(init=False)
    """by number: whether there is such a row"""
    size: int = 0
    """how many numbers have ever been in use"""
    _free: Ints = field(default_factory=lambda: NO_INTS)

    def __post_init__(self) -> None:
        self.columns, self.there = np.empty((self.width, 0), np.int64), np.empty(0, bool)
        self._indexes = {key: GroupIndex() for key in self.keys}

    @property
    def numbers(self) -> Ints:
        """The numbers of all rows."""
        return np.flatnonzero(self.there[: self.size])

    def add(self, rows: Ints) -> Ints:
        """Add rows and return their numbers."""
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
        """Remove rows and return their content."""
        found: Ints = self.columns[:, numbers]
        for index in self._indexes.values():
            index.remove(numbers)
        self.there[numbers] = False
        self._free = np.concatenate([numbers, self._free])
        return found

    def having(self, key: int, values: Ints) -> Ints:
        """Return the numbers of the rows that have one of these distinct values in a column."""
        groups, total = self._indexes[key].find([values], values.size)
        return self._indexes[key].expand(groups, total)[1]
