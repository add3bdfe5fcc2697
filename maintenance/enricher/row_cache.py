"""The rows of an enricher with what is known of them.

All that is known of a row is how it changes (ChangeRates), and the time `doubt_from` from which on it may have. The
probability that it is still right is that of surviving now − doubt_from. A row is taken to be right for certain until
`expires`, so doubt begins there; a hint moves `doubt_from` into the past.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.beliefs.hints import HintQuality
from freshkeeper.maintenance.enricher.row import CachedRow, fingerprint
from freshkeeper.maintenance.enricher.row_table import NOW, Entry, RowTable
from freshkeeper.maintenance.enricher.statistics import Counters
from freshkeeper.maintenance.enricher.stored_row import StoredRow
from freshkeeper.maintenance.fetching.endpoint import Copy

if TYPE_CHECKING:
    from freshkeeper.maintenance.enricher.shared_state import SharedState

MAX_PRECISION = 0.999
"""However right the hints of a source were so far, a row that was hinted at may still be right."""


class RowCache:
    """Rows, their change rates, and the store that shares both. Callers hold the engine's lock."""

    def __init__(self, table: RowTable, counters: Counters, shared: "SharedState | None") -> None:
        self.table = table
        self.entries = table.entries
        self.counters = counters
        self.shared = shared
        self.rates = table.rates
        self.hints = HintQuality()
        self.audited: dict[Hashable, float] = {}
        """rows that are fetched to audit them, with the freshness that was believed"""
        self._hinted: dict[Hashable, float] = {}

    def row_of(self, entry: Entry, now: float, hit: bool = True, error: str | None = None) -> CachedRow[Any]:
        """Return what is known of a row now."""
        return CachedRow(entry.value, self.probability_right(entry, now), (now - entry.fetched) / 1000, hit, error)

    def gain(self, entry: Entry, now: float) -> float:
        """Return how many more reads a fetch now would make right, by and by."""
        row = self.rates.of_row(entry)
        return (1.0 - row.probability(now - entry.doubt_from)) * self.table.read_rate(entry) / row.mean

    def probability_right(self, entry: Entry, now: float) -> float:
        """Return the probability that a row is still right."""
        return self.rates.of_row(entry).probability(now - entry.doubt_from)

    def store(self, key: Hashable, copy: Copy, at: float, digest: int) -> Entry:
        """Put a fresh row in the place of the old one, and learn from the difference.

        `digest` is the row's fingerprint, which takes long for an enormous row: it is taken before the lock is.
        """
        entry = self.entries.get(key)
        modified = float(copy.modified) if copy.modified != UNKNOWN else None
        if entry is None:
            entry = self._insert(key, at)
            if modified is not None:
                self.rates.learn_date(entry, math.inf, at - modified)  # the row was right all that time
        else:
            changed = entry.fingerprint != digest
            age = at - entry.fetched
            self._learn(entry, changed)
            if modified is not None and modified <= at:
                self.rates.learn_date(entry, age, at - modified)
            else:
                self.rates.learn(entry, age, changed)
            self.counters.refreshed += 1
            self.counters.changed += changed
        entry.value = copy.value
        entry.fingerprint = digest
        entry.fetched = entry.doubt_from = at
        if copy.expires != UNKNOWN and copy.expires > at:
            entry.doubt_from = float(copy.expires)
        entry.check_at = NOW
        return entry

    def doubt(self, key: Hashable) -> None:
        """Take a row to be wrong; it is kept."""
        entry = self.entries.get(key)
        if entry is not None:
            entry.doubt_from = -math.inf
            entry.check_at = NOW

    def hint(self, key: Hashable, at: float, now: float) -> None:
        """Take in a hint: as likely as hints of this source were right, the row has changed."""
        entry = self.entries.get(key)
        if entry is None or entry.fetched > at:
            return
        freshness = self.probability_right(entry, now)
        self._hinted.setdefault(key, freshness)
        doubt = self.rates.of_row(entry).doubt_of(freshness * (1.0 - min(self.hints.precision, MAX_PRECISION)))
        entry.doubt_from = now - doubt
        entry.check_at = NOW

    def forget(self, key: Hashable, now: float) -> None:
        self.table.remove(key)
        self._hinted.pop(key, None)
        self.audited.pop(key, None)
        if self.shared is not None:
            self.shared.invalidate(key, now)

    def clear(self) -> None:
        for rows in (self.table, self._hinted, self.audited):
            rows.clear()

    def _learn(self, entry: Entry, changed: bool) -> None:
        """Learn how good hints are, and compare what an audit believed with what it found."""
        hinted = self._hinted.pop(entry.key, None)
        if hinted is not None:
            self.hints.learn(True, changed, 1.0 - hinted)
        elif changed:
            self.hints.learn(False, changed, 0.0)
        self.rates.unannounced = self.hints.unannounced
        believed = self.audited.pop(entry.key, None)
        if believed is not None:
            self.counters.audited += 1
            self.counters.audit_believed += believed
            self.counters.audit_right += not changed

    def _insert(self, key: Hashable, now: float) -> Entry:
        entry, evicted = self.table.insert(key, now)
        self.counters.evicted += len(evicted)
        for old in evicted:
            self._hinted.pop(old, None)
            self.audited.pop(old, None)
        return entry

    def adopt(self, newer_than: Mapping[Hashable, float], now: float) -> dict[Hashable, Entry]:
        """Take newer copies of rows from the store, with what other processes have learned of them."""
        if self.shared is None or not newer_than:
            return {}
        adopted = {}
        for key, stored in self.shared.load(newer_than).items():
            entry = self.entries.get(key)
            if entry is None:
                entry = self._insert(key, now)
                self.rates.add(stored.changes, stored.exposure)
                entry.reads = stored.reads
                entry.counted_from = self.table.reads - max(now - stored.since, 1.0) * self.table.pace
            entry.value, entry.fetched, entry.doubt_from = stored.value, stored.fetched, stored.doubt_from
            entry.changes, entry.exposure = stored.changes, stored.exposure
            entry.fingerprint = fingerprint(stored.value)
            entry.check_at = NOW
            adopted[key] = entry
        return adopted

    def share(self, keys: Sequence[Hashable]) -> None:
        """Let other processes have these rows."""
        if self.shared is None:
            return
        for key in keys:
            entry = self.entries.get(key)
            if entry is not None:
                self.shared.keep(key, self._stored(entry))
        self.shared.flush()

    def _stored(self, entry: Entry) -> StoredRow:
        return StoredRow(
            value=entry.value,
            fetched=entry.fetched,
            doubt_from=entry.doubt_from,
            changes=entry.changes,
            exposure=entry.exposure,
            reads=entry.reads,
            since=self.table.now - self.table.known_ms(entry),
        )
