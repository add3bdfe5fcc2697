"""Timestamped N-Quads: one element to a line, `<ms>` TAB `<statement in N-Triples or N-Quads>`.

Blank nodes keep their labels: a label means the same node in the whole stream. A line that is no element is an error
that says where, or is skipped and counted, as `on_error` says. Empty lines and lines that begin with # mean nothing.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPException
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from pyoxigraph import DefaultGraph, NamedNode, Quad, RdfFormat, parse

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.nesting import DEEPEST, TOO_DEEP, depth_of_triples
from freshkeeper.maintenance.streams.batch import DEFAULT, Batch, in_graph
from freshkeeper.maintenance.streams.steps import Steps
from freshkeeper.maintenance.streams.stream_error import StreamError

CHUNK = 1 << 18
"""Bytes that are read at a time."""
LONGEST_LINE = 1 << 20


class OnError(StrEnum):
    """What to do with an element that cannot be read."""

    FAIL = "fail"
    SKIP = "skip"


@dataclass(eq=False)
class ReadErrors:
    """The elements that could not be read: fatal, or counted with the first few messages."""

    policy: OnError = OnError.FAIL
    count: int = 0
    tell: Callable[[str], None] = field(default=lambda _: None)

    def found(self, error: StreamError) -> None:
        """Raise the error, or count it and tell of it."""
        if self.policy is OnError.FAIL:
            raise error
        self.count += 1
        self.tell(f"{error} (skipped)")


@dataclass(eq=False)
class TimedLines:
    """A stream of timestamped N-Quads from a file, or from a reader that `read1`s what there is."""

    name: str
    open: Callable[[], BinaryIO | FileIO]
    read_errors: ReadErrors = field(default_factory=ReadErrors)
    steps: Steps = field(default_factory=Steps)
    graph: NamedNode | DefaultGraph = DEFAULT
    """the graph that elements are read into: that of the only window which wants them"""

    @classmethod
    def file(cls, path: Path, read_errors: ReadErrors | None = None, steps: Steps | None = None) -> "TimedLines":
        """Lines of a file, opened when they are first read."""
        return cls(str(path), lambda: _opened(path), read_errors or ReadErrors(), steps or Steps())

    @classmethod
    def stdin(cls, read_errors: ReadErrors, steps: Steps) -> "TimedLines":
        """Lines of standard input, each as soon as it is there."""
        return cls("standard input", _standard_input, read_errors, steps)

    def batches(self) -> Iterator[Batch]:
        """What every chunk of bytes completes."""
        for text, line in self.chunks():
            yield self.read(text, line)

    def chunks(self) -> Iterator[tuple[bytes, int]]:
        """Whole lines, as many as every chunk of bytes completes, and the number of the first."""
        rest, line, lost = b"", 1, False
        with self.open() as source:
            while chunk := self._some(source):
                if lost:  # the rest of a line that is none
                    _, newline, chunk = chunk.partition(b"\n")
                    line, lost = line + bool(newline), not newline
                whole, newline, rest = (rest + chunk).rpartition(b"\n")
                if newline:
                    yield whole, line
                    line += whole.count(b"\n") + 1
                elif len(rest) > LONGEST_LINE:
                    self.read_errors.found(StreamError(self.name, line, f"a line is longer than {LONGEST_LINE} bytes"))
                    rest, lost = b"", True
        if rest:
            yield rest, line

    def _some(self, source: BinaryIO | FileIO) -> bytes:
        """What is there now, at most a chunk; nothing at the end."""
        read1 = getattr(source, "read1", source.read)
        try:
            found: bytes = read1(CHUNK)
        except (OSError, HTTPException) as error:
            raise InputError(f"the stream {self.name} broke off: {error}") from None
        return found

    def read(self, text: bytes, line: int = 1) -> Batch:
        """The elements of some lines, the first of which has this number; all at once if nothing is wrong."""
        rows = [row.partition(b"\t") for row in text.split(b"\n")]
        if not b"".join([row[0] for row in rows]).isdigit() or _nests(text) or _breaks(rows):
            return self._carefully(text, line)
        try:
            times = [int(row[0]) for row in rows]
            quads = self._parsed([row[2] for row in rows])
        except (ValueError, SyntaxError):
            return self._carefully(text, line)
        if len(quads) != len(times) or not self.steps.take(times):
            return self._carefully(text, line)
        return Batch(times, quads, self.graph)

    def _parsed(self, statements: list[bytes]) -> Sequence[Quad]:
        """The statements in the graph; written into the text where that is simple, which is faster than afterwards."""
        if self.graph != DEFAULT and all(statement.endswith(b" .") for statement in statements):
            end = f" {self.graph} .\n".encode()
            with suppress(SyntaxError):  # a statement names a graph of its own
                text = end.join(statement[:-2] for statement in statements) + end
                quads = list(parse(text, format=RdfFormat.N_QUADS))
                if all(quad.graph_name == self.graph for quad in quads):  # else the graph stands for a missing object
                    return quads
        return in_graph(list(parse(b"\n".join(statements), format=RdfFormat.N_QUADS)), self.graph)

    def _carefully(self, text: bytes, line: int) -> Batch:
        """The same line by line, to find what is wrong."""
        times: list[int] = []
        quads: list[Quad] = []
        for number, row in enumerate(text.split(b"\n"), line):
            if not row.strip() or row.startswith(b"#"):
                continue
            try:
                time, quad = element(row)
                self.steps.check(time)
            except ValueError as error:
                self.read_errors.found(StreamError(self.name, number, str(error)))
                continue
            times.append(time)
            quads.append(quad)
        return Batch(times, in_graph(quads, self.graph), self.graph)


def readable(text: bytes, steps: Steps, unreadable: Callable[[str], None]) -> bytes:
    """The lines that are elements; what the others lack is told."""
    kept, judged = [], copy(steps)
    for row in text.split(b"\n"):
        if not row.strip() or row.startswith(b"#"):
            continue
        try:
            judged.check(element(row)[0])
        except ValueError as error:
            unreadable(str(error))
        else:
            kept.append(row + b"\n")
    return b"".join(kept)


def element(row: bytes) -> tuple[int, Quad]:
    """The element of one line; a ValueError says what is wrong."""
    time, tab, statement = row.partition(b"\t")
    shown = row[:80].decode("utf-8", "replace").rstrip()
    if not tab:
        raise ValueError(f"{shown!r} has no tab: write <milliseconds>, a tab, and a statement in N-Quads")
    if not time.strip().isdigit():
        raise ValueError(f"{time.decode('utf-8', 'replace')!r} is no time: write whole milliseconds since the epoch")
    if depth_of_triples(statement) > DEEPEST:
        raise ValueError(f"{shown!r} is no statement: {TOO_DEEP}")
    try:
        quads = list(parse(statement, format=RdfFormat.N_QUADS))
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{shown!r} is no statement in N-Quads: {getattr(error, 'msg', error)}") from None
    if len(quads) != 1:
        raise ValueError(f"{shown!r} has {len(quads)} statements, and a line holds one")
    return int(time), quads[0]


def _nests(text: bytes) -> bool:
    """Whether some line may be nested too deep for a parser; nearly all hold not even a parenthesis, quickly seen."""
    return b"(" in text and any(row.count(b"<<") > DEEPEST for row in text.split(b"\n"))


def _breaks(rows: Sequence[tuple[bytes, bytes, bytes]]) -> bool:
    """Whether a line holds what ends a line of N-Quads, so that it may have two statements, and another none."""
    return any(b"\r" in row[2].rstrip() for row in rows)


def _standard_input() -> FileIO:
    if sys.stdin is None:
        raise InputError("the stream standard input is closed")
    return FileIO(sys.stdin.fileno(), closefd=False)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"the stream {path} cannot be read: {error.strerror}") from None
