"""Stores for the triples of a window: each triple once, with its latest arrival time."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyoxigraph import DefaultGraph, NamedNode, Quad

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.query.model import WindowKind
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
