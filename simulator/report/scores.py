"""One score per setting × policy: the headline by seed, what it cost, and what audits say where the truth is not known.

Freshness of an evaluation = fresh/results; the headline of a seed is the mean over counted evaluations that have
answers; the headline of a policy is the mean over seeds, with a 95 % interval over seeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ints
from freshkeeper.maintenance.cache.budget.audit import Measured
from freshkeeper.maintenance.journal import journal
from freshkeeper.simulator.experiment.run_directory import Evaluations, Run, Series
from freshkeeper.simulator.report.intervals import Estimate, common, estimate
from freshkeeper.simulator.report.journal_columns import sums

SLACK = 1e-9
BOUND = "clairvoyant"


@dataclass(frozen=True, eq=False)
class Score:
    """One policy in one setting; arrays are by seed."""

    series: Series
    seeds: Ints
    by_seed: Floats
    answers: Floats
    stale: Floats
    requests: Floats
    """per evaluation, the warm-up included"""
    spent: Floats
    """the same in cost units"""
    evaluations: int
    failed: float
    expected: bool
    over_budget: bool
    share_of_bound: float = float("nan")

    @cached_property
    def freshness(self) -> Estimate:
        """The headline freshness, with its interval over seeds."""
        return estimate(self.by_seed)

    @property
    def pooled(self) -> float:
        """All fresh answers over all answers."""
        answers = float(self.answers.sum())
        return 1 - float(self.stale.sum()) / answers if answers else float("nan")

    @property
    def requests_per_evaluation(self) -> float:
        """How many requests were sent; where nobody counted them, what was spent in cost units."""
        return float(self.requests.mean())

    def at(self, seeds: Ints) -> Floats:
        """The headlines of these seeds in this order; NaN where a seed was not run."""
        mine, theirs = common(self.seeds, seeds)
        values = np.full(seeds.size, np.nan)
        values[theirs] = self.by_seed[mine]
        return values


def scores(run: Run) -> list[Score]:
    """Every setting × policy of a run, in the order of run.json."""
    found = [_score(run, i) for i in range(len(run.evaluations.series))]
    by_series = {score.series: score for score in found}
    return [replace(score, share_of_bound=_share(run, score, by_series)) for score in found]


def _score(run: Run, series: int) -> Score:
    all_of = run.evaluations
    rows = all_of.rows(series)
    seeds, of = np.unique(all_of.seed[rows], return_inverse=True)
    results, fresh = all_of.results[rows], all_of.fresh[rows]
    counted = all_of.counted[rows] & (results > 0) & ~np.isnan(fresh)
    answers = np.where(counted, results, 0.0)
    number = sums(of, counted.astype(np.float64), seeds.size)
    freshness = sums(of, np.divide(fresh, results, out=np.zeros_like(results), where=counted), seeds.size)
    evaluations = np.bincount(of, minlength=seeds.size)
    failed, spent, sent = all_of.errors[rows], all_of.spent[rows], all_of.requests[rows]
    return Score(
        series=all_of.series[series],
        seeds=seeds,
        by_seed=np.divide(freshness, number, out=np.full(seeds.size, np.nan), where=number > 0),
        answers=sums(of, answers, seeds.size),
        stale=sums(of, np.where(counted, results - fresh, 0.0), seeds.size),
        requests=sums(of, np.where(np.isnan(sent), spent, sent), seeds.size) / evaluations,
        spent=sums(of, spent, seeds.size) / evaluations,
        evaluations=int(number.sum()),
        failed=float(np.nansum(failed)) if not np.isnan(failed).all() else float("nan"),
        expected=bool((all_of.expected[rows] & counted).any()),
        over_budget=_overspent(run, all_of, rows, all_of.series[series]),
    )


def _overspent(run: Run, evaluations: Evaluations, rows: slice, series: Series) -> bool:
    """More was spent than there was; bounds are no claim, so they are not marked."""
    if run.contender(series.policy).is_bound:
        return False
    known = run.summary.get((series.setting, series.policy))
    beyond: Bools = evaluations.spent[rows] > evaluations.budget[rows] + SLACK
    return bool(beyond.any()) or (known is not None and known.over_budget)


def _share(run: Run, score: Score, by_series: Mapping[Series, Score]) -> float:
    """The part of the clairvoyant bound that was reached: from its own rows, else from what the summary says.

    The bound is of a budget, so what sets none has no part of it.
    """
    if not run.contender(score.series.policy).budgeted:
        return np.nan
    bound = by_series.get(replace(score.series, policy=BOUND))
    if bound is not None and bound.freshness.mean > 0:
        shared, theirs = common(score.seeds, bound.seeds)
        return float(np.nanmean(score.by_seed[shared]) / np.nanmean(bound.by_seed[theirs])) if shared.size else np.nan
    known = run.summary.get((score.series.setting, score.series.policy))
    return np.nan if known is None or known.share_of_bound is None else known.share_of_bound


def audited(run: Run, score: Score) -> Measured | None:
    """What the audits of the evaluations that count say, where the truth is not known."""
    table = journal.read(run.path, "audits") if score.expected else None
    if table is None:
        return None
    rows = run.evaluations.rows(run.evaluations.series.index(score.series))
    counted = set(run.evaluations.t_ms[rows][run.evaluations.counted[rows]].tolist())
    columns = (table[name].to_pylist() for name in ("policy", "setting", "t_ms", "fresh"))
    fresh = [
        verdict
        for policy, setting, t, verdict in zip(*columns, strict=True)
        if (policy, setting) == (score.series.policy, score.series.setting) and t in counted
    ]
    return Measured(fresh.count(True), len(fresh) - fresh.count(None), fresh.count(None))
