"""An enricher's rows over a restart or a kill: in the same tables as a run's views."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.cache.evaluation import Decision, Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.enricher.lookup_source import LookupSource
from freshkeeper.maintenance.state.database import Database
from freshkeeper.maintenance.state.evidence_log import EvidenceLog
from freshkeeper.maintenance.state.stored_view import StoredView

BEGAN, HORIZON = "enricher began", "enricher's horizon"


@dataclass(eq=False)
class StoredRows:
    """One directory; what a round did is written before the next one, what it may spend before it sends."""

    directory: Path
    name: str
    base: Database = field(init=False)
    _evidence: EvidenceLog | None = None
    _view: StoredView | None = None

    def __post_init__(self) -> None:
        self.base = Database(self.directory)

    def start(self, now: int) -> int:
        """The first instant of the grid: that of the first run."""
        found: int = self.base.facts.setdefault(BEGAN, now)
        self.base.note({BEGAN: found})
        return found

    def horizon(self, first: int) -> int:
        """The one in which arrivals are written, in ms."""
        found: int = self.base.facts.setdefault(HORIZON, first)
        self.base.note({HORIZON: found})
        return found

    def recording(self, model: ChangeModel) -> ChangeModel:
        """The model, with a list of what it is told."""
        self._evidence = EvidenceLog(model)
        return self._evidence

    def restored(self, manager: Manager, source: LookupSource) -> int | None:
        """Fill the manager's view; the instant of the last round that was written."""
        assert self._evidence is not None
        self._view = StoredView(self.base, 0, self.name, manager, source, self._evidence)
        self._view.settle()
        doubt = self._view.doubt
        return doubt.t if doubt is not None else self._view.last

    def intend(self, decision: Decision) -> None:
        """A round is about to send."""
        assert self._view is not None
        self._view.intend(decision)

    def commit(self, evaluation: Evaluation, arrived: Ints) -> None:
        """What a round did; arrivals of all keys where they are counted in another horizon."""
        assert self._view is not None
        manager, base = self._view.manager, self.base
        known = arrived[arrived < manager.view.sns.width]
        moved = base.facts[HORIZON] != manager.window.range
        with self._view.commit(evaluation, np.arange(manager.view.sns.width) if moved else known):
            base.note({HORIZON: manager.window.range} if moved else {})

    def close(self) -> None:
        """Let others have the directory."""
        self.base.close()
