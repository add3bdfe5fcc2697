"""What a server of fragments serves: quads by pattern, counted, page by page, and until when that holds.

`Served` is data that does not change; AnnotatedData (annotated_data.py) is data that does.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from pyoxigraph import Quad, Store

from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern

FOREVER = 2**62
"""The end of what does not end."""
HELD = 200_000
"""Quads of fragments that are held in the order of their pages."""


class Serving(Protocol):
    """Data that is served."""

    @property
    def holding(self) -> "Serving | None":
        """What holds now alone, where there is more."""

    def version(self, now: int) -> int:
        """Another number as soon as anything has changed."""

    def slice(self, pattern: QuadPattern, first: int, most: int, now: int) -> tuple[Sequence[Quad], int]:
        """Some quads of a fragment in an order that stays, and how many it has."""

    def until(self, pattern: QuadPattern, now: int) -> int | None:
        """When the fragment is another one, in milliseconds; FOREVER, or None where nobody knows."""


@dataclass(eq=False)
class Slices:
    """The fragments of a store, page by page: what was asked for lately is held, so that counting is done once."""

    store: Store
    _held: OrderedDict[QuadPattern, Sequence[Quad]] = field(default_factory=OrderedDict)
    _counts: dict[QuadPattern, int] = field(default_factory=dict)
    _size: int = 0

    def slice(self, pattern: QuadPattern, first: int, most: int) -> tuple[Sequence[Quad], int]:
        """Some quads of a fragment, and how many it has."""
        if pattern in self._held:
            self._held.move_to_end(pattern)
            found = self._held[pattern]
            return found[first : first + most], len(found)
        if pattern in self._counts:  # too large to be held
            return list(islice(self._quads(pattern), first, first + most)), self._counts[pattern]
        found = list(islice(self._quads(pattern), HELD))
        if len(found) == HELD:
            self._counts[pattern] = sum(1 for _ in self._quads(pattern))
            return found[first : first + most], self._counts[pattern]
        self._hold(pattern, found)
        return found[first : first + most], len(found)

    def forget(self) -> None:
        """The store has changed."""
        self._held.clear()
        self._counts.clear()
        self._size = 0

    def _hold(self, pattern: QuadPattern, found: Sequence[Quad]) -> None:
        self._held[pattern] = found
        self._size += len(found) + 1
        while self._size > HELD:
            self._size -= len(self._held.popitem(last=False)[1]) + 1

    def _quads(self, pattern: QuadPattern) -> Iterable[Quad]:
        subject, predicate, value, graph = (pattern.subject, pattern.predicate, pattern.object, pattern.graph)
        return self.store.quads_for_pattern(subject, predicate, value, graph)  # type: ignore[arg-type]


@dataclass(eq=False)
class Served:
    """Quads that do not change."""

    quads: Iterable[Quad]
    holding: None = None

    def __post_init__(self) -> None:
        store = Store()
        store.extend(self.quads)
        self._slices = Slices(store)

    def version(self, now: int) -> int:
        """0: these quads do not change."""
        del now
        return 0

    def slice(self, pattern: QuadPattern, first: int, most: int, now: int) -> tuple[Sequence[Quad], int]:
        """So many triples of a fragment from the store, and how many it has in all."""
        del now
        return self._slices.slice(pattern, first, most)

    def until(self, pattern: QuadPattern, now: int) -> int | None:
        """It never is another one."""
        del pattern, now
        return FOREVER
