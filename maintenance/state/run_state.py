"""The state of a run or service: its views, positions of its streams, and journal rows that are in no part yet."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.shared_budget import SharedIncome
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.sources.pattern_source import PatternSource
from freshkeeper.maintenance.state.database import Database
from freshkeeper.maintenance.state.evidence_log import EvidenceLog
from freshkeeper.maintenance.state.stored_view import StoredView

Columns = Mapping[str, Sequence[object]]


@dataclass(eq=False)
class State:
    """The state in one directory, of one query or several with their sources."""

    base: Database
    views: list[StoredView] = field(default_factory=list)

    @classmethod
    def open(cls, directory: Path, query: str | Mapping[str, str], sources: Sequence[str]) -> "State":
        """Open a state, new or of an earlier run; ConfigError if it is that of another query or of other sources."""
        base = Database(directory)
        known, text = base.facts, query if isinstance(query, str) else dict(query)
        try:
            if (before := known.get("query", text)) != text:
                raise ConfigError(
                    f"--state {directory} keeps the views of another query{_different(before, text)}: "
                    "give another directory"
                )
            if known.get("sources", sorted(sources)) != sorted(sources):
                had = ", ".join(known["sources"]) or "none"
                raise ConfigError(f"--state {directory} keeps views of other sources ({had}): give another directory")
        except ConfigError:
            base.close()
            raise
        base.note({"query": text, "sources": sorted(sources)})
        return cls(base)

    @property
    def begun(self) -> bool:
        """Tells if an evaluation was written."""
        return bool(self.base.read("SELECT 1 FROM views WHERE body IS NOT NULL"))

    def place(self, stream: str) -> Mapping[str, int | str]:
        """Return the position from which a stream is resumed; empty if none was kept."""
        found: Mapping[str, int | str] = self.base.facts.get(f"place {stream}", {})
        return found

    def keep_place(self, stream: str, place: Mapping[str, int | str]) -> None:
        with self.base.transaction():
            self.base.note({f"place {stream}": dict(place)})

    def store(
        self, number: int, name: str, manager: Manager, source: PatternSource, recorded: EvidenceLog
    ) -> StoredView:
        view = StoredView(self.base, number, name, manager, endpoint=source, recorded=recorded)
        self.views.append(view)
        return view

    def settle(self, first: int = 0) -> None:
        """Restore the budget that views share, and charge evaluations that a crash interrupted; of views from `first`.

        Call it when all views of a run are there: parts of a shared budget are restored in the order of its members.
        """
        views = self.views[first:]
        incomes = [view.manager.ledger.income for view in views]
        for shared in dict.fromkeys(income.budget for income in incomes if isinstance(income, SharedIncome)):
            if "shared" in self.base.facts and not shared.begun:
                shared.load(self.base.facts["shared"], self.base.facts["parts"])
        for view in views:
            view.settle()

    def forget(self, query: str, views: Iterable[int]) -> None:
        facts = [f"{fact} {query}" for fact in ("answering", "answered", "streamed")]
        numbers = list(views)
        self.views = [view for view in self.views if view.number not in numbers]
        with self.base.transaction() as sql:
            for table in ("views", "intents", "sns", "srs", "learned"):
                sql.executemany(f"DELETE FROM {table} WHERE view = ?", [(number,) for number in numbers])
            sql.executemany("DELETE FROM facts WHERE name = ?", [(fact,) for fact in facts])
        for fact in facts:
            self.base.facts.pop(fact, None)

    def add_rows(self, name: str, columns: Columns) -> None:
        """Add rows for the journal, in the transaction that is open."""
        if columns:
            body = json.dumps({column: list(values) for column, values in columns.items()})
            self.base.sql.execute("INSERT INTO journal (name, body) VALUES (?, ?)", (name, body))

    def buffered_rows(self) -> list[tuple[str, Columns]]:
        """Return the journal rows that are in no part yet."""
        found = self.base.read("SELECT name, body FROM journal ORDER BY seq")
        return [(name, json.loads(body)) for name, body in found]

    def buffered_numbers(self) -> tuple[int, int]:
        """Return the numbers of the first and last such row; a number is never used again."""
        ((first, last),) = self.base.read("SELECT min(seq), max(seq) FROM journal")
        return (first, last) if first else (0, 0)

    def delete_rows(self, last: int) -> None:
        """Delete journal rows up to a number, which are in parts."""
        with self.base.transaction() as sql:
            sql.execute("DELETE FROM journal WHERE seq <= ?", (last,))

    def close(self) -> None:
        self.base.close()


def _different(before: object, now: object) -> str:
    """Return which of several queries differs."""
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return ""
    first = min(name for name in {*before, *now} if before.get(name) != now.get(name))
    return f" ({first} is {'new' if first not in before else 'gone' if first not in now else 'another one'})"
