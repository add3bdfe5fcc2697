"""Replay at a pace: elements are handed on when their time has come, by a clock that runs so many times as fast."""

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.streams.batch import Stream, Timed


def speed_of(written: str) -> float | None:
    """`1x`, `10x`, `0.5x`; nothing for `max`."""
    if written == "max":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x", written)
    if not found or float(found[1]) == 0:
        raise ConfigError(f"--speed {written}: write 1x, 10x or max")
    return float(found[1])


@dataclass(eq=False)
class Pace:
    """One clock for all streams of a run; it starts with the first element of any of them."""

    speed: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    after: int | None = None
    """what is not younger than this is handed on at once: an earlier run had it"""
    _began: tuple[float, int] | None = None

    def now(self, first: int) -> int:
        """The event time that it is now, in milliseconds; `first` is where it starts."""
        wall = self.clock()
        self._began = self._began or (wall, first)
        return self._began[1] + int((wall - self._began[0]) * 1000 * self.speed)

    def wait(self, until: int) -> None:
        """Until the event time is so far."""
        missing = until - self.now(until)
        if missing > 0:
            self.sleep(missing / 1000 / self.speed)


@dataclass(eq=False)
class Paced:
    """A stream at a pace; it is cut where its next element is not due yet."""

    stream: Stream
    pace: Pace = field(default_factory=lambda: Pace(1))

    def batches(self) -> Iterator[Timed]:
        """Batches cut where the pace has come to; what is up to `after` goes at once."""
        for batch in self.stream.batches():
            at = 0 if self.pace.after is None else bisect_right(batch.times, self.pace.after)
            if at:
                yield batch.part(0, at)
            while at < len(batch):
                time = int(batch.times[at])
                self.pace.wait(time)
                due = max(at + 1, bisect_right(batch.times, self.pace.now(time)))
                yield batch.part(at, due)
                at = due
