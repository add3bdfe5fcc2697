"""Answers on their way out: an evaluation counts as answered when all of its bytes are taken, whatever takes them.

A file may be full, a pipe may take a part of what it is given, nothing for now, or nothing any more. After a run that
was cut off in the middle of an answer, output begins on a line of its own, so that what is repeated can be read.
"""

import fcntl
import os
import select
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from io import RawIOBase, UnsupportedOperation
from pathlib import Path
from typing import BinaryIO, TextIO

from freshkeeper.maintenance.base.errors import ReaderGoneError
from freshkeeper.maintenance.base.files import writing
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.outputs.output import TORN_ROW, Csv, Writer, chunks, writer

ENDINGS = {"ndjson": "ndjson", "sparql-json": "srj", "csv": "csv", "nquads": "nq"}
"""What a file of answers ends in."""


@dataclass(eq=False)
class Delivery:
    """Puts results out whole, one after the other."""

    file: RawIOBase | BinaryIO
    writer: Writer

    @classmethod
    def begin(
        cls, file: TextIO, form: str, goes_on: bool = False, torn: bool = False, empty: bool = True
    ) -> "Delivery":
        """With a head unless an earlier run's output goes on here; `torn`: that one may have ended within an answer."""
        raw = _bytes_of(file)
        at, last = _end(raw)
        made = cls(raw, writer(form, goes_on and at != 0, empty))
        if at == 0:
            return made
        if torn and isinstance(made.writer, Csv):
            made.write(TORN_ROW.encode())
        elif last != b"\n" and (torn or last is not None):
            made.write(b"\n")
        return made

    def put(self, result: Result) -> None:
        """All of one evaluation; when this returns, it is out."""
        for chunk in chunks(self.writer, result):
            self.write(chunk)

    def write(self, text: bytes | memoryview) -> None:
        """All of a text; what takes only a part is given the rest, what takes nothing is waited for."""
        rest = memoryview(text)
        try:
            with writing("standard output"):
                while rest:
                    taken = self.file.write(rest)
                    rest = rest[taken or 0 :]
                    if taken is None:
                        _wait(self.file.fileno())
        except (BrokenPipeError, ConnectionResetError):
            raise ReaderGoneError("nobody reads the answers any more") from None


@dataclass(eq=False)
class AnswerFiles:
    """A file for each query in a directory; one is open at a time, however many there are."""

    directory: Path
    form: str
    before: Callable[[str], tuple[bool, bool]] = field(default=lambda _: (False, False))
    """of a query: whether an earlier run's output goes on, and whether that one may have ended within an answer"""
    empty: bool = False
    _writers: dict[str, Writer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)

    def put(self, result: Result) -> None:
        """All of one evaluation, into the file of its query."""
        path, known = self.directory / f"{result.query}.{ENDINGS[self.form]}", self._writers.get(result.query)
        goes_on, torn = self.before(result.query)
        with writing(path), path.open("a" if goes_on or known else "w", encoding="utf-8") as file:
            made = Delivery.begin(file, self.form, goes_on, torn, self.empty) if known is None else None
            out = made or Delivery(_bytes_of(file), known or writer(self.form))
            self._writers[result.query] = out.writer
            out.put(result)


def _bytes_of(file: TextIO) -> RawIOBase | BinaryIO:
    """What takes a file's bytes without keeping any back."""
    found: RawIOBase | BinaryIO = getattr(file.buffer, "raw", file.buffer)
    return found


def _wait(descriptor: int) -> None:
    """Until it takes something, or never will."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    poll.poll()


def _end(file: RawIOBase | BinaryIO) -> tuple[int | None, bytes | None]:
    """Where in a file the next byte goes, and the byte before it; nothing where it is no file, or cannot be read."""
    try:
        descriptor = file.fileno()
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None, None
        appends = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
        at = found.st_size if appends else os.lseek(descriptor, 0, os.SEEK_CUR)
    except (OSError, UnsupportedOperation):
        return None, None
    return at, _byte(descriptor, at - 1) if at else None


def _byte(descriptor: int, at: int) -> bytes | None:
    """One byte of a file that is open for writing; not all systems let it be opened again like this."""
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
