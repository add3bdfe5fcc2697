"""Solutions over windows, indexed by the triples they are made of, so that a change costs only what it changes."""

from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Ints
from freshkeeper.maintenance.engine.native.indexed_rows import IndexedRows
from freshkeeper.maintenance.engine.native.solution_table import SolutionTable
from freshkeeper.maintenance.engine.native.window_slots import ColumnWindowStore


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
