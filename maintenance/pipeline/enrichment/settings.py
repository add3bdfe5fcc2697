"""How a stream is enriched, and the parts put together from it."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from maintenance.budget import BudgetRule
from maintenance.manager import Manager
from maintenance.pipeline.enrichment.batches import Batches, State, Step, Write
from maintenance.pipeline.enrichment.due import Due
from maintenance.pipeline.enrichment.journal import PLACE, Journal
from maintenance.pipeline.enrichment.on_driver import OnDriver, Shape
from maintenance.pipeline.enrichment.once import Once
from maintenance.pipeline.enrichment.store import Store
from maintenance.pipeline.enrichment.warm import Warm
from maintenance.service.endpoint import Endpoint, Remote
from maintenance.view.changes import ChangeModel
from maintenance.view.learned import Learned
from maintenance.window import WindowSpec
from policies.base import Case, Policy


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
        known = {"policy": self.policy.name, "case": self.case.value, "knowledge": self.model.knowledge.value}
        return Journal(state / PLACE, known)


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
        manager.view.load(warm.pairs(shape.on), warm.values(), warm.at)
    return manager
