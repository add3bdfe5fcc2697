"""Evaluations on the driver: the window's counts come from Spark, and the same Manager decides as everywhere."""

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from freshkeeper.maintenance.budget.ledger import BudgetRule
from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.evaluation import Join
from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.journal.rows import Rows
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import (
    Arrivals,
    Tabular,
    collected,
    here,
    key_columns,
    keys_of,
)
from freshkeeper.maintenance.pipeline.enrichment.batch_store import Store
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Batches, Begin, Due, Evaluator, Step, Write
from freshkeeper.maintenance.pipeline.enrichment.once import Once
from freshkeeper.maintenance.view.changes import ChangeModel
from freshkeeper.maintenance.view.learned import Learned
from freshkeeper.maintenance.view.slots import Slots
from freshkeeper.policies.arrays import NO_INTS, Ids, Ints
from freshkeeper.policies.base import NEVER, Case, Policy
from freshkeeper.policies.errors import InputError, check_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

JOURNAL = "journal"
"""The journal in a state directory: what evaluations cost and did, one part per micro-batch."""


@dataclass(frozen=True, eq=False)
class Warm:
    """What the view holds at first: `edges` with the key columns and `sr`, `copies` with `sr` and `value`."""

    edges: Tabular
    copies: Tabular
    at: int
    """when the copies were fetched, in ms"""

    def pairs(self, on: Sequence[str]) -> list[tuple[Hashable, Hashable]]:
        """The edges on the driver, in the order of the table."""
        table = here(self.edges)
        _check(table.column_names, "edges", [*on, "sr"])
        return list(zip(keys_of(table, on), table["sr"].to_pylist(), strict=True))

    def values(self) -> dict[Hashable, object]:
        """The copies on the driver."""
        table = here(self.copies)
        _check(table.column_names, "copies", ["sr", "value"])
        return dict(zip(table["sr"].to_pylist(), table["value"].to_pylist(), strict=True))

    def frames(self, spark: "SparkSession", shape: "Shape", needs: Sequence[str]) -> "tuple[DataFrame, DataFrame]":
        """Edges and copies on the cluster, with keys and values of the types that answers have."""
        from pyspark.sql.pandas.types import from_arrow_type

        both = (self.edges, self.copies)
        edges, copies = (spark.createDataFrame(one) if isinstance(one, pa.Table) else one for one in both)
        _check(edges.columns, "edges", [*shape.on, "sr"])
        _check(copies.columns, "copies", ["sr", "value", *needs])
        kinds = {name: from_arrow_type(shape.schema.field(name).type) for name in (*shape.on, "value")}
        keys = [edges[name].cast(kinds[name]) for name in shape.on]
        return edges.select(*keys, "sr"), copies.select("sr", copies["value"].cast(kinds["value"]), *needs)


@dataclass(frozen=True)
class Settings:
    """Everything but the events, the source, and the places to write to."""

    policy: Policy
    budget: BudgetRule
    window: WindowSpec
    delay: int = 0
    model: ChangeModel = field(default_factory=Learned)
    case: Case = Case.BGP
    seed: int = 0
    warm: Warm | None = None

    def manager(self, source: Once) -> Manager:
        """A new one, that has learned nothing; answers are told by whoever wants them."""
        policy, model = copy.deepcopy((self.policy, self.model))
        return Manager(self.window, source, policy, self.budget, model, self.case, seed=self.seed, answers=False)

    def batches(self, source: Once, place: Path, begin: Begin, write: Write) -> Batches:
        """What processes micro-batches by such an evaluator: its state in `place`, with a journal of what it did."""
        rows = Rows("", self.policy.name, 0, self.case.value, self.model.knowledge.value)

        def both(steps: Sequence[Step], batch: int) -> None:
            evaluations = journal.Buffer("evaluations")
            for step in steps:
                evaluations.add(rows.evaluation(step.record))
            refreshes = [journal.table("refreshes", rows.refreshes(step.refreshes)) for step in steps]
            journal.write_part(place / JOURNAL, "evaluations", batch, evaluations.table())
            journal.write_part(place / JOURNAL, "refreshes", batch, pa.concat_tables(refreshes))
            write(steps, batch)

        return Batches(Store(place), source, begin, both)


VALUES = {"string": pa.string(), "double": pa.float64(), "bigint": pa.int64(), "boolean": pa.bool_()}
"""The types that values of answers may be written in."""


@dataclass(frozen=True)
class Shape:
    """The columns of answers: k, t_ms, the keys, sr, value, weight, refreshed_ms, fresh."""

    on: Sequence[str]
    schema: pa.Schema

    @classmethod
    def of(cls, keys: Mapping[str, pa.DataType], value: pa.DataType) -> "Shape":
        """With these key columns, and values of this type."""
        count, more = dict.fromkeys(("k", "t_ms"), pa.int64()), dict.fromkeys(("weight", "refreshed_ms"), pa.int64())
        columns = {**count, **keys, "sr": pa.string(), "value": value, **more, "fresh": pa.float64()}
        return cls(list(keys), pa.schema(columns))

    def table(self, k: int, join: Join, values: Callable[[Ids], pa.Array], named: Mapping[str, pa.Array]) -> pa.Table:
        """The answers of one evaluation; `named` has columns of keys and entries by slot, `values` those of rows."""
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
        return pa.array(_texts(values) if kind == pa.string() else values, kind)

    def texts(self, entries: Sequence[Hashable]) -> dict[str, pa.Array]:
        """Cached entries as answers have them."""
        return {"sr": pa.array(_texts(entries), pa.string())}

    def parts(self, keys: Sequence[Hashable]) -> dict[str, pa.Array]:
        """Lookup keys as the columns that they came from."""
        columns = key_columns(keys, self.on)
        return {name: pa.array(column, self.schema.field(name).type) for name, column in columns.items()}


def shape_of(events: "StructType", on: Sequence[str], value: str) -> Shape:
    """The columns of answers to events of this schema."""
    from pyspark.sql.pandas.types import to_arrow_type

    check_name("type of values", value, VALUES)
    return Shape.of({name: to_arrow_type(events[name].dataType) for name in on}, VALUES[value])


@dataclass(eq=False)
class Keys:
    """The keys of a view in columns, by slot; they are made anew where some have changed."""

    slots: Slots
    make: Callable[[Sequence[Hashable]], dict[str, pa.Array]]
    _known: Sequence[Hashable] = ()
    _made: dict[str, pa.Array] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type["Keys"], tuple[object, object]]:
        """Without what can be made again."""
        return Keys, (self.slots, self.make)

    @property
    def columns(self) -> dict[str, pa.Array]:
        """As `make` has them."""
        if self._known != self.slots.keys:
            self._known = list(self.slots.keys)
            self._made = self.make(self._known)
        return self._made


@dataclass(eq=False)
class OnDriver(Evaluator):
    """A manager that is handed counts instead of elements."""

    shape: Shape
    keys: Keys
    entries: Keys
    replayed: ClassVar[int] = 64

    def arrive(self, counts: Tabular, batch: int) -> Arrivals:
        """Here they are wanted one by one."""
        del batch
        return collected(counts, self.shape.on)

    def evaluate(self, k: int, arrivals: Sequence[Arrivals]) -> Step:
        """With the elements that are new in it."""
        decision = self.manager.decide(self.manager.window.instant(k), *self.slots(arrivals))
        decision = replace(decision, selection=self.source.decided(decision.now, decision.selection))
        evaluation = self.manager.conclude(decision, self.manager.fetch(decision))
        return Step(evaluation.record, evaluation.refreshes, self.answers(k, evaluation.join))

    def slots(self, arrivals: Sequence[Arrivals]) -> tuple[Ints, Ints]:
        """Times and SNs; of elements of one key and pair of evaluations any time stands for all."""
        at, sns = [NO_INTS], [NO_INTS]
        for part in arrivals:
            codes, place = np.unique(part.codes, return_inverse=True)
            slots = self.manager.view.sn_slots([part.names[code] for code in codes.tolist()])
            at.append(np.repeat(part.earliest, part.count))
            sns.append(np.repeat(slots[place], part.count))
        return np.concatenate(at), np.concatenate(sns)

    def answers(self, k: int, join: Join) -> pa.Table:
        """Of an evaluation."""
        return self.shape.table(k, join, partial(self._values, join), self.keys.columns | self.entries.columns)

    def _values(self, join: Join, rows: Ids) -> pa.Array:
        needed = np.bincount(rows, minlength=self.entries.slots.width) > 0
        held = join.values(np.flatnonzero(needed).tolist(), self.manager.view.values)
        return self.shape.written(held).take((np.cumsum(needed) - 1)[rows])

    @classmethod
    def begun(cls, settings: Settings, source: Once, shape: Shape, *more: Any) -> Self:
        """Before the first micro-batch, with an empty view."""
        manager, due = settings.manager(source), Due(settings.window, settings.delay)
        return cls(manager, due, shape, Keys(manager.view.sns, shape.parts), Keys(manager.view.srs, shape.texts), *more)


def on_the_driver(settings: Settings, source: Once, shape: Shape) -> Begin:
    """Evaluations by a Manager."""

    def begin(known: Evaluator | None) -> Evaluator:
        if known is not None:
            return known
        evaluator, warm = OnDriver.begun(settings, source, shape), settings.warm
        if warm is not None:
            evaluator.manager.view.fill(warm.pairs(shape.on), warm.values(), warm.at)
        return evaluator

    begin(None)  # what is wrong with the settings is said now, not in the first micro-batch
    return begin


def _texts(values: Sequence[object]) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


def _check(there: Sequence[str], name: str, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in there:
            raise InputError(f"the {name} of a warm start have no column {column!r}; they have {', '.join(there)}")
