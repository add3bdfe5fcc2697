"""The three kinds of plot, as Vega-Lite: dots per policy, lines over time, and panels along a swept key.

A plot says how its data looks, not what it is: rows come later, by name, so that one plot serves every setting.
"""

from collections.abc import Mapping, Sequence
from math import ceil, floor, inf
from typing import Any

import altair as alt
import numpy as np
from scipy.optimize import isotonic_regression

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.simulator.report.styles import Style, css

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""The version that altair writes, for the libraries that draw it."""

HEIGHT = 250
LABEL_PX = 14
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
PERCENT = "%"
_WORDS = alt.Scale(type="point", padding=0, rangeMin=14, rangeMax={"expr": "width - 14"})
"""Room in pixels and not in parts of the width: a plot is made narrower once, by as much as its names stick out."""


def dots(styles: Mapping[str, Style], title: str, form: str = "", log: bool = False) -> dict[str, Any]:
    """One row per policy: a point at `mid`, a bar from `low` to `high`, and the numbers in a column beside it."""
    scale = alt.Scale(type="log", padding=10) if log else alt.Scale(zero=False, nice=False, padding=10)
    across: dict[str, Any] = {"scale": scale, "title": title}
    across["axis"] = alt.Axis(format=form or "~r", tickCount=4, domain=False, ticks=False, grid=not log)
    names = alt.Axis(labelLimit=150, labelColor=css("ink"), domain=False)
    base = alt.Chart(alt.NamedData("rows")).encode(y=alt.Y("policy:N", sort=None, title=None, axis=names))
    painted = base.encode(color=_colour(styles))
    chart = alt.layer(
        painted.mark_rule(strokeWidth=3, opacity=0.55).encode(x=alt.X("low:Q", **across), x2="high:Q"),
        painted.mark_point(size=80, strokeWidth=2.5, opacity=1, fill=css("paper")).encode(
            x=alt.X("mid:Q", **across),
            shape=_shape(styles),
            tooltip=[alt.Tooltip("policy:N"), alt.Tooltip("text:N", title=title)],
        ),
        base.mark_text(align="left", dx=10).encode(x=alt.value("width"), text="text:N"),
    )
    return finished(chart.properties(height=24 * len(styles)))


def lines(
    styles: Mapping[str, Style],
    title: str,
    form: str = "",
    dates: bool = False,
    bands: bool = True,
    warmup: bool = True,
    rules: bool = False,
) -> dict[str, Any]:
    """Lines over the evaluations with bands, the warm-up shaded, rules such as γ, and names at the ends."""
    scale = alt.Scale(type="utc") if dates else alt.Scale(zero=False, nice=False)
    x: dict[str, Any] = {"type": "temporal" if dates else "quantitative", "scale": scale}
    x |= {"title": "time (UTC)" if dates else "evaluation", "axis": alt.Axis(grid=False, tickCount=5)}
    y = _value(title, form)
    rows = alt.Chart(alt.NamedData("rows")).encode(x=alt.X("x", **x), color=_colour(styles))
    marks = alt.Chart(alt.NamedData("marks")).encode(x=alt.X("x", **x), y=alt.Y("y:Q", **y), color=_colour(styles))
    chart = alt.layer(
        *(_warmup(x) if warmup else []),
        *([rows.mark_area(opacity=0.14).encode(y=alt.Y("low:Q", **y), y2="high:Q")] if bands else []),
        rows.mark_line(strokeWidth=2, strokeCap="round").encode(y=alt.Y("mid:Q", **y), strokeDash=_dash(styles)),
        marks.mark_point(size=35, strokeWidth=1.5, opacity=1, fill=css("paper")).encode(shape=_shape(styles)),
        *([_unnamed("rules", y).mark_rule(strokeDash=[2, 3], color=css("ink"))] if rules else []),
        *_names(styles, x, y),
        _framed(y),
    )
    return finished(chart.properties(height=HEIGHT))


def panel(
    styles: Mapping[str, Style], title: str, key: str, numeric: bool, order: Sequence[str] | None = None
) -> dict[str, Any]:
    """Freshness along the values of a key: points with intervals, joined by lines, names at the ends."""
    x: dict[str, Any] = {"type": "quantitative" if numeric else "ordinal", "title": key}
    x["scale"] = alt.Scale(zero=False, nice=False, padding=12) if numeric else _WORDS
    x["axis"] = alt.Axis(grid=False, labelAngle=0, tickCount=6)
    x |= {} if numeric else {"sort": order}
    y = _value(title, PERCENT)
    rows = alt.Chart(alt.NamedData("rows")).encode(x=alt.X("x", **x), color=_colour(styles))
    tooltip = [alt.Tooltip("policy:N"), alt.Tooltip("x", type=x["type"], title=key), alt.Tooltip("text:N", title=title)]
    chart = alt.layer(
        rows.mark_line(strokeWidth=1.5).encode(y=alt.Y("mid:Q", **y), strokeDash=_dash(styles)),
        rows.mark_rule(strokeWidth=2.5, opacity=0.55).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        rows.transform_filter("!datum.bound")
        .mark_point(size=55, strokeWidth=2, opacity=1, fill=css("paper"))
        .encode(y=alt.Y("mid:Q", **y), shape=_shape(styles), tooltip=tooltip),
        *_names(styles, x, y),
        _framed(y),
    )
    return finished(chart.properties(height=HEIGHT))


def frontier(styles: Mapping[str, Style], across: str, title: str) -> dict[str, Any]:
    """Freshness against what it takes, a curve for each policy, the target a dotted line, the answers large."""
    x: dict[str, Any] = {"title": across, "scale": alt.Scale(type="log", nice=False, padding=12)}
    x["axis"] = alt.Axis(grid=False, format=",~r", tickCount=6)
    y = _value(title, PERCENT)
    legend = alt.Legend(
        title=None,
        orient="bottom",
        columns=3,
        columnPadding=20,
        labelColor=css("ink"),
        labelFontSize=12,
        symbolOpacity=1,
    )
    colour = alt.Color("policy:N", scale=_scale(styles, [style.paint for style in styles.values()]), legend=legend)
    shape = alt.Shape("policy:N", scale=_scale(styles, [style.shape for style in styles.values()]), legend=legend)
    rows = alt.Chart(alt.NamedData("rows")).encode(x=alt.X("x:Q", **x), color=colour)
    tooltip = [alt.Tooltip("policy:N"), alt.Tooltip("text:N", title="with")]
    chart = alt.layer(
        _unnamed("rules", y).mark_rule(strokeDash=[2, 3], color=css("ink")),
        rows.mark_line(strokeWidth=2).encode(y=alt.Y("mid:Q", **y), strokeDash=_dash(styles)),
        rows.mark_rule(strokeWidth=2, opacity=0.4).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        rows.mark_point(strokeWidth=2, opacity=1, fill=css("paper")).encode(
            y=alt.Y("mid:Q", **y), shape=shape, size=alt.Size("size:Q", scale=None, legend=None), tooltip=tooltip
        ),
        _framed(y),
    )
    return finished(chart.properties(height=HEIGHT + 70))


def datasets(spec: Mapping[str, Any]) -> list[str]:
    """The names of the rows that a plot draws."""
    return sorted({part["data"]["name"] for part in (spec, *spec["layer"]) if "data" in part})


def frame(values: Sequence[float], zero: bool = False, cap: float = inf) -> tuple[float, float]:
    """The ends of a vertical axis: round numbers outside all values with some room above, none beyond the cap."""
    low, high = (min(0.0, *values), max(0.0, *values)) if zero else (min(values), max(values))
    span = high - low or abs(high) or 1.0
    step = min((10.0**power * part for power in range(-6, 12) for part in (1, 2, 5)), key=lambda s: abs(span / s - 5))
    return floor(low / step) * step, min(ceil((high + span / 20) / step) * step, cap)


def apart(values: Sequence[float], low: float, high: float, height: int = HEIGHT) -> Floats:
    """Where names go that would lie on each other: as near as can be to their values, a line's height apart, inside.

    The nearest increasing sequence after taking the wanted distances off is the nearest one with these distances.
    """
    at = np.asarray(values, np.float64)
    order = np.argsort(at, kind="stable")
    gap = min((high - low) * LABEL_PX / height, (high - low) / max(at.size - 1, 1))
    steps = gap * np.arange(at.size)
    found = np.empty(at.size)
    found[order] = np.clip(isotonic_regression(at[order] - steps).x, low, high - steps[-1]) + steps
    return found


def _value(title: str, form: str) -> dict[str, Any]:
    """The vertical axis as it is framed, its title lying above it, where it reads without a turned head."""
    axis = alt.Axis(format=form, titleAngle=0, titleAlign="left", titleY=-10, titleX=0, titleAnchor="start")
    return {"scale": alt.Scale(zero=False, nice=False), "title": title, "axis": axis}


def _framed(y: Mapping[str, Any]) -> alt.Chart:
    """What cannot be seen but holds the ends of the axis."""
    framed: alt.Chart = _unnamed("frame", y).mark_point(opacity=0)
    return framed


def _unnamed(rows: str, y: Mapping[str, Any]) -> alt.Chart:
    """Rows that have no policy, such as the budget γ, whose words are among the names."""
    chart: alt.Chart = alt.Chart(alt.NamedData(rows)).encode(y=alt.Y("y:Q", **y))
    return chart


def _warmup(x: Mapping[str, Any]) -> list[alt.Chart]:
    base = alt.Chart(alt.NamedData("shade")).encode(x=alt.X("from", **x))
    return [
        base.mark_rect(color=css("shade")).encode(x2="to"),
        base.mark_text(align="left", dx=3, y=8, color=css("muted"), text="warm-up"),
    ]


def _names(styles: Mapping[str, Style], x: Mapping[str, Any], y: Mapping[str, Any]) -> list[alt.Chart]:
    """Each policy's mark and name to the right of where its line ends; a rule's words have no mark."""
    base = alt.Chart(alt.NamedData("names")).encode(x=alt.X("x", **x), y=alt.Y("y:Q", **y))
    mark = base.transform_filter("datum.policy").mark_point(
        size=40, strokeWidth=2, opacity=1, xOffset=12, fill=css("paper")
    )
    return [
        mark.encode(color=_colour(styles), shape=_shape(styles)),
        base.mark_text(align="left", dx=20).encode(text="text:N"),
    ]


def _colour(styles: Mapping[str, Style]) -> alt.Color:
    return alt.Color("policy:N", legend=None, scale=_scale(styles, [style.paint for style in styles.values()]))


def _shape(styles: Mapping[str, Style]) -> alt.Shape:
    return alt.Shape("policy:N", legend=None, scale=_scale(styles, [style.shape for style in styles.values()]))


def _dash(styles: Mapping[str, Style]) -> alt.StrokeDash:
    return alt.StrokeDash("policy:N", legend=None, scale=_scale(styles, [list(s.dash) for s in styles.values()]))


def _scale(styles: Mapping[str, Style], looks: Sequence[Any]) -> alt.Scale:
    return alt.Scale(domain=list(styles), range=list(looks))


def finished(chart: alt.LayerChart | alt.FacetChart) -> dict[str, Any]:
    """As Vega-Lite, as wide as there is room."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding", resize=True)
    spec: dict[str, Any] = chart.properties(width="container", autosize=fit).to_dict()
    spec["config"] = CONFIG
    return spec
