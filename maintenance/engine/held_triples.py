"""The triples that a window holds: each once, with its latest time, whatever holds them (quads, or columns of ids)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyoxigraph import DefaultGraph, NamedNode, Quad

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.query.model import WindowKind
from freshkeeper.maintenance.streams.batch import Timed, as_batch, in_graph


@dataclass(frozen=True, eq=False)
class Move:
    """What one move of a window did: the triples that came and went, as quads, or as the slots that hold them."""

    added: Sequence[Quad] | Ints = ()
    removed: Sequence[Quad] | Ints = ()
    closed: bool = False
    """whether the window closed at this very instant"""

    @property
    def changed(self) -> bool:
        """Whether the content is another one than before."""
        return bool(len(self.added) or len(self.removed))


STILL = Move()


class Held(Protocol):
    """Triples with their latest time, in the order in which they came."""

    def __len__(self) -> int: ...

    @property
    def oldest(self) -> int | None:
        """The time of the first arrival that is still held."""
        ...

    def time_of(self, quad: Quad) -> int | None:
        """When a triple came last, if it is held."""
        ...

    def enter(self, elements: Timed) -> None:
        """Elements come; one that is held already is renewed."""
        ...

    def leave(self, before: int) -> None:
        """What came last before this time goes."""
        ...

    def drop(self, most: int) -> None:
        """All arrivals but the last few go; a triple goes with its last one."""
        ...

    def moved(self, closed: bool) -> Move:
        """What came and went since this was last asked; what went and came back did neither."""
        ...


@dataclass(eq=False)
class HeldQuads:
    """Quads of the window's graph."""

    graph: NamedNode | DefaultGraph
    kind: WindowKind = WindowKind.TIME
    """of elements, a triple goes with its last arrival, not with its latest time; of ALL, none goes"""
    latest: dict[Quad, int] = field(default_factory=dict)
    """every triple held, and when it came last"""
    _arrivals: deque[tuple[int, Quad]] = field(default_factory=deque)
    _copies: dict[Quad, int] = field(default_factory=dict)
    _added: list[Quad] = field(default_factory=list)
    _removed: list[Quad] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.latest)

    @property
    def oldest(self) -> int | None:
        """The time of the first arrival that is still held."""
        return self._arrivals[0][0] if self._arrivals else None

    def time_of(self, quad: Quad) -> int | None:
        """When a triple came last, if it is held."""
        return self.latest.get(quad)

    def enter(self, elements: Timed) -> None:
        """Elements come; one that is held already is renewed."""
        batch = as_batch(elements)
        latest, quads = self.latest, batch.quads if batch.graph == self.graph else in_graph(batch.quads, self.graph)
        self._added += [quad for quad in quads if quad not in latest]
        latest.update(zip(quads, batch.times, strict=True))
        if self.kind is not WindowKind.ALL or not self._arrivals:
            self._arrivals.extend(zip(batch.times, quads, strict=True))
        if self.kind is WindowKind.ELEMENTS:
            for quad in quads:
                self._copies[quad] = self._copies.get(quad, 0) + 1

    def leave(self, before: int) -> None:
        """What came last before this time goes."""
        arrivals, latest = self._arrivals, self.latest
        while arrivals and arrivals[0][0] < before:
            time, quad = arrivals.popleft()
            if latest.get(quad) == time:
                del latest[quad]
                self._removed.append(quad)

    def drop(self, most: int) -> None:
        """All arrivals but the last few go; a triple goes with its last one."""
        while len(self._arrivals) > most:
            _, quad = self._arrivals.popleft()
            self._copies[quad] -= 1
            if not self._copies[quad]:
                del self._copies[quad], self.latest[quad]
                self._removed.append(quad)

    def moved(self, closed: bool) -> Move:
        """What came and went since this was last asked; what went and came back did neither."""
        added, removed, self._added, self._removed = self._added, self._removed, [], []
        added = list(dict.fromkeys(added))  # what is twice in one arrival came once
        if added and removed:
            both = set(added) & set(removed)
            added, removed = ([quad for quad in each if quad not in both] for each in (added, removed))
        return Move(added, removed, closed)
