"""Timestamped RDF for Spark: `<ms>` TAB `<statement in N-Quads>` per line, whatever brings the lines.

    statements(spark.readStream.option("maxBytesPerTrigger", "16m").text("readings/"))

It is SQL alone: files, Kafka's values, batches and streams will do, and executors run nothing of ours.
"""

from typing import TYPE_CHECKING

from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.streams.read_errors import OnError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

IRI, NODE = r'<[^\u0000-\u0020<>"{}|^`\\]*>', r"_:\S+"
LITERAL = rf'"(?:[^"\\]|\\.)*+"(?:\^\^{IRI}|@[A-Za-z]+(?:-[A-Za-z0-9]+)*)?'
LINE = (
    rf"^(\d{{1,15}})\t\s*({IRI}|{NODE})\s+({IRI})\s+({IRI}|{LITERAL}|{NODE})"
    rf"\s*(?:(?:{IRI}|{NODE})\s*)?\.\s*(?:#.*)?$"
)
NO_STATEMENT = r"^\s*(?:#.*)?$"
BETWEEN = "\u0001"
"""No term has it: what a line matches is asked once, and its parts are told apart by this."""
PARTS = ("subject", "predicate", "object")


def statements(lines: "DataFrame", column: str = "value", on_error: OnError | str = OnError.FAIL) -> "DataFrame":
    """Return a row per statement: t_ms, event_time, and subject, predicate and object as they are written.

    Empty lines and lines that begin with # mean nothing; what is no statement fails the query, or is skipped.
    """
    from pyspark.sql import functions as sql

    if on_error not in list(OnError):
        raise ConfigError(f"on_error cannot be {on_error!r}: {nearest(on_error, [each.value for each in OnError])}")
    said = sql.concat(sql.lit("no milliseconds, tab and statement: "), sql.substr(column, sql.lit(1), sql.lit(200)))
    wrong = sql.lit(False) if on_error == OnError.SKIP else sql.raise_error(said).cast("boolean")

    def is_statement(part: "Column") -> "Column":
        nothing = sql.element_at(part, 1).rlike(NO_STATEMENT)
        return sql.when(sql.size(part) == len(PARTS) + 1, True).when(nothing, False).otherwise(wrong)

    marked = sql.regexp_replace(column, LINE, BETWEEN.join(("$1", "$2", "$3", "$4")))
    rows = lines.select(sql.explode(sql.filter(sql.array(sql.split(marked, BETWEEN)), is_statement)).alias("part"))
    at = sql.element_at("part", 1).cast("bigint")
    named = [sql.element_at("part", n).alias(name) for n, name in enumerate(PARTS, 2)]
    return rows.select(at.alias("t_ms"), sql.timestamp_millis(at).alias("event_time"), *named)
