"""Answers on their way out: an evaluation counts as answered when all of its bytes are taken, whatever takes them.

A file may be full, a pipe may take a part of what it is given, nothing for now, or nothing any more. After a run that
was cut off in the middle of an answer, output begins on a line of its own, so that what is repeated can be read.
"""

import fcntl
import os
import select
import stat
from dataclasses import dataclass
from io import RawIOBase, UnsupportedOperation
from typing import BinaryIO, TextIO

from freshkeeper.maintenance.files import writing
from freshkeeper.maintenance.rsp.output import TORN_ROW, Csv, Writer, writer
from freshkeeper.maintenance.rsp.r2s import Result
from freshkeeper.policies.errors import ReaderGoneError


@dataclass(eq=False)
class Delivery:
    """Puts results out whole, one after the other."""

    file: RawIOBase | BinaryIO
    writer: Writer

    @classmethod
    def begin(cls, file: TextIO, form: str, goes_on: bool = False, torn: bool = False) -> "Delivery":
        """With a head unless an earlier run's output goes on here; `torn`: that one may have ended within an answer."""
        raw = getattr(file.buffer, "raw", file.buffer)
        at, last = _end(raw)
        made = cls(raw, writer(form, headed=goes_on and at != 0))
        if at == 0:
            return made
        if torn and isinstance(made.writer, Csv):
            made.write(TORN_ROW)
        elif last != b"\n" and (torn or last is not None):
            made.write("\n")
        return made

    def put(self, result: Result) -> None:
        """All of one evaluation; when this returns, it is out."""
        self.write("".join(self.writer.lines(result)))

    def write(self, text: str) -> None:
        """All of a text; what takes only a part is given the rest, what takes nothing is waited for."""
        rest = memoryview(text.encode())
        try:
            with writing("standard output"):
                while rest:
                    taken = self.file.write(rest)
                    rest = rest[taken or 0 :]
                    if taken is None:
                        _wait(self.file.fileno())
        except (BrokenPipeError, ConnectionResetError):
            raise ReaderGoneError("nobody reads the answers any more") from None


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
