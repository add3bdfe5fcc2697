"""The triples of a window in columns: each has a slot while it is in the window, found by a hash table.

TripleSlots         triples by slot, with one index for each set of positions that some plan binds
ColumnWindowStore   moves from evaluation to evaluation, with the queue of its arrivals
IntervalRows        rows held during [since, until), in evaluations of a batch counted from 0

A join over rows with intervals finds the solutions of all evaluations of the batch at once.
"""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Ints, grown
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.engine.columns import slot_kernels
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import Columns
from freshkeeper.maintenance.engine.columns.group_index import SMALLEST, GroupIndex
from freshkeeper.maintenance.query.model import WindowKind

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


@dataclass(frozen=True, eq=False)
class WindowMove:
    """The slots that one move of a window filled and freed."""

    added: Ints
    removed: Ints
    closed: bool = False
    """the window closed exactly at this evaluation time"""

    @property
    def changed(self) -> bool:
        """True if the window's content differs from before."""
        return bool(self.added.size or self.removed.size)


NO_MOVE = WindowMove(NO_INTS, NO_INTS)


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
    """The triples of a window, each once, with its latest arrival time."""

    kind: WindowKind = WindowKind.TIME
    """over ELEMENTS a triple leaves with its last arrival, not by its latest time; from ALL nothing leaves"""
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
        """The time of the oldest arrival in the window."""
        if len(self._arrivals):
            return int(self._arrivals.times[self._arrivals.first])
        return None

    @property
    def slots(self) -> Ints:
        return np.flatnonzero(self._copies[: self.width] > 0)

    def add(self, came: Columns) -> None:
        """Add elements; a triple that is in the window already gets the new time."""
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
        # Nothing leaves a window over ALL, so it needs its first arrival only, for `oldest`.
        if self.kind is not WindowKind.ALL or not len(self._arrivals):
            self._arrivals.add(came.times, slots)

    def remove_before(self, before: int) -> None:
        """Remove triples whose latest arrival is before a time."""
        self._before = before
        self._going.append(self._arrivals.take(self._arrivals.before(before)))

    def keep_last(self, most: int) -> None:
        """Keep only the last `most` arrivals; a triple leaves with its last arrival."""
        slots = self._arrivals.take(max(0, len(self._arrivals) - most))
        gone = np.empty(slots.size, np.int64)
        self._going.append(gone[: slot_kernels.drop(slots, self._copies, gone)])

    def take_move(self, closed: bool) -> WindowMove:
        """Return what came and went since the last call; a triple that left and came back counts as neither."""
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
