"""Evaluations on Spark: window, edges and copies are tables of the cluster; the driver holds what was refreshed.

The window is files that the whole cluster sees: the counts of each micro-batch, for as long as they are needed. An
evaluation is one job: window ⋈ edges → demand, with the copies a Round for each partition, which the policy scores.
An SR that was never refreshed is as the warm start left it, so the driver's part of the view grows with what was
spent, not with the graph. Case 1, with a view that starts warm; keys that have no edge have no answers.
"""

import copy
import math
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from freshkeeper.maintenance.budget.ledger import Ledger
from freshkeeper.maintenance.budget.selection import check_handles, whole_requests
from freshkeeper.maintenance.demand.round_builder import LONGEST_HORIZON
from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.evaluation import Record, Refreshes
from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import (
    COUNT,
    EARLIEST,
    FIRST,
    LAST,
    LATEST,
    Arrivals,
    Tabular,
)
from freshkeeper.maintenance.pipeline.enrichment.batch_store import Store
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Batches, Due, State, Step, Write
from freshkeeper.maintenance.pipeline.enrichment.on_driver import Settings, Shape
from freshkeeper.maintenance.pipeline.enrichment.once import Once
from freshkeeper.maintenance.pipeline.enrichment.scored_parts import Best, Scoring, columns_of, together
from freshkeeper.maintenance.pipeline.enrichment.touched import Touched
from freshkeeper.maintenance.pipeline.ship import ship
from freshkeeper.maintenance.service.endpoint import Copy, Delivery, Endpoint, Order, Remote
from freshkeeper.policies import choose
from freshkeeper.policies.arrays import Floats, Ints
from freshkeeper.policies.base import Case
from freshkeeper.policies.choose import SLACK
from freshkeeper.policies.errors import ConfigError
from freshkeeper.policies.ranked import Ranked


@dataclass(frozen=True, eq=False)
class Span:
    """How many mappings of a micro-batch have which first and last evaluation."""

    first: Ints
    last: Ints
    count: Ints

    @property
    def until(self) -> int:
        """The last evaluation that needs any of them."""
        return int(self.last.max(initial=-(2**62)))

    def mappings(self, k: int) -> int:
        """How many are in the window at evaluation k."""
        return int(self.count[(self.first <= k) & (k <= self.last)].sum())


@dataclass(frozen=True)
class WindowParts:
    """`place`/N for micro-batch N; `place` is a path of the driver and of all executors."""

    spark: SparkSession
    place: str

    def write(self, counts: DataFrame, batch: int) -> tuple[Arrivals, Span]:
        """Keep the counts of a micro-batch; only their sums over all keys come back."""
        counts.write.mode("overwrite").parquet(self._path(batch))
        sums = [F.min(EARLIEST).alias(EARLIEST), F.max(LATEST).alias(LATEST), F.sum(COUNT).alias(COUNT)]
        table = self.read([batch]).groupBy(FIRST, LAST).agg(*sums).toArrow().sort_by([(FIRST, "ascending")])
        first, last, earliest, latest, count = (
            np.asarray(table[name].to_numpy(), np.int64) for name in (FIRST, LAST, EARLIEST, LATEST, COUNT)
        )
        return Arrivals([None] * first.size, first, earliest, latest, count), Span(first, last, count)

    def read(self, batches: Sequence[int]) -> DataFrame:
        """The counts of some micro-batches."""
        return self.spark.read.parquet(*(self._path(batch) for batch in batches))

    def remove(self, batches: Sequence[int]) -> None:
        """What no window needs any more; wherever the files lie, by Hadoop's file system."""
        context = self.spark.sparkContext
        assert context._jvm is not None
        for batch in batches:
            path = context._jvm.org.apache.hadoop.fs.Path(self._path(batch))
            path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)

    def _path(self, batch: int) -> str:
        return f"{self.place}/{batch}"


@dataclass(frozen=True, eq=False)
class Tables:
    """What lies on the cluster: edges (keys, sr) and copies (sr, value, and what the knowledge needs)."""

    on: Sequence[str]
    edges: DataFrame
    copies: DataFrame
    at: int
    """when the copies were fetched"""
    parts: WindowParts


@dataclass(eq=False)
class OnSpark:
    """One evaluation as a Spark job."""

    window: WindowSpec
    policy: Ranked
    ledger: Ledger
    touched: Touched
    tables: Tables
    source: Once
    horizon: int
    rng: np.random.Generator
    k: int | None = None
    needed: dict[int, Span] = field(default_factory=dict)
    """the micro-batches whose counts are kept"""
    held: list[DataFrame] = field(default_factory=list)
    """what this micro-batch has in the executors' memory"""

    def arrive(self, counts: Tabular, batch: int) -> Arrivals:
        """They stay on the cluster, and only their numbers come to the driver."""
        assert isinstance(counts, DataFrame)
        arrivals, self.needed[batch] = self.tables.parts.write(counts, batch)
        return arrivals

    def settle(self) -> Callable[[], None]:
        """Counts that no later evaluation needs are removed, once no restart can ask for them."""
        over = [batch for batch, span in self.needed.items() if self.k is not None and span.until <= self.k]
        for batch in over:
            del self.needed[batch]
        for joined in self.held:
            joined.unpersist()
        self.held.clear()
        parts = self.tables.parts
        return lambda: parts.remove(over)

    def evaluate(self, k: int, arrivals: Sequence[Arrivals]) -> Step[DataFrame]:
        """Choose, fetch, and join; the new elements are in the window's tables already."""
        del arrivals
        self.k = k
        self.touched.believe()
        began, now = time.perf_counter_ns(), self.window.instant(k)
        joined = self._joined(k).persist(StorageLevel.MEMORY_AND_DISK)
        self.held.append(joined)
        available = min(self.ledger.open().available, self.source.room(now))
        best = self._best(joined, now, available)
        rows, scores = self._choose(best.rows, available)
        mappings = sum(span.mappings(k) for span in self.needed.values())
        decided = time.perf_counter_ns()
        refreshes, better = self._refresh(rows, scores, now, decided)
        record = Record(
            k, now, best.results, best.expected + better, mappings, best.candidates, best.stale, available,
            refreshes.spent, float(self.ledger.available), (decided - began) / 1e3, refreshes.fetch_ms,
            refreshes.failed, refreshes.requests,
        )  # fmt: skip
        return Step(record, refreshes, self._answers(joined, k, now))

    def _joined(self, k: int) -> DataFrame:
        """Window ⋈ edges, the one join that is as large as the answers: demand and answers both come from it."""
        window = profile(self.tables.parts.read(sorted(self.needed)), self.tables.on, k, self.horizon)
        return window.join(self.tables.edges, list(self.tables.on))

    def _best(self, joined: DataFrame, now: int, available: float) -> Best:
        """The candidates' sums, and the best of every partition, scored where they are."""
        price = self.source.price.each
        most, model = int((available + SLACK) // price), self.touched.model
        instants = [now + m * self.window.step for m in range(self.horizon)]
        scoring = Scoring(self.policy, columns_of(model), model.knowledge, instants, price, most)
        candidates = demand(joined, self.horizon).join(self._copies(), "sr")
        parts = [pickle.loads(row["best"]) for row in candidates.mapInArrow(scoring, "best binary").collect()]
        return together(parts, most, self.touched.nothing())

    def _copies(self) -> DataFrame:
        """The copies as they are now: those of the warm start, with what was fetched since."""
        old = self.tables.copies.withColumns(
            {"refreshed_ms": F.lit(self.tables.at), "rate": F.lit(self.touched.usual_rate)}
        )
        new = F.broadcast(self.tables.parts.spark.createDataFrame(self.touched.table()))
        both = old.join(new, "sr", "left")
        touched = F.col("new_refreshed_ms").isNotNull()
        names = ("value", "refreshed_ms", "rate")
        return both.withColumns({name: F.when(touched, F.col(f"new_{name}")).otherwise(F.col(name)) for name in names})

    def _choose(self, best: pa.Table, available: float) -> tuple[list[dict[str, Any]], Floats]:
        """Of what came to the driver, as everywhere."""
        size, price = best.num_rows, self.source.price
        scores = np.asarray(best["score"].to_numpy(), np.float64)
        chosen = choose.best(scores, np.ones(size, bool), np.full(size, price.each), available, self.rng)
        paid = whole_requests(chosen, np.zeros(len(chosen.chosen), bool), price, available)
        return best.take(paid.chosen).to_pylist(), np.asarray(paid.scores, np.float64)

    def _refresh(self, rows: list[dict[str, Any]], scores: Floats, now: int, began: int) -> tuple[Refreshes, float]:
        """Fetch what was chosen; and how many answers more are expected to be fresh for it."""
        keys = [row["sr"] for row in rows]
        self.touched.admit(keys, [row["value"] for row in rows], [row["refreshed_ms"] for row in rows])
        allowance = math.inf if self.ledger.overdraft else float(self.ledger.available)
        delivery = self.source.deliver(Order(now, keys, (), allowance))
        self.ledger.spend(delivery.spent)
        late = self._receive_late(delivery)
        changed = self.touched.store(keys, delivery.copies, now)
        better = sum(
            row["w0"] * (1.0 - row["kept"])
            for row, copy in zip(rows, delivery.copies, strict=True)
            if copy.error is None
        )
        errors = [copy.error for copy in delivery.copies]
        taken = (time.perf_counter_ns() - began) / 1e6
        slots = np.array([self.touched.slots.numbers[key] for key in keys], np.int32)
        kinds, read_at = np.zeros(len(keys), np.int8), np.full(len(keys), now)
        sent, asked = np.array(delivery.shares[0], np.float64), np.full(len(keys), self.window.index(now))
        return Refreshes(
            slots, kinds, keys, scores, changed, errors, read_at, sent, asked, read_at, np.zeros(len(keys), bool),
            delivery.requests, delivery.spent, taken,
        ).with_late(late), better  # fmt: skip

    def _receive_late(self, delivery: Delivery) -> Refreshes:
        known = [(late, late.outcome) for late in delivery.late if isinstance(late.outcome, Copy)]
        changed = [bool(self.touched.store([late.key], [copy], late.read_at)[0]) for late, copy in known]
        came = [late for late, _ in known]
        slots = [self.touched.slots.numbers[late.key] for late in came]
        return Refreshes.of_late(came, slots, changed, [self.window.index(late.read_at) for late in came])

    def _answers(self, joined: DataFrame, k: int, now: int) -> DataFrame:
        fresh = F.when(F.col("refreshed_ms") >= now, 1.0).otherwise(columns_of(self.touched.model).fresh(now))
        instant = [F.lit(k).cast("bigint").alias("k"), F.lit(now).cast("bigint").alias("t_ms")]
        entry = [F.col("sr").cast("string").alias("sr"), F.col("value"), F.col("c0").alias("weight")]
        columns = [*instant, *map(F.col, self.tables.on), *entry, F.col("refreshed_ms"), fresh.alias("fresh")]
        return joined.join(self._copies(), "sr").select(columns)


def profile(parts: DataFrame, on: Sequence[str], k: int, horizon: int) -> DataFrame:
    """C, the window at evaluation k: how many mappings of each key are still there m evaluations from now."""
    inside = parts.filter((F.col(FIRST) <= k) & (F.col(LAST) >= k))
    still = [F.sum(F.when(F.col(LAST) >= k + m, F.col(COUNT)).otherwise(0)).alias(f"c{m}") for m in range(horizon)]
    return inside.groupBy(*on).agg(*still)


def demand(joined: DataFrame, horizon: int) -> DataFrame:
    """W, from window ⋈ edges: in how many answers each SR takes part, m evaluations from now."""
    return joined.groupBy("sr").agg(*(F.sum(f"c{m}").alias(f"w{m}") for m in range(horizon)))


def on_the_cluster(
    settings: Settings,
    source: Endpoint | Remote,
    place: Path,
    shape: Shape,
    write: Write[DataFrame],
    reached: Callable[[str], None],
    parts: WindowParts,
) -> Batches[DataFrame]:
    """Evaluations as Spark plans; the driver's state in `place`, the window's in `parts`."""
    ranked = _ranked(settings)
    check_handles(settings.policy, settings.case, settings.model.knowledge)
    tables = _tables(settings, shape, parts)
    ship(parts.spark, {"freshkeeper", type(ranked).__module__.partition(".")[0]})
    once, journal = Once(source, reached), settings.journal(place)
    horizon = max(1, min(LONGEST_HORIZON, settings.window.span * settings.policy.reach))
    key = to_arrow_type(tables.edges.schema["sr"].dataType)

    def begin() -> State[DataFrame]:
        policy, model = copy.deepcopy((ranked, settings.model))
        ledger = Ledger(settings.budget, overdraft=not policy.keeps_budget)
        touched, rng = Touched(model, key, shape.value), np.random.default_rng(settings.seed)
        keeper = OnSpark(settings.window, policy, ledger, touched, tables, once, horizon, rng)
        return State(Due(settings.window, settings.delay), keeper)

    def both(steps: Sequence[Step[DataFrame]], batch: int) -> None:
        journal.write(steps, batch)
        write(steps, batch)

    return Batches(Store(place, {"source": once, "tables": tables}), once, begin, both, reached)


def _ranked(settings: Settings) -> Ranked:
    """The policy, if it scores each SR by itself and what is asked for is known on the cluster."""
    policy, knowledge = settings.policy, settings.model.knowledge
    if not isinstance(policy, Ranked) or knowledge not in policy.ranks_under:
        raise ConfigError(
            f"the policy {policy.name!r} is no score of each entry by itself under {knowledge} knowledge, as a "
            "graph on Spark needs (docs/writing-a-policy.md)"
        )
    if getattr(policy, "expect", False):
        raise ConfigError(f"a graph on Spark knows nothing of arrivals to come: {policy.name} with expect=False")
    return policy


def _tables(settings: Settings, shape: Shape, parts: WindowParts) -> Tables:
    if settings.case is not Case.BGP or settings.warm is None:
        raise ConfigError("a graph on Spark needs a warm start, and case bgp")
    knowledge = columns_of(settings.model)
    edges, copies = settings.warm.frames(parts.spark, shape.on, knowledge.needs)
    written = copies.withColumn("value", F.col("value").cast(from_arrow_type(shape.value)))
    return Tables(shape.on, edges, written, settings.warm.at, parts)
