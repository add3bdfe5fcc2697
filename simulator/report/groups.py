"""What may share a table or a plot: one case and one level of knowledge, with its settings and policies."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import nan
from typing import Any

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.simulator.experiment.baselines import Baseline
from freshkeeper.simulator.experiment.run_directory import Run
from freshkeeper.simulator.report.amounts import GAP, value
from freshkeeper.simulator.report.intervals import Estimate, estimate, lifts, paired
from freshkeeper.simulator.report.scores import BOUND, Score, scores

CASES = {"bgp": f"answers of single edges (case{GAP}1)", "aggregate": f"answers of aggregates (case{GAP}2)"}
KNOWLEDGE = {
    "exact": "exact knowledge of changes",
    "published": "published knowledge of changes",
    "rates": "known rates of change",
    "learned": "learned knowledge of changes",
}


USUAL_TARGET = 0.9
"""Of what has none."""


@dataclass(frozen=True, eq=False)
class Group:
    """All scores of one case and one level of knowledge."""

    run: Run
    case: str
    knowledge: str
    scores: Mapping[tuple[str, str], Score]

    @property
    def name(self) -> str:
        """What the group is of, in words."""
        case = CASES.get(self.case, self.case or "case not recorded")
        return f"{case}, {KNOWLEDGE.get(self.knowledge, self.knowledge or 'knowledge not recorded')}"

    @property
    def configured_target(self) -> float | None:
        """The freshness that the run was asked for."""
        given = self.run.about.config.get("target")
        return float(given) if isinstance(given, int | float) and 0 < given < 1 else None

    @property
    def target(self) -> float:
        """The same, or a usual one."""
        return self.configured_target or USUAL_TARGET

    @cached_property
    def by_budget(self) -> "dict[float, Group]":
        """The settings of each budget on their own, the least first: what is averaged never mixes budgets."""
        paid = {setting: self.run.setting(setting).budget for setting in self.settings}
        return {
            budget: replace(
                self, scores={pair: score for pair, score in self.scores.items() if paid[pair[0]] == budget}
            )
            for budget in sorted({budget for budget in paid.values() if budget is not None})
        }

    @property
    def baselines(self) -> list[Baseline]:
        """The caches beside its policies, which set no budget and are in no score."""
        return [cache for cache in self.run.baselines if (cache.case, cache.knowledge) == (self.case, self.knowledge)]

    @cached_property
    def settings(self) -> list[str]:
        """The settings in the order of the run."""
        return list(dict.fromkeys(setting for setting, _ in self.scores))

    @cached_property
    def policies(self) -> list[str]:
        """The policies in the order of the run, bounds last."""
        present = {policy for _, policy in self.scores}
        labels = [label for label in self.run.about.policies if label in present]
        labels += [label for label in dict.fromkeys(policy for _, policy in self.scores) if label not in labels]
        return sorted(labels, key=self.is_bound)

    @cached_property
    def overspent(self) -> list[str]:
        """Policies that spent more than there was, in any setting."""
        marked = {policy for (_, policy), score in self.scores.items() if score.over_budget}
        unfair = {policy for policy in self.policies if not self.run.contender(policy).keeps_budget}
        return [p for p in self.policies if p in marked | unfair and not self.is_bound(p)]

    @cached_property
    def ranked(self) -> list[str]:
        """What can win: within the budget, no bound, run in every setting; best mean over settings first."""
        fair = [p for p in self.policies if not self.is_bound(p) and p not in self.overspent]
        everywhere = [p for p in fair if all((setting, p) in self.scores for setting in self._measured)]
        told = [p for p in everywhere if not np.isnan(self.overall(p).mean)]
        return sorted(told, key=lambda p: -self.overall(p).mean)

    @cached_property
    def seeds(self) -> Ints:
        """All seeds of the group."""
        return np.unique(np.concatenate([score.seeds for score in self.scores.values()]))

    @property
    def expected(self) -> bool:
        """Whether some of the freshness is expected and not counted."""
        return any(score.expected for score in self.scores.values())

    def headline(self, setting: str, policy: str) -> Estimate:
        """The headline in one setting; of the clairvoyant bound also where the summary alone knows it."""
        score = self.scores.get((setting, policy))
        if score:
            return score.freshness
        shares = [s for (at, _), s in self.scores.items() if at == setting and s.share_of_bound > 0]
        best = max(shares, key=lambda s: s.freshness.mean, default=None) if policy == BOUND else None
        return Estimate(best.freshness.mean / best.share_of_bound if best else nan, nan, 0)

    def is_bound(self, policy: str) -> bool:
        """Whether a policy is a bound."""
        return self.run.contender(policy).is_bound

    def named(self, name: str) -> list[str]:
        """The labels under which a policy was run, with its own settings first."""
        labels = [label for label in self.policies if (self.run.contender(label).name or label) == name]
        return sorted(labels, key=lambda label: len(self.run.contender(label).settings))

    def by_seed(self, policy: str) -> Floats:
        """The mean over settings, per seed; NaN where a setting lacks the seed."""
        each = [
            self.scores[setting, policy].at(self.seeds)
            for setting in self._measured
            if (setting, policy) in self.scores
        ]
        return np.asarray(np.mean(each, axis=0)) if each else np.full(self.seeds.size, np.nan)

    def overall(self, policy: str) -> Estimate:
        """The headline over all settings."""
        return estimate(self.by_seed(policy))

    def ahead(self, policy: str, of: str) -> Estimate:
        """How far one policy is ahead of another over all settings, paired by seed."""
        return paired(self.by_seed(policy), self.by_seed(of))

    def lift(self, policy: str, baseline: str, setting: str) -> Floats:
        """The lift in one setting, seed by seed."""
        ours, theirs = (self.scores[setting, one].at(self.seeds) for one in (policy, baseline))
        return lifts(ours, theirs)

    def lifts(self, policy: str, baseline: str) -> list[Floats]:
        """The lift in every setting that has both and in which it can be told."""
        both = [s for s in self.settings if (s, policy) in self.scores and (s, baseline) in self.scores]
        found = [self.lift(policy, baseline, setting) for setting in both]
        return [each for each in found if not np.isnan(each).all()]

    def text(self, setting: str) -> str:
        """A setting as people say it."""
        varied = self.varied(setting)
        return " · ".join(f"{short(key)} {value(what)}" for key, what in varied.items()) or setting or "one setting"

    def varied(self, setting: str) -> dict[str, Any]:
        """What was varied, without what tells groups apart."""
        return {k: v for k, v in self.run.setting(setting).varied.items() if k not in ("case", "knowledge")}

    @cached_property
    def _measured(self) -> list[str]:
        """Settings in which freshness can be told at all: some have no answers in any counted evaluation."""
        return [s for s in self.settings if any(self.sort_key(s, policy) >= 0 for policy in self.policies)]

    def sort_key(self, setting: str, policy: str) -> float:
        """The headline in one setting; −1 where it cannot be told, so that it is never the best."""
        found = self.scores.get((setting, policy))
        return found.freshness.mean if found and found.freshness.seeds else -1.0


def groups(run: Run) -> list[Group]:
    """The groups of a run, cases apart and levels of knowledge apart."""
    found = groupby(scores(run), key=lambda score: (score.series.case, score.series.knowledge))
    return [
        Group(run, case, knowledge, {(s.series.setting, s.series.policy): s for s in members})
        for (case, knowledge), members in found
    ]


def short(key: str) -> str:
    """The last part of a dotted key, as words."""
    return key.rpartition(".")[2].replace("_", " ")
