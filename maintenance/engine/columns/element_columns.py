"""Elements as columns of ids, encoded from quads or read from lines of N-Quads.

The scanner finds the terms of a line by their bytes; lines that it does not understand are parsed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from pyoxigraph import Quad, RdfFormat, serialize

from freshkeeper.maintenance.base.arrays import Bools, Bytes, Ints, Kinds, Words
from freshkeeper.maintenance.engine.columns import token_scan
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.token_scan import (
    ELEMENT,
    NOT_UNDERSTOOD,
    PAD,
    SKIPPED,
    UNDERSCORE,
    words_of,
)
from freshkeeper.maintenance.streams.batch import Stream, TimedElements
from freshkeeper.maintenance.streams.opening import Directory
from freshkeeper.maintenance.streams.pace import Paced
from freshkeeper.maintenance.streams.timed_lines import TimedLines

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
        return [Quad(s, p, o) for s, p, o in zip(*parts, strict=True)]

    def followed_by(self, later: TimedElements) -> "Columns":
        return Columns.joined([self, columns_of(later, self.dictionary)])

    @classmethod
    def joined(cls, parts: Sequence["Columns"]) -> "Columns":
        """Concatenate columns of one dictionary."""
        columns = zip(*((part.times, part.s, part.p, part.o) for part in parts), strict=True)
        times, s, p, o = map(np.concatenate, columns)
        return cls(times, s, p=p, o=o, dictionary=parts[-1].dictionary)

    def _map_columns(self, change: Callable[[Ints], Ints]) -> "Columns":
        columns = (change(self.times), change(self.s), change(self.p), change(self.o))
        return Columns(*columns, self.dictionary)

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
        return Columns(np.asarray(batch.times, np.int64), s, p=p, o=o, dictionary=dictionary)


def _encoded_terms(quads: Sequence[Quad], dictionary: Dictionary) -> Ints:
    """Return the ids of quads that the scanner does not understand, such as quads with triple terms."""
    terms = [term for quad in quads for term in (quad.subject, quad.predicate, quad.object)]
    return dictionary.encode(terms).reshape(-1, 3).T


@dataclass(frozen=True, eq=False)
class ScannedLines:
    """Lines with their ends, kinds and times, and starts and sizes of their four terms, one row per position."""

    words: Words
    ends: Ints
    kinds: Kinds
    times: Ints
    starts: Ints
    sizes: Ints

    @classmethod
    def of(cls, text: bytes, timed: bool = True, scope: str = "") -> "ScannedLines":
        """Scan a text; with `timed` each line starts with its time and a tab.

        `scope` is put before the labels of blank nodes.
        """
        padded, size = np.frombuffer(text + PAD, np.uint8), text.count(b"\n") + 1
        words, ends, times = words_of(padded), np.empty(size, np.int64), np.empty(size, np.int64)
        starts, sizes = np.empty((4, size), np.int64), np.empty((4, size), np.int64)
        kinds = np.empty(size, np.int8)
        token_scan.scan(padded, words, timed, ends, kinds, times, starts, sizes)
        if scope and b"_:" in text:
            words = _rename_blank_nodes(padded, scope.encode(), starts.reshape(-1), sizes.reshape(-1))
        return cls(words, ends, kinds=kinds, times=times, starts=starts, sizes=sizes)

    def terms(self, dictionary: Dictionary) -> Ints:
        """Return the ids of subject, predicate and object, a row each; mark lines with invalid terms as OTHER."""
        ids = dictionary.encode_spans(self.words, self.starts.ravel(), self.sizes.ravel()).reshape(4, -1)
        self.kinds[(ids < 0).any(axis=0)] = NOT_UNDERSTOOD
        return ids[:3]


def _rename_blank_nodes(text: Bytes, scope: bytes, starts: Ints, sizes: Ints) -> Words:
    """Write the blank nodes with their scope behind the text, move their spans there, and return the text's words."""
    blank = np.flatnonzero((sizes > 0) & (text[np.where(sizes > 0, starts, 0)] == UNDERSCORE))
    prefix = np.frombuffer(b"_:" + scope, np.uint8)
    longer = sizes[blank] + len(scope)
    ends = text.size + np.cumsum(longer)
    named = np.concatenate([text, np.empty(int(longer.sum()), np.uint8), np.frombuffer(PAD, np.uint8)])
    token_scan.copy_labels(text, starts[blank], sizes[blank], prefix, named)
    starts[blank], sizes[blank] = ends - longer, longer
    return words_of(named)


@dataclass(eq=False)
class ColumnLines:
    """The elements of `lines` as columns, with the same errors at the same places."""

    lines: TimedLines
    dictionary: Dictionary

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
            return Columns(times, s, p=p, o=o, dictionary=self.dictionary)
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
