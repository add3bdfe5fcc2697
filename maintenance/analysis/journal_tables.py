"""The tables of a run directory or a journal in a database of DuckDB, made to fit: typed, and with every column.

What is missing (a table, a column of an older schema) becomes a note, a sentence that says what cannot be told.
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
    ("refreshes", "latency_ms"): "latency of refreshes was not recorded",
    ("answers", "weight"): "answers have no weight and each is taken as of one window mapping",
    ("answers", "sn"): "answers do not name their lookup key, so degrees and aggregates cannot be told",
}


class Cut(NamedTuple):
    """Where the rows of a table are: its parts, and which of their rows."""

    parts: Sequence[Path]
    where: str = "TRUE"


Cuts: TypeAlias = Mapping[str, Cut]
"""By the names of tables."""


@dataclass(frozen=True)
class Tables:
    """Which tables there are; as `own_NAME` they have every column and `moment`, and are empty where they are not."""

    there: frozenset[str]
    moment: str
    """The column of answers that evaluations differ by."""
    answers: Sequence[str]
    """The columns that they have, the SQL that makes them of `raw_answers`, and their parts."""
    fitted_answers: str
    parts: Sequence[Path]
    unnamed: frozenset[str]
    """What of setting and seed changes do not name."""
    settings: Mapping[str, Setting]
    notes: list[str]

    @property
    def judged(self) -> bool:
        """Whether answers can be judged by the truth."""
        return {"answers", "changes"} <= self.there


@contextmanager
def opened(threads: int | None = None) -> Iterator[Database]:
    """One of its own, in memory and in a temporary directory; as many threads as there are cores, unless it is said."""
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
    """Everything in a run, or of its tables what the cuts say."""
    notes: list[str] = []
    cuts = cuts or {name: Cut(journal.files(run / f"{name}.parquet")) for name in journal.SCHEMAS}
    found = {name: _columns(database, name, cut.parts, notes) for name, cut in cuts.items()}
    raw = {name: columns for name, columns in found.items() if columns}
    notes += [f"The {words}." for (name, column), words in MEANINGS.items() if name in raw and column not in raw[name]]
    key = _moment(raw, notes)
    settings: Mapping[str, Setting] = {}
    with suppress(OSError, ValueError):
        settings = About.model_validate_json((run / FILE).read_text("utf-8")).settings
    unnamed = frozenset({"setting", "seed"} - set(found["changes"]))
    varied = {key for setting in settings.values() for key in setting.varied}
    if "setting" in unnamed and "changes" in raw and not varied <= {"budget", "bank", "knowledge", "case"}:
        notes.append(f"changes.parquet does not say which setting a change is of: {WITHOUT['changes'][0]}.")
        del raw["changes"]
    rows = {}
    for name, cut in cuts.items():
        moment = "" if name == "changes" else f", {key} AS moment"
        rows[name] = f"SELECT *{moment} FROM ({_fitted(name, raw.get(name, ()), cut.where)}) AS fitted"
        database.sql(rows[name]).create_view(f"own_{name}")
    parts = cuts["answers"].parts
    return Tables(frozenset(raw), key, found["answers"], rows["answers"], parts, unnamed, settings, notes)


def _columns(database: Database, name: str, parts: Sequence[Path], notes: list[str]) -> list[str]:
    """Of a table as it was written; none where it cannot be used."""
    untold, needed = WITHOUT[name]
    try:
        columns = name_parts(database, name, parts)
        lacking = [column for column in needed if column not in columns]
        if columns and not lacking:
            return columns
        why = f"has no column {' nor '.join(map(repr, lacking))}" if columns else "is not there"
    except duckdb.Error:
        why = "is not readable as Parquet"
    if (name, why) != ("audits", "is not there"):
        hint = " (simulate with --answers to have it)" if (name, why) == ("answers", "is not there") else ""
        notes.append(f"{name}.parquet {why}{hint}: {untold}.")
    return []


def _fitted(name: str, columns: Sequence[str], where: str) -> str:
    """Every column of the journal's schema with its type; a value that cannot be of that type is null."""
    made = []
    for part in journal.SCHEMAS[name]:
        value = f'try_cast("{part.name}" AS {part.type})' if part.name in columns else f"cast(NULL AS {part.type})"
        default = DEFAULTS.get(part.name)
        made.append((value if default is None else f"coalesce({value}, {default})") + f' AS "{part.name}"')
    return f"SELECT {', '.join(made)} " + (f"FROM raw_{name} WHERE {where}" if columns else "WHERE FALSE")


def _moment(raw: Mapping[str, list[str]], notes: list[str]) -> str:
    """By which column evaluations are told apart: the time, or where one has none the number."""
    have = [set(columns) for name, columns in raw.items() if name != "changes"]
    for column in ("t_ms", "k"):
        if all(column in columns for columns in have):
            return column
    notes.append("The evaluations have no times and answers no numbers, so the two cannot be matched.")
    return "t_ms"


def located(path: str) -> str:
    """A path that an engine understands wherever its processes were started; what names a file system stays."""
    return path if "://" in path else str(Path(path).resolve())
