"""What a window holds, kept up to date by difference; the kinds of windows are in `kinds.py`.

A window's content is a set of triples: one that arrives again is held once, with its latest time. Elements wait until
the window moves; a move says what entered and what left. A window with a step moves at its own instants t0 + k·β and
keeps what it holds in between; one without a step is up to date at every evaluation.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

from pyoxigraph import DefaultGraph, NamedNode

from freshkeeper.maintenance.engine.held_triples import Held, Move
from freshkeeper.maintenance.query.model import Window
from freshkeeper.maintenance.streams.batch import Timed

NEVER = -(2**62)
FOREVER = 2**62


@dataclass(eq=False)
class Content(ABC):
    """The content of one window: what all kinds share."""

    window: Window
    start: int
    """t0"""
    held: Held
    """the triples, in the window's graph"""
    moved: int = NEVER
    """the instant of the last move"""
    _pending: deque[Timed] = field(default_factory=deque)

    @property
    def graph(self) -> NamedNode | DefaultGraph:
        """Where its triples are in the dataset."""
        return graph_of(self.window)

    def receive(self, elements: Timed) -> None:
        """Elements in order; they wait for the next move."""
        self._pending.append(elements)

    def discard(self) -> None:
        """Elements that wait are none after all."""
        self._pending.clear()

    def begin(self, first: int) -> None:
        """The first element of all the query's streams has this time."""
        del first

    def trigger(self) -> int | None:
        """The next instant at which this window calls for an evaluation, as far as it knows now."""
        return int(self._pending[0].times[0]) if self._pending else None

    @abstractmethod
    def move(self, now: int) -> Move:
        """Be up to date at an evaluation."""

    @abstractmethod
    def bounds(self) -> tuple[int, int]:
        """Open and close of the present content."""

    def expiry(self, time: int) -> int:
        """The first instant at which an element of this time is no longer held."""
        del time
        return FOREVER

    @property
    def empty(self) -> bool:
        """Whether nothing is held and nothing waits."""
        return not len(self.held) and not self._pending

    def _take(self, until: int, after: int = NEVER) -> None:
        """Elements that waited with time < `until` come in; those before `after` are over already."""
        while self._pending and self._pending[0].times[0] < until:
            batch = self._pending.popleft()
            cut, begin = bisect_left(batch.times, until), bisect_left(batch.times, after)
            if cut < len(batch):
                self._pending.appendleft(batch.part(cut, len(batch)))
            if begin < cut:
                self.held.enter(batch.part(begin, cut))


def graph_of(window: Window) -> NamedNode | DefaultGraph:
    """A merged window's triples are in the default graph."""
    return NamedNode(window.name) if window.named else DefaultGraph()
