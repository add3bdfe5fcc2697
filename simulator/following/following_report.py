"""The report of an experiment about following: tables (CSV), pictures (PNG) and one offline page."""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import altair as alt
import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from freshkeeper.maintenance.base.files import writing
from freshkeeper.simulator.following.annotation_ways import EvaluationCost, Way
from freshkeeper.simulator.following.many_clients import Load, Sample
from freshkeeper.simulator.report import charts, page
from freshkeeper.simulator.report.styles import LIGHT

COSTS = ("requests", "kilobytes", "client_ms", "server_ms")
HISTORY_TITLES = {
    "dropped": "what is over is dropped",
    "whole": "a history, read whole",
    "now": "a history, asked for what holds now",
}
MAX_PLOTTED_CLIENTS = 10
"""The most clients whose time is plotted over the seconds."""
LAST_EVALUATIONS = 10
"""Evaluations at the end over which means are taken."""
PAPER = {
    "server": "004: never more than one percent with 200 clients, C-SPARQL and CQELS more than ten times as much on "
    "average (two Intel E5645, other hardware).",
    "client": "004: a peak of about 80 % of a core, after four seconds about 5 % (other hardware).",
    "ways": "004: graphs take least; expirations take the same at every evaluation, intervals more and more, because a "
    "history is kept (other hardware, and times of the wall clock).",
}
"""The corresponding results of the paper."""
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Plot:
    """A picture: its file, its caption, the paper's figure, and its specification."""

    key: str
    title: str
    caption: str
    spec: dict[str, Any]
    rows: Rows


def write_report(
    out: Path,
    title: str,
    command: str,
    ways: Sequence[EvaluationCost],
    loads: Sequence[Load],
    samples: Sequence[Sample],
) -> Path:
    """Write tables, pictures and page; return the page."""
    tables = {"annotations": rows_of(ways), "clients": rows_of(loads), "clients-over-time": rows_of(samples)}
    plots = [*_of_ways(ways), *_of_clients(loads, samples)]
    with writing(out):
        (out / "plots").mkdir(parents=True, exist_ok=True)
        for name, rows in tables.items():
            if rows:
                _write_csv(out / f"{name}.csv", rows)
        for plot in plots:
            png = vl_convert.vegalite_to_png(_specification(plot), vl_version=charts.VEGA_LITE, scale=2)
            (out / "plots" / f"{plot.key}.png").write_bytes(png)
        return _write_page(out / "report.html", title, command, plots, later(ways))


def rows_of(measured: Iterable[EvaluationCost | Load | Sample]) -> Rows:
    """Rows of numbers and words for a table, the way spelled out in columns."""
    found = []
    for one in measured:
        row = dict(vars(one))
        if isinstance(way := row.pop("way", None), Way):
            said = {"speaking": str(way.style.speaking), "timing": str(way.style.timing)}
            row = said | {"history": way.history, "cached": way.cached} | row
        found.append(row)
    return found


def later(ways: Sequence[EvaluationCost]) -> Rows:
    """Return the mean cost of the last evaluations, by way."""
    found = []
    for way in dict.fromkeys(one.way for one in ways):
        last = [one for one in ways if one.way == way][-LAST_EVALUATIONS:]
        means = {name: round(fmean(getattr(one, name) for one in last), 1) for name in COSTS}
        found.append({**rows_of(last[:1])[0], **means})
        for name in ("evaluation", "rows"):
            found[-1].pop(name)
    return found


def _of_ways(ways: Sequence[EvaluationCost]) -> list[Plot]:
    """Along the evaluations, as the paper's Figure 3; and the last ones with and without a cache."""
    plots = []
    for timing, history in dict.fromkeys((one.way.style.timing, one.way.history) for one in ways):
        rows = [
            {"x": one.evaluation, "y": one.client_ms, "name": str(one.way.style.speaking)}
            for one in ways
            if one.way == Way(one.way.style, history, cached=True) and one.way.style.timing is timing
        ]
        title = f"Client time of an evaluation: {timing}, {HISTORY_TITLES[history]}"
        drawn = _lines("evaluation", "ms of processor time")
        plots.append(Plot(f"ways-{timing}-{history}", title, PAPER["ways"], drawn, rows))
    cached = {True: "with a cache", False: "without"}
    rows = [
        {"name": f"{row['speaking']}, {cached[row['cached']]}", "y": row["client_ms"]}
        for row in later(ways)
        if row["timing"] == "expiration"
    ]
    title, caption = "Caching on and off: client time of an evaluation, expirations", "The mean of the last ones."
    plots.append(Plot("caching", title, caption, _bars(), rows))
    return [plot for plot in plots if plot.rows]


def _of_clients(loads: Sequence[Load], samples: Sequence[Sample]) -> list[Plot]:
    """Return the plots of the paper's Figure 2, and of bytes on the wire."""
    if not loads:
        return []
    named = {True: "with a cache", False: "without a cache"}

    def along(key: str, title: str, caption: str, name: str, unit: str) -> Plot:
        rows = [{"x": one.clients, "y": getattr(one, name), "name": named[one.cached]} for one in loads]
        return Plot(key, title, caption, _lines("clients", unit), rows)

    few = [one.clients for one in loads if one.clients <= MAX_PLOTTED_CLIENTS] or [min(one.clients for one in loads)]
    over_time = [{"x": s.second, "y": s.percent, "name": named[s.cached]} for s in samples if s.clients == max(few)]
    title, core = f"Client: how much of a core, each of {max(few)}", "percent of a core"
    wire = "As it goes over the wire, compressed."
    return [
        along("server-cpu", "Server: how much of a core", PAPER["server"], "server_percent", core),
        Plot("client-over-time", title, PAPER["client"], _lines("seconds", core), over_time),
        along("client-cpu", "Client: how much of a core, all the time", PAPER["client"], "client_percent", core),
        along("bandwidth", "Bandwidth of a client", wire, "kilobytes_each", "kB per second"),
    ]


def _lines(across: str, up: str) -> dict[str, Any]:
    legend = alt.Legend(title=None, orient="bottom", columns=5)
    base = alt.Chart(alt.NamedData("rows")).encode(
        x=alt.X("x:Q", title=across, axis=alt.Axis(grid=False)),
        y=alt.Y("y:Q", title=up, scale=alt.Scale(zero=True)),
        color=alt.Color("name:N", legend=legend, sort=None),
        strokeDash=alt.StrokeDash("name:N", legend=legend, sort=None),
    )
    return charts.finished(alt.layer(base.mark_line(strokeWidth=2, point=True)).properties(height=charts.HEIGHT))


def _bars() -> dict[str, Any]:
    base = alt.Chart(alt.NamedData("rows")).encode(
        y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=250)),
        x=alt.X("y:Q", title="ms of processor time"),
    )
    return charts.finished(alt.layer(base.mark_bar(height=12)).properties(height=alt.Step(20)))


def _specification(plot: Plot) -> str:
    spec = {
        **plot.spec,
        "width": page.WIDTH,
        "title": {"text": plot.title, "offset": 14},
        "datasets": {"rows": plot.rows},
        "config": {**charts.CONFIG, "background": LIGHT["paper"], "font": "sans-serif", "padding": 12},
    }
    return re.sub(r"var\(--([a-z]+)\)", lambda name: LIGHT[name[1]], json.dumps(spec))


def _write_csv(file: Path, rows: Rows) -> None:
    with file.open("w", encoding="utf-8", newline="") as written:
        writer = csv.DictWriter(written, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _write_page(file: Path, title: str, command: str, plots: Sequence[Plot], table: Rows) -> Path:
    """Write the page: pictures, and the cost of later evaluations."""
    environment = Environment(loader=FileSystemLoader(page.HERE), autoescape=True, undefined=StrictUndefined)
    parts = [Markup("<h1>{}</h1>").format(title)]
    for plot in plots:
        picture = Markup(vl_convert.vegalite_to_svg(_specification(plot), vl_version=charts.VEGA_LITE))
        parts.append(Markup('<figure>{}<p class="caption">{}</p></figure>').format(picture, plot.caption))
    if table:
        parts += [Markup("<h2>An evaluation of each way, the mean of the last ones</h2>"), _table(table)]
    css = page.inlined()["css"]
    template = environment.get_template("notebook.html")
    file.write_text(template.render(title=title, command=command, parts=parts, css=css).strip(), "utf-8")
    return file


def _table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    heads = [Markup('<th scope="col">{}</th>').format(name.replace("_", " ")) for name in rows[0]]
    lines = [Markup("<td>{}</td>" * len(row)).format(*row.values()) for row in rows]
    body = Markup("").join(Markup("<tr>{}</tr>").format(line) for line in lines)
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(Markup("").join(heads), body)
