"""A view as rows of the state: what changed is written, and a whole view is read."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.state.database import Database
from freshkeeper.maintenance.state.stored_source import StoredSource
from freshkeeper.maintenance.state.term_text import decode, encode
from freshkeeper.policies.base import NEVER

SNS = "INSERT OR REPLACE INTO sns VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
SRS = "INSERT OR REPLACE INTO srs VALUES (?, ?, ?, ?, ?, ?, ?)"


@dataclass(eq=False)
class ViewRows:
    """The rows of one view."""

    number: int
    manager: Manager
    endpoint: StoredSource
    _freed: int = 0
    """the number of the last slot that was freed: in this order they are used again"""

    def __post_init__(self) -> None:
        self.manager.view.watch()

    def write(self, sql: sqlite3.Connection, arrived: Iterable[int]) -> None:
        """The rows that changed since the last time."""
        sns, srs = self.manager.view.changed()
        sql.executemany(SNS, self._sns(sns))
        sql.executemany(SRS, self._srs(srs))
        others = list(set(arrived) - set(sns))
        known = self.manager.content.dump(others)
        more = [(count, known["k"], self.number, slot) for slot, count in zip(others, known["arrivals"], strict=True)]
        sql.executemany("UPDATE sns SET arrivals = ?, stamp = ? WHERE view = ? AND slot = ?", more)

    def read(self, base: Database, k: int, evaluations: float) -> None:
        """The whole view, as of evaluation `k`."""
        sns = base.read(
            "SELECT key, edges, binds, arrivals, stamp, freed FROM sns WHERE view = ? ORDER BY slot", self.number
        )
        srs = base.read("SELECT key, value, refreshed, kind, freed FROM srs WHERE view = ? ORDER BY slot", self.number)
        texts = [*(row[0] for row in sns), *(row[2] for row in sns), *(row[0] for row in srs), *(row[1] for row in srs)]
        terms = decode(text or "null" for text in texts)
        n, m = len(sns), len(srs)
        names, kinds = terms[:n], [row[3] or Kind.COPY for row in srs]
        self._freed = max([0, *(row[-1] or 0 for row in (*sns, *srs))])
        manager, refreshed = self.manager, [NEVER if row[2] is None else row[2] for row in srs]
        columns = {"key": terms[2 * n : 2 * n + m], "kind": kinds, "value": terms[2 * n + m :], "refreshed": refreshed}
        manager.view.sns.load(names, [Kind.COPY] * n, _free(sns))
        manager.view.load(columns, _free(srs))
        bound = zip(names, terms[n : 2 * n], strict=True)
        self.endpoint.edges = {
            sn: {key: list(rows) for key, rows in binds} for sn, binds in bound if sn is not None and binds is not None
        }
        manager.content.load(evaluations, [row[3] or 0.0 for row in sns], [k - (row[4] or k) for row in sns])
        manager.graph.load([json.loads(row[1] or "[]") for row in sns], m)
        manager.view.watch()

    def _sns(self, slots: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        manager = self.manager
        known, edges = manager.content.dump(slots), manager.graph.dump(slots)
        for slot, srs, arrivals in zip(slots, edges, known["arrivals"], strict=True):
            key = manager.view.sns.keys[slot]
            if key is None:
                yield (self.number, slot, None, None, None, None, None, self._next())
                continue
            binds = self.endpoint.edges.get(key)
            rows = None if binds is None else encode(tuple((each, tuple(rows)) for each, rows in binds.items()))
            yield (self.number, slot, encode(key), json.dumps(srs), rows, arrivals, known["k"], None)

    def _srs(self, slots: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        columns = self.manager.view.dump(slots)
        for slot, kind, key, value, read in zip(
            slots, columns["kind"], columns["key"], columns["value"], columns["refreshed"], strict=True
        ):
            if key is None:
                yield (self.number, slot, None, None, None, None, self._next())
            else:
                at = None if read == NEVER else read
                yield (self.number, slot, kind, encode(key), encode(value), at, None)

    def _next(self) -> int:
        self._freed += 1
        return self._freed


def _free(rows: Sequence[Sequence[Any]]) -> list[int]:
    """The slots without a key, those that were freed last at the end."""
    return sorted((slot for slot, row in enumerate(rows) if row[0] is None), key=lambda slot: rows[slot][-1] or 0)
