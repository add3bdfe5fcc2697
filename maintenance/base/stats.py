"""Means with 95 % intervals: Student's over seeds, Welch's for runs over different seeds, Wilson's for shares."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan, nan, sqrt
from typing import Any

import numpy as np
from scipy.special import stdtrit

from freshkeeper.maintenance.base.arrays import Floats, Ints

UPPER_TAIL = 0.975
"""The quantile at which a two-sided 95 % interval ends."""
Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""


@dataclass(frozen=True)
class Estimate:
    """A mean and the half-width of its 95 % interval; `half` is NaN with fewer than two seeds."""

    mean: float
    half: float
    seeds: int

    @property
    def low(self) -> float:
        """The lower end of the interval; the mean itself where there is no interval."""
        if isnan(self.half):
            return self.mean
        return self.mean - self.half

    @property
    def high(self) -> float:
        """The upper end of the interval; the mean itself where there is no interval."""
        if isnan(self.half):
            return self.mean
        return self.mean + self.half

    @property
    def sure(self) -> bool:
        """True if there is an interval and it leaves out zero: these seeds tell the difference from chance."""
        return not isnan(self.half) and (self.low > 0 or self.high < 0)


def estimate(values: Floats) -> Estimate:
    """Return the mean of one value per seed with Student's interval; seeds without a value (NaN) do not count."""
    known = values[~np.isnan(values)]
    if not known.size:
        return Estimate(nan, nan, 0)
    mean = float(known.mean())
    if known.size == 1:
        return Estimate(mean, nan, 1)
    half = student(known.size - 1.0) * float(known.std(ddof=1)) / sqrt(known.size)
    return Estimate(mean, half, int(known.size))


def paired(first: Floats, second: Floats) -> Estimate:
    return estimate(first - second)


def unpaired(first: Floats, second: Floats) -> Estimate:
    """Return the difference of two means with Welch's interval, for runs over different seeds."""
    first, second = first[~np.isnan(first)], second[~np.isnan(second)]
    seeds = int(min(first.size, second.size))
    difference = float(first.mean() - second.mean()) if seeds else nan
    if seeds < 2:
        return Estimate(difference, nan, seeds)
    sizes = np.array([first.size, second.size])
    parts = np.array([first.var(ddof=1), second.var(ddof=1)]) / sizes
    if not parts.sum():
        return Estimate(difference, 0.0, seeds)
    shares = parts / parts.sum()
    # The Welch-Satterthwaite degrees of freedom.
    freedom = 1 / (shares**2 / (sizes - 1)).sum()
    return Estimate(difference, student(float(freedom)) * sqrt(float(parts.sum())), seeds)


def shared_seeds(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Return the positions in either list of the seeds that both lists have."""
    _, in_first, in_second = np.intersect1d(first, second, return_indices=True)
    return in_first.astype(np.int64), in_second.astype(np.int64)


def student(freedom: float) -> float:
    """Return the quantile of Student's t by which a standard error becomes the half of a 95 % interval."""
    return float(stdtrit(freedom, UPPER_TAIL))


def student_by_size(largest: int) -> list[float | None]:
    """Return the same for samples of 1, 2, ... up to `largest` values; None for a single value."""
    return [None, *(student(size - 1.0) for size in range(2, largest + 1))]


def wilson(share: Any, number: Any, root: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return Wilson's 95 % interval of a share of `number` trials; works for numbers and for columns of a database."""
    middle = (share + Z * Z / (2 * number)) / (1 + Z * Z / number)
    reach = Z / (1 + Z * Z / number) * root(share * (1 - share) / number + Z * Z / (4 * number * number))
    return middle - reach, middle + reach
