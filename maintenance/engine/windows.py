"""The content of a window, updated by difference: over time, over everything, over the last elements.

A window's content is a set of triples: one that arrives again is stored once, with its latest time. Elements wait until
the window moves; a move reports what entered and what left. A window with a step moves at its own instants t0 + k·β and
keeps its content in between; one without a step is up to date at every evaluation.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.times import DISTANT_FUTURE, DISTANT_PAST
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import Columns
from freshkeeper.maintenance.engine.columns.window_slots import NO_MOVE, ColumnWindowStore, WindowMove
from freshkeeper.maintenance.engine.evaluator import Term
from freshkeeper.maintenance.engine.stored_literals import stored_term
from freshkeeper.maintenance.query.model import Query, StreamWindow, WindowKind


@dataclass(eq=False)
class WindowQuads:
    """The triples of a window as quads of its graph, kept up to date by difference."""

    store: ColumnWindowStore
    graph: NamedNode | DefaultGraph
    """the graph of the dataset that has the triples: the default graph if the window is merged"""
    _quads: dict[int, Quad] = field(default_factory=dict)
    _slots: dict[Quad, int] = field(default_factory=dict)

    def follow(self, move: WindowMove) -> tuple[list[Quad], list[Quad]]:
        """Take in a move; return the quads that left and those that came."""
        removed = [self._quads.pop(slot) for slot in move.removed.tolist()]
        for quad in removed:
            del self._slots[quad]
        dictionary, slots = self.store.dictionary, move.added.tolist()
        with dictionary.lock:
            parts = [dictionary.terms(self.store.terms[n, move.added]) for n in range(3)]
        added = [Quad(s, p, o, self.graph) for s, p, o in zip(*parts, strict=True)]
        self._quads.update(zip(slots, added, strict=True))
        self._slots.update(zip(added, slots, strict=True))
        return removed, added

    def latest_time(self, s: Term | None, p: Term | None, o: Term | None) -> int | None:
        """Return the latest arrival time of a triple, or None if the window does not hold it."""
        if not (isinstance(s, NamedNode | BlankNode) and isinstance(p, NamedNode) and o is not None):
            return None
        slot = self._slots.get(Quad(s, p, o, self.graph))
        if slot is None:
            # The query may write a literal in another lexical form than the store ("01" and "1").
            slot = self._slots.get(Quad(s, p, stored_term(o), self.graph))
        return None if slot is None else int(self.store.latest[slot])


@dataclass(eq=False)
class WindowState(ABC):
    """The state of one window; subclasses define when elements enter and leave."""

    window: StreamWindow
    start: int
    """t0 in milliseconds"""
    store: ColumnWindowStore
    last_move: int = DISTANT_PAST
    """the time of the last move"""
    _pending: deque[Columns] = field(default_factory=deque)
    _received: Columns | None = None

    @cached_property
    def quads(self) -> WindowQuads:
        """The content as quads, for a snapshot."""
        return WindowQuads(self.store, NamedNode(self.window.name) if self.window.is_named else DefaultGraph())

    def receive(self, elements: Columns) -> None:
        """Queue elements, in time order, for the next move; each query of a shared window passes them on."""
        if elements is not self._received:
            self._received = elements
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
            begin, cut = np.searchsorted(batch.times, [oldest, until]).tolist()
            if cut < len(batch):
                self._pending.appendleft(batch.part(cut, len(batch)))
            if begin < cut:
                self.store.add(batch.part(begin, cut))


class TimeWindow(WindowState):
    """The interval (t − ω, t] or [t − ω, t), moved every β or, without a step, at every evaluation.

    NOW is a window with a range of 1 ms.
    """

    shared: bool = False
    """several queries, each evaluated once per instant, ask for every move"""
    _moved_at: int = DISTANT_PAST
    """the time of the evaluation that moved it last"""
    _last: WindowMove = NO_MOVE

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

    def _reached(self, now: int) -> int | None:
        """Return the window's last own instant at or before `now`, or None if it has moved there already."""
        if self.window.step is None:
            return now
        if self.last_move == DISTANT_PAST or now < self.last_move + self.window.step:
            return None
        return self.start + (now - self.start) // self.window.step * self.window.step

    def move(self, now: int) -> WindowMove:
        if self.shared and now == self._moved_at:
            return self._last
        to = self._reached(now)
        if to is None:
            return NO_MOVE
        until = to + 1 - self._later
        oldest = until - (self.window.range or 0)
        self.store.remove_before(oldest)
        self._take_queued(until, oldest)
        self.last_move = to
        self._moved_at = now
        self._last = self.store.take_move(self.window.step is not None and to == now)
        return self._last

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


Key = tuple[StreamWindow, int, frozenset[str], int]
"""The window without its name, t0, the streams that determine when its query begins, and its rank among equals."""


@dataclass(eq=False)
class SharedWindows:
    """The windows that several queries may still share, because no element has entered yet.

    Queries that are always evaluated together move a shared window together: the first to be evaluated moves it, and
    the others see the same move. Only windows of queries without SERVICE that start with the same element are shared,
    if all of them are time windows with a step, so that a query is evaluated once per instant. A query that is
    registered later starts with empty windows of its own.
    """

    _shared: dict[Key, TimeWindow] = field(default_factory=dict)

    def windows(self, query: Query, start: int, dictionary: Dictionary) -> Sequence[WindowState]:
        """Return the windows of a query, shared with other queries if possible."""
        stepping = all(window.kind is WindowKind.TIME and window.step is not None for window in query.windows)
        if query.times.every is not None or not stepping:
            return windows_of(query, start, dictionary)
        streams = frozenset(window.stream for window in query.windows)
        found: list[WindowState] = []
        ranks = Counter[StreamWindow]()
        for window in query.windows:
            plain = replace(window, name="", is_named=True)
            key = plain, start, streams, ranks[plain]
            ranks[plain] += 1
            if key not in self._shared:
                state = window_state(window, start, dictionary)
                assert isinstance(state, TimeWindow)
                state.shared = True
                self._shared[key] = state
            found.append(self._shared[key])
        return found

    def close(self) -> None:
        """Stop sharing: elements have arrived, so queries that start now need windows of their own."""
        self._shared.clear()


def windows_of(
    query: Query, start: int, dictionary: Dictionary, shared: SharedWindows | None = None
) -> Sequence[WindowState]:
    """Return the windows of a query, with ids of a dictionary."""
    if shared is not None:
        return shared.windows(query, start, dictionary)
    return [window_state(window, start, dictionary) for window in query.windows]


def window_state(window: StreamWindow, start: int, dictionary: Dictionary) -> WindowState:
    """Create the state of a window by its kind."""
    t0, store = start if window.t0 is None else window.t0, ColumnWindowStore(dictionary, window.kind)
    if window.kind is WindowKind.ELEMENTS:
        return CountWindow(window, t0, store)
    if window.kind is WindowKind.ALL:
        return UnboundedWindow(window, t0, store)
    return TimeWindow(window, t0, store)
