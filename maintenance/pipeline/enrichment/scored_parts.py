"""Parts of a graph scored where they lie: each is a Round for the same code as everywhere, and its best leave it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from freshkeeper.maintenance.pipeline.enrichment.shard_files import numbers
from freshkeeper.maintenance.view.changes import Beliefs
from freshkeeper.maintenance.view.learned import exponential
from freshkeeper.maintenance.view.schedule import FixedSchedule
from freshkeeper.policies.arrays import Floats, Ids, Ints
from freshkeeper.policies.base import Round
from freshkeeper.policies.ranked import NO

TIES = 10_000
"""Entries equal to the last one of a part's best that leave it, for one draw among all of them."""
SCHEDULE = ("interval_ms", "phase_ms")
"""The columns of copies that a schedule has: changes at phase_ms + n·interval_ms (knowledge: exact)."""


@dataclass(frozen=True, eq=False)
class Held:
    """Some rows of a shard's entries, their slots on the driver, and when their copies were fetched."""

    entries: pa.Table
    rows: Ints
    slots: Ids
    refreshed: Ints


@dataclass(frozen=True, eq=False)
class Learnt:
    """What the driver has learned of the entries it ever asked for again, by their slots there."""

    rates: Floats
    """and behind them that of all others, which have the slot −1"""
    regular: Ints
    """slots of entries that are believed to change by a clock, ascending"""
    by_the_clock: Beliefs | None

    def of(self, held: Held, instants: Ints, ahead: bool) -> Beliefs:
        """Of some entries."""
        plain = exponential(self.rates[held.slots], instants, held.refreshed, ahead)
        if self.by_the_clock is not None:
            place = np.minimum(np.searchsorted(self.regular, held.slots), self.regular.size - 1)
            here = np.flatnonzero(self.regular[place] == held.slots)
            for matrix, told in zip(plain.matrices, self.by_the_clock.matrices, strict=False):
                matrix[here] = told[place[here], : instants.size]
        return plain


@dataclass(frozen=True)
class Scheduled:
    """Changes that are known, in columns of the entries."""

    def of(self, held: Held, instants: Ints, ahead: bool) -> Beliefs:
        """Of some entries."""
        interval, phase = (numbers(held.entries, name)[held.rows] for name in SCHEDULE)
        model, those = FixedSchedule(interval, phase), np.arange(held.rows.size)
        model.admit(those.astype(np.int32), those.tolist())
        return model.beliefs(instants, held.refreshed, ahead)


Believed = Learnt | Scheduled


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


@dataclass(frozen=True, eq=False)
class Scored:
    """A part's round, what the policy makes of it, and a draw among those that are equal."""

    rows: Ints
    round: Round
    score: Floats
    tie: Floats


def best_of(scored: Scored, most: int, price: float, described: Callable[[Ints], pa.Table]) -> Best:
    """Of one part, among what is worth the price; `described` tells of rows whatever the driver wants to know."""
    round, score, tie = scored.round, scored.score, scored.tie
    kept, needed = round.fresh_if_kept[:, 0], round.demand[:, 0]
    chosen, cut = highest(score, tie, most, price)
    best, numbers = described(scored.rows[chosen]), {"w0": needed, "kept": kept, "score": score, "tie": tie}
    for name, column in numbers.items():
        best = best.append_column(name, pa.array(column[chosen]))
    candidates, stale = int(round.candidates.sum()), int(round.stale_candidates.sum())
    return Best(best, candidates, stale, float(needed.sum()), float(needed @ kept), cut)


def highest(score: Floats, tie: Floats, most: int, price: float = NO) -> tuple[Ints, bool]:
    """The rows of the best, with those equal to the last of them; where these are too many, as they come by `tie`."""
    pool = np.flatnonzero((score > NO) & (score >= price))
    if most < 1 or pool.size <= most:
        return pool[: pool.size if most > 0 else 0], False
    cut = np.partition(score[pool], pool.size - most)[pool.size - most]
    pool = pool[score[pool] >= cut]
    order = pool[np.lexsort((tie[pool], -score[pool]))]
    return order[: most + TIES], order.size > most + TIES


def together(parts: Sequence[Best], most: int) -> Best:
    """The best of all parts, in the order of their keys."""
    rows = pa.concat_tables([part.rows for part in parts])
    cut = any(part.cut for part in parts)
    if cut:  # a part that could not send all of its ties must not lose by it
        order = np.lexsort((rows["tie"].to_numpy(), -rows["score"].to_numpy()))
        rows = rows.take(order[:most])
    return Best(
        rows.sort_by([("sr", "ascending")]), sum(part.candidates for part in parts), sum(part.stale for part in parts),
        sum(part.results for part in parts), sum(part.expected for part in parts), cut,
    )  # fmt: skip
