"""Follows the answer file of a query across rotations."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from freshkeeper.maintenance.serve.answer_log import instant


@dataclass(eq=False)
class AnswerTail:
    """Reads the lines after an instant."""

    path: Path
    before: Path
    """what the full file before it is called"""
    after: int
    _file: BinaryIO | None = None

    def read(self, most: int) -> list[tuple[int, bytes]]:
        """Return the next whole lines, at most `most`."""
        found: list[tuple[int, bytes]] = []
        while len(found) < most:
            if self._file is None and not self._open(self.before if self.before.exists() else self.path):
                break
            if (line := self._line()) is not None:
                if (t := instant(line)) > self.after:
                    found.append((t, line))
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
        return True

    def _inode(self, file: BinaryIO | Path | None) -> int | None:
        if file is None:
            return None
        try:
            stat = file.stat() if isinstance(file, Path) else os.fstat(file.fileno())
        except FileNotFoundError:
            return None
        return stat.st_ino
