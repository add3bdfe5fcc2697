"""The triples of a window as rows that hold during [since, until), in evaluations of a batch counted from 0.

A row that is in the window when the batch begins has since -1; one that is in it after the last evaluation has until
DISTANT_FUTURE. A join over such rows finds the solutions of all evaluations of the batch at once.
"""

from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Ints, grown
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.engine.native import slot_kernels
from freshkeeper.maintenance.engine.native.columns import Columns
from freshkeeper.maintenance.engine.native.triple_slots import TripleSlots, column


@dataclass(eq=False)
class IntervalRows(TripleSlots):
    """The content of one window during a batch; a slot is a row."""

    since: Ints = field(default_factory=column)
    until: Ints = field(default_factory=column)
    held_rows: Ints = field(default_factory=lambda: NO_INTS)
    """all rows, once the batch has been entered"""

    @property
    def slots(self) -> Ints:
        return self.held_rows

    def release(self) -> None:
        """Free the rows that ended during the last batch."""
        over = self.until[self.held_rows] < DISTANT_FUTURE
        gone, self.held_rows = self.held_rows[over], self.held_rows[~over]
        if not gone.size:
            return
        slot_kernels.forget(self._table, self.terms, gone)
        for index in self.indexes.values():
            index.remove(gone)
        self._free = np.concatenate([self._free, gone])

    def enter(self, came: Columns, since: Ints, until: Ints, latest: Ints) -> None:
        """Add arrivals with the evaluations in which they are held; a repeated triple extends its row."""
        self._make_room(len(came))
        added = np.empty(len(came), np.int64)
        new = slot_kernels.enter_during(
            self._table, self.terms, self.since, self.until, self.latest, self._free, self.width,
            came.s, came.p, came.o, since, until, latest, added,
        )  # fmt: skip
        self._fill(new)
        self.added = added[:new]
        self.held_rows = np.concatenate([self.held_rows, self.added])
        for positions, index in self.indexes.items():
            index.add(self.added, [self.terms[n, self.added] for n in positions])

    def renew(self) -> None:
        """Treat the whole content as added by the batch, at its first evaluation."""
        self.since[self.held_rows] = np.maximum(self.since[self.held_rows], 0)
        self.added = self.held_rows[self.until[self.held_rows] > 0]

    def is_new(self) -> Bools:
        """Return, by row, whether the batch added it."""
        found = np.zeros(self.width, bool)
        found[self.added] = True
        return found

    def changes(self, count: int) -> Bools:
        """Return, by evaluation of the batch, whether a row began or ended."""
        found = np.zeros(count, bool)
        found[self.since[self.added]] = True
        ends = self.until[self.held_rows]
        found[ends[ends < DISTANT_FUTURE]] = True
        return found

    def _make_room(self, more: int) -> None:
        super()._make_room(more)
        width = self.width + more
        self.since, self.until = grown(self.since, width), grown(self.until, width)
