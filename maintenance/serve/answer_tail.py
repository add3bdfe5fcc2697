"""Follows the answer file of a query across rotations."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAX_BYTES_AT_ONCE = 1 << 18
"""Bytes after which `read` returns what it has, so that slow readers of long answers hold little memory."""
MAX_SCANNED_BYTES = 1 << 16
"""Bytes that are searched line by line for an instant."""


@dataclass(eq=False)
class AnswerTail:
    """Reads the lines after an instant."""

    path: Path
    before: Path
    """what the full file before it is called"""
    after: int
    _file: BinaryIO | None = None

    def read(self, most: int) -> list[tuple[int, bytes]]:
        """Return the next whole lines, at most `most` and no more when they are long."""
        found: list[tuple[int, bytes]] = []
        size = 0
        while len(found) < most and size < MAX_BYTES_AT_ONCE:
            if self._file is None and not self._open(self.before if self.before.exists() else self.path):
                break
            if (line := self._line()) is not None:
                if (t := instant(line)) > self.after:
                    found.append((t, line))
                    size += len(line)
                    self.after = t
            elif not self._next():
                break
        return found

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _line(self) -> bytes | None:
        assert self._file is not None
        at = self._file.tell()
        line = self._file.readline()
        if line.endswith(b"\n"):
            return line
        self._file.seek(at)
        return None

    def _next(self) -> bool:
        """Open the file that follows this one; return whether there is one."""
        mine, full = self._inode(self._file), self._inode(self.before)
        if mine == self._inode(self.path) or not self.path.exists():
            return False
        # The file that was read is the rotated one now, or older than that: another rotation came in between.
        return self._open(self.path if mine == full or full is None else self.before)

    def _open(self, path: Path) -> bool:
        self.close()
        try:
            self._file = path.open("rb")
        except FileNotFoundError:
            return False
        self._skip(self._file)
        return True

    def _skip(self, file: BinaryIO) -> None:
        """Move close before the first line after the instant, by bisection: lines are in the order of instants."""
        low, high = 0, os.fstat(file.fileno()).st_size  # low is the begin of a line, and lines before it are known
        while high - low > MAX_SCANNED_BYTES:
            middle = (low + high) // 2
            file.seek(middle)
            file.readline()
            line = file.readline()
            if line.endswith(b"\n") and file.tell() <= high and instant(line) <= self.after:
                low = file.tell()
            else:
                high = middle
        file.seek(low)

    def _inode(self, file: BinaryIO | Path | None) -> int | None:
        if file is None:
            return None
        try:
            stat = file.stat() if isinstance(file, Path) else os.fstat(file.fileno())
        except FileNotFoundError:
            return None
        return stat.st_ino


def instant(line: bytes) -> int:
    """Return the instant that a line begins with."""
    return int(line[len(b'{"t": ') : line.index(b",")])
