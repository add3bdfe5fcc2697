"""Runs of a directory side by side, from the oldest to the newest: how fresh, for how many requests, run after run.

One line is one policy under one budget, of one case and one level of knowledge.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.journal.run_json import FILE
from freshkeeper.maintenance.pages.amounts import UNKNOWN, amount, percent_with_interval
from freshkeeper.maintenance.pages.charts import PERCENT, Axis, AxisKind, Chart, ChartForm, Interval
from freshkeeper.maintenance.pages.figures import ChartTable, Figure, figure
from freshkeeper.maintenance.pages.page import Page, PageTable, Section, TableRow, write_page
from freshkeeper.maintenance.pages.pictures import write_pictures
from freshkeeper.maintenance.pages.styles import looks
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.experiment.scores import Score
from freshkeeper.simulator.report.groups import Group, groups
from freshkeeper.simulator.report.panels import share_columns

HEADS = ("Run", "Policy", "Budget", "Fresh answers", "Requests", "Failed fetches")


@dataclass(frozen=True)
class HistoryEntry:
    """A policy of one setting of one run."""

    run: str
    policy: str
    label: str
    """the policy, with the budget where runs have several"""
    budget: float | None
    score: Score


def runs_in(directory: Path) -> list[Path]:
    """Return the run directories below a directory in the order in which they were written."""
    files = [file for name in (FILE, "evaluations.parquet") for file in sorted(directory.glob(f"**/{name}"))]
    places = dict.fromkeys(file.parent for file in files)
    runs = [place for place in places if "parts" not in place.relative_to(directory).parts]
    if not runs:
        raise InputError(f"{directory} has no runs: name a directory that holds run directories, as runs")
    return sorted(runs, key=lambda place: (_written_at(place), str(place)))


def write_history(directory: Path, out: Path | None = None, png: Path | None = None, table: Path | None = None) -> Path:
    """Write the page of all runs below a directory (history.html in it, or `out`), and its plots as PNG and CSV."""
    runs, notes = [], []
    for place in runs_in(directory):
        try:
            runs.append((str(place.relative_to(directory)), run_directory.read(place)))
        except InputError as error:
            notes.append(f"{error}.")
    by_name: dict[str, list[HistoryEntry]] = {}
    prefixes: dict[str, str] = {}
    for name, run in runs:
        for group in groups(run):
            by_name.setdefault(group.name, []).extend(_entries(name, group))
            prefixes[group.name] = f"{group.case}-{group.knowledge}-"
    sections = [_section(f"h{n}", name, entries) for n, (name, entries) in enumerate(by_name.items())]
    facts = [f"{len(runs)} run{'s' * (len(runs) > 1)}, the oldest first"]
    title = directory.resolve().name
    command = f"freshkeeper report --history {directory}"
    page = Page(
        kind="Freshness, run after run", title=title, sections=sections, facts=facts, command=command, notes=notes
    )
    file = write_page(page, out or directory / "history.html")
    if len(sections) < 2:
        prefixes = dict.fromkeys(prefixes, "")
    figures = dict(zip(prefixes.values(), [section.figures for section in sections], strict=True))
    write_pictures(figures, png, table)
    return file


def _written_at(place: Path) -> float:
    files = place / FILE, place / "evaluations.parquet"
    return next(file for file in files if file.exists()).stat().st_mtime


def _entries(run: str, group: Group) -> Iterator[HistoryEntry]:
    """Yield what a run has; settings that differ in more than the budget bear their own names."""
    for (setting, label), score in group.scores.items():
        if isnan(score.freshness.mean):
            continue
        contender = group.run.contender(label)
        budget, name = group.run.setting(setting).budget, label
        if not contender.budgeted:
            budget = None
        if budget is not None:
            name += f", γ {amount(budget)}"
        if set(group.varied(setting)) - {"budget"}:
            name += f" ({group.text(setting)})"
        yield HistoryEntry(run, contender.name or label, name, budget, score)


def _section(name: str, title: str, entries: Sequence[HistoryEntry]) -> Section:
    table = PageTable("All runs", HEADS, [_row(entry) for entry in entries])
    return Section(name, title[:1].upper() + title[1:], [_figure(entries), table])


def _figure(entries: Sequence[HistoryEntry]) -> Figure:
    order = list(dict.fromkeys(entry.run for entry in entries))
    styles = looks({entry.label: entry.policy for entry in entries})
    rows = [
        {"policy": entry.label, "x": entry.run, **share_columns(entry.score.freshness)}
        for label in styles
        for entry in entries
        if entry.label == label
    ]
    last = {row["policy"]: row["text"] for row in rows}
    words = f"In the last runs: {'; '.join(f'{label} {text}' for label, text in last.items())}."
    x = Axis("run", kind=AxisKind.WORDS, order=order)
    y = Axis("of answers fresh", PERCENT)
    chart = Chart(form=ChartForm.LINES, x=x, y=y, interval=Interval.BARS, highest=1.0)
    caption = "From the oldest run to the newest. Bars are 95 % intervals over seeds."
    table = ChartTable(rows, words)
    return figure("history", "Freshness, run after run", chart, {"": table}, styles, caption=caption, wide=True)


def _row(entry: HistoryEntry) -> TableRow:
    score = entry.score
    budget, failed, freshness = UNKNOWN, UNKNOWN, percent_with_interval(score.freshness)
    if score.expected:
        freshness += " (expected)"
    if entry.budget is not None:
        budget = amount(entry.budget)
    if score.failed > 0:
        failed = amount(score.failed)
    cells = [
        entry.policy,
        budget,
        freshness,
        amount(round(score.requests_per_evaluation, 2)),
        failed,
    ]
    return TableRow(entry.run, cells)
