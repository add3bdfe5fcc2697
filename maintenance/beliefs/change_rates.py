"""Change rates of single rows, learned from what fetches reveal.

Rows change as Poisson processes do. What is known of the rate of a row is a Gamma distribution: `shape` changes were
seen in `scale` milliseconds. It begins as half a change in half the mean interval of the source, so a row of which
little is known changes about as rows of this source do, but may well change ten times as often, or hardly ever.

The probability that nothing changed in d milliseconds is then (1 + d/scale)^−shape. It falls like e^(−rate·d) for a
rate that is well known, and more slowly for one that is not: what has survived long is likely to be a slow row.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

PRIOR_CHANGES = 0.5
"""The weight of the source as a whole in what is believed of a row, in changes seen."""
PRIOR_FADES = 16.0
"""After so many changes of a row, the mean interval of the source has half of its weight: a few rows of a source may
change a thousand times as often as the others."""
CHECKS_REMEMBERED = 100
"""Evidence of a row fades by one part in so many with each check, so that a row may change its habits."""
MIN_LIKELIHOOD = 1e-9


class RowStatistics(Protocol):
    """The evidence of one row beyond that of the source; both numbers begin at 0."""

    changes: float
    exposure: float
    """milliseconds during which a change would have been seen"""


class UncertainRate(NamedTuple):
    """The belief about one row: its changes come at a rate that has a Gamma distribution."""

    shape: float
    scale: float
    """milliseconds"""

    @property
    def mean(self) -> float:
        """The expected changes per millisecond."""
        return self.shape / self.scale

    def probability(self, doubt: float) -> float:
        """Return the probability that nothing changed in so many milliseconds.

        >>> UncertainRate(shape=0.5, scale=10_000.0).probability(30_000)  # (1 + 3)^-0.5
        0.5
        """
        return (1.0 + doubt / self.scale) ** -self.shape if doubt > 0.0 else 1.0

    def doubt_of(self, probability: float) -> float:
        """Return after how many milliseconds a row is still right with this probability.

        >>> UncertainRate(shape=0.5, scale=10_000.0).doubt_of(0.5)
        30000.0
        """
        return self.scale * (probability ** (-1.0 / self.shape) - 1.0) if probability > 0.0 else math.inf

    def right_ms(self, doubt: float) -> float:
        """Return the expected part of so many milliseconds that passes before the first change.

        >>> UncertainRate(shape=2.0, scale=10_000.0).right_ms(30_000)  # 10,000 · (1 - 1/4)
        7500.0
        """
        if doubt <= 0.0:
            return 0.0
        log = math.log1p(doubt / self.scale)
        power = (1.0 - self.shape) * log
        if abs(power) < 1e-9:
            return self.scale * log
        return self.scale * log * math.expm1(power) / power


@dataclass(eq=False)
class ChangeRates:
    """The pooled evidence of one source."""

    first_interval: float
    """the mean time between changes in ms that is assumed until something was learned"""
    changes: float = 1.0
    exposure: float = field(init=False)
    prior_exposure: float = field(init=False)
    """what is added to the exposure of a row that was never seen to change"""
    unannounced: float = 1.0
    """the share of changes that come without a hint (hints.py); where there was none, rows change that much less"""

    def __post_init__(self) -> None:
        self.exposure = self.first_interval
        self.prior_exposure = PRIOR_CHANGES * self.first_interval

    def of_row(self, row: RowStatistics) -> UncertainRate:
        """Return the rate of a row that no hint was given for."""
        return UncertainRate(row.changes + PRIOR_CHANGES, (row.exposure + self.prior_of(row)) / self.unannounced)

    def prior_of(self, row: RowStatistics) -> float:
        """Return the milliseconds that the source as a whole adds to the exposure of a row."""
        return self.prior_exposure * PRIOR_FADES / (PRIOR_FADES + row.changes)

    def learn(self, row: RowStatistics, age: float, changed: bool) -> None:
        """Take in one check: whether the row had changed within `age` milliseconds of the fetch before.

        A check that found no change adds its age. One that found a change does not tell when, nor how many: of the
        density λ^(shape−1)·e^(−λ·scale)·(1 − e^(−λ·age)), which is no Gamma, mean and variance are kept.
        """
        if age <= 0:
            return
        shape, prior = row.changes + PRIOR_CHANGES, self.prior_of(row)
        scale = row.exposure + prior
        if not changed:
            self._set(row, row.changes, row.exposure + age)
            self.add(0.0, age)
            return
        unchanged = (1.0 + age / scale) ** -shape
        likelihood = 1.0 - unchanged
        if likelihood > MIN_LIKELIHOOD:
            shrunk = scale / (scale + age)
            mean = shape / scale * (1.0 - unchanged * shrunk) / likelihood
            square = shape * (shape + 1.0) / scale**2 * (1.0 - unchanged * shrunk**2) / likelihood
            variance = square - mean * mean
            scale_after = mean / variance if variance > 0.0 else scale
            self._set(row, mean * scale_after - PRIOR_CHANGES, scale_after - prior)
        else:
            self._set(row, row.changes + 1.0, row.exposure)
        # The time without a change, if there was one change: the mean of an exponential cut off at the age.
        x = max(shape / scale * age, 1e-9)
        self.add(1.0, age * (1.0 / x - 1.0 / math.expm1(min(x, 50.0))))

    def learn_date(self, row: RowStatistics, age: float, quiet: float) -> None:
        """Take in a date from the source: the row last changed `quiet` ms ago, `age` ms after it was last fetched.

        Seen backwards from now, the time to the latest change is exponential with the row's own rate; a row that did
        not change since the last fetch was observed for all of `age` without one.
        """
        if age <= 0 and quiet < 0:
            return
        changed = quiet < age
        seen = max(min(quiet, age), 0.0)
        self._set(row, row.changes + changed, row.exposure + seen)
        self.add(changed, seen)

    def add(self, changes: float, exposure: float) -> None:
        """Count evidence of rows of this source."""
        self.changes += changes
        self.exposure += exposure
        self.prior_exposure = PRIOR_CHANGES * self.exposure / self.changes

    def _set(self, row: RowStatistics, changes: float, exposure: float) -> None:
        fading = 1.0 - 1.0 / CHECKS_REMEMBERED
        row.changes = fading * changes if changes > 0.0 else 0.0  # most rows of a large cache share this zero
        row.exposure = fading * max(exposure, 0.0)
