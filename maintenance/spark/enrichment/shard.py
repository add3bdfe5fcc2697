"""A shard of a graph on the cluster: window, demand and copies follow from its log, and are scored in place.

A shard is a fold over a log: micro-batches' counts come, the window moves to an evaluation, copies come. Whoever holds
it as of an earlier evaluation reads on; whoever has none begins with a snapshot, or with the files. So it may be in any
worker's memory, in several, or in none, and a worker that dies is missed by nobody.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from freshkeeper.maintenance.analysis.ship import settled
from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.cache.demand.adjacency import Rows
from freshkeeper.maintenance.cache.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.cache.demand.window import Window, WindowSpec
from freshkeeper.maintenance.cache.evaluation import Join
from freshkeeper.maintenance.cache.round_builder import LONGEST_HORIZON, RoundBuilder
from freshkeeper.maintenance.cache.view.changes import Beliefs
from freshkeeper.maintenance.cache.view.learned import exponential
from freshkeeper.maintenance.cache.view.local_view import View
from freshkeeper.maintenance.cache.view.schedule import Numbered, check_schedule, scheduled
from freshkeeper.maintenance.cache.view.slots import Slots
from freshkeeper.maintenance.fetching.endpoint import Price
from freshkeeper.maintenance.spark.enrichment.batch_arrivals import COUNT, EARLIEST, HASH
from freshkeeper.maintenance.spark.enrichment.candidates import Best, highest, offers
from freshkeeper.maintenance.spark.enrichment.on_driver import Shape
from freshkeeper.maintenance.spark.enrichment.shard_files import ShardFiles, column, found, numbers, read_arrow
from freshkeeper.policies.base import Case, Knowledge, Round, Structure
from freshkeeper.policies.ranked import Ranked
from freshkeeper.policies.runner import PolicyRunner

SCHEDULE = ("interval_ms", "phase_ms")
"""The columns of copies that a schedule has: changes at phase_ms + n·interval_ms (knowledge: exact)."""
COUNTED = [HASH, EARLIEST, COUNT]
"""The columns of counts that shards read."""
Given = TypeVar("Given")


@dataclass(frozen=True)
class ShardPlan:
    """Constants of an enrichment: how shards are scored, and the directory in which they are.

    It has the `graph` as it was laid, the `counts` of every micro-batch, a `log` of what evaluations asked of
    the shards and of what came into them by it, and `snapshots` of them.
    """

    place: Path
    shards: int
    life: str
    """of the driver that asks: what another one made of the same log is not trusted"""
    window: WindowSpec
    policy: Ranked
    knowledge: Knowledge
    price: Price
    seed: int
    at: int
    """when the copies of the files were fetched"""
    shape: Shape

    def path(self, kind: str, *names: object) -> Path:
        """Return the path of a file of a shard."""
        return self.place / kind / ".".join(map(str, names))


@dataclass(frozen=True, eq=False)
class EvaluationBeliefs:
    """The instants of an evaluation, and the driver's beliefs about changes by entry slot."""

    batch: int
    """the last micro-batch that came before"""
    rates: Floats | None
    """and behind them that of all that were never asked for before, which have the slot −1; None for schedules"""
    regular: Ints
    """slots of entries that are believed to change by a clock, ascending"""
    by_the_clock: Beliefs | None
    policy: str | None = None
    """the state of the policy, if it has any"""


class ShardModel(Numbered):
    """A change model from the schedules of a shard's entries, or from the driver's beliefs."""

    def __init__(self, knowledge: Knowledge, entries: pa.Table) -> None:
        """`slot` has the slot of each entry on the driver, −1 of one that was never asked for again."""
        self.knowledge, self.slot = knowledge, np.full(entries.num_rows, -1, np.int32)
        self.asked: EvaluationBeliefs | None = None
        if SCHEDULE[0] in entries.column_names:
            check_schedule(*(numbers(entries, name) for name in SCHEDULE))
        self._entries = entries

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        """Return the beliefs of all entries, or of some."""
        rows, asked = np.arange(last_refresh.size) if slots is None else slots, self.asked
        if asked is None or asked.rates is None:
            interval, phase = (numbers(self._entries, name)[rows] for name in SCHEDULE)
            return scheduled(interval, phase, instants, last_refresh, look_ahead)
        rates = asked.rates[np.minimum(self.slot[rows], asked.rates.size - 1)]
        plain = exponential(rates, instants, last_refresh, look_ahead)
        if asked.by_the_clock is not None:
            place, regular = found(self.slot[rows], asked.regular)
            here = np.flatnonzero(regular)
            for matrix, told in zip(plain.matrices, asked.by_the_clock.matrices, strict=False):
                matrix[here] = told[place[here], : instants.size]
        return plain


@dataclass(eq=False)
class Shard:
    """A shard as of evaluation `k`; `whole` when the copies of that evaluation are in as well."""

    number: int
    plan: ShardPlan
    files: ShardFiles
    view: View
    """without values"""
    model: ShardModel
    values: pa.Array
    """the newest of each entry"""
    k: int
    batch: int
    """the last micro-batch of which it has the counts"""
    whole: bool = True
    _scored: tuple[Ints, Round, Floats] | None = None
    """the entries of a round, the round, and what the policy makes of it"""

    @classmethod
    def of(cls, number: int, plan: ShardPlan, since: int, base: int | None) -> "Shard":
        """Load the snapshot after evaluation `base`, or the files as laid out before evaluation `since`."""
        files = ShardFiles.read(plan.path("graph", number))
        model, graph = ShardModel(plan.knowledge, files.entries), MaintenanceGraph(Window(plan.window, LONGEST_HORIZON))
        size, values, batch = files.entries.num_rows, column(files.entries, "value"), -1
        refreshed = np.full(size, plan.at)
        graph.by_sn = Rows.from_csr(files.start, files.neighbours)
        graph.by_sr = Rows.from_csr(np.zeros(size + 1, np.int64), model.slot[:0])  # nobody asks for it
        if base is not None:
            known = pickle.loads(plan.path("snapshots", base, number).read_bytes())
            graph.window, graph.tallies, refreshed, model.slot, values, batch = known
        graph.extend(files.keys.num_rows, size)
        srs: Any = column(files.entries, "sr").to_numpy(zero_copy_only=False)
        view = View(graph, model, srs=Slots(srs), last_refresh=refreshed, kinds=np.zeros(size, np.int8))
        return cls(number, plan, files, view, model, values, since - 1, batch)

    @property
    def now(self) -> int:
        """The instant that it is at."""
        return self.plan.window.instant(self.k)

    def move(self) -> None:
        """Advance to the next evaluation, with all copies that this one brought."""
        if not self.whole:
            self.take()
        self.k, self.whole, self._scored = self.k + 1, False, None
        asked: EvaluationBeliefs = pickle.loads(self.plan.path("log", self.k, "asked").read_bytes())
        graph = self.view.graph
        for batch in range(self.batch + 1, asked.batch + 1):
            for path in sorted(self.plan.path("counts", batch).glob("*.arrow")):
                self._arrive(read_arrow(path))
        graph.apply(graph.window.advance(self.k))
        self.model.asked, self.batch = asked, asked.batch

    def take(self) -> None:
        """Take in the copies that the evaluation brought."""
        came = read_arrow(self.plan.path("log", self.k, "came"))
        rows = pc.fill_null(pc.index_in(column(self.files.entries, "sr"), column(came, "sr")), -1).to_numpy()
        entry, place = np.flatnonzero(rows >= 0), np.arange(len(self.values))
        row = rows[entry]
        place[entry] = place.size + row
        self.values = pa.concat_arrays([self.values, column(came, "value")]).take(place)
        self.view.last_refresh[entry], self.model.slot[entry] = (
            numbers(came, name)[row] for name in ("refreshed_ms", "slot")
        )
        self.whole, self._scored = True, None

    def best(self, most: int, price: float) -> Best:
        """Return the entries that the policy would take first, among those worth the price."""
        rows, round, score = self._score()
        tie = np.random.default_rng([self.plan.seed, self.number, self.k % 2**32]).random(rows.size)
        chosen = highest(score, tie, most, price)
        entry = rows[chosen]
        best = pa.table({
            "sr": column(self.files.entries, "sr").take(entry), "value": self.values.take(entry),
            "refreshed_ms": self.view.last_refresh[entry], "score": score[chosen], "tie": tie[chosen],
        })  # fmt: skip
        return Best(best, np.array([round.candidates.sum(), round.stale_candidates.sum()]))

    def offers(self, most: int, every: int) -> Floats:
        """Return the shard's offer for a price that is common to all shards."""
        return offers(self._score()[2], most, every)

    def answer(self, place: Path, save: bool) -> Floats:
        """Window ⋈ copies at this evaluation, as a file in `place`, and a snapshot if it is due.

        How many answers there are, and how many of them are expected to be fresh.
        """
        graph = self.view.graph
        if not self.whole:
            self.take()
        if save:
            known = graph.window, graph.tallies, self.view.last_refresh, self.model.slot, self.values, self.batch
            with atomic_file(
                self.plan.path("snapshots", self.k, self.number), durable=True, mark=self.plan.life
            ) as file:
                file.write_bytes(pickle.dumps(known, pickle.HIGHEST_PROTOCOL))
        refreshed, needed = self.view.last_refresh, np.flatnonzero(graph.tallies.total[: graph.srs])
        fresh = np.zeros(graph.srs)
        fresh[needed] = self.model.beliefs(np.array([self.now]), refreshed[needed], False, needed).kept[:, 0]
        fresh[refreshed >= self.now] = 1.0
        counts = graph.window.counts(self.files.keys.num_rows)
        present = np.flatnonzero(counts)
        join = Join(self.now, graph, present, counts[present].astype(np.int64), fresh, False, refreshed)
        if join.degrees.any():
            table = self.plan.shape.table(self.k, join, self.values.take, self.files.named)
            with atomic_file(place / f"{self.k}-{self.number}.parquet", mark=self.plan.life) as file:
                parquet.write_table(table, file, use_dictionary=["k", "t_ms", "weight", "refreshed_ms"])
        return np.array([join.weight.sum(), join.weight @ join.fresh])

    def _arrive(self, counts: pa.Table) -> None:
        """Elements of keys that are here; any of their times stands for all of one key and pair of evaluations."""
        hashes, at, count = (numbers(counts, name) for name in COUNTED)
        place, known = found(hashes, numbers(self.files.keys, HASH))
        here = np.flatnonzero(known)
        self.view.graph.window.insert(np.repeat(at[here], count[here]), np.repeat(place[here], count[here]))

    def _score(self) -> tuple[Ints, Round, Floats]:
        if self._scored is None:
            plan = self.plan
            # A copy, because the shards in one worker's memory share the plan.
            runner = PolicyRunner(deepcopy(plan.policy), f"shard {self.number}")
            runner.load(None if self.model.asked is None else self.model.asked.policy)
            rounds = RoundBuilder(plan.window, self.view, self.model, runner, Case.BGP)
            rows, round = rounds.build(self.now, self.k, plan.price)
            round = replace(round, build=_no_structure)
            self._scored = rows, round, runner.score(round)
        return self._scored


_held: dict[tuple[Path, int], Shard] = {}
"""The shards in this worker's memory: what a task may find there from the one before, and can do without."""


def work_on(
    plan: ShardPlan, k: int, since: int, base: int | None, work: Callable[[Shard], Given], numbers: Iterable[int]
) -> Iterator[Given]:
    """Work on shards as of evaluation k; those in nobody's memory are folded from `since` on, behind `base`."""
    for number in numbers:
        shard = _held.pop((plan.place, number), None)
        if shard is None or shard.plan.life != plan.life or shard.k > k or shard.k + shard.whole < since:
            shard = Shard.of(number, plan, since, base)
        while shard.k < k:
            shard.move()
        _held[plan.place, number] = shard
        settled()
        yield work(shard)


def _no_structure() -> Structure:
    raise ConfigError("a part of a graph has no structure: a policy that needs it cannot have its graph on Spark")
