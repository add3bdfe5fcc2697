"""Reads timestamped N-Quads as columns of ids; lines that the scanner does not understand are parsed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from pyoxigraph import DefaultGraph, NamedNode

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.engine.native.columns import Columns, columns_of
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.scanned_lines import ScannedLines
from freshkeeper.maintenance.engine.native.token_scan import ELEMENT, NOT_UNDERSTOOD, SKIPPED
from freshkeeper.maintenance.streams.batch import Stream
from freshkeeper.maintenance.streams.opening import Directory
from freshkeeper.maintenance.streams.pace import Paced
from freshkeeper.maintenance.streams.timed_lines import TimedLines


@dataclass(eq=False)
class ColumnLines:
    """The elements of `lines` as columns, with the same errors at the same places."""

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
        """Yield the elements that each chunk of bytes completes."""
        for text, line in self.lines.chunks():
            yield self.read(text, line)

    def read(self, text: bytes, line: int = 1) -> Columns:
        """Return the elements of a text whose first line has the number `line`."""
        with self.dictionary.lock:
            scanned = ScannedLines.of(text, scope=self.lines.scope or "")
            ids = scanned.terms(self.dictionary)
            parts = [self._part(text, line, scanned, ids, run) for run in _runs(scanned)]
            return parts[0] if len(parts) == 1 else Columns.joined(parts)

    def _part(self, text: bytes, line: int, scanned: ScannedLines, ids: Ints, run: tuple[int, int]) -> Columns:
        """Return the elements of consecutive lines that are all understood by the scanner, or all not."""
        first, last = run
        understood = scanned.kinds[first:last] == ELEMENT
        # A slice makes views of the columns, an index array copies.
        lines: slice | Ints
        if understood.all():
            lines = slice(first, last)
        else:
            lines = first + np.flatnonzero(understood)
        times = scanned.times[lines]
        if times.size and self.lines.steps.take(times):
            s, p, o = ids[:, lines]
            return Columns(times, s, p=p, o=o, dictionary=self.dictionary, graph=self.graph)
        # Parse what the scanner left, and timestamps that the checks of `steps` reject: the parser reports both with
        # their place.
        begin = int(scanned.ends[first - 1]) + 1 if first else 0
        read = self.lines.read(text[begin : int(scanned.ends[last - 1])], line + first)
        return columns_of(read, self.dictionary)


def _runs(scanned: ScannedLines) -> list[tuple[int, int]]:
    """Return ranges of lines that are understood, or not; empty lines and comments belong to the range before."""
    kinds = scanned.kinds
    if not (kinds == NOT_UNDERSTOOD).any():
        return [(0, kinds.size)]
    (used,) = np.nonzero(kinds != SKIPPED)
    changes = used[1:][kinds[used[1:]] != kinds[used[:-1]]]
    cuts = [0, *changes.tolist(), kinds.size]
    return list(pairwise(cuts))


def as_columns(stream: Stream, dictionary: Dictionary) -> Stream:
    """Return a stream that reads lines as columns; streams without lines still give quads."""
    if isinstance(stream, TimedLines):
        return ColumnLines(stream, dictionary)
    if isinstance(stream, Paced):
        return replace(stream, stream=as_columns(stream.stream, dictionary))
    if isinstance(stream, Directory):
        return replace(stream, open_file=lambda file: as_columns(stream.open_file(file), dictionary))
    return stream
