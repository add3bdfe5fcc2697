"""The plots of a judgement: believed against found, shares along tenths and ages, and bars, as Vega-Lite."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from freshkeeper.simulator.report import charts
from freshkeeper.simulator.report.styles import Style, css

OUTCOMES = {
    "found a change": "green",
    "found nothing new": "grey",
    "fetched what was missing": "sky",
    "failed": "vermilion",
}
"""What a refresh can come to, and its colour."""


def believed(styles: Mapping[str, Style]) -> dict[str, Any]:
    """Believed freshness across, found freshness up, and the line on which both are the same."""
    spec = charts.panel(styles, "found fresh", "believed fresh", numeric=True)
    x = {"field": "x", "type": "quantitative"}
    y = {"field": "y", "type": "quantitative"}
    spec["layer"].insert(0, {
        "data": {"name": "same"}, "mark": {"type": "line", "strokeDash": [2, 3], "color": css("muted")},
        "encoding": {"x": x, "y": y},
    })  # fmt: skip
    for across in (layer["encoding"]["x"] for layer in spec["layer"] if "x" in layer["encoding"]):
        across["axis"] = {"format": "%", "grid": False, "tickCount": 5}
    return spec


def along(styles: Mapping[str, Style], title: str, key: str, order: Sequence[str]) -> dict[str, Any]:
    """Shares along words that have an order."""
    return charts.panel(styles, title, key, numeric=False, order=order)


def bars(title: str, names: int) -> dict[str, Any]:
    """One bar per name, with its number beside it."""
    base = alt.Chart(alt.NamedData("rows")).encode(
        y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=210, labelColor=css("ink"), domain=False)),
    )
    x = alt.X("mid:Q", title=title, axis=alt.Axis(format="%", tickCount=4, domain=False, ticks=False))
    colour = alt.Color("paint:N", scale=None, legend=None)
    chart = alt.layer(
        base.mark_bar(height=12).encode(x=x, color=colour, tooltip=[alt.Tooltip("text:N", title="stale answers")]),
        base.mark_text(align="left", dx=5).encode(x=x, text="text:N"),
    )
    return charts.finished(chart.properties(height=22 * max(names, 1)))


def parts(policies: int) -> dict[str, Any]:
    """One bar per policy, cut into what its requests came to."""
    scale = alt.Scale(domain=list(OUTCOMES), range=[css(colour) for colour in OUTCOMES.values()])
    legend = alt.Legend(
        title=None, orient="bottom", columns=2, columnPadding=30, labelColor=css("ink"), symbolType="square"
    )
    names = alt.Axis(labelLimit=150, labelColor=css("ink"), domain=False)
    chart = alt.Chart(alt.NamedData("rows")).mark_bar(height=16).encode(
        y=alt.Y("policy:N", sort=None, title=None, axis=names),
        x=alt.X("mid:Q", stack="zero", title="of requests", axis=alt.Axis(format="%", tickCount=5, domain=False)),
        color=alt.Color("part:N", scale=scale, legend=legend),
        order=alt.Order("rank:Q"),
        tooltip=[alt.Tooltip("policy:N"), alt.Tooltip("part:N"), alt.Tooltip("text:N", title="requests")],
    )  # fmt: skip
    return charts.finished(alt.layer(chart).properties(height=30 * policies))
