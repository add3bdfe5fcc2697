"""The tables of a group: policies side by side in each setting, all settings at a glance, and the budgets needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan

from freshkeeper.simulator.experiment.baselines import MARK, Baseline
from freshkeeper.simulator.report.amounts import NOTHING, amount, duration, percent, percent_with_interval, signed
from freshkeeper.simulator.report.drawing import Drawn
from freshkeeper.simulator.report.groups import CASES, Group
from freshkeeper.simulator.report.intervals import Estimate, estimate
from freshkeeper.simulator.report.panels import BUDGET, TARGETS, Panel, Reach, panels, reaches
from freshkeeper.simulator.report.verdict import BASELINES

FRESH, OVER, OF_THE_BOUND, POOLED = "Fresh answers", "Over", "Of the bound", "Pooled"
STALE, REQUESTS, FAILED = "Stale answers", "Requests", "Failed fetches"
HEADS = (FRESH, OVER, OF_THE_BOUND, POOLED, STALE, REQUESTS, FAILED)


@dataclass(frozen=True)
class Row:
    """One policy's row: its name, its marks in words, and its cells."""

    policy: str
    marks: list[str]
    cells: list[str]
    best: bool = False
    bound: bool = False


@dataclass(frozen=True)
class Table:
    """A table with its choice, "" where there is but one."""

    heads: list[str]
    rows: list[Row]
    choice: str = ""


def of_settings(drawn: Drawn) -> list[Table]:
    """One table per setting."""
    return [_of_setting(drawn, setting) for setting in drawn.group.settings]


def _of_setting(drawn: Drawn, setting: str) -> Table:
    group = drawn.group
    policies = drawn.shown(setting)
    baseline = next((label for name in BASELINES for label in group.named(name) if label in policies), "")
    cells = {policy: _cells(group, setting, policy, baseline) for policy in policies}
    heads = [head for head in HEADS if any(cells[p].get(head, NOTHING) != NOTHING for p in policies)]
    fair = [policy for policy in policies if policy in group.ranked]
    best = max(fair, key=lambda p: group.sort_key(setting, p), default=None) if len(fair) > 1 else None
    rows = [
        Row(
            policy,
            _marks(group, setting, policy, policy == best),
            [cells[policy].get(head, NOTHING) for head in heads],
            policy == best,
            group.is_bound(policy),
        )
        for policy in policies
    ]
    return Table(["Policy", *(f"Over {baseline}" if head == OVER else head for head in heads)], rows, setting)


def _cells(group: Group, setting: str, policy: str, baseline: str) -> dict[str, str]:
    """What the table says of one policy; of a bound that was computed and not run it has the headline alone."""
    cells = {FRESH: percent_with_interval(group.headline(setting, policy))}
    score = group.scores.get((setting, policy))
    if score is None:
        return cells
    known = baseline and policy != baseline
    return cells | {
        OVER: signed(estimate(group.lift(policy, baseline, setting)).mean, 0) if known else NOTHING,
        OF_THE_BOUND: percent(score.share_of_bound),
        POOLED: percent(score.pooled),
        STALE: f"{amount(score.stale.mean())} of {amount(score.answers.mean())}",
        REQUESTS: amount(round(score.requests_per_evaluation, 2)),
        FAILED: amount(score.failed) if score.failed > 0 else NOTHING,
    }


def _marks(group: Group, setting: str, policy: str, best: bool) -> list[str]:
    score = group.scores.get((setting, policy))
    marks = {
        "best": best,
        MARK: not group.run.contender(policy).budgeted,
        "over budget": score is not None and score.over_budget and group.run.contender(policy).budgeted,
        "bound": group.is_bound(policy),
        "expected": score is not None and score.expected,
    }
    return [mark for mark, applies in marks.items() if applies]


def of_baselines(group: Group) -> list[Table]:
    """The caches that set no budget, one table per setting that has them."""
    heads = ["Cache", FRESH, REQUESTS, "Entries live"]
    found = {s: [_baseline(cache) for cache in group.baselines if cache.setting == s] for s in group.settings}
    return [Table(heads, rows, setting) for setting, rows in found.items() if rows]


def _baseline(cache: Baseline) -> Row:
    unknown = nan if cache.freshness is None else cache.freshness
    fresh = Estimate(unknown, nan if cache.ci95 is None else cache.ci95, cache.seeds)
    lasting = NOTHING if cache.ttl_ms is None else duration(cache.ttl_ms)
    cells = [percent_with_interval(fresh), amount(round(cache.requests_per_evaluation, 2)), lasting]
    return Row(cache.policy, [cache.mark], cells)


def overview(drawn: Drawn) -> Table | None:
    """All settings against all policies; None where there is one setting."""
    group = drawn.group
    if len(group.settings) < 2:
        return None
    shown = dict.fromkeys(policy for setting in group.settings for policy in drawn.shown(setting))
    policies = [*group.ranked, *(p for p in shown if p not in group.ranked)]
    rows = []
    for setting in group.settings:
        best = (
            max(group.ranked, key=lambda p: group.sort_key(setting, p), default=None) if len(group.ranked) > 1 else None
        )
        rows.append(Row(group.text(setting), [], [_cell(group, setting, p, p == best) for p in policies]))
    return Table(["Setting", *policies], rows)


def _cell(group: Group, setting: str, policy: str, best: bool) -> str:
    freshness, score = group.headline(setting, policy).mean, group.scores.get((setting, policy))
    if isnan(freshness):
        return NOTHING
    return f"{100 * freshness:.1f}" + ("\N{BLACK STAR}" if best else "*" if score and score.over_budget else "")


def of_knowledge(every: Sequence[Group]) -> list[Table]:
    """One table per case that was run at several levels of knowledge: each in columns of its own, none averaged."""
    found = []
    for case in dict.fromkeys(group.case for group in every):
        levels = [group for group in every if group.case == case]
        names = [group.knowledge or "not recorded" for group in levels]
        heads = ["Setting", "Policy", *(f"Fresh, {name}" for name in names), *(f"Requests, {name}" for name in names)]
        if len(levels) > 1:
            found.append(Table(heads, _levels(levels), CASES.get(case, case)))
    return found


def _levels(levels: Sequence[Group]) -> list[Row]:
    """Each setting and policy of the first level that another level has as well."""
    scores = [{(group.text(s), p): score for (s, p), score in group.scores.items()} for group in levels]
    rows = []
    for setting, policy in scores[0]:
        found = [each.get((setting, policy)) for each in scores]
        fresh = [percent_with_interval(score.freshness) if score else NOTHING for score in found]
        sent = [f"{score.requests_per_evaluation:.1f}" if score else NOTHING for score in found]
        if len([score for score in found if score]) > 1:
            rows.append(Row(setting, [], [policy, *fresh, *sent]))
    return rows


def budgets(drawn: Drawn) -> list[Table]:
    """What each policy needs to reach each target, one table per panel of budgets."""
    targets = tuple(sorted({*TARGETS, drawn.group.target}))
    return [
        _needs(panel, targets, reaches(drawn.group, panel, targets)) for panel in panels(drawn.group).get(BUDGET, [])
    ]


def _needs(panel: Panel, targets: Sequence[float], found: Mapping[str, Sequence[Reach]]) -> Table:
    """Targets that no policy reaches are left out: they would be columns of dashes."""
    reached = [i for i in range(len(targets)) if any(each[i].needed is not None for each in found.values())]
    rows = [Row(policy, [], [each[i].text for i in reached]) for policy, each in found.items()]
    return Table(["Policy", *(f"{percent(targets[i], 0)} fresh" for i in reached)], rows if reached else [], panel.held)
