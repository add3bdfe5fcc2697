"""The column store of a window that moves from evaluation to evaluation, with the queue of its arrivals."""

from dataclasses import dataclass, field

import numpy as np
from pyoxigraph import Quad

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Ints, grown
from freshkeeper.maintenance.engine.held_triples import WindowMove
from freshkeeper.maintenance.engine.native import slot_kernels
from freshkeeper.maintenance.engine.native.columns import columns_of
from freshkeeper.maintenance.engine.native.group_index import SMALLEST
from freshkeeper.maintenance.engine.native.triple_slots import TripleSlots, column
from freshkeeper.maintenance.query.model import WindowKind
from freshkeeper.maintenance.streams.batch import TimedElements


@dataclass(eq=False)
class ArrivalQueue:
    """A queue of arrival times and slots, first in, first out."""

    times: Ints = field(default_factory=column)
    slots: Ints = field(default_factory=column)
    first: int = 0
    end: int = 0

    def __len__(self) -> int:
        return self.end - self.first

    def add(self, times: Ints, slots: Ints) -> None:
        """Append arrivals, none earlier than those in the queue."""
        if self.end + times.size > self.times.size:
            here = slice(self.first, self.end)
            times_, slots_ = self.times[here], self.slots[here]
            size = max(SMALLEST, 2 * (times_.size + times.size))
            self.times, self.slots = np.empty(size, np.int64), np.empty(size, np.int64)
            self.first, self.end = 0, times_.size
            self.times[: self.end], self.slots[: self.end] = times_, slots_
        end = self.end + times.size
        self.times[self.end : end], self.slots[self.end : end] = times, slots
        self.end = end

    def take(self, count: int) -> Ints:
        """Remove the first arrivals and return their slots."""
        self.first += count
        return self.slots[self.first - count : self.first]

    def before(self, time: int) -> int:
        """Return how many arrivals are before a time."""
        return int(np.searchsorted(self.times[self.first : self.end], time))


@dataclass(eq=False)
class ColumnWindowStore(TripleSlots):
    """The triples of a window in columns; does what `QuadWindowStore` does with quads."""

    kind: WindowKind = WindowKind.TIME
    removed: Ints = field(default_factory=lambda: NO_INTS)
    """the slots that the last move freed; their terms remain until the next move"""
    arrived: Ints = field(default_factory=lambda: NO_INTS)
    """the slots of all arrivals of the last move, including repeated triples"""
    _size: int = 0
    _copies: Ints = field(default_factory=column)
    _arrivals: ArrivalQueue = field(default_factory=ArrivalQueue)
    _before: int | None = None
    _going: list[Ints] = field(default_factory=list)
    _coming: list[Ints] = field(default_factory=list)
    _arrived: list[Ints] = field(default_factory=list)

    def __len__(self) -> int:
        return self._size

    @property
    def oldest(self) -> int | None:
        if len(self._arrivals):
            return int(self._arrivals.times[self._arrivals.first])
        return None

    @property
    def slots(self) -> Ints:
        return np.flatnonzero(self._copies[: self.width] > 0)

    def time_of(self, quad: Quad) -> int | None:
        s, p, o = self.dictionary.encode([quad.subject, quad.predicate, quad.object]).tolist()
        slot = slot_kernels.find(self._table, self.terms, s, p, o)
        return int(self.latest[slot]) if slot >= 0 else None

    def add(self, elements: TimedElements) -> None:
        came = columns_of(elements, self.dictionary)
        self._make_room(len(came))
        slots, added = np.empty(len(came), np.int64), np.empty(len(came), np.int64)
        new = slot_kernels.enter(
            self._table, self.terms, self.latest, self._copies, self._free, self.width,
            came.times, came.s, came.p, came.o, slots, added,
        )  # fmt: skip
        self._fill(new)
        self._size += new
        self._coming.append(added[:new])
        self._arrived.append(slots)
        if self.kind is not WindowKind.ALL or not len(self._arrivals):
            self._arrivals.add(came.times, slots)

    def remove_before(self, before: int) -> None:
        self._before = before
        self._going.append(self._arrivals.take(self._arrivals.before(before)))

    def keep_last(self, most: int) -> None:
        slots = self._arrivals.take(max(0, len(self._arrivals) - most))
        gone = np.empty(slots.size, np.int64)
        self._going.append(gone[: slot_kernels.drop(slots, self._copies, gone)])

    def take_move(self, closed: bool) -> WindowMove:
        going, added = _all(self._going), _all(self._coming)
        if self._before is not None:
            # Decided here, not in leave(): a triple may have arrived again within this move.
            going = _different(going[self.latest[going] < self._before], self.width)
        self.arrived = _all(self._arrived)
        self._going, self._coming, self._arrived, self._before = [], [], [], None
        slot_kernels.forget(self._table, self.terms, going)
        self._copies[going] = 0
        self._size -= going.size
        self._free = np.concatenate([self._free, going])
        self.added, self.removed = _apart(added, going, self.width)
        for positions, index in self.indexes.items():
            index.remove(self.removed)
            index.add(self.added, [self.terms[n, self.added] for n in positions])
        return WindowMove(self.added, self.removed, closed)

    def _make_room(self, more: int) -> None:
        super()._make_room(more)
        self._copies = grown(self._copies, self.width + more)

    def _mark(self, live: Bools) -> None:
        super()._mark(live)
        # Solutions refer to freed slots until the evaluation has dropped them.
        live[self.terms[:, self.removed].ravel()] = True


def _all(parts: list[Ints]) -> Ints:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else NO_INTS


def _different(slots: Ints, width: int) -> Ints:
    """Return distinct slots in order: sort a few, use a bitmap for many."""
    if slots.size < width // 64:
        return np.unique(slots)
    there = np.zeros(width, bool)
    there[slots] = True
    return np.flatnonzero(there)


def _apart(added: Ints, going: Ints, width: int) -> tuple[Ints, Ints]:
    """Remove the slots that are in both lists: what left and came back did neither."""
    if not added.size or not going.size:
        return added, going
    went = np.zeros(width, bool)
    went[going] = True
    passing = added[went[added]]
    if not passing.size:
        return added, going
    return added[~went[added]], going[~np.isin(going, passing)]
