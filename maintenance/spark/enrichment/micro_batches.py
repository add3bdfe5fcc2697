"""Commit each micro-batch exactly once: the order of steps that makes a kill harmless.

    read ─▶ for every evaluation that is due: intend ─▶ fetch ─▶ record ─▶ then: answer ─▶ write ─▶ commit

Killed anywhere, the query gets the same micro-batch again and starts from the state before it. All up to `commit` is a
function of that state, of the elements and of what the log has of the source, so it comes out the same. That is why a
micro-batch need not end with a snapshot: its elements are put into its log, and the state is the last snapshot with
the micro-batches since made again, without asking or writing anything. So what is written grows with what came.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias

import pyarrow as pa

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.journal.rows import JournalRows
from freshkeeper.maintenance.spark.enrichment.batch_arrivals import Arrivals, Tabular
from freshkeeper.maintenance.spark.enrichment.batch_store import Store
from freshkeeper.maintenance.spark.enrichment.on_driver import OnDriver, Settings, Step
from freshkeeper.maintenance.spark.enrichment.once import RecordingFetcher

JOURNAL = "journal"
"""The journal in a state directory: what evaluations cost and did, one part per micro-batch."""

Write: TypeAlias = Callable[[Sequence[Step], int], None]
"""Writes the steps of a micro-batch under its number, in place of what is there: after a kill it is called again."""

Begin: TypeAlias = Callable[[OnDriver | None], OnDriver]
"""Before the first micro-batch, or with the one of a snapshot, which holds nothing of the world outside."""


@dataclass(eq=False)
class Batches:
    """The query's state between micro-batches, in memory and on the disk."""

    store: Store
    source: RecordingFetcher
    begin: Begin
    write: Write
    _now: tuple[int, OnDriver] | None = None
    _since: int = 0
    """evaluations since the last snapshot, and micro-batches that had none"""

    @classmethod
    def of(cls, settings: Settings, source: RecordingFetcher, place: Path, begin: Begin, write: Write) -> Self:
        """Open the state of one query in `place`, with its journal."""
        rows = JournalRows("", settings.policy.name, 0, settings.case.value, settings.model.knowledge.value)

        def both(steps: Sequence[Step], batch: int) -> None:
            evaluations = journal.Buffer("evaluations")
            for step in steps:
                evaluations.add(rows.evaluation(step.record))
            refreshes = [journal.table("refreshes", rows.refreshes(step.refreshes)) for step in steps]
            journal.write_part(place / JOURNAL, "evaluations", batch, evaluations.table())
            journal.write_part(place / JOURNAL, "refreshes", batch, pa.concat_tables(refreshes))
            write(steps, batch)

        return cls(Store(place), source, begin, both)

    def process(self, batch: int, counts: Tabular) -> None:
        """Process one micro-batch, unless it was committed before."""
        (last, evaluator), reached = self.committed(), self.source.reached
        if batch == last:
            return
        if batch != last + 1:
            raise ConfigError(
                f"the state in {self.store.place} is that of micro-batch {last}, and this is micro-batch {batch}: "
                "state and checkpoint belong together, so keep both or remove both"
            )
        self._now = None  # until it is committed, what is in memory is of no use after an error
        self.source.begin(self.store.log(batch))
        arrivals = evaluator.arrive(counts, batch)
        steps = evaluator.advance(arrivals, reached)
        reached("answered")
        if steps:
            self.write(steps, batch)
        reached("written")
        self._since += max(1, len(steps))
        if last < 0 or self._since >= evaluator.replayed:
            self.store.save(batch, evaluator)
            self._since = 0
        else:
            self.store.log(batch).append(arrivals)
        self._now = batch, evaluator
        with atomic_file(self.store.place / "progress.json") as file:  # for people who watch; nothing is read from it
            file.write_text(json.dumps({"batch": batch, **evaluator.due.progress()}) + "\n")
        reached("committed")
        evaluator.tidy()

    def committed(self) -> tuple[int, OnDriver]:
        """Return the last committed micro-batch (−1 at the very beginning) and the state after it."""
        if self._now is not None:
            return self._now
        last, known = self.store.load() or (-1, None)
        evaluator, self._since = self.begin(known), 0
        evaluator.source = evaluator.manager.endpoint = self.source
        while isinstance(done := [None, *self.store.log(last + 1).read()][-1], Arrivals):
            last += 1
            self.source.begin(self.store.log(last), replay=True)
            self._since += max(1, len(evaluator.advance(done)))
        return last, evaluator
