"""Estimates a source's clock from Date headers, each of which is accurate to the second at some time in between."""

import math
from dataclasses import dataclass


@dataclass(eq=False)
class SourceClock:
    """Bounds of how far a source's clock is ahead of ours; 0 as long as that is possible."""

    least: float = -math.inf
    most: float = math.inf
    """upper bound in seconds, from all responses together"""
    jumps: int = 0
    """number of responses that contradict all earlier ones: a clock was set"""

    def see(self, date: float | None, sent: float, came: float) -> None:
        """Record a Date header and when, by our clock, the request was sent and the response received.

        All in seconds.
        """
        if date is None:
            return
        least, most = date - came, date + 1 - sent
        if least > self.most or most < self.least:
            self.jumps, self.least, self.most = self.jumps + 1, least, most
        else:
            self.least, self.most = max(self.least, least), min(self.most, most)

    @property
    def agrees(self) -> bool:
        """True if the clocks may be equal."""
        return self.least <= 0 <= self.most

    @property
    def ahead(self) -> float:
        """The lower bound in seconds, so that nothing is requested too early."""
        if self.agrees:
            return 0.0
        return self.least

    @property
    def ahead_at_most(self) -> float:
        """The upper bound in seconds, so that nothing is delivered too late."""
        if self.agrees:
            return 0.0
        return self.most
