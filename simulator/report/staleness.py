"""How old the copies are that stale answers came from, by weight, and for how long those copies had been stale.

Both need answers.parquet (what was used) and changes.parquet (the truth): a copy fetched at r is stale at t iff there
is a change in (r, t]; its age is t − r, and it has been stale since the first of these changes.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.policies.base import NEVER
from freshkeeper.simulator.experiment.run_directory import Run
from freshkeeper.simulator.report.costs import Spread, counted
from freshkeeper.simulator.report.journal_columns import BROKEN, Batch, batches, floats, has, integers, words

USED = ("setting", "policy", "seed", "k", "t_ms", "sr", "weight", "refreshed_ms")
BINS_PER_STEP = 20
"""Ages are kept to this part of a step, so that memory does not grow with the answers."""


@dataclass(frozen=True, eq=False)
class Staleness:
    """By series: the age of the copies of stale answers, and how long they had been stale, in ms."""

    age: dict[int, Spread] = field(default_factory=dict)
    overdue: dict[int, Spread] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def staleness(run: Run) -> Staleness:
    """What answers and changes tell, or a note that says why they do not."""
    answers, changes = run.path / "answers.parquet", run.path / "changes.parquet"
    try:
        for file, columns in ((answers, USED), (changes, ("seed", "sr", "t_ms"))):
            if not has(file, columns):
                why = "has not all the columns" if file.exists() else "is not there"
                hint = " (simulate with --answers to have it)" if file == answers and not file.exists() else ""
                return _unknown(f"{file.name} {why}{hint}")
        if not _one_truth(run, changes):
            return _unknown("changes.parquet does not say which setting a change is of, and settings differ in them")
        return _measure(run, answers, Truth.read(changes))
    except BROKEN as error:
        return _unknown(f"a table is not readable ({str(error).splitlines()[0]})")


@dataclass(frozen=True, eq=False)
class Truth:
    """All changes, sorted by (setting, seed, SR) and time, with the number of each such triple."""

    number: dict[tuple[str, int, str], int]
    of: Ints
    t_ms: Ints

    @classmethod
    def read(cls, file: Path) -> "Truth":
        """From changes.parquet; its rows may say which setting they are of."""
        names = ["seed", "sr", "t_ms"] + (["setting"] if has(file, ["setting"]) else [])
        number: dict[tuple[str, int, str], int] = {}
        parts = [(_numbers(batch, number, grow=True), integers(batch, "t_ms", NEVER)) for batch in batches(file, names)]
        of = np.concatenate([np.empty(0, np.int64), *(of for of, _ in parts)])
        t_ms = np.concatenate([np.empty(0, np.int64), *(t_ms for _, t_ms in parts)])
        order = np.lexsort((t_ms, of))
        return cls(number, of[order], t_ms[order])

    def first_after(self, of: Ints, since: Ints) -> Floats:
        """The first change of each triple after an instant; infinity where there is none."""
        if not self.of.size or not of.size:
            return np.full(of.size, np.inf)
        begin = min(int(self.t_ms.min()), int(since.min()))
        span = max(int(self.t_ms.max()), int(since.max())) - begin + 1
        at = np.searchsorted(self.of * span + (self.t_ms - begin), of * span + (since - begin), side="right")
        there = np.minimum(at, self.of.size - 1)
        return np.where((at < self.of.size) & (self.of[there] == of), self.t_ms[there].astype(np.float64), np.inf)


def _numbers(batch: Batch, number: dict[tuple[str, int, str], int], grow: bool = False) -> Ints:
    """The number of the (setting, seed, SR) of each row; −1 for one that never changes, unless it is to be added."""
    settings, setting = words(batch, "setting") if "setting" in batch else ([""], np.zeros(1, np.int64))
    srs, sr = words(batch, "sr")
    seeds, seed = np.unique(integers(batch, "seed", 0), return_inverse=True)
    present, row = np.unique((setting * seeds.size + seed) * len(srs) + sr, return_inverse=True)
    pairs, which = np.divmod(present, len(srs))
    triples = [
        (settings[pair // seeds.size], int(seeds[pair % seeds.size]), srs[sr])
        for pair, sr in zip(pairs.tolist(), which.tolist(), strict=True)
    ]
    found = [number.setdefault(triple, len(number)) if grow else number.get(triple, -1) for triple in triples]
    numbers: Ints = np.array(found, np.int64)[row]
    return numbers


def _one_truth(run: Run, changes: Path) -> bool:
    """Whether rows of changes are of every setting alike: they say so, or budgets alone were varied."""
    varied = {key for name in run.about.settings.values() for key in name.varied}
    return has(changes, ["setting"]) or varied <= {"budget", "bank", "knowledge", "case"}


def _measure(run: Run, answers: Path, truth: Truth) -> Staleness:
    steps = [run.setting(series.setting).step_ms or 0 for series in run.evaluations.series]
    bin_ms = max(1.0, min((step for step in steps if step), default=1000) / BINS_PER_STEP)
    ages: dict[int, dict[int, float]] = {}
    overdue: dict[int, dict[int, float]] = {}
    by_setting = any(setting for setting, _, _ in truth.number)
    for batch, series in counted(run, answers, USED):
        of = _numbers(batch if by_setting else {k: v for k, v in batch.items() if k != "setting"}, truth.number)
        now, refreshed = (integers(batch, name, NEVER) for name in ("t_ms", "refreshed_ms"))
        weight = floats(batch, "weight")
        used = (series >= 0) & (refreshed > NEVER // 2)
        of, now, refreshed, weight, series = of[used], now[used], refreshed[used], weight[used], series[used]
        changed = truth.first_after(of, refreshed)
        stale = changed <= now
        _add(ages, series[stale], (now - refreshed)[stale] / bin_ms, weight[stale])
        _add(overdue, series[stale], (now - changed)[stale] / bin_ms, weight[stale])
    return Staleness(_quantiles(ages, bin_ms), _quantiles(overdue, bin_ms))


def _add(counts: dict[int, dict[int, float]], series: Ints, bins: Floats, weight: Floats) -> None:
    pairs, of = np.unique(np.stack([series, np.rint(bins).astype(np.int64)]), axis=1, return_inverse=True)
    total = np.bincount(of.ravel(), weight, pairs.shape[1])
    for (one, bin), much in zip(pairs.T.tolist(), total.tolist(), strict=True):
        counts.setdefault(one, {})
        counts[one][bin] = counts[one].get(bin, 0.0) + much


def _quantiles(counts: dict[int, dict[int, float]], bin_ms: float) -> dict[int, Spread]:
    found: dict[int, Spread] = {}
    for series, by_bin in counts.items():
        bins = np.array(sorted(by_bin))
        part = np.cumsum([by_bin[bin] for bin in bins.tolist()])
        if part[-1] > 0:
            median, high = bins[np.searchsorted(part, part[-1] * np.array([0.5, 0.95]))] * bin_ms
            found[series] = Spread(float(median), float(high))
    return found


def _unknown(why: str) -> Staleness:
    return Staleness(notes=[f"How old the copies of stale answers are cannot be told: {why}."])
