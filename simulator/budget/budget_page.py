"""The answer on one offline page, its picture as PNG, and the points of the picture as CSV."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from freshkeeper.maintenance.base.files import atomic_file, writing
from freshkeeper.maintenance.pages.charts import PERCENT, Axis, AxisKind, Chart, ChartForm, Interval
from freshkeeper.maintenance.pages.figures import ChartTable, Figure, Row
from freshkeeper.maintenance.pages.figures import figure as chart_of
from freshkeeper.maintenance.pages.page import Caption, Page, PageTable, Section, TableRow, write_page
from freshkeeper.maintenance.pages.pictures import as_png
from freshkeeper.maintenance.pages.styles import Style, looks
from freshkeeper.simulator.budget.sheet import Sheet, as_percent, three_digits

LARGE, SMALL = 160, 45
"""Marks of the answers, and of the other budgets that were tried."""
MOST_STALENESS = 4
"""The picture shows points with up to so many times the staleness that the target allows."""


def write(sheet: Sheet, directory: Path, title: str, command: str) -> Path:
    """Write budget.html, frontier.png, frontier.csv and budget.json; return the page."""
    frontier = figure(sheet)
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "frontier.png").write_bytes(as_png(frontier, "", frontier.views[""]))
    with atomic_file(directory / "budget.json") as file:
        file.write_text(json.dumps(sheet.as_json(), indent=2), "utf-8")
    _write_points(sheet, directory / "frontier.csv")
    caption = "Shares are fresh answers over all answers. What sets no budget is shown for comparison, not ranked."
    sentences = [*sheet.sentences, *([sheet.code] if sheet.code else [])]
    table = _table(sheet)
    section = Section("budget", "", [frontier, table, Caption(caption)], lead=sheet.lead, sentences=sentences)
    page = Page(
        kind="What budget do I need?",
        title=title,
        sections=[section],
        facts=list(sheet.facts),
        command=command,
        notes=list(sheet.notes),
    )
    return write_page(page, directory / "budget.html")


def figure(sheet: Sheet) -> Figure:
    """Return freshness against requests for each policy and cache, with the target as a line."""
    per = f"requests per {sheet.per}"
    chart = Chart(
        form=ChartForm.LINES,
        x=Axis(per, ",~r", AxisKind.LOGARITHMS),
        y=Axis("of answers fresh", PERCENT),
        interval=Interval.BARS,
        legend=True,
        highest=1.0,
    )
    table = ChartTable(list(_rows(sheet)), sheet.lead, {"target": sheet.target})
    caption = (
        f"The dotted line is the target; large marks are the rows of the table. {per.capitalize()} are on a "
        f"logarithmic scale. Vertical bars, where there are any, are 95 % intervals. Points with more than "
        f"{MOST_STALENESS} times the staleness of the target are left out; frontier.csv has them."
    )
    title = f"Freshness against {per}"
    return chart_of("frontier", title, chart, {"": table}, _styles(sheet), caption=caption, wide=True)


def _rows(sheet: Sheet) -> Iterator[Row]:
    lowest = 1 - MOST_STALENESS * (1 - sheet.target)
    for curve, points in sheet.frontier.items():
        for point in points:
            if point.requests <= 0 or point.fresh < lowest:
                continue
            yield {
                "policy": curve,
                "x": point.requests,
                "mid": point.fresh,
                "low": point.low,
                "high": point.high,
                "size": LARGE if point.in_table else SMALL,
                "text": f"{three_digits(point.requests)} requests: {as_percent(point.fresh)}",
            }


def _styles(sheet: Sheet) -> dict[str, Style]:
    return looks({row.name: row.style for row in sheet.rows if row.name in sheet.frontier})


def _table(sheet: Sheet) -> PageTable:
    styles = _styles(sheet)
    rows = [TableRow(row.name, list(row.cells), list(row.marks), styles[row.name], best=row.best) for row in sheet.rows]
    return PageTable("What each needs", list(sheet.heads), rows)


def _write_points(sheet: Sheet, path: Path) -> None:
    with atomic_file(path) as unfinished, unfinished.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["policy", "knob", f"requests_per_{sheet.per}", "freshness", "low", "high"])
        for curve, points in sheet.frontier.items():
            for point in points:
                writer.writerow([curve, point.knob, point.requests, point.fresh, point.low, point.high])
