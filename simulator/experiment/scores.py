"""Scores per setting and policy, read from the tables of the analysis: freshness by seed, and costs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import nan

import numpy as np

from freshkeeper.maintenance.analysis.analysis_tables import Row
from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.maintenance.base.stats import Estimate, estimate, shared_seeds
from freshkeeper.simulator.experiment.run_directory import Run, Series

BOUND = "clairvoyant"
COUNTED = ("results", "fresh", "evaluations")


@dataclass(frozen=True, eq=False)
class Score:
    """The score of a policy in one setting; arrays are by seed."""

    series: Series
    seeds: Ints
    by_seed: Floats
    """the headline freshness: means over evaluations, or pooled shares"""
    basis: str
    """where the freshness comes from: truth, audited, reported or expected"""
    believed: float
    """what the engine expected where nobody recorded the truth, else the headline"""
    answers: float
    stale: float
    """answers and stale answers of all seeds"""
    requests_per_evaluation: float
    """the warm-up included; where requests were not counted, what was spent in cost units"""
    spent_per_evaluation: float
    evaluations: int
    """those that count and have answers"""
    failed: float
    over_budget: bool
    last_ms: float
    """the instant of the last evaluation"""
    audits: Row | None = None
    """the share of audited answers that were fresh, with its interval"""
    share_of_bound: float = nan

    @cached_property
    def freshness(self) -> Estimate:
        """The headline freshness, with its interval over seeds."""
        return estimate(self.by_seed)

    @property
    def pooled(self) -> float:
        """The ratio of all fresh answers to all answers."""
        return 1 - self.stale / self.answers if self.answers else nan

    @property
    def expected(self) -> bool:
        """True if the freshness is what the engine expected, because nobody recorded more."""
        return self.basis == "expected"

    def at(self, seeds: Ints) -> Floats:
        """Return the headlines of these seeds in this order; NaN where a seed was not run."""
        mine, theirs = shared_seeds(self.seeds, seeds)
        values = np.full(seeds.size, np.nan)
        values[theirs] = self.by_seed[mine]
        return values


def scores(run: Run, pooled: bool = False) -> list[Score]:
    """Return the score of every setting and policy of a run, in the order of run.json.

    The headline is the mean over evaluations, as the paper's is, or pooled: all fresh answers over all answers.
    """
    tables = run.analysis.tables
    budgets = {_series(run, row): row for row in tables["budget"]}
    audits = {_series(run, row): row for row in tables.get("audits", ())}
    by_seed: dict[Series, list[Row]] = {series: [] for series in budgets}
    for row in tables["seeds"]:
        by_seed[_series(run, row)].append(row)
    ordered = run.in_order(budgets)
    found: dict[Series, Score] = {}
    for series in ordered:
        found[series] = _score(run, budgets[series], by_seed[series], audits.get(series))
        if pooled:
            shares = [row["fresh"] / row["results"] for row in by_seed[series]]
            found[series] = replace(found[series], by_seed=np.array(shares, np.float64))
    return [replace(score, share_of_bound=_share(run, score, found)) for score in found.values()]


def _series(run: Run, row: Row) -> Series:
    knowledge = row["knowledge"] or run.setting(row["setting"]).knowledge
    return Series(row["case"], knowledge, row["setting"], row["policy"])


def _score(run: Run, budget: Row, seeds: list[Row], audits: Row | None) -> Score:
    series = _series(run, budget)
    basis = min((row["basis"] for row in seeds), default="")
    believed = "expected" if basis == "audited" else "freshness"
    columns = {key: np.array([row[key] for row in seeds], np.float64) for key in {*COUNTED, "freshness", believed}}
    answers, fresh, evaluations = (float(columns[key].sum()) for key in COUNTED)
    return Score(
        series=series,
        seeds=np.array([row["seed"] for row in seeds], np.int64),
        by_seed=columns["freshness"],
        basis=basis,
        believed=estimate(columns[believed]).mean,
        answers=answers,
        stale=answers - fresh,
        requests_per_evaluation=_number(budget["requests_per_evaluation"]),
        spent_per_evaluation=_number(budget["spent_per_evaluation"]),
        evaluations=int(evaluations),
        failed=_number(budget["failed"]),
        over_budget=_over_budget(run, series, budget),
        last_ms=_number(budget["last_ms"]),
        audits=audits,
    )


def _number(value: float | None) -> float:
    return nan if value is None else float(value)


def _over_budget(run: Run, series: Series, budget: Row) -> bool:
    """Return whether more was spent than there was; bounds make no claim, so they are not marked."""
    if run.contender(series.policy).is_bound:
        return False
    known = run.summary.get((series.setting, series.policy))
    return bool(budget["over_budget"]) or (known is not None and known.over_budget)


def _share(run: Run, score: Score, by_series: Mapping[Series, Score]) -> float:
    """Return the part of the clairvoyant bound that was reached: from the bound's own rows, else from summary.csv.

    The bound is of a budget, so a policy that sets none has no part of it.
    """
    if not run.contender(score.series.policy).budgeted:
        return nan
    bound = by_series.get(replace(score.series, policy=BOUND))
    if bound is not None and bound.freshness.mean > 0:
        mine, theirs = shared_seeds(score.seeds, bound.seeds)
        return float(np.nanmean(score.by_seed[mine]) / np.nanmean(bound.by_seed[theirs])) if mine.size else nan
    known = run.summary.get((score.series.setting, score.series.policy))
    return nan if known is None or known.share_of_bound is None else known.share_of_bound
