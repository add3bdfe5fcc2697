"""A circuit breaker: a source that fails again and again is left alone, and tried with one request now and then."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_WAIT = 86_400.0
"""Seconds that a source may ask to be left alone; what it asks beyond is cut."""


@dataclass(eq=False)
class Breaker:
    """Closed while requests succeed; open for `cool_down` seconds after so many failures in a row; then one probe."""

    failures: int = 5
    cool_down: float = 30.0
    failed: int = 0
    opened: float | None = None
    probing: float | None = None
    """since when a probe is under way; one that nobody hears of again is over after a cool-down"""

    def room(self, now: float) -> float:
        """How many requests it lets through."""
        if self.opened is None:
            return math.inf
        return 1 if self.wait(now) == 0 else 0

    def wait(self, now: float) -> float:
        """Seconds until it lets one through."""
        since = self.opened if self.probing is None else self.probing
        if since is None or since > now:  # later than now: written by a clock that was wrong
            return 0.0
        return max(0.0, since + self.cool_down - now)

    def take(self, now: float) -> None:
        """A request goes through; where the breaker is open it is the probe."""
        self.probing = None if self.opened is None else now

    def succeeded(self) -> None:
        """Close it: the failures before are forgotten."""
        self.failed, self.opened, self.probing = 0, None, None

    def failed_once(self, now: float) -> None:
        """One failure more; a probe that fails opens it anew."""
        self.failed += 1
        if self.probing is not None or (self.opened is None and self.failed >= self.failures):
            self.opened = now
        self.probing = None

    def state(self, add: float = 0.0) -> dict[str, Any]:
        """Failures in a row, and since when it is open, by a clock that is so far ahead."""
        return {"failed": self.failed, "opened": None if self.opened is None else self.opened + add}

    def restore(self, state: Mapping[str, Any], add: float = 0.0) -> None:
        """As an earlier run left it, by a clock that this one is so far ahead of."""
        opened = state.get("opened")
        self.failed, self.opened = int(state.get("failed", 0)), None if opened is None else opened + add
