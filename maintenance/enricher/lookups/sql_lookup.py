"""Rows of a table in SQL, by any DB-API driver or by SQLAlchemy."""

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import local
from typing import TYPE_CHECKING, Any, TypeAlias

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.enricher.row import Row

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

Result: TypeAlias = tuple[list[str], Sequence[Any]]
"""the names of the columns, and the rows"""
HOLE = "{keys}"
MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


@dataclass(eq=False)
class SqlLookup:
    """Rows by key from a query whose `{keys}` stands behind IN; a row is a dict of its columns.

    `connect` makes a connection, one for each thread that looks up, or is an engine of SQLAlchemy. For `AsyncEnricher`
    it may be a coroutine function, such as `partial(psycopg.AsyncConnection.connect, address)`, or an AsyncEngine.
    Every look-up is a transaction of its own, so that it sees what is there now; after an error the next one connects
    anew.

    >>> import sqlite3
    >>> from freshkeeper import SqlLookup
    >>> def connect():
    ...     connection = sqlite3.connect(":memory:")
    ...     connection.executescript("CREATE TABLE products (id, price); INSERT INTO products VALUES ('pen', 2)")
    ...     return connection
    >>> SqlLookup(connect, "SELECT id, price FROM products WHERE id IN {keys}")(["pen", "ink"])
    {'pen': {'id': 'pen', 'price': 2}}
    """

    connect: "Callable[[], Any] | Engine | AsyncEngine"
    query: str
    key: str | None = None
    """the column that holds the key; the first one unless said otherwise"""
    many: bool = False
    """whether a key has several rows: a list of them is fetched as one"""
    modified: str | None = None
    """a column that says when the row last changed, for `knowledge="published"`: a datetime, or milliseconds"""
    asynchronous: bool | None = None
    """whether `connect` returns an awaitable; found out for engines and coroutine functions"""
    _thread: local = field(default_factory=local, init=False, repr=False)
    _idle: list[Any] = field(default_factory=list, init=False, repr=False)
    """asynchronous connections that wait for the next look-up on `_loop`"""
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.query.count(HOLE) != 1:
            raise ConfigError(f"the query needs {HOLE} once, as in WHERE id IN {HOLE}: {self.query}")
        if self.many and self.modified is not None:
            raise ConfigError("modified is a column of one row; of several rows to a key none says it")
        if self.asynchronous is None:
            self.asynchronous = hasattr(self.connect, "sync_engine") or inspect.iscoroutinefunction(self.connect)

    def __call__(self, keys: list[Any]) -> Any:
        """Return the rows that the query finds, or an awaitable of them."""
        through_engine = hasattr(self.connect, "dialect")
        if self.asynchronous:
            return self._awaited(self._await_engine(keys) if through_engine else self._await_driver(keys))
        return self._by_key(*(self._through_engine(keys) if through_engine else self._through_driver(keys)))

    async def aclose(self) -> None:
        """Close the asynchronous connections that wait."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def _awaited(self, result: Awaitable[Result]) -> dict[Any, Any]:
        return self._by_key(*await result)

    def _by_key(self, names: list[str], rows: Sequence[Any]) -> dict[Any, Any]:
        key = 0 if self.key is None else self._column(names, self.key)
        found: dict[Any, Any] = {}
        for values in rows:
            row = dict(zip(names, values, strict=True))
            if self.many:
                found.setdefault(values[key], []).append(row)
            else:
                found[values[key]] = self._dated(row)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Pickle everything but the open connections."""
        return {name: value for name, value in vars(self).items() if name not in ("_thread", "_idle", "_loop")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._thread, self._idle, self._loop = local(), [], None

    def _dated(self, row: dict[str, Any]) -> Any:
        if self.modified is None:
            return row
        self._column(list(row), self.modified)
        return Row(row, modified=row[self.modified])

    def _through_engine(self, keys: list[Any]) -> Result:
        engine: Any = self.connect
        with engine.connect() as connection:
            result = connection.execute(self._expanding(), {"freshkeeper_keys": keys})
            return list(result.keys()), result.fetchall()

    async def _await_engine(self, keys: list[Any]) -> Result:
        engine: Any = self.connect
        async with engine.connect() as connection:
            result = await connection.execute(self._expanding(), {"freshkeeper_keys": keys})
            return list(result.keys()), result.fetchall()

    def _expanding(self) -> Any:
        """Return the query for SQLAlchemy."""
        from sqlalchemy import bindparam, text  # an extra

        query = text(self.query.replace(HOLE, ":freshkeeper_keys"))
        return query.bindparams(bindparam("freshkeeper_keys", expanding=True))

    async def _await_driver(self, keys: list[Any]) -> Result:
        connect: Any = self.connect
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._idle = loop, []
        connection = self._idle.pop() if self._idle else await connect()
        try:
            cursor = connection.cursor()
            await cursor.execute(self._marked(connection, len(keys)), tuple(keys))
            names, rows = [column[0] for column in cursor.description], await cursor.fetchall()
            await cursor.close()
            await connection.rollback()
        except BaseException:
            with suppress(Exception):
                await connection.close()
            raise
        self._idle.append(connection)
        return names, rows

    def _marked(self, connection: Any, count: int) -> str:
        """Return the query for a driver, with a placeholder for each key."""
        return self.query.replace(HOLE, f"({', '.join([placeholder(connection)] * count)})")

    def _through_driver(self, keys: list[Any]) -> Result:
        connection = self._connection()
        try:
            cursor = connection.cursor()
            cursor.execute(self._marked(connection, len(keys)), tuple(keys))
            names, rows = [column[0] for column in cursor.description], cursor.fetchall()
            cursor.close()
            connection.rollback()  # or the next look-up sees what this one saw
        except BaseException:
            del self._thread.connection
            with suppress(Exception):
                connection.close()
            raise
        return names, rows

    def _connection(self) -> Any:
        if not hasattr(self._thread, "connection"):
            connect: Any = self.connect
            made = connect()
            if inspect.iscoroutine(made):
                made.close()
                raise ConfigError("connect returns a coroutine: say SqlLookup(..., asynchronous=True) to AsyncEnricher")
            self._thread.connection = made
        return self._thread.connection

    def _column(self, names: Sequence[str], wanted: str) -> int:
        if wanted not in names:
            raise ConfigError(f"the query has no column {wanted!r}; it has {', '.join(names)}")
        return list(names).index(wanted)


def placeholder(connection: Any) -> str:
    """Return the placeholder of a parameter, as the driver's module says."""
    driver = sys.modules[type(connection).__module__.partition(".")[0]]
    style = getattr(driver, "paramstyle", "")
    if style not in MARKS:
        raise ConfigError(f"{driver.__name__} has parameters of the style {style!r}; use SQLAlchemy's engine for it")
    return MARKS[style]
