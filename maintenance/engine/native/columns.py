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
from freshkeeper.maintenance.streams.batch import DEFAULT, Timed

MOST = 50_000
"""Elements that are written as text at once."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Elements in the order in which they came; it stands wherever a `Batch` does, and keeps its ids while it lives."""

    times: Ints
    s: Ints
    p: Ints
    o: Ints
    dictionary: Dictionary
    graph: NamedNode | DefaultGraph = DEFAULT

    def __post_init__(self) -> None:
        """A sweep must know of it."""
        self.dictionary.keep(self)

    def __len__(self) -> int:
        return self.times.size

    @property
    def ordered(self) -> bool:
        """Whether time never goes backwards."""
        return bool((self.times[1:] >= self.times[:-1]).all())

    def part(self, start: int, stop: int) -> "Columns":
        """The elements from one position to another."""
        return self._each(lambda column: column[start:stop])

    def take(self, places: Ints) -> "Columns":
        """The elements at some positions, in that order."""
        return self._each(lambda column: column[places])

    @cached_property
    def quads(self) -> Sequence[Quad]:
        """The elements as quads, for those who want terms."""
        with self.dictionary.lock:
            parts: list[list[Any]] = [self.dictionary.terms(ids) for ids in (self.s, self.p, self.o)]
        return [Quad(s, p, o, self.graph) for s, p, o in zip(*parts, strict=True)]

    def followed_by(self, later: Timed) -> "Columns":
        """These and then others."""
        return Columns.joined([self, columns_of(later, self.dictionary)])

    @classmethod
    def joined(cls, parts: Sequence["Columns"]) -> "Columns":
        """Some columns one after the other."""
        columns = zip(*((part.times, part.s, part.p, part.o) for part in parts), strict=True)
        times, s, p, o = map(np.concatenate, columns)
        return cls(times, s, p, o, parts[-1].dictionary, parts[-1].graph)

    def _each(self, change: Callable[[Ints], Ints]) -> "Columns":
        columns = (change(self.times), change(self.s), change(self.p), change(self.o))
        return Columns(*columns, self.dictionary, self.graph)

    def mark(self, live: Bools) -> None:
        """The ids of its elements are kept."""
        for ids in (self.s, self.p, self.o):
            live[ids] = True


def columns_of(batch: Timed, dictionary: Dictionary) -> Columns:
    """A batch of quads as columns of this dictionary; its own columns are themselves."""
    if isinstance(batch, Columns) and batch.dictionary is dictionary:
        return batch
    if len(batch) > MOST:
        parts = [batch.part(at, at + MOST) for at in range(0, len(batch), MOST)]
        return Columns.joined([columns_of(part, dictionary) for part in parts])
    text = serialize(batch.quads, format=RdfFormat.N_QUADS)
    assert text is not None
    with dictionary.lock:
        scanned = ScannedLines.of(text, timed=False)
        ids = scanned.terms(dictionary)[:, : len(batch)]
        (others,) = np.nonzero(scanned.kinds[: len(batch)] != ELEMENT)
        if others.size:
            ids[:, others] = _one_by_one([batch.quads[n] for n in others.tolist()], dictionary)
        s, p, o = ids
        return Columns(np.asarray(batch.times, np.int64), s, p, o, dictionary, batch.graph)


def _one_by_one(quads: Sequence[Quad], dictionary: Dictionary) -> Ints:
    """Their ids where text is not understood, as that of triple terms."""
    terms = [term for quad in quads for term in (quad.subject, quad.predicate, quad.object)]
    return dictionary.encode(terms).reshape(-1, 3).T
