"""Parts of a graph scored where they lie: each is a Round for the same code as everywhere, and its best leave it.

What is known of changes is in columns of the copies: a rate, or an interval and a phase.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from freshkeeper.maintenance.view.changes import Beliefs, ChangeModel
from freshkeeper.maintenance.view.learned import Learned, exponential
from freshkeeper.maintenance.view.schedule import FixedSchedule
from freshkeeper.policies.arrays import Floats, Ints
from freshkeeper.policies.base import Knowledge, Round, Structure
from freshkeeper.policies.errors import ConfigError
from freshkeeper.policies.ranked import NO, Ranked

TIES = 10_000
"""Entries equal to the last one of a part's best that leave it, for one draw among all of them."""


@dataclass(frozen=True)
class Rates:
    """Poisson changes, λ in the column `rate`."""

    needs: tuple[str, ...] = ()
    """columns that the copies of a warm start must have"""

    def beliefs(self, rows: pa.Table, instants: Ints, refreshed: Ints) -> Beliefs:
        """Of every row."""
        return exponential(rows["rate"].to_numpy(), instants, refreshed, True)

    def fresh(self, now: int) -> Column:
        """The probability that the copy of a row is fresh."""
        return F.exp(-F.col("rate") * F.greatest(F.lit(now) - F.col("refreshed_ms"), F.lit(0)))


@dataclass(frozen=True)
class Schedule:
    """Changes at phase_ms + n·interval_ms, in columns of the copies (knowledge: exact)."""

    needs: tuple[str, ...] = ("interval_ms", "phase_ms")

    def beliefs(self, rows: pa.Table, instants: Ints, refreshed: Ints) -> Beliefs:
        """Of every row."""
        model, numbers = FixedSchedule(*_columns(rows, self.needs)), np.arange(rows.num_rows)
        model.admit(numbers.astype(np.int32), numbers.tolist())
        return model.beliefs(instants, refreshed, True)

    def fresh(self, now: int) -> Column:
        """Whether the copy of a row is fresh."""
        last = F.lit(now) - F.pmod(F.lit(now) - F.col("phase_ms"), F.col("interval_ms"))
        return (F.col("refreshed_ms") >= last).cast("double")


def columns_of(model: ChangeModel) -> Rates | Schedule:
    """What a change model is as columns."""
    if isinstance(model, Learned):
        return Rates()
    if model.knowledge is Knowledge.EXACT:
        return Schedule()
    raise ConfigError(
        f"a graph on Spark takes Learned() or a FixedSchedule as what is known of changes, not {type(model).__name__}"
    )


@dataclass(frozen=True, eq=False)
class Best:
    """What leaves a part, or all of them: rows with `score` and `tie`, and sums over all its candidates."""

    rows: pa.Table
    candidates: int = 0
    stale: int = 0
    results: float = 0.0
    expected: float = 0.0
    cut: bool = False
    """whether more were equal to the last one than may leave"""


@dataclass(frozen=True)
class Scoring:
    """Scores the candidates of a part (sr, value, refreshed_ms, w0, w1, ... and what is known of changes)."""

    policy: Ranked
    known: Rates | Schedule
    knowledge: Knowledge
    instants: Sequence[int]
    cost: float
    most: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As `mapInArrow` wants it; a part without candidates has nothing to say."""
        found = list(batches)
        if found:
            yield pa.RecordBatch.from_pydict({"best": [pickle.dumps(self.best(pa.Table.from_batches(found)))]})

    def best(self, rows: pa.Table) -> Best:
        """Of one part."""
        round = self._round(rows)
        score, kept, needed = self.policy.score(round), round.fresh_if_kept[:, 0], round.demand[:, 0]
        tie = np.random.default_rng([self.instants[0], rows.num_rows, int(needed.sum())]).random(score.size)
        chosen, cut = highest(score, tie, self.most)
        numbers = {"w0": needed, "kept": kept, "score": score, "tie": tie}
        best = rows.select(["sr", "value", "refreshed_ms"]).take(chosen)
        for name, column in numbers.items():
            best = best.append_column(name, pa.array(column[chosen]))
        stale = int(round.stale.sum())
        return Best(best, rows.num_rows, stale, float(needed.sum()), float(needed @ kept), cut)

    def _round(self, rows: pa.Table) -> Round:
        instants, refreshed = np.array(self.instants), rows["refreshed_ms"].to_numpy()
        beliefs = self.known.beliefs(rows, instants, refreshed)
        assert beliefs.change is not None
        change = beliefs.change
        return Round(
            demand=np.stack([rows[f"w{m}"].to_numpy() for m in range(instants.size)], axis=1).astype(np.float64),
            fresh_if_refreshed=beliefs.refreshed, fresh_if_kept=beliefs.kept, cost=np.full(refreshed.size, self.cost),
            last_refresh=refreshed, build=_no_structure, foresee=lambda: change, knowledge=self.knowledge,
            now=self.instants[0], span=instants.size, keys=rows["sr"].to_pylist(),
        )  # fmt: skip


def highest(score: Floats, tie: Floats, most: int) -> tuple[Ints, bool]:
    """The rows of the best, with those equal to the last of them; where these are too many, as they come by `tie`."""
    pool = np.flatnonzero(score > NO)
    if most < 1 or pool.size <= most:
        return pool[: pool.size if most > 0 else 0], False
    order = pool[np.lexsort((tie[pool], -score[pool]))]
    level = int(np.searchsorted(-score[order], -score[order[most - 1]], "right"))
    return order[: min(level, most + TIES)], level > most + TIES


def together(parts: Sequence[Best], most: int, empty: pa.Table) -> Best:
    """The best of all parts, in the order of their keys."""
    rows = pa.concat_tables([part.rows for part in parts]) if parts else empty
    cut = any(part.cut for part in parts)
    if cut:  # a part that could not send all of its ties must not lose by it
        order = np.lexsort((rows["tie"].to_numpy(), -rows["score"].to_numpy()))
        rows = rows.take(order[:most])
    return Best(
        rows.sort_by([("sr", "ascending")]), sum(part.candidates for part in parts), sum(part.stale for part in parts),
        sum(part.results for part in parts), sum(part.expected for part in parts), cut,
    )  # fmt: skip


def _columns(rows: pa.Table, names: Sequence[str]) -> tuple[Ints, Ints]:
    first, second = (rows[name].to_numpy() for name in names)
    return first, second


def _no_structure() -> Structure:
    raise ConfigError("a part of a graph has no structure: a policy that needs it cannot have its graph on Spark")
