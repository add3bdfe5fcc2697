"""How a stream is enriched, and the parts put together from it."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from freshkeeper.maintenance.budget.ledger import BudgetRule
from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.journal.rows import Rows
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.pipeline.enrichment.batch_journal import PLACE, Journal
from freshkeeper.maintenance.pipeline.enrichment.batch_store import Store
from freshkeeper.maintenance.pipeline.enrichment.due import Due
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Batches, State, Step, Write
from freshkeeper.maintenance.pipeline.enrichment.on_driver import OnDriver, Shape
from freshkeeper.maintenance.pipeline.enrichment.once import Once
from freshkeeper.maintenance.pipeline.enrichment.warm import Warm
from freshkeeper.maintenance.service.endpoint import Endpoint, Remote
from freshkeeper.maintenance.view.changes import ChangeModel
from freshkeeper.maintenance.view.learned import Learned
from freshkeeper.policies.base import Case, Policy


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
        return State(Due(settings.window, settings.delay), OnDriver(_manager(settings, once, shape), shape))

    begin()  # what is wrong with the settings is said now, not in the first micro-batch
    return Batches(Store(place, {"source": once}), once, begin, both, reached)


def _manager(settings: Settings, once: Once, shape: Shape) -> Manager:
    policy, model = copy.deepcopy((settings.policy, settings.model))
    manager = Manager(settings.window, once, policy, settings.budget, model, settings.case, seed=settings.seed)
    if settings.warm is not None:
        warm = settings.warm
        manager.view.fill(warm.pairs(shape.on), warm.values(), warm.at)
    return manager
