"""The three forms of chart as Vega-Lite: lines along an axis, a dot with its interval per policy, and bars.

A specification says how data looks and not what it is: rows come later, by name, so that one specification serves every
choice of a page. Datasets are `rows` (policy, x, mid, low, high, text), `names` (what is written where lines end),
`rules` (dotted lines), `shade` (the warm-up), `same` (the diagonal) and `frame` (the ends of the vertical axis, and a
text that says where it begins if that is not 0).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import ceil, floor, inf
from typing import Any

import altair as alt
import numpy as np
from scipy.optimize import isotonic_regression

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.pages.amounts import MAX_LABEL_LENGTH
from freshkeeper.maintenance.pages.styles import Style, css

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""The version that altair writes, for the libraries that draw it."""

HEIGHT = 250
LABEL_PX = 14
ROW_PX = 24
LEGEND_PX = 70
CHARACTER_PX = 7
NARROW_PX = 300
"""The width of a chart that shares its row with another one."""
TAIL = (MAX_LABEL_LENGTH - 1) // 2
SHORT_LABEL = (
    f"length(datum.label) > {MAX_LABEL_LENGTH} ? slice(datum.label, 0, {MAX_LABEL_LENGTH - 1 - TAIL}) + '…' + "
    f"slice(datum.label, -{TAIL}) : datum.label"
)
"""`amounts.shortened` as an expression of Vega: an axis keeps the whole names, which tell its places apart."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
CONFIG: dict[str, Any] = {
    "aria": False,
    "background": "transparent",
    "font": FONT,
    "padding": {"left": 4, "top": 4, "bottom": 4, "right": 14},
    "view": {"stroke": None},
    "axis": {
        "labelColor": css("muted"),
        "titleColor": css("muted"),
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": css("grid"),
        "domainColor": css("grid"),
        "tickColor": css("grid"),
        "labelOverlap": True,
    },
    "axisY": {"domain": False, "ticks": False, "tickCount": 5},
    "axisX": {"tickCount": 6},
    "text": {"color": css("ink"), "fontSize": 12},
    "title": {"color": css("ink"), "fontSize": 14, "anchor": "start", "subtitleColor": css("muted")},
}
PERCENT, COUNT = "%", ",d"


class AxisKind(Enum):
    """The kind of values along an axis."""

    NUMBERS = "quantitative"
    LOGARITHMS = "logarithmic"
    DATES = "temporal"
    WORDS = "ordinal"


@dataclass(frozen=True)
class Axis:
    """The horizontal or the vertical axis of a chart."""

    title: str
    format: str = ""
    kind: AxisKind = AxisKind.NUMBERS
    order: Sequence[str] = ()
    """of words, from left to right"""


class ChartForm(Enum):
    """The form in which rows are drawn."""

    LINES = "lines"
    DOTS = "dots"
    BARS = "bars"


class Interval(Enum):
    """The form in which lines show the interval from `low` to `high`."""

    NONE = "none"
    BAND = "band"
    BARS = "bars"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A recipe that makes a chart of a table."""

    form: ChartForm
    x: Axis
    y: Axis = Axis("")
    interval: Interval = Interval.NONE
    marks: int | None = None
    """how many marks a line has; None: one at every row that does not say `mark: False`"""
    legend: bool = False
    """whether lines are named in a legend instead of where they end"""
    diagonal: bool = False
    from_zero: bool = False
    """whether the axis of values begins at zero; bars always do, and other charts say where else they begin"""
    highest: float = inf
    """where the vertical axis ends at the latest"""
    colour_of_part: Mapping[str, str] = field(default_factory=dict)
    """of bars that are cut into parts"""


def specification(chart: Chart, styles: Mapping[str, Style], datasets: Sequence[str], rows: int) -> dict[str, Any]:
    """Return a chart as Vega-Lite, with the layers for these datasets; `rows` is how many dots or bars there are."""
    if chart.form is ChartForm.LINES:
        drawn = _lines(chart, styles, datasets)
    elif chart.form is ChartForm.DOTS:
        drawn = _dots(chart, styles, rows)
    else:
        drawn = _bars(chart, rows)
    fit = alt.AutoSizeParams(type="fit-x", contains="padding", resize=True)
    made: dict[str, Any] = drawn.properties(width="container", autosize=fit).to_dict()
    made["config"] = CONFIG
    return made


def datasets_of(spec: Mapping[str, Any]) -> list[str]:
    """Return the names of the datasets that a specification draws."""
    return sorted({part["data"]["name"] for part in (spec, *spec["layer"]) if "data" in part})


def frame(values: Sequence[float], zero: bool = False, highest: float = inf) -> tuple[float, float]:
    """Return round numbers around all values, with some room above, for the ends of a vertical axis.

    Where all values are the highest possible one, the axis begins at zero.
    """
    low, high = min(values), max(values)
    if zero:
        low, high = min(0.0, low), max(0.0, high)
    span = high - low or abs(high) or 5.0
    steps = [10.0**power * part for power in range(-6, 12) for part in (1, 2, 5)]
    step = min(steps, key=lambda size: abs(span / size - 5))
    ends = floor(low / step) * step, min(ceil((high + span / 20) / step) * step, highest)
    return ends if ends[0] < ends[1] else (0.0, highest)


def apart(values: Sequence[float], low: float, high: float, height: int = HEIGHT) -> Floats:
    """Return where names go so that they do not overlap: as near as possible to their values, a line's height apart.

    The nearest increasing sequence after taking the wanted distances off is the nearest one with these distances.
    """
    at = np.asarray(values, np.float64)
    order = np.argsort(at, kind="stable")
    gap = min((high - low) * LABEL_PX / height, (high - low) / max(at.size - 1, 1))
    steps = gap * np.arange(at.size)
    found = np.empty(at.size)
    found[order] = np.clip(isotonic_regression(at[order] - steps).x, low, high - steps[-1]) + steps
    return found


def _lines(chart: Chart, styles: Mapping[str, Style], datasets: Sequence[str]) -> alt.LayerChart | alt.FacetChart:
    x, y = _across(chart.x), _upwards(chart.y)
    colour, shape, dash = _looks(styles, chart.legend)
    rows = _base("rows").encode(x=alt.X("x", **x), y=alt.Y("mid:Q", **y), color=colour)
    tooltip = [
        alt.Tooltip("policy:N"),
        alt.Tooltip("x", type=x["type"], title=chart.x.title),
        alt.Tooltip("text:N", title=chart.y.title),
    ]
    points = rows.transform_filter("datum.mark").mark_point(strokeWidth=2, opacity=1, fill=css("paper"))
    size = alt.Size("size:Q", scale=None, legend=None)
    layers: list[alt.Chart] = []
    if "shade" in datasets:
        shade = _base("shade").encode(x=alt.X("from", **x), x2="to")
        layers.append(shade.mark_rect(color=css("shade")))
    if "rules" in datasets:
        layers.append(_at_y("rules", y).mark_rule(strokeDash=[2, 3], color=css("ink")))
    if "same" in datasets:
        diagonal = _base("same").encode(x=alt.X("x", **x), y=alt.Y("y:Q", **y))
        layers.append(diagonal.mark_line(strokeDash=[2, 3], color=css("muted")))
    interval = rows.encode(y=alt.Y("low:Q", **y), y2="high:Q")
    if chart.interval is Interval.BAND:
        layers.append(interval.mark_area(opacity=0.14))
    layers.append(rows.mark_line(strokeWidth=2, strokeCap="round").encode(strokeDash=dash))
    if chart.interval is Interval.BARS:
        layers.append(interval.mark_rule(strokeWidth=2.5, opacity=0.55))
    layers.append(points.encode(shape=shape, size=size, tooltip=tooltip))
    if not chart.legend:
        layers += _names(styles, x, y)
    layers.append(_at_y("frame", y).mark_point(opacity=0))
    begins = _base("frame").mark_text(align="right", color=css("muted")).encode(text="text:N")
    layers.append(begins.encode(x=alt.value("width"), y=alt.value(-14)))
    height = HEIGHT
    if chart.legend:
        height += LEGEND_PX
    return alt.layer(*layers).properties(height=height)


def _dots(chart: Chart, styles: Mapping[str, Style], rows: int) -> alt.LayerChart | alt.FacetChart:
    """Draw a row per policy: a point at `mid`, a bar from `low` to `high`, and the numbers in a column beside it."""
    logarithms = chart.x.kind is AxisKind.LOGARITHMS
    scale, title = alt.Scale(zero=chart.from_zero, nice=False, padding=10), chart.x.title
    if not chart.from_zero:
        title += " (the axis does not begin at 0)"
    if logarithms:
        scale, title = alt.Scale(type="log", padding=10), f"{chart.x.title} (logarithmic)"
    axis = alt.Axis(format=chart.x.format or "~r", tickCount=4, domain=False, ticks=False, grid=not logarithms)
    across: dict[str, Any] = {"scale": scale, "title": title, "axis": axis}
    colour, shape, _ = _looks(styles, legend=False)
    base = _base("rows").encode(y=_place("policy"))
    painted = base.encode(color=colour)
    return alt.layer(
        painted.mark_rule(strokeWidth=3, opacity=0.55).encode(x=alt.X("low:Q", **across), x2="high:Q"),
        painted.mark_point(size=80, strokeWidth=2.5, opacity=1, fill=css("paper")).encode(
            x=alt.X("mid:Q", **across),
            shape=shape,
            tooltip=[alt.Tooltip("policy:N"), alt.Tooltip("text:N", title=chart.x.title)],
        ),
        base.mark_text(align="left", dx=10).encode(x=alt.value("width"), text="text:N"),
    ).properties(height=ROW_PX * max(rows, 1))


def _bars(chart: Chart, rows: int) -> alt.LayerChart | alt.FacetChart:
    """Draw a bar per policy or entry, with its number beside it, or cut into parts with a legend."""
    axis = alt.Axis(format=chart.x.format or "~r", tickCount=4, domain=False, ticks=False)
    x = alt.X("mid:Q", title=chart.x.title, axis=axis, stack=bool(chart.colour_of_part))
    tooltip = [alt.Tooltip("policy:N"), alt.Tooltip("text:N", title=chart.x.title)]
    base = _base("rows").encode(y=_place("policy"), x=x, tooltip=tooltip)
    height = ROW_PX * max(rows, 1)
    if not chart.colour_of_part:
        bars = base.mark_bar(height=12).encode(color=alt.Color("paint:N", scale=None, legend=None))
        text = base.mark_text(align="left", dx=5).encode(text="text:N")
        return alt.layer(bars, text).properties(height=height)
    colours = [css(colour) for colour in chart.colour_of_part.values()]
    parts = alt.Color("part:N", scale=alt.Scale(domain=list(chart.colour_of_part), range=colours), legend=_legend(2))
    tooltip.insert(1, alt.Tooltip("part:N"))
    bars = base.mark_bar(height=16).encode(color=parts, order=alt.Order("rank:Q"), tooltip=tooltip)
    return alt.layer(bars).properties(height=height)


def _base(dataset: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(dataset))


def _at_y(dataset: str, y: Mapping[str, Any]) -> alt.Chart:
    """Rows that are of no policy, such as the ends of the axis and the budget γ."""
    chart: alt.Chart = _base(dataset).encode(y=alt.Y("y:Q", **y))
    return chart


def _across(axis: Axis) -> dict[str, Any]:
    vega_type = axis.kind.value.replace("logarithmic", "quantitative")
    labels: dict[str, Any] = {"grid": False, "tickCount": 6}
    if axis.format:
        labels["format"] = axis.format
    if axis.kind is AxisKind.WORDS:
        # Room in pixels, not in parts of the width: a chart is made narrower once, by as much as its names stick out.
        words = alt.Scale(type="point", padding=0, rangeMin=14, rangeMax={"expr": "width - 14"})
        widest = sum(CHARACTER_PX * min(len(word), MAX_LABEL_LENGTH) for word in axis.order)
        angle = 0 if widest <= NARROW_PX else -30
        words_axis = alt.Axis(labelAngle=angle, labelOverlap=False, labelLimit=0, labelExpr=SHORT_LABEL, grid=False)
        return {"type": vega_type, "title": axis.title, "scale": words, "sort": axis.order, "axis": words_axis}
    scales = {
        AxisKind.NUMBERS: alt.Scale(zero=False, nice=False, padding=12),
        AxisKind.LOGARITHMS: alt.Scale(type="log", nice=False, padding=12),
        AxisKind.DATES: alt.Scale(type="utc"),
    }
    return {"type": vega_type, "title": axis.title, "scale": scales[axis.kind], "axis": alt.Axis(**labels)}


def _upwards(axis: Axis) -> dict[str, Any]:
    """Describe the vertical axis: its ends are those of the frame, and its title lies above it."""
    title: dict[str, Any] = {"titleAngle": 0, "titleAlign": "left", "titleY": -10, "titleX": 0, "titleAnchor": "start"}
    if axis.format == COUNT:
        title["tickMinStep"] = 1
    drawn = alt.Axis(format=axis.format or "~r", **title)
    return {"scale": alt.Scale(zero=False, nice=False), "title": axis.title, "axis": drawn}


def _place(column: str) -> alt.Y:
    names = alt.Axis(labelLimit=0, labelExpr=SHORT_LABEL, labelColor=css("ink"), domain=False)
    return alt.Y(f"{column}:N", sort=None, title=None, axis=names)


def _names(styles: Mapping[str, Style], x: Mapping[str, Any], y: Mapping[str, Any]) -> list[alt.Chart]:
    """Draw each policy's mark and name to the right of where its line ends; the words of a rule have no mark."""
    colour, shape, _ = _looks(styles, legend=False)
    base = _base("names").encode(x=alt.X("x", **x), y=alt.Y("y:Q", **y))
    mark = base.transform_filter("datum.policy").mark_point(
        size=40, strokeWidth=2, opacity=1, xOffset=12, fill=css("paper")
    )
    return [mark.encode(color=colour, shape=shape), base.mark_text(align="left", dx=20).encode(text="text:N")]


def _looks(styles: Mapping[str, Style], legend: bool) -> tuple[alt.Color, alt.Shape, alt.StrokeDash]:
    """Return colour, shape and dash by policy."""
    domain = list(styles)

    def scale(values: list[Any]) -> alt.Scale:
        return alt.Scale(domain=domain, range=values)

    legend_or_none = None
    if legend:
        legend_or_none = _legend(3)
    paints = scale([style.paint for style in styles.values()])
    shapes = scale([style.shape for style in styles.values()])
    dashes = scale([list(style.dash) for style in styles.values()])
    return (
        alt.Color("policy:N", legend=legend_or_none, scale=paints),
        alt.Shape("policy:N", legend=legend_or_none, scale=shapes),
        alt.StrokeDash("policy:N", legend=None, scale=dashes),
    )


def _legend(columns: int) -> alt.Legend:
    return alt.Legend(
        title=None, orient="bottom", columns=columns, columnPadding=36, labelColor=css("ink"), labelFontSize=12,
        labelLimit=0, labelExpr=SHORT_LABEL, symbolOpacity=1,
    )  # fmt: skip
