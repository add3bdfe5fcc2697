"""The tables of the journal: Parquet files with one schema for production and simulations.

A journal is a directory; every table is one file, or in a long run a directory of parts, as Spark writes them. A file
is written whole under another name and then moved into place, so that a reader never sees half of it.
`setting` names what was varied (run.json says what it means); in production it is the source.
"""

import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.files import PRIVATE, atomic_file, writing
from freshkeeper.maintenance.journal.run_json import FILE


@dataclass(frozen=True)
class Retention:
    """Removes the oldest parts, those of one number in all tables together; the last one stays.

    Without a limit a service would fill its disk over months.
    """

    age: int | None = None
    """the maximal age of a part in ms; None: no limit"""
    largest: int | None = None
    """the maximal size of all parts in bytes; None: no limit"""
    clock: Callable[[], float] = time.time

    def drop(self, directory: Path, tables: Sequence[str]) -> None:
        if self.age is None and self.largest is None:
            return
        parts: dict[str, list[Path]] = {}
        for name in tables:
            for file in files(directory / f"{name}.parquet"):
                parts.setdefault(file.name, []).append(file)
        sizes = {number: _bytes_of(part) for number, part in parts.items()}
        total = sum(sizes.values())
        for number in sorted(parts)[:-1]:
            if not self._is_over(parts[number], total):
                return
            total -= sizes[number]
            for file in parts[number]:
                with writing(file):
                    file.unlink()

    def _is_over(self, part: Sequence[Path], size: int) -> bool:
        written = max(file.stat().st_mtime for file in part)
        old = self.age is not None and (self.clock() - written) * 1000 > self.age
        return old or (self.largest is not None and size > self.largest)


def _bytes_of(part: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in part)


EARLIER = "earlier"
"""The directory for journals of earlier runs, in that of the journal."""


def keep_earlier(directory: Path) -> None:
    """Move the journal of an earlier run to `earlier/1`, or the next number that is free."""
    existing = [path for name in SCHEMAS if (path := directory / f"{name}.parquet").exists()]
    if not existing:
        return
    numbers = [int(path.name) for path in (directory / EARLIER).glob("*") if path.name.isdigit()]
    place = directory / EARLIER / str(max(numbers, default=0) + 1)
    if (directory / FILE).exists():
        existing.append(directory / FILE)
    with writing(place):
        place.mkdir(parents=True)
        for path in existing:
            path.rename(place / path.name)


Column = Sequence[object] | Ints | Ids | Floats | Bools

TYPES = {
    **dict.fromkeys(("setting", "policy", "case", "knowledge", "sn", "sr", "error"), pa.string()),
    **dict.fromkeys(("seed", "k", "t_ms", "window_mappings", "candidates", "stale", "errors", "weight"), pa.int64()),
    **dict.fromkeys(("refreshed_ms", "requests", "missed", "marked"), pa.int64()),
    **dict.fromkeys(("warmup", "changed", "late"), pa.bool_()),
    **dict.fromkeys(("results", "fresh", "expected_fresh", "budget", "spent", "carried"), pa.float64()),
    **dict.fromkeys(("decide_us", "fetch_ms", "latency_ms", "gain"), pa.float64()),
}


def _schema(columns: str, **others: "pa.DataType") -> "pa.Schema":
    """Return a schema of columns with their usual types, but for the `others`."""
    return pa.schema([(name, others.get(name, TYPES[name])) for name in columns.split()])


SCHEMAS: dict[str, "pa.Schema"] = {
    "evaluations": _schema(
        "setting policy case knowledge seed k t_ms warmup results fresh expected_fresh window_mappings candidates "
        "stale budget spent carried decide_us fetch_ms errors requests missed marked"
    ),
    "refreshes": _schema(
        "setting policy seed k t_ms sr changed requests latency_ms error gain late", requests=pa.float64()
    ),
    "answers": _schema("setting policy case seed k t_ms sn sr weight refreshed_ms"),
    "changes": _schema("setting seed sr t_ms"),
    "audits": _schema("setting policy seed k t_ms sn fresh", fresh=pa.bool_()),
}


def check_columns(file: Path, name: str, columns: Collection[str]) -> None:
    """Raise InputError if a file of the table `name` lacks a column, as files of other versions do."""
    lacking = [column for column in SCHEMAS[name].names if column not in columns]
    if lacking:
        raise InputError(
            f"{file} has no column {' nor '.join(map(repr, lacking))}: another version of freshkeeper wrote it; "
            "repeat the run with this version, or read the journal with the version that wrote it"
        )


def table(name: str, columns: Mapping[str, Column]) -> "pa.Table":
    """Return a table of the journal; columns that are missing are null."""
    schema = SCHEMAS[name]
    rows = max((len(column) for column in columns.values()), default=0)
    arrays = [pa.array(columns.get(part.name, [None] * rows), part.type) for part in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def write(directory: Path, name: str, tables: Sequence["pa.Table"], mode: int = 0o666) -> None:
    """Write one table whole; nothing of it is visible before it is complete."""
    rows = pa.concat_tables(tables) if tables else SCHEMAS[name].empty_table()
    with atomic_file(directory / f"{name}.parquet", mode) as file:
        parquet.write_table(rows, file, compression="zstd")


def write_part(directory: Path, name: str, number: int, rows: "pa.Table") -> None:
    """Write a part of a table that is a directory of parts; a part of the same number is replaced."""
    with atomic_file(directory / f"{name}.parquet" / f"part-{number:010}.parquet", PRIVATE, durable=True) as file:
        parquet.write_table(rows, file, compression="zstd")


def read(directory: Path, name: str) -> "pa.Table | None":
    """Return one table, or None where the journal has none."""
    tables = []
    for file in files(directory / f"{name}.parquet"):
        check_columns(file, name, parquet.read_schema(file).names)
        tables.append(parquet.read_table(file, columns=SCHEMAS[name].names, partitioning=None))
    return pa.concat_tables(tables) if tables else None


def files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.glob("part-*.parquet"))
    return [path] if path.exists() else []


def remove(directory: Path, name: str) -> None:
    path = directory / f"{name}.parquet"
    with writing(path):
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)


@dataclass(eq=False)
class Buffer:
    """Columns that grow row by row, for one table."""

    name: str
    columns: dict[str, list[object]] = field(default_factory=dict)

    def add(self, row: Mapping[str, object]) -> None:
        """Add a row; a column that it is the first to have starts with it."""
        for column, value in row.items():
            self.columns.setdefault(column, []).append(value)

    def extend(self, columns: Mapping[str, Sequence[object]]) -> None:
        for column, values in columns.items():
            self.columns.setdefault(column, []).extend(values)

    def __len__(self) -> int:
        return max(map(len, self.columns.values()), default=0)

    def table(self) -> "pa.Table":
        return table(self.name, self.columns)


BLOCK_ROWS = 8192
"""Rows that a `ColumnBuffer` gathers before they become Arrow columns, so that text does not pile up as objects."""


@dataclass(eq=False)
class ColumnBuffer:
    """Columns that grow by pieces, for one table: an Arrow column for every piece would cost more than its rows."""

    name: str
    _pieces: list[Mapping[str, Column]] = field(default_factory=list)
    _rows: int = 0
    _blocks: "list[pa.Table]" = field(default_factory=list)

    def add(self, columns: Mapping[str, Column]) -> None:
        """Add rows; every piece has the same columns."""
        self._pieces.append(columns)
        self._rows += max(map(len, columns.values()))
        if self._rows >= BLOCK_ROWS:
            self._close_block()

    def table(self) -> "pa.Table":
        self._close_block()
        return pa.concat_tables(self._blocks) if self._blocks else SCHEMAS[self.name].empty_table()

    def _close_block(self) -> None:
        if self._pieces:
            self._blocks.append(table(self.name, {column: self._joined(column) for column in self._pieces[0]}))
            self._pieces, self._rows = [], 0

    def _joined(self, column: str) -> Column:
        pieces = [piece[column] for piece in self._pieces]
        if isinstance(pieces[0], np.ndarray):
            return np.concatenate([np.asarray(piece) for piece in pieces])
        return list(chain.from_iterable(pieces))
