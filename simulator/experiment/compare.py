"""Comparison of two runs: differences in freshness, paired by seed, and settings that differ.

A difference is always second − first. Settings are paired by the values of the keys that either run sweeps, policies by
name and settings, whatever they are called: a run with a budget of 5 is compared with that point of another's grid.
Where the runs share seeds, those are compared seed by seed and the others left out; where they share none, the interval
is Welch's. Numbers of another case or level of knowledge are never compared.
"""

from collections.abc import Collection, Hashable, Iterable
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from freshkeeper.maintenance.base.stats import Estimate, estimate, paired, shared_seeds, unpaired
from freshkeeper.maintenance.journal.run_json import RunError
from freshkeeper.maintenance.pages.amounts import amount, swept_value
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.experiment.baselines import MARK
from freshkeeper.simulator.experiment.run_directory import Run, Series
from freshkeeper.simulator.experiment.scores import Score, scores

HEADS = ("setting", "policy", "case", "knowledge", "first", "second", "difference", "± 95 %", "seeds", "requests", "")


@dataclass(frozen=True)
class Difference:
    """The freshness of a policy in one setting in both runs, over the compared seeds, and second − first."""

    setting: str
    policy: str
    case: str
    knowledge: str
    first: float
    second: float
    difference: float
    ci95: float | None
    seeds: int
    paired: bool
    first_requests: float
    second_requests: float
    expected: bool
    """the freshness of at least one of them is expected, not counted"""
    budgeted: bool = True
    """both were held to a budget"""

    @property
    def verdict(self) -> str:
        """The verdict: a direction only if the interval excludes zero."""
        if self.ci95 is None:
            return "cannot be told from chance: too few seeds"
        if abs(self.difference) <= self.ci95:
            return "no difference seen"
        return "better" if self.difference > 0 else "worse"

    @property
    def row(self) -> tuple[str, ...]:
        """The cells under `HEADS`."""
        half, seeds, verdict = "", str(self.seeds), self.verdict
        if self.ci95 is not None:
            half = f"{100 * self.ci95:.2f}"
        if not self.paired:
            seeds += " unpaired"
        if self.expected:
            verdict += " (expected)"
        if not self.budgeted:
            verdict += f", {MARK}"
        return (
            *(self.setting, self.policy, self.case, self.knowledge),
            *(f"{100 * self.first:.2f} %", f"{100 * self.second:.2f} %"),
            f"{100 * self.difference:+.2f}",
            half,
            seeds,
            f"{amount(self.first_requests)} → {amount(self.second_requests)}",
            verdict,
        )


@dataclass(frozen=True)
class Changed:
    """A key of run.json's config that the runs do not agree on; None where one has it not."""

    key: str
    first: Any
    second: Any


@dataclass(frozen=True)
class Comparison:
    """The differences between two runs."""

    first: Path
    second: Path
    differences: tuple[Difference, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    changed: tuple[Changed, ...]

    @property
    def lines(self) -> list[str]:
        """Return what the table does not show: settings of one run alone, and config keys that differ."""
        found = [f"only in {self.first}: {name}" for name in self.only_first]
        found += [f"only in {self.second}: {name}" for name in self.only_second]
        return found + [
            f"{c.key}: {_value_text(c.first)} in the first, {_value_text(c.second)} in the second" for c in self.changed
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        rows = [asdict(difference) | {"verdict": difference.verdict} for difference in self.differences]
        return asdict(self) | {"first": str(self.first), "second": str(self.second), "differences": rows}


def compare(a: Path, b: Path) -> Comparison:
    """Compare two run directories; raises `RunError` where they have nothing in common."""
    first, second = run_directory.read(a), run_directory.read(b)
    ours, theirs = _measured(first), _measured(second)
    keys = _swept_keys(first, second)
    counterparts = {_identity(second, series, keys): series for series in theirs}
    pairs: dict[Series, Series] = {}
    for series in ours:
        other = counterparts.get(_identity(first, series, keys))
        if other is not None:
            pairs[series] = other
    if not pairs:
        raise RunError(_nothing(a, b, ours, theirs))
    differences = []
    for series, other in pairs.items():
        budgeted = first.contender(series.policy).budgeted and second.contender(other.policy).budgeted
        differences.append(_difference(ours[series], theirs[other], budgeted))
    paired_theirs = set(pairs.values())
    only_first = [_name(series) for series in ours if series not in pairs]
    only_second = [_name(series) for series in theirs if series not in paired_theirs]
    return Comparison(
        first=a,
        second=b,
        differences=tuple(differences),
        only_first=tuple(only_first),
        only_second=tuple(only_second),
        changed=tuple(changed(first, second, keys)),
    )


def changed(first: Run, second: Run, swept: Collection[str] = ()) -> list[Changed]:
    """Return the dotted keys of the configs whose values differ, without those by which settings are paired."""
    ours, theirs = first.about.flat_config, second.about.flat_config
    found = []
    for key in dict.fromkeys([*ours, *theirs]):
        differs = ours.get(key) != theirs.get(key)
        if differs and key not in swept and key.partition(".")[0] != "sweep":
            found.append(Changed(key, ours.get(key), theirs.get(key)))
    return found


def _swept_keys(*runs: Run) -> list[str]:
    """Return the dotted keys that any of the runs sweeps; case and knowledge tell series apart anyway."""
    found: dict[str, None] = {}
    for run in runs:
        for setting in run.about.settings.values():
            found |= dict.fromkeys(setting.values)
    return [key for key in found if key not in ("case", "knowledge")]


def _identity(run: Run, series: Series, keys: list[str]) -> Hashable:
    """Return what the same series has in another run, whatever its setting and its policy are called there."""
    setting, contender = run.setting(series.setting), run.contender(series.policy)
    numbers = {"budget": setting.budget, "bank": setting.bank}  # a bank may be written as `window`
    values = []
    for key in keys:
        value = setting.values.get(key, run.about.flat_config.get(key))
        values.append(_frozen(numbers.get(key, value)))
    name = "" if keys else series.setting  # journals of queries have names and no values
    policy = contender.name or series.policy, _frozen(contender.settings)
    return series.case, series.knowledge, name, tuple(values), policy


def _frozen(value: Any) -> Hashable:
    """Return a value of a config as one that can be a key; 5 and 5.0 stay equal."""
    if isinstance(value, dict):
        return tuple(sorted((key, _frozen(part)) for key, part in value.items()))
    if isinstance(value, list | tuple):
        return tuple(_frozen(part) for part in value)
    frozen: Hashable = value
    return frozen


def _measured(run: Run) -> dict[Series, Score]:
    return {score.series: score for score in scores(run) if score.freshness.seeds}


def _difference(ours: Score, theirs: Score, budgeted: bool) -> Difference:
    in_ours, in_theirs = shared_seeds(ours.seeds, theirs.seeds)
    first, second = ours.by_seed, theirs.by_seed
    if in_ours.size:
        first, second = first[in_ours], second[in_theirs]
        both = ~(np.isnan(first) | np.isnan(second))
        first, second = first[both], second[both]
    found: Estimate = paired(second, first) if in_ours.size else unpaired(second, first)
    setting, policy = ours.series.setting, ours.series.policy
    if setting == "default":  # the name of a setting that sweeps nothing says less than its counterpart's
        setting = theirs.series.setting
    if policy != theirs.series.policy:
        policy = f"{policy} / {theirs.series.policy}"
    return Difference(
        setting=setting,
        policy=policy,
        case=ours.series.case,
        knowledge=ours.series.knowledge,
        first=estimate(first).mean,
        second=estimate(second).mean,
        difference=found.mean,
        ci95=None if isnan(found.half) else found.half,
        seeds=found.seeds,
        paired=bool(in_ours.size),
        first_requests=ours.requests_per_evaluation,
        second_requests=theirs.requests_per_evaluation,
        expected=ours.expected or theirs.expected,
        budgeted=budgeted,
    )


def _nothing(a: Path, b: Path, ours: Iterable[Series], theirs: Iterable[Series]) -> str:
    """Say why nothing can be compared, with the nearest settings of both runs."""
    pairs = {(s.setting, s.policy): s for s in theirs}
    for series in ours:
        other = pairs.get((series.setting, series.policy))
        if other:
            what = f"{_name(series)} in {a} and {_name(other)} in {b}"
            return f"nothing can be compared: {what} are of different cases or levels of knowledge"
    first, second = next(iter(ours), None), next(iter(theirs), None)
    if first is None or second is None:
        return f"nothing can be compared: {a if first is None else b} has no evaluation that counts and has answers"
    return f"nothing can be compared: no setting × policy is in both; {a} has {_name(first)}, {b} has {_name(second)}"


def _name(series: Series) -> str:
    parts = [series.setting or "default", series.policy, series.case, series.knowledge]
    return " / ".join(part for part in parts if part)


def _value_text(part: Any) -> str:
    return "not set" if part is None else swept_value(part)
