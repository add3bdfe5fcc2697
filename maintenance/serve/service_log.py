"""The log of a service: pushed elements and changes of the registered queries, in the order in which they count.

A record is written before its request is acknowledged, so a service that starts again replays the log. The log consists
of segments. Every segment but the first begins with a snapshot, a record that stands for all segments before it, so
that segments without elements of an open window can be removed.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.files import make_directory, writing
from freshkeeper.maintenance.state.append_log import AppendLog, read_records

MAX_RECORD_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class LogRecord:
    """A record: what happened, and the bytes that belong to it."""

    head: Mapping[str, Any]
    body: bytes = b""


@dataclass(eq=False)
class ServiceLog:
    """The segments in one directory, each an append log; one process has the directory at a time."""

    directory: Path
    synced: bool = False
    """whether every append waits for the disk"""
    last: int = 0
    """the number of the segment that is written"""
    _segment: AppendLog = field(init=False)

    def __post_init__(self) -> None:
        with writing(self.directory):
            make_directory(self.directory)
        self.last = max(self.segments(), default=0)
        self._segment = self._opened(self.last)

    @property
    def size(self) -> int:
        """Bytes of the segment that is written."""
        return self._segment.size

    def segments(self) -> list[int]:
        """Return the numbers of all segments, the oldest first."""
        return sorted(int(path.stem) for path in self.directory.glob("*.log"))

    def append(self, record: LogRecord) -> None:
        """Write a record; it survives a crash of the process when this returns."""
        self._append_to(self._segment, record)

    def _append_to(self, segment: AppendLog, record: LogRecord) -> None:
        head = json.dumps(record.head, separators=(",", ":")).encode()
        if len(head) + len(record.body) > MAX_RECORD_BYTES:
            raise InputError(f"{len(record.body):,} bytes at once are more than a log takes: send fewer elements")
        segment.append(head, record.body)

    def records(self) -> Iterator[LogRecord]:
        """Read all records of all segments, in order."""
        for number in self.segments():
            for head, body in read_records(self._path(number), number == self.last, self.synced):
                yield LogRecord(json.loads(head), body)

    def roll(self, snapshot: LogRecord) -> None:
        """Begin a segment with a record that stands for all segments before it."""
        new = self._opened(self.last + 1)
        try:
            self._append_to(new, snapshot)
        except BaseException:
            new.close()
            self._path(self.last + 1).unlink(missing_ok=True)
            raise
        self._segment.close()
        self.last += 1
        self._segment = new

    def drop(self, before: int) -> None:
        """Remove the segments with smaller numbers."""
        for number in self.segments():
            if number < before:
                self._path(number).unlink()

    def close(self) -> None:
        """Close the segment that is written."""
        self._segment.close()

    def _opened(self, number: int) -> AppendLog:
        return AppendLog(self._path(number), self.synced)

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:010d}.log"
