"""What was acknowledged, in the order in which it counts: elements, and queries that came and went.

A log of segments. What `append` has returned from is there after a kill, because the system writes what a dead process
had handed to it; `durable` waits for the disk as well. A record that a kill cut off was acknowledged to nobody, and is
cut away when the log is opened again; a damaged one before the end is an error. Every segment but the first begins
with a record that stands for all segments before it, so that those may go.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from freshkeeper.maintenance.files import make_directory, writing
from freshkeeper.policies.errors import ConfigError, InputError

SIZES = struct.Struct("<II")
"""Bytes of the head, bytes of the body."""
FRAME = struct.Struct("<IIII")
"""The sizes, their check sum, and that of head and body."""
LONGEST = 1 << 30
"""Bytes of a record; more is damage."""


@dataclass(frozen=True, eq=False)
class Record:
    """One thing that happened: what, and the bytes that belong to it."""

    head: Mapping[str, Any]
    body: bytes = b""


@dataclass(eq=False)
class ServiceLog:
    """The segments in one directory; one process has it at a time, as it has the state beside it."""

    directory: Path
    durable: bool = False
    size: int = 0
    """bytes of the segment that is written"""
    _file: BinaryIO = field(init=False)

    def __post_init__(self) -> None:
        with writing(self.directory):
            make_directory(self.directory)
        segments = self.segments()
        self.last = segments[-1] if segments else 0
        path = self._path(self.last)
        whole = sum(FRAME.size + len(head) + len(body) for head, body in self._frames(self.last)) if segments else 0
        with writing(path):
            self._file = path.open("ab", buffering=0)
            self._file.truncate(whole)
        self.size = whole

    def segments(self) -> list[int]:
        """The numbers of those that are there, the oldest first."""
        return sorted(int(path.stem) for path in self.directory.glob("*.log"))

    def append(self, record: Record) -> None:
        """One more; when this returns it is there."""
        head = json.dumps(record.head, separators=(",", ":")).encode()
        if len(head) + len(record.body) > LONGEST:
            raise InputError(f"{len(record.body):,} bytes at once are more than a log takes: send fewer elements")
        text = _front(head, record.body) + head + record.body
        try:
            with writing(self.directory):
                self._write(text)
        except ConfigError:
            os.truncate(self._path(self.last), self.size)
            raise
        self.size += len(text)

    def records(self) -> Iterator[Record]:
        """All that are kept, in order."""
        for number in self.segments():
            for head, body in self._frames(number):
                yield Record(json.loads(head), body)

    def roll(self, snapshot: Record) -> None:
        """Begin a segment with a record that stands for what came before; it is there whole, or the old one goes on."""
        self._file.close()
        self.last += 1
        self._file, self.size = self._path(self.last).open("ab", buffering=0), 0
        self.append(snapshot)

    def drop(self, before: int) -> None:
        """Forget segments with smaller numbers."""
        for number in self.segments():
            if number < before:
                self._path(number).unlink()

    def close(self) -> None:
        """Others may have it."""
        self._file.close()

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:010d}.log"

    def _write(self, text: bytes) -> None:
        rest = memoryview(text)
        while rest:
            rest = rest[self._file.write(rest) :]
        if self.durable:
            os.fsync(self._file.fileno())

    def _frames(self, number: int) -> Iterator[tuple[bytes, bytes]]:
        """The whole records of a segment; only the last segment may end within one."""
        path, at = self._path(number), 0
        with path.open("rb") as file:
            while front := file.read(FRAME.size):
                of_head, of_body, check, _ = FRAME.unpack(front.ljust(FRAME.size, b"\0"))
                known = len(front) == FRAME.size and check == zlib.crc32(SIZES.pack(of_head, of_body))
                head, body = (file.read(of_head), file.read(of_body)) if known else (b"", b"")
                if not known or front != _front(head, body):
                    file.seek(at)
                    if number == self.last and _is_cut(file, at + FRAME.size + of_head + of_body if known else None):
                        return
                    raise ConfigError(
                        f"{path} is damaged at byte {at}: give a copy of the state directory, or another directory"
                    )
                yield head, body
                at += FRAME.size + of_head + of_body


def _front(head: bytes, body: bytes) -> bytes:
    sizes = SIZES.pack(len(head), len(body))
    return sizes + struct.pack("<II", zlib.crc32(sizes), zlib.crc32(body, zlib.crc32(head)))


def _is_cut(file: BinaryIO, end: int | None) -> bool:
    """Whether a kill or a power cut explains the rest of a file: too short for what it says, or nothing but zeros."""
    rest = file.read()
    if end is not None and file.tell() < end:
        return True
    return len(rest) < FRAME.size or not rest.strip(b"\0")
