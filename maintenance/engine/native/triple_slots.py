"""Triples in columns of ids: each has a slot while it is held, found by a hash table; freed slots are used again."""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Ints, grown
from freshkeeper.maintenance.engine.native import slot_kernels
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.group_index import SMALLEST, GroupIndex

Positions = tuple[int, ...]
"""Positions in a triple: subject (0), predicate (1), object (2)."""


def column() -> Ints:
    """Return a new, empty column."""
    return np.empty(SMALLEST, np.int64)


@dataclass(eq=False)
class TripleSlots(ABC):
    """The content of a window, with one index for each set of positions that some plan binds."""

    dictionary: Dictionary
    _: KW_ONLY
    terms: Ints = field(default_factory=lambda: np.empty((3, SMALLEST), np.int64))
    """subject, predicate and object by slot"""
    latest: Ints = field(default_factory=column)
    """by slot: time or ordinal of the last arrival"""
    width: int = 0
    """the number of slots, including free ones"""
    added: Ints = field(default_factory=lambda: NO_INTS)
    """the slots that the last move, or batch, filled"""
    indexes: dict[Positions, GroupIndex] = field(default_factory=dict)
    _table: Ints = field(default_factory=lambda: np.full(SMALLEST, -1, np.int64))
    _used: int = 0
    _free: Ints = field(default_factory=lambda: NO_INTS)

    def __post_init__(self) -> None:
        """Let the dictionary keep the ids of the content."""
        self.dictionary.hold(self._mark)

    @property
    @abstractmethod
    def slots(self) -> Ints:
        """The slots that hold a triple."""

    def index(self, positions: Positions) -> GroupIndex:
        """Return the index by the terms at these positions; it is built on first use."""
        if positions not in self.indexes:
            self.indexes[positions] = index = GroupIndex()
            held = self.slots
            index.add(held, [self.terms[n, held] for n in positions])
        return self.indexes[positions]

    def _make_room(self, more: int) -> None:
        width = self.width + more
        self.terms, self.latest = grown(self.terms, width, axis=-1), grown(self.latest, width)
        if 2 * (self._used + more) > self._table.size:
            held = self.slots
            self._table = np.full(1 << (4 * (held.size + more)).bit_length(), -1, np.int64)
            slot_kernels.refill(self._table, self.terms, held)
            self._used = held.size

    def _fill(self, new: int) -> None:
        """Record that `new` slots were taken: free ones first, then new ones."""
        self.width += max(0, new - self._free.size)
        self._free = self._free[: max(0, self._free.size - new)]
        self._used += new

    def _mark(self, live: Bools) -> None:
        live[self.terms[:, self.slots].ravel()] = True
