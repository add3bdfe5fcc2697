"""Evaluations on Spark: the graph lies in shards on the cluster, the driver holds what was ever refreshed.

    counts of a micro-batch ─▶ files        every evaluation: shards move their windows and score (one job)
    ─▶ the driver chooses among their best, fetches, logs what came ─▶ shards take it and write answers (one job)

An SR that was never refreshed is as the warm start left it, so the driver's part of the view grows with what was
spent, and with the keys of the stream that no shard has. Case 1, with a view that starts warm.
"""

import copy
import pickle
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import xxhash64
from pyspark.sql.types import StructField, StructType

from freshkeeper.maintenance.analysis.ship import ship
from freshkeeper.maintenance.base.arrays import NO_INTS, Ints
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.budget.selection import check_handles, whole_requests
from freshkeeper.maintenance.cache.evaluation import Decision
from freshkeeper.maintenance.cache.view.learned import REGULAR, Learned
from freshkeeper.maintenance.spark.enrichment import batch_arrivals, shard
from freshkeeper.maintenance.spark.enrichment.batch_arrivals import HASH, Arrivals, Tabular, collected
from freshkeeper.maintenance.spark.enrichment.candidates import Best, clearing_price
from freshkeeper.maintenance.spark.enrichment.on_driver import OnDriver, Settings, Shape, Step, Warm, text
from freshkeeper.maintenance.spark.enrichment.once import RecordingFetcher
from freshkeeper.maintenance.spark.enrichment.shard import Given, Shard, ShardPlan
from freshkeeper.maintenance.spark.enrichment.shard_files import found, lay, numbers, read_arrow, write_arrow
from freshkeeper.policies import choose
from freshkeeper.policies.base import NEVER, Case, Knowledge, Selection
from freshkeeper.policies.ranked import NO, Ranked

if TYPE_CHECKING:
    from freshkeeper.maintenance.spark.enrich import OnCluster

REPLAYED = 32
"""Evaluations behind the last snapshot of the shards that a worker without memory may have to read again."""


@dataclass(eq=False)
class OnSpark(OnDriver):
    """An evaluator that makes two jobs over the shards per evaluation, three where a price is found first.

    The manager has what the driver knows: SRs that were asked for, without a demand of their own, and SNs that no shard
    has. These are misses there, as everywhere, and what is fetched for them stays with it: one shard more.
    """

    replayed: ClassVar[int] = 0
    plan: ShardPlan
    candidates: int
    """so many may meet at the driver; where more would, one price is found first"""
    batch: int = 0
    window: list[Arrivals] = field(default_factory=list)
    """what windows need, of all keys together"""
    base: int | None = None
    """the evaluation of the shards' last snapshot"""
    since: int = 0
    """the first evaluation behind it, 0 before there was one"""
    kept: int = 0
    """the first micro-batch that such evaluations had"""
    spark: SparkSession = field(init=False)
    staging: Path = field(init=False)
    """where shards write the answers of a micro-batch"""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle nothing that belongs to this process."""
        return vars(self) | {"spark": None, "staging": None}

    def arrive(self, counts: Tabular, batch: int) -> Arrivals:
        """Keep the counts on the cluster; return their sums, and the counts of keys that no shard has."""
        assert isinstance(counts, DataFrame)
        place = self.plan.path("counts", batch)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        hashed = counts.withColumn(HASH, xxhash64(*self.shape.on))
        nullable = StructType([StructField(each.name, each.dataType) for each in counts.schema])
        sums = hashed.mapInArrow(partial(_keep_counts, self.plan, batch), nullable).toArrow()
        self.batch = batch
        shutil.rmtree(self._staged, ignore_errors=True)
        return collected(sums, self.shape.on)

    def evaluate(self, k: int, arrivals: Sequence[Arrivals]) -> Step:
        """Choose, fetch, and join."""
        began, manager, price = time.perf_counter_ns(), self.manager, self.plan.price
        self.window = [part for part in (*self.window, *arrivals) if (part.last >= k).any()]
        shards = None, (None,) * len(self.shape.on)
        own = [part.part(np.array([key not in shards for key in part.names], bool)[part.codes]) for part in arrivals]
        decision = manager.decide(self.plan.window.instant(k), *self.slots(own))
        each = price.key_price or choose.SLACK**2  # what costs nothing is all asked for
        most, self.since = int((decision.budget.available + choose.SLACK) // each), self.since or k
        with atomic_file(self.plan.path("log", k, "asked"), durable=True) as file:
            file.write_bytes(pickle.dumps(self._beliefs_before(decision.now), pickle.HIGHEST_PROTOCOL))
        best = Best.together(self._run(partial(Shard.best, most=most, price=self._price(most))), most)
        selection = self._chosen(decision, best.rows, most)
        taken = (time.perf_counter_ns() - began) / 1e3
        mappings = sum(int(part.count[part.last >= k].sum()) for part in self.window)
        decision = replace(decision, selection=selection, window_mappings=mappings, decide_us=taken)
        before = manager.view.last_refresh.copy()
        refreshes = manager.fetch(decision)
        copies = self._stored_copies(before, best.rows.schema.field("sr").type)
        write_arrow(copies, self.plan.path("log", k, "came"), durable=True)
        save = max(k - self.since, self.batch - self.kept) + 1 >= REPLAYED  # reading the log again would take too long
        told = self._run(partial(Shard.answer, place=self._staged, save=save))
        if save:
            self.base, self.since, self.kept = k, k + 1, self.batch + 1
        (results, expected), (candidates, stale) = np.sum(told, axis=0).tolist(), best.sums.tolist()
        evaluation = manager.conclude(decision, refreshes)
        if evaluation.join.degrees.any() and (answers := self.answers(k, evaluation.join)).num_rows:
            with atomic_file(self._staged / f"{k}.parquet") as file:
                parquet.write_table(answers, file)
        record = evaluation.record
        record = replace(
            record, results=record.results + results, expected_fresh=record.expected_fresh + expected,
            candidates=record.candidates + candidates, stale=record.stale + stale,
        )  # fmt: skip
        return Step(record, refreshes, None)

    def tidy(self) -> None:
        """Remove logs, counts and snapshots that no restart will read."""
        for folder, least in {"log": self.since, "counts": self.kept, "snapshots": self.base}.items():
            for path in (self.plan.place / folder).glob("*"):  # and what a kill left unfinished, behind a dot
                if least is not None and int(path.name.lstrip(".").partition(".")[0]) < least:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in self.staging.glob("_[0-9]*"):
            if int(path.name[1:]) <= self.batch:
                shutil.rmtree(path)

    @property
    def _staged(self) -> Path:
        return self.staging / f"_{self.batch}"

    def _run(self, work: Callable[[Shard], Given]) -> list[Given]:
        """Run one job, with a task for each shard."""
        job = partial(shard.work_on, self.plan, self.manager.demand.k, self.since, self.base, work)
        shards = self.plan.shards
        return self.spark.sparkContext.parallelize(range(shards), shards).mapPartitions(job).collect()

    def _price(self, most: int) -> float:
        """Return the score from which on entries leave their shards."""
        if most < 1 or self.plan.shards * most <= self.candidates:
            return NO
        every = -(-self.plan.shards * most // self.candidates)
        return clearing_price(self._run(partial(Shard.offers, most=most, every=every)), most, every)

    def _beliefs_before(self, now: int) -> shard.EvaluationBeliefs:
        """Return the beliefs at the beginning of an evaluation, before its own refreshes."""
        manager = self.manager
        model, view, horizon = manager.model, manager.view, manager.rounds.horizon
        if not isinstance(model, Learned):
            return shard.EvaluationBeliefs(self.batch, None, NO_INTS, None, manager.runner.dump())
        regular = np.flatnonzero(model.regular(np.arange(view.srs.width))[0] >= REGULAR)
        instants = now + self.plan.window.step * np.arange(horizon)
        told = model.beliefs(instants, view.last_refresh[regular], True, regular) if regular.size else None
        return shard.EvaluationBeliefs(
            self.batch, model.rates(view.srs.width + 1), regular, told, manager.runner.dump()
        )

    def _chosen(self, decision: Decision, rows: pa.Table, most: int) -> Selection:
        """Choose among the candidates of shards and driver; an entry that both have counts as the better of the two."""
        manager, price, available = self.manager, self.plan.price, decision.budget.available
        sr, value = (rows[name].to_pylist() for name in ("sr", "value"))
        slots = np.concatenate([decision.srs, manager.view.hold(sr, value, numbers(rows, "refreshed_ms"))])
        scores = np.concatenate([manager.runner.score(decision.round), rows["score"].to_numpy()])
        ties = np.concatenate([manager.rng.random(decision.srs.size), rows["tie"].to_numpy()])
        cost = np.concatenate([decision.round.cost, np.full(rows.num_rows, price.key_price)])
        backoff = {key for kind, key in self.source.keys_in_backoff() if kind is Kind.COPY}
        if backoff:
            # As in rounds of the driver: what the source would not be asked for costs more than there is.
            cost[decision.srs.size :] += [(available + 1) * (key in backoff) for key in sr]
        order = np.lexsort((ties, -scores))
        each = order[np.sort(np.unique(slots[order], return_index=True)[1])][:most]
        best = choose.best(scores[each], scores[each] > NO, cost[each], available, manager.rng, self.plan.policy.reason)
        best = replace(best, chosen=slots[each][best.chosen].astype(np.int32))
        return whole_requests(best, manager.view.missing(best.chosen), price, available, self.source.miss_price)

    def _stored_copies(self, before: Ints, kind: pa.DataType) -> pa.Table:
        """Return the copies that were stored, in time or late, for the shards that have them."""
        view, known = self.manager.view, np.full(self.manager.view.srs.width, NEVER)
        known[: before.size] = before
        slots = np.flatnonzero((view.last_refresh != known) & (view.last_refresh != NEVER))
        keys, values = ([column[slot] for slot in slots.tolist()] for column in (view.srs.keys, view.values))
        came = {"sr": pa.array(keys, kind), "value": self.shape.written(values), "slot": slots.astype(np.int32)}
        return pa.table(came | {"refreshed_ms": view.last_refresh[slots]})


def on_the_cluster(
    settings: Settings, source: RecordingFetcher, shape: Shape, spark: SparkSession, graph: "OnCluster", staging: Path
) -> Callable[[OnDriver | None], OnDriver]:
    """Return an evaluator whose evaluations are jobs over the shards of `graph`."""
    (ranked, warm), shared = _ranked(settings), Path(graph.shared).absolute()
    needs = () if isinstance(settings.model, Learned) else shard.SCHEDULE
    edges, copies = warm.frames(spark, shape, needs)
    ship(spark, {"freshkeeper", type(ranked).__module__.partition(".")[0]})
    plan = ShardPlan(
        shared, graph.shards or spark.sparkContext.defaultParallelism, "", settings.window, ranked,
        settings.model.knowledge, source.price, settings.seed, warm.at, shape,
    )  # fmt: skip

    def begin(known: OnDriver | None) -> OnDriver:
        if known is None:
            for name in ("graph", "log", "counts", "snapshots"):
                shutil.rmtree(shared / name, ignore_errors=True)
            known = OnSpark.begun(settings, source, shape, plan, graph.candidates)
            known.manager.view.form = text if shape.schema.field("value").type == pa.string() else None
            known.manager.view.elsewhere = lay(edges, copies, shape, plan.shards, shared / "graph")
        else:
            known.manager.attach(copy.deepcopy(ranked))
        assert isinstance(known, OnSpark)
        known.spark, known.staging = spark, staging
        known.plan = replace(known.plan, life=uuid4().hex)
        return known

    return begin


def _ranked(settings: Settings) -> tuple[Ranked, Warm]:
    """Return the policy and the fields it needs, if it scores each entry by itself from data on the cluster."""
    policy, model, warm = settings.policy, settings.model, settings.warm
    if not isinstance(policy, Ranked) or model.knowledge not in policy.ranks_under:
        raise ConfigError(
            f"the policy {policy.name!r} is no score of each entry by itself under {model.knowledge} knowledge, as a "
            "graph on Spark needs (docs/writing-a-policy.md)"
        )
    check_handles(policy, settings.case, model.knowledge)
    if settings.case is not Case.BGP or warm is None:
        raise ConfigError("a graph on Spark needs a warm start, and case bgp")
    if not isinstance(model, Learned) and model.knowledge is not Knowledge.EXACT:
        raise ConfigError(
            "a graph on Spark takes Learned() or a FixedSchedule as what is known of changes, not "
            f"{type(model).__name__}"
        )
    return policy, warm


def _keep_counts(plan: ShardPlan, batch: int, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write what a task has of counts of shards' keys, and give their sums over all keys, and those of other keys."""
    held, context = [part for part in parts if part.num_rows], TaskContext.get()
    assert context is not None
    if held:
        table = pa.Table.from_batches(held)
        _, known = found(numbers(table, HASH), numbers(read_arrow(plan.path("graph", "known", "arrow")), HASH))
        ours, others = table.filter(pa.array(known)), table.filter(pa.array(~known)).drop_columns([HASH])
        write_arrow(ours.select(shard.COUNTED), plan.path("counts", batch) / f"{context.partitionId()}.arrow")
        sums = batch_arrivals.summed(ours)
        yield from pa.concat_tables([others, sums], promote_options="default").to_batches()
