"""The headline freshness of evaluations in memory, for simulations and searches: what the table `seeds` has for a run.

A test holds the two equal.
"""

from dataclasses import dataclass
from math import nan

import pyarrow as pa

from freshkeeper.maintenance.base.arrays import Bools, Floats


@dataclass(frozen=True)
class SeedHeadline:
    """The mean freshness of one seed, and the sums behind the pooled ratio."""

    freshness: float
    """the mean over the evaluations that count and have answers; NaN where there are none"""
    fresh: float
    results: float


def seed_headline(fresh: Floats, results: Floats, counts: Bools) -> SeedHeadline:
    """Return the headline of one seed from its evaluations: their fresh answers, their answers, and which count."""
    used = counts & (results > 0)
    share = fresh[used] / results[used]
    mean = float(share.mean()) if share.size else nan
    return SeedHeadline(mean, float(fresh[used].sum()), float(results[used].sum()))


def headline_of_table(evaluations: pa.Table) -> SeedHeadline:
    """Return the headline of one seed from its rows of evaluations.parquet."""
    fresh, results = (evaluations[name].to_numpy().astype(float) for name in ("fresh", "results"))
    return seed_headline(fresh, results, ~evaluations["warmup"].to_numpy().astype(bool))
