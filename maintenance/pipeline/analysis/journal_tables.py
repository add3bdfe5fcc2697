"""The tables of a run directory or a journal as Spark sees them, made to fit: typed, and with every column.

What is missing (a table, a column of an older schema) becomes a note, a sentence that says what cannot be told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.journal.run_json import FILE, About, Setting
from freshkeeper.policies.errors import InputError

SPARK_FAILED = (PySparkException, Py4JError)
TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean"}
DEFAULTS: dict[str, str | int | bool] = {
    "setting": "", "policy": "", "case": "bgp", "knowledge": "", "seed": 0, "weight": 1, "warmup": False, "late": False,
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


Settings = Mapping[str, Setting]


@dataclass(frozen=True, eq=False)
class Tables:
    """What there is, or None; `at` is the instant or number by which answers, refreshes and evaluations are matched."""

    evaluations: DataFrame | None
    refreshes: DataFrame | None
    answers: DataFrame | None
    changes: DataFrame | None
    audits: DataFrame | None = None
    settings: Settings = field(default_factory=dict)
    aggregates: bool = False
    notes: list[str] = field(default_factory=list)


def read(spark: SparkSession, run: str) -> Tables:
    """Everything in a run; raises `AnalysisError` where there is nothing to analyse."""
    notes: list[str] = []
    place = located(run)
    raw = {name: _raw(spark, place, name, notes) for name in journal.SCHEMAS}
    if raw["evaluations"] is None and raw["answers"] is None:
        raise AnalysisError(f"{run} cannot be analysed: it has neither evaluations.parquet nor answers.parquet")
    found = {name: None if table is None else _fitted(name, table, notes) for name, table in raw.items()}
    key = _moment(raw, notes)
    matched = {
        name: table.withColumn("at", F.col(key)) if table is not None and name != "changes" else table
        for name, table in found.items()
    }
    answers = _with_case(matched["answers"], raw["answers"], matched["evaluations"])
    settings = _settings(spark, place)
    known = matched["evaluations"] if matched["evaluations"] is not None else answers
    changes = _with_owner(matched["changes"], raw["changes"], known, settings, notes)
    aggregates = _aggregates(answers, raw["answers"], notes)
    evaluations, refreshes, audits = (matched[name] for name in ("evaluations", "refreshes", "audits"))
    return Tables(evaluations, refreshes, answers, changes, audits, settings, aggregates, notes)


def located(path: str) -> str:
    """A path that Spark understands wherever its own processes were started; what names a file system stays."""
    return path if "://" in path else str(Path(path).resolve())


def _raw(spark: SparkSession, run: str, name: str, notes: list[str]) -> DataFrame | None:
    path, why = f"{run}/{name}.parquet", ""
    try:
        if Path(path).is_file():
            parquet.ParquetFile(path)  # Spark would log pages about a file that is no Parquet
        table = spark.read.parquet(path)
        lacking = [column for column in NEEDED[name] if column not in table.columns]
        why = f"has no column {' nor '.join(map(repr, lacking))}" if lacking else ""
    except (OSError, ValueError):
        why = "is not readable as Parquet"
    except SPARK_FAILED as error:
        absent = isinstance(error, PySparkException) and error.getCondition() == "PATH_NOT_FOUND"
        why = "is not there" if absent else "is not readable as Parquet"
    if (name, why) == ("audits", "is not there"):
        return None
    if why:
        hint = " (simulate with --answers to have it)" if (name, why) == ("answers", "is not there") else ""
        notes.append(f"{name}.parquet {why}{hint}: {WITHOUT[name]}.")
        return None
    return table


def _fitted(name: str, table: DataFrame, notes: list[str]) -> DataFrame:
    """Every column of the journal's schema with its type; a value that cannot be of that type is null."""
    lacking = [part.name for part in journal.SCHEMAS[name] if part.name not in table.columns]
    notes.extend(f"The {MEANINGS[name, column]}." for column in lacking if (name, column) in MEANINGS)
    columns = []
    for part in journal.SCHEMAS[name]:
        kind = TYPES[part.type]
        value = F.lit(None).cast(kind) if part.name in lacking else F.col(part.name).try_cast(kind)
        default = DEFAULTS.get(part.name)
        columns.append((value if default is None else F.coalesce(value, F.lit(default))).alias(part.name))
    return table.select(*columns)


def _moment(raw: Mapping[str, DataFrame | None], notes: list[str]) -> str:
    """By which column evaluations are told apart: the time, or where one has none the number."""
    have = [set(table.columns) for name, table in raw.items() if table is not None and name != "changes"]
    for column in ("t_ms", "k"):
        if all(column in columns for columns in have):
            return column
    notes.append("The evaluations have no times and answers no numbers, so the two cannot be matched.")
    return "t_ms"


def _with_case(answers: DataFrame | None, raw: DataFrame | None, evaluations: DataFrame | None) -> DataFrame | None:
    """Answers of an older schema are of the case of their evaluations."""
    if answers is None or raw is None or "case" in raw.columns or evaluations is None:
        return answers
    known = evaluations.groupBy("setting", "policy").agg(F.max("case").alias("known"))
    joined = answers.join(F.broadcast(known), ["setting", "policy"], "left")
    return joined.withColumn("case", F.coalesce("known", "case")).drop("known")


def _with_owner(
    changes: DataFrame | None, raw: DataFrame | None, known: DataFrame | None, settings: Settings, notes: list[str]
) -> DataFrame | None:
    """Changes that name no setting or no seed are of every one alike, unless settings differ in the truth."""
    if changes is None or raw is None or known is None:
        return changes
    lacking = [name for name in ("setting", "seed") if name not in raw.columns]
    varied = {key for setting in settings.values() for key in setting.varied}
    if "setting" in lacking and not varied <= {"budget", "bank", "knowledge", "case"}:
        notes.append(f"changes.parquet does not say which setting a change is of: {WITHOUT['changes']}.")
        return None
    if not lacking:
        return changes
    return changes.drop(*lacking).crossJoin(F.broadcast(known.select(*lacking).distinct())).select(*changes.columns)


def _settings(spark: SparkSession, run: str) -> Settings:
    """What run.json says of every setting; nothing where it does not."""
    try:
        text = spark.read.text(f"{run}/{FILE}", wholetext=True).collect()
        return About.model_validate_json(text[0]["value"]).settings
    except (*SPARK_FAILED, LookupError, ValueError):
        return {}


def _aggregates(answers: DataFrame | None, raw: DataFrame | None, notes: list[str]) -> bool:
    """Whether any answer is an aggregate."""
    if answers is None or raw is None:
        return False
    found = bool(answers.filter(F.col("case") == "aggregate").take(1))
    if found and "sn" not in raw.columns:
        notes.append("Aggregates without their lookup key are counted input by input.")
        return False
    return found
