"""Every figure of a group, and those with one row per policy: freshness, waste, staleness age, decision time."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

from freshkeeper.simulator.report import charts
from freshkeeper.simulator.report.amounts import duration, percent_with_interval
from freshkeeper.simulator.report.costs import Spread
from freshkeeper.simulator.report.drawing import Drawn, Figure, View, short
from freshkeeper.simulator.report.intervals import Estimate
from freshkeeper.simulator.report.over_time import over_time
from freshkeeper.simulator.report.panels import BUDGET, panels, sweep
from freshkeeper.simulator.report.timeline import Measure

MOST, LEAST, TOGETHER = 200, 25, 25_000
"""How many points a line has at most and at least, and how many all lines have together at about 20 bytes each."""

Pair = tuple[str, str]
"""A setting and a policy."""

FRESHNESS = "freshness"
UNITS = (("days", 86_400_000.0), ("hours", 3_600_000.0), ("minutes", 60_000.0), ("seconds", 1000.0))


@dataclass(frozen=True)
class Dot:
    """One policy's row: the number, its bar, and both in words."""

    mid: float
    low: float
    high: float
    text: str


def points_each(lines: int) -> int:
    """How many points a line may have when there are so many lines."""
    return max(LEAST, min(MOST, TOGETHER // max(lines, 1)))


def of_settings(drawn: Drawn) -> list[Figure]:
    """The figures that show one setting at a time, without those that nothing is known for."""
    group = drawn.group
    freshness = {(s, p): group.headline(s, p) for s in group.settings for p in drawn.shown(s)}
    wasted = drawn.of(drawn.costs.wasted)
    age, overdue = drawn.of(drawn.staleness.age), drawn.of(drawn.staleness.overdue)
    bars = "; bars are 95 % intervals over seeds" if group.seeds.size > 1 else ""
    found = [
        _shares(drawn, FRESHNESS, "Freshness by policy", freshness, f"Mean over the evaluations that count{bars}."),
        over_time(drawn, Measure.FRESHNESS),
        over_time(drawn, Measure.STALE),
        over_time(drawn, Measure.SPENT),
        _shares(drawn, "wasted", "Wasted refreshes", wasted, "Refreshes that found the value unchanged."),
        _times(drawn, "age", "Age of the copies of stale answers", age, "Time since the copy was fetched"),
        _times(drawn, "overdue", "How long they had been stale", overdue, "Time since the value changed"),
        _times(drawn, "decide", "Time to decide", drawn.of(drawn.costs.decide_ms), "Wall clock per evaluation"),
        _times(drawn, "fetch", "Time to fetch", drawn.of(drawn.costs.fetch_ms), "Per evaluation that fetched"),
    ]
    return [figure for figure in found if figure.views]


def along_keys(drawn: Drawn) -> list[Figure]:
    """The panels: one figure per swept key, the budget first."""
    found = panels(drawn.group)
    return [sweep(drawn, key, found[key]) for key in sorted(found, key=lambda key: key != BUDGET)]


def _shares(drawn: Drawn, key: str, title: str, known: Mapping[Pair, Estimate], caption: str) -> Figure:
    rows = {
        pair: Dot(found.mean, max(found.low, 0.0), min(found.high, 1.0), percent_with_interval(found))
        for pair, found in known.items()
        if not isnan(found.mean)
    }
    axis = "of answers fresh" if key == FRESHNESS else "of refreshes"
    return _dots(drawn, key, title, rows, charts.dots(drawn.styles, axis, charts.PERCENT), caption)


def _times(drawn: Drawn, key: str, title: str, known: Mapping[Pair, Spread], caption: str) -> Figure:
    longest = max((spread.high for spread in known.values()), default=1.0)
    unit, size = next(((unit, size) for unit, size in UNITS if longest >= 2 * size), ("milliseconds", 1.0))
    rows = {
        pair: Dot(
            one.median / size, one.median / size, one.high / size, f"{duration(one.median)} – {duration(one.high)}"
        )
        for pair, one in known.items()
    }
    positive = all(dot.mid > 0 for dot in rows.values())
    spec = charts.dots(drawn.styles, unit, log=positive and key in ("decide", "fetch"))
    return _dots(drawn, key, title, rows, spec, f"{caption}: the median, and a bar to the 95th percentile.")


def _dots(drawn: Drawn, key: str, title: str, rows: Mapping[Pair, Dot], spec: dict[str, Any], caption: str) -> Figure:
    views: dict[str, View] = {}
    for setting in drawn.group.settings:
        policies = [p for p in drawn.shown(setting, bounds=key == FRESHNESS) if not drawn.is_unlimited(p)]
        found = {policy: rows[setting, policy] for policy in policies if (setting, policy) in rows}
        if found:
            columns: dict[str, list[Any]] = {"policy": list(found), "text": [dot.text for dot in found.values()]}
            columns["mid"] = short(dot.mid for dot in found.values())
            columns["low"] = short(dot.low for dot in found.values())
            columns["high"] = short(dot.high for dot in found.values())
            words = "; ".join(f"{policy} {dot.text}" for policy, dot in found.items())
            views[setting] = View({"rows": [{"is": {}, "columns": columns}]}, f"{title}: {words}.")
    return Figure(key, title, spec, views, caption, drawn.chooser)
