"""Timestamped N-Quads read as columns of ids; what the scan does not understand is read as `TimedLines` reads it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from pyoxigraph import DefaultGraph, NamedNode

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.engine.native.columns import Columns, columns_of
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.scanned_lines import ScannedLines
from freshkeeper.maintenance.engine.native.token_scan import ELEMENT, OTHER, SKIPPED
from freshkeeper.maintenance.streams.batch import Stream
from freshkeeper.maintenance.streams.directory import Directory
from freshkeeper.maintenance.streams.pace import Paced
from freshkeeper.maintenance.streams.timed_lines import TimedLines


@dataclass(eq=False)
class ColumnLines:
    """The elements of `lines`, with the same errors at the same places, as columns."""

    lines: TimedLines
    dictionary: Dictionary

    @property
    def graph(self) -> NamedNode | DefaultGraph:
        """The graph that elements are read into."""
        return self.lines.graph

    @graph.setter
    def graph(self, graph: NamedNode | DefaultGraph) -> None:
        self.lines.graph = graph

    def batches(self) -> Iterator[Columns]:
        """What every chunk of bytes completes."""
        for text, line in self.lines.chunks():
            yield self.read(text, line)

    def read(self, text: bytes, line: int = 1) -> Columns:
        """The elements of some lines, the first of which has this number."""
        with self.dictionary.lock:
            scanned = ScannedLines.of(text)
            ids = scanned.terms(self.dictionary)
            parts = [self._part(text, line, scanned, ids, run) for run in _runs(scanned)]
            return parts[0] if len(parts) == 1 else Columns.joined(parts)

    def _part(self, text: bytes, line: int, scanned: ScannedLines, ids: Ints, run: tuple[int, int]) -> Columns:
        """Lines of which all are understood, or none."""
        first, last = run
        told = scanned.kinds[first:last] == ELEMENT
        lines = slice(first, last) if told.all() else first + np.flatnonzero(told)
        times = scanned.times[lines]
        if times.size and self.lines.steps.take(times):
            s, p, o = ids[:, lines]
            return Columns(times, s, p, o, self.dictionary, self.graph)
        begin = int(scanned.ends[first - 1]) + 1 if first else 0
        read = self.lines.read(text[begin : int(scanned.ends[last - 1])], line + first)
        return columns_of(read, self.dictionary)


def _runs(scanned: ScannedLines) -> list[tuple[int, int]]:
    """From where to where lines are understood, or not; lines that mean nothing go with those before."""
    kinds = scanned.kinds
    if not (kinds == OTHER).any():
        return [(0, kinds.size)]
    (told,) = np.nonzero(kinds != SKIPPED)
    changes = told[1:][kinds[told[1:]] != kinds[told[:-1]]]
    cuts = [0, *changes.tolist(), kinds.size]
    return list(pairwise(cuts))


def as_columns(stream: Stream, dictionary: Dictionary) -> Stream:
    """The same stream, its lines read as columns; what has no lines gives quads still."""
    if isinstance(stream, TimedLines):
        return ColumnLines(stream, dictionary)
    if isinstance(stream, Paced):
        return replace(stream, stream=as_columns(stream.stream, dictionary))
    if isinstance(stream, Directory):
        return replace(stream, open_file=lambda file: as_columns(stream.open_file(file), dictionary))
    return stream
