"""Answers judged on Spark, where they outgrow one machine or lie on a cluster's file system: DuckDB in every task."""

import pickle
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from freshkeeper.maintenance.analysis import judging
from freshkeeper.maintenance.analysis.cluster_files import ClusterFiles
from freshkeeper.maintenance.analysis.judging import DuckDB, Judge, Parts
from freshkeeper.maintenance.analysis.ship import ship
from freshkeeper.maintenance.journal.journal import SCHEMAS
from freshkeeper.maintenance.journal.run_json import FILE

if TYPE_CHECKING:
    from pyspark import Broadcast

TASKS = 4
"""To a core; a task judges one slice after another, so that what they are judged by is unpacked once for them."""


class Spark(DuckDB):
    """Slices of answers side by side on executors; what they give meets at the driver."""

    name = "spark"
    failures = (*DuckDB.failures, PySparkException, Py4JError)

    def __init__(self, session: SparkSession) -> None:
        """Use a session with its settings."""
        self._session = session
        self._files = ClusterFiles(session)
        self._directory = tempfile.TemporaryDirectory(prefix="freshkeeper-")

    def near(self, run: str) -> Path:
        """Copy a run from a cluster except for its answers, of which only the columns are copied."""
        if "://" not in run:
            return Path(run)
        here = Path(self._directory.name)
        for name in (FILE, *(f"{table}.parquet" for table in SCHEMAS if table != "answers")):
            self._files.fetch(f"{run}/{name}", here / name)
        try:
            columns = self._session.read.parquet(f"{run}/answers.parquet").columns
            parquet.write_table(pa.table({name: pa.nulls(0) for name in columns}), here / "answers.parquet")
        except (PySparkException, Py4JError) as error:
            if not isinstance(error, PySparkException) or error.getCondition() != "PATH_NOT_FOUND":
                (here / "answers.parquet").touch()
        return here

    def judged(self, run: str, judge: Judge) -> Iterator[Parts]:
        """Judge all answers in one job, whose tasks are slices."""
        context = self._session.sparkContext
        if not str(context.master).startswith("local"):
            ship(self._session, ["freshkeeper"])
        shared, most = context.broadcast(judge), max(1, judging.SLICE // 2)
        try:
            if "://" in run:
                yield from self._shuffled(f"{run}/answers.parquet", shared, most)
                return
            slices = judge.slices(most)
            tasks = context.parallelize(slices, min(len(slices), TASKS * context.defaultParallelism) or 1)
            yield from tasks.mapPartitions(lambda own: shared.value.judged(own, threads=1)).collect()
        finally:
            shared.destroy()

    def _shuffled(self, path: str, judge: "Broadcast[Judge]", most: int) -> Iterator[Parts]:
        """Have Spark read answers that executors cannot read, and bring the answers of each evaluation together."""
        rows = self._session.read.parquet(path)
        together = rows.repartition(-(-rows.count() // most) or 1, "setting", "policy", "seed", "t_ms")
        for row in together.mapInArrow(partial(_partition, judge), "parts binary").collect():
            yield pickle.loads(row["parts"])

    def deliver(self, made: Path, path: str) -> None:
        """Copy a directory onto the file system of the cluster, in the place of an earlier one."""
        self._files.put(made, path)

    def close(self) -> None:
        """Remove what was copied; the session goes on."""
        self._directory.cleanup()


def _partition(judge: "Broadcast[Judge]", rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Whole evaluations, as they come from a shuffle."""
    found = list(rows)
    if found:
        parts = judge.value.judged_rows(pa.Table.from_batches(found))
        yield pa.RecordBatch.from_pydict({"parts": [pickle.dumps(parts)]})
