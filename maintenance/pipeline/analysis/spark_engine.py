"""Answers judged on Spark, where they outgrow one machine or lie on a cluster's file system."""

import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from freshkeeper.maintenance.journal.journal import files
from freshkeeper.maintenance.pipeline.analysis.analysis_engine import UnreadableError
from freshkeeper.maintenance.pipeline.analysis.answer_pieces import (
    BATCH,
    WHOSE,
    Batch,
    batches,
    columns_of,
    fitted,
    judged_piece,
    judged_whole,
    shares,
)
from freshkeeper.maintenance.pipeline.analysis.judging import Judged, Parts
from freshkeeper.maintenance.pipeline.analysis.known import Known
from freshkeeper.maintenance.pipeline.ship import ship

if TYPE_CHECKING:
    from pyspark import Broadcast


class Spark:
    """Pieces of answers side by side on executors; what they give meets at the driver."""

    name = "spark"
    failures: tuple[type[Exception], ...] = (PySparkException, Py4JError)

    def __init__(self, session: SparkSession) -> None:
        """The settings are the session's."""
        self._session = session
        self._directory = tempfile.TemporaryDirectory(prefix="freshkeeper-")

    def near(self, path: str) -> Path:
        """Copied, if it is on a cluster's file system."""
        if "://" not in path:
            return Path(path)
        here = Path(self._directory.name) / path.rpartition("/")[2]
        system, there = self._place(path)
        if system.exists(there):
            system.copyToLocalFile(False, there, self._place(f"file://{here}")[1], True)
        return here

    def columns(self, path: str) -> list[str]:
        """Of all parts."""
        if "://" not in path:
            return columns_of(files(Path(path)))
        system, there = self._place(path)
        try:
            return self._session.read.parquet(path).columns if system.exists(there) else []
        except PySparkException as error:
            raise UnreadableError(path) from error

    def judged(self, path: str, known: Known, moment: str) -> Iterator[Parts]:
        """As many pieces at once as there are cores; one job."""
        context = self._session.sparkContext
        if not str(context.master).startswith("local"):
            ship(self._session, ["freshkeeper"])
        shared = context.broadcast(known)
        try:
            if "://" in path:
                yield from self._shuffled(path, shared, moment)
                return
            pieces = shares(batches(files(Path(path)), moment), 4 * context.defaultParallelism)
            found = context.parallelize(pieces, max(len(pieces), 1)).map(partial(_piece, shared, moment)).collect()
            yield from judged_whole(known, found)
        finally:
            shared.destroy()

    def _shuffled(self, path: str, known: "Broadcast[Known]", moment: str) -> Iterator[Parts]:
        """What executors cannot read by themselves Spark reads for them, and brings evaluations together."""
        rows = self._session.read.parquet(path)
        there = [name for name in (*WHOSE, moment) if name in rows.columns]
        apart = rows.repartition(-(-rows.count() // BATCH) or 1, *there)
        for row in apart.mapInArrow(partial(_partition, known, moment), "parts binary").collect():
            yield pickle.loads(row["parts"])

    def deliver(self, made: Path, path: str) -> None:
        """Copied onto the cluster's file system, in the place of an earlier one."""
        if "://" in path:
            system, there = self._place(path)
            system.delete(there, True)
            system.copyFromLocalFile(False, True, self._place(f"file://{made}")[1], there)

    def _place(self, path: str) -> tuple[Any, Any]:
        """A file system and a path of it, as Hadoop has them."""
        context = self._session.sparkContext
        there = context._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
        return there.getFileSystem(context._jsc.hadoopConfiguration()), there

    def close(self) -> None:
        """Remove what was copied; the session goes on."""
        self._directory.cleanup()


def _piece(known: "Broadcast[Known]", moment: str, todo: Sequence[Batch]) -> tuple[Parts, pa.Table]:
    return judged_piece(known.value, moment, todo)


def _partition(known: "Broadcast[Known]", moment: str, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Whole evaluations, as they come from a shuffle."""
    found = list(rows)
    if found:
        parts = Judged(fitted(pa.Table.from_batches(found), known.value, moment), known.value).parts()
        yield pa.RecordBatch.from_pydict({"parts": [pickle.dumps(parts)]})
