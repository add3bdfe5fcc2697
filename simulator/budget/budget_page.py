"""The answer on one offline page, its picture as PNG, and the points of the picture as CSV."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from freshkeeper.maintenance.base.files import atomic_file, writing
from freshkeeper.maintenance.pages.amounts import duration, percent, percent_with_interval
from freshkeeper.maintenance.pages.charts import PERCENT, Axis, AxisKind, Chart, ChartForm, Interval
from freshkeeper.maintenance.pages.figures import ChartTable, Figure, Row
from freshkeeper.maintenance.pages.figures import figure as chart_of
from freshkeeper.maintenance.pages.page import Caption, Page, PageTable, Section, TableRow, write_page
from freshkeeper.maintenance.pages.pictures import as_png
from freshkeeper.maintenance.pages.styles import Style, looks
from freshkeeper.simulator.budget import words
from freshkeeper.simulator.budget.answer import BudgetAnswer
from freshkeeper.simulator.experiment.ttl_caches.caches import NAMES

LARGE, SMALL = 160, 45
"""Marks of the answers, and of the other budgets that were tried."""
MOST_STALENESS = 4
"""The picture shows points with up to so many times the staleness that the target allows."""
CAPTION = (
    "Per window, at arrival: how much of the answers was fresh. Over TTL: how many percentage points fresher per "
    "window than a TTL cache that makes as many requests, paired. What sets no budget is shown for comparison, not "
    "ranked."
)


def write(answer: BudgetAnswer, directory: Path, title: str, command: str) -> Path:
    """Write budget.html, frontier.png, frontier.csv and budget.json; return the page."""
    frontier = figure(answer)
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "frontier.png").write_bytes(as_png(frontier, "", frontier.views[""]))
    with atomic_file(directory / "budget.json") as file:
        file.write_text(json.dumps(words.as_json(answer), indent=2), "utf-8")
    _write_points(answer, directory / "frontier.csv")
    section = Section(
        "budget",
        "",
        [frontier, _table(answer), Caption(CAPTION)],
        lead=words.lead(answer),
        sentences=list(words.sentences(answer)),
    )
    page = Page(
        kind="What budget do I need?",
        title=title,
        sections=[section],
        facts=_facts(answer),
        command=command,
        notes=words.limits(answer),
    )
    return write_page(page, directory / "budget.html")


def figure(answer: BudgetAnswer) -> Figure:
    """Return freshness against requests for each policy and cache, with the target as a line."""
    question = answer.question
    per = f"requests per {question.per}"
    chart = Chart(
        form=ChartForm.LINES,
        x=Axis(per, ",~r", AxisKind.LOGARITHMS),
        y=Axis("of answers fresh", PERCENT),
        interval=Interval.BARS,
        legend=True,
        highest=1.0,
    )
    table = ChartTable(list(_rows(answer)), words.lead(answer), {"target": question.target})
    caption = (
        f"The dotted line is the target; large marks are the rows of the table. {per.capitalize()} are on a "
        f"logarithmic scale. Vertical bars are 95 % intervals. Points with more than {MOST_STALENESS} times the "
        "staleness of the target are left out; frontier.csv has them."
    )
    return chart_of(
        "frontier", f"Freshness against {per}", chart, {"": table}, _styles(answer), caption=caption, wide=True
    )


def _rows(answer: BudgetAnswer) -> Iterator[Row]:
    question = answer.question
    lowest = 1 - MOST_STALENESS * (1 - question.target)
    for curve, points in answer.curves.items():
        answered = answer.of(curve).nearest
        for point in points:
            fresh = point.freshness
            if point.requests <= 0 or fresh.mean < lowest:
                continue
            yield {
                "policy": curve,
                "x": words.period_requests(question, point),
                "mid": fresh.mean,
                "low": fresh.low,
                "high": min(fresh.high, 1.0),
                "size": LARGE if point == answered else SMALL,
                "text": f"{words.requests(question, point)} requests: {percent_with_interval(fresh)}",
            }


def _styles(answer: BudgetAnswer) -> dict[str, Style]:
    names = {policy.title: policy.name for policy in answer.question.policies} | {name: name for name in NAMES}
    return looks({curve: names[curve] for curve in answer.curves})


def _table(answer: BudgetAnswer) -> PageTable:
    per, styles = answer.question.per, _styles(answer)
    heads = list(words.HEADS)
    rows = [words.row(answer, needed) for needed in answer.needed]
    if answer.question.price <= 0:
        cost = heads.index("Cost")
        for cells in [heads, *rows]:
            del cells[cost]
    titles = [f"{head} per {per}" if head in ("Requests", "Cost") else head for head in heads]
    table_rows = [
        TableRow(needed.curve, cells[1:], words.marks(needed), styles[needed.curve], best=needed is answer.best)
        for needed, cells in zip(answer.needed, rows, strict=True)
    ]
    return PageTable("What each needs", titles, table_rows)


def _facts(answer: BudgetAnswer) -> list[str]:
    experiment = answer.question.experiment
    return [
        f"target {percent(answer.question.target, 0)}",
        f"{answer.arrivals:,} arrivals of {answer.keys:,} keys",
        f"window {duration(experiment.window)}, step {duration(experiment.step)}",
        f"{answer.evaluations:,} evaluations",
        f"{experiment.knowledge.value} knowledge of changes",
    ]


def _write_points(answer: BudgetAnswer, path: Path) -> None:
    with atomic_file(path) as unfinished, unfinished.open("w", newline="") as file:
        writer = csv.writer(file)
        per = answer.question.per
        writer.writerow(["policy", "knob", f"requests_per_{per}", "freshness", "ci95", "at_arrival", "at_arrival_ci95"])
        for curve, points in answer.curves.items():
            for point in points:
                numbers = (point.freshness.mean, point.freshness.half, point.arrival.mean, point.arrival.half)
                writer.writerow([curve, point.knob, words.period_requests(answer.question, point), *numbers])
