"""Evaluations on the driver: the window's counts come from Spark, and the same Manager decides as everywhere."""

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa

from freshkeeper.maintenance.base.arrays import NO_INTS, Ids, Ints
from freshkeeper.maintenance.base.errors import check_name
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.evaluation import Join, Record, Refreshes
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.cache.view.local_view import View
from freshkeeper.maintenance.spark.enrichment.batch_arrivals import (
    Arrivals,
    Due,
    Tabular,
    check_there,
    collected,
    here,
    keys_of,
)
from freshkeeper.maintenance.spark.enrichment.once import RecordingFetcher
from freshkeeper.policies.base import NEVER, Case, Policy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, eq=False)
class Warm:
    """Initial contents of the view: `edges` with the key columns and `sr`, `copies` with `sr` and `value`."""

    edges: Tabular
    copies: Tabular
    at: int
    """when the copies were fetched, in ms"""

    def fill(self, view: View, on: Sequence[str]) -> None:
        """Load the contents into a view, in the order of the tables."""
        edges, copies = here(self.edges), here(self.copies)
        check_there("edges of a warm start", edges.column_names, [*on, "sr"])
        check_there("copies of a warm start", copies.column_names, ["sr", "value"])
        pairs = list(zip(keys_of(edges, on), edges["sr"].to_pylist(), strict=True))
        view.fill(pairs, dict(zip(copies["sr"].to_pylist(), copies["value"].to_pylist(), strict=True)), self.at)

    def frames(self, spark: "SparkSession", shape: "Shape", needs: Sequence[str]) -> "tuple[DataFrame, DataFrame]":
        """Edges and copies on the cluster, with keys of the types that answers have."""
        from pyspark.sql.pandas.types import from_arrow_type

        both = (self.edges, self.copies)
        edges, copies = (spark.createDataFrame(one) if isinstance(one, pa.Table) else one for one in both)
        check_there("edges of a warm start", edges.columns, [*shape.on, "sr"])
        check_there("copies of a warm start", copies.columns, ["sr", "value", *needs])
        keys = [edges[name].cast(from_arrow_type(shape.schema.field(name).type)) for name in shape.on]
        return edges.select(*keys, "sr"), copies.select("sr", "value", *needs)


@dataclass(frozen=True)
class Settings:
    """Settings of an enrichment, without events, source and output."""

    policy: Policy
    budget: BudgetRule
    window: WindowSpec
    delay: int = 0
    model: ChangeModel = field(default_factory=Learned)
    case: Case = Case.BGP
    seed: int = 0
    warm: Warm | None = None

    def manager(self, source: RecordingFetcher) -> Manager:
        """Return a new Manager that has learned nothing and collects no answers."""
        policy, model = copy.deepcopy((self.policy, self.model))
        return Manager(self.window, source, policy, self.budget, model, self.case, seed=self.seed, answers=False)


VALUES = {"string": pa.string(), "double": pa.float64(), "bigint": pa.int64(), "boolean": pa.bool_()}
"""The types that values of answers may be written in."""


@dataclass(frozen=True)
class Shape:
    """The columns of answers: k, t_ms, the keys, sr, value, weight, refreshed_ms, fresh."""

    on: Sequence[str]
    schema: pa.Schema

    @classmethod
    def of(cls, events: "StructType", on: Sequence[str], value: str) -> Self:
        """Return the schema of answers for these key columns and this type of values."""
        from pyspark.sql.pandas.types import to_arrow_type

        check_name("type of values", value, VALUES)
        count, more = dict.fromkeys(("k", "t_ms"), pa.int64()), dict.fromkeys(("weight", "refreshed_ms"), pa.int64())
        keys = {name: to_arrow_type(events[name].dataType) for name in on}
        columns = {**count, **keys, "sr": pa.string(), "value": VALUES[value], **more, "fresh": pa.float64()}
        return cls(on, pa.schema(columns))

    def table(self, k: int, join: Join, values: Callable[[Ids], pa.Array], named: Mapping[str, pa.Array]) -> pa.Table:
        """Return the answers of one evaluation; `named` has keys and entries by slot, `values` has the rows' values."""
        sn, sr = join.rows
        held, weight, fresh = join.refreshed[sr] != NEVER, join.weight, join.fresh
        if not held.all():
            sn, sr, weight, fresh = sn[held], sr[held], weight[held], fresh[held]
        columns: dict[str, Any] = {
            "k": np.full(sr.size, k), "t_ms": np.full(sr.size, join.now), "value": values(sr), "weight": weight,
            "refreshed_ms": join.refreshed[sr], "fresh": fresh,
        }  # fmt: skip
        columns |= {name: column.take(sr if name == "sr" else sn) for name, column in named.items()}
        return pa.table(columns).select(self.schema.names)

    def written(self, values: Sequence[object]) -> pa.Array:
        """Values as answers have them: as they are, or as text where text is asked for."""
        kind = self.schema.field("value").type
        return pa.array(map(text, values) if kind == pa.string() else values, kind)


@dataclass(eq=False)
class Names:
    """The columns that answers have of keys and entries, by slot; they are made anew where some have changed."""

    view: View
    shape: Shape
    _known: tuple[Sequence[Hashable], ...] = ()
    _made: dict[str, pa.Array] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type["Names"], tuple[object, object]]:
        """Pickle nothing that can be computed again."""
        return Names, (self.view, self.shape)

    @property
    def columns(self) -> dict[str, pa.Array]:
        """Return the columns as the view has them now."""
        keys, entries = self.view.sns.keys, self.view.srs.keys
        if self._known != (keys, entries):
            on, schema = self.shape.on, self.shape.schema
            rows = [key if isinstance(key, tuple) else (None,) * len(on) for key in keys]  # None in a slot that is free
            parts = [keys] if len(on) == 1 else [[row[n] for row in rows] for n in range(len(on))]
            self._made = {name: pa.array(part, schema.field(name).type) for name, part in zip(on, parts, strict=True)}
            self._known, self._made["sr"] = (keys.copy(), entries.copy()), pa.array(map(text, entries), pa.string())
        return self._made


class Step(NamedTuple):
    """The record and the answers of one evaluation."""

    record: Record
    refreshes: Refreshes
    answers: pa.Table | None
    """None where shards have written them"""


@dataclass(eq=False)
class OnDriver:
    """A manager that is handed counts instead of elements; a snapshot has all of it but the source."""

    manager: Manager
    due: Due
    shape: Shape
    names: Names
    source: RecordingFetcher = field(init=False)
    replayed: ClassVar[int] = 64
    """Evaluations that a restart may have to make again, or micro-batches without one; 0: a snapshot ends each."""

    def arrive(self, counts: Tabular, batch: int) -> Arrivals:
        """Collect the counts of each key on the driver."""
        del batch
        return collected(counts, self.shape.on)

    def advance(self, arrivals: Arrivals, reached: Callable[[str], None] = lambda _: None) -> list[Step]:
        """Make the evaluations that are due after these arrivals."""
        self.due.take(arrivals)
        reached("read")
        return [self.evaluate(k, own) for k, own in self.due.evaluations()]

    def tidy(self) -> None:
        """Drop what no restart needs after a micro-batch was committed."""

    def evaluate(self, k: int, arrivals: Sequence[Arrivals]) -> Step:
        """Evaluate once, with the elements that are new since the last evaluation."""
        decision = self.manager.decide(self.manager.window.instant(k), *self.slots(arrivals))
        decision = replace(decision, selection=self.source.decided(decision.now, decision.selection))
        evaluation = self.manager.conclude(decision, self.manager.fetch(decision))
        return Step(evaluation.record, evaluation.refreshes, self.answers(k, evaluation.join))

    def slots(self, arrivals: Sequence[Arrivals]) -> tuple[Ints, Ints]:
        """Return times and lookup keys; for elements of one key and one evaluation any time stands for all."""
        at, sns = [NO_INTS], [NO_INTS]
        for part in arrivals:
            codes, place = np.unique(part.codes, return_inverse=True)
            slots = self.manager.view.sn_slots([part.names[code] for code in codes.tolist()])
            at.append(np.repeat(part.earliest, part.count))
            sns.append(np.repeat(slots[place], part.count))
        return np.concatenate(at), np.concatenate(sns)

    def answers(self, k: int, join: Join) -> pa.Table:
        """Return the answers of an evaluation."""
        return self.shape.table(k, join, partial(self._values, join), self.names.columns)

    def _values(self, join: Join, rows: Ids) -> pa.Array:
        needed = np.bincount(rows, minlength=self.manager.view.srs.width) > 0
        held = join.values(np.flatnonzero(needed).tolist(), self.manager.view.values)
        return self.shape.written(held).take((np.cumsum(needed) - 1)[rows])

    @classmethod
    def begun(cls, settings: Settings, source: RecordingFetcher, shape: Shape, *more: Any) -> Self:
        """Before the first micro-batch, with an empty view."""
        manager, due = settings.manager(source), Due(settings.window, settings.delay)
        return cls(manager, due, shape, Names(manager.view, shape), *more)


def on_the_driver(settings: Settings, source: RecordingFetcher, shape: Shape, known: OnDriver | None) -> OnDriver:
    """Return an evaluator whose evaluations are made by a Manager."""
    if known is not None:
        known.manager.attach(copy.deepcopy(settings.policy))
        return known
    evaluator = OnDriver.begun(settings, source, shape)
    if settings.warm is not None:
        settings.warm.fill(evaluator.manager.view, shape.on)
    return evaluator


def text(value: object) -> str | None:
    """Return a value as answers have it."""
    return None if value is None else str(value)
