"""What evaluations cost and did: a journal in the state directory, one part per micro-batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.journal.rows import Rows
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Step

TABLES = ("evaluations", "refreshes")
PLACE = "journal"
"""The journal in a state directory."""


@dataclass(frozen=True)
class Journal:
    """`place` is a journal with evaluations and refreshes, for reports and analyses."""

    place: Path
    rows: Rows

    def write(self, steps: Sequence[Step[object]], batch: int) -> None:
        """One micro-batch; what is there under its number is replaced."""
        evaluations = journal.Buffer("evaluations")
        for step in steps:
            evaluations.add(self.rows.evaluation(step.record))
        refreshes = pa.concat_tables(
            [journal.table("refreshes", self.rows.refreshes(step.refreshes)) for step in steps]
        )
        for name, table in zip(TABLES, (evaluations.table(), refreshes), strict=True):
            journal.write_part(self.place, name, batch, table)


def read_journal(state: Path | str, name: str) -> pa.Table:
    """`evaluations` or `refreshes` of a query's state directory, in the order of micro-batches."""
    found = journal.read(Path(state) / PLACE, name)
    return journal.table(name, {}) if found is None else found
