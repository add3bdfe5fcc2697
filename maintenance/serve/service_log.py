"""What was acknowledged, in the order in which it counts: elements, and queries that came and went.

A log of segments. What `append` has returned from is there after a kill, because the system writes what a dead process
had handed to it; `durable` waits for the disk as well. A record that a kill cut off was acknowledged to nobody, and is
cut away when the log is opened again; a damaged one before the end is an error. Every segment but the first begins
with a record that stands for all segments before it, so that those may go.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from freshkeeper.maintenance.files import make_directory, writing
from freshkeeper.maintenance.state.framed_records import framed, frames, whole_size
from freshkeeper.policies.errors import ConfigError, InputError

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
        whole = whole_size(path, not self.durable) if segments else 0
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
        text = framed(head, record.body)
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
            for head, body in frames(self._path(number), number == self.last, not self.durable):
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
