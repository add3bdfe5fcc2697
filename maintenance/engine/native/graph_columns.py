"""A static graph as sorted columns of ids, and triple patterns over it, which a join asks like any other input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.native.join_inputs import Bindings, Probe

Small = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class GraphColumns:
    """Each triple once, by predicate, subject and object."""

    predicates: Mapping[int, tuple[int, int]]
    """where the triples of each begin and end"""
    s: Small
    o: Small
    _orders: dict[tuple[int, int], tuple[Small, Small]] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Sequence[tuple[Small, Small, Small]]) -> "GraphColumns":
        """From subjects, predicates and objects in any order; a graph is a set."""
        s, p, o = (np.concatenate([np.empty(0, np.int32), *(part[n] for part in parts)]) for n in range(3))
        known = np.zeros(int(p.max(initial=-1)) + 1, bool)
        known[p] = True
        each = np.flatnonzero(known)
        codes = (np.cumsum(known) - 1).astype(np.int16 if each.size < 1 << 15 else np.int32)[p]
        order = np.argsort(codes, kind="stable")
        cuts = np.append(0, np.cumsum(np.bincount(codes, minlength=each.size)))
        ranges, subjects, objects, end = {}, [s[:0]], [o[:0]], 0
        for n, predicate in enumerate(each.tolist()):
            here = order[cuts[n] : cuts[n + 1]]
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
    def p(self) -> Small:
        """The predicate of every triple."""
        sizes = [end - begin for begin, end in self.predicates.values()]
        return np.repeat(np.array([*self.predicates], np.int32), sizes)

    def by_object(self, span: tuple[int, int]) -> tuple[Small, Small]:
        """The places of a span in the order of their objects, and these; found once."""
        if span not in self._orders:
            objects = self.o[slice(*span)]
            order = np.argsort(objects, kind="stable").astype(np.int32)
            self._orders[span] = order, objects[order]
        return self._orders[span]

    @cached_property
    def by_subject(self) -> tuple[Small, Small]:
        """All places in the order of their subjects, and these."""
        order = np.argsort(self.s, kind="stable").astype(np.int32)
        return order, self.s[order]

    def without(self, other: "GraphColumns") -> "GraphColumns":
        """The triples that another graph does not have."""
        mine, theirs = self._triples, other._triples
        rest = np.setdiff1d(mine, theirs, assume_unique=True).view(np.int32).reshape(-1, 3)
        return GraphColumns.of([(rest[:, 0], rest[:, 1], rest[:, 2])])

    @property
    def _triples(self) -> NDArray[np.void]:
        """One value for each triple."""
        return np.stack([self.s, self.p, self.o], axis=1).view(np.dtype((np.void, 12))).ravel()

    def mark(self, live: Bools) -> None:
        """The ids of its triples."""
        live[self.s] = True
        live[self.o] = True
        live[list(self.predicates)] = True


@dataclass(frozen=True, eq=False)
class Spans:
    """For each of some rows a span of an order of triples."""

    first: Ints
    end: Ints
    order: Small | None
    """places of triples; None where they are in order"""
    start: int = 0
    """what is added to places"""

    def counts(self, groups: Ints) -> Ints:
        """How many triples some rows have."""
        found: Ints = self.end[groups] - self.first[groups]
        return found

    def expand(self, groups: Ints, total: int) -> tuple[Ints, Ints]:
        """Every triple of some rows, beside the row's place in the list."""
        sizes = self.counts(groups)
        rows = np.repeat(np.arange(groups.size), sizes)
        places = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes - self.first[groups], sizes)
        return rows, (places if self.order is None else self.order[places].astype(np.int64)) + self.start


@dataclass(frozen=True, eq=False)
class StaticPattern:
    """A triple pattern over a static graph: names of variables, and ids."""

    graph: GraphColumns
    terms: tuple[str | int, str | int, str | int]

    @cached_property
    def variables(self) -> frozenset[str]:
        """What a triple binds."""
        return frozenset(term for term in self.terms if isinstance(term, str))

    def probe(self, bound: Bindings, size: int) -> Probe:
        """By predicate and subject, or predicate and object, as far as they are known; `fits` looks at the rest."""
        spans = self._spans(bound, size)
        groups = np.arange(size)
        return Probe(spans, groups, int(spans.counts(groups).sum()))

    def fits(self, bound: Bindings, rows: Ints, members: Ints) -> Bools | None:
        """What the probe has not asked."""
        found = np.ones(members.size, bool)
        for n, term in enumerate(self.terms):
            column = (self.graph.s, None, self.graph.o)[n]
            column = self.graph.p if column is None and not isinstance(term, int) else column
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
        """What triples have where the variable stands."""
        return self._at(self.terms.index(name))[members].astype(np.int64)

    def _at(self, place: int) -> Small:
        return self.graph.s if place == 0 else self.graph.p if place == 1 else self.graph.o

    def _spans(self, bound: Bindings, size: int) -> Spans:
        graph, predicate = self.graph, self.terms[1]
        named = isinstance(predicate, int)
        span = graph.predicates.get(predicate, (0, 0)) if isinstance(predicate, int) else (0, len(graph))
        order: Small | None = None
        if (keys := self._keys(0, bound, size)) is not None:
            order, column = (None, graph.s[slice(*span)]) if named else graph.by_subject
        elif (keys := self._keys(2, bound, size)) is not None:
            order, column = graph.by_object(span)
        else:
            return Spans(np.zeros(size, np.int64), np.full(size, span[1] - span[0]), None, span[0])
        each, places = np.unique(keys, return_inverse=True)
        first, end = np.searchsorted(column, each, "left"), np.searchsorted(column, each, "right")
        return Spans(first[places], end[places], order, span[0])

    def _keys(self, position: int, bound: Bindings, size: int) -> Small | None:
        term = self.terms[position]
        if isinstance(term, int):
            return np.full(size, term, np.int32)
        return bound[term].astype(np.int32) if term in bound else None
