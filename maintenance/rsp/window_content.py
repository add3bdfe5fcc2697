"""What a window holds, kept up to date by difference; the kinds of windows are in `kinds.py`.

A window's content is a set of triples: one that arrives again is held once, with its latest time. Elements wait until
the window moves; a move says what entered and what left. A window with a step moves at its own instants t0 + k·β and
keeps what it holds in between; one without a step is up to date at every evaluation.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pyoxigraph import DefaultGraph, NamedNode, Quad

from freshkeeper.maintenance.query.model import Window
from freshkeeper.maintenance.streams.batch import Batch, Timed, as_batch, in_graph

NEVER = -(2**62)
FOREVER = 2**62


@dataclass(frozen=True, eq=False)
class Move:
    """What one move of a window did."""

    added: Sequence[Quad] = ()
    removed: Sequence[Quad] = ()
    closed: bool = False
    """whether the window closed at this very instant"""

    @property
    def changed(self) -> bool:
        """Whether the content is another one than before."""
        return bool(self.added or self.removed)


STILL = Move()


@dataclass(eq=False)
class Content(ABC):
    """The content of one window: what all kinds share."""

    window: Window
    start: int
    """t0"""
    latest: dict[Quad, int] = field(default_factory=dict)
    """every triple held, in the window's graph, and when it came last"""
    moved: int = NEVER
    """the instant of the last move"""
    _pending: deque[Batch] = field(default_factory=deque)
    _held: deque[tuple[int, Quad]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        """A merged window's triples are in the default graph."""
        self.graph = NamedNode(self.window.name) if self.window.named else DefaultGraph()

    def receive(self, elements: Timed) -> None:
        """Elements in order; they wait for the next move."""
        self._pending.append(as_batch(elements))

    def discard(self) -> None:
        """Elements that wait are none after all."""
        self._pending.clear()

    def begin(self, first: int) -> None:
        """The first element of all the query's streams has this time."""
        del first

    def trigger(self) -> int | None:
        """The next instant at which this window calls for an evaluation, as far as it knows now."""
        return self._pending[0].times[0] if self._pending else None

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
        return not self.latest and not self._pending

    def _in_graph(self, batch: Batch) -> Sequence[Quad]:
        return batch.quads if batch.graph == self.graph else in_graph(batch.quads, self.graph)

    def _take(self, until: int, after: int = NEVER) -> Iterator[tuple[Sequence[int], Sequence[Quad]]]:
        """Elements that waited with time < `until`; those before `after` are over already."""
        while self._pending and self._pending[0].times[0] < until:
            batch = self._pending.popleft()
            cut, begin = bisect_left(batch.times, until), bisect_left(batch.times, after)
            if cut < len(batch):
                self._pending.appendleft(batch.part(cut, len(batch)))
            if begin < cut:
                yield batch.times[begin:cut], self._in_graph(batch.part(begin, cut))

    def _enter(self, times: Sequence[int], quads: Sequence[Quad]) -> list[Quad]:
        """Hold these; returns those that were not held."""
        latest = self.latest
        new = [quad for quad in quads if quad not in latest]
        latest.update(zip(quads, times, strict=True))
        self._held.extend(zip(times, quads, strict=True))
        return new

    def _leave(self, before: int) -> list[Quad]:
        """Let go of what came last before this time."""
        held, latest, gone = self._held, self.latest, []
        while held and held[0][0] < before:
            time, quad = held.popleft()
            if latest.get(quad) == time:
                del latest[quad]
                gone.append(quad)
        return gone


def difference(added: list[Quad], removed: list[Quad], closed: bool) -> Move:
    """What left and came back in one move never left; what is twice in one arrival came once."""
    added = list(dict.fromkeys(added)) if added else added
    if added and removed:
        both = set(added) & set(removed)
        if both:
            added = [quad for quad in added if quad not in both]
            removed = [quad for quad in removed if quad not in both]
    return Move(added, removed, closed)
