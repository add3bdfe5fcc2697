"""Results written to files and pipes: an evaluation counts as answered when all its bytes are written.

A disk may be full; a pipe may accept a part of the bytes, none for now, or none any more. After a run that was killed
in the middle of an answer, output begins on a new line, so that the repeated answer can be read.
"""

import fcntl
import os
import select
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import RawIOBase, UnsupportedOperation
from pathlib import Path
from typing import BinaryIO, TextIO

from freshkeeper.maintenance.base.errors import ReaderGoneError
from freshkeeper.maintenance.base.files import writing
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.outputs.formats import PARTIAL_ROW_END, Csv, Writer, chunks, writer
from freshkeeper.maintenance.outputs.sender import AnswerLine
from freshkeeper.maintenance.state.append_log import truncate_partial_line


@dataclass(eq=False)
class RotatingFile:
    """A file of answers as lines, which is renamed when it reaches its maximal size: answers.ndjson.1, and so on.

    A crash may leave a partial last line. It is removed when the file is opened, and its answer is written again.
    """

    path: Path
    largest: int
    """bytes at which a new file begins"""
    keep: int
    """number of older files to keep"""

    def __post_init__(self) -> None:
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                truncate_partial_line(self.path)

    @property
    def name(self) -> str:
        return str(self.path)

    def put(self, answers: Sequence[AnswerLine]) -> None:
        with writing(self.path):
            for answer in answers:
                with self.path.open("ab", buffering=0) as file:
                    file.write(answer.line)
                    size = file.tell()
                if size >= self.largest:
                    self._rotate()

    def close(self) -> None:
        """Do nothing: the file is closed after every line."""

    def _rotate(self) -> None:
        self._older(self.keep).unlink(missing_ok=True)
        for number in range(self.keep - 1, 0, -1):
            if self._older(number).exists():
                self._older(number).replace(self._older(number + 1))
        if self.keep:
            self.path.replace(self._older(1))
        else:
            self.path.unlink()

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


ENDINGS = {"ndjson": "ndjson", "sparql-json": "srj", "csv": "csv", "nquads": "nq"}
"""File endings by format."""


@dataclass(eq=False)
class ResultSink:
    """A writer of whole results to a file or pipe."""

    file: RawIOBase | BinaryIO
    writer: Writer

    @classmethod
    def begin(
        cls, file: TextIO, form: str, *, resumed: bool = False, partial: bool = False, empty: bool = True
    ) -> "ResultSink":
        """Return a sink for a file.

        A table gets its head unless the output of an earlier run is resumed; `partial` says that the run may have ended
        within an answer.
        """
        raw = _bytes_of(file)
        at, last = _end(raw)
        sink = cls(raw, writer(form, resumed and at != 0, empty))
        if at == 0:
            return sink
        if partial and isinstance(sink.writer, Csv):
            sink.write(PARTIAL_ROW_END.encode())
        elif last != b"\n" and (partial or last is not None):
            sink.write(b"\n")
        return sink

    def put(self, result: Result) -> None:
        """Write one result; when this returns, all its bytes are written."""
        for chunk in chunks(self.writer, result):
            self.write(chunk)

    def write(self, text: bytes | memoryview) -> None:
        """Write all of a text: a partial write is continued, and a full pipe is waited for."""
        rest = memoryview(text)
        try:
            with writing("standard output"):
                while rest:
                    written = self.file.write(rest)
                    if written is None:
                        _wait(self.file.fileno())
                    else:
                        rest = rest[written:]
        except (BrokenPipeError, ConnectionResetError):
            raise ReaderGoneError("nobody reads the answers any more") from None


@dataclass(eq=False)
class AnswerFiles:
    """A file for each query in a directory, of which one is open at a time."""

    directory: Path
    form: str
    before: Callable[[str], tuple[bool, bool]] = field(default=lambda _: (False, False))
    """returns for a query whether the output of an earlier run is resumed, and whether that may end within an answer"""
    empty: bool = False
    _writers: dict[str, Writer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)

    def put(self, result: Result) -> None:
        path = self.directory / f"{result.query}.{ENDINGS[self.form]}"
        format_writer = self._writers.get(result.query)
        resumed, partial = self.before(result.query)
        with writing(path), path.open("a" if resumed or format_writer else "w", encoding="utf-8") as file:
            if format_writer is None:
                sink = ResultSink.begin(file, self.form, resumed=resumed, partial=partial, empty=self.empty)
            else:
                sink = ResultSink(_bytes_of(file), format_writer)
            self._writers[result.query] = sink.writer
            sink.put(result)


def _bytes_of(file: TextIO) -> RawIOBase | BinaryIO:
    found: RawIOBase | BinaryIO = getattr(file.buffer, "raw", file.buffer)
    return found


def _wait(descriptor: int) -> None:
    """Wait until a descriptor accepts bytes, or never will."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    poll.poll()


def _end(file: RawIOBase | BinaryIO) -> tuple[int | None, bytes | None]:
    """Return the offset of the next byte and the byte before it; None if the file is a pipe or cannot be read."""
    try:
        descriptor = file.fileno()
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None, None
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
            at = status.st_size
        else:
            at = os.lseek(descriptor, 0, os.SEEK_CUR)
    except (OSError, UnsupportedOperation):
        return None, None
    if not at:
        return at, None
    return at, _byte(descriptor, at - 1)


def _byte(descriptor: int, at: int) -> bytes | None:
    """Return a byte of a file that is open for writing, or None on systems that cannot open it again."""
    try:
        reading = os.open(f"/dev/fd/{descriptor}", os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.pread(reading, 1, at)
    except OSError:
        return None
    finally:
        os.close(reading)
