"""The content of a window, updated by difference: over time, over everything, over the last elements.

A window's content is a set of triples: one that arrives again is stored once, with its latest time. Elements wait until
the window moves; a move reports what entered and what left. A window with a step moves at its own instants t0 + k·β and
keeps its content in between; one without a step is up to date at every evaluation.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from pyoxigraph import DefaultGraph, NamedNode, Quad

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.times import DISTANT_FUTURE, DISTANT_PAST
from freshkeeper.maintenance.query.model import StreamWindow, WindowKind
from freshkeeper.maintenance.streams.batch import TimedElements, as_batch, in_graph


@dataclass(frozen=True, eq=False)
class WindowMove:
    """The changes of one move of a window: triples as quads, or as the slots that store them."""

    added: Sequence[Quad] | Ints = ()
    removed: Sequence[Quad] | Ints = ()
    closed: bool = False
    """the window closed exactly at this evaluation time"""

    @property
    def changed(self) -> bool:
        """True if the window's content differs from before."""
        return bool(len(self.added) or len(self.removed))


NO_MOVE = WindowMove()


class WindowStore(Protocol):
    """Triples with their latest arrival time, in order of arrival."""

    def __len__(self) -> int: ...

    @property
    def oldest(self) -> int | None:
        """The time of the oldest arrival in the window."""
        ...

    def time_of(self, quad: Quad) -> int | None:
        """Return the latest arrival time of a triple, or None if it is not in the window."""
        ...

    def add(self, elements: TimedElements) -> None:
        """Add elements; a triple that is in the window already gets the new time."""
        ...

    def remove_before(self, before: int) -> None:
        """Remove triples whose latest arrival is before a time."""
        ...

    def keep_last(self, most: int) -> None:
        """Keep only the last `most` arrivals; a triple leaves with its last arrival."""
        ...

    def take_move(self, closed: bool) -> WindowMove:
        """Return what came and went since the last call; a triple that left and came back counts as neither."""
        ...


@dataclass(eq=False)
class QuadWindowStore:
    """A window's triples as quads of the window's graph."""

    graph: NamedNode | DefaultGraph
    kind: WindowKind = WindowKind.TIME
    """over ELEMENTS a triple leaves with its last arrival, not by its latest time; from ALL nothing leaves"""
    latest: dict[Quad, int] = field(default_factory=dict)
    """the latest arrival time of every triple"""
    _arrivals: deque[tuple[int, Quad]] = field(default_factory=deque)
    _copies: dict[Quad, int] = field(default_factory=dict)
    _added: list[Quad] = field(default_factory=list)
    _removed: list[Quad] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.latest)

    @property
    def oldest(self) -> int | None:
        return self._arrivals[0][0] if self._arrivals else None

    def time_of(self, quad: Quad) -> int | None:
        return self.latest.get(quad)

    def add(self, elements: TimedElements) -> None:
        batch = as_batch(elements)
        latest, quads = self.latest, batch.quads if batch.graph == self.graph else in_graph(batch.quads, self.graph)
        self._added += [quad for quad in quads if quad not in latest]
        latest.update(zip(quads, batch.times, strict=True))
        # Nothing leaves a window over ALL, so it needs its first arrival only, for `oldest`.
        if self.kind is not WindowKind.ALL or not self._arrivals:
            self._arrivals.extend(zip(batch.times, quads, strict=True))
        if self.kind is WindowKind.ELEMENTS:
            for quad in quads:
                self._copies[quad] = self._copies.get(quad, 0) + 1

    def remove_before(self, before: int) -> None:
        arrivals, latest = self._arrivals, self.latest
        while arrivals and arrivals[0][0] < before:
            time, quad = arrivals.popleft()
            if latest.get(quad) == time:
                del latest[quad]
                self._removed.append(quad)

    def keep_last(self, most: int) -> None:
        while len(self._arrivals) > most:
            _, quad = self._arrivals.popleft()
            self._copies[quad] -= 1
            if not self._copies[quad]:
                del self._copies[quad], self.latest[quad]
                self._removed.append(quad)

    def take_move(self, closed: bool) -> WindowMove:
        added, removed, self._added, self._removed = self._added, self._removed, [], []
        added = list(dict.fromkeys(added))  # one batch may contain a triple twice
        if added and removed:
            both = set(added) & set(removed)
            added, removed = ([quad for quad in each if quad not in both] for each in (added, removed))
        return WindowMove(added, removed, closed)


@dataclass(eq=False)
class WindowState(ABC):
    """The state of one window; subclasses define when elements enter and leave."""

    window: StreamWindow
    start: int
    """t0 in milliseconds"""
    store: WindowStore
    """the triples, in the window's graph"""
    last_move: int = DISTANT_PAST
    """the time of the last move"""
    _pending: deque[TimedElements] = field(default_factory=deque)

    @property
    def graph(self) -> NamedNode | DefaultGraph:
        """The graph of the dataset that has the window's triples."""
        return graph_of(self.window)

    def receive(self, elements: TimedElements) -> None:
        """Queue elements, in time order, for the next move."""
        self._pending.append(elements)

    def discard(self) -> None:
        """Drop the queued elements."""
        self._pending.clear()

    def begin(self, first: int) -> None:
        """Learn the time of the first element over all streams of the query."""
        del first

    def trigger(self) -> int | None:
        """Return the next time at which this window calls for an evaluation, or None if unknown."""
        return self.next_arrival

    @abstractmethod
    def move(self, now: int) -> WindowMove:
        """Bring the window up to date for an evaluation at `now` and return what changed."""

    @abstractmethod
    def bounds(self) -> tuple[int, int]:
        """Return the open and close time of the present content."""

    def expiry(self, time: int) -> int:
        """Return the first time at which an element of this time has left the window."""
        del time
        return DISTANT_FUTURE

    @property
    def empty(self) -> bool:
        """True if the window holds nothing and no element is queued."""
        return not len(self.store) and not self._pending

    @property
    def next_arrival(self) -> int | None:
        """The time of the first element that is queued; None if none is."""
        return int(self._pending[0].times[0]) if self._pending else None

    def _take_queued(self, until: int, oldest: int = DISTANT_PAST) -> None:
        """Move queued elements with oldest <= time < until into the window; drop older ones."""
        while self._pending and self._pending[0].times[0] < until:
            batch = self._pending.popleft()
            cut, begin = bisect_left(batch.times, until), bisect_left(batch.times, oldest)
            if cut < len(batch):
                self._pending.appendleft(batch.part(cut, len(batch)))
            if begin < cut:
                self.store.add(batch.part(begin, cut))


def graph_of(window: StreamWindow) -> NamedNode | DefaultGraph:
    """Return the graph of a window's triples: the default graph if the window is merged."""
    return NamedNode(window.name) if window.is_named else DefaultGraph()


class TimeWindow(WindowState):
    """The interval (t − ω, t] or [t − ω, t), moved every β or, without a step, at every evaluation.

    NOW is a window with a range of 1 ms.
    """

    @cached_property
    def _later(self) -> int:
        """Milliseconds between the time of an element and its entry: the lag, plus 1 if the end is excluded."""
        right_open = self.window.closure is Closure.RIGHT_OPEN and self.window.kind is WindowKind.TIME
        return self.window.lag + int(right_open)

    def begin(self, first: int) -> None:
        """Place the first move at the first t_k = t0 + k·β, k ≥ 1, at or after the first element."""
        if self.window.step is not None and self.last_move == DISTANT_PAST:
            # -(-a // b) rounds up.
            k = max(1, -(-(first - self.start) // self.window.step))
            self.last_move = self.start + (k - 1) * self.window.step

    def trigger(self) -> int | None:
        if self.window.step is None:
            waiting = super().trigger()
            return None if waiting is None else waiting + self._later
        return self.last_move + self.window.step if self.last_move != DISTANT_PAST else None

    def reached(self, now: int) -> int | None:
        """Return the window's last own instant at or before `now`, or None if it has moved there already."""
        if self.window.step is None:
            return now
        if self.last_move == DISTANT_PAST or now < self.last_move + self.window.step:
            return None
        return self.start + (now - self.start) // self.window.step * self.window.step

    def move(self, now: int) -> WindowMove:
        if (to := self.reached(now)) is None:
            return NO_MOVE
        until = to + 1 - self._later
        oldest = until - (self.window.range or 0)
        self.store.remove_before(oldest)
        self._take_queued(until, oldest)
        self.last_move = to
        return self.store.take_move(self.window.step is not None and to == now)

    def bounds(self) -> tuple[int, int]:
        end = self.last_move - self.window.lag
        return end - (self.window.range or 0), end

    def expiry(self, time: int) -> int:
        return time + (self.window.range or 0) + self._later


class UnboundedWindow(WindowState):
    """Every element so far; nothing leaves."""

    def move(self, now: int) -> WindowMove:
        self._take_queued(now + 1)
        self.last_move = now
        return self.store.take_move(False)

    def bounds(self) -> tuple[int, int]:
        oldest = self.store.oldest
        return (self.last_move if oldest is None else oldest), self.last_move


class CountWindow(WindowState):
    """The last n elements, moved whenever m more have arrived, also several times within one instant."""

    def trigger(self) -> int | None:
        missing = self.window.step or 1
        for batch in self._pending:
            if missing <= len(batch):
                return int(batch.times[missing - 1])
            missing -= len(batch)
        return None

    def move(self, now: int) -> WindowMove:
        due = self.trigger()
        if due is None or due > now:
            return NO_MOVE
        missing = self.window.step or 1
        while missing:
            batch = self._pending.popleft()
            if len(batch) > missing:
                self._pending.appendleft(batch.part(missing, len(batch)))
                batch = batch.part(0, missing)
            missing -= len(batch)
            self.store.add(batch)
        self.store.keep_last(self.window.range or 0)
        self.last_move = due
        return self.store.take_move(True)

    def bounds(self) -> tuple[int, int]:
        oldest = self.store.oldest
        return (self.last_move if oldest is None else oldest), self.last_move


def window_state(window: StreamWindow, start: int, held: WindowStore | None = None) -> WindowState:
    """Create the state of a window by its kind; triples are stored as quads unless another store is given."""
    t0 = start if window.t0 is None else window.t0
    triples = held
    if triples is None:
        triples = QuadWindowStore(graph_of(window), window.kind)
    if window.kind is WindowKind.ELEMENTS:
        return CountWindow(window, t0, triples)
    if window.kind is WindowKind.ALL:
        return UnboundedWindow(window, t0, triples)
    return TimeWindow(window, t0, triples)
