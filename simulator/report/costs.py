"""What freshness cost: refreshes that brought nothing new, the time of decisions and of fetches."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from freshkeeper.policies.arrays import Floats, Ints
from freshkeeper.simulator.experiment.run_directory import Run
from freshkeeper.simulator.report.columns import BROKEN, Batch, batches, floats, has, integers, sums, words
from freshkeeper.simulator.report.intervals import Estimate, estimate

USED = ("setting", "policy", "seed", "k", "changed", "error")


@dataclass(frozen=True)
class Spread:
    """A typical value and a bad one: the median and the 95th percentile."""

    median: float
    high: float


@dataclass(frozen=True, eq=False)
class Costs:
    """What could be told, by series."""

    wasted: dict[int, Estimate] = field(default_factory=dict)
    decide_ms: dict[int, Spread] = field(default_factory=dict)
    fetch_ms: dict[int, Spread] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def costs(run: Run) -> Costs:
    """Everything that can be told about costs."""
    evaluations = run.evaluations
    wasted, notes = _wasted(run)
    fetched = _spreads(run, np.where(evaluations.fetch_ms > 0, evaluations.fetch_ms, np.nan))
    # Under a millisecond nothing went over a network, and the number says nothing about latency.
    over_network = {i: spread for i, spread in fetched.items() if spread.median >= 1}
    return Costs(wasted, _spreads(run, evaluations.decide_us / 1000), over_network, notes)


def index(run: Run) -> dict[tuple[str, str], int]:
    """Which series a row of the tables without case and knowledge is of; −1 where it could be of two."""
    found: dict[tuple[str, str], int] = {}
    for i, series in enumerate(run.evaluations.series):
        pair = series.setting, series.policy
        found[pair] = -1 if pair in found else i
    return found


def series_of(batch: Batch, known: dict[tuple[str, str], int]) -> Ints:
    """The series of each row of a batch; −1 where there is none."""
    settings, setting = words(batch, "setting")
    policies, policy = words(batch, "policy")
    pairs = np.array([[known.get((s, p), -1) for p in policies] for s in settings], np.int64)
    found: Ints = pairs.reshape(len(settings), len(policies))[setting, policy]
    return found


def first_counted(run: Run) -> Ints:
    """The first k of each series that is past the warm-up."""
    evaluations = run.evaluations
    first = np.full(len(evaluations.series) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, evaluations.of[evaluations.counted], evaluations.k[evaluations.counted])
    return first


def _wasted(run: Run) -> tuple[dict[int, Estimate], list[str]]:
    file = run.path / "refreshes.parquet"
    try:
        if not has(file, USED):
            missing = "has not all the columns" if file.exists() else "is not there"
            return {}, [f"Wasted refreshes cannot be told: refreshes.parquet {missing}."]
        return _shares(run, file), []
    except BROKEN as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        return {}, [f"Wasted refreshes cannot be told: refreshes.parquet is not readable ({said})."]


def _shares(run: Run, file: Path) -> dict[int, Estimate]:
    seeds = np.unique(run.evaluations.seed)
    size = len(run.evaluations.series) * seeds.size
    wasted, all_of_them = np.zeros(size), np.zeros(size)
    known, first = index(run), first_counted(run)
    for batch in batches(file, USED):
        series, seed = series_of(batch, known), integers(batch, "seed", 0)
        changed = floats(batch, "changed")
        errors, error = words(batch, "error")
        failed = np.array([bool(word) for word in errors])[error]
        at = np.minimum(np.searchsorted(seeds, seed), seeds.size - 1)
        told = (
            (series >= 0) & (seeds[at] == seed) & ~failed & ~np.isnan(changed) & (floats(batch, "k") >= first[series])
        )
        cell = (series * seeds.size + at)[told]
        wasted += sums(cell, (changed[told] == 0).astype(np.float64), size)
        all_of_them += sums(cell, np.ones(cell.size), size)
    share = np.divide(wasted, all_of_them, out=np.full(size, np.nan), where=all_of_them > 0)
    by_series = {i: estimate(row) for i, row in enumerate(share.reshape(-1, seeds.size))}
    return {i: found for i, found in by_series.items() if found.seeds}


def _spreads(run: Run, values: Floats) -> dict[int, Spread]:
    found: dict[int, Spread] = {}
    for i in range(len(run.evaluations.series)):
        rows = run.evaluations.rows(i)
        known = values[rows][run.evaluations.counted[rows] & ~np.isnan(values[rows])]
        if known.size:
            median, high = np.quantile(known, (0.5, 0.95)).tolist()
            found[i] = Spread(median, high)
    return found
