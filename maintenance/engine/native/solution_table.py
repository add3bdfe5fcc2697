"""The solutions of what windows hold now, in columns: the ids that they bind, the slots that they are made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ints, grown
from freshkeeper.maintenance.engine.native.window_slots import HeldSlots


@dataclass(eq=False)
class SolutionTable:
    """A solution is there as long as all its triples are."""

    variables: tuple[str, ...]
    holders: Sequence[HeldSlots]
    """where the slots of each row of `slots` are"""
    notes: int = 0
    """how many numbers are kept beside each solution, -1 at first"""
    size: int = 0
    _notes: Ints = field(init=False)
    _values: Ints = field(init=False)
    _slots: Ints = field(init=False)

    def __post_init__(self) -> None:
        self._values = np.empty((len(self.variables), 0), np.int64)
        self._slots = np.empty((len(self.holders), 0), np.int64)
        self._notes = np.empty((self.notes, 0), np.int64)

    @property
    def values(self) -> Ints:
        """Ids, variables × solutions."""
        return self._values[:, : self.size]

    @property
    def slots(self) -> Ints:
        """The triples that each is made of, patterns × solutions."""
        return self._slots[:, : self.size]

    @property
    def noted(self) -> Ints:
        """Notes × solutions; they may be written."""
        return self._notes[:, : self.size]

    def add(self, values: Ints, slots: Ints) -> None:
        """Add solutions behind those that are there."""
        end = self.size + values.shape[1]
        self._values, self._slots = grown(self._values, end, axis=-1), grown(self._slots, end, axis=-1)
        self._notes = grown(self._notes, end, axis=-1)
        self._values[:, self.size : end], self._slots[:, self.size : end] = values, slots
        self._notes[:, self.size : end] = -1
        self.size = end

    def drop(self, held: HeldSlots) -> tuple[Ints, Ints]:
        """Those with a slot that was freed go; returns what they bound, and what was noted of them."""
        if not held.removed.size or not self.size:
            return self.values[:, :0], self.noted[:, :0]
        gone = np.zeros(held.width, bool)
        gone[held.removed] = True
        lost = np.zeros(self.size, bool)
        for holder, slots in zip(self.holders, self.slots, strict=True):
            if holder is held:
                lost |= gone[slots]
        if not lost.any():
            return self.values[:, :0], self.noted[:, :0]
        found = self.values[:, lost], self.noted[:, lost]
        self._keep(~lost)
        return found

    def clear(self) -> tuple[Ints, Ints]:
        """All go; returns what they bound, and what was noted of them."""
        found = self.values.copy(), self.noted.copy()
        self.size = 0
        return found

    def mark(self, live: Bools) -> None:
        """The ids that are kept."""
        live[self.values[self.values >= 0]] = True

    def _keep(self, which: Bools) -> None:
        values, slots, notes = self.values[:, which], self.slots[:, which], self.noted[:, which]
        self.size = values.shape[1]
        self._notes[:, : self.size] = notes
        self._values[:, : self.size], self._slots[:, : self.size] = values, slots
