"""The tables of a run directory or a journal in a database of DuckDB, made to fit: typed, and with every column.

What is missing (a table, a column of an older schema) becomes a note, a sentence that says what cannot be told.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.journal.run_json import FILE, About, Setting
from freshkeeper.policies.errors import InputError

if TYPE_CHECKING:
    from freshkeeper.maintenance.pipeline.analysis.engine_choice import DuckDB

Row = dict[str, Any]
MEMORY = "1500MB"
"""Of one database; an analysis has two, one for what slices gave and one for the slice that is judged."""
DEFAULTS: dict[str, str] = {
    "setting": "''", "policy": "''", "case": "'bgp'", "knowledge": "''", "seed": "0", "weight": "1", "warmup": "FALSE",
    "late": "FALSE",
}  # fmt: skip
"""What stands in for a value that is not there; all others stay null."""
WITHOUT: Mapping[str, tuple[str, Sequence[str]]] = {
    "evaluations": ("misses, the warm-up, budgets and the time of decisions cannot be told", ()),
    "refreshes": ("wasted and missed refreshes cannot be told", ("sr", "t_ms")),
    "answers": (
        "whether answers were fresh cannot be told independently of the engine",
        ("t_ms", "sr", "refreshed_ms"),
    ),
    "changes": ("there is no truth about every answer", ("sr", "t_ms")),
    "audits": ("nothing can be told of audits", ("t_ms", "fresh")),
}
"""What is not known without a table, and without which of its columns it tells nothing."""
MEANINGS = {
    **{("evaluations", column): words for column, words in journal.UNRECORDED.items()},
    ("evaluations", "results"): "evaluations do not say how many answers they have, so misses cannot be told",
    ("evaluations", "expected_fresh"): "expected freshness was not recorded, so its calibration cannot be told",
    ("refreshes", "error"): "failed refreshes were not recorded and all are taken as done",
    ("refreshes", "changed"): "refreshes do not say whether the engine saw a change",
    ("refreshes", "latency_ms"): "the latency of refreshes was not recorded",
    ("answers", "weight"): "answers have no weight and each is taken as of one window mapping",
    ("answers", "sn"): "answers do not name their lookup key, so degrees and aggregates cannot be told",
}


class AnalysisError(InputError):
    """A run that cannot be analysed at all."""


class UnreadableError(Exception):
    """A file that is there and is no Parquet."""


class Database:
    """A database of its own, in memory and in a temporary directory."""

    def __init__(self, threads: int | None = None) -> None:
        """Nothing is in it yet; as many threads as there are cores, unless it is said."""
        self._directory = tempfile.TemporaryDirectory(prefix="freshkeeper-")
        config: dict[str, Any] = {"temp_directory": self._directory.name, "memory_limit": MEMORY}
        config |= {"default_null_order": "nulls_first_on_asc_last_on_desc"} | ({"threads": threads} if threads else {})
        self._connection = duckdb.connect(config=config)
        self.execute = self._connection.execute

    def parquet(self, name: str, parts: Sequence[Path]) -> list[str]:
        """Name the parts of a table, and give its columns; none where there are no parts."""
        if not parts:
            return []
        try:
            table = self._connection.read_parquet([str(part) for part in parts], union_by_name=True)
        except duckdb.Error as error:
            raise UnreadableError(str(parts[0])) from error
        table.create_view(name)
        return list(table.columns)

    def take(self, name: str, rows: pa.Table) -> None:
        """Make a table of rows from elsewhere."""
        self._connection.from_arrow(rows).create(name)

    def add(self, name: str, rows: pa.Table) -> None:
        """More rows of such a table."""
        self._connection.from_arrow(rows).insert_into(name)

    def view(self, name: str, query: str) -> None:
        """Name a query."""
        self.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def keep(self, name: str, query: str) -> None:
        """The same, computed once however often it is used."""
        self.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def rows(self, query: str) -> list[Row]:
        """What a query gives, as dictionaries."""
        found = self._connection.sql(query)
        return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]

    def columns(self, query: str) -> pa.Table:
        """The same, as columns."""
        found: pa.Table = self._connection.sql(query).to_arrow_table()
        return found

    def write(self, name: str, path: Path) -> None:
        """One part, named as Spark and journals name theirs."""
        path.mkdir(parents=True)
        part = str(path / "part-0.parquet").replace("'", "''")
        self.execute(f"COPY {name} TO '{part}' (FORMAT parquet, COMPRESSION zstd)")

    def close(self) -> None:
        """Close the database and remove what it put on disk."""
        self._connection.close()
        self._directory.cleanup()


@dataclass(frozen=True)
class Tables:
    """Which tables there are; all but the answers have every column and `moment`, and are empty where they are not."""

    there: frozenset[str]
    moment: str = "t_ms"
    """The column of answers that evaluations differ by."""
    answers: Sequence[str] = ()
    """The columns that they have."""
    unnamed: frozenset[str] = frozenset()
    """What of setting and seed changes do not name."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def judged(self) -> bool:
        """Whether answers can be judged by the truth."""
        return {"answers", "changes"} <= self.there


def read(engine: "DuckDB", database: Database, run: str) -> Tables:
    """Everything in a run; raises `AnalysisError` where there is nothing to analyse."""
    notes: list[str] = []
    place = located(run)
    every = {name: _columns(engine, database, place, name, notes) for name in journal.SCHEMAS}
    raw = {name: columns for name, columns in every.items() if columns}
    if not {"evaluations", "answers"} & raw.keys():
        raise AnalysisError(f"{run} cannot be analysed: it has neither evaluations.parquet nor answers.parquet")
    every_column = [(name, part.name) for name in raw for part in journal.SCHEMAS[name]]
    notes += [f"The {MEANINGS[of]}." for of in every_column if of[1] not in raw[of[0]] and of in MEANINGS]
    key = _moment(raw, notes)
    try:
        settings = About.model_validate_json(engine.near(f"{place}/{FILE}").read_text("utf-8")).settings
    except (OSError, ValueError):
        settings = {}
    for name in ("evaluations", "refreshes", "audits"):
        database.view(name, f"SELECT *, {key} AS moment FROM ({fitted(name, every[name])}) AS fitted")
    lacking = frozenset(name for name in ("setting", "seed") if name not in every["changes"])
    varied = {key for setting in settings.values() for key in setting.varied}
    if "setting" in lacking and "changes" in raw and not varied <= {"budget", "bank", "knowledge", "case"}:
        notes.append(f"changes.parquet does not say which setting a change is of: {WITHOUT['changes'][0]}.")
        del raw["changes"]
    database.view("own_changes", fitted("changes", raw.get("changes", ())))
    return Tables(frozenset(raw), key, every["answers"], lacking, settings, notes)


def _columns(engine: "DuckDB", database: Database, run: str, name: str, notes: list[str]) -> list[str]:
    """Of a table as it was written; none where it cannot be used."""
    untold, needed = WITHOUT[name]
    try:
        columns = engine.columns(database, name, f"{run}/{name}.parquet")
        lacking = [column for column in needed if column not in columns]
        why = f"has no column {' nor '.join(map(repr, lacking))}" if lacking else ""
        if not columns:
            why = "is not there"
    except UnreadableError:
        columns, why = [], "is not readable as Parquet"
    if not why or (name, why) == ("audits", "is not there"):
        return columns
    hint = " (simulate with --answers to have it)" if (name, why) == ("answers", "is not there") else ""
    notes.append(f"{name}.parquet {why}{hint}: {untold}.")
    return []


def fitted(name: str, columns: Sequence[str]) -> str:
    """Every column of the journal's schema with its type; a value that cannot be of that type is null."""
    made = []
    for part in journal.SCHEMAS[name]:
        value = f'try_cast("{part.name}" AS {part.type})' if part.name in columns else f"cast(NULL AS {part.type})"
        default = DEFAULTS.get(part.name)
        made.append((value if default is None else f"coalesce({value}, {default})") + f' AS "{part.name}"')
    return f"SELECT {', '.join(made)} {f'FROM raw_{name}' if columns else 'WHERE FALSE'}"


def _moment(raw: Mapping[str, list[str]], notes: list[str]) -> str:
    """By which column evaluations are told apart: the time, or where one has none the number."""
    have = [set(columns) for name, columns in raw.items() if name != "changes"]
    for column in ("t_ms", "k"):
        if all(column in columns for columns in have):
            return column
    notes.append("The evaluations have no times and answers no numbers, so the two cannot be matched.")
    return "t_ms"


def changes(tables: Tables) -> str:
    """Every change of every setting and seed, as those that name none are of every one; none without a truth."""
    if "changes" not in tables.there or not tables.unnamed:
        return "SELECT * FROM own_changes"
    names = sorted(tables.unnamed)
    whose = [f"{'every' if name in names else 'own'}.{name}" for name in ("setting", "seed")]
    every = f"(SELECT DISTINCT {', '.join(names)} FROM evaluations) AS every"
    return f"SELECT {', '.join(whose)}, own.sr, own.t_ms FROM own_changes AS own CROSS JOIN {every}"


def located(path: str) -> str:
    """A path that an engine understands wherever its processes were started; what names a file system stays."""
    return path if "://" in path else str(Path(path).resolve())


def total(what: str) -> str:
    """The sum of whole numbers as one, though it is added up in a wider type."""
    return f"cast(sum({what}) AS bigint)"


def number(when: str) -> str:
    """How many rows there are of which it is so."""
    return f"count(*) FILTER (WHERE {when})"
