"""A view as rows of the state: what changed is written, and a whole view is read."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from freshkeeper.maintenance.demand.adjacency import Rows
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.service.pattern_endpoint import PatternEndpoint
from freshkeeper.maintenance.service_join.edge_refreshes import Edges
from freshkeeper.maintenance.state.database import Database
from freshkeeper.maintenance.state.evidence_log import EvidenceLog
from freshkeeper.maintenance.state.noted_slots import NotedSlots
from freshkeeper.maintenance.state.term_text import decode, encode
from freshkeeper.maintenance.view.local_view import Miss
from freshkeeper.policies.base import NEVER

SNS = "INSERT OR REPLACE INTO sns VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
SRS = "INSERT OR REPLACE INTO srs VALUES (?, ?, ?, ?, ?, ?)"


@dataclass(eq=False)
class ViewRows:
    """The rows of one view."""

    number: int
    manager: Manager
    endpoint: PatternEndpoint
    sns: NotedSlots = field(default_factory=NotedSlots)
    srs: NotedSlots = field(default_factory=NotedSlots)
    _freed: int = 0

    def __post_init__(self) -> None:
        """From now on the view's slots are noted when they change."""
        self._put()

    def write(self, sql: sqlite3.Connection, recorded: EvidenceLog, arrived: Iterable[int]) -> None:
        """The rows that changed since the last time."""
        renewed = self._renewed(recorded.stored)
        sns = dict.fromkeys([*self.sns.noted, *renewed, *self.manager.graph.rewired])
        sql.executemany(SNS, [self._sn(slot) for slot in sns])
        content = self.manager.content
        counts, k = content.tallies.rates.counts, content.k
        more = [(float(counts[slot]), k, self.number, slot) for slot in set(arrived) - sns.keys()]
        sql.executemany("UPDATE sns SET arrivals = ?, stamp = ? WHERE view = ? AND slot = ?", more)
        srs = dict.fromkeys([*self.srs.noted, *recorded.stored])
        sql.executemany(SRS, [self._sr(slot) for slot in srs])
        self.sns.clear()
        self.srs.clear()
        self.manager.graph.rewired.clear()

    def read(self, base: Database, k: int) -> None:
        """The whole view, as of evaluation `k`."""
        sns = base.read(
            "SELECT key, edges, binds, arrivals, stamp, freed FROM sns WHERE view = ? ORDER BY slot", self.number
        )
        srs = base.read("SELECT key, value, refreshed, freed FROM srs WHERE view = ? ORDER BY slot", self.number)
        texts = [*(row[0] for row in sns), *(row[2] for row in sns), *(row[0] for row in srs), *(row[1] for row in srs)]
        terms = decode(text or "null" for text in texts)
        n, m = len(sns), len(srs)
        self.sns = _slots(terms[:n], [row[5] for row in sns])
        self.srs = _slots(terms[2 * n : 2 * n + m], [row[3] for row in srs])
        self._freed = max([0, *(row[-1] or 0 for row in sns), *(row[-1] or 0 for row in srs)])
        self._put()
        view = self.manager.view
        view.values = terms[2 * n + m :]
        view.last_refresh = np.array([NEVER if row[2] is None else row[2] for row in srs], np.int64)
        view.misses = {slot for slot, key in enumerate(self.srs.keys) if isinstance(key, Miss)}
        bound = zip(self.sns.keys, terms[n : 2 * n], strict=True)
        self.endpoint.edges = {sn: {key: list(rows) for key, rows in binds or ()} for sn, binds in bound if sn}
        rates = self.manager.content.tallies.rates
        self.manager.graph.extend(n, m)
        fade = 1.0 - 1.0 / rates.memory
        rates.counts[:n] = [(row[3] or 0.0) * fade ** (k - (row[4] or k)) for row in sns]
        self._lay([json.loads(row[1] or "[]") for row in sns])

    def _put(self) -> None:
        self.manager.view.sns, self.manager.view.srs = self.sns, self.srs

    def _lay(self, edges: Sequence[Sequence[int]]) -> None:
        """The edges, in their order at every SN."""
        lengths = np.array([len(srs) for srs in edges], np.int64)
        sr = np.array([sr for srs in edges for sr in srs], np.int32)
        graph = self.manager.graph
        graph.load(np.repeat(np.arange(lengths.size), lengths), sr, lengths.size, self.srs.width)
        graph.by_sn = Rows.from_csr(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), sr)

    def _renewed(self, stored: Iterable[int]) -> list[int]:
        """SNs that were fetched, again or for the first time."""
        touched = [*self.srs.released, *(self.srs.keys[slot] for slot in stored)]
        sns = [key.sn for key in touched if isinstance(key, Miss | Edges)]
        return [self.sns.numbers[sn] for sn in sns if sn in self.sns.numbers]

    def _sn(self, slot: int) -> tuple[Any, ...]:
        key = self.sns.keys[slot]
        if key is None:
            return (self.number, slot, None, None, None, None, None, self._next())
        content, binds = self.manager.content, self.endpoint.edges.get(key)
        rows = None if binds is None else encode(tuple((each, tuple(rows)) for each, rows in binds.items()))
        edges = json.dumps(self.manager.graph.by_sn.of(slot).tolist())
        arrivals = float(content.tallies.rates.counts[slot])
        return (self.number, slot, encode(key), edges, rows, arrivals, content.k, None)

    def _sr(self, slot: int) -> tuple[Any, ...]:
        key, view = self.srs.keys[slot], self.manager.view
        if key is None:
            return (self.number, slot, None, None, None, self._next())
        read = int(view.last_refresh[slot])
        return (self.number, slot, encode(key), encode(view.values[slot]), None if read == NEVER else read, None)

    def _next(self) -> int:
        self._freed += 1
        return self._freed


def _slots(keys: Sequence[Any], freed: Sequence[int | None]) -> NotedSlots:
    numbers = {key: slot for slot, key in enumerate(keys) if key is not None}
    free = [slot for slot, key in enumerate(keys) if key is None]
    return NotedSlots(list(keys), numbers, sorted(free, key=lambda slot: freed[slot] or 0))
