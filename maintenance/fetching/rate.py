"""Rate limits over the wall clock: at most so many requests in any stretch of a period.

The window slides: a limit of a fixed window lets twice as many through around its edge, which a source that counts
otherwise answers with 429. Sent requests are kept in grains of a thousandth of the period, rounded up, so that a limit
of a million a day needs a thousand numbers; they survive a restart.
"""

import math
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.base.durations import to_ms
from freshkeeper.maintenance.base.errors import ConfigError

GRAINS = 1000
_RATE_PATTERN = re.compile(r"\s*(\d{1,12})\s*/\s*(\d{0,12})\s*([a-z]+)\s*", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Rate:
    """A number of requests in a period."""

    requests: int
    period: float
    written: str

    @classmethod
    def of(cls, written: str) -> "Rate":
        """Read a rate from text: 10/s, 300/15min, 1000/day."""
        found = _RATE_PATTERN.fullmatch(written)
        try:
            period = to_ms(f"{found[2] or 1}{found[3]}") / 1000 if found else 0.0
        except ValueError:
            period = 0.0
        if not found or not period or not int(found[1]):
            raise ConfigError(f"{written!r} is no limit: write 10/s, 300/15min or 1000/day")
        return cls(int(found[1]), period, written.strip())


@dataclass(eq=False)
class Limit:
    """The requests that were sent under one rate."""

    rate: Rate
    sent: deque[tuple[float, int]] = field(default_factory=deque)
    """grains, oldest first: the time that stands for them, and how many"""

    def free(self, now: float) -> int:
        """Return how many requests may be sent now."""
        return max(0, self.rate.requests - sum(count for _, count in self._within(now)))

    def wait(self, now: float) -> float:
        """Return the seconds until one more request may be sent."""
        if self.free(now):
            return 0.0
        within = self._within(now)
        over = sum(count for _, count in within) - self.rate.requests
        for at, count in within:
            over -= count
            if over < 0:
                return at + self.rate.period - now
        return self.rate.period

    def take(self, now: float) -> None:
        """Count one request, and forget those that are a period old."""
        while self.sent and self.sent[0][0] <= now - self.rate.period:
            self.sent.popleft()
        grain = self.rate.period / GRAINS
        at = math.ceil(now / grain) * grain
        count = self.sent.pop()[1] if self.sent and self.sent[-1][0] == at else 0
        self.sent.append((at, count + 1))

    def _within(self, now: float) -> list[tuple[float, int]]:
        """Return the grains that count now; those a period ahead were written by a clock that was wrong."""
        since, until = now - self.rate.period, now + self.rate.period
        return [(at, count) for at, count in self.sent if since < at < until]

    def state(self, add: float = 0.0) -> list[list[float]]:
        """Return the grains; times are shifted by `add` seconds to another clock."""
        return [[at + add, count] for at, count in self.sent]

    def restore(self, grains: Sequence[Sequence[float]], add: float = 0.0) -> None:
        """Resume with the grains of an earlier run; times are shifted by `add` seconds to this clock."""
        self.sent = deque((float(at) + add, int(count)) for at, count in grains)
