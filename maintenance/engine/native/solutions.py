"""The solutions over the present windows, in columns: the ids they bind, and the slots of their triples.

IndexedSolutions finds those of a triple by an index, so that a change costs only what it changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Ints, grown
from freshkeeper.maintenance.engine.columns.group_index import GroupIndex
from freshkeeper.maintenance.engine.columns.window_slots import ColumnWindowStore


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


@dataclass(eq=False)
class IndexedSolutions(SolutionTable):
    """A `SolutionTable` whose solutions have stable numbers; numbers of removed ones are used again."""

    touched: list[Ints] = field(default_factory=list)
    """numbers of solutions that were added, or one of whose triples was renewed, until cleared by the user"""
    added: list[Ints] = field(default_factory=list)
    """numbers of solutions that were added, until cleared by the user"""

    def __post_init__(self) -> None:
        # A row has the values, then the slots of the solution's triples, which are indexed, then the notes.
        values, slots = len(self.variables), len(self.holders)
        self.rows = IndexedRows(values + slots + self.notes, range(values, values + slots))

    @property
    def values(self) -> Ints:
        """Ids, variables × numbers; columns of free numbers are undefined."""
        return self.rows.columns[: len(self.variables), : self.rows.size]

    @property
    def slots(self) -> Ints:
        """The slots of each solution's triples, patterns × numbers."""
        return self.rows.columns[len(self.variables) :, : self.rows.size][: len(self.holders)]

    @property
    def noted(self) -> Ints:
        """Notes × numbers, writable."""
        return self.rows.columns[len(self.variables) + len(self.holders) :, : self.rows.size]

    def add(self, values: Ints, slots: Ints) -> None:
        """Add solutions under free or new numbers."""
        noted = np.full((self.notes, values.shape[1]), -1)
        numbers = self.rows.add(np.concatenate([values, slots, noted]))
        self.noted[-1, numbers] = numbers
        self.touched.append(numbers)
        self.added.append(numbers)

    def drop(self, held: ColumnWindowStore) -> tuple[Ints, Ints]:
        """Remove solutions with a freed slot; return their values, and their notes with the numbers last."""
        found = self.rows.remove(self._with(held, held.removed))
        return found[: len(self.variables)], found[len(self.variables) + len(self.holders) :]

    def clear(self) -> tuple[Ints, Ints]:
        found = self.rows.remove(self.rows.numbers)
        return found[: len(self.variables)], found[len(self.variables) + len(self.holders) :]

    def renewed(self, held: ColumnWindowStore) -> None:
        """Note the solutions whose triples arrived in a window's last move."""
        self.touched.append(self._with(held, np.unique(held.arrived)))

    def mark(self, live: Bools) -> None:
        ids = self.values[:, self.rows.numbers]
        live[ids[ids >= 0]] = True

    def _with(self, held: ColumnWindowStore, slots: Ints) -> Ints:
        """Return the numbers of the solutions with one of these slots."""
        first = len(self.variables)
        own = [first + n for n, holder in enumerate(self.holders) if holder is held]
        return np.unique(np.concatenate([NO_INTS, *(self.rows.having(column, slots) for column in own)]))
