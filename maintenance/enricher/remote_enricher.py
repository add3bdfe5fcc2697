"""The rows of a service (`freshkeeper serve` with `rows:`), with the calls of an `Enricher`."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Self
from urllib.parse import quote, urlencode

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.enricher.row import CachedRow, K, V
from freshkeeper.maintenance.enricher.settings import Seconds, milliseconds
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool, HttpResponse
from freshkeeper.maintenance.fetching.requests import Deadline

JSON = "application/json"


@dataclass(eq=False)
class RemoteEnricher(Generic[K, V]):
    """Rows of a service by key; all its clients share rows and budget.

    A service that cannot be reached makes rows with an `error`, as a source does that cannot be reached.

    >>> from freshkeeper import RemoteEnricher
    >>> RemoteEnricher("http://localhost:8642", "products").address("a pen")
    'http://localhost:8642/rows/products/a%20pen'
    """

    url: str
    """the address of the service"""
    name: str
    """what its config calls the rows"""
    token: str = ""
    timeout: float = 30.0
    """seconds"""
    pool: ConnectionPool = field(default_factory=ConnectionPool, repr=False)

    def __post_init__(self) -> None:
        if "://" not in self.url:
            raise ConfigError(f"url={self.url!r} is no address: write http://host:8642")
        self.url = self.url.rstrip("/")

    def get(
        self,
        key: K,
        *,
        max_age: Seconds | None = None,
        min_freshness: float | None = None,
        max_wait: Seconds | None = None,
    ) -> CachedRow[V]:
        """Return the row of a key; the service decides whether it is worth a request, unless more is demanded."""
        demands: dict[str, Any] = {} if min_freshness is None else {"min_freshness": min_freshness}
        for name, duration in (("max_age", max_age), ("max_wait", max_wait)):
            if duration is not None:
                demands[name] = f"{milliseconds(name, duration):.0f}ms"
        query = f"?{urlencode(demands)}" if demands else ""
        try:
            answer = self._call("GET", f"{self.address(key)}{query}")
        except FetchError as error:
            return CachedRow.failed(str(error))
        if answer.status == 404 and "age" in answer.headers:
            return CachedRow(None, 1.0, float(answer.headers["age"]), True)  # type: ignore[arg-type]
        if answer.status != 200:
            return CachedRow.failed(_detail(answer))
        return _row(json.loads(answer.body))

    def get_many(self, keys: Iterable[K]) -> list[CachedRow[V]]:
        """Return the rows of many keys, in their order."""
        wanted = list(keys)
        if not wanted:
            return []
        try:
            answer = self._call("POST", f"{self.url}/rows/{self.name}", {"keys": wanted})
        except FetchError as error:
            return [CachedRow.failed(str(error)) for _ in wanted]
        if answer.status != 200:
            return [CachedRow.failed(_detail(answer)) for _ in wanted]
        return [_row(one) for one in json.loads(answer.body)["rows"]]

    def put(self, key: K, row: V) -> None:
        """Store a row that was read at the source elsewhere."""
        self._done("PUT", self.address(key), row)

    def invalidate(self, key: K) -> None:
        """Take a row to be wrong: its next read fetches it."""
        self._done("POST", f"{self.url}/rows/{self.name}/invalidate", {"keys": [key]})

    def may_have_changed(self, key: K, at: float | None = None) -> None:
        """Tell the service that a row may have changed, `at` seconds since the epoch (default: now)."""
        self._done("POST", f"{self.url}/rows/{self.name}/hints", {"keys": [key], "at": at})

    def forget(self, key: K) -> None:
        """Drop a row; its next read is a miss."""
        self._done("DELETE", self.address(key))

    def stats(self) -> Mapping[str, Any]:
        """Return the numbers of the service's rows, by the names of `Enricher.stats()`."""
        answer = self._call("GET", f"{self.url}/rows")
        if answer.status != 200:
            raise InputError(_detail(answer))
        found: Mapping[str, Any] = json.loads(answer.body)["rows"].get(self.name, {})
        return found

    def address(self, key: K) -> str:
        """Return the address of a row."""
        return f"{self.url}/rows/{self.name}/{quote(str(key), safe='')}"

    def close(self) -> None:
        """Close the connections to the service."""
        self.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _done(self, method: str, url: str, body: object = None) -> None:
        answer = self._call(method, url, body)
        if answer.status != 204:
            raise InputError(_detail(answer))

    def _call(self, method: str, url: str, body: object = None) -> HttpResponse:
        headers = {"Accept": JSON}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None
        if body is not None:
            headers["Content-Type"] = JSON
            data = json.dumps(body).encode()
        return self.pool.exchange(Call(method, url, headers, data), Deadline(time.monotonic() + self.timeout))


def _row(found: Mapping[str, Any]) -> CachedRow[Any]:
    age = None if found["age_ms"] is None else found["age_ms"] / 1000
    return CachedRow(found["value"], found["freshness"], age, found["hit"], found["error"])


def _detail(answer: HttpResponse) -> str:
    """Return why the service refused a request."""
    try:
        return str(json.loads(answer.body)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{answer.status} {answer.reason}"
