"""Every figure of a group: those with one row per policy (freshness, waste, staleness age, decision time) and those
over time: freshness, and 002's Figure 4, accumulated stale answers and budget spent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isnan
from typing import Any

import numpy as np

from freshkeeper.simulator.report import charts
from freshkeeper.simulator.report.amounts import amount, duration, percent, percent_with_interval
from freshkeeper.simulator.report.costs import Spread
from freshkeeper.simulator.report.drawing import Drawn, Figure, Rows, View, framed, row, short
from freshkeeper.simulator.report.intervals import Estimate
from freshkeeper.simulator.report.panels import BUDGET, panels, sweep
from freshkeeper.simulator.report.timeline import Line, Measure, are_dates, line, warmup_ends

TITLES = {
    Measure.FRESHNESS: ("over-time", "Freshness over time", "of answers fresh", charts.PERCENT),
    Measure.STALE: ("stale", "Accumulated stale answers", "stale answers", ",d"),
    Measure.SPENT: ("spent", "Budget spent per evaluation", "cost units", ",~r"),
}
MARKS = 5
CAPTIONS = {
    Measure.FRESHNESS: "The shaded warm-up does not count.",
    Measure.STALE: "From the end of the warm-up on: flatter is better.",
    Measure.SPENT: "The dotted line is γ, what each evaluation is paid.",
}


WHOLE = CAPTIONS | {
    Measure.FRESHNESS: "Every evaluation counts.",
    Measure.STALE: "From the first evaluation on: flatter is better.",
}
"""Where there is no warm-up."""


def over_time(drawn: Drawn, measure: Measure) -> Figure:
    """One measure over the evaluations of each setting."""
    key, title, axis, form = TITLES[measure]
    dates = are_dates(drawn.group.run.evaluations)
    found = {setting: _view(drawn, measure, setting, dates) for setting in drawn.group.settings}
    views = {setting: view for setting, view in found.items() if view}
    parts = {name for view in views.values() for name, blocks in view.rows.items() if blocks}
    bands = any("low" in block["columns"] for view in views.values() for block in view.rows["rows"])
    spec = charts.lines(drawn.styles, axis, form, dates, bands, "shade" in parts, "rules" in parts)
    caption = _caption(drawn, measure)
    return Figure(key, title, spec, views, caption, drawn.chooser, wide=measure is Measure.FRESHNESS)


def _caption(drawn: Drawn, measure: Measure) -> str:
    evaluations = drawn.group.run.evaluations
    longest = max(np.unique(evaluations.k[evaluations.rows(at)]).size for at in drawn.at.values())
    each = -(-longest // drawn.points)
    seeds = drawn.group.seeds.size
    bands = ", with 95 % bands" if measure is not Measure.SPENT else ""
    over = f" Means over {seeds} seeds{bands}." if seeds > 1 else ""
    thinned = each > 1 and measure is not Measure.STALE
    captions = WHOLE if evaluations.counted.all() else CAPTIONS
    wanted = measure is Measure.FRESHNESS and drawn.group.configured_target is not None
    over += " The dotted line is the target." if wanted else ""
    return captions[measure] + over + (f" Each point is the mean of up to {each} evaluations." if thinned else "")


def _view(drawn: Drawn, measure: Measure, setting: str, dates: bool) -> View | None:
    evaluations = drawn.group.run.evaluations
    shown = [policy for policy in drawn.policies(setting) if not drawn.is_unlimited(policy)]
    every = {p: line(evaluations, drawn.at[setting, p], measure, drawn.points, dates) for p in shown}
    found = {policy: one for policy, one in every.items() if one.x.size}
    if not found:
        return None
    ends = {policy: float(one.mean[-1]) for policy, one in found.items()}
    rows: Rows = {
        "rows": [_block(policy, one, measure) for policy, one in reversed(found.items())],
        "marks": [_marks(policy, one, i / len(found)) for i, (policy, one) in enumerate(reversed(found.items()))],
        "shade": _warmup(drawn, setting, found, dates) if measure is not Measure.STALE else [],
    }
    last = max(float(one.x[-1]) for one in found.values())
    drawn_at = (block["columns"].get(name, []) for block in rows["rows"] for name in ("mid", "low", "high"))
    values = [y for column in drawn_at for y in column if y is not None]
    paid = drawn.group.run.setting(setting).budget if measure is Measure.SPENT else None
    rules = {} if paid is None else {f"γ = {amount(paid)}": paid}
    share = measure is Measure.FRESHNESS
    wanted = drawn.group.configured_target if share else None
    rules |= {} if wanted is None else {f"target {percent(wanted, 0)}": wanted}
    axis = charts.frame([*values, *rules.values()], zero=not share, cap=1.0 if share else inf)
    rows |= framed(last, ends, axis, rules)
    say = percent if share else amount
    told = "; ".join(f"{policy} {say(end)}" for policy, end in ends.items())
    return View(rows, f"{TITLES[measure][1]}. At the end: {told}.")


def _marks(policy: str, one: Line, phase: float) -> dict[str, Any]:
    """A few marks along a line, those of other policies elsewhere, for eyes that cannot tell the colours apart."""
    wanted = (np.arange(MARKS) + 0.15 + 0.7 * phase) / MARKS * (one.x.size - 1)
    at = np.unique(np.rint(wanted).astype(np.int64))
    at = at[~np.isnan(one.mean[at])]
    return {"is": {"policy": policy}, "columns": {"x": short(one.x[at].tolist()), "y": short(one.mean[at].tolist())}}


def _block(policy: str, one: Line, measure: Measure) -> dict[str, Any]:
    columns = {"x": short(one.x.tolist()), "mid": short(one.mean.tolist())}
    if measure is not Measure.SPENT and not np.isnan(one.half).all():
        half = np.where(np.isnan(one.mean), np.nan, np.nan_to_num(one.half))
        low, high = np.maximum(one.mean - half, 0), one.mean + half
        high = np.minimum(high, 1) if measure is Measure.FRESHNESS else high
        columns |= {"low": short(low.tolist()), "high": short(high.tolist())}
    return {"is": {"policy": policy}, "columns": columns}


def _warmup(drawn: Drawn, setting: str, found: dict[str, Line], dates: bool) -> list[dict[str, Any]]:
    evaluations = drawn.group.run.evaluations
    first = min(float(one.x[0]) for one in found.values())
    ends = warmup_ends(evaluations, evaluations.rows(drawn.at[setting, next(iter(found))]), dates)
    return [row(**{"from": first, "to": ends})] if ends is not None and ends > first else []


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
    several = any(len(drawn.shown(setting)) > 1 for setting in group.settings)
    by_policy = f"Mean over the evaluations that count{bars}."
    found = [
        *([_shares(drawn, FRESHNESS, "Freshness by policy", freshness, by_policy)] if several else []),
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
