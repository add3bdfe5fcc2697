"""The report of an experiment about following: tables (CSV), pictures (PNG) and one offline page."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from freshkeeper.maintenance.base.files import writing
from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.maintenance.pages.amounts import amount
from freshkeeper.maintenance.pages.charts import Axis, Chart, ChartForm
from freshkeeper.maintenance.pages.figures import ChartTable, Figure, figure
from freshkeeper.maintenance.pages.page import Page, PageTable, Part, Section, TableRow, write_page
from freshkeeper.maintenance.pages.pictures import write_pictures
from freshkeeper.maintenance.pages.styles import looks
from freshkeeper.simulator.following.annotation_ways import EvaluationCost, Way, measured, ways
from freshkeeper.simulator.following.following_config import FollowingExperiment
from freshkeeper.simulator.following.many_clients import Load, Sample, loads

MEASURED = ("requests", "kilobytes", "client_ms", "server_ms")
HISTORY_IN_WORDS = {
    "dropped": "what is over is dropped",
    "whole": "a history, read whole",
    "now": "a history, asked for what holds now",
}
FEW_CLIENTS = 10
"""Up to so many clients, their time is drawn over the seconds."""
LATER_EVALUATIONS = 10
"""Evaluations at the end that the table has the mean of."""
MARKS = 8
PAPER = {
    "server": "004: never more than one percent with 200 clients, C-SPARQL and CQELS more than ten times as much on "
    "average (two Intel E5645, other hardware).",
    "client": "004: a peak of about 80 % of a core, after four seconds about 5 % (other hardware).",
    "ways": "004: graphs take least; expirations take the same at every evaluation, intervals more and more, because a "
    "history is kept (other hardware, and times of the wall clock).",
}
"""What the paper says of the same."""

Rows = list[dict[str, Any]]


def write_report(
    out: Path,
    title: str,
    command: str,
    ways: Sequence[EvaluationCost],
    loads: Sequence[Load],
    samples: Sequence[Sample],
) -> Path:
    """Write tables, pictures and the page; return the page."""
    tables = {"annotations": rows_of(ways), "clients": rows_of(loads), "clients-over-time": rows_of(samples)}
    figures = [figure for figure in (*_of_ways(ways), *_of_clients(loads, samples)) if figure.views]
    with writing(out):
        (out / "plots").mkdir(parents=True, exist_ok=True)
        for name, rows in tables.items():
            if rows:
                _write_csv(out / f"{name}.csv", rows)
    write_pictures({"": figures}, out / "plots", None)
    parts: list[Part] = [*figures, *([_table(later(ways))] if ways else [])]
    section = Section("following", "", parts)
    page = Page(kind="Following queries", title=title, sections=[section], command=command)
    return write_page(page, out / "report.html")


def rows_of(measured: Iterable[EvaluationCost | Load | Sample]) -> Rows:
    """Return rows of numbers and words for a table, the way spelled out in columns."""
    rows = []
    for one in measured:
        row = dict(vars(one))
        way = row.pop("way", None)
        if isinstance(way, Way):
            style = {"speaking": str(way.style.speaking), "timing": str(way.style.timing)}
            row = style | {"history": way.history, "cached": way.cached} | row
        rows.append(row)
    return rows


def later(ways: Sequence[EvaluationCost]) -> Rows:
    """Return what an evaluation of each way takes, the mean of the last ones."""
    rows = []
    for way in dict.fromkeys(cost.way for cost in ways):
        last = [cost for cost in ways if cost.way == way][-LATER_EVALUATIONS:]
        means = {name: round(fmean(getattr(cost, name) for cost in last), 1) for name in MEASURED}
        row = {**rows_of(last[:1])[0], **means}
        rows.append({name: value for name, value in row.items() if name not in ("evaluation", "rows")})
    return rows


def _of_ways(ways: Sequence[EvaluationCost]) -> Iterator[Figure]:
    """Yield what ways take along the evaluations (the paper's Figure 3), and the last ones with and without a cache."""
    for timing, history in dict.fromkeys((cost.way.style.timing, cost.way.history) for cost in ways):
        rows = [
            {"policy": str(cost.way.style.speaking), "x": cost.evaluation, "mid": cost.client_ms}
            for cost in ways
            if cost.way == Way(cost.way.style, history, cached=True) and cost.way.style.timing is timing
        ]
        title = f"Client time of an evaluation: {timing}, {HISTORY_IN_WORDS[history]}"
        axes = Axis("evaluation"), Axis("ms of processor time")
        yield _lines(f"ways-{timing}-{history}", title, PAPER["ways"], axes, rows)
    in_words = {True: "with a cache", False: "without"}
    bars = [
        {
            "policy": f"{row['speaking']}, {in_words[row['cached']]}",
            "mid": row["client_ms"],
            "text": amount(row["client_ms"]),
            "paint": "var(--blue)",
        }
        for row in later(ways)
        if row["timing"] == "expiration"
    ]
    title, caption = "Caching on and off: client time of an evaluation, expirations", "The mean of the last ones."
    chart = Chart(form=ChartForm.BARS, x=Axis("ms of processor time"))
    yield figure("caching", title, chart, {"": ChartTable(bars, title)}, {}, caption=caption)


def _of_clients(loads: Sequence[Load], samples: Sequence[Sample]) -> Iterator[Figure]:
    """Yield the paper's Figure 2, and what goes over the wire."""
    if not loads:
        return
    in_words = {True: "with a cache", False: "without a cache"}
    core = Axis("percent of a core")

    def by_clients(key: str, title: str, caption: str, column: str, y: Axis) -> Figure:
        rows = [{"policy": in_words[one.cached], "x": one.clients, "mid": getattr(one, column)} for one in loads]
        return _lines(key, title, caption, (Axis("clients"), y), rows)

    few = max([one.clients for one in loads if one.clients <= FEW_CLIENTS] or [min(one.clients for one in loads)])
    rows = [
        {"policy": in_words[sample.cached], "x": sample.second, "mid": sample.percent}
        for sample in samples
        if sample.clients == few
    ]
    yield by_clients("server-cpu", "Server: how much of a core", PAPER["server"], "server_percent", core)
    title = f"Client: how much of a core, each of {few}"
    yield _lines("client-over-time", title, PAPER["client"], (Axis("seconds"), core), rows)
    title = "Client: how much of a core, all the time"
    yield by_clients("client-cpu", title, PAPER["client"], "client_percent", core)
    wire = "As it goes over the wire, compressed."
    yield by_clients("bandwidth", "Bandwidth of a client", wire, "kilobytes_each", Axis("kB per second"))


def _lines(key: str, title: str, caption: str, axes: tuple[Axis, Axis], rows: Rows) -> Figure:
    chart = Chart(form=ChartForm.LINES, x=axes[0], y=axes[1], marks=MARKS, from_zero=True)
    last = {row["policy"]: row["mid"] for row in rows}
    words = f"{title}. At the end: {'; '.join(f'{name} {amount(value)}' for name, value in last.items())}."
    styles = looks({name: name for name in last})
    return figure(key, title, chart, {"": ChartTable(rows, words)}, styles, caption=caption)


def _write_csv(file: Path, rows: Rows) -> None:
    with file.open("w", encoding="utf-8", newline="") as unfinished:
        writer = csv.DictWriter(unfinished, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _table(rows: Rows) -> PageTable:
    heads = [name.replace("_", " ") for name in rows[0]]
    cells = [[str(value) for value in row.values()] for row in rows]
    title = "An evaluation of each way, the mean of the last ones"
    return PageTable(title, heads, [TableRow(one[0], one[1:]) for one in cells])


def measure(experiment: FollowingExperiment, out: Path, command: str, tell: Callable[[str], None]) -> Path:
    """Measure all of it into a run directory; gives the page."""
    found, asked, samples = list[EvaluationCost](), list[Load](), list[Sample]()
    every = list(ways(experiment))
    for number, way in enumerate(every, 1):
        tell(f"ways to annotate: {number} of {len(every)}")
        found += measured(experiment, way)
    for cached in experiment.cache:
        for clients in experiment.clients:
            tell(f"clients: {clients}, {'with' if cached else 'without'} a cache")
            load, over_time = loads(experiment, clients, cached)
            asked.append(load)
            samples += over_time
    out.mkdir(parents=True, exist_ok=True)
    About(command=command, config=experiment.model_dump(mode="json")).write(out)
    return write_report(
        out=out, title=experiment.title or "Following", command=command, ways=found, loads=asked, samples=samples
    )
