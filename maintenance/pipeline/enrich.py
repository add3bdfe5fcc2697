"""`enrich`: a Spark stream joined with a view that is kept fresh within a budget, every answer with its freshness.

    events ─▶ counts per key and evaluation (Spark) ─▶ evaluations that are due: window, policy, source (driver)
           ─▶ answers ─▶ sink, every micro-batch once

`foreachBatch` carries it: a micro-batch brings elements, the watermark makes evaluations due, each has a budget of its
own, and a log that is on the disk ends the micro-batch. docs/scale.md says how this runs on a cluster.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyarrow import parquet

from freshkeeper.maintenance.budget.ledger import Amount, BudgetRule
from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.files import whole_directory
from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import check_columns, counted
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Step
from freshkeeper.maintenance.pipeline.enrichment.on_driver import JOURNAL, Settings, Warm, on_the_driver, shape_of
from freshkeeper.maintenance.pipeline.enrichment.once import Once
from freshkeeper.maintenance.service.function_source import SourceLike, source_of
from freshkeeper.maintenance.settings.durations import to_delay
from freshkeeper.maintenance.view.changes import ChangeModel
from freshkeeper.maintenance.view.learned import Learned
from freshkeeper.policies.base import Case, Policy
from freshkeeper.policies.errors import ConfigError, check_name
from freshkeeper.policies.registry import make

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["Files", "OnCluster", "Warm", "enrich", "read_journal"]

Sink: TypeAlias = Callable[["DataFrame", int], None]
"""May be called again with the same number and the same rows, after a kill; the second time replaces the first."""
FORMATS = ["parquet", "json", "csv", "orc"]


@dataclass(frozen=True)
class Files:
    """`path`/batch_id=N for micro-batch N, which is replaced when it comes again; Spark reads `path` as one table."""

    path: str
    format: str = "parquet"

    def __post_init__(self) -> None:
        check_name("format of answers", self.format, FORMATS)

    def __call__(self, answers: "DataFrame", batch: int) -> None:
        """Write one micro-batch; after a kill the same number may come again."""
        answers.write.format(self.format).mode("overwrite").save(f"{self.path}/batch_id={batch}")

    @property
    def here(self) -> Path | None:
        """The directory, where answers can be written into it without Spark: Parquet, on a file system of machines."""
        scheme, _, path = self.path.rpartition("://")
        plain = scheme == "file" or not (scheme or self.path.startswith("file:") or "HADOOP_CONF_DIR" in os.environ)
        return Path(path).absolute() if self.format == "parquet" and plain else None


Duration = int | str
"""milliseconds, or as people write it: 4s, 500ms, PT1M"""


@dataclass(frozen=True)
class OnCluster:
    """The graph lies on the cluster, in shards under `shared`, which are scored there."""

    shared: str
    """a directory that the driver and all executors have under this name: of one machine, NFS, or mounted otherwise"""
    shards: int | None = None
    """in how many parts; as many as the cluster has cores unless said otherwise"""
    candidates: int = 100_000
    """so many may meet at the driver in an evaluation; where shards × budget is more, one price is found first"""

    def __post_init__(self) -> None:
        if "://" in self.shared or self.shared.startswith("hdfs:"):
            raise ConfigError(f"shared is {self.shared!r}; it is a directory that all have mounted, and no address")


def enrich(
    events: "DataFrame",
    *,
    on: str | Sequence[str],
    source: SourceLike,
    policy: Policy | str,
    budget: BudgetRule | Amount,
    window: Duration,
    step: Duration,
    state: Path | str,
    sink: Sink | Path | str,
    at: str = "event_time",
    delay: Duration = 0,
    start: int = 0,
    model: ChangeModel | None = None,
    case: Case | str = Case.BGP,
    warm: Warm | None = None,
    value: str = "string",
    seed: int = 0,
    graph: OnCluster | None = None,
    reached: Callable[[str], None] = lambda _: None,
) -> "DataStreamWriter":
    """Join a streaming DataFrame with a source; the writer that comes back is ready to `.trigger(...)` and `.start()`.

    `on` are the key columns, `at` the event time (a timestamp, or milliseconds), `delay` how late elements may come.
    `state` is a directory of the driver that outlives it; `sink` a path for Parquet, `Files`, or any function of
    (DataFrame, micro-batch). `value` is the type that values are written in. `graph` leaves edges and copies on the
    cluster, where the driver could not hold them. `reached` is told of every step.
    """
    if not events.isStreaming:
        raise ConfigError("enrich takes a streaming DataFrame: read the events with spark.readStream")
    columns = [on] if isinstance(on, str) else list(on)
    check_columns(events, columns, at)
    check_name("case", case, Case)
    settings = Settings(
        policy=make(policy) if isinstance(policy, str) else policy,
        budget=budget if isinstance(budget, BudgetRule) else BudgetRule.of(budget),
        window=WindowSpec(window, step, start),
        delay=_delay(delay),
        model=model or Learned(),
        case=Case(case),
        seed=seed,
        warm=warm,
    )
    to, once, spark = (
        sink if callable(sink) else Files(str(sink)),
        Once(source_of(source), reached),
        events.sparkSession,
    )
    shape, here = shape_of(events.schema, columns, value), to.here if isinstance(to, Files) else None
    if graph is None:
        begin, write = on_the_driver(settings, once, shape), partial(_from_driver, spark, to, here)
    else:
        from freshkeeper.maintenance.pipeline.enrichment.on_executors import on_the_cluster

        staging = here or Path(graph.shared).absolute() / "answers"
        begin = on_the_cluster(settings, once, shape, spark, graph, staging)
        write = partial(_from_shards, spark, to, here, staging, shape.schema)
    query = settings.batches(once, Path(state), begin, write)

    def micro_batch(frame: "DataFrame", number: int) -> None:
        query.process(number, counted(frame, columns, at, settings.window))

    return events.writeStream.foreachBatch(micro_batch).option("checkpointLocation", str(Path(state) / "checkpoint"))


def read_journal(state: Path | str, name: str) -> pa.Table:
    """`evaluations` or `refreshes` of a query's state directory, in the order of micro-batches."""
    found = journal.read(Path(state) / JOURNAL, name)
    return journal.table(name, {}) if found is None else found


def _from_driver(spark: "SparkSession", sink: Sink, here: Path | None, steps: Sequence[Step], batch: int) -> None:
    answers = pa.concat_tables([step.answers for step in steps if step.answers is not None])
    if answers.num_rows and here is None:
        sink(spark.createDataFrame(answers), batch)
    elif answers.num_rows and here is not None:
        with whole_directory(here / f"batch_id={batch}") as place:
            parquet.write_table(answers, place / "answers.parquet")


def _from_shards(
    spark: "SparkSession", sink: Sink, here: Path | None, staging: Path, schema: pa.Schema, _: object, batch: int
) -> None:
    """What they wrote is moved into its place, or read by Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    written = staging / f"_{batch}"
    if written.exists() and here is None:
        sink(spark.read.schema(from_arrow_schema(schema)).parquet(str(written)), batch)
    elif written.exists() and here is not None:
        shutil.rmtree(here / f"batch_id={batch}", ignore_errors=True)
        written.rename(here / f"batch_id={batch}")


def _delay(written: Duration) -> int:
    try:
        return to_delay(written) if isinstance(written, str) else written
    except ValueError as error:
        raise ConfigError(f"delay: {error}") from None
