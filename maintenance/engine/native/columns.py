"""A batch of elements as columns of ids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pyoxigraph import DefaultGraph, NamedNode, Quad, RdfFormat, serialize

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.scanned_lines import ScannedLines
from freshkeeper.maintenance.engine.native.token_scan import ELEMENT
from freshkeeper.maintenance.streams.batch import DEFAULT, TimedElements

ENCODE_AT_ONCE = 50_000
"""Elements that are serialised at a time, which bounds the memory for their text."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Elements in order of arrival. Implements the same interface as `Batch`, and keeps its ids while it lives."""

    times: Ints
    s: Ints
    p: Ints
    o: Ints
    dictionary: Dictionary
    graph: NamedNode | DefaultGraph = DEFAULT

    def __post_init__(self) -> None:
        """Let the dictionary keep the ids of these elements."""
        self.dictionary.keep(self)

    def __len__(self) -> int:
        return self.times.size

    @property
    def ordered(self) -> bool:
        """True if times never decrease."""
        return bool((self.times[1:] >= self.times[:-1]).all())

    def part(self, start: int, stop: int) -> "Columns":
        return self._map_columns(lambda column: column[start:stop])

    def take(self, places: Ints) -> "Columns":
        return self._map_columns(lambda column: column[places])

    @cached_property
    def quads(self) -> Sequence[Quad]:
        """The elements as quads."""
        with self.dictionary.lock:
            parts: list[list[Any]] = [self.dictionary.terms(ids) for ids in (self.s, self.p, self.o)]
        return [Quad(s, p, o, self.graph) for s, p, o in zip(*parts, strict=True)]

    def followed_by(self, later: TimedElements) -> "Columns":
        return Columns.joined([self, columns_of(later, self.dictionary)])

    @classmethod
    def joined(cls, parts: Sequence["Columns"]) -> "Columns":
        """Concatenate columns; dictionary and graph are those of the last part."""
        columns = zip(*((part.times, part.s, part.p, part.o) for part in parts), strict=True)
        times, s, p, o = map(np.concatenate, columns)
        return cls(times, s, p=p, o=o, dictionary=parts[-1].dictionary, graph=parts[-1].graph)

    def _map_columns(self, change: Callable[[Ints], Ints]) -> "Columns":
        columns = (change(self.times), change(self.s), change(self.p), change(self.o))
        return Columns(*columns, self.dictionary, self.graph)

    def mark(self, live: Bools) -> None:
        """Set live[id] for the ids of the elements."""
        for ids in (self.s, self.p, self.o):
            live[ids] = True


def columns_of(batch: TimedElements, dictionary: Dictionary) -> Columns:
    """Return a batch as columns of this dictionary; columns of this dictionary are returned as they are."""
    if isinstance(batch, Columns) and batch.dictionary is dictionary:
        return batch
    if len(batch) > ENCODE_AT_ONCE:
        parts = [batch.part(at, at + ENCODE_AT_ONCE) for at in range(0, len(batch), ENCODE_AT_ONCE)]
        return Columns.joined([columns_of(part, dictionary) for part in parts])
    text = serialize(batch.quads, format=RdfFormat.N_QUADS)
    assert text is not None
    with dictionary.lock:
        scanned = ScannedLines.of(text, timed=False)
        ids = scanned.terms(dictionary)[:, : len(batch)]
        (others,) = np.nonzero(scanned.kinds[: len(batch)] != ELEMENT)
        if others.size:
            ids[:, others] = _encoded_terms([batch.quads[n] for n in others.tolist()], dictionary)
        s, p, o = ids
        return Columns(np.asarray(batch.times, np.int64), s, p=p, o=o, dictionary=dictionary, graph=batch.graph)


def _encoded_terms(quads: Sequence[Quad], dictionary: Dictionary) -> Ints:
    """Return the ids of quads that the scanner does not understand, such as quads with triple terms."""
    terms = [term for quad in quads for term in (quad.subject, quad.predicate, quad.object)]
    return dictionary.encode(terms).reshape(-1, 3).T
