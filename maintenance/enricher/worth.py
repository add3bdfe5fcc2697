"""The worth of a fetch at a read, in right reads, and when it reaches the price.

A key is read at rate μ. Its copy is still right with probability S, and was so for I = ∫S milliseconds since doubt
began d milliseconds ago (ChangeRates has both). If a copy counts as stale from d on and the first read after that
fetches, a cycle lasts d + 1/μ on average, costs one request, and answers 1 + μI reads rightly: those before d, and the
one that waits for the fetch. At a price p for a request the best d maximises

    g(d) = (1 + μI − p) / (d + 1/μ)        where its derivative is 0:  S(d) = g(d)/μ

In words: fetch when the copy is less likely to be right than a read of this key is worth on average. Solved for p, that
is the price at which a fetch is just worth it now, which grows from 0 as doubt grows:

    worth = 1 + μI − S·(μd + 1)

So a read fetches if the worth has reached the price. Where readers do not wait, the read that fetches gets the old row,
and the worth is multiplied by μ/(μ + λ): the probability that the next read comes before the next change.
"""

import math
from dataclasses import dataclass

from freshkeeper.maintenance.beliefs.change_rates import UncertainRate


@dataclass(frozen=True)
class Worth:
    """The rule for reads that wait for a fetch, or that get the old row meanwhile."""

    reads_wait: bool

    def of_fetch(self, row: UncertainRate, reads_per_ms: float, doubt: float) -> float:
        """Return the highest price at which a read `doubt` ms after doubt began should fetch its row again.

        >>> from freshkeeper.maintenance.beliefs.change_rates import UncertainRate
        >>> row = UncertainRate(shape=1.0, scale=60_000.0)  # one change in a minute, hardly known
        >>> Worth(True).of_fetch(row, reads_per_ms=0.0, doubt=60_000.0)  # read never again: the doubt itself
        0.5
        """
        if doubt <= 0.0:
            return 0.0
        if math.isinf(doubt):
            return math.inf
        worth = 1.0 + reads_per_ms * row.right_ms(doubt) - row.probability(doubt) * (reads_per_ms * doubt + 1.0)
        return worth if self.reads_wait else worth * reads_per_ms / (reads_per_ms + row.mean)

    def wait(self, row: UncertainRate, reads_per_ms: float, doubt: float, price: float) -> float:
        """Return milliseconds during which no fetch is worth this price; 0 if it is worth it now.

        The worth grows by S·h·(μd + 1) in a millisecond, where h is the rate of changes. As S·h falls with time, the
        solution of the quadratic equation that takes it as constant is never too late.
        """
        missing = price - self.of_fetch(row, reads_per_ms, doubt)
        if missing <= 0.0:
            return 0.0
        if not self.reads_wait:
            missing *= 1.0 + row.mean / max(reads_per_ms, 1e-300)
        sure, doubt = max(-doubt, 0.0), max(doubt, 0.0)
        density = row.probability(doubt) * row.shape / (row.scale + doubt)
        slope = density * (reads_per_ms * doubt + 1.0)
        if slope <= 0.0:
            return math.inf
        return sure + 2.0 * missing / (slope + math.sqrt(slope * slope + 2.0 * missing * density * reads_per_ms))
