"""Append-only files that survive a crash: framed records for logs, lines for answers.

A process that dies leaves whole records and lines, and at most one partial one at the end. Opening a file for writing
removes it: it was acknowledged to nobody.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.files import PRIVATE, writing

SIZES = struct.Struct("<II")
"""Bytes of the head, bytes of the body."""
CHECKSUMS = struct.Struct("<II")
"""CRC-32 of the sizes, CRC-32 of head and body."""
FRONT_BYTES = SIZES.size + CHECKSUMS.size
BLOCK_BYTES = 1 << 16
"""How much of a file of lines is read at once, from its end."""


@dataclass(eq=False)
class AppendLog:
    """Framed records in one file: sizes, checksums, head and body of each.

    A damaged record before the end is an error, a partial one at the end is removed when the log is opened.
    """

    path: Path
    synced: bool = False
    """Whether every append waits for the disk. Without, a power failure may leave a last record of full length whose
    bytes are not all there."""
    size: int = 0
    """Bytes of all whole records."""
    _file: BinaryIO | None = None

    def __post_init__(self) -> None:
        if self.path.exists():
            fronts = (FRONT_BYTES + len(head) + len(body) for head, body in read_records(self.path, True, self.synced))
            self.size = sum(fronts)
            with writing(self.path):
                os.truncate(self.path, self.size)

    def append(self, head: bytes, body: bytes = b"", sync: bool = False) -> None:
        """Write a record; it survives the process when this returns, and with `sync` a power failure too.

        Raises ConfigError if the disk takes no more; the log then ends with the record before.
        """
        record = _front(head, body) + head + body
        try:
            with writing(self.path):
                self._write(record, sync or self.synced)
        except ConfigError:
            # A part of a record in the middle of the log would be damage; at its end it is what a crash leaves.
            os.truncate(self.path, self.size)
            raise
        self.size += len(record)

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        if self.path.exists():
            yield from read_records(self.path, last=True, synced=self.synced)

    def close(self) -> None:
        """Close the file; another append opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, record: bytes, sync: bool) -> None:
        if self._file is None:
            self.path.touch(PRIVATE)
            self._file = self.path.open("ab", buffering=0)
        rest = memoryview(record)
        while rest:
            rest = rest[self._file.write(rest) :]
        if sync:
            os.fsync(self._file.fileno())


def read_records(path: Path, last: bool, synced: bool) -> Iterator[tuple[bytes, bytes]]:
    """Read head and body of all whole records of a file.

    Only the `last` file of a log may end with a partial record; anything else that cannot be read is a ConfigError.
    """
    start = 0
    with path.open("rb") as file:
        while front := file.read(FRONT_BYTES):
            head_size, body_size = SIZES.unpack_from(front.ljust(FRONT_BYTES, b"\0"))
            end = None
            head = body = b""
            if len(front) == FRONT_BYTES and _sizes_are_intact(front):
                end = start + FRONT_BYTES + head_size + body_size
                head, body = file.read(head_size), file.read(body_size)
            if end is None or front != _front(head, body):
                file.seek(start)
                if last and _is_partial(file, end, synced):
                    return
                raise ConfigError(
                    f"{path} is damaged at byte {start}: give a copy of the state directory, or another directory"
                )
            yield head, body
            start = end


def truncate_partial_line(path: Path) -> int:
    """Remove a last line without a newline, and return the bytes that are left."""
    with writing(path), path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        end = last_line_end(file, size)
        if end < size:
            file.truncate(end)
    return end


def last_line_end(file: BinaryIO, before: int) -> int:
    """Return where the last whole line before an offset ends: behind its newline, 0 if there is no newline."""
    while before > 0:
        start = max(0, before - BLOCK_BYTES)
        file.seek(start)
        newline = file.read(before - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        before = start
    return 0


def _front(head: bytes, body: bytes) -> bytes:
    sizes = SIZES.pack(len(head), len(body))
    return sizes + CHECKSUMS.pack(zlib.crc32(sizes), zlib.crc32(body, zlib.crc32(head)))


def _sizes_are_intact(front: bytes) -> bool:
    checksum, _ = CHECKSUMS.unpack_from(front, SIZES.size)
    return bool(checksum == zlib.crc32(front[: SIZES.size]))


def _is_partial(file: BinaryIO, end: int | None, synced: bool) -> bool:
    """Return whether a crash explains the rest of a file: it is too short for its record, or all zeros.

    Where nobody waited for the disk, a power failure also explains a record of full length with wrong bytes.
    """
    rest = file.read()
    if end is not None and file.tell() < end + (not synced):
        return True
    return len(rest) < FRONT_BYTES or not rest.strip(b"\0")
