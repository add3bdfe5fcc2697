"""The verdict in words: who won, by how much, how near to the bound, who overspent, and what budget would do."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan, nan

from markupsafe import Markup

from freshkeeper.maintenance.analysis.analysis_tables import NOTHING_ANSWERED
from freshkeeper.maintenance.pages.amounts import (
    amount,
    in_words,
    percent,
    percent_with_interval,
    points,
    signed_points,
)
from freshkeeper.maintenance.pages.page import Lift
from freshkeeper.simulator.experiment.scores import BOUND
from freshkeeper.simulator.report.groups import TTL, Group
from freshkeeper.simulator.report.panels import BUDGET, budget_line, panels, reach

BASELINES = (TTL, "random", "lru", "sbm", "ibm")


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
        *_other_settings(group, headline),
        *_audits(group, winner),
        *_runner_up(headline, winner),
        _bound(headline, winner),
        *over_budget,
        *_needed_budget(group, next(policy for policy in (winner, *group.ranked) if policy in group.ranked)),
    ]
    if group.seeds.size < 2 and len(group.policies) > 1:
        sentences.append(Markup("One seed was run: there are no intervals, and small differences may be chance."))
    return GroupVerdict(_lead(group, headline, winner), list(_lifts(group, headline, winner)), sentences)


def _headline_group(group: Group) -> Group:
    """Return the setting that the headline is of: the first of the run whose freshness is known.

    Of settings that differ from it in the budget alone it is the one with the least budget that is enough for the
    target, else with the largest.
    """
    settings = [group.of_settings({setting}) for setting in group.settings]
    parts = [part for part in settings if part.ranked]
    first = _without_budget(parts[0])
    line = [part for part in parts if part.by_budget and _without_budget(part) == first]
    line.sort(key=lambda part: next(iter(part.by_budget)))
    if len(line) < 2:
        return parts[0]
    return next((part for part in line if _is_enough(part, group.target)), line[-1])


def _without_budget(group: Group) -> dict[str, object]:
    (setting,) = group.settings
    return {key: value for key, value in group.varied(setting).items() if key != BUDGET}


def _is_enough(part: Group, target: float) -> bool:
    return part.overall(part.ranked[0]).mean >= target


def _other_settings(group: Group, headline: Group) -> Iterator[Markup]:
    """Yield who leads in how many of the other settings; the table of all settings lists each of them."""
    leaders: dict[str, list[float]] = {}
    for setting in group.settings:
        ranked = group.of_settings({setting}).ranked
        if setting not in headline.settings and ranked:
            leaders.setdefault(ranked[0], []).append(group.headline(setting, ranked[0]).mean)
    number = len(group.settings) - len(headline.settings)
    if not leaders:
        return
    parts = []
    for policy, shares in sorted(leaders.items(), key=lambda item: -len(item[1])):
        ends = dict.fromkeys(percent(share) for share in (min(shares), max(shares)))
        parts.append(Markup("{} leads in {} with {}").format(_name(policy), len(shares), " to ".join(ends)))
    of_settings = "the other setting" if number == 1 else f"the {number} other settings"
    yield Markup("Of {} {}; the table below has each.").format(of_settings, Markup(", ").join(parts))


def _which_budget(group: Group, headline: Group) -> Iterator[Markup]:
    if len(group.by_budget) < 2:
        return
    budgets = list(group.by_budget)
    words = "Budgets from {} to {} were run, and the headline is of one of them: none that was run keeps {} fresh."
    if headline.overall(headline.ranked[0]).mean >= group.target:
        words = "Budgets from {} to {} were run, and the headline is of the least of them with which {} is fresh."
    yield Markup(words).format(amount(budgets[0]), amount(budgets[-1]), percent(group.target, 0))


def _lead(group: Group, headline: Group, winner: str) -> Markup:
    share = Markup("<strong>{}</strong>").format(percent_with_interval(headline.overall(winner)))
    lead = Markup("{} kept {} of the answers fresh").format(_name(winner), share)
    if headline.expected:
        lead = Markup("{} is expected to have kept {} of the answers fresh").format(_name(winner), share)
    if not group.pooled:
        lead += " (mean over evaluations)"
    if len(headline.ranked) > 1:
        lead += f", the most of {len(headline.ranked)} policies within the budget"
    (setting,) = headline.settings
    varied = _without_budget(headline)
    if len(group.by_budget) > 1:
        lead = Markup("With {} cost units per evaluation ").format(amount(next(iter(headline.by_budget)))) + lead
    if len(group.settings) > 1 and (varied or len(group.by_budget) < 2):
        lead += Markup(", in the setting <q>{}</q>").format(in_words(varied) or group.text(setting))
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
    yield Markup(words).format(_name(second), points(ahead), certainty)


def _lifts(group: Group, headline: Group, winner: str) -> Iterator[Lift]:
    """Yield the winner's leads over baselines in the setting of the headline, and their range over all settings."""
    (setting,) = headline.settings
    for name in BASELINES:
        label = next(iter(headline.labels_of(name)), name)
        lead = group.lead(winner, label, setting)
        if label == winner or isnan(lead.mean):
            continue
        leads = [group.lead(winner, label, every).mean for every in group.settings]
        known = [mean for mean in leads if not isnan(mean)]
        ends = f"{signed_points(min(known))} to {signed_points(max(known))} over the settings"
        yield Lift(f"over {label}", points(lead, sign=True), ends if len(known) > 1 else "")


def _bound(group: Group, winner: str) -> Markup:
    known = next((score.share_of_bound for (_, policy), score in group.scores.items() if policy == winner), nan)
    if isnan(known):
        words, note = "How near that is to the best possible is not known", group.run.about.bound
        if note and note.reason:
            return Markup("{}: {}.").format(words, note.reason)
        return Markup("{}.").format(words)
    (setting,) = group.settings
    words = "That is {} of what a clairvoyant could do with the same budget ({})."
    return Markup(words).format(percent(known), percent(group.headline(setting, BOUND).mean))


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
