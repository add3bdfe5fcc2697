"""A function that looks rows up, as a source of keys. What it raises fails the keys of its request, and nothing else.

`lookup(keys)` returns a mapping from keys to rows; a key that is not in it has no row (None). Threads or an event loop
run the function (`callers.py`).
"""

import math
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeAlias, cast

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.endpoint import Copy, Expanded, Key, Price, error_text
from freshkeeper.maintenance.fetching.executors import Submit, SubmittingExecutor
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.key_fetcher import KeyFetcher
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter
from freshkeeper.maintenance.fetching.requests import FetchReply, FetchRequest, Outcome

Rows: TypeAlias = Mapping[Any, Any]
Lookup: TypeAlias = Callable[[list[Any]], Rows] | Callable[[list[Any]], Awaitable[Rows]]
"""From keys to their rows; a row may be a `Copy`, which tells since when or until when it holds."""


@dataclass(eq=False)
class LookupSource:
    """Rows by key from a function."""

    lookup: Lookup
    limits: RateLimiter = field(default_factory=RateLimiter)
    """the breaker: a source that fails again and again is left alone for a while"""
    identity: ClassVar[str] = "rows"
    differs: ClassVar[str] = "its name has changed"
    edges: dict[Any, Any] = field(default_factory=dict)
    """none: a key is its own entry"""

    def fetch(self, request: FetchRequest) -> FetchReply:
        lookup = cast("Callable[[list[Any]], Rows]", self.lookup)
        try:
            return _reply(request, lookup(list(request.keys)))
        except Exception as error:
            raise FetchError(error_text(error), keys=True) from error


@dataclass(eq=False)
class AsyncLookupSource(LookupSource):
    """Rows by key from an asynchronous function."""

    async def fetch(self, request: FetchRequest) -> FetchReply:  # type: ignore[override]
        lookup = cast("Callable[[list[Any]], Awaitable[Rows]]", self.lookup)
        try:
            return _reply(request, await lookup(list(request.keys)))
        except (Exception, CancelledError) as error:
            raise FetchError(error_text(error), keys=True) from error


RowFetcher: TypeAlias = KeyFetcher[LookupSource]


def row_fetcher(source: LookupSource, submit: Submit, price: Price, parallel: int = 8) -> RowFetcher:
    """Return the fetcher of a lookup: `submit` runs requests, and a round waits for them in its own way."""
    executor = SubmittingExecutor(submit, source.limits, parallel)
    return KeyFetcher(source, price, executor, halves_at_once=False, avoids_in_flight=True)


def copied(row: object) -> Copy:
    """Return a row as a copy; one that is a `Copy` already may have its times as datetimes."""
    if not isinstance(row, Copy):
        return Copy(row)
    return Copy(row.value, in_ms(row.modified), in_ms(row.expires), row.error)


def in_ms(time: int | datetime | None) -> int:
    """Return milliseconds since the epoch; None is not known."""
    if isinstance(time, datetime):
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        return math.floor(aware.timestamp() * 1000)
    return UNKNOWN if time is None else int(time)


def _reply(request: FetchRequest, rows: object) -> FetchReply:
    if not isinstance(rows, Mapping):
        raise TypeError(f"a lookup returns a mapping from keys to rows, not {type(rows).__name__}")
    return FetchReply([_outcome(request.kind, key, rows.get(key)) for key in request.keys])


def _outcome(kind: Kind, key: Key, row: object) -> Outcome:
    copy = copied(row)
    return Expanded({key: copy}) if kind is Kind.MISS else copy
