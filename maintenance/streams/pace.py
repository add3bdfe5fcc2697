"""Replay at a pace: elements are handed on when they are due, by a clock that runs at a multiple of real time."""

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.streams.batch import Stream, TimedElements


def speed_of(written: str) -> float | None:
    """Return the factor of `1x`, `10x` or `0.5x`, or None for `max`."""
    if written == "max":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x", written)
    if not found or float(found[1]) == 0:
        raise ConfigError(f"--speed {written}: write 1x, 10x or max")
    return float(found[1])


@dataclass(eq=False)
class Pace:
    """A clock for all streams of a run; it starts with the first element of any of them."""

    speed: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    after: int | None = None
    """elements up to this time were in an earlier run, and are handed on at once"""
    _began: tuple[float, int] | None = None

    def now(self, first: int) -> int:
        """Return the current event time in milliseconds, starting the clock at `first` if necessary."""
        wall = self.clock()
        self._began = self._began or (wall, first)
        return self._began[1] + int((wall - self._began[0]) * 1000 * self.speed)

    def wait(self, until: int) -> None:
        missing = until - self.now(until)
        if missing > 0:
            self.sleep(missing / 1000 / self.speed)


@dataclass(eq=False)
class Paced:
    """A stream at a pace, cut where its next element is not due yet."""

    stream: Stream
    pace: Pace = field(default_factory=lambda: Pace(1))

    def batches(self) -> Iterator[TimedElements]:
        """Yield batches cut where the pace has got to; elements up to `after` are due at once."""
        for batch in self.stream.batches():
            at = 0
            if self.pace.after is not None:
                at = bisect_right(batch.times, self.pace.after)
            if at:
                yield batch.part(0, at)
            # at least one element at a time, then all that became due while it was waited for
            while at < len(batch):
                time = int(batch.times[at])
                self.pace.wait(time)
                due = max(at + 1, bisect_right(batch.times, self.pace.now(time)))
                yield batch.part(at, due)
                at = due
