"""The least budget that keeps a target, found by halving: from a guess outwards, then between what is known.

A search is a generator: it yields the budget to be tried next and is sent the freshness that came of it, so that many
searches can share the processes of a machine.
"""

from collections.abc import Generator
from dataclasses import dataclass
from math import log

Search = Generator[float, float, float | None]
"""Yields budgets, is sent their freshness, returns the least one that is fresh enough, None where none is."""
WHOLE, TENTH = 1.0, 0.1
FEW = 10
"""Below so many requests per evaluation a whole one is too coarse, and tenths are searched."""
BESIDE = (0.5, 2.0)
PATIENCE = 3
TRIFLE = 1e-6
"""Staleness below which logarithms say nothing."""


@dataclass
class _Tried:
    """What is known: the most that was too little, and the least that was enough, each with its freshness."""

    target: float
    low: float = 0.0
    low_fresh: float = 0.0
    high: float | None = None
    high_fresh: float = 1.0
    slow: int = 0
    """how many guesses in a row cut less than half off what was open"""

    def add(self, budget: float, fresh: float) -> None:
        """One more budget was tried."""
        open_before = (self.high or budget * 4) - self.low
        if fresh >= self.target:
            self.high, self.high_fresh = budget, fresh
        else:
            self.low, self.low_fresh = budget, fresh
        self.slow = 0 if self.high is None or self.high - self.low <= open_before / 2 else self.slow + 1

    def between(self, unit: float) -> float:
        """Where staleness, were it to fall exponentially, meets the target; the middle where that did not help."""
        assert self.high is not None
        low, wanted, high = (log(max(1 - fresh, TRIFLE)) for fresh in (self.low_fresh, self.target, self.high_fresh))
        share = (low - wanted) / (low - high) if high < low and self.slow < PATIENCE and self.low else 0.5
        steps = min(max(round(share * (self.high - self.low) / unit), 1), round((self.high - self.low) / unit) - 1)
        return rounded(self.low + steps * unit, unit)


def least_budget(target: float, guess: float, most: float) -> Search:
    """The least budget in whole requests per evaluation, or in tenths below ten, up to `most`."""
    tried = _Tried(target)
    budget = min(max(WHOLE, rounded(guess, WHOLE)), most)
    while tried.high is None:
        tried.add(budget, (yield budget))
        if tried.high is None and budget >= most:
            return None
        budget = min(most, rounded(max(budget * 1.6, budget + 1), WHOLE))
    while tried.high - tried.low > (unit := TENTH if tried.high <= FEW else WHOLE) + TENTH / 2:
        budget = tried.between(unit)
        tried.add(budget, (yield budget))
    return tried.high


def with_a_curve(search: Search, most: float) -> Search:
    """The same, and then half and twice of what was found: a picture shows more than the middle."""
    found = yield from search
    for share in BESIDE if found is not None else ():
        yield min(most, max(TENTH, rounded(share * (found or 0.0), WHOLE if share * (found or 0.0) >= 1 else TENTH)))
    return found


def rounded(number: float, unit: float) -> float:
    """The nearest multiple of a unit, written as people write it."""
    return round(round(number / unit) * unit, 6)
