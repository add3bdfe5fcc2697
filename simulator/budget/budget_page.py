"""The answer on one offline page, its picture as PNG, and the points of the picture as CSV."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from freshkeeper.maintenance.base.files import whole, writing
from freshkeeper.simulator.budget import words
from freshkeeper.simulator.budget.answer import BudgetAnswer, Requirement
from freshkeeper.simulator.experiment.point import Point
from freshkeeper.simulator.experiment.ttl_caches.caches import NAMES
from freshkeeper.simulator.report import charts
from freshkeeper.simulator.report.amounts import duration, percent, percent_with_interval
from freshkeeper.simulator.report.drawing import Figure, Rows, View, short
from freshkeeper.simulator.report.page import HERE as REPORT
from freshkeeper.simulator.report.page import as_plots, as_png, inlined
from freshkeeper.simulator.report.styles import Style, looks

HERE = Path(__file__).parent
LARGE, SMALL = 160, 45
ROOM = 4
"""Drawn is what has at most so many times the staleness that the target allows: below, nobody decides anything."""


@dataclass(frozen=True)
class Row:
    """One policy or cache of the table."""

    policy: str
    style: Style
    marks: list[str]
    cells: list[str]
    best: bool


def write(answer: BudgetAnswer, directory: Path, title: str, command: str) -> Path:
    """Write budget.html, frontier.png, frontier.csv and budget.json; gives the page."""
    picture = figure(answer)
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "frontier.png").write_bytes(as_png(picture, "", picture.views[""]))
    with whole(directory / "budget.json") as file:
        file.write_text(json.dumps(words.as_json(answer), indent=2), "utf-8")
    _write_points(answer, directory / "frontier.csv")
    page = directory / "budget.html"
    with whole(page) as file:
        file.write_text(_html(answer, picture, title, command), "utf-8")
    return page


def figure(answer: BudgetAnswer) -> Figure:
    """Freshness against requests for each policy and cache, with the target as a line."""
    question = answer.question
    per = f"requests per {question.per}"
    styles = _styles(answer)
    floor = 1 - ROOM * (1 - question.target)
    near = {curve: [one for one in points if one.requests > 0 and one.freshness.mean >= floor]
            for curve, points in answer.curves.items()}  # fmt: skip
    points = [point for curve in near.values() for point in curve]
    axis = charts.frame([*(point.freshness.mean for point in points), question.target], cap=1.0)
    rows: Rows = {
        "rows": [_block(answer, curve, points) for curve, points in near.items() if points],
        "rules": [{"is": {}, "columns": {"y": [question.target]}}],
        "frame": [{"is": {}, "columns": {"y": short(axis)}}],
    }
    view = View(rows, " ".join([words.lead(answer), *words.sentences(answer)]))
    caption = (
        f"The dotted line is the target; large marks are what the table tells. {per.capitalize()} are on a logarithmic "
        "scale. Vertical bars are 95 % intervals. What has more than "
        f"{ROOM} times the staleness of the target is left out; frontier.csv has it."
    )
    spec = charts.frontier(styles, per, "of answers fresh")
    return Figure("frontier", f"Freshness against {per}", spec, {"": view}, caption, wide=True)


def _styles(answer: BudgetAnswer) -> dict[str, Style]:
    names = {one.title: one.name for one in answer.question.policies} | {name: name for name in NAMES}
    return looks({curve: names[curve] for curve in answer.curves})


def _block(answer: BudgetAnswer, curve: str, points: Sequence[Point]) -> dict[str, Any]:
    told = answer.of(curve).nearest
    columns: dict[str, list[Any]] = {
        "x": short(words.period_requests(answer.question, point) for point in points),
        "mid": short(point.freshness.mean for point in points),
        "low": short(point.freshness.low for point in points),
        "high": short(min(point.freshness.high, 1.0) for point in points),
        "size": [LARGE if point == told else SMALL for point in points],
        "text": [
            f"{words.requests(answer.question, point)} requests: {percent_with_interval(point.freshness)}"
            for point in points
        ],
    }
    return {"is": {"policy": curve}, "columns": columns}


def _html(answer: BudgetAnswer, picture: Figure, title: str, command: str) -> str:
    environment = Environment(loader=FileSystemLoader([HERE, REPORT]), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    costly, styles = answer.question.price > 0, _styles(answer)
    heads = list(words.HEADS) if costly else [head for head in words.HEADS if head != "Cost"]
    return (
        environment.get_template("budget.html")
        .render(
            title=title,
            facts=_facts(answer),
            lead=words.lead(answer),
            sentences=list(words.sentences(answer)),
            figure=picture,
            heads=[f"{head} per {answer.question.per}" if head in ("Requests", "Cost") else head for head in heads],
            rows=[_row(answer, one, styles[one.curve], costly) for one in answer.needed],
            notes=words.limits(answer),
            command=command,
            plots=Markup(as_plots({picture.key: picture})),
            **inlined(),
        )
        .strip()
    )


def _row(answer: BudgetAnswer, one: Requirement, style: Style, costly: bool) -> Row:
    cells = words.row(answer, one)[1:]
    if not costly:
        del cells[words.HEADS.index("Cost") - 1]
    return Row(one.curve, style, words.marks(one), cells, one is answer.best)


def _facts(answer: BudgetAnswer) -> str:
    chosen = answer.question.experiment
    parts = [
        f"target {percent(answer.question.target, 0)}",
        f"{answer.arrivals:,} arrivals of {answer.keys:,} keys",
        f"window {duration(chosen.window)}, step {duration(chosen.step)}",
        f"{answer.evaluations:,} evaluations",
        f"{chosen.knowledge[0].value} knowledge of changes",
    ]
    return " · ".join(parts)


def _write_points(answer: BudgetAnswer, path: Path) -> None:
    with whole(path) as unfinished, unfinished.open("w", newline="") as file:
        writer = csv.writer(file)
        per = answer.question.per
        writer.writerow(["policy", "knob", f"requests_per_{per}", "freshness", "ci95", "at_arrival", "at_arrival_ci95"])
        for curve, points in answer.curves.items():
            for point in points:
                numbers = (point.freshness.mean, point.freshness.half, point.arrival.mean, point.arrival.half)
                writer.writerow([curve, point.knob, words.period_requests(answer.question, point), *numbers])
