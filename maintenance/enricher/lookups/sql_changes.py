"""Changed rows of a table, found by polling a column that says when each row changed last."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Any, Self

from freshkeeper.maintenance.enricher.lookups.sql_lookup import placeholder
from freshkeeper.maintenance.enricher.settings import Seconds, milliseconds

LOGGER = logging.getLogger("freshkeeper")
MIN_MS = 1e11
"""Larger numbers in a column of times are milliseconds since 1970, smaller ones seconds."""


class SqlChanges:
    """Keys whose rows have changed, by a column such as `updated_at`.

    A poll asks for the rows whose time is at most `overlap` before the latest time that it has seen, and reports those
    that it has not reported with this time yet. So rows with equal times are not missed, nor those of a transaction
    that commits up to `overlap` after the time that it wrote; what commits later than that is missed, and so are
    deleted rows. Times are datetimes, ISO texts, or numbers of seconds or milliseconds. Every poll is a query beside
    the enricher's budget.

    connect
        makes a connection of any DB-API driver
    table, key, changed
        the table, and its columns with the key and with the time of the last change; an index on the latter helps
    every, overlap
        durations, as an enricher takes them

    >>> import sqlite3
    >>> from freshkeeper import SqlChanges
    >>> connection = sqlite3.connect(":memory:", isolation_level=None)
    >>> _ = connection.execute("CREATE TABLE products (id, updated_at)")
    >>> changes = SqlChanges(lambda: connection, "products", key="id", changed="updated_at")
    >>> changes.poll()
    []
    >>> _ = connection.execute("INSERT INTO products VALUES ('pen', 1700000000)")
    >>> changes.poll(), changes.poll()
    (['pen'], [])
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        table: str,
        *,
        key: str,
        changed: str,
        every: Seconds = 2,
        overlap: Seconds = 10,
    ) -> None:
        self._connect = connect
        self._latest_query = f"SELECT max({changed}) FROM {table}"
        self._query = f"SELECT {key}, {changed} FROM {table}"
        self._where = f" WHERE {changed} >= "
        self._every_s = milliseconds("every", every) / 1000
        self._overlap = timedelta(milliseconds=milliseconds("overlap", overlap))
        self._connection: Any = None
        self._begun = False
        self._latest: Any = None
        self._reported: set[tuple[Any, Any]] = set()
        """keys and times within the overlap that were reported"""
        self._stopped = Event()
        self._thread: Thread | None = None

    def poll(self) -> list[Any]:
        """Return the keys that have changed since the last poll; the first one marks the beginning and returns none."""
        try:
            return self._poll()
        except BaseException:
            connection, self._connection = self._connection, None
            with suppress(Exception):
                connection.close()
            raise

    def start(self, tell: Callable[[Any], object]) -> Self:
        """Poll in a thread, and call a function, such as `enricher.invalidate`, for each key that has changed."""
        if not self._begun:
            self.poll()  # what cannot work is an error here and not in the thread
        self._thread = Thread(target=self._run, args=(tell,), name="sql-changes", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if self._connection is not None:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, tell: Callable[[Any], object]) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                for key in self.poll():
                    tell(key)
            except Exception as error:
                LOGGER.warning("changes cannot be read: %s: %s; tried again in %g s", type(error).__name__, error,
                               self._every_s)  # fmt: skip

    def _poll(self) -> list[Any]:
        if self._connection is None:
            self._connection = self._connect()
        cursor = self._connection.cursor()
        if not self._begun:
            cursor.execute(self._latest_query)
            self._latest = cursor.fetchone()[0]
        since = None if self._latest is None else _earlier(self._latest, self._overlap)
        if since is None:
            cursor.execute(self._query)
        else:
            cursor.execute(self._query + self._where + placeholder(self._connection), (since,))
        rows = [(key, changed) for key, changed in cursor.fetchall() if changed is not None]
        cursor.close()
        self._connection.rollback()  # or the next poll sees what this one saw
        new = [row for row in rows if row not in self._reported] if self._begun else []
        self._remember(rows)
        self._begun = True
        return list(dict.fromkeys(key for key, _ in new))

    def _remember(self, rows: Iterable[tuple[Any, Any]]) -> None:
        self._reported = set(rows)
        times = [changed for _, changed in self._reported]
        if times:
            self._latest = max(times)


def _earlier(time: Any, overlap: timedelta) -> Any:
    """Return a time that is earlier by the overlap, in the form of the column."""
    if isinstance(time, datetime):
        return time - overlap
    if isinstance(time, str):
        parsed = datetime.fromisoformat(time) - overlap
        return parsed.isoformat(sep="T" if "T" in time else " ")
    seconds = overlap.total_seconds()
    return time - (seconds * 1000 if time > MIN_MS else seconds)
