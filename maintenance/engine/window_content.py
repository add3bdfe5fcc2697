"""The content of a window, updated by difference; window_kinds.py has the kinds of windows.

A window's content is a set of triples: one that arrives again is stored once, with its latest time. Elements wait until
the window moves; a move reports what entered and what left. A window with a step moves at its own instants t0 + k·β and
keeps its content in between; one without a step is up to date at every evaluation.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

from pyoxigraph import DefaultGraph, NamedNode

from freshkeeper.maintenance.base.times import DISTANT_FUTURE, DISTANT_PAST
from freshkeeper.maintenance.engine.held_triples import WindowMove, WindowStore
from freshkeeper.maintenance.query.model import StreamWindow
from freshkeeper.maintenance.streams.batch import TimedElements


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
