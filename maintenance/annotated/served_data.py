"""The data of a fragment server: quads by pattern, counted, page by page, and how long they are valid.

`StaticData` is static data; AnnotatedData (annotated_data.py) changes.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from pyoxigraph import Quad, Store

from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern

MAX_CACHED_QUADS = 200_000
"""Quads of fragments that are cached in page order."""


class ServableData(Protocol):
    """Data that can be served as fragments."""

    @property
    def holding(self) -> "ServableData | None":
        """The current data alone, if there is more."""

    def version(self, now: int) -> int:
        """Return a number that changes whenever the data change."""

    def slice(self, pattern: QuadPattern, first: int, most: int, now: int) -> tuple[Sequence[Quad], int]:
        """Return some quads of a fragment in a stable order, and the size of the fragment."""

    def until(self, pattern: QuadPattern, now: int) -> int | None:
        """Return when the fragment changes, in milliseconds; DISTANT_FUTURE, or None if unknown."""


@dataclass(eq=False)
class FragmentSlices:
    """The fragments of a store, page by page. Recent fragments are cached, so that they are counted once."""

    store: Store
    _cached: OrderedDict[QuadPattern, Sequence[Quad]] = field(default_factory=OrderedDict)
    _counts: dict[QuadPattern, int] = field(default_factory=dict)
    _size: int = 0

    def slice(self, pattern: QuadPattern, first: int, most: int) -> tuple[Sequence[Quad], int]:
        if pattern in self._cached:
            self._cached.move_to_end(pattern)
            found = self._cached[pattern]
            return found[first : first + most], len(found)
        if pattern in self._counts:  # too large for the cache
            return list(islice(self._quads(pattern), first, first + most)), self._counts[pattern]
        found = list(islice(self._quads(pattern), MAX_CACHED_QUADS))
        if len(found) == MAX_CACHED_QUADS:
            self._counts[pattern] = sum(1 for _ in self._quads(pattern))
            return found[first : first + most], self._counts[pattern]
        self._hold(pattern, found)
        return found[first : first + most], len(found)

    def forget(self) -> None:
        self._cached.clear()
        self._counts.clear()
        self._size = 0

    def _hold(self, pattern: QuadPattern, found: Sequence[Quad]) -> None:
        self._cached[pattern] = found
        self._size += len(found) + 1
        while self._size > MAX_CACHED_QUADS:
            self._size -= len(self._cached.popitem(last=False)[1]) + 1

    def _quads(self, pattern: QuadPattern) -> Iterable[Quad]:
        subject, predicate, value, graph = (pattern.subject, pattern.predicate, pattern.object, pattern.graph)
        return self.store.quads_for_pattern(subject, predicate, value, graph)  # type: ignore[arg-type]


@dataclass(eq=False)
class StaticData:
    """Static quads."""

    quads: Iterable[Quad]
    holding: None = None

    def __post_init__(self) -> None:
        store = Store()
        store.extend(self.quads)
        self._slices = FragmentSlices(store)

    def version(self, now: int) -> int:
        del now
        return 0

    def slice(self, pattern: QuadPattern, first: int, most: int, now: int) -> tuple[Sequence[Quad], int]:
        del now
        return self._slices.slice(pattern, first, most)

    def until(self, pattern: QuadPattern, now: int) -> int | None:
        del pattern, now
        return DISTANT_FUTURE
