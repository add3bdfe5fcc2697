"""What evaluations cost and did: a journal in the state directory, one part per micro-batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Step
from freshkeeper.policies.base import Kind

TABLES = ("evaluations", "refreshes")
PLACE = "journal"
"""The journal in a state directory."""


@dataclass(frozen=True)
class Journal:
    """`place` is a journal with evaluations and refreshes, for reports and analyses."""

    place: Path
    constants: Mapping[str, str]
    """policy, case and knowledge"""

    def write(self, steps: Sequence[Step[object]], batch: int) -> None:
        """One micro-batch; what is there under its number is replaced."""
        evaluations = journal.Buffer("evaluations")
        for step in steps:
            evaluations.add({**vars(step.record), **self.constants, "setting": "", "seed": 0, "warmup": False})
        refreshes = pa.concat_tables([self._refreshes(step) for step in steps])
        for name, table in zip(TABLES, (evaluations.table(), refreshes), strict=True):
            journal.write_part(self.place, name, batch, table)

    def _refreshes(self, step: Step[object]) -> pa.Table:
        done, rows = step.refreshes, len(step.refreshes.keys)
        columns = {
            "setting": [""] * rows,
            "policy": [self.constants["policy"]] * rows,
            "seed": np.zeros(rows, np.int64),
            "k": np.full(rows, step.record.k),
            "t_ms": np.full(rows, step.record.t_ms),
            "sr": [f"?{key}" if kind == Kind.MISS else str(key) for kind, key in done.wanted],
            "changed": done.changed,
            "requests": np.ones(rows, np.int64),
            "latency_ms": np.full(rows, done.fetch_ms),
            "error": done.errors,
            "gain": done.gain,
            "late": done.read_at != step.record.t_ms,
        }
        return journal.table("refreshes", columns)


def read_journal(state: Path | str, name: str) -> pa.Table:
    """`evaluations` or `refreshes` of a query's state directory, in the order of micro-batches."""
    found = journal.read(Path(state) / PLACE, name)
    return journal.table(name, {}) if found is None else found
