"""What the views of a query did, as the journal's tables: every analysis of simulations works on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from maintenance.evaluation import Evaluation
from maintenance.journal import Buffer, write
from maintenance.manager import Manager
from maintenance.view.table import Miss

TABLES = ("evaluations", "refreshes", "answers")


@dataclass(eq=False)
class QueryJournal:
    """Collects rows and writes them at the end; without a directory it does nothing. The setting is the source."""

    seed: int
    directory: Path | None
    _tables: Mapping[str, Buffer] = field(default_factory=lambda: {name: Buffer(name) for name in TABLES})

    def observe(self, source: str, manager: Manager, evaluation: Evaluation) -> None:
        """One evaluation of one view."""
        if self.directory is None:
            return
        record = evaluation.record
        own = {"setting": source, "policy": manager.policy.name, "seed": self.seed, "k": record.k, "t_ms": record.t_ms}
        case, knowledge = manager.case.value, manager.model.knowledge.value
        said = vars(record) | own | {"case": case, "knowledge": knowledge, "warmup": False}
        self._tables["evaluations"].add(said)
        self._refreshes(evaluation, own)
        for answer in evaluation.answers or ():
            row = {"sn": written(answer.sn), "sr": written(answer.sr), "weight": answer.weight}
            self._tables["answers"].add(own | row | {"case": case, "refreshed_ms": answer.refreshed})

    def write(self) -> None:
        """Put the tables into the directory."""
        if self.directory is not None:
            for name, buffer in self._tables.items():
                write(self.directory, name, [buffer.table()])

    def _refreshes(self, evaluation: Evaluation, own: Mapping[str, object]) -> None:
        refreshes = evaluation.refreshes
        columns = (refreshes.changed.tolist(), refreshes.errors, refreshes.gain.tolist())
        for key, changed, error, gain in zip(refreshes.keys, *columns, strict=True):
            row = {"sr": written(key), "changed": changed, "requests": 1, "error": error, "gain": gain, "late": False}
            self._tables["refreshes"].add({**own, **row})


def written(key: object) -> str:
    """A key as text: the terms of a tuple with blanks between."""
    if isinstance(key, Miss):
        return f"miss {written(key.sn)}"
    return " ".join(str(term) for term in key) if isinstance(key, tuple) else str(key)
