"""Rows and the budget in one SQLite file: for the processes of one machine, and over restarts.

Every spending is a transaction, so that the budget holds however many processes share the file, also when one is
killed. The bucket is timed by a clock that nobody sets; after a reboot it goes on with what was in it.
"""

import sqlite3
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.enricher.stored_row import StoredRow, StoreError
from freshkeeper.maintenance.enricher.stores import BucketRule, decode, encode

VERSION = 1
BUSY_S = 2.0
"""How long a transaction waits for those of other processes."""
MEMBER_MS = 10_000.0
"""A process that was not heard of for so long no longer counts."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS rows (
    key TEXT PRIMARY KEY, value TEXT, fetched REAL, doubt_from REAL, changes INTEGER, exposure REAL,
    reads INTEGER, since REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner INTEGER, until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bucket (one INTEGER PRIMARY KEY CHECK (one = 1), level REAL, at REAL, boot TEXT);
CREATE TABLE IF NOT EXISTS members (id INTEGER PRIMARY KEY, seen REAL);
"""


class SqliteStore:
    """A store in a file; every process that opens it shares rows and budget."""

    def __init__(self, path: str | Path, steady: Callable[[], float] | None = None) -> None:
        self.path = Path(path)
        self._steady = steady or _boot_ms
        self._boot = _boot_id() if steady is None else "test"
        self._connection: sqlite3.Connection | None = None
        self._id = 0
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
        except StoreError as error:
            raise ConfigError(f"store {str(path)!r}: {error}") from None

    def load(self, key: Hashable, newer_than: float) -> StoredRow | None:
        with self._reading() as sql:
            query = "SELECT value, fetched, doubt_from, changes, exposure, reads, since FROM rows"
            found = sql.execute(f"{query} WHERE key = ? AND fetched > ?", (encode(key), newer_than)).fetchone()
        return None if found is None else StoredRow(decode(found[0]), *found[1:])

    def save(self, rows: Iterable[tuple[Hashable, StoredRow]]) -> None:
        written = [(encode(key), encode(row.value), *row[1:]) for key, row in rows]
        with self._transaction() as sql:
            sql.executemany(
                "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (key) DO UPDATE SET value = excluded.value,"
                " fetched = excluded.fetched, doubt_from = excluded.doubt_from, changes = excluded.changes,"
                " exposure = excluded.exposure, reads = excluded.reads, since = excluded.since"
                " WHERE excluded.fetched >= rows.fetched",
                written,
            )

    def remove(self, key: Hashable) -> None:
        with self._transaction() as sql:
            sql.execute("DELETE FROM rows WHERE key = ?", (encode(key),))

    def claim(self, keys: Sequence[Hashable], until: float, now: float) -> list[Hashable]:
        with self._transaction() as sql:
            granted = []
            for key in keys:
                written = encode(key)
                taken = sql.execute(
                    "SELECT 1 FROM claims WHERE key = ? AND until > ? AND owner != ?", (written, now, self._member(sql))
                ).fetchone()
                if taken is None:
                    sql.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", (written, self._id, until))
                    granted.append(key)
            return granted

    def release(self, keys: Sequence[Hashable]) -> None:
        with self._transaction() as sql:
            sql.executemany("DELETE FROM claims WHERE key = ? AND owner = ?", [(encode(key), self._id) for key in keys])

    def level(self, rule: BucketRule) -> float:
        with self._reading() as sql:
            return self._filled(sql, rule)

    def take(self, rule: BucketRule, cost: float, reserve: float) -> bool:
        with self._transaction() as sql:
            level = self._filled(sql, rule)
            if level - cost < reserve - 1e-9:
                return False
            sql.execute("INSERT OR REPLACE INTO bucket VALUES (1, ?, ?, ?)", (level - cost, self._steady(), self._boot))
            return True

    def members(self, now: float) -> int:
        with self._transaction() as sql:
            sql.execute("UPDATE members SET seen = ? WHERE id = ?", (now, self._member(sql)))
            sql.execute("DELETE FROM members WHERE seen < ?", (now - MEMBER_MS,))
            return max(1, int(sql.execute("SELECT count(*) FROM members").fetchone()[0]))

    def after_fork(self) -> None:
        self._connection = None  # a connection must not be used on both sides of a fork, not even to close it
        self._id = 0

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _member(self, sql: sqlite3.Connection) -> int:
        if not self._id:
            self._id = int(sql.execute("INSERT INTO members (seen) VALUES (?)", (time.time() * 1000,)).lastrowid or 0)
        return self._id

    def _filled(self, sql: sqlite3.Connection, rule: BucketRule) -> float:
        found = sql.execute("SELECT level, at, boot FROM bucket").fetchone()
        if found is None:
            return rule.initial
        level, at, boot = found
        # After a reboot the clock begins again: nothing is known of the time between, so nothing is paid for it.
        elapsed = max(0.0, self._steady() - at) if boot == self._boot else 0.0
        return float(min(rule.capacity, level + rule.rate * elapsed))

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
