"""Elements that come while they are served: lines of since, until and a statement, from wherever streams come from.

-                   standard input
follow:delays.tsv   a file that grows
tcp://host:port     lines; and the other addresses that streams have
"""

import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from freshkeeper.maintenance.annotated.annotated_data import SHORT, read_element
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.sources.fragments.annotation_style import Held
from freshkeeper.maintenance.streams.live.feed import OnLoss
from freshkeeper.maintenance.streams.opening import FOLLOW, WAYS, Reception, is_live, open_stream
from freshkeeper.maintenance.streams.timed_lines import OnError, ReadErrors, TimedLines

POLL_S = 0.2
"""How often a file is looked at that may have grown."""
TOLD = 5
"""Lines that are told of when they cannot be served; all are counted."""


def _pause() -> bool:
    time.sleep(POLL_S)
    return True


class GrowingFile(io.FileIO):
    """A file whose end is where somebody writes."""

    def __init__(self, path: Path, wait: Callable[[], bool]) -> None:
        super().__init__(path)
        self._wait = wait

    def read1(self, size: int = -1, /) -> bytes:
        """What there is, as soon as there is something."""
        while not (found := super().read(size)) and self._wait():
            pass
        return found


@dataclass(eq=False)
class LiveElements:
    """One stream of elements; `take` gets those of some lines, and says of each why it cannot be served, or nothing."""

    written: str
    take: Callable[[list[Held]], list[str]]
    tell: Callable[[str], None]
    shift: int = 0
    on_loss: OnLoss = OnLoss.RECONNECT
    """when a connection ends"""
    wait: Callable[[], bool] = _pause
    """called where a file has not grown; False ends it"""
    served: int = 0
    refused: int = 0
    """lines that are no elements, and elements that cannot be served"""
    late: int = 0
    """elements that came later than was promised"""
    _told: int = 0
    _read_errors: ReadErrors = field(init=False)

    def __post_init__(self) -> None:
        self._read_errors = ReadErrors(OnError.SKIP, tell=self._refuse)
        file = Path(self.written.removeprefix(FOLLOW))
        if self.written.startswith(FOLLOW) and file.is_file():
            self._lines = TimedLines(str(file), lambda: cast(BinaryIO, GrowingFile(file, self.wait)), self._read_errors)
            return
        reception = Reception(self.on_loss, self.tell)
        stream = open_stream(self.written, self._read_errors, reception=reception) if is_live(self.written) else None
        if not isinstance(stream, TimedLines):
            raise ConfigError(f"--live {self.written}: write -, follow:FILE or an address ({WAYS})")
        self._lines = stream

    def run(self) -> None:
        """Until the stream ends."""
        try:
            for text, line in self._lines.chunks():
                pairs = list(self._read(text, line))
                for (where, held), why in zip(pairs, self.take([held for _, held in pairs]), strict=True):
                    self._count(f"{where}: {held.triple}: {why}" if why else "", why)
            self.tell(f"{self._lines.name} is over; what it said is served until it ends")
        except InputError as error:
            self.tell(str(error))

    def news(self) -> str:
        """What became of its lines."""
        said = f"{self.served:,} elements came, {self.late:,} of them later than was promised"
        return f"{said}, and {self.refused:,} lines were none that can be served"

    def _read(self, text: bytes, first: int) -> Iterator[tuple[str, Held]]:
        for number, line in enumerate(text.decode("utf-8", "replace").split("\n"), first):
            where = f"{self._lines.name}, line {number}"
            if not line.strip() or line.startswith("#"):
                continue
            try:
                yield where, read_element(line, where, self.shift)
            except InputError as error:
                self._refuse(str(error))

    def _count(self, said: str, why: str) -> None:
        if why and why != SHORT:
            self._refuse(said)
            return
        self.served += 1
        self.late += why == SHORT

    def _refuse(self, said: str) -> None:
        self.refused += 1
        self._told += 1
        if self._told <= TOLD:
            self.tell(said + (" (further ones are counted)" if self._told == TOLD else ""))
