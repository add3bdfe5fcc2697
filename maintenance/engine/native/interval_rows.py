"""Triples of a window as rows that hold during [since, until), in evaluations of one batch, counted from 0.

What is held when a batch begins holds since -1; what its last evaluation still holds holds until FAR. So a join finds
the solutions of all evaluations of a batch at once.
"""

from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Ints, grown
from freshkeeper.maintenance.engine.native import slot_kernels
from freshkeeper.maintenance.engine.native.columns import Columns
from freshkeeper.maintenance.engine.native.triple_slots import TripleSlots, column

FAR = 2**62
"""Beyond the last evaluation of the batch."""


@dataclass(eq=False)
class IntervalRows(TripleSlots):
    """What one window holds during a batch; a slot is a row."""

    since: Ints = field(default_factory=column)
    until: Ints = field(default_factory=column)
    held: Ints = field(default_factory=lambda: NO_INTS)
    """all rows, once the batch is in"""

    @property
    def slots(self) -> Ints:
        """The slots of all rows that are held."""
        return self.held

    def release(self) -> None:
        """What the last batch has seen the end of goes."""
        over = self.until[self.held] < FAR
        gone, self.held = self.held[over], self.held[~over]
        if not gone.size:
            return
        slot_kernels.forget(self._table, self.terms, gone)
        for index in self.indexes.values():
            index.remove(gone)
        self._free = np.concatenate([self._free, gone])

    def enter(self, came: Columns, since: Ints, until: Ints, latest: Ints) -> None:
        """Arrivals with the evaluations that have them; one of a triple that is held makes it stay."""
        self._make_room(len(came))
        added = np.empty(len(came), np.int64)
        new = slot_kernels.enter_during(
            self._table, self.terms, self.since, self.until, self.latest, self._free, self.width,
            came.s, came.p, came.o, since, until, latest, added,
        )  # fmt: skip
        self._fill(new)
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
        super()._make_room(more)
        width = self.width + more
        self.since, self.until = grown(self.since, width), grown(self.until, width)
