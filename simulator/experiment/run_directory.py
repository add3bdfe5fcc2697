"""A run directory read back: what was run (run.json), the tables of its analysis, and what cannot be told.

A production journal is read the same way; it may have no run.json. What is missing becomes a note for the reader.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from freshkeeper.maintenance.analysis.analysis_tables import Analysis, left_analysis
from freshkeeper.maintenance.journal.enricher_tables import write_tables
from freshkeeper.maintenance.journal.run_json import About, Contender, RunError, Setting
from freshkeeper.policies.base import Case, Knowledge
from freshkeeper.simulator.experiment.baselines import Baseline, read_baselines
from freshkeeper.simulator.experiment.summary import SummaryRow, read_summary

USUAL_TARGET = 0.9
"""The freshness that a run should have, where it does not say."""
MOST_ANSWERS_ANALYSED, MOST_ANSWERS_JUDGED = 10_000_000, 100_000_000
"""Answers of which a reader makes every table, and of which it judges the freshness alone: either takes five to ten
seconds. For more, `freshkeeper analyse` comes first."""


@dataclass(frozen=True)
class Series:
    """A policy in one setting, case and level of knowledge: tables never mix two series."""

    case: str
    knowledge: str
    setting: str
    policy: str


@dataclass(frozen=True, eq=False)
class Run:
    """A run directory and everything that could be read from it."""

    path: Path
    about: About
    analysis: Analysis
    summary: Mapping[tuple[str, str], SummaryRow] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    baselines: list[Baseline] = field(default_factory=list)

    def setting(self, name: str) -> Setting:
        """Return what run.json says of a setting."""
        return self.about.settings.get(name, Setting())

    def contender(self, label: str) -> Contender:
        """Return what run.json says of a policy; without it the label is the name, and bounds are known by name."""
        known = self.about.policies.get(label)
        return known or Contender(name=label, is_bound=label in ("clairvoyant", "unlimited"))

    def in_order(self, series: Iterable[Series]) -> list[Series]:
        """Sort series by case, by knowledge, and by setting and policy in the order of run.json."""
        orders: list[list[str]] = [[*Case], [*Knowledge], [*self.about.settings], [*self.about.policies]]

        def position(one: Series) -> list[tuple[int, str]]:
            names = (one.case, one.knowledge, one.setting, one.policy)
            return [
                (order.index(name) if name in order else len(order), name)
                for name, order in zip(names, orders, strict=True)
            ]

        return sorted(series, key=position)


def read(path: Path, target: float | None = None, last: int | None = None) -> Run:
    """Read a run directory with the headline of its analysis; with `last`, only so many evaluations count.

    Raises `RunError`, or another `InputError`, with one line that says what is wrong with the directory.
    """
    return _read(path, target, last, whole=False)


def read_whole(path: Path, target: float | None = None) -> Run:
    """Read a run directory with every table of its analysis; they are empty where nothing was answered."""
    return _read(path, target, None, whole=True)


def _read(path: Path, target: float | None, last: int | None, whole: bool) -> Run:
    notes: list[str] = []
    about = read_about(path)
    if about is None:
        about = About()
        notes.append("There is no run.json, so the settings and the command to repeat this are unknown.")
    if not (path / "evaluations.parquet").exists():
        raise RunError(f"{path} has no evaluations: nothing was answered, or the run did not finish")
    analysis = left_analysis(path, target) if last is None else None
    if analysis is None:
        analysis = _analysed(path, target, last, whole, notes)
    if not whole and not analysis.tables.get("budget"):
        raise RunError(f"{path} has no evaluations: nothing was answered")
    if not about.complete:
        notes.append(_unfinished(about))
    return Run(
        path=path,
        about=about,
        analysis=analysis,
        summary=_summary(path, notes),
        notes=notes,
        baselines=_baselines(path, notes),
    )


def read_about(path: Path) -> About | None:
    """Read run.json; None where a run directory has none. Raises `RunError` for what is no run directory."""
    if not path.is_dir():
        raise RunError(f"{path} is not a run directory: " + ("it is a file" if path.exists() else "it does not exist"))
    write_tables(path)
    if not any((path / name).exists() for name in ("run.json", "evaluations.parquet")):
        raise RunError(f"{path} is not a run directory: it has neither run.json nor evaluations.parquet")
    return About.read(path)


def _analysed(path: Path, target: float | None, last: int | None, whole: bool, notes: list[str]) -> Analysis:
    """Analyse a run as far as that takes seconds, and note what is left out."""
    from freshkeeper.maintenance.analysis.analysis import HEADLINE_TABLES, AnalysisScope, Judging, analysed
    from freshkeeper.maintenance.analysis.engine_choice import chosen, rows_of

    answers = rows_of(path, "answers")
    scope = AnalysisScope(target=USUAL_TARGET if target is None else target, last=last)
    if not whole:
        scope = replace(scope, judging=Judging.HEADLINE, names=HEADLINE_TABLES)
    if answers > MOST_ANSWERS_JUDGED:
        scope = replace(scope, judging=Judging.RECORDED)
        notes.append(f"{answers:,} answers were not judged one by one: freshkeeper analyse {path} does that.")
    elif whole and answers > MOST_ANSWERS_ANALYSED:
        scope = replace(scope, judging=Judging.HEADLINE)
        more = f"freshkeeper analyse {path} tells where stale ones come from"
        notes.append(f"Of {answers:,} answers the freshness was judged; {more}.")
    return analysed(chosen(str(path), "duckdb")[0], str(path), scope)


def _unfinished(about: About) -> str:
    if about.runs is None:
        return "The run did not finish; this is what there was."
    return f"These are {about.finished:,} of {about.runs:,} runs; the others had not finished when this was written."


def _summary(path: Path, notes: list[str]) -> dict[tuple[str, str], SummaryRow]:
    file = path / "summary.csv"
    try:
        rows = read_summary(file) if file.exists() else []
        return {(row.setting, row.policy): row for row in rows}
    except (OSError, ValueError, csv.Error) as error:
        notes.append(f"The summary.csv is not readable and was left aside: {str(error).splitlines()[0]}.")
        return {}


def _baselines(path: Path, notes: list[str]) -> list[Baseline]:
    try:
        return read_baselines(path)
    except (OSError, ValueError, csv.Error) as error:
        notes.append(f"The baselines.csv is not readable and was left aside: {str(error).splitlines()[0]}.")
        return []
