"""Windows that move with every element: determines in which evaluations of a batch each arrival is held."""

from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.times import DISTANT_FUTURE, DISTANT_PAST
from freshkeeper.maintenance.engine.columns.element_columns import Columns
from freshkeeper.maintenance.engine.columns.window_slots import IntervalRows
from freshkeeper.maintenance.query.model import StreamWindow, WindowKind

EMPTY: Ints = np.empty(0, np.int64)


@dataclass(eq=False)
class MovingWindow:
    """A window over time without a step, NOW, ALL, or over elements: its queue and its content."""

    window: StreamWindow
    rows: IntervalRows
    waiting: Columns | None = None
    seen: int = 0
    """number of elements that entered before those in the queue"""
    _first: int | None = None
    _opens: Ints = field(default_factory=lambda: EMPTY)
    _closes: Ints = field(default_factory=lambda: EMPTY)
    _ring: Ints = field(default_factory=lambda: EMPTY)
    """times of the last elements, in a count window"""
    _moved: int = DISTANT_PAST

    @property
    def counts(self) -> bool:
        """True for a count window."""
        return self.window.kind is WindowKind.ELEMENTS

    @property
    def later(self) -> int:
        """Milliseconds between the time of an element and its entry."""
        right_open = self.window.closure is Closure.RIGHT_OPEN and self.window.kind is WindowKind.TIME
        if self.window.kind in (WindowKind.ALL, WindowKind.ELEMENTS):
            return 0
        return self.window.lag + int(right_open)

    @property
    def step(self) -> int:
        """Elements per move of a count window."""
        return self.window.step or 1

    def receive(self, came: Columns) -> None:
        """Queue elements, in time order."""
        if self.waiting is None:
            self.waiting = came
        else:
            self.waiting = Columns.joined([self.waiting, came])

    def calls(self) -> Ints:
        """Return the evaluation times that the queue triggers, in order; for a count window one per move."""
        if self.waiting is None:
            return EMPTY
        if not self.counts:
            return self.waiting.times + self.later
        return self.waiting.times[self.step - 1 :: self.step]

    def begin_batch(self, ticks: Ints) -> None:
        """Enter the arrivals of a batch and determine during which evaluations each row is held."""
        rows, waiting = self.rows, self.waiting
        rows.release()
        rows.since[rows.held_rows] = -1
        places = self._moves(ticks)
        rows.until[rows.held_rows] = self._until(rows.latest[rows.held_rows], ticks, places)
        taken = self._consumed(ticks, places)
        came = None if waiting is None else waiting.part(0, taken)
        self._note_bounds(ticks, places, came)
        if came is None or waiting is None:
            rows.added = EMPTY
            return
        latest = self.seen + np.arange(taken) if self.counts else came.times
        if self.counts:
            since = places[np.arange(taken) // self.step]
        else:
            since = np.searchsorted(ticks, came.times + self.later)
        rows.enter(came, since, self._until(latest, ticks, places), latest)
        self.seen += taken
        if taken < len(waiting):
            self.waiting = waiting.part(taken, len(waiting))
        else:
            self.waiting = None

    def bounds(self, tick: int) -> tuple[int, int]:
        """Return open and close time at an evaluation of the batch."""
        return int(self._opens[tick]), int(self._closes[tick])

    def _moves(self, ticks: Ints) -> Ints:
        """Return the evaluations at which a count window moves; several moves at one time take successive ticks."""
        if not self.counts:
            return EMPTY
        due = self.calls()
        if ticks.size:
            due = due[: np.searchsorted(due, ticks[-1], "right")]
        else:
            due = due[:0]
        first = np.searchsorted(ticks, due)
        rank = np.arange(due.size) - np.searchsorted(due, due)
        found: Ints = first + rank
        return found

    def _consumed(self, ticks: Ints, places: Ints) -> int:
        if self.waiting is None or not ticks.size:
            return 0
        if self.counts:
            return places.size * self.step
        return int(np.searchsorted(self.waiting.times, ticks[-1] - self.later, "right"))

    def _until(self, latest: Ints, ticks: Ints, places: Ints) -> Ints:
        """Return the first evaluation at which an arrival is no longer held."""
        if self.window.kind is WindowKind.ALL:
            return np.full(latest.size, DISTANT_FUTURE)
        if self.counts:
            # An arrival leaves with the move that takes in the element `range` after it.
            move = (latest + (self.window.range or 0)) // self.step - self.seen // self.step
            known = np.append(places, DISTANT_FUTURE)
            return known[np.minimum(move, places.size)]
        found = np.searchsorted(ticks, latest + (self.window.range or 0) + self.later)
        return np.where(found < ticks.size, found, DISTANT_FUTURE)

    def _note_bounds(self, ticks: Ints, places: Ints, came: Columns | None) -> None:
        window, times = self.window, EMPTY if came is None else came.times
        if window.kind is WindowKind.ALL:
            if self._first is None and times.size:
                self._first = int(times[0])
            self._closes = ticks
            if self._first is None:
                self._opens = ticks
            else:
                self._opens = np.minimum(self._first, ticks)
        elif not self.counts:
            self._closes = ticks - window.lag
            self._opens = self._closes - (window.range or 0)
        else:
            self._note_counted(ticks, places, times)

    def _note_counted(self, ticks: Ints, places: Ints, times: Ints) -> None:
        """Record the times of the first and last element in a count window at every evaluation."""
        most = self.window.range or 0
        ring = np.concatenate([self._ring, times])
        before = self._ring.size
        moves = np.searchsorted(places, np.arange(ticks.size), "right")  # moves up to each evaluation
        ends = before + moves * self.step
        closes = np.append(self._moved, times[self.step - 1 :: self.step])[moves]
        first = np.maximum(0, ends - most)
        self._closes = closes
        self._opens = np.where(ends > first, np.append(ring, 0)[np.minimum(first, ring.size)], closes)
        self._ring = ring[max(0, ring.size - most) :]
        self._moved = int(closes[-1]) if closes.size else self._moved
