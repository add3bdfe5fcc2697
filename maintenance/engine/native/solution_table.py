"""The solutions over the present windows, in columns: the ids they bind, and the slots of their triples."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ints, grown
from freshkeeper.maintenance.engine.native.window_slots import ColumnWindowStore


@dataclass(eq=False)
class SolutionTable:
    """Solutions that are removed as soon as one of their triples leaves its window."""

    variables: tuple[str, ...]
    holders: Sequence[ColumnWindowStore]
    """the store that each row of `slots` refers to"""
    notes: int = 0
    """how many integers are attached to each solution, initially -1"""
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
        """The slots of each solution's triples, patterns × solutions."""
        return self._slots[:, : self.size]

    @property
    def noted(self) -> Ints:
        """The attached integers, notes × solutions; writable."""
        return self._notes[:, : self.size]

    def add(self, values: Ints, slots: Ints) -> None:
        """Append solutions."""
        end = self.size + values.shape[1]
        self._values, self._slots = grown(self._values, end, axis=-1), grown(self._slots, end, axis=-1)
        self._notes = grown(self._notes, end, axis=-1)
        self._values[:, self.size : end], self._slots[:, self.size : end] = values, slots
        self._notes[:, self.size : end] = -1
        self.size = end

    def drop(self, held: ColumnWindowStore) -> tuple[Ints, Ints]:
        """Remove the solutions with a freed slot; return their values and notes."""
        if not held.removed.size or not self.size:
            return self.values[:, :0], self.noted[:, :0]
        # A bitmap over slots tests all solutions with one gather per pattern.
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
        """Remove all solutions; return their values and notes."""
        found = self.values.copy(), self.noted.copy()
        self.size = 0
        return found

    def mark(self, live: Bools) -> None:
        """Set live[id] for the ids of all solutions."""
        live[self.values[self.values >= 0]] = True

    def _keep(self, which: Bools) -> None:
        values, slots, notes = self.values[:, which], self.slots[:, which], self.noted[:, which]
        self.size = values.shape[1]
        self._notes[:, : self.size] = notes
        self._values[:, : self.size], self._slots[:, : self.size] = values, slots
