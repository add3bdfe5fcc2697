"""What was swept: for each key the settings that differ in it alone, what budget reaches a target, and the figure.

002's Figures 2 and 3 are such panels. Where several keys were swept, one panel holds the others still.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from json import dumps
from math import isnan
from operator import itemgetter
from typing import Any

from freshkeeper.simulator.report import charts
from freshkeeper.simulator.report.amounts import percent, percent_with_interval, value
from freshkeeper.simulator.report.drawing import Drawn, Figure, View, framed, short
from freshkeeper.simulator.report.groups import Group
from freshkeeper.simulator.report.groups import short as last_part
from freshkeeper.simulator.report.intervals import Estimate
from freshkeeper.simulator.report.scores import BOUND

BUDGET = "budget"
TARGETS = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Panel:
    """The settings along one key, by the key's values; `held` says what the other keys are."""

    key: str
    held: str
    at: tuple[tuple[Any, str], ...]

    @property
    def numeric(self) -> bool:
        """Whether every value is a number."""
        return all(isinstance(what, int | float) and not isinstance(what, bool) for what, _ in self.at)


@dataclass(frozen=True)
class Reach:
    """How much budget brings a policy to a target: `needed`, or None where no budget that was run does."""

    needed: float | None
    interpolated: bool = False
    at_least: bool = False
    """the smallest budget that was run is enough already"""

    @property
    def text(self) -> str:
        """The budget that is needed, and whether it is exact, in words."""
        if self.needed is None:
            return "not reached"
        words = "at most " if self.at_least else "about " if self.interpolated else ""
        return f"{words}{self.needed:.0f}" if self.needed >= 10 else f"{words}{self.needed:.2g}"


def panels(group: Group) -> dict[str, list[Panel]]:
    """Every key with at least two values, with one panel per combination of the others."""
    varied = {setting: group.varied(setting) for setting in group.settings}
    keys = dict.fromkeys(key for values in varied.values() for key in values)
    found = {key: _along(key, varied) for key in keys}
    return {key: along for key, along in found.items() if along}


def _along(key: str, varied: dict[str, dict[str, Any]]) -> list[Panel]:
    together: dict[str, list[tuple[Any, str]]] = {}
    for setting, values in varied.items():
        if key in values:
            others = " · ".join(f"{last_part(k)} {value(v)}" for k, v in values.items() if k != key)
            together.setdefault(others, []).append((values[key], setting))
    sizes = {held: len({dumps(what) for what, _ in at}) for held, at in together.items()}
    found = [Panel(key, held, tuple(at)) for held, at in together.items() if sizes[held] > 1]
    return [replace(one, at=tuple(sorted(one.at, key=itemgetter(0)))) if one.numeric else one for one in found]


def reach(budgets: Sequence[float], freshness: Sequence[float], target: float) -> Reach:
    """The smallest budget at which the target is reached, between two that were run by a straight line."""
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
    """The budgets of a panel and the freshness of a policy at each."""
    there = [(float(what), setting) for what, setting in panel.at if (setting, policy) in group.scores]
    return [what for what, _ in there], [group.scores[setting, policy].freshness.mean for _, setting in there]


def reaches(group: Group, panel: Panel, targets: Sequence[float] = TARGETS) -> dict[str, list[Reach]]:
    """What each ranked policy needs for each target that at least one of them reaches and not all from the start."""
    return {p: [reach(*budget_line(group, panel, p), target) for target in targets] for p in group.ranked}


def sweep(drawn: Drawn, key: str, found: Sequence[Panel]) -> Figure:
    """One key's figure; where other keys were swept too, a chooser says what they are held at."""
    budget = key == BUDGET
    numeric = budget and all(panel.numeric for panel in found)
    title = "Freshness against budget" if budget else f"Freshness by {last_part(key)}"
    axis = "γ, cost units per evaluation" if budget else key
    return Figure(
        f"by-{last_part(key).replace(' ', '-')}",
        title,
        charts.panel(drawn.styles, "of answers fresh", axis, numeric),
        {panel.held: _view(drawn, panel, numeric, title) for panel in found},
        _caption(drawn, budget),
        f"held-{last_part(key).replace(' ', '-')}" if len(found) > 1 else "",
        wide=budget,
    )


def _caption(drawn: Drawn, budget: bool) -> str:
    group = drawn.group
    shown = {policy for setting in group.settings for policy in drawn.shown(setting)}
    all_fresh = budget and BOUND in shown and not any(map(drawn.is_unlimited, shown))
    parts = {
        "Bars are 95 % intervals over seeds.": group.seeds.size > 1,
        "Dashed lines without marks are bounds.": any(map(group.is_bound, shown)),
        "The other bound, no limit at all, is 100 %.": all_fresh,
    }
    return " ".join(words for words, applies in parts.items() if applies)


def _view(drawn: Drawn, panel: Panel, numeric: bool, title: str) -> View:
    group = drawn.group
    along = {
        policy: [(x, f) for x, s in panel.at if not isnan((f := group.headline(s, policy)).mean)]
        for policy in drawn.shown(panel.at[-1][1])
        if panel.key == BUDGET or not drawn.is_unlimited(policy)
    }
    along = {policy: there for policy, there in along.items() if there}
    last = panel.at[-1][0]
    ends = {policy: there[-1][1].mean for policy, there in along.items()}
    values = [end for there in along.values() for _, f in there for end in (max(f.low, 0.0), min(f.high, 1.0))]
    said = "; ".join(f"{policy} {', '.join(percent(f.mean) for _, f in there)}" for policy, there in along.items())
    blocks = [
        {"is": {"policy": policy, "bound": group.is_bound(policy)}, "columns": _columns(there, numeric)}
        for policy, there in reversed(along.items())
    ]
    words = f"{title}, at {', '.join(value(x) for x, _ in panel.at)}: {said}."
    return View(
        {"rows": blocks, **framed(last if numeric else value(last), ends, charts.frame(values or [0.0], cap=1.0))},
        words,
    )


def _columns(there: Sequence[tuple[Any, Estimate]], numeric: bool) -> dict[str, list[Any]]:
    return {
        "x": [x if numeric else value(x) for x, _ in there],
        "mid": short(f.mean for _, f in there),
        "low": short(max(f.low, 0.0) for _, f in there),
        "high": short(min(f.high, 1.0) for _, f in there),
        "text": [percent_with_interval(f) for _, f in there],
    }
