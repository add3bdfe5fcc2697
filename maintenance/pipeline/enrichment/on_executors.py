"""Evaluations on Spark: the graph lies in shards on the cluster, the driver holds what was ever refreshed.

    counts of a micro-batch ─▶ files        every evaluation: shards move their windows and score (one job)
    ─▶ the driver chooses among their best, fetches, logs what came ─▶ shards take it and write answers (one job)

An SR that was never refreshed is as the warm start left it, so the driver's part of the view grows with what was
spent, not with the graph. Case 1, with a view that starts warm; keys that have no edge have no answers.
"""

import copy
import math
import pickle
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type

from freshkeeper.maintenance.budget.ledger import Ledger
from freshkeeper.maintenance.budget.selection import check_handles, whole_requests
from freshkeeper.maintenance.demand.round_builder import LONGEST_HORIZON
from freshkeeper.maintenance.evaluation import Record, Refreshes
from freshkeeper.maintenance.files import whole
from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import (
    COUNT,
    EARLIEST,
    FIRST,
    HASH,
    LAST,
    LATEST,
    Arrivals,
    Tabular,
)
from freshkeeper.maintenance.pipeline.enrichment.batch_store import Store
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Batches, Due, State, Step, Write
from freshkeeper.maintenance.pipeline.enrichment.on_driver import Settings, Shape
from freshkeeper.maintenance.pipeline.enrichment.once import Once
from freshkeeper.maintenance.pipeline.enrichment.one_price import LOWEST, Worth, one_price
from freshkeeper.maintenance.pipeline.enrichment.scored_parts import SCHEDULE, Scheduled, together
from freshkeeper.maintenance.pipeline.enrichment.shard import Asked, Plan
from freshkeeper.maintenance.pipeline.enrichment.shard_files import lay, write_arrow
from freshkeeper.maintenance.pipeline.enrichment.shard_jobs import Answer, Count, Score
from freshkeeper.maintenance.pipeline.enrichment.touched import Touched
from freshkeeper.maintenance.pipeline.ship import ship
from freshkeeper.maintenance.service.endpoint import Copy, Delivery, Endpoint, Order, Remote
from freshkeeper.maintenance.view.changes import ChangeModel
from freshkeeper.maintenance.view.learned import Learned
from freshkeeper.policies import choose
from freshkeeper.policies.arrays import Floats, Ints
from freshkeeper.policies.base import Case, Knowledge
from freshkeeper.policies.choose import SLACK
from freshkeeper.policies.errors import ConfigError
from freshkeeper.policies.ranked import NO, Ranked

REPLAYED = 32
"""Evaluations behind the last snapshot of the shards that a worker without memory may have to read again."""


@dataclass(frozen=True, eq=False)
class Span:
    """How many mappings of a micro-batch have which first and last evaluation."""

    first: Ints
    last: Ints
    count: Ints

    def mappings(self, k: int) -> int:
        """How many are in the window at evaluation k."""
        return int(self.count[(self.first <= k) & (k <= self.last)].sum())

    def over(self, k: int) -> bool:
        """Whether no evaluation after k has any of them."""
        return int(self.last.max(initial=k)) <= k


@dataclass(frozen=True, eq=False)
class Cluster:
    """`place` is a directory of the driver and of all executors."""

    spark: SparkSession
    place: Path

    def write(self, counts: DataFrame, place: Path) -> tuple[Arrivals, Span]:
        """Keep the counts of a micro-batch; only their sums over all keys come back."""
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        names = (FIRST, LAST, EARLIEST, LATEST, COUNT)
        kinds = ", ".join(f"{name} bigint" for name in names)
        found = counts.mapInArrow(CountsWriter(place), kinds).toArrow()
        sums = summed(found).sort_by([(FIRST, "ascending"), (LAST, "ascending")])
        first, last, earliest, latest, count = (np.asarray(sums[name].to_numpy(), np.int64) for name in names)
        arrivals = Arrivals([None], np.zeros(first.size, np.int64), first, earliest, latest, count)
        return arrivals, Span(first, last, count)

    def run(self, job: Count | Score | Answer) -> list[Any]:
        """With a task for each shard."""
        shards = job.plan.shards
        return self.spark.sparkContext.parallelize(range(shards), shards).mapPartitions(job).collect()


@dataclass(frozen=True)
class CountsWriter:
    """Writes what each task has of a micro-batch's counts, and gives their sums."""

    place: Path

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As `mapInArrow` wants it."""
        found = [batch for batch in batches if batch.num_rows]
        context = TaskContext.get()
        assert context is not None
        if found:
            table = pa.Table.from_batches(found)
            write_arrow(table.select([HASH, EARLIEST, COUNT]), self.place / f"{context.partitionId()}.arrow")
            yield from summed(table).to_batches()


def summed(counts: pa.Table) -> pa.Table:
    """Over all keys."""
    how = [(EARLIEST, "min"), (LATEST, "max"), (COUNT, "sum")]
    found = counts.group_by([FIRST, LAST]).aggregate(how)
    names = [FIRST, LAST, *("_".join(each) for each in how)]
    return found.select(names).rename_columns([FIRST, LAST, EARLIEST, LATEST, COUNT])


@dataclass(eq=False)
class OnSpark:
    """One evaluation as two jobs over the shards."""

    plan: Plan
    ledger: Ledger
    touched: Touched
    cluster: Cluster
    source: Once
    staging: Callable[[int], Path]
    rng: np.random.Generator
    candidates: int
    """so many may meet at the driver; where more would, one price is found first"""
    k: int | None = None
    price: float | None = None
    """of the evaluation before, where one was found"""
    batch: int = 0
    needed: dict[int, Span] = field(default_factory=dict)
    """the micro-batches that windows need"""
    waiting: list[int] = field(default_factory=list)
    """those that came since the last evaluation"""
    logged: dict[int, list[int]] = field(default_factory=dict)
    """evaluations behind the snapshot, with the micro-batches that came before each"""
    base: int | None = None
    """the evaluation of the shards' last snapshot"""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Another life: what shards in memory made of the log after this may not be what comes now."""
        self.__dict__.update(state, plan=replace(state["plan"], life=uuid4().hex))

    def arrive(self, counts: Tabular, batch: int) -> Arrivals:
        """They stay on the cluster, and only their numbers come to the driver."""
        assert isinstance(counts, DataFrame)
        arrivals, self.needed[batch] = self.cluster.write(counts, self.plan.counts(batch))
        self.waiting.append(batch)
        self.batch = batch
        shutil.rmtree(self.staging(batch), ignore_errors=True)
        return arrivals

    def settle(self) -> Callable[[], None]:
        """What no restart needs any more is removed, once that is certain."""
        if self.k is not None:
            self.needed = {batch: span for batch, span in self.needed.items() if not span.over(self.k)}
        return self._tidy

    def evaluate(self, k: int, arrivals: Sequence[Arrivals]) -> Step[Path]:
        """Choose, fetch, and join; the new elements are in files already."""
        del arrivals
        began, now = time.perf_counter_ns(), self.plan.window.instant(k)
        available = min(self.ledger.open().available, self.source.room(now))
        self.k, most = k, int((available + SLACK) // self.plan.cost)
        instants = now + self.plan.window.step * np.arange(self.plan.horizon)
        believed = self.touched.believe(instants) if self.plan.knowledge is not Knowledge.EXACT else Scheduled()
        self._log("asked", Asked(k, tuple(self.waiting), believed, most))
        self.logged[k], self.waiting = self.waiting, []
        best = together(self.cluster.run(Score(*self._job(), self._price(most))), most)
        rows, scores = self._choose(best.rows, available)
        mappings = sum(span.mappings(k) for span in self.needed.values())
        decided = time.perf_counter_ns()
        refreshes, better = self._refresh(rows, scores, now, decided)
        self._answer()
        record = Record(
            k, now, best.results, best.expected + better, mappings, best.candidates, best.stale, available,
            refreshes.spent, float(self.ledger.available), (decided - began) / 1e3, refreshes.fetch_ms,
            refreshes.failed, refreshes.requests,
        )  # fmt: skip
        return Step(record, refreshes, self.staging(self.batch))

    def _price(self, most: int) -> float:
        """From which score on entries leave their shards."""
        if most < 1 or self.plan.shards * most <= self.candidates:
            return NO
        job, run = self._job(), self.cluster.run
        price = one_price(lambda prices: Worth.together(run(Count(*job, prices))), most, self.price)
        self.price = price if price > LOWEST else None
        return price

    def _job(self) -> tuple[Plan, int, int, int | None]:
        assert self.k is not None
        return self.plan, self.k, min(self.logged), self.base

    def _answer(self) -> None:
        """Shards write what they have; and what they are, where reading the log again would take too long."""
        save = len(self.logged) >= REPLAYED
        self.cluster.run(Answer(*self._job(), self.staging(self.batch), save))
        if save:
            self.base, self.logged = self.k, {}

    def _log(self, what: str, record: object) -> None:
        assert self.k is not None
        with whole(self.plan.log(self.k, what), durable=True) as file:
            file.write_bytes(pickle.dumps(record, pickle.HIGHEST_PROTOCOL))

    def _tidy(self) -> None:
        """Logs, counts and snapshots that no restart will read."""
        place, batches = self.plan.place, {*self.waiting, *(batch for each in self.logged.values() for batch in each)}
        needed: dict[str, set[int | None]] = {"log": set(self.logged), "counts": {*batches}, "snapshots": {self.base}}
        for folder, numbers in needed.items():
            for path in (place / folder).glob("[0-9-]*"):
                if int(path.name.partition(".")[0]) not in numbers:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.rmtree(self.staging(self.batch), ignore_errors=True)

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
        self.touched.admit(rows)
        allowance = math.inf if self.ledger.overdraft else float(self.ledger.available)
        delivery = self.source.deliver(Order(now, keys, (), allowance))
        self.ledger.spend(delivery.spent)
        late = self._receive_late(delivery)
        changed = self.touched.store(keys, delivery.copies, now)
        self._log("came", self.touched.came())
        better = sum(
            row["w0"] * (1.0 - row["kept"])
            for row, copy in zip(rows, delivery.copies, strict=True)
            if copy.error is None
        )
        errors = [copy.error for copy in delivery.copies]
        taken = (time.perf_counter_ns() - began) / 1e6
        slots = np.array([self.touched.slots.numbers[key] for key in keys], np.int32)
        kinds, read_at = np.zeros(len(keys), np.int8), np.full(len(keys), now)
        sent, asked = np.array(delivery.shares[0], np.float64), np.full(len(keys), self.k)
        return Refreshes(
            slots, kinds, keys, scores, changed, errors, read_at, sent, asked, read_at, np.zeros(len(keys), bool),
            delivery.requests, delivery.spent, taken,
        ).with_late(late), better  # fmt: skip

    def _receive_late(self, delivery: Delivery) -> Refreshes:
        known = [(late, late.outcome) for late in delivery.late if isinstance(late.outcome, Copy)]
        changed = [bool(self.touched.store([late.key], [copy], late.read_at)[0]) for late, copy in known]
        came = [late for late, _ in known]
        slots = [self.touched.slots.numbers[late.key] for late in came]
        return Refreshes.of_late(came, slots, changed, [self.plan.window.index(late.read_at) for late in came])


def on_the_cluster(
    settings: Settings,
    source: Endpoint | Remote,
    place: Path,
    shape: Shape,
    write: Write[Path],
    reached: Callable[[str], None],
    cluster: Cluster,
    shards: int,
    candidates: int,
    staging: Callable[[int], Path],
) -> Batches[Path]:
    """Evaluations as jobs over shards; the driver's state in `place`, the shards in that of the cluster."""
    ranked = _ranked(settings)
    check_handles(settings.policy, settings.case, settings.model.knowledge)
    edges, copies = _tables(settings, shape, cluster.spark)
    ship(cluster.spark, {"freshkeeper", type(ranked).__module__.partition(".")[0]})
    once, journal = Once(source, reached), settings.journal(place)
    assert settings.warm is not None
    plan = Plan(
        cluster.place, shards, uuid4().hex, settings.window, ranked, settings.model.knowledge,
        max(1, min(LONGEST_HORIZON, settings.window.span * settings.policy.reach)), once.price.each,
        settings.warm.at, shape.on, shape.schema,
    )  # fmt: skip

    def begin() -> State[Path]:
        for name in ("graph", "log", "counts", "snapshots"):
            shutil.rmtree(cluster.place / name, ignore_errors=True)
        lay(edges, copies, shape.on, shards, cluster.place / "graph")
        policy, model = copy.deepcopy((ranked, settings.model))
        ledger = Ledger(settings.budget, overdraft=not policy.keeps_budget)
        evaluator = OnSpark(
            plan, ledger, Touched(model), cluster, once, staging, np.random.default_rng(settings.seed), candidates
        )
        return State(Due(settings.window, settings.delay), evaluator)

    def both(steps: Sequence[Step[Path]], batch: int) -> None:
        journal.write(steps, batch)
        write(steps, batch)

    outside = {"source": once, "cluster": cluster, "staging": staging}
    return Batches(Store(place, outside), once, begin, both, reached)


def _ranked(settings: Settings) -> Ranked:
    """The policy, if it scores each SR by itself and what is asked for is known on the cluster."""
    policy, knowledge = settings.policy, settings.model.knowledge
    if not isinstance(policy, Ranked) or knowledge not in policy.ranks_under:
        raise ConfigError(
            f"the policy {policy.name!r} is no score of each entry by itself under {knowledge} knowledge, as a "
            "graph on Spark needs (docs/writing-a-policy.md)"
        )
    return policy


def _tables(settings: Settings, shape: Shape, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    if settings.case is not Case.BGP or settings.warm is None:
        raise ConfigError("a graph on Spark needs a warm start, and case bgp")
    edges, copies = settings.warm.frames(spark, shape.on, _needs(settings.model))
    return edges, copies.withColumn("value", copies["value"].cast(from_arrow_type(shape.value)))


def _needs(model: ChangeModel) -> Sequence[str]:
    """What is known of changes as columns of the copies."""
    if isinstance(model, Learned):
        return ()
    if model.knowledge is Knowledge.EXACT:
        return SCHEDULE
    raise ConfigError(
        f"a graph on Spark takes Learned() or a FixedSchedule as what is known of changes, not {type(model).__name__}"
    )
