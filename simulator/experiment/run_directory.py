"""A run directory: run.json, the evaluations, and notes about what it does not tell.

A production journal is read the same way; it may have no run.json, and no `fresh`: the expected number stands in then.
Only evaluations.parquet is needed, with all its columns. A note tells the reader what else is missing.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ints
from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.journal.run_json import About, Contender, RunError, Setting
from freshkeeper.policies.base import Case, Knowledge
from freshkeeper.simulator.experiment.baselines import Baseline, read_baselines
from freshkeeper.simulator.experiment.summary import SummaryRow, read_summary
from freshkeeper.simulator.report.journal_columns import BROKEN, floats, words

WORDS = ("case", "knowledge", "setting", "policy")


@dataclass(frozen=True, order=True)
class Series:
    """A policy in one setting, case and level of knowledge: tables never mix two series."""

    case: str
    knowledge: str
    setting: str
    policy: str


@dataclass(frozen=True, eq=False)
class Evaluations:
    """The evaluations in columns, sorted by series, seed and time; NaN means not recorded.

    `fresh` is the true number of fresh answers where there is one and else the expected number, as `expected` says.
    """

    series: list[Series]
    of: Ints
    seed: Ints
    k: Ints
    t_ms: Floats
    counted: Bools
    results: Floats
    fresh: Floats
    expected: Bools
    budget: Floats
    spent: Floats
    decide_us: Floats
    fetch_ms: Floats
    errors: Floats
    requests: Floats

    @cached_property
    def bounds(self) -> Ints:
        """The first row of each series, and the end."""
        return np.searchsorted(self.of, np.arange(len(self.series) + 1)).astype(np.int64)

    def rows(self, series: int) -> slice:
        """Return the rows of one series."""
        return slice(int(self.bounds[series]), int(self.bounds[series + 1]))


@dataclass(frozen=True, eq=False)
class Run:
    """A run directory and everything that could be read from it."""

    path: Path
    about: About
    evaluations: Evaluations
    summary: Mapping[tuple[str, str], SummaryRow]
    notes: list[str] = field(default_factory=list)
    baselines: list[Baseline] = field(default_factory=list)

    def setting(self, name: str) -> Setting:
        """Return the setting of a name as run.json describes it."""
        return self.about.settings.get(name, Setting())

    def contender(self, label: str) -> Contender:
        """Return a policy as run.json describes it, or by its label, from which bounds are recognised."""
        known = self.about.policies.get(label)
        return known or Contender(name=label, is_bound=label in ("clairvoyant", "unlimited"))


def read(path: Path) -> Run:
    """Read a run directory; raise RunError with one line that names its fault."""
    if not path.is_dir():
        raise RunError(f"{path} is not a run directory: " + ("it is a file" if path.exists() else "it does not exist"))
    if not any((path / name).exists() for name in ("run.json", "evaluations.parquet")):
        raise RunError(f"{path} is not a run directory: it has neither run.json nor evaluations.parquet")
    notes: list[str] = []
    about = About.read(path)
    if about is None:
        about = About()
        notes.append("There is no run.json, so the settings and the command to repeat this are unknown.")
    evaluations = _evaluations(path, about, notes)
    if not about.complete:
        notes.append(_unfinished(about))
    return Run(
        path=path,
        about=about,
        evaluations=evaluations,
        summary=_summary(path, notes),
        notes=notes,
        baselines=_baselines(path, notes),
    )


def _unfinished(about: About) -> str:
    if about.runs is None:
        return "The run did not finish; this is what there was."
    return f"These are {about.finished:,} of {about.runs:,} runs; the others had not finished when this was written."


def _evaluations(path: Path, about: About, notes: list[str]) -> Evaluations:
    file = path / "evaluations.parquet"
    try:
        table = journal.read(path, "evaluations")
    except BROKEN as error:
        raise RunError(f"{file} is not readable as Parquet: {str(error).splitlines()[0]}") from error
    if table is None or not table.num_rows:
        raise RunError(f"{path} has no evaluations" + (": the run did not finish" if table is None else ""))
    try:
        return _columns(table, about, notes)
    except BROKEN as error:
        raise RunError(f"{file} has a column of the wrong type: {str(error).splitlines()[0]}") from error


def _columns(table: "pa.Table", about: About, notes: list[str]) -> Evaluations:
    series, of = _series(table, about)
    seed, k, t_ms = (np.nan_to_num(floats(table, name)).astype(np.int64) for name in ("seed", "k", "t_ms"))
    order = np.lexsort((k, t_ms, seed, of))
    column = {name: floats(table, name)[order] for name in table.column_names if name not in WORDS}
    true, expected = column["fresh"], column["expected_fresh"]
    if np.isnan(true).any() and not np.isnan(expected).all():
        notes.append("The true number of fresh answers is not recorded everywhere; the expected number stands in.")
    return Evaluations(
        series=series,
        of=of[order],
        seed=seed[order],
        k=k[order],
        t_ms=column["t_ms"],
        counted=np.nan_to_num(column["warmup"]) == 0,
        results=np.nan_to_num(column["results"]),
        fresh=np.where(np.isnan(true), expected, true),
        expected=np.isnan(true),
        **{name: column[name] for name in ("budget", "spent", "decide_us", "fetch_ms", "errors", "requests")},
    )


def _series(table: "pa.Table", about: About) -> tuple[list[Series], Ints]:
    """Return the series, and the series of each row; settings and policies are in the order of run.json."""
    labels = [words(table, name) for name in WORDS]
    present, of = np.unique(np.stack([codes for _, codes in labels]), axis=1, return_inverse=True)
    found = []
    for codes in present.T.tolist():
        case, knowledge, setting, policy = (names[code] for (names, _), code in zip(labels, codes, strict=True))
        known = about.settings.get(setting, Setting())
        found.append(Series(case or known.case, knowledge or known.knowledge, setting, policy))
    settings, policies = list(about.settings), list(about.policies)
    order = sorted(range(len(found)), key=lambda i: _position(found[i], settings, policies))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return [found[i] for i in order], position[of]


def _position(series: Series, settings: list[str], policies: list[str]) -> tuple[Any, ...]:
    def at(name: str, names: Sequence[str]) -> tuple[int, str]:
        place = names.index(name) if name in names else len(names)
        return place, name

    case, knowledge = at(series.case, list(Case)), at(series.knowledge, list(Knowledge))
    return case, knowledge, at(series.setting, settings), at(series.policy, policies)


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
