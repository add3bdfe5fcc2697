"""Means over seeds with 95 % intervals of the t distribution, and differences paired by seed."""

from dataclasses import dataclass
from math import isnan, sqrt

import numpy as np
from scipy.special import stdtrit

from freshkeeper.maintenance.base.arrays import Floats, Ints

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean and how far the 95 % interval reaches to either side; NaN with fewer than two seeds."""

    mean: float
    half: float
    seeds: int

    @property
    def low(self) -> float:
        """The lower end, the mean itself where there is no interval."""
        return self.mean if isnan(self.half) else self.mean - self.half

    @property
    def high(self) -> float:
        """The upper end, the mean itself where there is no interval."""
        return self.mean if isnan(self.half) else self.mean + self.half

    @property
    def sure(self) -> bool:
        """Whether the interval is there and leaves out zero: a difference that these seeds can tell from none."""
        return not isnan(self.half) and (self.low > 0 or self.high < 0)


def estimate(values: Floats) -> Estimate:
    """The mean of one value per seed; seeds without a value do not count."""
    known = values[~np.isnan(values)]
    mean = float(known.mean()) if known.size else float("nan")
    several = known.size > 1
    half = _t(known.size - 1.0) * float(known.std(ddof=1)) / sqrt(known.size) if several else float("nan")
    return Estimate(mean, half, int(known.size))


def paired(ours: Floats, theirs: Floats) -> Estimate:
    """The mean difference of values of the same seeds in the same order."""
    return estimate(ours - theirs)


def lifts(ours: Floats, baseline: Floats) -> Floats:
    """(freshness − baseline)/baseline, seed by seed; a seed whose baseline is 0 has none."""
    return (ours - baseline) / np.where(baseline > 0, baseline, np.nan)


def unpaired(ours: Floats, theirs: Floats) -> Estimate:
    """Welch's interval, for runs over different seeds."""
    ours, theirs = ours[~np.isnan(ours)], theirs[~np.isnan(theirs)]
    seeds = int(min(ours.size, theirs.size))
    difference = float(ours.mean() - theirs.mean()) if seeds else float("nan")
    if seeds < 2:
        return Estimate(difference, float("nan"), seeds)
    parts = np.array([ours.var(ddof=1) / ours.size, theirs.var(ddof=1) / theirs.size])
    if not parts.sum():
        return Estimate(difference, 0.0, seeds)
    shares = parts / parts.sum()
    freedom = 1 / (shares**2 / (np.array([ours.size, theirs.size]) - 1)).sum()
    return Estimate(difference, _t(float(freedom)) * sqrt(float(parts.sum())), seeds)


def common(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Where the seeds that both have stand in either list."""
    _, in_a, in_b = np.intersect1d(a, b, return_indices=True)
    return in_a.astype(np.int64), in_b.astype(np.int64)


def halves(values: Floats) -> Floats:
    """The half interval of each column, over the rows (seeds); NaN where fewer than two rows have a value."""
    known = (~np.isnan(values)).sum(axis=0)
    count = np.maximum(known, 2)
    mean = np.nansum(values, axis=0) / np.maximum(known, 1)
    spread = np.sqrt(np.nansum((values - mean) ** 2, axis=0) / (count - 1) / count)
    return np.where(known > 1, spread * stdtrit(count - 1.0, (1 + CONFIDENCE) / 2), np.nan)


def _t(freedom: float) -> float:
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
