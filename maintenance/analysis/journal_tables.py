"""The tables of a run directory or a journal in a database of DuckDB, typed, and with a column `moment`.

A missing table becomes a note: a sentence that says what cannot be told without it. A missing column is an error.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import duckdb

from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.journal.run_json import FILE, About, Setting

Database: TypeAlias = "duckdb.DuckDBPyConnection"
MEMORY = "1500MB"
"""Of one database; an analysis has two, one for what slices gave and one for the slice that is judged."""
NULLS = "nulls_first_on_asc_last_on_desc"
UNKNOWN = 1 - 2**63
"""When a copy was fetched of which nobody knows; it is never fresh."""
DEFAULTS: dict[str, str] = {
    "setting": "''", "policy": "''", "case": "'bgp'", "knowledge": "''", "seed": "0", "weight": "1", "warmup": "FALSE",
    "late": "FALSE", "refreshed_ms": str(UNKNOWN),
}  # fmt: skip
"""What stands in for a value that is not there; all others stay null."""
WITHOUT: Mapping[str, str] = {
    "evaluations": "misses, the warm-up, budgets and the time of decisions cannot be told",
    "refreshes": "wasted and missed refreshes cannot be told",
    "answers": "whether answers were fresh cannot be told independently of the engine",
    "changes": "there is no truth about every answer",
    "audits": "nothing can be told of audits",
}
"""The consequence of a missing table."""


class Cut(NamedTuple):
    """The rows of a table that an analysis reads: parts, and a condition."""

    parts: Sequence[Path]
    where: str = "TRUE"


Cuts: TypeAlias = Mapping[str, Cut]
"""By the names of tables."""


@dataclass(frozen=True)
class Tables:
    """The tables of a run. Each is a view `own_NAME` with a column `moment`, and is empty where the run has none."""

    there: frozenset[str]
    answers: str
    """SQL that makes answers of `raw_answers`"""
    parts: Sequence[Path]
    """the files of answers"""
    settings: Mapping[str, Setting]
    notes: list[str]

    @property
    def judged(self) -> bool:
        """True if answers can be judged by the truth."""
        return {"answers", "changes"} <= self.there


@contextmanager
def opened(threads: int | None = None) -> Iterator[Database]:
    """Open a database in memory, with a temporary directory and as many threads as cores, or as given."""
    with tempfile.TemporaryDirectory(prefix="freshkeeper-") as place:
        config: dict[str, Any] = {"temp_directory": place, "memory_limit": MEMORY, "default_null_order": NULLS}
        with duckdb.connect(config=config | ({"threads": threads} if threads else {})) as database:
            yield database


def name_parts(database: Database, name: str, parts: Sequence[Path]) -> list[str]:
    """Name the parts of a table `raw_NAME`, and give its columns; none where there are no parts."""
    if not parts:
        return []
    table = database.read_parquet([str(part) for part in parts], union_by_name=True)
    table.create_view(f"raw_{name}")
    return list(table.columns)


def read(database: Database, run: Path, cuts: Cuts | None) -> Tables:
    """Read the tables of a run, or the parts and rows that the cuts name."""
    notes: list[str] = []
    cuts = cuts or {name: Cut(journal.files(run / f"{name}.parquet")) for name in journal.SCHEMAS}
    found = {name: _columns(database, name, cut.parts, notes) for name, cut in cuts.items()}
    raw = {name: columns for name, columns in found.items() if columns}
    settings: Mapping[str, Setting] = {}
    with suppress(OSError, ValueError):
        settings = About.model_validate_json((run / FILE).read_text("utf-8")).settings
    rows = {}
    for name, cut in cuts.items():
        moment = "" if name == "changes" else ", t_ms AS moment"
        rows[name] = f"SELECT *{moment} FROM ({_fitted(name, raw.get(name, ()), cut.where)}) AS fitted"
        database.sql(rows[name]).create_view(f"own_{name}")
    parts = cuts["answers"].parts
    return Tables(frozenset(raw), rows["answers"], parts, settings, notes)


def _columns(database: Database, name: str, parts: Sequence[Path], notes: list[str]) -> list[str]:
    """Return the columns of a table as it was written, or none where the table cannot be used."""
    why = "is not there"
    try:
        columns = name_parts(database, name, parts)
    except duckdb.Error:
        columns, why = [], "is not readable as Parquet"
    if columns:
        _check_parts(database, name, parts)
        return columns
    if (name, why) != ("audits", "is not there"):
        hint = " (simulate with --answers to have it)" if (name, why) == ("answers", "is not there") else ""
        notes.append(f"{name}.parquet {why}{hint}: {WITHOUT[name]}.")
    return []


def _check_parts(database: Database, name: str, parts: Sequence[Path]) -> None:
    """Raise InputError if a part of a table lacks a column: another version of freshkeeper wrote that part."""
    files = [str(part) for part in parts]
    by_file = "SELECT file_name, list(name) FROM parquet_schema($1) GROUP BY file_name ORDER BY file_name"
    for file, columns in database.execute(by_file, [files]).fetchall():
        path = Path(file).parts
        shown = Path(*path[path.index(f"{name}.parquet") :])  # a copy of a cluster's file lies in a temporary directory
        journal.check_columns(shown, name, columns)


def _fitted(name: str, columns: Sequence[str], where: str) -> str:
    """Every column of the journal's schema with its type; a value that cannot be of that type is null."""
    made = []
    for part in journal.SCHEMAS[name]:
        value = f'try_cast("{part.name}" AS {part.type})' if part.name in columns else f"cast(NULL AS {part.type})"
        default = DEFAULTS.get(part.name)
        made.append((value if default is None else f"coalesce({value}, {default})") + f' AS "{part.name}"')
    return f"SELECT {', '.join(made)} " + (f"FROM raw_{name} WHERE {where}" if columns else "WHERE FALSE")


def located(path: str) -> str:
    """Return a path that processes in other directories understand; addresses of file systems stay."""
    return path if "://" in path else str(Path(path).resolve())
