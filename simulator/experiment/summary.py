"""The headline numbers of a run: one row per setting and policy, with intervals over seeds."""

import csv
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from pydantic import TypeAdapter

from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.base.stats import estimate

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Kind = TypeVar("Kind")


@dataclass(frozen=True)
class SummaryRow:
    """A row of summary.csv, and of `simulate --json`: one setting and policy.

    In summary.csv every swept key has a column: those of `varied`, which lacks the four that every row has.
    """

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
    varied: dict[str, Any] = field(default_factory=dict)

    def as_cells(self) -> dict[str, Any]:
        """Return the row with a cell for every swept key behind the name of the setting."""
        rest = asdict(self)
        del rest["varied"]
        return {"setting": rest.pop("setting"), **self.varied, **rest}


def mean_and_ci(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the mean over seeds and the half of its 95 % interval, or None where a number is unknown."""
    found = estimate(np.array(values, np.float64))
    return number_or_none(found.mean), number_or_none(found.half)


def number_or_none(number: float) -> float | None:
    """Return a number, or None for NaN, which stands for an unknown one."""
    return None if isnan(number) else number


def write_summary(path: Path, rows: Sequence[SummaryRow]) -> None:
    """Write summary.csv; unknown numbers are empty."""
    write_csv(path, [row.as_cells() for row in rows], SummaryRow)


def write_rows(path: Path, kind: "type[DataclassInstance]", rows: "Sequence[DataclassInstance]") -> None:
    """Write a CSV file with a column for each field."""
    write_csv(path, [asdict(row) for row in rows], kind)


def write_csv(path: Path, rows: Sequence[dict[str, Any]], kind: "type[DataclassInstance] | None" = None) -> None:
    """Write rows as a CSV file; its columns are the keys of the first row, or the fields of `kind` without rows."""
    names = list(rows[0]) if rows else []
    if kind is not None and not rows:
        names = [part.name for part in fields(kind) if part.name != "varied"]
    with atomic_file(path) as unfinished, unfinished.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for row in rows:
            writer.writerow({key: csv_cell(value) for key, value in row.items()})


def read_summary(path: Path) -> list[SummaryRow]:
    """Read the rows of a summary.csv."""
    return read_rows(path, SummaryRow)


def read_rows(path: Path, kind: type[Kind]) -> list[Kind]:
    """Read the rows of such a file; empty means unknown, and further columns are swept keys."""
    row = TypeAdapter(kind)
    names = {part.name for part in fields(cast("type[DataclassInstance]", kind))}
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    found = []
    for line in lines:
        cells: dict[str, Any] = {"varied": {}} if "varied" in names else {}
        for key, cell in line.items():
            if key in names:
                cells[key] = cell or None
            elif "varied" in names:
                cells["varied"][key] = _value(cell)
        found.append(row.validate_python(cells))
    return found


def csv_cell(value: Any) -> Any:
    """Return a value as a cell of a CSV file: unknown is empty, lists and mappings are JSON."""
    if value is None:
        return ""
    if isinstance(value, bool | list | tuple | dict):
        return json.dumps(value)
    return value


def _value(cell: str) -> Any:
    """Return the value of a swept key: a number, true, a list or a mapping as JSON writes it, else a word."""
    with suppress(ValueError):
        return json.loads(cell)
    return cell
