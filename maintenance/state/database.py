"""The directory of a state: an SQLite file, and a lock so that only one process has it.

After a crash of the process every transaction is there whole or not at all, since the system writes what the process
had handed over. After a power failure the last transactions may be missing (`synchronous=NORMAL` does not wait for the
disk). SQLite detects pages that a failing disk has damaged, and every row has a checksum.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from freshkeeper.maintenance.base.errors import ConfigError, StorageError
from freshkeeper.maintenance.base.files import PRIVATE, lock, make_directory

VERSION = 4
FILE = "state.sqlite"
SETTINGS: tuple[str, ...] = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL")
DAMAGED = (sqlite3.Error, UnicodeDecodeError)
"""The errors of reading a damaged file; SQLite may fail to decode the name of what is damaged."""
PASSING = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY)
"""The codes of errors that may pass."""
TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT, sum INTEGER AS (checksum(name, value)) STORED);
CREATE TABLE views (view INTEGER PRIMARY KEY, name TEXT, queries TEXT, body TEXT,
                    sum INTEGER AS (checksum(view, name, queries, body)) STORED);
CREATE TABLE intents (view INTEGER PRIMARY KEY, t INTEGER, body TEXT, sum INTEGER AS (checksum(view, t, body)) STORED);
CREATE TABLE sns (view INTEGER, slot INTEGER, key TEXT, edges TEXT, binds TEXT, arrivals REAL, stamp INTEGER,
                  freed INTEGER,
                  sum INTEGER AS (checksum(view, slot, key, edges, binds, arrivals, stamp, freed)) STORED,
                  PRIMARY KEY (view, slot)) WITHOUT ROWID;
CREATE TABLE srs (view INTEGER, slot INTEGER, kind INTEGER, key TEXT, value TEXT, refreshed INTEGER, freed INTEGER,
                  sum INTEGER AS (checksum(view, slot, kind, key, value, refreshed, freed)) STORED,
                  PRIMARY KEY (view, slot)) WITHOUT ROWID;
CREATE TABLE learned (seq INTEGER PRIMARY KEY, view INTEGER, whole INTEGER, body BLOB,
                      sum INTEGER AS (checksum(seq, view, whole, body)) STORED);
CREATE TABLE sources (name TEXT PRIMARY KEY, body TEXT, sum INTEGER AS (checksum(name, body)) STORED);
CREATE TABLE journal (seq INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, body TEXT,
                      sum INTEGER AS (checksum(seq, name, body)) STORED);
"""
"""The last column of each table is the checksum of the columns before it."""


@dataclass(eq=False)
class Database:
    """The open database of a state."""

    directory: Path
    facts: dict[str, Any] = field(default_factory=dict)
    """small values by name; changes are written with the next transaction"""
    _changed: set[str] = field(default_factory=set)
    _lock: IO[str] = field(init=False)

    def __post_init__(self) -> None:
        try:
            make_directory(self.directory)
            (self.directory / FILE).touch(PRIVATE)
            self._lock = lock(self.directory / "lock", f"--state {self.directory}")
        except OSError as error:
            raise ConfigError(f"--state {self.directory} cannot be used: {error.strerror}") from None
        try:
            self._open()
        except BaseException:
            self._lock.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self.sql.execute("BEGIN IMMEDIATE")
            yield self.sql
            rows = [(name, json.dumps(self.facts[name])) for name in self._changed]
            self.sql.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)
            self.sql.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            message = f"--state {self.directory} cannot be written: {error}"
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the upper bits say more than is needed here
            if code in PASSING:
                raise StorageError(message, is_full=code == sqlite3.SQLITE_FULL) from None
            raise ConfigError(message) from None
        except BaseException:
            self._roll_back()
            raise
        # Only after the commit: facts of a transaction that was rolled back go with the next one.
        self._changed.clear()

    def read(self, query: str, *given: object) -> list[Any]:
        try:
            return self.sql.execute(query, given).fetchall()
        except DAMAGED as error:
            raise self._unreadable(error) from None

    def note(self, facts: Mapping[str, Any]) -> None:
        self.facts |= facts
        self._changed |= facts.keys()

    def close(self) -> None:
        """Write facts that were noted, and release the directory."""
        try:
            if self._changed:
                with self.transaction():  # which writes the facts that were noted
                    pass
        finally:
            self.sql.close()
            self._lock.close()

    def _roll_back(self) -> None:
        """Roll back, unless SQLite has done so itself, as on a full disk."""
        if self.sql.in_transaction:
            self.sql.execute("ROLLBACK")

    def _open(self) -> None:
        self.sql = sqlite3.connect(self.directory / FILE, isolation_level=None, check_same_thread=False)
        try:
            self.sql.create_function("checksum", -1, _checksum, deterministic=True)
            for setting in SETTINGS:
                self.sql.execute(setting)
            self._check_version()
            self._check()
        except DAMAGED as error:
            self.sql.close()
            raise self._unreadable(error) from None
        except BaseException:
            self.sql.close()
            raise
        self.facts = {name: json.loads(value) for name, value in self.read("SELECT name, value FROM facts")}

    def _check(self) -> None:
        """Raise ConfigError if pages, tables or rows are damaged."""
        ((found, *_), *_) = self.sql.execute("PRAGMA integrity_check")
        if found != "ok":
            raise self._unreadable(found)
        tables = _tables(self.sql)
        with closing(sqlite3.connect(":memory:")) as new:
            new.create_function("checksum", -1, _checksum, deterministic=True)
            new.executescript(TABLES)
            if tables != _tables(new):
                raise self._unreadable("its tables are none of ours")
        for name, _ in tables:
            if any(_checksum(*values) != said for *values, said in self.sql.execute(f"SELECT * FROM {name}")):
                raise self._unreadable(f"rows of {name} are damaged")

    def _unreadable(self, why: object) -> ConfigError:
        said = " ".join(str(why).split())
        return ConfigError(
            f"--state {self.directory} holds no state that can be read: {said}; give another directory, or a copy of it"
        )

    def _check_version(self) -> None:
        (version,) = self.sql.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self.sql.executescript(f"BEGIN; {TABLES} PRAGMA user_version={VERSION}; COMMIT;")
        elif version != VERSION:
            raise ConfigError(
                f"--state {self.directory} is of version {version} and this freshkeeper writes {VERSION}: "
                "give another directory"
            )


def _tables(sql: sqlite3.Connection) -> list[tuple[str, str]]:
    return sql.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name").fetchall()


def _checksum(*values: object) -> int:
    return zlib.crc32(repr(values).encode())
