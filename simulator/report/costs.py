"""What freshness cost: refreshes that brought nothing new, the time of decisions and of fetches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.simulator.experiment.run_directory import Run
from freshkeeper.simulator.report.intervals import Estimate, estimate
from freshkeeper.simulator.report.journal_columns import BROKEN, Batch, batches, floats, has, integers, sums, words

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


def counted(run: Run, file: Path, names: Sequence[str]) -> Iterator[tuple[Batch, Ints]]:
    """A large table piece by piece, with the series of each row: −1 where it could be of two, and in the warm-up."""
    evaluations, known = run.evaluations, dict[tuple[str, str], int]()
    for i, series in enumerate(evaluations.series):
        pair = series.setting, series.policy
        known[pair] = -1 if pair in known else i
    first = np.full(len(evaluations.series) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, evaluations.of[evaluations.counted], evaluations.k[evaluations.counted])
    for batch in batches(file, names):
        settings, setting = words(batch, "setting")
        policies, policy = words(batch, "policy")
        pairs = np.array([[known.get((s, p), -1) for p in policies] for s in settings], np.int64)
        of = pairs.reshape(len(settings), len(policies))[setting, policy]
        yield batch, np.where(floats(batch, "k") >= first[of], of, -1)


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
    for batch, series in counted(run, file, USED):
        seed, changed = integers(batch, "seed", 0), floats(batch, "changed")
        errors, error = words(batch, "error")
        failed = np.array([bool(word) for word in errors])[error]
        at = np.minimum(np.searchsorted(seeds, seed), seeds.size - 1)
        told = (series >= 0) & (seeds[at] == seed) & ~failed & ~np.isnan(changed)
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
