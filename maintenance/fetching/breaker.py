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
        """Return how many requests may pass."""
        if self.opened is None:
            return math.inf
        if self.wait(now) == 0:
            return 1
        return 0

    def wait(self, now: float) -> float:
        """Return the seconds until one request may pass."""
        since = self.opened if self.probing is None else self.probing
        if since is None or since > now:  # later than now: written by a clock that was wrong
            return 0.0
        return max(0.0, since + self.cool_down - now)

    def take(self, now: float) -> None:
        """Let a request pass; if the breaker is open, the request is the probe."""
        self.probing = None if self.opened is None else now

    def succeeded(self) -> None:
        """Close the breaker and forget the failures."""
        self.failed, self.opened, self.probing = 0, None, None

    def failed_once(self, now: float) -> None:
        """Count a failure; a probe that fails opens the breaker again."""
        self.failed += 1
        if self.probing is not None or (self.opened is None and self.failed >= self.failures):
            self.opened = now
        self.probing = None

    def state(self, add: float = 0.0) -> dict[str, Any]:
        """Return the state to save; times are shifted by `add` seconds to another clock."""
        return {"failed": self.failed, "opened": None if self.opened is None else self.opened + add}

    def restore(self, state: Mapping[str, Any], add: float = 0.0) -> None:
        """Resume with the state of an earlier run; its times are shifted by `add` seconds to this clock."""
        opened = state.get("opened")
        self.failed, self.opened = int(state.get("failed", 0)), None if opened is None else opened + add
