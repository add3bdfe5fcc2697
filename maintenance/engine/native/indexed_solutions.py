"""Solutions of what windows hold, found by the triples that they are made of: a change costs what it changes."""

from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Ints
from freshkeeper.maintenance.engine.native.indexed_rows import IndexedRows
from freshkeeper.maintenance.engine.native.solution_table import SolutionTable
from freshkeeper.maintenance.engine.native.window_slots import HeldSlots


@dataclass(eq=False)
class IndexedSolutions(SolutionTable):
    """What `SolutionTable` is, but that a solution keeps its number; that of one that is gone is used again."""

    touched: list[Ints] = field(default_factory=list)
    """the numbers of solutions that came, or of which a triple was renewed, until somebody clears it"""
    came: list[Ints] = field(default_factory=list)
    """of those that came"""

    def __post_init__(self) -> None:
        """A row has values, then the slots of its triples, by which it is found, then notes."""
        values, slots = len(self.variables), len(self.holders)
        self.rows = IndexedRows(values + slots + self.notes, range(values, values + slots))

    @property
    def values(self) -> Ints:
        """Ids, variables × numbers; those of numbers that are free mean nothing."""
        return self.rows.columns[: len(self.variables), : self.rows.size]

    @property
    def slots(self) -> Ints:
        """The triples that each is made of, patterns × numbers."""
        return self.rows.columns[len(self.variables) :, : self.rows.size][: len(self.holders)]

    @property
    def noted(self) -> Ints:
        """Notes × numbers; they may be written."""
        return self.rows.columns[len(self.variables) + len(self.holders) :, : self.rows.size]

    def add(self, values: Ints, slots: Ints) -> None:
        """Add solutions, under numbers that are free or new."""
        noted = np.full((self.notes, values.shape[1]), -1)
        numbers = self.rows.add(np.concatenate([values, slots, noted]))
        self.noted[-1, numbers] = numbers
        self.touched.append(numbers)
        self.came.append(numbers)

    def drop(self, held: HeldSlots) -> tuple[Ints, Ints]:
        """Those with a slot that was freed go; returns what they bound and what was noted, last their numbers."""
        found = self.rows.remove(self._with(held, held.removed))
        return found[: len(self.variables)], found[len(self.variables) + len(self.holders) :]

    def clear(self) -> tuple[Ints, Ints]:
        """Take all solutions out; gives their values and their notes."""
        found = self.rows.remove(self.rows.numbers)
        return found[: len(self.variables)], found[len(self.variables) + len(self.holders) :]

    def renewed(self, held: HeldSlots) -> None:
        """Triples have come in a window's last move."""
        self.touched.append(self._with(held, np.unique(held.came)))

    def mark(self, live: Bools) -> None:
        """The ids that are kept."""
        ids = self.values[:, self.rows.numbers]
        live[ids[ids >= 0]] = True

    def _with(self, held: HeldSlots, slots: Ints) -> Ints:
        """Numbers of the solutions with one of these slots."""
        first = len(self.variables)
        own = [first + n for n, holder in enumerate(self.holders) if holder is held]
        return np.unique(np.concatenate([NO_INTS, *(self.rows.having(column, slots) for column in own)]))
