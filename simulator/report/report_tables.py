"""The tables of a group: policies side by side in each setting, all settings at a glance, and the budgets needed."""

from collections.abc import Iterator, Sequence
from math import isnan, nan

from freshkeeper.maintenance.base.stats import Estimate
from freshkeeper.maintenance.pages.amounts import (
    UNKNOWN,
    amount,
    duration,
    percent,
    percent_with_interval,
    signed_points,
)
from freshkeeper.maintenance.pages.page import PageTable, TableRow
from freshkeeper.simulator.experiment.baselines import MARK, Baseline
from freshkeeper.simulator.experiment.scores import Score
from freshkeeper.simulator.report.groups import CASES, TTL, Group
from freshkeeper.simulator.report.panels import BUDGET, TARGETS, Reach, chooser_of, panels, reaches
from freshkeeper.simulator.report.verdict import BASELINES

FRESH, OVER, OF_THE_BOUND, POOLED = "Fresh answers", "Over", "Of the bound", "Pooled"
STALE, REQUESTS, FAILED = "Stale answers", "Requests", "Failed fetches"
HEADS = (FRESH, OVER, OF_THE_BOUND, POOLED, STALE, REQUESTS, FAILED)


def tables_of_settings(group: Group) -> list[PageTable]:
    """Return one table of policies per setting."""
    return [_of_setting(group, setting) for setting in group.settings]


def _of_setting(group: Group, setting: str) -> PageTable:
    policies = group.with_bound(setting)
    baselines = [TTL]
    for name in BASELINES:
        baselines += group.labels_of(name)
    baseline = next((label for label in baselines if not isnan(group.headline(setting, label).mean)), "")
    cells = {policy: _cells(group, setting, policy, baseline) for policy in policies}
    heads = []
    for head in HEADS:
        if any(row.get(head, UNKNOWN) != UNKNOWN for row in cells.values()):
            heads.append(head)
    best = _best(group, setting, [policy for policy in policies if policy in group.ranked])
    rows = []
    for policy in policies:
        row = TableRow(
            policy,
            [cells[policy].get(head, UNKNOWN) for head in heads],
            marks=_marks(group, setting, policy, best=policy == best),
            style=group.styles[policy],
            best=policy == best,
            bound=group.is_bound(policy),
        )
        rows.append(row)
    titles = ["Policy", *(head.replace(OVER, f"Points over {baseline}") for head in heads)]
    return _of_choice(group, "Policies side by side", titles, rows, setting)


def _of_choice(group: Group, title: str, heads: Sequence[str], rows: Sequence[TableRow], setting: str) -> PageTable:
    """Return a table that is shown while its setting is chosen, at first the first one."""
    hidden = bool(group.chooser) and setting != group.settings[0]
    return PageTable(title, heads, rows, chooser=group.chooser, choice=setting, hidden=hidden)


def _best(group: Group, setting: str, policies: Sequence[str]) -> str | None:
    """Return the policy that won a setting; None where a single one was run."""
    if len(policies) < 2:
        return None
    return max(policies, key=lambda policy: group.sort_key(setting, policy))


def _cells(group: Group, setting: str, policy: str, baseline: str) -> dict[str, str]:
    """Return the cells of one policy; a bound that was computed and not run has the headline alone."""
    cells = {FRESH: percent_with_interval(group.headline(setting, policy))}
    score = group.scores.get((setting, policy))
    if score is None:
        return cells
    if baseline and policy != baseline:
        cells[OVER] = signed_points(group.lead(policy, baseline, setting).mean)
    runs = max(score.seeds.size, 1)
    if score.failed > 0:
        cells[FAILED] = amount(score.failed)
    return cells | {
        OF_THE_BOUND: percent(score.share_of_bound),
        POOLED: UNKNOWN if group.pooled else percent(score.pooled),
        STALE: f"{amount(score.stale / runs)} of {amount(score.answers / runs)}",
        REQUESTS: amount(round(score.requests_per_evaluation, 2)),
    }


def _marks(group: Group, setting: str, policy: str, best: bool) -> list[str]:
    score, budgeted = group.scores.get((setting, policy)), group.run.contender(policy).budgeted
    marks = {
        "best": best,
        MARK: not budgeted,
        "over budget": score is not None and score.over_budget and budgeted,
        "bound": group.is_bound(policy),
        "expected": score is not None and score.expected,
    }
    return [mark for mark, applies in marks.items() if applies]


def tables_of_baselines(group: Group) -> list[PageTable]:
    """Return the caches that set no budget, one table per setting that has them."""
    heads = ["Cache", FRESH, REQUESTS, "Entries live"]
    found: dict[str, list[TableRow]] = {setting: [] for setting in group.settings}
    for cache in group.baselines:
        if cache.setting in found:
            found[cache.setting].append(_baseline(cache))
    title = "Caches beside them, which set no budget"
    return [_of_choice(group, title, heads, rows, setting) for setting, rows in found.items() if rows]


def _baseline(cache: Baseline) -> TableRow:
    mean, half, ttl_ms = (_or_nan(number) for number in (cache.freshness, cache.ci95, cache.ttl_ms))
    fresh, ttl = percent_with_interval(Estimate(mean, half, cache.seeds)), duration(ttl_ms)
    return TableRow(cache.policy, [fresh, amount(round(cache.requests_per_evaluation, 2)), ttl], [cache.mark])


def _or_nan(number: float | None) -> float:
    if number is None:
        return nan
    return number


def overview(group: Group) -> PageTable:
    """Return all settings against all policies."""
    shown = dict.fromkeys(policy for setting in group.settings for policy in group.with_references(setting))
    policies = [*group.ranked, *(policy for policy in shown if policy not in group.ranked)]
    rows = []
    for setting in group.settings:
        best = _best(group, setting, group.ranked)
        cells = [_cell(group, setting, policy, policy == best) for policy in policies]
        rows.append(TableRow(group.text(setting), cells))
    title = "Fresh answers in percent, every setting (★ best, * over budget or without one)"
    return PageTable(title, ["Setting", *policies], rows)


def _cell(group: Group, setting: str, policy: str, best: bool) -> str:
    freshness, score = group.headline(setting, policy).mean, group.scores.get((setting, policy))
    if isnan(freshness):
        return UNKNOWN
    cell = f"{100 * freshness:.1f}"
    if best:
        return cell + "\N{BLACK STAR}"
    if score and score.over_budget:
        return cell + "*"
    return cell


def tables_of_knowledge(every: Sequence[Group]) -> Iterator[PageTable]:
    """Yield a table per case that was run at several levels of knowledge, each in columns of its own."""
    for case in dict.fromkeys(group.case for group in every):
        levels = [group for group in every if group.case == case]
        heads = ["Setting", "Policy"]
        for measure in ("Fresh", "Requests"):
            heads += [f"{measure}, {group.knowledge or 'not recorded'}" for group in levels]
        if len(levels) > 1:
            yield PageTable(CASES.get(case, case), heads, list(_levels(levels)))


def _levels(levels: Sequence[Group]) -> Iterator[TableRow]:
    """Yield each setting and policy of the first level that another level has as well."""
    by_level: list[dict[tuple[str, str], Score]] = []
    for group in levels:
        by_level.append({(group.text(setting), policy): score for (setting, policy), score in group.scores.items()})
    for setting, policy in by_level[0]:
        scores = [by_pair.get((setting, policy)) for by_pair in by_level]
        if len(scores) - scores.count(None) > 1:
            cells = [UNKNOWN if score is None else percent_with_interval(score.freshness) for score in scores]
            cells += [UNKNOWN if score is None else f"{score.requests_per_evaluation:.1f}" for score in scores]
            yield TableRow(setting, [policy, *cells])


def tables_of_budgets(group: Group) -> Iterator[PageTable]:
    """Yield what each policy needs to reach each target, a table per combination of the other swept keys."""
    targets = sorted({*TARGETS, group.target})
    by_held = panels(group).get(BUDGET, [])
    chooser = chooser_of(BUDGET, by_held)
    for place, panel in enumerate(by_held):
        needs = reaches(group, panel, targets)
        # A target that no policy reaches would be a column of dashes.
        columns = list(zip(*needs.values(), strict=True))
        reached = [n for n, column in enumerate(columns) if set(column) != {Reach(None)}]
        if not reached:
            continue
        rows = []
        for policy, each in needs.items():
            rows.append(TableRow(policy, [each[n].text for n in reached]))
        heads = ["Policy", *(f"{percent(targets[n], 0)} fresh" for n in reached)]
        title = "Cost units per evaluation needed"
        if panel.others:
            title += f" ({panel.others})"
        yield PageTable(title, heads, rows, chooser=chooser, choice=panel.others, hidden=bool(chooser) and place > 0)
