"""Triples of a window as rows that hold during [since, until), in evaluations of one batch, counted from 0.

What is held when a batch begins holds since -1; what its last evaluation still holds holds until FAR. So a join finds
the solutions of all evaluations of a batch at once.
"""

from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.native import interval_kernels, slot_kernels
from freshkeeper.maintenance.native.columns import Columns
from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.group_index import SMALLEST, GroupIndex, longer
from freshkeeper.maintenance.native.window_slots import NONE, Positions
from freshkeeper.policies.arrays import Bools, Ints

FAR = 2**62
"""Beyond the last evaluation of the batch."""


def _column() -> Ints:
    return np.empty(SMALLEST, np.int64)


@dataclass(eq=False)
class IntervalRows:
    """What one window holds; joins ask its indexes."""

    dictionary: Dictionary
    terms: Ints = field(default_factory=lambda: np.empty((3, SMALLEST), np.int64))
    """subject, predicate and object by row"""
    since: Ints = field(default_factory=_column)
    until: Ints = field(default_factory=_column)
    latest: Ints = field(default_factory=_column)
    """the time, or the number, of the last arrival that the row stands for"""
    width: int = 0
    added: Ints = field(default_factory=lambda: NONE)
    """the rows that the batch brought"""
    held: Ints = field(default_factory=lambda: NONE)
    """all rows, once the batch is in"""
    indexes: dict[Positions, GroupIndex] = field(default_factory=dict)
    _table: Ints = field(default_factory=lambda: np.full(SMALLEST, -1, np.int64))
    _used: int = 0
    _free: Ints = field(default_factory=lambda: NONE)

    def __post_init__(self) -> None:
        """What is held keeps its ids."""
        self.dictionary.hold(self._mark)

    def index(self, positions: Positions) -> GroupIndex:
        """What is held, by the terms at these positions."""
        if positions not in self.indexes:
            self.indexes[positions] = index = GroupIndex()
            index.add(self.held, [self.terms[n, self.held] for n in positions])
        return self.indexes[positions]

    def release(self) -> None:
        """What the last batch has seen the end of goes."""
        over = self.until[self.held] < FAR
        gone, self.held = self.held[over], self.held[~over]
        if not gone.size:
            return
        interval_kernels.forget(self._table, self.terms, gone)
        for index in self.indexes.values():
            index.remove(gone)
        self._free = np.concatenate([self._free, gone])

    def enter(self, came: Columns, since: Ints, until: Ints, latest: Ints) -> None:
        """Arrivals with the evaluations that have them; one of a triple that is held makes it stay."""
        self._make_room(len(came))
        added = np.empty(len(came), np.int64)
        new = interval_kernels.enter(
            self._table, self.terms, self.since, self.until, self.latest, self._free, self.width,
            came.s, came.p, came.o, since, until, latest, added,
        )  # fmt: skip
        self.width += max(0, new - self._free.size)
        self._free = self._free[: max(0, self._free.size - new)]
        self._used += new
        self.added = added[:new]
        self.held = np.concatenate([self.held, self.added])
        for positions, index in self.indexes.items():
            index.add(self.added, [self.terms[n, self.added] for n in positions])

    def renew(self) -> None:
        """All that is held counts as brought by the batch, from its first evaluation on."""
        self.since[self.held] = np.maximum(self.since[self.held], 0)
        self.added = self.held[self.until[self.held] > 0]

    def is_new(self) -> Bools:
        """By row: whether the batch brought it."""
        found = np.zeros(self.width, bool)
        found[self.added] = True
        return found

    def changes(self, count: int) -> Bools:
        """By evaluation of the batch: whether something came or went."""
        found = np.zeros(count, bool)
        found[self.since[self.added]] = True
        ends = self.until[self.held]
        found[ends[ends < FAR]] = True
        return found

    def _make_room(self, more: int) -> None:
        width = self.width + more
        self.terms = longer(self.terms, width)
        self.since, self.until, self.latest = (longer(each, width) for each in (self.since, self.until, self.latest))
        if 2 * (self._used + more) > self._table.size:
            self._table = np.full(1 << (4 * (self.held.size + more)).bit_length(), -1, np.int64)
            slot_kernels.refill(self._table, self.terms, self.held)
            self._used = self.held.size

    def _mark(self, live: Bools) -> None:
        live[self.terms[:, self.held].ravel()] = True
