"""One shard of a graph on the cluster: its window, demand and copies as its log makes them, scored and joined in place.

A shard is a fold over a log: micro-batches' counts come, the window moves to an evaluation, copies come. Whoever holds
it as of an earlier evaluation reads on; whoever has none begins with a snapshot, or with the files. So it may be in any
worker's memory, in several, or in none, and a worker that dies is missed by nobody.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from freshkeeper.maintenance.demand.adjacency import Rows
from freshkeeper.maintenance.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.demand.round_builder import LONGEST_HORIZON, Keys
from freshkeeper.maintenance.demand.window import Window, WindowSpec
from freshkeeper.maintenance.files import whole
from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import COUNT, EARLIEST, HASH
from freshkeeper.maintenance.pipeline.enrichment.scored_parts import Believed, Best, Held, Scored, best_of
from freshkeeper.maintenance.pipeline.enrichment.shard_files import ShardFiles, column, numbers, read_arrow
from freshkeeper.maintenance.view.changes import Beliefs
from freshkeeper.policies.arrays import Floats, Ids, Ints
from freshkeeper.policies.base import Knowledge, Round, Scope, Structure
from freshkeeper.policies.errors import ConfigError
from freshkeeper.policies.ranked import Ranked

UNTOUCHED = -1
"""The slot of an entry that was never asked for again."""


@dataclass(frozen=True)
class Plan:
    """What does not change: where the shards are, and how they are scored."""

    place: Path
    shards: int
    life: str
    """of the driver that asks: what another one made of the same log is not trusted"""
    window: WindowSpec
    policy: Ranked
    knowledge: Knowledge
    horizon: int
    cost: float
    at: int
    """when the copies of the files were fetched"""
    on: Sequence[str]
    schema: pa.Schema
    """of answers"""

    def log(self, k: int, what: str) -> Path:
        """What evaluation k asked of its shards (`asked`), and what came into them by it (`came`)."""
        return self.place / "log" / f"{k}.{what}"

    def counts(self, batch: int) -> Path:
        """The counts of a micro-batch, a file for each task."""
        return self.place / "counts" / str(batch)

    def snapshot(self, shard: int, k: int) -> Path:
        """Of a shard, after evaluation k."""
        return self.place / "snapshots" / f"{k}.{shard}"


@dataclass(frozen=True, eq=False)
class Asked:
    """What an evaluation is about: the micro-batches that came before, what is believed, how many may be chosen."""

    k: int
    batches: Sequence[int]
    believed: Believed
    most: int


@dataclass(frozen=True, eq=False)
class Came:
    """Copies that came at an evaluation: where they belong, their slots on the driver, values and instants."""

    shard: Ints
    entry: Ints
    slot: Ints
    values: Sequence[object]
    at: Ints


@dataclass(eq=False)
class Shard:
    """As of evaluation `k`; `whole` when its copies are in as well."""

    number: int
    plan: Plan
    files: ShardFiles
    refreshed: Ints
    slot: Ids
    """by entry: its slot on the driver"""
    values: pa.Array
    """the newest of each entry"""
    window: Window
    graph: MaintenanceGraph
    k: int | None = None
    whole: bool = True
    _scored: Scored | None = None
    _kept: Floats | None = None
    """by entry: the probability that its copy was fresh before any was fetched"""

    @classmethod
    def of(cls, number: int, plan: Plan, base: int | None) -> "Shard":
        """As of the snapshot after evaluation `base`, or as the files have it."""
        files = ShardFiles.read(plan.place / "graph" / str(number))
        size, window = files.entries.num_rows, Window(plan.window, LONGEST_HORIZON)
        untouched, values = np.full(size, UNTOUCHED, np.int32), column(files.entries, "value")
        graph = MaintenanceGraph(window)
        shard = cls(number, plan, files, np.full(size, plan.at), untouched, values, window, graph)
        if base is not None:
            known = pickle.loads(plan.snapshot(number, base).read_bytes())
            window, graph.tallies, shard.refreshed, shard.slot, shard.values = known
            shard.window = graph.window = window
            shard.k = base
        graph.by_sn = Rows.from_csr(files.start, files.neighbours)
        graph.by_sr = Rows.from_csr(np.zeros(size + 1, np.int64), untouched[:0])  # nobody asks for it
        graph.extend(files.keys.num_rows, size)
        return shard

    def save(self) -> None:
        """A snapshot, to be read by whoever goes on from here."""
        assert self.k is not None
        known = self.window, self.graph.tallies, self.refreshed, self.slot, self.values
        with whole(self.plan.snapshot(self.number, self.k), durable=True, mark=self.plan.life) as file:
            file.write_bytes(pickle.dumps(known, pickle.HIGHEST_PROTOCOL))

    def move(self, asked: Asked) -> None:
        """The window as it is at an evaluation."""
        for batch in asked.batches:
            for path in sorted(self.plan.counts(batch).glob("*.arrow")):
                self._arrive(read_arrow(path))
        self.graph.apply(self.window.advance(asked.k))
        self.k, self.whole, self._kept, self._scored = asked.k, False, None, None

    def take(self, came: Came, asked: Asked | None = None) -> None:
        """The copies that an evaluation brought; `asked` says what is believed of those that were read before it."""
        mine = np.flatnonzero(came.shard == self.number)
        new, place = pa.array([came.values[n] for n in mine.tolist()], self.values.type), np.arange(self.slot.size)
        place[came.entry[mine]] = place.size + np.arange(mine.size)
        self.values = pa.concat_arrays([self.values, new]).take(place)
        self.refreshed[came.entry[mine]] = came.at[mine]
        self._scored = None
        self.slot[came.entry[mine]] = came.slot[mine]
        self.whole = True
        late = came.entry[mine][came.at[mine] < self.plan.window.instant(self.k or 0)]
        if asked is not None and self._kept is not None and late.size:
            self._kept[late] = self._beliefs(asked, late, 1, False).kept[:, 0]

    def best(self, asked: Asked, price: float) -> Best:
        """The candidates' sums, and those that the policy would take first, of what is worth the price."""
        return best_of(self.scored(asked), asked.most, price, self._described)

    def scored(self, asked: Asked) -> Scored:
        """What the policy makes of this shard."""
        if self._scored is None:
            rows, round = self._round(asked)
            self._keep(rows, round.fresh_if_kept[:, 0])
            tie = np.random.default_rng([self.number, asked.k % 2**32]).random(rows.size)
            self._scored = Scored(rows, round, self.plan.policy.score(round), tie)
        return self._scored

    def look(self, asked: Asked) -> None:
        """Remember how fresh copies are, where that is all that is wanted of an evaluation."""
        if self._kept is None:
            rows = np.flatnonzero(self.graph.tallies.total[: self.graph.srs])
            self._keep(rows, self._beliefs(asked, rows, 1, False).kept[:, 0])

    def answers(self, path: Path) -> int:
        """Window ⋈ copies at this evaluation, as a file; how many rows."""
        assert self.k is not None
        assert self._kept is not None
        counts = self.window.counts(self.files.keys.num_rows)
        sns, now = np.flatnonzero(counts), self.plan.window.instant(self.k)
        sn, sr = self.graph.edges_of(sns)
        if not sr.size:
            return 0
        fresh = np.where(self.refreshed >= now, 1.0, self._kept)
        columns: dict[str, Any] = {
            "k": np.full(sr.size, self.k), "t_ms": np.full(sr.size, now), "sr": self.files.names.take(sr),
            "value": self.values.take(sr), "weight": counts[sn].astype(np.int64), "refreshed_ms": self.refreshed[sr],
            "fresh": fresh[sr],
        }  # fmt: skip
        columns |= {name: column(self.files.keys, name).take(sn) for name in self.plan.on}
        table = pa.table([columns[name] for name in self.plan.schema.names], schema=self.plan.schema)
        with whole(path, mark=self.plan.life) as file:
            parquet.write_table(table, file, use_dictionary=["k", "t_ms", "weight", "refreshed_ms"])
        return sr.size

    def _arrive(self, counts: pa.Table) -> None:
        """Elements of keys that are here; any of their times stands for all of one key and pair of evaluations."""
        hashes, known = numbers(counts, HASH), self.files.hashes
        place = np.minimum(np.searchsorted(known, hashes), known.size - 1)
        here = np.flatnonzero(known[place] == hashes) if known.size else place[:0]
        count = numbers(counts, COUNT)[here]
        self.window.insert(np.repeat(numbers(counts, EARLIEST)[here], count), np.repeat(place[here], count))

    def _round(self, asked: Asked) -> tuple[Ints, Round]:
        plan, graph = self.plan, self.graph
        active = graph.active(plan.policy.scope)
        rows = np.arange(graph.srs) if active is None else active
        beliefs = self._beliefs(asked, rows, plan.horizon, False)

        def foresee() -> Floats:
            change = self._beliefs(asked, rows, plan.horizon, True).change
            assert change is not None
            return change

        return rows, Round(
            demand=graph.demand(plan.horizon, active), fresh_if_refreshed=beliefs.refreshed,
            fresh_if_kept=beliefs.kept, cost=np.full(rows.size, plan.cost), last_refresh=self.refreshed[rows],
            build=_no_structure, foresee=foresee,
            expected_arrivals=graph.arrivals(rows) if plan.policy.scope is Scope.EXPECTED else None,
            knowledge=plan.knowledge, now=plan.window.instant(asked.k), span=plan.window.span,
            keys=Keys(self.files.srs, rows),
        )  # fmt: skip

    def _beliefs(self, asked: Asked, rows: Ints, horizon: int, ahead: bool) -> Beliefs:
        instants = self.plan.window.instant(asked.k) + self.plan.window.step * np.arange(horizon)
        held = Held(self.files.entries, rows, self.slot[rows], self.refreshed[rows])
        return asked.believed.of(held, instants, ahead)

    def _keep(self, rows: Ints, kept: Floats) -> None:
        self._kept = np.zeros(self.graph.srs)
        self._kept[rows] = kept

    def _described(self, rows: Ints) -> pa.Table:
        """Entries as the driver wants them."""
        return pa.table({
            "sr": column(self.files.entries, "sr").take(rows), "value": self.values.take(rows),
            "refreshed_ms": self.refreshed[rows], "shard": np.full(rows.size, self.number), "entry": rows,
        })  # fmt: skip


def _no_structure() -> Structure:
    raise ConfigError("a part of a graph has no structure: a policy that needs it cannot have its graph on Spark")
