"""Elements that arrive while they are served: lines of since, until and a statement, from any kind of stream.

-                   standard input
follow:delays.tsv   a file that grows
tcp://host:port     lines; and the other addresses of streams
"""

import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from freshkeeper.maintenance.annotated.annotated_data import SHORT_NOTICE, read_element
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.sources.fragments.annotation_style import TimedTriple
from freshkeeper.maintenance.streams.live.feed import OnLoss
from freshkeeper.maintenance.streams.opening import FOLLOW, WAYS, Reception, is_live, open_stream
from freshkeeper.maintenance.streams.read_errors import OnError, ReadErrors
from freshkeeper.maintenance.streams.timed_lines import TimedLines

POLL_S = 0.2
"""Interval at which a growing file is checked."""
MAX_REPORTED = 5
"""Refused lines that are reported one by one; all are counted."""


def _pause() -> bool:
    time.sleep(POLL_S)
    return True


class GrowingFile(io.FileIO):
    """A file that another process appends to."""

    def __init__(self, path: Path, wait: Callable[[], bool]) -> None:
        super().__init__(path)
        self._wait = wait

    def read1(self, size: int = -1, /) -> bytes:
        """Return available bytes, and wait until there are some."""
        found = super().read(size)
        while not found and self._wait():
            found = super().read(size)
        return found


@dataclass(eq=False)
class LiveElements:
    """A stream of elements. `take` receives those of some lines and returns, for each, why it is refused, or ""."""

    written: str
    take: Callable[[list[TimedTriple]], list[str]]
    report: Callable[[str], None]
    shift: int = 0
    on_loss: OnLoss = OnLoss.RECONNECT
    """what to do when a connection ends"""
    wait: Callable[[], bool] = _pause
    """called while a file has not grown; returns False to stop"""
    served: int = 0
    refused: int = 0
    """lines that are not elements, and elements that cannot be served"""
    late: int = 0
    """elements that arrived with less than the promised notice"""
    _reported: int = 0
    _read_errors: ReadErrors = field(init=False)

    def __post_init__(self) -> None:
        self._read_errors = ReadErrors(OnError.SKIP, notify=self._refuse)
        file = Path(self.written.removeprefix(FOLLOW))
        if self.written.startswith(FOLLOW) and file.is_file():
            self._lines = TimedLines(str(file), lambda: cast(BinaryIO, GrowingFile(file, self.wait)), self._read_errors)
            return
        reception = Reception(self.on_loss, self.report)
        if is_live(self.written):
            stream = open_stream(self.written, self._read_errors, reception=reception)
        else:
            stream = None
        if not isinstance(stream, TimedLines):
            raise ConfigError(f"--live {self.written}: write -, follow:FILE or an address ({WAYS})")
        self._lines = stream

    def run(self) -> None:
        try:
            for text, line in self._lines.chunks():
                pairs = list(self._read(text, line))
                for (where, held), why in zip(pairs, self.take([held for _, held in pairs]), strict=True):
                    self._count(f"{where}: {held.triple}: {why}" if why else "", why)
            self.report(f"{self._lines.name} has ended; its elements are served until they end")
        except InputError as error:
            self.report(str(error))

    def summary(self) -> str:
        said = f"{self.served:,} elements served, {self.late:,} of them with less than the promised notice"
        return f"{said}; {self.refused:,} lines refused"

    def _read(self, text: bytes, first: int) -> Iterator[tuple[str, TimedTriple]]:
        for number, line in enumerate(text.decode("utf-8", "replace").split("\n"), first):
            where = f"{self._lines.name}, line {number}"
            if not line.strip() or line.startswith("#"):
                continue
            try:
                yield where, read_element(line, where, self.shift)
            except InputError as error:
                self._refuse(str(error))

    def _count(self, said: str, why: str) -> None:
        if why and why != SHORT_NOTICE:
            self._refuse(said)
            return
        self.served += 1
        self.late += why == SHORT_NOTICE

    def _refuse(self, said: str) -> None:
        self.refused += 1
        self._reported += 1
        if self._reported <= MAX_REPORTED:
            self.report(said + (" (further refusals are only counted)" if self._reported == MAX_REPORTED else ""))
