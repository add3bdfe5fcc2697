"""A group may share a table or a chart: one case and one level of knowledge, with its settings and policies."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import isnan, nan
from typing import Any

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.maintenance.base.stats import Estimate, estimate, paired
from freshkeeper.maintenance.pages.amounts import GAP, in_words
from freshkeeper.maintenance.pages.styles import Style, looks
from freshkeeper.simulator.experiment.baselines import Baseline
from freshkeeper.simulator.experiment.run_directory import USUAL_TARGET, Run
from freshkeeper.simulator.experiment.scores import BOUND, Score, scores

CASES = {"bgp": f"answers of single edges (case{GAP}1)", "aggregate": f"answers of aggregates (case{GAP}2)"}
KNOWLEDGE = {
    "exact": "exact knowledge of changes",
    "published": "published knowledge of changes",
    "rates": "known rates of change",
    "learned": "learned knowledge of changes",
}
TTL = "ttl"
"""The cache that policies are compared with first: its entries live as long as makes as many requests."""
SETTING = "setting"
"""The chooser that all figures of single settings share."""


@dataclass(frozen=True, eq=False)
class Group:
    """The scores of one case and one level of knowledge."""

    run: Run
    case: str
    knowledge: str
    scores: Mapping[tuple[str, str], Score]

    @property
    def name(self) -> str:
        """The case and the level of knowledge in words."""
        case = CASES.get(self.case, self.case or "case not recorded")
        return f"{case}, {KNOWLEDGE.get(self.knowledge, self.knowledge or 'knowledge not recorded')}"

    @property
    def pooled(self) -> bool:
        """True if shares are of all answers; of drawn workloads they are means over evaluations, as in the paper."""
        return not is_drawn(self.run)

    @property
    def configured_target(self) -> float | None:
        """The freshness that the run was to reach; None where it does not say."""
        target = self.run.about.config.get("target")
        if not isinstance(target, int | float) or not 0 < target < 1:
            return None
        return float(target)

    @property
    def target(self) -> float:
        """The configured target, or a usual one."""
        return self.configured_target or USUAL_TARGET

    @property
    def chooser(self) -> str:
        """The chooser of settings; empty where there is one setting."""
        return SETTING if len(self.settings) > 1 else ""

    @cached_property
    def styles(self) -> dict[str, Style]:
        """The looks of each policy, and of the clairvoyant bound where it was computed and not run."""
        labels = dict.fromkeys(label for setting in self.settings for label in self.with_references(setting))
        names = {label: self.run.contender(label).name or label for label in [*self.policies, *labels]}
        return looks(names, [label for label in names if self.is_bound(label)])

    @cached_property
    def by_budget(self) -> "dict[float, Group]":
        """The settings of each budget on their own, the least first: a mean never mixes budgets."""
        budgets = {setting: self.run.setting(setting).budget for setting in self.settings}
        known = sorted({budget for budget in budgets.values() if budget is not None})
        of_budget = {}
        for budget in known:
            of_budget[budget] = self.of_settings({setting for setting in budgets if budgets[setting] == budget})
        return of_budget

    def of_settings(self, settings: set[str]) -> "Group":
        """Return the part of the group that these settings are."""
        return replace(self, scores={pair: score for pair, score in self.scores.items() if pair[0] in settings})

    @property
    def baselines(self) -> list[Baseline]:
        """The caches beside the policies, which set no budget and have no score."""
        return [cache for cache in self.run.baselines if (cache.case, cache.knowledge) == (self.case, self.knowledge)]

    @cached_property
    def settings(self) -> list[str]:
        """The settings in the order of the run."""
        return list(dict.fromkeys(setting for setting, _ in self.scores))

    @cached_property
    def policies(self) -> list[str]:
        """The policies in the order of the run, bounds last."""
        present = dict.fromkeys(policy for _, policy in self.scores)
        labels = dict.fromkeys([*(label for label in self.run.about.policies if label in present), *present])
        return sorted(labels, key=self.is_bound)

    def policies_in(self, setting: str, bounds: bool = True) -> list[str]:
        """Return the policies of a setting, the best first, then those over the budget, then bounds."""
        labels = [policy for policy in self.policies if (setting, policy) in self.scores]
        if not bounds:
            labels = [policy for policy in labels if not self.is_bound(policy)]

        def rank(policy: str) -> tuple[bool, bool, float]:
            return self.is_bound(policy), policy in self.overspent, -self.sort_key(setting, policy)

        return sorted(labels, key=rank)

    def with_bound(self, setting: str) -> list[str]:
        """Return the policies of a setting and the clairvoyant bound, also where it was computed and not run."""
        policies = self.policies_in(setting)
        if BOUND not in policies and not isnan(self.headline(setting, BOUND).mean):
            policies.append(BOUND)
        return policies

    def with_references(self, setting: str) -> list[str]:
        """Return the policies of a setting, the clairvoyant bound, and a TTL cache where it was worked out."""
        labels = self.with_bound(setting)
        if TTL not in labels and not isnan(self.headline(setting, TTL).mean):
            labels.append(TTL)
        return labels

    def compared(self, setting: str, bounds: bool = True) -> list[str]:
        """Return the policies of a setting without `unlimited`, beside whose 100 % all others would look alike."""
        return [policy for policy in self.policies_in(setting, bounds) if not self.is_unlimited(policy)]

    @cached_property
    def overspent(self) -> list[str]:
        """Policies that spent more than there was, in any setting."""
        marked = {policy for (_, policy), score in self.scores.items() if score.over_budget}
        unfair = {policy for policy in self.policies if not self.run.contender(policy).keeps_budget}
        return [policy for policy in self.policies if policy in marked | unfair and not self.is_bound(policy)]

    @cached_property
    def ranked(self) -> list[str]:
        """The policies that can win: within the budget, no bound, run in every setting; the best mean first."""
        fair = [policy for policy in self.policies if not self.is_bound(policy) and policy not in self.overspent]
        everywhere = [policy for policy in fair if self._run_everywhere(policy)]
        measured = [policy for policy in everywhere if not isnan(self.overall(policy).mean)]
        return sorted(measured, key=lambda policy: -self.overall(policy).mean)

    def _run_everywhere(self, policy: str) -> bool:
        return all((setting, policy) in self.scores for setting in self._measured)

    @cached_property
    def seeds(self) -> Ints:
        """The seeds of all scores."""
        return np.unique(np.concatenate([score.seeds for score in self.scores.values()]))

    @property
    def expected(self) -> bool:
        """True if some of the freshness is expected and not counted."""
        return any(score.expected for score in self.scores.values())

    def headline(self, setting: str, policy: str) -> Estimate:
        """Return the freshness in one setting; of the clairvoyant bound also where summary.csv alone knows it.

        Of the TTL cache that makes as many requests it is what baselines.csv has.
        """
        score = self.scores.get((setting, policy))
        if score:
            return score.freshness
        if policy == TTL:
            return self._ttl(setting)
        shares = [score for (name, _), score in self.scores.items() if name == setting and score.share_of_bound > 0]
        best = max(shares, key=lambda score: score.freshness.mean, default=None)
        if best is None or policy != BOUND:
            return Estimate(nan, nan, 0)
        return Estimate(best.freshness.mean / best.share_of_bound, nan, 0)

    def _ttl(self, setting: str) -> Estimate:
        for cache in self.baselines:
            if (cache.setting, cache.policy) == (setting, TTL):
                mean, half = (cache.pooled, None) if self.pooled else (cache.freshness, cache.ci95)
                return Estimate(nan if mean is None else mean, nan if half is None else half, cache.seeds)
        return Estimate(nan, nan, 0)

    def is_bound(self, policy: str) -> bool:
        """Return whether a policy is a bound."""
        return policy == BOUND or self.run.contender(policy).is_bound

    def is_unlimited(self, policy: str) -> bool:
        """Return whether a policy is the bound that spends without limit, with which everything is fresh."""
        return (self.run.contender(policy).name or policy) == "unlimited"

    def labels_of(self, name: str) -> list[str]:
        """Return the labels under which a policy was run, those with fewer settings first."""
        labels = [label for label in self.policies if (self.run.contender(label).name or label) == name]
        return sorted(labels, key=lambda label: len(self.run.contender(label).settings))

    def by_seed(self, policy: str) -> Floats:
        """Return the mean over settings, per seed; NaN where a setting lacks the seed."""
        pairs = [(setting, policy) for setting in self._measured if (setting, policy) in self.scores]
        if not pairs:
            return np.full(self.seeds.size, np.nan)
        return np.asarray(np.mean([self.scores[pair].at(self.seeds) for pair in pairs], axis=0))

    def overall(self, policy: str) -> Estimate:
        """Return the freshness over all settings."""
        return estimate(self.by_seed(policy))

    def ahead(self, policy: str, of: str) -> Estimate:
        """Return how far one policy is ahead of another over all settings, paired by seed."""
        return paired(self.by_seed(policy), self.by_seed(of))

    def lead(self, policy: str, baseline: str, setting: str) -> Estimate:
        """Return by how much more answers are fresh than a baseline's in one setting, paired by seed where it was run.

        The mean is NaN where one of the two is not known.
        """
        score, other = (self.scores.get((setting, label)) for label in (policy, baseline))
        if score is not None and other is not None:
            return paired(score.at(self.seeds), other.at(self.seeds))
        return Estimate(self.headline(setting, policy).mean - self.headline(setting, baseline).mean, nan, 0)

    def text(self, setting: str) -> str:
        """Return a setting as people say it."""
        return in_words(self.varied(setting)) or setting or "one setting"

    def varied(self, setting: str) -> dict[str, Any]:
        """Return what was varied, without what tells groups apart."""
        varied = self.run.setting(setting).varied
        return {key: value for key, value in varied.items() if key not in ("case", "knowledge")}

    @cached_property
    def _measured(self) -> list[str]:
        """Settings whose freshness is known: others have no answers in any counted evaluation."""
        known = {setting for setting, policy in self.scores if self.sort_key(setting, policy) >= 0}
        return [setting for setting in self.settings if setting in known]

    def sort_key(self, setting: str, policy: str) -> float:
        """Return the freshness in one setting; −1 where it is not known, so that it is never the best."""
        score = self.scores.get((setting, policy))
        if score is None or not score.freshness.seeds:
            return -1.0
        return score.freshness.mean


def groups(run: Run) -> list[Group]:
    """Return the groups of a run, cases apart and levels of knowledge apart."""
    found = scores(run, pooled=not is_drawn(run))
    by_group = groupby(found, key=lambda score: (score.series.case, score.series.knowledge))
    parts = []
    for (case, knowledge), members in by_group:
        by_pair = {(score.series.setting, score.series.policy): score for score in members}
        parts.append(Group(run, case, knowledge, by_pair))
    return parts


def is_drawn(run: Run) -> bool:
    """Return whether a run is a simulation of a workload that was drawn, and so no data of a user."""
    return bool(run.about.config.get("workload")) and not run.about.config.get("trace")
