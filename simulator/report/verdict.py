"""The verdict in words: who won, by how much, how near to the bound, who overspent, and what budget would do."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan

import numpy as np
from markupsafe import Markup

from freshkeeper.maintenance.analysis.analysis_tables import NOTHING_ANSWERED
from freshkeeper.maintenance.base.stats import estimate
from freshkeeper.maintenance.pages import amounts
from freshkeeper.maintenance.pages.amounts import amount, percent
from freshkeeper.maintenance.pages.page import Lift
from freshkeeper.simulator.experiment.scores import BOUND
from freshkeeper.simulator.report.groups import Group
from freshkeeper.simulator.report.panels import BUDGET, budget_line, panels, reach

BASELINES = ("random", "lru", "sbm", "ibm")


@dataclass(frozen=True)
class GroupVerdict:
    """The sentences of the page about one group: who leads, by how much, and how sure that is."""

    lead: Markup
    lifts: list[Lift] = field(default_factory=list)
    sentences: list[Markup] = field(default_factory=list)


def verdict(group: Group) -> GroupVerdict:
    """Return what to say about a group, the most important first."""
    over_budget = [_overspent(group, policy) for policy in group.overspent]
    if not group.ranked:
        return GroupVerdict(_no_winner(group), [], over_budget)
    headline = _headline_group(group)
    winner = headline.ranked[0]
    sentences = [
        *_which_budget(group, headline),
        *_audits(headline, winner),
        *_runner_up(headline, winner),
        _bound(headline, winner),
        *over_budget,
        *_needed_budget(group, next(policy for policy in (winner, *group.ranked) if policy in group.ranked)),
    ]
    if group.seeds.size < 2 and len(group.policies) > 1:
        sentences.append(Markup("One seed was run: there are no intervals, and small differences may be chance."))
    return GroupVerdict(_lead(group, headline, winner), list(_lifts(headline, winner)), sentences)


def _headline_group(group: Group) -> Group:
    """Return the settings of one budget: the least that was run and is enough for the target, else the largest."""
    parts = [part for part in group.by_budget.values() if part.ranked]
    if len(group.by_budget) < 2 or not parts:
        return group
    return next((part for part in parts if part.overall(part.ranked[0]).mean >= group.target), parts[-1])


def _which_budget(group: Group, headline: Group) -> Iterator[Markup]:
    if headline is group:
        return
    budgets = list(group.by_budget)
    words = "Budgets from {} to {} were run, and the headline is of one of them: none that was run keeps {} fresh."
    if headline.overall(headline.ranked[0]).mean >= group.target:
        words = "Budgets from {} to {} were run, and the headline is of the least of them with which {} is fresh."
    yield Markup(words).format(amount(budgets[0]), amount(budgets[-1]), percent(group.target, 0))


def _lead(group: Group, headline: Group, winner: str) -> Markup:
    share = Markup("<strong>{}</strong>").format(amounts.percent_with_interval(headline.overall(winner)))
    lead = Markup("{} kept {} of the answers fresh").format(_name(winner), share)
    if headline.expected:
        lead = Markup("{} is expected to have kept {} of the answers fresh").format(_name(winner), share)
    if headline is not group:
        lead = Markup("With {} cost units per evaluation ").format(amount(next(iter(headline.by_budget)))) + lead
    if len(headline.ranked) > 1:
        lead += f", the most of {len(headline.ranked)} policies within the budget"
    if len(headline.settings) > 1:
        lead += f", over {len(headline.settings)} settings"
    return lead + "."


def _audits(group: Group, winner: str) -> Iterator[Markup]:
    for setting in group.settings:
        score = group.scores.get((setting, winner))
        if score is None or score.audits is None:
            continue
        share, low, high = (percent(score.audits[name]) for name in ("freshness", "low", "high"))
        of = f" ({group.text(setting)})" if len(group.settings) > 1 else ""
        words = "Audits found {} of {} answers fresh: with 95 % confidence it is between {} and {}{}."
        yield Markup(words).format(share, f"{score.audits['audits']:,}", low, high, of)


def _no_winner(group: Group) -> Markup:
    if any(score.freshness.mean >= 0 for score in group.scores.values()):
        return Markup("There is no winner: no policy kept within the budget in every setting.")
    return Markup(NOTHING_ANSWERED + ".")


def _runner_up(group: Group, winner: str) -> Iterator[Markup]:
    if len(group.ranked) == 1:
        return
    second = group.ranked[1]
    ahead = group.ahead(winner, second)
    words = "{} is next, {} behind{}."
    certainty = ", paired by seed" if ahead.seeds > 1 else ""
    if ahead.seeds > 1 and not ahead.sure:
        certainty = f": a difference that {ahead.seeds} seeds cannot tell from chance"
    yield Markup(words).format(_name(second), amounts.points(ahead), certainty)


def _lifts(group: Group, winner: str) -> Iterator[Lift]:
    for name in BASELINES:
        for label in group.labels_of(name)[:1]:
            by_setting = group.lifts(winner, label)
            if label == winner or not by_setting:
                continue
            means = [estimate(values).mean for values in by_setting]
            ends = f"{amounts.signed(min(means), 0)} to {amounts.signed(max(means), 0)} over the settings"
            mean = estimate(np.mean(by_setting, axis=0))
            yield Lift(f"over {label}", amounts.signed_with_interval(mean), ends if len(means) > 1 else "")


def _bound(group: Group, winner: str) -> Markup:
    shares = [score.share_of_bound for (_, policy), score in group.scores.items() if policy == winner]
    known = [share for share in shares if not isnan(share)]
    if not known:
        words, note = "How near that is to the best possible is not known", group.run.about.bound
        if note and note.reason:
            return Markup("{}: {}.").format(words, note.reason)
        return Markup("{}.").format(words)
    optimum = percent(float(np.nanmean([group.headline(setting, BOUND).mean for setting in group.settings])))
    words = "That is {} of what a clairvoyant could do with the same budget ({})."
    return Markup(words).format(percent(float(np.mean(known))), optimum)


def _overspent(group: Group, policy: str) -> Markup:
    spent = {s: score.spent_per_evaluation for (s, p), score in group.scores.items() if p == policy}
    budgets = {setting: group.run.setting(setting).budget for setting in spent}
    if not group.run.contender(policy).budgeted:
        words = "{} sets no budget; it spent {} cost units per evaluation. It is shown, marked, and not ranked."
        return Markup(words).format(_name(policy), amount(max(spent.values())))
    worst = max(spent, key=lambda setting: spent[setting] / (budgets[setting] or 1))
    budget, paid = budgets[worst], ""
    if budget is not None:
        paid = f", where {amount(budget)} are paid"
    words = "{} spent over the budget: up to {} cost units per evaluation{}. It is shown, marked, and not ranked."
    return Markup(words).format(_name(policy), amount(spent[worst]), paid)


def _needed_budget(group: Group, winner: str) -> Iterator[Markup]:
    """Yield what the winner needs for the target; where other keys were swept too, tables say it for each of them."""
    by_held = panels(group).get(BUDGET, [])
    if len(by_held) != 1:
        return
    budgets, freshness = budget_line(group, by_held[0], winner)
    need = reach(budgets, freshness, group.target)
    if need.needed is None:
        highest, at = max(zip(reversed(freshness), reversed(budgets), strict=True))
        words = "No budget that was run brings {} to {} fresh; the nearest is {} with {} cost units per evaluation."
        yield Markup(words).format(_name(winner), percent(group.target, 0), percent(highest), amount(at))
    else:
        words = "For {} fresh, {} needs {} cost units per evaluation."
        yield Markup(words).format(percent(group.target, 0), _name(winner), need.text)


def _name(policy: str) -> Markup:
    return Markup('<b class="policy">{}</b>').format(policy)
