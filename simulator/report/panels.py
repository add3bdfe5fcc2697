"""Panels along swept keys: the settings that differ in one key alone, the budget for a target, and the figure.

002's Figures 2 and 3 are such panels. Where several keys were swept, one panel holds the others still.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from json import dumps
from math import isnan
from operator import itemgetter
from typing import Any

from freshkeeper.maintenance.base.stats import Estimate
from freshkeeper.maintenance.pages.amounts import in_words, percent, percent_with_interval, swept_key, swept_value
from freshkeeper.maintenance.pages.charts import PERCENT, Axis, AxisKind, Chart, ChartForm, Interval
from freshkeeper.maintenance.pages.figures import ChartTable, Figure, Row, figure
from freshkeeper.simulator.experiment.scores import BOUND
from freshkeeper.simulator.report.groups import TTL, Group

BUDGET = "budget"
TARGETS = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Panel:
    """The settings along one key, by the key's values; `others` says what the other keys are."""

    key: str
    others: str
    at: tuple[tuple[Any, str], ...]

    @property
    def numeric(self) -> bool:
        """True if every value is a number."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value, _ in self.at)

    @property
    def values(self) -> int:
        """The number of different values that the key has."""
        return len({dumps(value) for value, _ in self.at})


@dataclass(frozen=True)
class Reach:
    """The budget that brings a policy to a target: `needed`, or None where no budget that was run does."""

    needed: float | None
    interpolated: bool = False
    at_least: bool = False
    """the smallest budget that was run is enough already"""

    @property
    def text(self) -> str:
        """The budget that is needed, and whether it is exact, in words."""
        if self.needed is None:
            return "not reached"
        words = "about " if self.interpolated else ""
        if self.at_least:
            words = "at most "
        if self.needed >= 10:
            return f"{words}{self.needed:.0f}"
        return f"{words}{self.needed:.2g}"


def panels(group: Group) -> dict[str, list[Panel]]:
    """Return every key with at least two values, with one panel per combination of the others."""
    varied = {setting: group.varied(setting) for setting in group.settings}
    keys = dict.fromkeys(key for values in varied.values() for key in values)
    by_key = {key: _along(key, varied) for key in keys}
    return {key: along for key, along in by_key.items() if along}


def _along(key: str, varied: dict[str, dict[str, Any]]) -> list[Panel]:
    together: dict[str, list[tuple[Any, str]]] = {}
    for setting, values in varied.items():
        if key in values:
            others = in_words({other: value for other, value in values.items() if other != key})
            together.setdefault(others, []).append((values[key], setting))
    found = []
    for others, at in together.items():
        panel = Panel(key, others, tuple(at))
        if key == BUDGET and panel.numeric:
            # Budgets lie along a scale; the values of all other keys keep the order of the config.
            panel = Panel(key, others, tuple(sorted(at, key=itemgetter(0))))
        if panel.values > 1:
            found.append(panel)
    return found


def reach(budgets: Sequence[float], freshness: Sequence[float], target: float) -> Reach:
    """Return the smallest budget at which the target is reached, between two that were run by a straight line."""
    line = list(zip(budgets, freshness, strict=True))
    if not line or max(freshness) < target:
        return Reach(None)
    if line[0][1] >= target:
        return Reach(line[0][0], at_least=True)
    for (low, below), (high, above) in pairwise(line):
        if below < target <= above:
            needed = low + (high - low) * (target - below) / (above - below)
            return Reach(needed, interpolated=needed != high)
    return Reach(None)


def budget_line(group: Group, panel: Panel, policy: str) -> tuple[list[float], list[float]]:
    """Return the budgets of a panel and the freshness of a policy at each."""
    run = [(float(value), setting) for value, setting in panel.at if (setting, policy) in group.scores]
    freshness = [group.scores[setting, policy].freshness.mean for _, setting in run]
    return [value for value, _ in run], freshness


def reaches(group: Group, panel: Panel, targets: Sequence[float] = TARGETS) -> dict[str, list[Reach]]:
    """Return what each ranked policy needs for each target."""
    lines = {policy: budget_line(group, panel, policy) for policy in group.ranked}
    found: dict[str, list[Reach]] = {}
    for policy, (budgets, freshness) in lines.items():
        found[policy] = [reach(budgets, freshness, target) for target in targets]
    return found


def chooser_of(key: str, by_held: Sequence[Panel]) -> str:
    """Return the chooser of what other keys are held at; empty where there is nothing to choose."""
    if len(by_held) < 2:
        return ""
    return f"held-{swept_key(key).replace(' ', '-')}"


def sweep(group: Group, key: str, by_held: Sequence[Panel]) -> Figure:
    """Return one key's figure, a choice for each combination of the other keys."""
    budget = key == BUDGET
    numeric = budget and all(panel.numeric for panel in by_held)
    title, x = f"Freshness by {swept_key(key)}", Axis(key)
    if budget:
        title, x = "Freshness against budget", Axis("γ, cost units per evaluation")
    if not numeric:
        order = dict.fromkeys(swept_value(value, key) for panel in by_held for value, _ in panel.at)
        x = Axis(x.title, kind=AxisKind.WORDS, order=list(order))
    chart = Chart(form=ChartForm.LINES, x=x, y=Axis("of answers fresh", PERCENT), interval=Interval.BARS, highest=1.0)
    tables = {panel.others: _table(group, panel, numeric, title) for panel in by_held}
    name = f"by-{key.rpartition('.')[2].replace('_', '-')}"
    caption, chooser = _caption(group, budget), chooser_of(key, by_held)
    return figure(name, title, chart, tables, group.styles, caption=caption, chooser=chooser, wide=budget)


def _caption(group: Group, budget: bool) -> str:
    shown = {policy for setting in group.settings for policy in group.with_references(setting)}
    all_fresh = budget and BOUND in shown and not any(map(group.is_unlimited, shown))
    sentences = {
        "Bars are 95 % intervals over seeds.": group.seeds.size > 1,
        "Dashed lines without marks are bounds.": any(map(group.is_bound, shown)),
        "ttl: a TTL cache that makes as many requests.": TTL in shown,
        "The other bound, no limit at all, is 100 %.": all_fresh,
    }
    return " ".join(words for words, applies in sentences.items() if applies)


def _table(group: Group, panel: Panel, numeric: bool, title: str) -> ChartTable:
    rows: list[Row] = []
    sentences = []
    for policy in group.with_references(panel.at[-1][1]):
        if panel.key != BUDGET and group.is_unlimited(policy):
            continue
        line = [(value, group.headline(setting, policy)) for value, setting in panel.at]
        line = [(value, freshness) for value, freshness in line if not isnan(freshness.mean)]
        if not line:
            continue
        mark = not group.is_bound(policy)
        rows += [
            {
                "policy": policy,
                "x": value if numeric else swept_value(value, panel.key),
                **share_columns(freshness),
                "mark": mark,
            }
            for value, freshness in line
        ]
        sentences.append(f"{policy} {', '.join(percent(freshness.mean) for _, freshness in line)}")
    values = ", ".join(swept_value(value, panel.key) for value, _ in panel.at)
    return ChartTable(rows, f"{title}, at {values}: {'; '.join(sentences)}.")


def share_columns(share: Estimate) -> Row:
    """Return the columns of a chart for a share with its interval."""
    low, high = max(share.low, 0.0), min(share.high, 1.0)
    return {"mid": share.mean, "low": low, "high": high, "text": percent_with_interval(share)}
