"""The tables of a run directory or a journal made to fit: typed, and with every column.

What is missing (a table, a column of an older schema) becomes a note, a sentence that says what cannot be told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.journal.run_json import FILE, About, Setting
from freshkeeper.maintenance.pipeline.analysis.analysis_database import Database, UnreadableError
from freshkeeper.maintenance.pipeline.analysis.duckdb_engine import DuckDB, located
from freshkeeper.maintenance.pipeline.analysis.judging import UNKNOWN
from freshkeeper.policies.errors import InputError

TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean"}
DEFAULTS: dict[str, str] = {
    "setting": "''", "policy": "''", "case": "'bgp'", "knowledge": "''", "seed": "0", "weight": "1", "warmup": "FALSE",
    "late": "FALSE",
}  # fmt: skip
"""What stands in for a value that is not there; all others stay null."""
NEEDED = {
    "evaluations": (),
    "refreshes": ("sr", "t_ms"),
    "answers": ("t_ms", "sr", "refreshed_ms"),
    "changes": ("sr", "t_ms"),
    "audits": ("t_ms", "fresh"),
}
"""Without these columns a table tells nothing."""
WITHOUT = {
    "evaluations": "misses, the warm-up, budgets and the time of decisions cannot be told",
    "refreshes": "wasted and missed refreshes cannot be told",
    "answers": "whether answers were fresh cannot be told independently of the engine",
    "changes": "there is no truth about every answer",
    "audits": "nothing can be told of audits",
}
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

    @property
    def gammas(self) -> list[tuple[str, float]]:
        """By setting, where run.json says what is paid in."""
        return [(name, about.budget) for name, about in self.settings.items() if about.budget is not None]

    @property
    def fitted_answers(self) -> str:
        """SQL over `raw_answers`; of a copy's age that nobody knows says `UNKNOWN`."""
        columns = f"* REPLACE (coalesce(refreshed_ms, {UNKNOWN}) AS refreshed_ms), {self.moment} AS moment"
        return f"SELECT {columns} FROM ({fitted('answers', self.answers)}) AS fitted"

    @property
    def caseless(self) -> bool:
        """Whether the case of answers is that of their evaluations."""
        return "case" not in self.answers and "evaluations" in self.there


def read(engine: DuckDB, database: Database, run: str) -> Tables:
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
        notes.append(f"changes.parquet does not say which setting a change is of: {WITHOUT['changes']}.")
        del raw["changes"]
    database.view("own_changes", fitted("changes", raw.get("changes", ())))
    return Tables(frozenset(raw), key, every["answers"], lacking, settings, notes)


def _columns(engine: DuckDB, database: Database, run: str, name: str, notes: list[str]) -> list[str]:
    """Of a table as it was written; none where it cannot be used."""
    try:
        columns = engine.columns(database, name, f"{run}/{name}.parquet")
        lacking = [column for column in NEEDED[name] if column not in columns]
        why = f"has no column {' nor '.join(map(repr, lacking))}" if lacking else ""
        if not columns:
            why = "is not there"
    except UnreadableError:
        columns, why = [], "is not readable as Parquet"
    if not why or (name, why) == ("audits", "is not there"):
        return columns
    hint = " (simulate with --answers to have it)" if (name, why) == ("answers", "is not there") else ""
    notes.append(f"{name}.parquet {why}{hint}: {WITHOUT[name]}.")
    return []


def fitted(name: str, columns: Sequence[str]) -> str:
    """Every column of the journal's schema with its type; a value that cannot be of that type is null."""
    made = []
    for part in journal.SCHEMAS[name]:
        kind = TYPES[part.type]
        value = f'try_cast("{part.name}" AS {kind})' if part.name in columns else f"cast(NULL AS {kind})"
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
