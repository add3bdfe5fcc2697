"""The headline numbers of a run: one row per setting and policy, with intervals over seeds."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import TypeAdapter

from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.base.stats import estimate

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Kind = TypeVar("Kind")


@dataclass(frozen=True)
class SummaryRow:
    """A row of summary.csv, and of `simulate --json`: one setting and policy."""

    setting: str
    policy: str
    case: str
    knowledge: str
    budget: float
    bank: float
    seeds: int
    freshness: float | None
    ci95: float | None
    pooled: float | None
    stale_answers: float
    answers: float
    spent: float
    requests_per_evaluation: float
    share_of_bound: float | None
    over_budget: bool
    seconds: float


def mean_and_ci(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the mean over seeds and the half of its 95 % interval, or None where a number is unknown."""
    found = estimate(np.array(values, np.float64))
    return number_or_none(found.mean), number_or_none(found.half)


def number_or_none(number: float) -> float | None:
    """Return a number, or None for NaN, which stands for an unknown one."""
    return None if isnan(number) else number


def write_summary(path: Path, rows: Sequence[SummaryRow]) -> None:
    """Write summary.csv; unknown numbers are empty."""
    write_rows(path, SummaryRow, rows)


def write_rows(path: Path, kind: "type[DataclassInstance]", rows: "Sequence[DataclassInstance]") -> None:
    """Write a CSV file with a column for each field."""
    with atomic_file(path) as unfinished, unfinished.open("w", newline="") as file:
        writer = csv.DictWriter(file, [part.name for part in fields(kind)])
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _cell(value) for key, value in asdict(row).items()})


def read_summary(path: Path) -> list[SummaryRow]:
    """Read the rows of a summary.csv."""
    return read_rows(path, SummaryRow)


def read_rows(path: Path, kind: type[Kind]) -> list[Kind]:
    """Read the rows of such a file; empty means unknown."""
    row = TypeAdapter(kind)
    with path.open(newline="") as file:
        cells = list(csv.DictReader(file))
    found = []
    for each in cells:
        found.append(row.validate_python({key: cell or None for key, cell in each.items()}))
    return found


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value
