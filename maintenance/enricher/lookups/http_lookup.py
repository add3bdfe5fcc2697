"""JSON over HTTP: a document to each key, or one for many keys."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.enricher.lookup_requests import Rows, UnchangedRows
from freshkeeper.maintenance.fetching.endpoint import Copy
from freshkeeper.maintenance.fetching.http.async_exchange import AsyncConnectionPool
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool, HttpResponse
from freshkeeper.maintenance.fetching.http.response_status import check
from freshkeeper.maintenance.fetching.http.validators import UNCHANGED, Validators
from freshkeeper.maintenance.fetching.http.validity_headers import of_headers
from freshkeeper.maintenance.fetching.requests import Deadline

STATUSES_WITHOUT_ROW = (404, 410)
CONNECTIONS = ("pool", "async_pool", "validators")


@dataclass(eq=False)
class HttpLookup:
    """Rows from addresses with `{key}` or `{keys}` in them.

    With `{key}` a request is a GET of one document: an enricher's `batch` stays 1. With `{keys}`, the keys with commas
    between them, `rows` says how the document gives a mapping of rows. What is not there (404, 410) has no row. Headers
    that say since when or until when a document holds are believed, and documents that came with an ETag or a date are
    asked for with it: a source that answers 304 need not send them again. 429 and Retry-After are heeded. Connections
    are kept, and any number of threads may ask; `AsyncEnricher` awaits the same exchange on its loop, without threads.
    Answers beyond 32 MB are refused.

    >>> from freshkeeper import HttpLookup
    >>> HttpLookup("https://api.example.org/products/{key}").address(["a pen"])
    'https://api.example.org/products/a%20pen'
    """

    url: str
    rows: Callable[[Any], Rows] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 10.0
    """seconds"""
    unchanged_cost: float | None = None
    """what a request costs that is answered with 304, in cost units (default: as much as any other)"""
    pool: ConnectionPool = field(default_factory=ConnectionPool, repr=False)
    async_pool: AsyncConnectionPool = field(default_factory=AsyncConnectionPool, repr=False)
    validators: Validators = field(default_factory=Validators, repr=False)
    wall: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        if ("{key}" in self.url) == ("{keys}" in self.url):
            raise ConfigError(f"the address needs {{key}} or {{keys}}: {self.url}")
        if "{keys}" in self.url and self.rows is None:
            raise ConfigError("rows=... is needed with {keys}: how a document gives a mapping from keys to rows")

    def __call__(self, keys: list[Any]) -> Rows:
        """Return the rows that there are."""
        call = self._call(keys)
        return self._rows(keys, call, self.pool.exchange(call, Deadline(self.pool.clock() + self.timeout)))

    async def fetch_async(self, keys: list[Any]) -> Rows:
        """Return the rows that there are, without a thread."""
        call = self._call(keys)
        return self._rows(keys, call, await self.async_pool.exchange(call, self.timeout))

    def _call(self, keys: list[Any]) -> Call:
        url = self.address(keys)
        return Call("GET", url, {"Accept": "application/json", **self.validators.headers(url), **self.headers})

    def _rows(self, keys: list[Any], call: Call, received: HttpResponse) -> Rows:
        answer = self.validators.complete(call.url, received)
        if answer.status in STATUSES_WITHOUT_ROW:
            return {}
        check(answer, self.wall)
        found = json.loads(answer.body)
        mapping = {keys[0]: found} if self.rows is None else self.rows(found)
        rows = {key: self._dated(row, answer) for key, row in mapping.items()}
        return UnchangedRows(rows, self.unchanged_cost) if received.status == UNCHANGED else rows

    def address(self, keys: list[Any]) -> str:
        """Return the address of the rows of these keys."""
        if "{keys}" in self.url:
            return self.url.replace("{keys}", ",".join(quote(str(key), safe="") for key in keys))
        if len(keys) != 1:
            raise ConfigError(f"{self.url} has the document of one key, not of {len(keys)}: leave batch at 1")
        return self.url.replace("{key}", quote(str(keys[0]), safe=""))

    def close(self) -> None:
        """Close connections; lookups under way fail."""
        self.pool.close()

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self.async_pool.close()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle everything but the connections."""
        return {name: value for name, value in vars(self).items() if name not in CONNECTIONS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.pool, self.async_pool, self.validators = ConnectionPool(), AsyncConnectionPool(), Validators()

    def _dated(self, row: object, answer: HttpResponse) -> Copy:
        wall = self.wall()
        validity = of_headers(answer.headers, round(wall * 1000), wall)
        return Copy(row, validity.modified, validity.expires)
