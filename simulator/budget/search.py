"""The least budget that keeps a target, found by bisection: from a guess outwards, then within a bracket.

A search is a generator: it yields the budget to try next and receives its freshness, so that many searches can share
the processes of a machine.
"""

from collections.abc import Generator
from dataclasses import dataclass
from math import log

Search = Generator[float, float, float | None]
"""Yields budgets, receives their freshness, and returns the least sufficient one, or None."""
WHOLE_REQUEST, TENTH = 1.0, 0.1
TENTHS_BELOW = 10
"""Below this number of requests per evaluation, the search goes in tenths."""
CURVE_FACTORS = (0.5, 2.0)
"""Budgets to try beside the result, as multiples of it."""
MAX_SLOW_GUESSES = 3
"""Interpolated guesses in a row that may fail to halve the bracket before the search takes the middle."""
MIN_STALENESS = 1e-6
"""The least staleness of which a logarithm is taken."""


@dataclass
class _Bracket:
    """The bracket of a search: the largest budget that was too small and the least sufficient one, with freshness."""

    target: float
    low: float = 0.0
    low_fresh: float = 0.0
    high: float | None = None
    high_fresh: float = 1.0
    slow: int = 0
    """guesses in a row that cut the bracket by less than half"""

    def add(self, budget: float, fresh: float) -> None:
        """Narrow the bracket by one budget and its freshness."""
        open_before = (self.high or budget * 4) - self.low
        if fresh >= self.target:
            self.high, self.high_fresh = budget, fresh
        else:
            self.low, self.low_fresh = budget, fresh
        if self.high is None or self.high - self.low <= open_before / 2:
            self.slow = 0
        else:
            self.slow += 1

    def between(self, unit: float) -> float:
        """Return the next budget: exponential interpolation of staleness, or the middle if that is slow."""
        assert self.high is not None
        low, wanted, high = (
            log(max(1 - fresh, MIN_STALENESS)) for fresh in (self.low_fresh, self.target, self.high_fresh)
        )
        share = 0.5
        if high < low and self.slow < MAX_SLOW_GUESSES and self.low:
            share = (low - wanted) / (low - high)
        steps = min(max(round(share * (self.high - self.low) / unit), 1), round((self.high - self.low) / unit) - 1)
        return rounded(self.low + steps * unit, unit)


def least_budget(target: float, guess: float, most: float) -> Search:
    """Find the least budget in whole requests per evaluation, or in tenths below ten, up to `most`."""
    bracket = _Bracket(target)
    budget = min(max(WHOLE_REQUEST, rounded(guess, WHOLE_REQUEST)), most)
    while bracket.high is None:
        bracket.add(budget, (yield budget))
        if bracket.high is None and budget >= most:
            return None
        budget = min(most, rounded(max(budget * 1.6, budget + 1), WHOLE_REQUEST))
    while True:
        unit = TENTH if bracket.high <= TENTHS_BELOW else WHOLE_REQUEST
        if bracket.high - bracket.low <= unit + TENTH / 2:  # half a tenth is below the precision of a budget
            return bracket.high
        budget = bracket.between(unit)
        bracket.add(budget, (yield budget))


def then_sample_around(search: Search, most: float) -> Search:
    """Run a search, then also try half and twice its result, for the picture."""
    found = yield from search
    if found is None:
        return None
    for factor in CURVE_FACTORS:
        unit = WHOLE_REQUEST if factor * found >= 1 else TENTH
        yield min(most, max(TENTH, rounded(factor * found, unit)))
    return found


def rounded(number: float, unit: float) -> float:
    """Round to a multiple of a unit, without trailing binary digits."""
    return round(round(number / unit) * unit, 6)
