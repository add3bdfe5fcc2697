"""`enrich`: a Spark stream joined with a view that is kept fresh within a budget, every answer with its freshness.

    events ─▶ counts per key and evaluation (Spark) ─▶ evaluations that are due: window, policy, source (driver)
           ─▶ answers ─▶ sink, every micro-batch once

`foreachBatch` carries it: a micro-batch brings elements, the watermark makes evaluations due, each has a budget of its
own, and a snapshot ends the micro-batch. docs/scale.md says how this runs on a cluster.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyarrow import parquet

from freshkeeper.maintenance.budget.ledger import Amount, BudgetRule
from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import Tabular, check_columns, counted
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Step
from freshkeeper.maintenance.pipeline.enrichment.on_driver import Settings, Shape, on_the_driver, shape_of
from freshkeeper.maintenance.pipeline.enrichment.warm import Warm
from freshkeeper.maintenance.service.endpoint import Endpoint, Remote
from freshkeeper.maintenance.service.function_source import SourceLike, source_of
from freshkeeper.maintenance.settings.durations import to_delay, to_ms
from freshkeeper.maintenance.view.changes import ChangeModel
from freshkeeper.maintenance.view.learned import Learned
from freshkeeper.policies.base import Case, Policy
from freshkeeper.policies.errors import ConfigError, nearest
from freshkeeper.policies.registry import make

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


Sink: TypeAlias = Callable[["DataFrame", int], None]
"""May be called again with the same number and the same rows, after a kill; the second time replaces the first."""
FORMATS = ["parquet", "json", "csv", "orc"]


@dataclass(frozen=True)
class Files:
    """`path`/batch_id=N for micro-batch N, which is replaced when it comes again; Spark reads `path` as one table."""

    path: str
    format: str = "parquet"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ConfigError(f"answers cannot be written as {self.format!r}: {nearest(self.format, FORMATS)}")

    def __call__(self, answers: "DataFrame", batch: int) -> None:
        """Write one micro-batch; after a kill the same number may come again."""
        answers.write.format(self.format).mode("overwrite").save(f"{self.path}/batch_id={batch}")

    @property
    def here(self) -> Path | None:
        """The directory, where answers can be written into it without Spark: Parquet, on a file system of machines."""
        scheme, _, path = self.path.rpartition("://")
        plain = scheme == "file" or not (scheme or self.path.startswith("file:") or "HADOOP_CONF_DIR" in os.environ)
        return Path(path).absolute() if self.format == "parquet" and plain else None

    def put(self, written: Path, batch: int) -> None:
        """Files that were written beside it are those of a micro-batch now."""
        assert self.here is not None
        target = self.here / f"batch_id={batch}"
        shutil.rmtree(target, ignore_errors=True)
        written.rename(target)


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
    settings = Settings(
        policy=make(policy) if isinstance(policy, str) else policy,
        budget=budget if isinstance(budget, BudgetRule) else BudgetRule.of(budget),
        window=WindowSpec(_ms("window", window), _ms("step", step), start),
        delay=_ms("delay", delay, to_delay),
        model=model or Learned(),
        case=_case(case),
        seed=seed,
        warm=warm,
    )
    to, shape = sink if callable(sink) else Files(str(sink)), shape_of(events.schema, columns, value)
    process = _process(events, settings, source_of(source), Path(state), shape, to, graph, reached)

    def micro_batch(frame: "DataFrame", number: int) -> None:
        process(number, counted(frame, columns, at, settings.window, hashed=graph is not None))

    return events.writeStream.foreachBatch(micro_batch).option("checkpointLocation", str(Path(state) / "checkpoint"))


def _process(
    events: "DataFrame",
    settings: Settings,
    source: Endpoint | Remote,
    state: Path,
    shape: Shape,
    sink: Sink,
    graph: OnCluster | None,
    reached: Callable[[str], None],
) -> Callable[[int, Tabular], None]:
    """What is done with a micro-batch, its number and its counts."""
    spark, here = events.sparkSession, sink.here if isinstance(sink, Files) else None

    def from_driver(steps: Sequence[Step[pa.Table]], batch: int) -> None:
        answers = pa.concat_tables([step.answers for step in steps])
        if not answers.num_rows:
            return
        if isinstance(sink, Files) and here is not None:
            place = _empty(here / f"_{batch}")
            parquet.write_table(answers, place / "answers.parquet")
            sink.put(place, batch)
        else:
            sink(spark.createDataFrame(answers), batch)

    def from_cluster(steps: Sequence[Step[Path]], batch: int) -> None:
        place = steps[-1].answers
        if not place.exists():
            return
        if isinstance(sink, Files) and here is not None:
            sink.put(place, batch)
        else:
            sink(spark.read.schema(spark_schema).parquet(str(place)), batch)

    if graph is None:
        return on_the_driver(settings, source, state, shape, from_driver, reached).process
    from pyspark.sql.pandas.types import from_arrow_schema

    from freshkeeper.maintenance.pipeline.enrichment.on_executors import Cluster, on_the_cluster

    spark_schema, shared = from_arrow_schema(shape.schema), Path(graph.shared).absolute()
    shards = graph.shards or spark.sparkContext.defaultParallelism

    def staging(batch: int) -> Path:
        return shared / "answers" / str(batch) if here is None else here / f"_{batch}"

    cluster = Cluster(spark, shared)
    settled = (settings, source, state, shape, from_cluster, reached, cluster, shards, graph.candidates, staging)
    return on_the_cluster(*settled).process


def _empty(place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return place


def _ms(name: str, duration: Duration, read: Callable[[str], int] = to_ms) -> int:
    if isinstance(duration, int):
        return duration
    try:
        return read(duration)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None


def _case(written: Case | str) -> Case:
    cases = [case.value for case in Case]
    if written not in cases:
        raise ConfigError(f"there is no case {written!r}: {nearest(written, cases)}")
    return Case(written)
