"""One SERVICE's view over restarts: its rows, its change knowledge, its accounts; what was meant to be sent."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.ledger import exact
from freshkeeper.maintenance.cache.budget.shared_budget import SharedIncome
from freshkeeper.maintenance.cache.evaluation import Decision, Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.dumpable import dumpable
from freshkeeper.maintenance.state import change_model_state as learned
from freshkeeper.maintenance.state.database import Database
from freshkeeper.maintenance.state.evidence_log import EvidenceLog, tell
from freshkeeper.maintenance.state.stored_source import StoredSource
from freshkeeper.maintenance.state.view_rows import ViewRows
from freshkeeper.maintenance.state.view_store import Doubt

SHORTEST = 200_000
"""Bytes of evidence that are kept one by one before what was learned is kept whole."""


@dataclass(eq=False)
class StoredView:
    """Writes what every evaluation did; begins with what an earlier run wrote."""

    base: Database
    number: int
    name: str
    manager: Manager
    endpoint: StoredSource
    recorded: EvidenceLog
    last: int | None = None
    doubt: Doubt | None = None
    _rows: ViewRows = field(init=False)
    _since: int = 0
    _whole: int = 0
    _source: str = ""

    def __post_init__(self) -> None:
        dumpable(self.recorded.model)  # says at once if it is not
        self._rows = ViewRows(self.number, self.manager, self.endpoint)
        queries = self.endpoint.identity
        (found,) = self.base.read("SELECT name, queries, body FROM views WHERE view = ?", self.number) or [None]
        if found is None:
            with self.base.transaction() as sql:
                sql.execute("INSERT INTO views VALUES (?, ?, ?, NULL)", (self.number, self.name, queries))
        elif tuple(found[:2]) != (self.name, queries):
            raise ConfigError(
                f"--state {self.base.directory} keeps another view of <{found[0]}>: {self.endpoint.differs}; "
                "give another directory"
            )
        elif found[2] is not None:
            self._restore(json.loads(found[2]))
        for (body,) in self.base.read("SELECT body FROM sources WHERE name = ?", self.name):
            if self.endpoint.limits is not None:
                self.endpoint.limits.restore(json.loads(body))

    def intend(self, decision: Decision) -> None:
        """What may be spent at most is written before anything is sent; the rest of the budget may go to retries."""
        if not decision.selection.chosen.size and not decision.draws.srs.size:
            return
        ledger = self.manager.ledger
        most = decision.selection.chosen.size + decision.draws.srs.size
        spent = exact(self.manager.endpoint.price.of(most)) if ledger.overdraft else ledger.available
        body = json.dumps({"spent": str(spent)})
        price = self.manager.endpoint.price.per_request
        with self.base.transaction() as sql:
            sql.execute("INSERT OR REPLACE INTO intents VALUES (?, ?, ?)", (self.number, decision.now, body))
            self._write_source(int(spent / exact(price)) if price else most)

    @contextmanager
    def commit(self, evaluation: Evaluation, arrived: Ints) -> Iterator[None]:
        """What changed, and in the same transaction what is written inside the `with`."""
        with self.base.transaction() as sql:
            self._rows.write(sql, arrived.tolist())
            self._learn()
            self.last, self.doubt = evaluation.record.t_ms, None
            window = self.manager.content.dump(())
            body = self.manager.dump() | {"last": self.last, "k": window["k"], "evaluations": window["evaluations"]}
            sql.execute("UPDATE views SET body = ? WHERE view = ?", (json.dumps(body), self.number))
            sql.execute("DELETE FROM intents WHERE view = ?", (self.number,))
            self._write_source()
            income = self.manager.ledger.income
            if isinstance(income, SharedIncome):
                parts = income.budget.dump_parts()
                self.base.note({"shared": income.budget.dump()} | ({} if parts is None else {"parts": parts}))
            yield
        self.recorded.clear()

    def _restore(self, body: dict[str, Any]) -> None:
        manager = self.manager
        self.last = body["last"]
        self._rows.read(self.base, body["k"], body["evaluations"])
        manager.load(body)
        entries = []
        for whole, data in self.base.read("SELECT whole, body FROM learned WHERE view = ? ORDER BY seq", self.number):
            if whole:
                dumpable(self.recorded.model).load(learned.unpacked(data))
                self._whole = len(data)
            else:
                entries += json.loads(data)
                self._since += len(data)
        tell(self.recorded.model, entries)

    def settle(self) -> None:
        """Nobody knows what an evaluation spent that was killed: all that it might have."""
        for t, body in self.base.read("SELECT t, body FROM intents WHERE view = ?", self.number):
            had, spent = self.manager.ledger.charge_interrupted(t, Fraction(json.loads(body)["spent"]))
            self.doubt = Doubt(t, had, float(spent))

    def _learn(self) -> None:
        """The evidence of this evaluation; now and then all that was learned in its place."""
        if not self.recorded.entries:
            return
        data = json.dumps(self.recorded.entries, separators=(",", ":"))
        self._since += len(data)
        whole = self._since > max(SHORTEST, self._whole)
        if whole:
            self.base.sql.execute("DELETE FROM learned WHERE view = ?", (self.number,))
            self._since = 0
        packed = learned.packed(dumpable(self.recorded.model).dump()) if whole else data.encode()
        self._whole = len(packed) if whole else self._whole
        self.base.sql.execute(
            "INSERT INTO learned (view, whole, body) VALUES (?, ?, ?)", (self.number, int(whole), packed)
        )

    def _write_source(self, ahead: int = 0) -> None:
        """What the source's limits know, where that has changed; with what may be sent before the next time."""
        limits = self.endpoint.limits
        if limits is not None:
            body = json.dumps(limits.state(ahead))
            if body != self._source:
                self.base.sql.execute("INSERT OR REPLACE INTO sources VALUES (?, ?)", (self.name, body))
                self._source = body
