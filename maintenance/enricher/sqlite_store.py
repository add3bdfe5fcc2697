"""Rows and the budget in one SQLite file: for the processes of one machine, and over restarts.

Every spending is a transaction, so that the budget holds however many processes share the file, also when one is
killed. The bucket is timed by a clock that nobody sets; after a reboot it goes on with what was in it.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.enricher.stored_row import BucketRule, Lease, LeaseRequest, StoredRow, StoreError
from freshkeeper.maintenance.enricher.stores import LEASE_MS, MAX_INVALIDATIONS, MEMBER_MS, decode, encode, grant

VERSION = 2
BUSY_S = 2.0
"""How long a transaction waits for those of other processes."""
MAX_CLAIM_MS = 3_600_000.0
"""A claim that lasts longer was made before the machine was started again, by another clock."""
_INHERITED: list[sqlite3.Connection | None] = []
"""connections of a parent process"""
SCHEMA = """
CREATE TABLE IF NOT EXISTS rows (
    key TEXT PRIMARY KEY, value TEXT, fetched REAL, doubt_from REAL, changes INTEGER, exposure REAL,
    reads INTEGER, since REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT, until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bucket (
    one INTEGER PRIMARY KEY CHECK (one = 1), level REAL, at REAL, boot TEXT, rate REAL, capacity REAL, price REAL
);
CREATE TABLE IF NOT EXISTS leases (owner TEXT PRIMARY KEY, tokens REAL, at REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS invalidations (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, owner TEXT);
"""


class SqliteStore:
    """A store in a file; every process that opens it shares rows and budget."""

    def __init__(self, path: str | Path, steady: Callable[[], float] | None = None) -> None:
        self.path = Path(path)
        self._steady = steady or _boot_ms
        self._boot = _boot_id() if steady is None else "test"
        self._connection: sqlite3.Connection | None = None
        self._owner = os.urandom(8).hex()
        self._seen = 0
        try:
            with self._transaction() as sql:
                version = sql.execute("PRAGMA user_version").fetchone()[0]
                if version not in (0, VERSION):
                    raise ConfigError(
                        f"{path} was written by another version of freshkeeper (format {version}, this one reads "
                        f"{VERSION}): give another file, or remove this one"
                    )
                for statement in filter(str.strip, SCHEMA.split(";")):
                    sql.execute(statement)
                sql.execute(f"PRAGMA user_version = {VERSION}")
                self._seen = sql.execute("SELECT coalesce(max(id), 0) FROM invalidations").fetchone()[0]
        except StoreError as error:
            raise ConfigError(f"store {str(path)!r}: {error}") from None

    def load(self, newer_than: Mapping[Hashable, float]) -> dict[Hashable, StoredRow]:
        query = "SELECT value, fetched, doubt_from, changes, exposure, reads, since FROM rows"
        rows = {}
        with self._reading() as sql:
            for key, fetched in newer_than.items():
                where = "WHERE key = ? AND fetched > ? AND value IS NOT NULL"
                found = sql.execute(f"{query} {where}", (encode(key), fetched)).fetchone()
                if found is not None:
                    rows[key] = StoredRow(decode(found[0]), *found[1:])
        return rows

    def save(self, rows: Iterable[tuple[Hashable, StoredRow]]) -> None:
        written = [(encode(key), encode(row.value), *row[1:]) for key, row in rows]
        with self._transaction() as sql:
            sql.executemany(
                "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (key) DO UPDATE SET value = excluded.value,"
                " fetched = excluded.fetched, doubt_from = excluded.doubt_from, changes = excluded.changes,"
                " exposure = excluded.exposure, reads = excluded.reads, since = excluded.since"
                " WHERE excluded.fetched > rows.fetched"
                " OR (excluded.fetched = rows.fetched AND rows.value IS NOT NULL)",
                written,
            )

    def invalidate(self, keys: Sequence[Hashable], at: float) -> None:
        written = [encode(key) for key in keys]
        with self._transaction() as sql:
            sql.executemany(
                "INSERT INTO rows (key, fetched) VALUES (?, ?)"
                " ON CONFLICT (key) DO UPDATE SET value = NULL, fetched = excluded.fetched"
                " WHERE excluded.fetched >= rows.fetched",
                [(key, at) for key in written],
            )
            sql.executemany(
                "INSERT INTO invalidations (key, owner) VALUES (?, ?)", [(key, self._owner) for key in written]
            )
            sql.execute(
                "DELETE FROM invalidations WHERE id <= (SELECT max(id) FROM invalidations) - ?", (MAX_INVALIDATIONS,)
            )

    def invalidated(self) -> list[Hashable]:
        with self._reading() as sql:
            found = sql.execute("SELECT id, key, owner FROM invalidations WHERE id > ?", (self._seen,)).fetchall()
        if found:
            self._seen = found[-1][0]
        return [decode(key) for _, key, owner in found if owner != self._owner]

    def claim(self, newer_than: Mapping[Hashable, float], for_ms: float) -> list[Hashable]:
        now = self._steady()
        granted = []
        with self._transaction() as sql:
            for key, fetched in newer_than.items():
                name = encode(key)
                taken = sql.execute(
                    "INSERT INTO claims SELECT ?, ?, ?"
                    " WHERE NOT EXISTS (SELECT 1 FROM rows WHERE key = ? AND fetched > ? AND value IS NOT NULL)"
                    " ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until = excluded.until"
                    " WHERE claims.until <= ? OR claims.until > ? OR claims.owner = excluded.owner",
                    (name, self._owner, now + for_ms, name, fetched, now, now + MAX_CLAIM_MS),
                )
                if taken.rowcount:
                    granted.append(key)
        return granted

    def release(self, keys: Sequence[Hashable]) -> None:
        with self._transaction() as sql:
            sql.executemany(
                "DELETE FROM claims WHERE key = ? AND owner = ?", [(encode(key), self._owner) for key in keys]
            )

    def configure(self, rule: BucketRule) -> None:
        with self._transaction() as sql:
            sql.execute(
                "INSERT INTO bucket VALUES (1, ?, ?, ?, ?, ?, NULL)"
                " ON CONFLICT (one) DO UPDATE SET rate = excluded.rate, capacity = excluded.capacity",
                (rule.initial, self._steady(), self._boot, rule.rate, rule.capacity),
            )

    def lease(self, request: LeaseRequest) -> Lease | None:
        now = self._steady()
        with self._transaction() as sql:
            found = sql.execute("SELECT level, at, boot, rate, capacity, price FROM bucket").fetchone()
            if found is None:
                return None
            level, at, boot, rate, capacity, price = found
            # After a reboot the clock begins again: nothing is known of the time between, so nothing is paid for it.
            elapsed = max(0.0, now - at) if boot == self._boot else 0.0
            sql.execute("DELETE FROM leases WHERE at < ? OR at > ?", (now - MEMBER_MS, now))
            others, leased = sql.execute(
                "SELECT count(*), total(CASE WHEN at + ? > ? THEN tokens END) FROM leases WHERE owner != ?",
                (LEASE_MS, now, self._owner),
            ).fetchone()
            tokens, level = grant(request, level, rate * elapsed, capacity - leased)
            kept = price if request.price is None else request.price
            sql.execute("UPDATE bucket SET level = ?, at = ?, boot = ?, price = ?", (level, now, self._boot, kept))
            sql.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (self._owner, tokens, now))
        return Lease(tokens, level, rate, capacity, price=price, processes=others + 1)

    def after_fork(self) -> None:
        # A connection must not be used on both sides of a fork, not even to close it.
        _INHERITED.append(self._connection)
        self._connection = None
        self._owner = os.urandom(8).hex()

    def close(self) -> None:
        if self._connection is not None:
            with suppress(StoreError), self._transaction() as sql:
                sql.execute("DELETE FROM leases WHERE owner = ?", (self._owner,))
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            yield self._open()
        except sqlite3.Error as error:
            self._broken()
            raise StoreError(f"{type(error).__name__}: {error}") from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._broken()
            raise StoreError(f"{type(error).__name__}: {error}") from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            self._connection = connection
        return self._connection

    def _broken(self) -> None:
        """Open the file anew the next time."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def _boot_ms() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) * 1000


def _boot_id() -> str:
    """Return what tells one start of the machine from another, where the system says so."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
