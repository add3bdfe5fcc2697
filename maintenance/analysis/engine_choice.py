"""The engines of an analysis: DuckDB in this process where data are small or there is no Java, else Spark."""

from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from freshkeeper.maintenance.analysis.judging import DuckDB
from freshkeeper.maintenance.analysis.spark_session import LEAST_JAVA, java_version, spark_session
from freshkeeper.maintenance.base.errors import ConfigError, check_name
from freshkeeper.maintenance.journal.journal import files

NAMES = ["auto", "duckdb", "spark"]
LOCAL = "local[*]"
SMALL = 200_000_000
"""Answers up to which one machine is enough, and quicker than Spark on it."""


def chosen(
    run: str, name: str = "auto", master: str = LOCAL, settings: Mapping[str, str] | None = None
) -> tuple[DuckDB, str]:
    """Return the engine for a run, and a sentence that says which it is and why."""
    check_name("engine", name, NAMES)
    taken, why = (name, "as it was asked for") if name != "auto" else _fitting(run, master, settings or {})
    if taken == "duckdb":
        if "://" in run:
            raise ConfigError(f"{run}: DuckDB reads what is on this machine; --engine spark reads what a cluster has")
        if master != LOCAL or settings:
            raise ConfigError("--master and --set are Spark's; leave them out, or --engine duckdb")
        return DuckDB(), f"on DuckDB, {why}"
    session = spark_session(master, settings)
    from freshkeeper.maintenance.analysis.spark_engine import Spark

    return Spark(session), f"on Spark, {why}"


def _fitting(run: str, master: str, settings: Mapping[str, str]) -> tuple[str, str]:
    if "://" in run:
        return "spark", "as the run is on a cluster's file system"
    if master != LOCAL or settings:
        return "spark", "as --master or --set is given"
    spark = find_spec("pyspark") is not None and (java_version() or 0) >= LEAST_JAVA
    rows = rows_of(Path(run), "answers")
    if rows <= SMALL:
        return "duckdb", f"as {rows:,} answers are few enough for one machine"
    if not spark:
        return "duckdb", f"as Spark, which {rows:,} answers are for, lacks Java {LEAST_JAVA} or is not installed"
    return "spark", f"as {rows:,} answers are many for one machine"


def rows_of(run: Path, table: str) -> int:
    """Return the number of rows of a table from the footers of its files; a file that is no Parquet has none."""
    found = 0
    for file in files(run / f"{table}.parquet"):
        with suppress(pa.ArrowInvalid, OSError):
            found += parquet.ParquetFile(file).metadata.num_rows
    return found
