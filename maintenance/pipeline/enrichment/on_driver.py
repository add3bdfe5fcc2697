"""Evaluations on the driver: the window's counts come from Spark, and the same Manager decides as everywhere."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from freshkeeper.maintenance.budget.ledger import BudgetRule
from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.evaluation import Answers, Evaluation
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
from freshkeeper.policies.arrays import Floats, Ints
from freshkeeper.policies.base import Case, Policy
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

    def table(self, k: int, now: int, answers: Answers) -> pa.Table:
        """The answers of one evaluation; a value is written as it is, or as text where text is asked for."""
        rows = len(answers)
        values = answers.values
        if self.value == pa.string():
            values = [value if value is None or isinstance(value, str) else str(value) for value in values]
        columns: dict[str, Sequence[object] | Ints | Floats] = {
            "k": np.full(rows, k),
            "t_ms": np.full(rows, now),
            **key_columns(answers.keys, self.on),
            "sr": [str(key) for key in answers.entries],
            "value": values,
            "weight": answers.weight,
            "refreshed_ms": answers.refreshed,
            "fresh": answers.freshness,
        }
        schema = self.schema
        return pa.Table.from_arrays([pa.array(columns[part.name], part.type) for part in schema], schema=schema)


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
        now = self.manager.window.instant(k)
        slots = [self.manager.view.sn_slots(part.keys) for part in arrivals]
        at = _joined([np.repeat(part.earliest, part.count) for part in arrivals])
        sns = _joined([np.repeat(slot, part.count) for slot, part in zip(slots, arrivals, strict=True)])
        evaluation: Evaluation = self.manager.evaluate_slots(now, at, sns)
        answers = self.shape.table(k, now, evaluation.answers)
        return Step(evaluation.record, evaluation.refreshes, answers)


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
        manager = Manager(settings.window, once, policy, settings.budget, model, settings.case, seed=settings.seed)
        if settings.warm is not None:
            manager.view.fill(settings.warm.pairs(shape.on), settings.warm.values(), settings.warm.at)
        return State(Due(settings.window, settings.delay), OnDriver(manager, shape))

    begin()  # what is wrong with the settings is said now, not in the first micro-batch
    return Batches(Store(place, {"source": once}), once, begin, both, reached)


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
