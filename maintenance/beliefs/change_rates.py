"""Change rates of single rows, learned from what fetches reveal.

Rows change as Poisson processes do. The rate of a row has a Gamma prior of weight 1 at the pooled rate of the source,
so a row of which little is known is taken to change as rows of this source do.
"""

import math
from dataclasses import dataclass, field
from typing import Protocol

MAX_EXPONENT = 50.0


class RowStatistics(Protocol):
    """The evidence of one row; both numbers begin at 0."""

    changes: int
    exposure: float
    """milliseconds during which a change would have been seen"""


@dataclass(eq=False)
class ChangeRates:
    """The pooled evidence of one source."""

    first_interval: float
    """the mean time between changes in ms that is assumed until something was learned"""
    changes: float = 1.0
    exposure: float = 0.0
    prior_exposure: float = field(init=False)
    """the mean time between changes of rows of this source, in ms"""

    def __post_init__(self) -> None:
        self.prior_exposure = self.first_interval

    def rate(self, row: RowStatistics) -> float:
        """Return the expected changes of a row per millisecond."""
        return (row.changes + 1) / (row.exposure + self.prior_exposure)

    def learn(self, row: RowStatistics, age: float, changed: bool) -> None:
        """Take in one check: whether the row had changed within `age` milliseconds of the fetch before.

        A check that found a change does not tell when it happened. The time without a change that was seen is then the
        mean of an exponential cut off at the age: 1/λ − age/(e^(λ·age) − 1).
        """
        if age <= 0:
            return
        seen = age
        if changed:
            x = max((row.changes + 1.0) / (row.exposure + age) * age, 1e-9)
            seen = age * (1.0 / x - 1.0 / math.expm1(min(x, MAX_EXPONENT)))
        self._add(row, changed, seen)

    def learn_date(self, row: RowStatistics, age: float, quiet: float) -> None:
        """Take in a date from the source: the row last changed `quiet` ms ago, `age` ms after it was last fetched.

        Seen backwards from now, the time to the latest change is exponential with the row's own rate; a row that did
        not change since the last fetch was observed for all of `age` without one.
        """
        if age <= 0 and quiet < 0:
            return
        changed = quiet < age
        self._add(row, changed, max(min(quiet, age), 0.0))

    def add(self, changes: float, exposure: float) -> None:
        """Count evidence of rows of this source."""
        self.changes += changes
        self.exposure += exposure
        if self.exposure > 0:
            self.prior_exposure = self.exposure / self.changes

    def _add(self, row: RowStatistics, changed: bool, exposure: float) -> None:
        row.changes += changed
        row.exposure += exposure
        self.add(changed, exposure)
