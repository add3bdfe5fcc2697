"""A view that survives restarts: its rows, its change model, its ledger, and requests that were about to be sent."""

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
from freshkeeper.maintenance.state.evidence_log import EvidenceLog, replay
from freshkeeper.maintenance.state.view_rows import StoredSource, ViewRows
from freshkeeper.maintenance.state.view_store import Doubt

MIN_EVIDENCE_BYTES = 200_000
"""The evidence that is kept piece by piece before the whole change model is written in its place."""


@dataclass(eq=False)
class StoredView:
    """Writes every evaluation of a view, and begins with what an earlier run wrote."""

    base: Database
    number: int
    name: str
    manager: Manager
    endpoint: StoredSource
    recorded: EvidenceLog
    last: int | None = None
    doubt: Doubt | None = None
    _rows: ViewRows = field(init=False)
    _evidence_bytes: int = 0
    """evidence that was written since the whole change model was"""
    _model_bytes: int = 0
    """the size of the change model when it was written last"""
    _source: str = ""
    """the state of the source's limits that was written last"""

    def __post_init__(self) -> None:
        dumpable(self.recorded.model)  # raises at once if it cannot be kept
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
        """Write the maximal cost of an evaluation before its requests are sent; retries may cost all of it."""
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
        """Write an evaluation, in one transaction with what the block writes."""
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
                self.base.note({"shared": income.budget.dump()})
                parts = income.budget.dump_parts()
                if parts is not None:
                    self.base.note({"parts": parts})
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
                dumpable(self.recorded.model).load(learned.unpack(data))
                self._model_bytes = len(data)
            else:
                entries += json.loads(data)
                self._evidence_bytes += len(data)
        replay(self.recorded.model, entries)

    def settle(self) -> None:
        """Charge an interrupted evaluation its maximal cost: nobody knows what was sent."""
        for t, body in self.base.read("SELECT t, body FROM intents WHERE view = ?", self.number):
            had, spent = self.manager.ledger.charge_interrupted(t, Fraction(json.loads(body)["spent"]))
            self.doubt = Doubt(t, had, float(spent))

    def _learn(self) -> None:
        """Write the evidence of an evaluation, or now and then the whole change model in place of all evidence."""
        if not self.recorded.entries:
            return
        data = json.dumps(self.recorded.entries, separators=(",", ":"))
        self._evidence_bytes += len(data)
        whole = self._evidence_bytes > max(MIN_EVIDENCE_BYTES, self._model_bytes)
        if whole:
            self.base.sql.execute("DELETE FROM learned WHERE view = ?", (self.number,))
            self._evidence_bytes = 0
            body = learned.pack(dumpable(self.recorded.model).dump())
            self._model_bytes = len(body)
        else:
            body = data.encode()
        self.base.sql.execute(
            "INSERT INTO learned (view, whole, body) VALUES (?, ?, ?)", (self.number, int(whole), body)
        )

    def _write_source(self, ahead: int = 0) -> None:
        """Write the state of the source's limits if it has changed, with `ahead` requests that may still be sent."""
        limits = self.endpoint.limits
        if limits is not None:
            body = json.dumps(limits.state(ahead))
            if body != self._source:
                self.base.sql.execute("INSERT OR REPLACE INTO sources VALUES (?, ?)", (self.name, body))
                self._source = body
