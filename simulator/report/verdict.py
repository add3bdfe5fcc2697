"""The verdict in words: who won, by how much, how near to the bound, who overspent, and what budget would do."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup

from freshkeeper.simulator.report import amounts
from freshkeeper.simulator.report.amounts import amount, listing, percent
from freshkeeper.simulator.report.groups import Group
from freshkeeper.simulator.report.intervals import estimate
from freshkeeper.simulator.report.panels import BUDGET, Panel, budget_line, panels, reach
from freshkeeper.simulator.report.scores import BOUND, audited

BASELINES = ("random", "lru", "sbm", "ibm")


@dataclass(frozen=True)
class Lift:
    """How much more the winner kept fresh than one baseline."""

    baseline: str
    text: str
    over_settings: str = ""


@dataclass(frozen=True)
class Verdict:
    """What the page says of one group: who leads, by how much, and how sure that is."""

    lead: Markup
    lifts: list[Lift] = field(default_factory=list)
    sentences: list[Markup] = field(default_factory=list)


def verdict(group: Group) -> Verdict:
    """What to say about a group, the most important first."""
    over_budget = [_overspent(group, policy) for policy in group.overspent]
    if not group.ranked:
        return Verdict(_no_winner(group), [], over_budget)
    told = _headline_group(group)
    winner = told.ranked[0]
    sentences = [
        *_which(group, told),
        *_audits(told, winner),
        *_runner_up(told, winner),
        *_where_others_win(group, winner),
        *_bound(told, winner),
        *over_budget,
        *_budgets(group, winner if winner in group.ranked else group.ranked[0]),
    ]
    if group.seeds.size < 2 and len(group.policies) > 1:
        sentences.append(Markup("One seed was run: there are no intervals, and small differences may be chance."))
    paid = next(iter(told.by_budget)) if told is not group else None
    return Verdict(_lead(told, winner, paid), _lifts(told, winner), sentences)


def _headline_group(group: Group) -> Group:
    """What the headline is of: one budget, the least that was run and is enough for the target, else the largest."""
    parts = [part for part in group.by_budget.values() if part.ranked]
    if len(group.by_budget) < 2 or not parts:
        return group
    return next((part for part in parts if part.overall(part.ranked[0]).mean >= group.target), parts[-1])


def _which(group: Group, told: Group) -> list[Markup]:
    """Which of several budgets the headline is of."""
    if told is group:
        return []
    budgets = list(group.by_budget)
    enough = told.overall(told.ranked[0]).mean >= group.target
    which = "the least of those that were run with which {} is fresh" if enough else "none that was run keeps {} fresh"
    words = "Budgets from {} to {} were run, and the headline is of one of them: " + which + "."
    return [Markup(words).format(amount(budgets[0]), amount(budgets[-1]), percent(group.target, 0))]


def _lead(group: Group, winner: str, paid: float | None) -> Markup:
    found = group.overall(winner)
    share, name = Markup("<strong>{}</strong>").format(amounts.percent_with_interval(found)), _name(winner)
    kept = "is expected to have kept" if group.expected else "kept"
    over = f", over {len(group.settings)} settings" if len(group.settings) > 1 else ""
    within = "" if paid is None else f"With {amount(paid)} cost units per evaluation "
    if len(group.ranked) == 1:
        return Markup("{}{} {} {} of the answers fresh{}.").format(within, name, kept, share, over)
    rivals = f"the most of {len(group.ranked)} policies within the budget{over}"
    return Markup("{}{} {} {} of the answers fresh, {}.").format(within, name, kept, share, rivals)


def _audits(group: Group, winner: str) -> list[Markup]:
    said = []
    for setting in group.settings:
        score = group.scores.get((setting, winner))
        found = None if score is None else audited(group.run, score)
        if found is not None and found.share is not None:
            low, high = (percent(end) for end in found.interval)
            of = Markup(" ({})").format(group.text(setting) or setting) if len(group.settings) > 1 else ""
            words = "Audits found {} of {} answers fresh: with 95 % confidence it is between {} and {}{}."
            said.append(Markup(words).format(percent(found.share), f"{found.checked:,}", low, high, of))
    return said


def _no_winner(group: Group) -> Markup:
    if any(score.freshness.mean >= 0 for score in group.scores.values()):
        return Markup("There is no winner: no policy kept within the budget in every setting.")
    return Markup("Freshness cannot be told: no evaluation that counts has answers.")


def _runner_up(group: Group, winner: str) -> list[Markup]:
    if len(group.ranked) == 1:
        return []
    second = group.ranked[1]
    ahead = group.ahead(winner, second)
    if ahead.seeds > 1 and not ahead.sure:
        words = "{} is next, {} behind: a difference that {} seeds cannot tell from chance."
        return [Markup(words).format(_name(second), amounts.points(ahead), ahead.seeds)]
    paired = ", paired by seed" if ahead.seeds > 1 else ""
    return [Markup("{} is next, {} behind{}.").format(_name(second), amounts.points(ahead), paired)]


def _where_others_win(group: Group, winner: str) -> list[Markup]:
    if len(group.settings) < 2 or len(group.ranked) < 2:
        return []
    best = [max(group.ranked, key=lambda p: group.sort_key(s, p)) for s in group.settings]
    others = sorted({p for p in best if p != winner}, key=lambda p: -best.count(p))
    if not others:
        return [Markup("It is the best in every one of the {} settings.").format(len(best))]
    rest = Markup(", ").join(Markup("{} in {}").format(_name(p), best.count(p)) for p in others)
    return [Markup("It is the best in {} of {} settings, {}.").format(best.count(winner), len(best), rest)]


def _lifts(group: Group, winner: str) -> list[Lift]:
    found = []
    for name in BASELINES:
        for label in group.named(name)[:1]:
            each = group.lifts(winner, label)
            if label != winner and each:
                mean, means = estimate(np.mean(each, axis=0)), [estimate(one).mean for one in each]
                low, high = min(means), max(means)
                over = (
                    f"{amounts.signed(low, 0)} to {amounts.signed(high, 0)} over the settings" if len(each) > 1 else ""
                )
                found.append(Lift(label, amounts.signed_with_interval(mean), over))
    return found


def _bound(group: Group, winner: str) -> list[Markup]:
    shares = [score.share_of_bound for (_, policy), score in group.scores.items() if policy == winner]
    known = [share for share in shares if not np.isnan(share)]
    note = group.run.about.bound
    if not known:
        why = f": {note.reason}" if note and note.reason else ""
        return [Markup("How near that is to the best possible is not known{}.").format(why)]
    optimum = percent(float(np.nanmean([group.headline(setting, BOUND).mean for setting in group.settings])))
    low = f", {percent(min(known))} where it is furthest from it" if len(known) > 1 else ""
    words = "That is {} of what a clairvoyant could do with the same budget ({}){}."
    return [Markup(words).format(percent(float(np.mean(known))), optimum, low)]


def _overspent(group: Group, policy: str) -> Markup:
    over = [(s, score) for (s, p), score in group.scores.items() if p == policy]
    paid_in = {setting: group.run.setting(setting).budget for setting, _ in over}
    setting, worst = max(over, key=lambda pair: float(pair[1].spent.mean()) / (paid_in[pair[0]] or 1))
    paid = paid_in[setting]
    if not group.run.contender(policy).budgeted:
        most = max(float(score.spent.mean()) for _, score in over)
        words = "{} sets no budget; it spent {} cost units per evaluation. It is shown, marked, and not ranked."
        return Markup(words).format(_name(policy), amount(most))
    of = f", where {amount(paid)} are paid" if paid is not None else ""
    words = "{} spent over the budget: up to {} cost units per evaluation{}. It is shown, marked, and not ranked."
    return Markup(words).format(_name(policy), amount(float(worst.spent.mean())), of)


def _budgets(group: Group, winner: str) -> list[Markup]:
    found = panels(group).get(BUDGET, [])
    if not found:
        return []
    return [_needed(group, found[0], winner) if len(found) == 1 else _needed_each(group, found, winner)]


def _needed(group: Group, panel: Panel, winner: str) -> Markup:
    """What the winner needs for the target, and what the others would."""
    needs = {p: reach(*budget_line(group, panel, p), group.target) for p in group.ranked}
    if needs[winner].needed is None:
        highest, at = max(zip(*reversed(budget_line(group, panel, winner)), strict=True))
        words = "No budget that was run brings {} to {} fresh; the nearest is {} with {} cost units per evaluation."
        return Markup(words).format(_name(winner), percent(group.target, 0), percent(highest), amount(at))
    rest = [Markup("{} {}").format(_name(p), needs[p].text) for p in group.ranked if p != winner and needs[p].needed]
    never = [_name(p) for p in group.ranked if needs[p].needed is None]
    others = Markup("; {}").format(_join(rest)) if rest else Markup("")
    without = Markup("; {} would need more than was run").format(_join(never)) if never else Markup("")
    words = "For {} fresh, {} needs {} cost units per evaluation{}{}."
    return Markup(words).format(percent(group.target, 0), _name(winner), needs[winner].text, others, without)


def _needed_each(group: Group, found: Sequence[Panel], winner: str) -> Markup:
    """What the winner needs with each combination of the other keys."""
    needs = {panel.held: reach(*budget_line(group, panel, winner), group.target) for panel in found}
    told = [f"{need.text} with {held}" for held, need in needs.items() if need.needed is not None]
    never = [held for held, need in needs.items() if need.needed is None]
    if not told:
        return Markup("No budget that was run brings {} to {} fresh.").format(_name(winner), percent(group.target, 0))
    others = f", and more than was run with {listing(never)}" if never else ""
    words = "For {} fresh, {} needs these cost units per evaluation: {}{}."
    return Markup(words).format(percent(group.target, 0), _name(winner), "; ".join(told), others)


def _name(policy: str) -> Markup:
    return Markup('<b class="policy">{}</b>').format(policy)


def _join(names: list[Markup]) -> Markup:
    return Markup(listing([str(name) for name in names]))
