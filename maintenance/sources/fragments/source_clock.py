"""What a source's clock shows, as far as its answers tell: each Date is right to the second, at some time between."""

import math
from dataclasses import dataclass


@dataclass(eq=False)
class SourceClock:
    """How far ahead of ours a source's clock is; 0 as long as that is possible."""

    least: float = -math.inf
    most: float = math.inf
    """seconds, as all answers together allow"""
    jumps: int = 0
    """answers that fit none of those before: a clock was set"""

    def see(self, date: float | None, sent: float, came: float) -> None:
        """An answer's Date, in seconds since 1970, and when the request went and the answer came by our clock."""
        if date is None:
            return
        least, most = date - came, date + 1 - sent
        if least > self.most or most < self.least:
            self.jumps, self.least, self.most = self.jumps + 1, least, most
        else:
            self.least, self.most = max(self.least, least), min(self.most, most)

    @property
    def agrees(self) -> bool:
        """Whether it may show what ours does."""
        return self.least <= 0 <= self.most

    @property
    def ahead(self) -> float:
        """Seconds, at least: nothing is asked for too early."""
        return 0.0 if self.agrees else self.least

    @property
    def ahead_at_most(self) -> float:
        """Seconds, at most: nothing is delivered too late."""
        return 0.0 if self.agrees else self.most
