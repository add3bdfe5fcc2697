"""The state of a run: what its views hold and know, how far it came, and journal rows that are in no part yet."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.budget.shared_budget import Member
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.rsp.r2s import Answers, Freshness
from freshkeeper.maintenance.service.pattern_endpoint import PatternEndpoint
from freshkeeper.maintenance.state.database import Database
from freshkeeper.maintenance.state.evidence_log import EvidenceLog
from freshkeeper.maintenance.state.stored_view import StoredView
from freshkeeper.maintenance.state.term_text import decode, encode
from freshkeeper.policies.errors import ConfigError

Columns = Mapping[str, Sequence[object]]


@dataclass(eq=False)
class State:
    """One directory, for one query with its sources."""

    base: Database
    views: list[StoredView] = field(default_factory=list)

    @classmethod
    def open(cls, directory: Path, query: str, sources: Sequence[str]) -> "State":
        """Begin, or go on; a state of another query is refused."""
        base = Database(directory)
        known = base.facts
        try:
            if known.get("query", query) != query:
                raise ConfigError(f"--state {directory} keeps the views of another query: give another directory")
            if known.get("sources", sorted(sources)) != sorted(sources):
                had = ", ".join(known["sources"]) or "none"
                raise ConfigError(f"--state {directory} keeps views of other sources ({had}): give another directory")
        except ConfigError:
            base.close()
            raise
        base.note({"query": query, "sources": sorted(sources)})
        return cls(base)

    @property
    def begun(self) -> bool:
        """Whether any evaluation was written."""
        return bool(self.base.read("SELECT 1 FROM views WHERE body IS NOT NULL"))

    @property
    def answered(self) -> int | None:
        """The last evaluation whose answers are known to be out."""
        found: int | None = self.base.facts.get("answered")
        return found

    @property
    def torn(self) -> bool:
        """Whether the output of the run before may end within the answers of an evaluation."""
        return self.base.facts.get("answering") is not None

    def answering(self, t: int) -> None:
        """The answers of an evaluation are about to go out."""
        with self.base.transaction():
            self.base.note({"answering": t})

    def answer(self, t: int, streamed: Answers | None) -> None:
        """The answers of an evaluation are out; `streamed` is what R2S compares the next ones with."""
        written = None if streamed is None else _written(streamed)
        with self.base.transaction():
            self.base.note({"answering": None, "answered": t, "streamed": written})

    @property
    def streamed(self) -> Answers | None:
        """What R2S compares the next answers with."""
        written = self.base.facts.get("streamed")
        return None if written is None else _read(written)

    def store(
        self, number: int, name: str, manager: Manager, endpoint: PatternEndpoint, recorded: EvidenceLog
    ) -> StoredView:
        """What keeps one SERVICE's view."""
        kept = StoredView(self.base, number, name, manager, endpoint, recorded)
        self.views.append(kept)
        return kept

    def settle(self) -> None:
        """All views are there: go on with the budget that they share, and pay for what was killed on its way."""
        for view in self.views:
            ledger = view.manager.ledger
            if isinstance(ledger, Member) and "shared" in self.base.facts:
                ledger.shared.load(self.base.facts["shared"])
        for view in self.views:
            view.settle()

    def pend(self, name: str, columns: Columns) -> None:
        """Rows for the journal, in the transaction that is open."""
        if columns:
            body = json.dumps({column: list(values) for column, values in columns.items()})
            self.base.sql.execute("INSERT INTO journal (name, body) VALUES (?, ?)", (name, body))

    def pending(self) -> list[tuple[str, Columns]]:
        """The journal rows that are in no part yet."""
        found = self.base.read("SELECT name, body FROM journal ORDER BY seq")
        return [(name, json.loads(body)) for name, body in found]

    def waiting(self) -> tuple[int, int]:
        """The numbers of the first and of the last of them; rows are numbered once and for all."""
        ((first, last),) = self.base.read("SELECT min(seq), max(seq) FROM journal")
        return (first, last) if first else (0, 0)

    def settled(self, last: int) -> None:
        """Journal rows up to this number are in parts."""
        with self.base.transaction() as sql:
            sql.execute("DELETE FROM journal WHERE seq <= ?", (last,))

    def close(self) -> None:
        """Let others have the directory."""
        self.base.close()


def _written(answers: Answers) -> list[Any]:
    fresh = answers.freshness
    sure = None if fresh is None else [[one.probability, one.age] for one in fresh]
    return [encode(tuple(answers.items)), sure]


def _read(written: list[Any]) -> Answers:
    (items,) = decode([written[0]])
    sure = None if written[1] is None else [Freshness(probability, age) for probability, age in written[1]]
    return Answers(items, sure)
