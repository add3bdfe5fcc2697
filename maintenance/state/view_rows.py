"""A view as rows of the state: changed rows are written, the whole view is read."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.term_text import decode, encode
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter
from freshkeeper.maintenance.state.database import Database
from freshkeeper.policies.base import NEVER


class StoredSource(Protocol):
    """A source whose view survives its process."""

    differs: ClassVar[str]
    """what has changed where the view is another one, in words"""
    edges: dict[Any, Any]
    """what it knows of the edges of lookup keys"""

    @property
    def identity(self) -> str:
        """A text that differs for another view."""

    @property
    def limits(self) -> RateLimiter | None:
        """Rate limits and breaker, which survive a restart; None where the source has none."""


INSERT_SNS = "INSERT OR REPLACE INTO sns VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_SRS = "INSERT OR REPLACE INTO srs VALUES (?, ?, ?, ?, ?, ?, ?)"


@dataclass(eq=False)
class ViewRows:
    """The rows of one view."""

    number: int
    manager: Manager
    endpoint: StoredSource
    _freed: int = 0
    """the number of the last freed slot; slots are reused in the order of these numbers"""

    def __post_init__(self) -> None:
        self.manager.view.watch()

    def write(self, sql: sqlite3.Connection, arrived: Iterable[int]) -> None:
        """Write the rows that have changed since the last call."""
        sns, srs = self.manager.view.changed()
        sql.executemany(INSERT_SNS, self._sns(sns))
        sql.executemany(INSERT_SRS, self._srs(srs))
        others = list(set(arrived) - set(sns))
        known = self.manager.content.dump(others)
        more = [(count, known["k"], self.number, slot) for slot, count in zip(others, known["arrivals"], strict=True)]
        sql.executemany("UPDATE sns SET arrivals = ?, stamp = ? WHERE view = ? AND slot = ?", more)

    def read(self, base: Database, k: int, evaluations: float) -> None:
        sns = base.read(
            "SELECT key, edges, binds, arrivals, stamp, freed FROM sns WHERE view = ? ORDER BY slot", self.number
        )
        srs = base.read("SELECT key, value, refreshed, kind, freed FROM srs WHERE view = ? ORDER BY slot", self.number)
        # One call for all terms: the parser is quick with long texts only.
        texts = [row[0] for row in sns]
        texts += [row[2] for row in sns]
        texts += [row[0] for row in srs]
        texts += [row[1] for row in srs]
        terms = decode(text or "null" for text in texts)
        n, m = len(sns), len(srs)
        names = terms[:n]
        self._freed = max([0, *(row[-1] or 0 for row in (*sns, *srs))])
        manager = self.manager
        kinds = [row[3] or Kind.COPY for row in srs]
        refreshed = [NEVER if row[2] is None else row[2] for row in srs]
        entries = terms[2 * n : 2 * n + m]
        columns = {"key": entries, "kind": kinds, "value": terms[2 * n + m :], "refreshed": refreshed}
        manager.view.sns.load(names, [Kind.COPY] * n, _free(sns))
        manager.view.load(columns, _free(srs))
        self.endpoint.edges = {}
        for sn, binds in zip(names, terms[n : 2 * n], strict=True):
            if sn is not None and binds is not None:
                self.endpoint.edges[sn] = {key: list(rows) for key, rows in binds}
        arrivals = [row[3] or 0.0 for row in sns]
        manager.content.load(evaluations, arrivals, [k - (row[4] or k) for row in sns])
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
            rows = None
            if binds is not None:
                rows = encode(tuple((each, tuple(of_each)) for each, of_each in binds.items()))
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
    """Return the slots without a key in the order in which they were freed."""
    free = [slot for slot, row in enumerate(rows) if row[0] is None]
    return sorted(free, key=lambda slot: rows[slot][-1] or 0)
