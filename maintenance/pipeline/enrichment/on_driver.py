"""Evaluations on the driver: the window's counts come from Spark, and the same Manager decides as everywhere."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from freshkeeper.maintenance.budget.ledger import BudgetRule
from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.evaluation import Join
from freshkeeper.maintenance.journal.rows import Rows
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import Arrivals, Tabular, collected, key_columns
from freshkeeper.maintenance.pipeline.enrichment.batch_journal import PLACE, Journal
from freshkeeper.maintenance.pipeline.enrichment.batch_store import Store
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Batches, Due, State, Step, Write
from freshkeeper.maintenance.pipeline.enrichment.once import Once
from freshkeeper.maintenance.pipeline.enrichment.warm import Warm
from freshkeeper.maintenance.service.endpoint import Endpoint, Remote
from freshkeeper.maintenance.view.changes import ChangeModel
from freshkeeper.maintenance.view.learned import Learned
from freshkeeper.maintenance.view.local_view import View
from freshkeeper.policies.arrays import Ints
from freshkeeper.policies.base import NEVER, Case, Policy
from freshkeeper.policies.errors import ConfigError, nearest

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


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

    def journal(self, state: Path) -> Journal:
        """Where evaluations and refreshes are told."""
        return Journal(state / PLACE, Rows("", self.policy.name, 0, self.case.value, self.model.knowledge.value))


VALUES = {"string": pa.string(), "double": pa.float64(), "bigint": pa.int64(), "boolean": pa.bool_()}
"""The types that values of answers may be written in."""


@dataclass(frozen=True)
class Shape:
    """The columns of answers: k, t_ms, the keys, sr, value, weight, refreshed_ms, fresh."""

    on: Sequence[str]
    keys: Sequence[pa.DataType]
    value: pa.DataType

    @property
    def schema(self) -> pa.Schema:
        """As Arrow has it."""
        keys = list(zip(self.on, self.keys, strict=True))
        instant = [("k", pa.int64()), ("t_ms", pa.int64())]
        age = [("weight", pa.int64()), ("refreshed_ms", pa.int64()), ("fresh", pa.float64())]
        return pa.schema([*instant, *keys, ("sr", pa.string()), ("value", self.value), *age])

    def table(self, k: int, join: Join, view: View) -> pa.Table:
        """The answers of one evaluation; a value is written as it is, or as text where text is asked for."""
        sn, sr = join.rows
        held = join.refreshed[sr] != NEVER
        sn, sr = np.repeat(np.arange(join.sns.size), join.degrees)[held], sr[held]
        used, place = np.unique(sr, return_inverse=True)
        slots, rows, schema = used.tolist(), sr.size, self.schema
        keys = key_columns([view.sns.keys[slot] for slot in join.sns.tolist()], self.on)
        columns: dict[str, Any] = {
            "k": np.full(rows, k), "t_ms": np.full(rows, join.now),
            "sr": pa.array([str(view.srs.keys[slot]) for slot in slots], pa.string()).take(place),
            "value": pa.array(self._written(join.values(slots, view.values)), self.value).take(place),
            "weight": join.counts[sn], "refreshed_ms": join.refreshed[sr], "fresh": join.fresh[held],
        }  # fmt: skip
        columns |= {name: pa.array(column, schema.field(name).type).take(sn) for name, column in keys.items()}
        return pa.table([columns[name] for name in schema.names], schema=schema)

    def _written(self, values: list[object]) -> list[object]:
        if self.value != pa.string():
            return values
        return [value if value is None or isinstance(value, str) else str(value) for value in values]


def shape_of(events: "StructType", on: Sequence[str], value: str) -> Shape:
    """The columns of answers to events of this schema."""
    from pyspark.sql.pandas.types import to_arrow_type

    if value not in VALUES:
        raise ConfigError(f"values cannot be written as {value!r}: {nearest(value, list(VALUES))}")
    return Shape(on, [to_arrow_type(events[name].dataType) for name in on], VALUES[value])


@dataclass(eq=False)
class OnDriver:
    """A manager that is handed counts instead of elements."""

    manager: Manager
    shape: Shape

    def arrive(self, counts: Tabular, batch: int) -> Arrivals:
        """Here they are wanted one by one."""
        del batch
        return collected(counts, self.shape.on)

    def settle(self) -> Callable[[], None]:
        """Nothing is kept elsewhere."""
        return lambda: None

    def evaluate(self, k: int, arrivals: Sequence[Arrivals]) -> Step[pa.Table]:
        """Elements of one key and one pair of evaluations are alike, so any of their times stands for all."""
        at = _joined([np.repeat(part.earliest, part.count) for part in arrivals])
        sns = _joined([np.repeat(self._slots(part), part.count) for part in arrivals])
        evaluation = self.manager.evaluate_slots(self.manager.window.instant(k), at, sns)
        return Step(evaluation.record, evaluation.refreshes, self.shape.table(k, evaluation.join, self.manager.view))

    def _slots(self, part: Arrivals) -> Ints:
        codes, place = np.unique(part.codes, return_inverse=True)
        return self.manager.view.sn_slots([part.names[code] for code in codes.tolist()])[place]


def on_the_driver(
    settings: Settings,
    source: Endpoint | Remote,
    place: Path,
    shape: Shape,
    write: Write[pa.Table],
    reached: Callable[[str], None],
) -> Batches[pa.Table]:
    """Evaluations by a Manager, its state in `place`."""
    once = Once(source, reached)
    journal = settings.journal(place)

    def both(steps: Sequence[Step[pa.Table]], batch: int) -> None:
        journal.write(steps, batch)
        write(steps, batch)

    def begin() -> State[pa.Table]:
        policy, model = copy.deepcopy((settings.policy, settings.model))
        manager = Manager(
            settings.window, once, policy, settings.budget, model, settings.case, seed=settings.seed, answers=False
        )
        if settings.warm is not None:
            manager.view.fill(settings.warm.pairs(shape.on), settings.warm.values(), settings.warm.at)
        return State(Due(settings.window, settings.delay), OnDriver(manager, shape))

    begin()  # what is wrong with the settings is said now, not in the first micro-batch
    return Batches(Store(place, {"source": once}), once, begin, both, reached)


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
