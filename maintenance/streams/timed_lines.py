"""Timestamped N-Quads: one element per line, `<ms>` TAB `<statement in N-Triples or N-Quads>`.

A label of a blank node means the same node in the whole stream, and another one in every other stream. A line that is
no element is an error with its place, or is skipped and counted, depending on `on_error`. Empty lines and lines that
begin with # are ignored.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from http.client import HTTPException
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from pyoxigraph import Quad, RdfFormat, parse

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.nesting import MAX_DEPTH, TOO_DEEP, depth_of_triples
from freshkeeper.maintenance.streams.batch import Batch, without_graphs
from freshkeeper.maintenance.streams.blank_nodes import BlankNodes, in_scope
from freshkeeper.maintenance.streams.gap_limit import GapLimit
from freshkeeper.maintenance.streams.read_errors import ReadErrors, StreamError

CHUNK = 1 << 18
"""Bytes to read at a time."""
LONGEST_LINE = 1 << 20


@dataclass(eq=False)
class TimedLines:
    """A stream of timestamped N-Quads from a file, or from a reader whose `read1` returns the bytes available."""

    name: str
    open: Callable[[], BinaryIO | FileIO]
    read_errors: ReadErrors = field(default_factory=ReadErrors)
    steps: GapLimit = field(default_factory=GapLimit)
    scope: str | None = None
    """the prefix of its blank nodes; None: made of its name"""

    def __post_init__(self) -> None:
        if self.scope is None:
            self.scope = BlankNodes.DOCUMENT.scope(self.name)

    @classmethod
    def file(
        cls,
        path: Path,
        read_errors: ReadErrors | None = None,
        steps: GapLimit | None = None,
        scope: str | None = None,
    ) -> "TimedLines":
        read_errors, steps = read_errors or ReadErrors(), steps or GapLimit()
        return cls(str(path), lambda: _opened(path), read_errors, steps, scope=scope)

    @classmethod
    def stdin(cls, read_errors: ReadErrors, steps: GapLimit, scope: str | None = None) -> "TimedLines":
        return cls("standard input", _standard_input, read_errors, steps, scope=scope)

    def batches(self) -> Iterator[Batch]:
        for text, line in self.chunks():
            yield self.read(text, line)

    def chunks(self) -> Iterator[tuple[bytes, int]]:
        """Yield complete lines, as many as every chunk of bytes completes, with the number of the first."""
        rest = b""
        line = 1
        skipping = False  # the rest of a line that is too long
        with self.open() as source:
            while chunk := self._read_some(source):
                if skipping:
                    _, newline, chunk = chunk.partition(b"\n")
                    line += bool(newline)
                    skipping = not newline
                complete, newline, rest = (rest + chunk).rpartition(b"\n")
                if newline:
                    yield complete, line
                    line += complete.count(b"\n") + 1
                elif len(rest) > LONGEST_LINE:
                    problem = f"a line is longer than {LONGEST_LINE} bytes"
                    self.read_errors.report(StreamError(self.name, line, problem))
                    rest = b""
                    skipping = True
        if rest:
            yield rest, line

    def _read_some(self, source: BinaryIO | FileIO) -> bytes:
        """Return the bytes available, at most a chunk; none at the end."""
        read1 = getattr(source, "read1", source.read)
        try:
            found: bytes = read1(CHUNK)
        except (OSError, HTTPException) as error:
            raise InputError(f"the stream {self.name} broke off: {error}") from None
        return found

    def read(self, text: bytes, line: int = 1) -> Batch:
        """Return the elements of some lines, given the number of the first; parsed at once if nothing is wrong."""
        rows = [row.partition(b"\t") for row in text.split(b"\n")]
        # one test for all times: `int` would accept signs, blanks and underscores
        if not b"".join([row[0] for row in rows]).isdigit() or _nests(text) or _breaks(rows):
            return self._read_by_line(text, line)
        try:
            times = [int(row[0]) for row in rows]
            quads = without_graphs(list(parse(b"\n".join([row[2] for row in rows]), format=RdfFormat.N_QUADS)))
        except (ValueError, SyntaxError):
            return self._read_by_line(text, line)
        # fewer statements than lines: a comment or an empty line; more: a line with two
        if len(quads) != len(times) or not self.steps.take(times):
            return self._read_by_line(text, line)
        return Batch(times, self._scoped(quads, text))

    def _scoped(self, quads: Sequence[Quad], text: bytes) -> Sequence[Quad]:
        """Return the quads of a text with the stream's own blank nodes; most texts have none."""
        return in_scope(quads, self.scope or "") if b"_:" in text else quads

    def _read_by_line(self, text: bytes, line: int) -> Batch:
        """Return the elements of some lines, parsed line by line to find what is wrong."""
        times: list[int] = []
        quads: list[Quad] = []
        for number, row in enumerate(text.split(b"\n"), line):
            if not row.strip() or row.startswith(b"#"):
                continue
            try:
                time, quad = element(row)
                self.steps.check(time)
            except ValueError as error:
                self.read_errors.report(StreamError(self.name, number, str(error)))
                continue
            times.append(time)
            quads.append(quad)
        return Batch(times, self._scoped(without_graphs(quads), text))


def readable(text: bytes, steps: GapLimit, unreadable: Callable[[str], None]) -> bytes:
    """Return the lines that are elements, and report the problems of the others."""
    lines = []
    check = copy(steps).check  # the stream itself checks its elements when it reads them
    for row in text.split(b"\n"):
        if not row.strip() or row.startswith(b"#"):
            continue
        try:
            check(element(row)[0])
        except ValueError as error:
            unreadable(str(error))
        else:
            lines.append(row + b"\n")
    return b"".join(lines)


def element(row: bytes) -> tuple[int, Quad]:
    """Return the element of one line, or raise ValueError with the problem."""
    time, tab, statement = row.partition(b"\t")
    shown = row[:80].decode("utf-8", "replace").rstrip()
    if not tab:
        raise ValueError(f"{shown!r} has no tab: write <milliseconds>, a tab, and a statement in N-Quads")
    if not time.strip().isdigit():
        raise ValueError(f"{time.decode('utf-8', 'replace')!r} is no time: write whole milliseconds since the epoch")
    if depth_of_triples(statement) > MAX_DEPTH:
        raise ValueError(f"{shown!r} is no statement: {TOO_DEEP}")
    try:
        quads = list(parse(statement, format=RdfFormat.N_QUADS))
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{shown!r} is no statement in N-Quads: {getattr(error, 'msg', error)}") from None
    if len(quads) != 1:
        raise ValueError(f"{shown!r} has {len(quads)} statements, and a line holds one")
    return int(time), quads[0]


def _nests(text: bytes) -> bool:
    """Return whether a line may be nested too deep for a parser; most texts have not even a parenthesis."""
    return b"(" in text and any(row.count(b"<<") > MAX_DEPTH for row in text.split(b"\n"))


def _breaks(rows: Sequence[tuple[bytes, bytes, bytes]]) -> bool:
    """Return whether a line contains a line break of N-Quads, so that it may hold two statements, and another none."""
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
