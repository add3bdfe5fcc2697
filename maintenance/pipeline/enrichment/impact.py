"""Scores as a Spark plan, for graphs that no driver holds: window ⋈ edges → demand, with the copies → score.

The columns are those of a Round: w0, w1, ... are its demand, and what is known of changes is one expression for every
m, so nothing but the best rows leaves the executors. The choice among them is `policies/choose.py`'s, as everywhere.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import COUNT, FIRST, LAST
from freshkeeper.maintenance.view.changes import ChangeModel
from freshkeeper.maintenance.view.learned import Learned
from freshkeeper.policies.base import Knowledge, Policy
from freshkeeper.policies.errors import ConfigError
from freshkeeper.policies.gain import Gain
from freshkeeper.policies.ibm import Ibm
from freshkeeper.policies.lru import Lru
from freshkeeper.policies.sbm import Sbm

Columns: TypeAlias = list[Column]
"""one for every evaluation ahead, the present one first"""
Scoring: TypeAlias = Callable[[Columns, Columns, Columns, Column], Column]
"""of demand, fresh_if_refreshed, fresh_if_kept and age"""


@dataclass(frozen=True)
class Rates:
    """Poisson changes: fresh for a time d with the probability exp(−λ·d), λ in the column `rate`."""

    needs: tuple[str, ...] = ()
    """columns that the copies of a warm start must have"""

    def beliefs(self, instants: Sequence[int]) -> tuple[Columns, Columns]:
        """As `freshkeeper.maintenance.view.learned.exponential`."""
        rate, now = F.col("rate"), instants[0]
        refreshed = [F.exp(-rate * float(at - now)) for at in instants]
        survived = F.exp(-rate * F.greatest(F.lit(now) - F.col("refreshed_ms"), F.lit(0)))
        return refreshed, [survived * later for later in refreshed]


@dataclass(frozen=True)
class Schedule:
    """Changes at phase_ms + n·interval_ms, in columns of the copies (knowledge: exact)."""

    needs: tuple[str, ...] = ("interval_ms", "phase_ms")

    def beliefs(self, instants: Sequence[int]) -> tuple[Columns, Columns]:
        """As `freshkeeper.maintenance.view.schedule.FixedSchedule`."""
        now, interval = F.lit(instants[0]), F.col("interval_ms")
        last = now - F.pmod(now - F.col("phase_ms"), interval)
        refreshed = [(last + interval > at).cast("double") for at in instants]
        held = F.col("refreshed_ms") >= last
        return refreshed, [F.when(held, later).otherwise(0.0) for later in refreshed]


def columns_of(model: ChangeModel) -> Rates | Schedule:
    """What a change model is as columns."""
    if isinstance(model, Learned):
        return Rates()
    if model.knowledge is Knowledge.EXACT:
        return Schedule()
    raise ConfigError(
        f"a graph on Spark takes Learned() or a FixedSchedule as what is known of changes, not {type(model).__name__}"
    )


def scoring(policy: Policy) -> Scoring:
    """The policy's score, case 1, as one expression; the same words as in policies/."""
    if isinstance(policy, Sbm):
        return lambda demand, _refreshed, kept, _age: demand[0] * (1.0 - kept[0])
    if isinstance(policy, Ibm):
        return lambda demand, refreshed, kept, _age: (
            _sum(w * f for w, f in zip(demand, refreshed, strict=True)) * (1.0 - kept[0])
        )
    if isinstance(policy, Lru):
        return lambda _demand, _refreshed, _kept, age: age
    if isinstance(policy, Gain) and not policy.expect:
        return lambda demand, refreshed, kept, _age: _sum(
            w * (f - k) for w, f, k in zip(demand, refreshed, kept, strict=True)
        )
    raise ConfigError(
        f"the policy {policy.name!r} has no score as a Spark plan; there are sbm, ibm, lru, and gain with expect=False"
    )


def profile(parts: DataFrame, on: Sequence[str], k: int, horizon: int) -> DataFrame:
    """C, the window at evaluation k: how many mappings of each key are still there m evaluations from now."""
    inside = parts.filter((F.col(FIRST) <= k) & (F.col(LAST) >= k))
    still = [F.sum(F.when(F.col(LAST) >= k + m, F.col(COUNT)).otherwise(0)).alias(f"c{m}") for m in range(horizon)]
    return inside.groupBy(*on).agg(*still)


def demand(joined: DataFrame, horizon: int) -> DataFrame:
    """W, from window ⋈ edges: in how many answers each SR takes part, m evaluations from now."""
    return joined.groupBy("sr").agg(*(F.sum(f"c{m}").alias(f"w{m}") for m in range(horizon)))


def scored(
    demand: DataFrame, copies: DataFrame, policy: Policy, knowledge: Rates | Schedule, instants: Sequence[int]
) -> DataFrame:
    """The candidates with score, and whether they may be chosen."""
    refreshed, kept = knowledge.beliefs(instants)
    needed = [F.col(f"w{m}").cast("double") for m in range(len(instants))]
    age = (F.lit(instants[0]) - F.col("refreshed_ms")).cast("double")
    rows = demand.join(copies, "sr").withColumns(
        {"score": scoring(policy)(needed, refreshed, kept, age), "kept": kept[0]}
    )
    eligible = F.col("score") > 0 if isinstance(policy, Gain) else F.col("kept") < 1
    return rows.select("sr", "value", "refreshed_ms", "w0", "kept", "score", eligible.alias("eligible"))


def answers(joined: DataFrame, copies: DataFrame, on: Sequence[str], fresh: Column) -> DataFrame:
    """Window ⋈ edges ⋈ copies: one row per key and edge, with how many mappings it stands for."""
    key, weight = F.col("sr").cast("string").alias("sr"), F.col("c0").alias("weight")
    return joined.join(copies, "sr").select(*on, key, "value", weight, "refreshed_ms", fresh.alias("fresh"))


def _sum(terms: Iterable[Column]) -> Column:
    return reduce(operator.add, terms)
