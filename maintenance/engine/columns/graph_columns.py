"""A static graph as sorted columns of ids, and triple patterns over it as inputs of a join."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.columns.join_inputs import Bindings, Probe

SmallInts = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class GraphColumns:
    """The triples of a graph, each once, sorted by predicate, subject and object."""

    predicates: Mapping[int, tuple[int, int]]
    """by predicate: where its triples begin and end"""
    s: SmallInts
    o: SmallInts
    _orders: dict[tuple[int, int], tuple[SmallInts, SmallInts]] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Sequence[tuple[SmallInts, SmallInts, SmallInts]]) -> "GraphColumns":
        """Build from subjects, predicates and objects in any order; duplicates are removed."""
        s, p, o = map(np.concatenate, zip(*parts, strict=True)) if parts else np.empty((3, 0), np.int32)
        known = np.zeros(int(p.max(initial=-1)) + 1, bool)
        known[p] = True
        each = np.flatnonzero(known)
        # numpy sorts 16-bit integers by radix, in linear time; few graphs have more predicates than that.
        codes = (np.cumsum(known) - 1).astype(np.int16 if each.size < 1 << 15 else np.int32)[p]
        order = np.argsort(codes, kind="stable")
        cuts = np.append(0, np.cumsum(np.bincount(codes, minlength=each.size)))
        ranges, subjects, objects, end = {}, [s[:0]], [o[:0]], 0
        for n, predicate in enumerate(each.tolist()):
            here = order[cuts[n] : cuts[n + 1]]
            # Subject and object packed into one integer: one sort instead of two.
            pairs = np.sort(s[here].astype(np.int64) << 32 | o[here])
            pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
            subjects.append((pairs >> 32).astype(np.int32))
            objects.append((pairs & 0xFFFFFFFF).astype(np.int32))
            ranges[predicate] = end, end + pairs.size
            end += pairs.size
        return cls(ranges, np.concatenate(subjects), np.concatenate(objects))

    def __len__(self) -> int:
        return int(self.s.size)

    @cached_property
    def p(self) -> SmallInts:
        """The predicate of every triple."""
        sizes = [end - begin for begin, end in self.predicates.values()]
        return np.repeat(np.array([*self.predicates], np.int32), sizes)

    def by_object(self, span: tuple[int, int]) -> tuple[SmallInts, SmallInts]:
        """Return the positions of a span in the order of their objects, and these objects; cached."""
        if span not in self._orders:
            objects = self.o[slice(*span)]
            order = np.argsort(objects, kind="stable").astype(np.int32)
            self._orders[span] = order, objects[order]
        return self._orders[span]

    @cached_property
    def by_subject(self) -> tuple[SmallInts, SmallInts]:
        """Return all positions in the order of their subjects, and these subjects."""
        order = np.argsort(self.s, kind="stable").astype(np.int32)
        return order, self.s[order]

    def without(self, other: "GraphColumns") -> "GraphColumns":
        """Return the triples that another graph lacks."""
        mine, theirs = self._triples, other._triples
        rest = np.setdiff1d(mine, theirs, assume_unique=True).view(np.int32).reshape(-1, 3)
        return GraphColumns.of([(rest[:, 0], rest[:, 1], rest[:, 2])])

    @property
    def _triples(self) -> NDArray[np.void]:
        """Return each triple as one value of 12 bytes."""
        return np.stack([self.s, self.p, self.o], axis=1).view(np.dtype((np.void, 12))).ravel()

    def mark(self, live: Bools) -> None:
        """Set live[id] for the ids of the triples."""
        live[self.s] = True
        live[self.o] = True
        live[list(self.predicates)] = True


@dataclass(frozen=True, eq=False)
class TripleRanges:
    """Ranges of an ordering of triples: for each row the triples that match it."""

    first: Ints
    end: Ints
    order: SmallInts | None
    """positions of triples; None if they are in order"""
    start: int = 0
    """an offset that is added to all positions"""

    def counts(self, groups: Ints) -> Ints:
        """Return how many triples match each row."""
        found: Ints = self.end[groups] - self.first[groups]
        return found

    def expand(self, groups: Ints, total: int) -> tuple[Ints, Ints]:
        """Return the position of a row, and of a triple, for every match."""
        sizes = self.counts(groups)
        rows = np.repeat(np.arange(groups.size), sizes)
        places = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes - self.first[groups], sizes)
        return rows, (places if self.order is None else self.order[places].astype(np.int64)) + self.start


@dataclass(frozen=True, eq=False)
class StaticPattern:
    """A triple pattern over a static graph, with variable names and ids."""

    graph: GraphColumns
    terms: tuple[str | int, str | int, str | int]

    @cached_property
    def variables(self) -> frozenset[str]:
        return frozenset(term for term in self.terms if isinstance(term, str))

    def probe(self, bound: Bindings, size: int) -> Probe:
        """Look up by predicate and subject, or predicate and object, if they are known; `fits` checks the rest."""
        spans = self._spans(bound, size)
        groups = np.arange(size)
        return Probe(spans, groups, int(spans.counts(groups).sum()))

    def fits(self, bound: Bindings, rows: Ints, members: Ints) -> Bools | None:
        found = np.ones(members.size, bool)
        for n, term in enumerate(self.terms):
            column = (self.graph.s, None, self.graph.o)[n]
            if column is None and not isinstance(term, int):
                column = self.graph.p
            if column is None:
                continue
            if isinstance(term, int):
                found &= column[members] == term
            elif term in bound:
                found &= column[members] == bound[term][rows]
            elif (first := self.terms.index(term)) < n:
                found &= column[members] == self._at(first)[members]
        return found

    def column(self, name: str, members: Ints) -> Ints:
        return self._at(self.terms.index(name))[members].astype(np.int64)

    def _at(self, place: int) -> SmallInts:
        if place == 1:
            return self.graph.p  # computed on first use, so do not touch it otherwise
        return self.graph.s if place == 0 else self.graph.o

    def _spans(self, bound: Bindings, size: int) -> TripleRanges:
        graph, predicate = self.graph, self.terms[1]
        named = isinstance(predicate, int)
        if isinstance(predicate, int):
            span = graph.predicates.get(predicate, (0, 0))
        else:
            span = (0, len(graph))
        order: SmallInts | None = None
        if (keys := self._keys(0, bound, size)) is not None:
            order, column = (None, graph.s[slice(*span)]) if named else graph.by_subject
        elif (keys := self._keys(2, bound, size)) is not None:
            order, column = graph.by_object(span)
        else:
            return TripleRanges(np.zeros(size, np.int64), np.full(size, span[1] - span[0]), None, span[0])
        each, places = np.unique(keys, return_inverse=True)
        first, end = np.searchsorted(column, each, "left"), np.searchsorted(column, each, "right")
        return TripleRanges(first[places], end[places], order, span[0])

    def _keys(self, position: int, bound: Bindings, size: int) -> SmallInts | None:
        term = self.terms[position]
        if isinstance(term, int):
            return np.full(size, term, np.int32)
        return bound[term].astype(np.int32) if term in bound else None
