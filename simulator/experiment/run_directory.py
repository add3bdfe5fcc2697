"""A run directory read back: what was run (run.json), what happened at every evaluation, and what cannot be told.

A production journal is read the same way; it may have no run.json, and no `fresh`: the expected number stands in then.
Only evaluations.parquet is needed. What else is missing becomes a note, a sentence for the reader, and never an error.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from freshkeeper.maintenance.journal import journal
from freshkeeper.policies.arrays import Bools, Floats, Ints
from freshkeeper.policies.base import Case, Knowledge
from freshkeeper.policies.errors import InputError
from freshkeeper.simulator.report.columns import BROKEN, floats, words

NEEDED = ("policy", "k", "results")
WORDS = ("case", "knowledge", "setting", "policy")
MEANINGS = {
    "setting": "evaluations name no setting and are taken as one",
    "seed": "evaluations name no seed and are taken as one run",
    "case": "evaluations do not say which case they are of",
    "knowledge": "evaluations do not say which level of knowledge they are of",
    "warmup": "evaluations do not say which are the warm-up, so all of them count",
    "t_ms": "evaluations have no times",
    "spent": "what was spent was not recorded",
    "budget": "what could be spent was not recorded",
    "decide_us": "the time of decisions was not recorded",
    "fetch_ms": "the time of fetches was not recorded",
    "errors": "failed fetches were not recorded",
}
"""What a reader has to know when a column is missing."""


class RunError(InputError):
    """A directory that is no run directory, or one that cannot be read."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Setting(_Part):
    """One setting: what was varied, and the values that every reader wants."""

    varied: dict[str, Any] = Field(default_factory=dict)
    budget: float | None = None
    bank: float | None = None
    case: str = ""
    knowledge: str = ""
    range_ms: int | None = None
    step_ms: int | None = None
    start: str = ""
    evaluations: int | None = None


class Contender(_Part):
    """One policy of a run under the label it has there."""

    name: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    honest: bool = True
    is_bound: bool = False


class BoundNote(_Part):
    """Whether the clairvoyant bound was computed, and why not."""

    included: bool = True
    reason: str = ""


class About(_Part):
    """run.json; a production journal may have none, and everything is then unknown."""

    freshkeeper: str = ""
    versions: dict[str, Any] = Field(default_factory=dict)
    command: str = ""
    config: dict[str, Any] = Field(default_factory=dict)
    seeds: list[int] = Field(default_factory=list)
    settings: dict[str, Setting] = Field(default_factory=dict)
    policies: dict[str, Contender] = Field(default_factory=dict)
    bound: BoundNote | None = None
    complete: bool = True

    @property
    def flat_config(self) -> dict[str, Any]:
        """The config by dotted keys."""
        return dict(_flat(self.config))


@dataclass(frozen=True, order=True)
class Series:
    """What is never mixed: one policy in one setting, case and level of knowledge."""

    case: str
    knowledge: str
    setting: str
    policy: str


@dataclass(frozen=True, eq=False)
class Evaluations:
    """The evaluations in columns, sorted by series, seed and time; NaN is what was not recorded.

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

    @cached_property
    def bounds(self) -> Ints:
        """Where each series begins, and the end."""
        return np.searchsorted(self.of, np.arange(len(self.series) + 1)).astype(np.int64)

    def rows(self, series: int) -> slice:
        """The rows of one series."""
        return slice(int(self.bounds[series]), int(self.bounds[series + 1]))


@dataclass(frozen=True, eq=False)
class Run:
    """A run directory as far as it could be read."""

    path: Path
    about: About
    evaluations: Evaluations
    summary: Mapping[tuple[str, str], Mapping[str, str]]
    notes: list[str] = field(default_factory=list)

    def setting(self, name: str) -> Setting:
        """What is known of a setting."""
        return self.about.settings.get(name, Setting())

    def contender(self, label: str) -> Contender:
        """What is known of a policy; where run.json does not say, the label is its name and bounds are known by it."""
        known = self.about.policies.get(label)
        return known or Contender(name=label, is_bound=label in ("clairvoyant", "unlimited"))


def read(path: Path) -> Run:
    """Read a run directory; raises `RunError` with one line that says what is wrong with it."""
    if not path.is_dir():
        raise RunError(f"{path} is not a run directory: " + ("it is a file" if path.exists() else "it does not exist"))
    if not any((path / name).exists() for name in ("run.json", "evaluations.parquet")):
        raise RunError(f"{path} is not a run directory: it has neither run.json nor evaluations.parquet")
    notes: list[str] = []
    about = _about(path, notes)
    evaluations = _evaluations(path, about, notes)
    if not about.complete:
        notes.append("The run did not finish; this is what there was.")
    return Run(path, about, evaluations, _summary(path, notes), notes)


def _about(path: Path, notes: list[str]) -> About:
    file = path / "run.json"
    if not file.exists():
        notes.append("There is no run.json, so the settings and the command to repeat this are unknown.")
        return About()
    try:
        return About.model_validate(json.loads(file.read_text("utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise RunError(f"{file}: {where} is {first['input']!r}; {first['msg'][0].lower()}{first['msg'][1:]}") from error
    except (OSError, ValueError) as error:
        raise RunError(f"{file} cannot be read: {str(error).splitlines()[0]}") from error


def _evaluations(path: Path, about: About, notes: list[str]) -> Evaluations:
    file = path / "evaluations.parquet"
    try:
        table = journal.read(path, "evaluations")
    except BROKEN as error:
        raise RunError(f"{file} is not readable as Parquet: {str(error).splitlines()[0]}") from error
    if table is None or not table.num_rows:
        raise RunError(f"{path} has no evaluations" + (": the run did not finish" if table is None else ""))
    _check_schema(file, table)
    notes.extend(f"The {words}." for name, words in MEANINGS.items() if name not in table.column_names)
    try:
        return _columns(table, about, notes)
    except BROKEN as error:
        raise RunError(f"{file} has a column of the wrong type: {str(error).splitlines()[0]}") from error


def _check_schema(file: Path, table: "pa.Table") -> None:
    names = table.column_names
    missing = [name for name in NEEDED if name not in names]
    missing += [] if {"fresh", "expected_fresh"} & set(names) else ["fresh"]
    if missing:
        raise RunError(
            f"{file} has no column {' nor '.join(map(repr, missing))}: it is of another version of freshkeeper; "
            "run the command in its run.json again"
        )


def _columns(table: "pa.Table", about: About, notes: list[str]) -> Evaluations:
    series, of = _series(table, about)
    seed, k, t_ms = (np.nan_to_num(floats(table, name)).astype(np.int64) for name in ("seed", "k", "t_ms"))
    order = np.lexsort((k, t_ms, seed, of))
    numbers = {part.name for part in journal.SCHEMAS["evaluations"]} - set(WORDS)
    column = {name: floats(table, name)[order] for name in table.column_names if name in numbers}
    nothing = np.full(of.size, np.nan)
    true, expected = column.get("fresh", nothing), column.get("expected_fresh", nothing)
    if np.isnan(true).any() and not np.isnan(expected).all():
        notes.append("The true number of fresh answers is not recorded everywhere; the expected number stands in.")
    return Evaluations(
        series=series,
        of=of[order],
        seed=seed[order],
        k=k[order],
        t_ms=column.get("t_ms", nothing),
        counted=np.nan_to_num(column.get("warmup", nothing)) == 0,
        results=np.nan_to_num(column["results"]),
        fresh=np.where(np.isnan(true), expected, true),
        expected=np.isnan(true),
        **{name: column.get(name, nothing) for name in ("budget", "spent", "decide_us", "fetch_ms", "errors")},
    )


def _series(table: "pa.Table", about: About) -> tuple[list[Series], Ints]:
    """Which series there are and which one each row is of; settings and policies in the order of run.json."""
    labels = [words(table, name) for name in WORDS]
    code = np.zeros(table.num_rows, np.int64)
    for names, codes in labels:
        code = code * len(names) + codes
    present, of = np.unique(code, return_inverse=True)
    found = [_decode(int(number), [names for names, _ in labels], about) for number in present]
    settings, policies = list(about.settings), list(about.policies)
    order = sorted(range(len(found)), key=lambda i: _position(found[i], settings, policies))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return [found[i] for i in order], position[of]


def _decode(number: int, names: list[list[str]], about: About) -> Series:
    parts: list[str] = []
    for choices in reversed(names):
        number, at = divmod(number, len(choices))
        parts.append(choices[at])
    policy, setting, knowledge, case = parts
    known = about.settings.get(setting, Setting())
    return Series(case or known.case, knowledge or known.knowledge, setting, policy)


def _position(series: Series, settings: list[str], policies: list[str]) -> tuple[Any, ...]:
    def at(name: str, names: Sequence[str]) -> tuple[int, str]:
        return (names.index(name) if name in names else len(names), name)

    case, knowledge = at(series.case, list(Case)), at(series.knowledge, list(Knowledge))
    return case, knowledge, at(series.setting, settings), at(series.policy, policies)


def _summary(path: Path, notes: list[str]) -> dict[tuple[str, str], dict[str, str]]:
    file = path / "summary.csv"
    if not file.exists():
        return {}
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            return {(row.get("setting") or "", row.get("policy") or ""): row for row in csv.DictReader(lines)}
    except (OSError, ValueError, csv.Error) as error:
        notes.append(f"The summary.csv is not readable and was left aside: {str(error).splitlines()[0]}.")
        return {}


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, part in config.items():
        if isinstance(part, Mapping) and part:
            yield from _flat(part, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", part
