"""Runs of a directory side by side, from the oldest to the newest: how fresh, for how many requests, run after run.

Compared is what can be: one line is one policy under one budget, of one case and one level of knowledge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.files import whole
from freshkeeper.maintenance.journal.run_json import FILE, RunError
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.report import charts
from freshkeeper.simulator.report.amounts import NOTHING, amount, percent_with_interval
from freshkeeper.simulator.report.drawing import Figure, View, framed, short
from freshkeeper.simulator.report.groups import Group, groups
from freshkeeper.simulator.report.page import HERE, as_plots, inlined, write_plots
from freshkeeper.simulator.report.scores import Score
from freshkeeper.simulator.report.styles import Style, looks

HEADS = ("Run", "Policy", "Budget", "Fresh answers", "Requests", "Failed fetches")


@dataclass(frozen=True)
class Entry:
    """One policy of one setting of one run."""

    run: str
    policy: str
    label: str
    """the policy, with the budget where runs have several"""
    budget: float | None
    score: Score


@dataclass(frozen=True)
class Chapter:
    """All entries of one case and one level of knowledge."""

    name: str
    figure: Figure
    rows: list[list[str]]


def runs_in(directory: Path) -> list[Path]:
    """The run directories below a directory, the oldest first; by when they were written."""
    found = [file.parent for name in (FILE, "evaluations.parquet") for file in sorted(directory.glob(f"**/{name}"))]
    distinct = [place for place in dict.fromkeys(found) if "parts" not in place.relative_to(directory).parts]
    if not distinct:
        raise InputError(f"{directory} has no runs: name a directory that holds run directories, as runs")
    return sorted(distinct, key=lambda place: (_written(place), str(place)))


def write_history(directory: Path, out: Path | None = None, png: Path | None = None, table: Path | None = None) -> Path:
    """Write the page of all runs below a directory (history.html in it, or `out`), and its plots as PNG and CSV."""
    read, notes = [], []
    for place in runs_in(directory):
        try:
            read.append((str(place.relative_to(directory)), run_directory.read(place)))
        except RunError as error:
            notes.append(f"{error}.")
    together: dict[str, list[tuple[str, Group]]] = {}
    for name, run in read:
        for group in groups(run):
            together.setdefault(group.name, []).append((name, group))
    chapters = [_chapter(f"h{n}", name, members) for n, (name, members) in enumerate(together.items())]
    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    text = environment.get_template("history.html").render(
        title=directory.resolve().name, runs=len(read), chapters=chapters, heads=HEADS, notes=notes,
        plots=Markup(as_plots({chapter.figure.key: chapter.figure for chapter in chapters})), **inlined(),
    )  # fmt: skip
    page = out or directory / "history.html"
    with whole(page) as file:
        file.write_text(text.strip(), "utf-8")
    drawn = zip(together.values(), chapters, strict=True)
    write_plots([(of[0][1], [replace(each.figure, key="history")]) for of, each in drawn], png, table)
    return page


def _written(place: Path) -> float:
    file = place / FILE
    return (file if file.exists() else place / "evaluations.parquet").stat().st_mtime


def _chapter(key: str, name: str, members: Sequence[tuple[str, Group]]) -> Chapter:
    found = [entry for run, group in members for entry in _entries(run, group)]
    names = {entry.label: entry.policy for entry in found}
    styles = looks(names)
    return Chapter(name, _figure(key, found, styles), [_row(entry) for entry in found])


def _entries(run: str, group: Group) -> list[Entry]:
    """The settings of a run that differ in more than the budget bear their own names."""
    found = []
    for (setting, label), score in group.scores.items():
        if isnan(score.freshness.mean):
            continue
        budgeted = group.run.contender(label).budgeted
        budget = group.run.setting(setting).budget if budgeted else None
        others = {key: value for key, value in group.varied(setting).items() if key != "budget"}
        paid = f", γ {amount(budget)}" if budget is not None else ""
        where = f" ({group.text(setting)})" if others else ""
        name = group.run.contender(label).name or label
        found.append(Entry(run, name, f"{label}{paid}{where}", budget, score))
    return found


def _figure(key: str, found: Sequence[Entry], styles: Mapping[str, Style]) -> Figure:
    order = list(dict.fromkeys(entry.run for entry in found))
    by_label = {label: [entry for entry in found if entry.label == label] for label in styles}
    blocks = [
        {"is": {"policy": label, "bound": False}, "columns": _columns(entries)} for label, entries in by_label.items()
    ]
    ends = {label: entries[-1].score.freshness.mean for label, entries in by_label.items()}
    values = [end for entry in found for end in (entry.score.freshness.low, min(entry.score.freshness.high, 1.0))]
    rows = {"rows": blocks, **framed(order[-1], ends, charts.frame(values, cap=1.0))}
    words = "; ".join(f"{label} {percent_with_interval(es[-1].score.freshness)}" for label, es in by_label.items())
    spec = charts.panel(styles, "of answers fresh", "run", numeric=False, order=order)
    caption = "From the oldest run to the newest. Bars are 95 % intervals over seeds."
    return Figure(
        key, "Freshness, run after run", spec, {"": View(rows, f"In the last runs: {words}.")}, caption, wide=True
    )


def _columns(entries: Sequence[Entry]) -> dict[str, list[object]]:
    fresh = [entry.score.freshness for entry in entries]
    return {
        "x": [entry.run for entry in entries],
        "mid": [*short(one.mean for one in fresh)],
        "low": [*short(max(one.low, 0.0) for one in fresh)],
        "high": [*short(min(one.high, 1.0) for one in fresh)],
        "text": [percent_with_interval(one) for one in fresh],
    }


def _row(entry: Entry) -> list[str]:
    score = entry.score
    said = percent_with_interval(score.freshness) + (" (expected)" if score.expected else "")
    return [
        entry.run,
        entry.policy,
        NOTHING if entry.budget is None else amount(entry.budget),
        said,
        amount(round(score.requests_per_evaluation, 2)),
        amount(score.failed) if score.failed > 0 else NOTHING,
    ]
