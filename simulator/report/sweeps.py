"""The figures along swept keys: freshness of every policy over a key's values, as in 002's Figures 2 and 3."""

from collections.abc import Sequence
from math import isnan
from typing import Any

from freshkeeper.simulator.report import charts
from freshkeeper.simulator.report.amounts import percent, percent_with_interval, value
from freshkeeper.simulator.report.drawing import Drawn, Figure, View, framed, short
from freshkeeper.simulator.report.groups import short as last_part
from freshkeeper.simulator.report.intervals import Estimate
from freshkeeper.simulator.report.panels import BUDGET, Panel
from freshkeeper.simulator.report.scores import BOUND


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
