"""The figures over time: freshness, and 002's Figure 4, accumulated stale answers and budget spent."""

from math import inf
from typing import Any

import numpy as np

from freshkeeper.simulator.report import charts
from freshkeeper.simulator.report.amounts import amount, percent
from freshkeeper.simulator.report.drawing import Drawn, Figure, Rows, View, framed, row, short
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
    values = [y for block in rows["rows"] for name in ("mid", "low", "high") for y in block["columns"].get(name, [])]
    paid = drawn.group.run.setting(setting).budget if measure is Measure.SPENT else None
    rules = {} if paid is None else {f"γ = {amount(paid)}": paid}
    share = measure is Measure.FRESHNESS
    axis = charts.frame([*values, *rules.values()], zero=not share, cap=1.0 if share else inf)
    rows |= framed(last, ends, axis, rules)
    say = percent if share else amount
    told = "; ".join(f"{policy} {say(end)}" for policy, end in ends.items())
    return View(rows, f"{TITLES[measure][1]}. At the end: {told}.")


def _marks(policy: str, one: Line, phase: float) -> dict[str, Any]:
    """A few marks along a line, those of other policies elsewhere, for eyes that cannot tell the colours apart."""
    wanted = (np.arange(MARKS) + 0.15 + 0.7 * phase) / MARKS * (one.x.size - 1)
    at = np.unique(np.rint(wanted).astype(np.int64))
    return {"is": {"policy": policy}, "columns": {"x": short(one.x[at].tolist()), "y": short(one.mean[at].tolist())}}


def _block(policy: str, one: Line, measure: Measure) -> dict[str, Any]:
    columns = {"x": short(one.x.tolist()), "mid": short(one.mean.tolist())}
    if measure is not Measure.SPENT and not np.isnan(one.half).all():
        half = np.nan_to_num(one.half)
        low, high = np.maximum(one.mean - half, 0), one.mean + half
        high = np.minimum(high, 1) if measure is Measure.FRESHNESS else high
        columns |= {"low": short(low.tolist()), "high": short(high.tolist())}
    return {"is": {"policy": policy}, "columns": columns}


def _warmup(drawn: Drawn, setting: str, found: dict[str, Line], dates: bool) -> list[dict[str, Any]]:
    evaluations = drawn.group.run.evaluations
    first = min(float(one.x[0]) for one in found.values())
    ends = warmup_ends(evaluations, evaluations.rows(drawn.at[setting, next(iter(found))]), dates)
    return [row(**{"from": first, "to": ends})] if ends is not None and ends > first else []
