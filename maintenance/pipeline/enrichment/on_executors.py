"""Evaluations on Spark: the graph lies in shards on the cluster, the driver holds what was ever refreshed.

    counts of a micro-batch ─▶ files        every evaluation: shards move their windows and score (one job)
    ─▶ the driver chooses among their best, fetches, logs what came ─▶ shards take it and write answers (one job)

An SR that was never refreshed is as the warm start left it, so the driver's part of the view grows with what was
spent, not with the graph. Case 1, with a view that starts warm; keys that have no edge have no answers.
"""

import math
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
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type

from freshkeeper.maintenance.budget.selection import check_handles, whole_requests
from freshkeeper.maintenance.evaluation import Record, Refreshes
from freshkeeper.maintenance.files import whole
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.pipeline.enrichment import batch_arrivals, shard
from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import Arrivals, Tabular, collected
from freshkeeper.maintenance.pipeline.enrichment.candidates import LOWEST, Best, Worth, one_price
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Batches, Step, Write
from freshkeeper.maintenance.pipeline.enrichment.on_driver import Settings, Shape, Warm
from freshkeeper.maintenance.pipeline.enrichment.once import Once
from freshkeeper.maintenance.pipeline.enrichment.shard import Given, Plan, Shard
from freshkeeper.maintenance.pipeline.enrichment.shard_files import lay, numbers, write_arrow
from freshkeeper.maintenance.pipeline.ship import ship
from freshkeeper.maintenance.service.endpoint import Endpoint, Order, Remote
from freshkeeper.maintenance.view.changes import Beliefs
from freshkeeper.maintenance.view.learned import REGULAR, Learned
from freshkeeper.policies import choose
from freshkeeper.policies.arrays import NO_INTS, Floats, Ids, Ints
from freshkeeper.policies.base import Case, Knowledge
from freshkeeper.policies.errors import ConfigError
from freshkeeper.policies.ranked import NO, Ranked

if TYPE_CHECKING:
    from freshkeeper.maintenance.pipeline.enrich import OnCluster

REPLAYED = 32
"""Evaluations behind the last snapshot of the shards that a worker without memory may have to read again."""


@dataclass(eq=False)
class OnSpark:
    """One evaluation as two jobs over the shards."""

    plan: Plan
    manager: Manager
    """with the driver's part of the view, in the order in which SRs were first asked for, and without a window"""
    spark: SparkSession
    source: Once
    staging: Path
    """where shards write the answers of a micro-batch"""
    candidates: int
    """so many may meet at the driver; where more would, one price is found first"""
    where: Ints = field(default_factory=lambda: np.empty((2, 0), np.int64))
    """by slot: the shard of an SR, and its number there"""
    k: int | None = None
    price: float | None = None
    """of the evaluation before, where one was found"""
    batch: int = 0
    needed: dict[int, pa.Table] = field(default_factory=dict)
    """the counts of the micro-batches that windows need, of all keys together"""
    waiting: list[int] = field(default_factory=list)
    """those that came since the last evaluation"""
    logged: dict[int, list[int]] = field(default_factory=dict)
    """evaluations behind the snapshot, with the micro-batches that came before each"""
    base: int | None = None
    """the evaluation of the shards' last snapshot"""
    replayed: ClassVar[int] = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Another life: what shards in memory made of the log after this may not be what comes now."""
        self.__dict__.update(state, plan=replace(state["plan"], life=uuid4().hex))

    def arrive(self, counts: Tabular, batch: int) -> Arrivals:
        """They stay on the cluster, and only their sums over all keys come to the driver."""
        assert isinstance(counts, DataFrame)
        place = self.plan.counts(batch)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        kinds = ", ".join(f"{name} bigint" for name in batch_arrivals.SUMS)
        sums = counts.mapInArrow(partial(_keep_counts, place), kinds).toArrow()
        self.batch, self.needed[batch] = batch, sums
        self.waiting.append(batch)
        shutil.rmtree(self._staged, ignore_errors=True)
        return collected(sums, ())

    def settle(self) -> Callable[[], None]:
        """What no restart needs any more is removed, once that is certain."""
        if self.k is not None:
            self.needed = {
                n: sums for n, sums in self.needed.items() if (numbers(sums, batch_arrivals.LAST) > self.k).any()
            }
        return self._tidy

    def evaluate(self, k: int, arrivals: Sequence[Arrivals]) -> Step[Path]:
        """Choose, fetch, and join; the new elements are in files already."""
        del arrivals
        began, now, ledger = time.perf_counter_ns(), self.plan.window.instant(k), self.manager.ledger
        available = min(ledger.open().available, self.source.room(now))
        self.k, most = k, int((available + choose.SLACK) // self.plan.price.each)
        self._log("asked", shard.Asked(tuple(self.waiting), most, *self._learnt(now)))
        self.logged[k], self.waiting = self.waiting, []
        best = Best.together(self._run(partial(Shard.best, price=self._price(most))), most)
        scores, price = np.asarray(best.rows["score"].to_numpy(), np.float64), self.plan.price
        every = np.ones(scores.size, bool)
        chosen = choose.best(scores, every, every * price.each, available, self.manager.rng)
        chosen = whole_requests(chosen, np.zeros(len(chosen.chosen), bool), price, available)
        mappings = sum(batch_arrivals.mappings(sums, k) for sums in self.needed.values())
        decided = time.perf_counter_ns()
        refreshes, better = self._refresh(best.rows.take(chosen.chosen), chosen.scores, now, decided)
        save = len(self.logged) >= REPLAYED  # where reading the log again would take too long
        self._run(partial(Shard.answer, place=self._staged, save=save))
        if save:
            self.base, self.logged = k, {}
        candidates, stale, results, expected = best.sums.tolist()
        record = Record(
            k, now, results, expected + better, mappings, int(candidates), int(stale), available, refreshes.spent,
            float(ledger.available), (decided - began) / 1e3, refreshes.fetch_ms, refreshes.failed, refreshes.requests,
        )  # fmt: skip
        return Step(record, refreshes, self._staged)

    @property
    def _staged(self) -> Path:
        return self.staging / f"_{self.batch}"

    def _run(self, work: Callable[[Shard], Given]) -> list[Given]:
        """One job, with a task for each shard."""
        assert self.k is not None
        job, shards = shard.ShardJob(self.plan, self.k, min(self.logged), self.base, work), self.plan.shards
        return self.spark.sparkContext.parallelize(range(shards), shards).mapPartitions(job).collect()

    def _price(self, most: int) -> float:
        """From which score on entries leave their shards."""
        if most < 1 or self.plan.shards * most <= self.candidates:
            return NO
        price = one_price(
            lambda prices: Worth.together(self._run(partial(Shard.worth, prices=prices))), most, self.price
        )
        self.price = price if price > LOWEST else None
        return price

    def _log(self, what: str, record: object) -> None:
        assert self.k is not None
        with whole(self.plan.log(self.k, what), durable=True) as file:
            file.write_bytes(pickle.dumps(record, pickle.HIGHEST_PROTOCOL))

    def _tidy(self) -> None:
        """Logs, counts and snapshots that no restart will read."""
        batches = {*self.waiting, *(batch for each in self.logged.values() for batch in each)}
        needed: dict[str, set[int | None]] = {"log": {*self.logged}, "counts": {*batches}, "snapshots": {self.base}}
        for folder, kept in needed.items():
            for path in (self.plan.place / folder).glob("[0-9-]*"):
                if int(path.name.partition(".")[0]) not in kept:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.rmtree(self._staged, ignore_errors=True)

    def _learnt(self, now: int) -> tuple[Floats | None, Ints, Beliefs | None]:
        """What is believed at the beginning of an evaluation, before its own refreshes."""
        model, view, horizon = self.manager.model, self.manager.view, self.manager.rounds.horizon
        if not isinstance(model, Learned):
            return None, NO_INTS, None
        regular = np.flatnonzero(model.regular(np.arange(view.srs.width))[0] >= REGULAR)
        instants = now + self.plan.window.step * np.arange(horizon)
        told = model.beliefs(instants, view.last_refresh[regular], True, regular) if regular.size else None
        return model.rates(view.srs.width + 1), regular, told

    def _refresh(self, rows: pa.Table, scores: Floats, now: int, began: int) -> tuple[Refreshes, float]:
        """Fetch what was chosen; and how many answers more are expected to be fresh for it."""
        manager, keys, slots = self.manager, rows["sr"].to_pylist(), self._admit(rows)
        allowance = math.inf if manager.ledger.overdraft else float(manager.ledger.available)
        delivery = self.source.deliver(Order(now, keys, (), allowance))
        manager.ledger.spend(delivery.spent)
        late = manager.late.receive(delivery.late, self.k or 0)
        late = replace(late, k=np.array([self.plan.window.index(at) for at in late.t_ms.tolist()], np.int64))
        changed = manager.receive(slots, keys, delivery.copies, now)
        errors, at = [copy.error for copy in delivery.copies], np.full(slots.size, now)
        taken, good = (time.perf_counter_ns() - began) / 1e6, np.array([error is None for error in errors], bool)
        refreshes = Refreshes(
            slots, np.zeros(slots.size, np.int8), keys, scores, changed, errors, at,
            np.array(delivery.shares[0], np.float64), np.full(slots.size, self.k), at, np.zeros(slots.size, bool),
            delivery.requests, delivery.spent, taken,
        ).with_late(late)  # fmt: skip
        self._log("came", self._came(refreshes))
        return refreshes, sum((rows["w0"].to_numpy() * (1.0 - rows["kept"].to_numpy()))[good].tolist())

    def _admit(self, rows: pa.Table) -> Ids:
        """The slots of entries that are asked for; those that are new here bring the copy that the warm start had."""
        view, keys = self.manager.view, rows["sr"].to_pylist()
        taken = [view.srs.take(key) for key in keys]
        slots, new = np.array([slot for slot, _ in taken], np.int32), np.flatnonzero([new for _, new in taken])
        came = rows.take(new)
        view.values += came["value"].to_pylist()
        view.last_refresh = np.append(view.last_refresh, came["refreshed_ms"].to_numpy())
        view.kinds = np.zeros(view.srs.width, np.int8)
        places = [numbers(came, name) for name in ("shard", "entry")]
        self.where = np.append(self.where, np.stack(places), axis=1)
        self.manager.model.admit(slots[new], [keys[n] for n in new.tolist()])
        return slots

    def _came(self, refreshes: Refreshes) -> shard.Came:
        """What was stored, now or late, for the shards where it belongs."""
        view, stored = self.manager.view, [error is None for error in refreshes.errors]
        slots = np.unique(refreshes.srs[stored])
        values = [view.values[slot] for slot in slots.tolist()]
        return shard.Came(self.where[:, slots], slots, values, view.last_refresh[slots])


def on_the_cluster(
    settings: Settings,
    source: Endpoint | Remote,
    place: Path,
    shape: Shape,
    write: Write[Path],
    reached: Callable[[str], None],
    spark: SparkSession,
    graph: "OnCluster",
    staging: Path,
) -> Batches[Path]:
    """Evaluations as jobs over shards; the driver's state in `place`, the shards where `graph` has them."""
    (ranked, warm), once, shared = _ranked(settings), Once(source, reached), Path(graph.shared).absolute()
    needs = () if isinstance(settings.model, Learned) else shard.SCHEDULE
    edges, copies = warm.frames(spark, shape.on, needs)
    copies = copies.withColumn("value", copies["value"].cast(from_arrow_type(shape.value)))
    ship(spark, {"freshkeeper", type(ranked).__module__.partition(".")[0]})
    plan = Plan(
        shared, graph.shards or spark.sparkContext.defaultParallelism, uuid4().hex, settings.window, ranked,
        settings.model.knowledge, once.price, warm.at, shape.on, shape.schema,
    )  # fmt: skip

    def begin() -> OnSpark:
        for name in ("graph", "log", "counts", "snapshots"):
            shutil.rmtree(shared / name, ignore_errors=True)
        lay(edges, copies, shape.on, plan.shards, shared / "graph")
        return OnSpark(plan, settings.manager(once), spark, once, staging, graph.candidates)

    return settings.batches(once, place, begin, write, spark=spark, staging=staging)


def _ranked(settings: Settings) -> tuple[Ranked, Warm]:
    """The policy, if it scores each SR by itself and what is asked for is known on the cluster; and what is there."""
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


def _keep_counts(place: Path, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write what a task has of a micro-batch's counts, and give their sums over all keys."""
    found, context = [part for part in parts if part.num_rows], TaskContext.get()
    assert context is not None
    if found:
        table = pa.Table.from_batches(found)
        write_arrow(table.select(shard.COUNTED), place / f"{context.partitionId()}.arrow")
        yield from batch_arrivals.summed(table).to_batches()
