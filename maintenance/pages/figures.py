"""Figures of a page: a table becomes a chart, with its rows for each choice and the same in words."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, isnan
from typing import Any

import numpy as np

from freshkeeper.maintenance.pages.amounts import GAP, amount, shortened
from freshkeeper.maintenance.pages.charts import (
    PERCENT,
    AxisKind,
    Chart,
    ChartForm,
    Interval,
    apart,
    frame,
    specification,
)
from freshkeeper.maintenance.pages.styles import Style

Row = dict[str, Any]

PAUSE = 2.5
"""Rows of a line that are so many times farther apart than usual have a gap between them."""
MARK_PX, SMALL_MARK_PX = 55, 35


@dataclass(frozen=True)
class ChartTable:
    """The rows that a chart shows for one choice, and the same in words for readers who cannot see it."""

    rows: Sequence[Row]
    """policy, x, mid and, where known, low, high and text; of dots and bars without x; `mid` is None in a gap"""
    words: str
    rules: Mapping[str, float] = field(default_factory=dict)
    """dotted lines across the chart, by what is written beside them"""
    shade: tuple[float, float] | None = None
    """where the warm-up begins and ends"""


@dataclass(frozen=True)
class FigureView:
    """The datasets of a chart for one choice."""

    rows: Mapping[str, list[Row]]
    words: str


@dataclass(frozen=True)
class Figure:
    """A chart with everything that it can show. `chooser` names the list of choices; empty where there is but one."""

    key: str
    title: str
    spec: dict[str, Any]
    views: dict[str, FigureView]
    caption: str = ""
    chooser: str = ""
    wide: bool = False


def figure(
    key: str,
    title: str,
    chart: Chart,
    tables: Mapping[str, ChartTable | None],
    styles: Mapping[str, Style],
    *,
    caption: str = "",
    chooser: str = "",
    wide: bool = False,
) -> Figure:
    """Make the chart of a table for each choice; without views where there are no rows."""
    views = {choice: _view(chart, table) for choice, table in tables.items() if table is not None and table.rows}
    present = sorted({name for view in views.values() for name, rows in view.rows.items() if rows})
    longest = max(map(_policies, views.values()), default=0)
    if chart.form is ChartForm.DOTS:
        chart = replace(chart, from_zero=_near_zero(views.values()))
    spec = specification(chart, styles, present, longest)
    return Figure(key, title, spec, views, caption=caption, chooser=chooser, wide=wide)


def _policies(view: FigureView) -> int:
    return len({row["policy"] for row in view.rows["rows"]})


def _near_zero(views: Iterable[FigureView]) -> bool:
    """Return whether zero is near enough to the values that an axis that begins there still tells them apart."""
    shown: list[float] = []
    for view in views:
        shown += _values(view.rows["rows"])
    return not shown or min(shown) < max(shown) / 2


def _values(rows: Sequence[Row]) -> list[float]:
    return [row[name] for row in rows for name in ("mid", "low", "high") if row.get(name) is not None]


def _view(chart: Chart, table: ChartTable) -> FigureView:
    if chart.form is not ChartForm.LINES:
        return FigureView({"rows": [_short(row) for row in table.rows]}, table.words)
    lines: dict[str, list[Row]] = {}
    for row in table.rows:
        lines.setdefault(row["policy"], []).append(row)
    if chart.x.kind in (AxisKind.NUMBERS, AxisKind.DATES) and chart.marks is not None:
        lines = {policy: _with_gaps(rows) for policy, rows in lines.items()}
    ends = {policy: _last(rows) for policy, rows in lines.items()}
    shown = _values(table.rows)
    if chart.diagonal:
        shown += _tenths_around([*shown, *(row["x"] for row in table.rows)])
    axis = frame([*shown, *table.rules.values()], chart.from_zero, chart.highest)
    # The first policy, which is the best, is drawn last and lies on top.
    marked = [_marked(chart, rows, n / len(lines)) for n, rows in enumerate(reversed(lines.values()))]
    datasets = {"rows": [_short(row) for rows in marked for row in rows]}
    begin = f"{100 * axis[0]:.3g}{GAP}%" if chart.y.format == PERCENT else amount(axis[0])
    notice = f"axis from {begin}" if axis[0] > 0 else ""
    datasets["frame"] = [{"y": axis[0], "text": notice}, {"y": axis[1], "text": ""}]
    datasets["rules"] = [{"y": y} for y in table.rules.values()]
    if table.shade:
        datasets["shade"] = [{"from": table.shade[0], "to": table.shade[1]}]
    if chart.diagonal:
        datasets["same"] = [{"x": end, "y": end} for end in axis]
    if not chart.legend:
        # Words lie in their order, numbers and dates in their own. The diagonal ends where its axes do.
        last = max((rows[-1]["x"] for rows in lines.values()), key=_place_on(chart.x.order))
        if chart.diagonal:
            last = axis[1]
        datasets["names"] = _names(ends, table.rules, axis, last)
    return FigureView(datasets, table.words)


def _place_on(order: Sequence[str]) -> Callable[[Any], Any]:
    """Return the function that says where a value lies along an axis."""
    if not order:
        return lambda value: value
    return order.index


def _tenths_around(values: Sequence[float]) -> list[float]:
    """Return the tenths below and above all values, so that a single point has room around it."""
    return [floor(10 * min(values)) / 10, ceil(10 * max(values)) / 10]


def _with_gaps(rows: Sequence[Row]) -> list[Row]:
    """Put an empty row where evaluations paused."""
    at = np.array([row["x"] for row in rows], np.float64)
    distances = np.diff(at)
    if not distances.size:
        return list(rows)
    usual = np.median(distances)
    found: list[Row] = []
    for row, distance in zip(rows, [*distances.tolist(), 0.0], strict=True):
        found.append(row)
        if distance > PAUSE * usual:
            found.append({"policy": row["policy"], "x": row["x"] + distance / 2, "mid": None})
    return found


def _last(rows: Sequence[Row]) -> float:
    return next(float(row["mid"]) for row in reversed(rows) if row["mid"] is not None)


def _marked(chart: Chart, rows: Sequence[Row], phase: float) -> list[Row]:
    """Say of each row whether it has a mark: of long lines a few, and on other lines elsewhere.

    Marks tell lines apart for readers who cannot tell the colours apart.
    """
    if chart.marks is None:
        return [{"mark": True, "size": MARK_PX, **row} for row in rows]
    wanted = (np.arange(chart.marks) + 0.15 + 0.7 * phase) / chart.marks * (len(rows) - 1)
    places = set(np.rint(wanted).astype(int).tolist())
    return [
        {**row, "mark": place in places and row["mid"] is not None, "size": SMALL_MARK_PX}
        for place, row in enumerate(rows)
    ]


def _names(ends: Mapping[str, float], rules: Mapping[str, float], axis: tuple[float, float], x: Any) -> list[Row]:
    """Return what is written where lines and rules end, moved apart."""
    places = apart([*ends.values(), *rules.values()], *axis).tolist()
    texts = [(policy, shortened(policy)) for policy in ends]
    texts += [("", text) for text in rules]
    return [
        _short({"policy": policy, "text": text, "x": x, "y": y})
        for (policy, text), y in zip(texts, places, strict=True)
    ]


def _short(row: Row) -> Row:
    return {name: _rounded(value) for name, value in row.items()}


def _rounded(value: Any) -> Any:
    """Round to five digits, more than a screen shows; instants, which are large, keep theirs; NaN becomes a gap."""
    if not isinstance(value, float):
        return value
    if isnan(value):
        return None
    if abs(value) < 1e5:
        value = float(f"{value:.5g}")
    if value.is_integer():
        return int(value)
    return value


def interval(chart: Chart, rows: Iterable[Row]) -> Chart:
    """Return the chart without its intervals where no row has one."""
    if any(row.get("low") is not None for row in rows):
        return chart
    return replace(chart, interval=Interval.NONE)
