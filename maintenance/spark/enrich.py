"""`enrich_windows`: windows of a Spark stream joined with a view that is kept fresh within a budget.

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

from freshkeeper.maintenance.base.durations import duration, to_delay
from freshkeeper.maintenance.base.errors import ConfigError, check_name
from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.cache.budget.ledger import Amount, BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.fetching.function_source import SourceLike
from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.spark.enrichment.batch_arrivals import check_columns, counted
from freshkeeper.maintenance.spark.enrichment.micro_batches import JOURNAL, Batches, Begin
from freshkeeper.maintenance.spark.enrichment.on_driver import Settings, Shape, Step, Warm, on_the_driver
from freshkeeper.maintenance.spark.enrichment.once import RecordingFetcher
from freshkeeper.policies.base import Case, Policy
from freshkeeper.policies.registry import make

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["Files", "OnCluster", "Warm", "enrich_windows", "read_journal"]

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


def enrich_windows(
    events: "DataFrame",
    *,
    on: str | Sequence[str],
    source: SourceLike,
    policy: Policy | str,
    budget: BudgetRule | Amount,
    window: int | str,
    step: int | str,
    state: Path | str,
    sink: Sink | Path | str,
    at: str = "event_time",
    delay: int | str = 0,
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
        raise ConfigError("enrich_windows takes a streaming DataFrame: read the events with spark.readStream")
    columns = [on] if isinstance(on, str) else list(on)
    check_columns(events, columns, at)
    check_name("case", case, Case)
    settings = Settings(
        policy=make(policy) if isinstance(policy, str) else policy,
        budget=budget if isinstance(budget, BudgetRule) else BudgetRule.of(budget),
        window=WindowSpec(window, step, start),
        delay=duration("delay", delay, to_delay),
        model=model or Learned(),
        case=Case(case),
        seed=seed,
        warm=warm,
    )
    shape, once, spark = Shape.of(events.schema, columns, value), RecordingFetcher(source, reached), events.sparkSession
    to = sink if callable(sink) else Files(str(sink))
    staging = _here(to) or Path(graph.shared if graph else state).absolute() / "answers"
    if graph is None:
        begin: Begin = partial(on_the_driver, settings, once, shape)
        begin(None)  # what is wrong with the settings is said now, not in the first micro-batch
    else:
        from freshkeeper.maintenance.spark.enrichment.on_executors import on_the_cluster

        begin = on_the_cluster(settings, once, shape, spark, graph, staging)
    query = Batches.of(settings, once, Path(state), begin, partial(_write, spark, to, staging, shape.schema))

    def micro_batch(frame: "DataFrame", number: int) -> None:
        query.process(number, counted(frame, columns, at, settings.window))

    return events.writeStream.foreachBatch(micro_batch).option("checkpointLocation", str(Path(state) / "checkpoint"))


def read_journal(state: Path | str, name: str) -> pa.Table:
    """Read `evaluations` or `refreshes` of a query's state directory, in the order of micro-batches."""
    found = journal.read(Path(state) / JOURNAL, name)
    return journal.table(name, {}) if found is None else found


def _here(sink: Sink) -> Path | None:
    """Return the output directory if answers can be moved into it without Spark: Parquet on a mounted file system."""
    if not isinstance(sink, Files) or sink.format != "parquet":
        return None
    scheme, _, path = sink.path.rpartition("://")
    plain = scheme == "file" or not (scheme or sink.path.startswith("file:") or "HADOOP_CONF_DIR" in os.environ)
    return Path(path).absolute() if plain else None


def _write(
    spark: "SparkSession", sink: Sink, staging: Path, schema: pa.Schema, steps: Sequence[Step], batch: int
) -> None:
    """Move the answers of the driver, or of shards in `staging`, into place, or let Spark write them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    here, made = _here(sink), staging / f"_{batch}"
    tables = [step.answers for step in steps if step.answers is not None]
    answers = pa.concat_tables(tables) if tables else schema.empty_table()
    if answers.num_rows and here is not None:
        with atomic_file(made / "answers.parquet") as file:
            parquet.write_table(answers, file)
    if here is not None and made.exists():
        shutil.rmtree(here / f"batch_id={batch}", ignore_errors=True)
        made.rename(here / f"batch_id={batch}")
    elif answers.num_rows:
        sink(spark.createDataFrame(answers), batch)
    elif made.exists():
        sink(spark.read.schema(from_arrow_schema(schema)).parquet(made.as_uri()), batch)
