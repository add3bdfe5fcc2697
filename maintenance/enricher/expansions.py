"""The entries that a key has, where several keys share them: asked for once per key, by one request each."""

import inspect
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from freshkeeper.maintenance.enricher.row import CachedRow
from freshkeeper.maintenance.fetching.endpoint import failure

Keys = tuple[Hashable, ...]
BUDGET_SPENT = "the budget is spent"


class EntryRows(NamedTuple):
    """The rows of a key's entries, and how likely all of them still are what the source has."""

    rows: "dict[Hashable, CachedRow[Any]]"
    freshness: float
    """the probability that all are right; 0 where the entries are not known"""
    error: str | None = None
    """why the entries are not known"""


@dataclass(eq=False)
class Expansions:
    """The entries of each key, for at most `capacity` keys; the least recently used go."""

    expand: Callable[[Any], Any]
    pay: Callable[[], bool]
    """takes a request out of the budget, if there is one"""
    capacity: int
    _entries: dict[Hashable, Keys] = field(default_factory=dict)
    _in_flight: dict[Hashable, "Future[Keys | str]"] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, key: Hashable, timeout: float) -> Keys | str:
        """Return the entries of a key, or why they are not known; readers of the same key share the request."""
        future, first = self._join(key)
        if first:
            self._settle(key, future, self._call(key))
        try:
            return future.result(timeout)
        except TimeoutError:
            return f"no answer within {timeout:g} s"

    async def awaited(self, key: Hashable, timeout: float) -> Keys | str:
        """Return the entries of a key on an event loop."""
        import asyncio  # most enrichers never need it

        future, first = self._join(key)
        if first:
            found: Keys | str = "the reader that asked for it was cancelled"
            try:
                asynchronous = inspect.iscoroutinefunction(self.expand)
                found = await (self._await(key) if asynchronous else asyncio.to_thread(self._call, key))
            finally:  # others wait for it
                self._settle(key, future, found)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), timeout)
        except TimeoutError:
            return f"no answer within {timeout:g} s"

    def forget(self, key: Hashable) -> None:
        """Drop the entries of a key; its next read asks for them again."""
        with self._lock:
            self._entries.pop(key, None)

    def _join(self, key: Hashable) -> "tuple[Future[Keys | str], bool]":
        """Return the future of a key's entries, and whether the caller has to settle it."""
        with self._lock:
            future: Future[Keys | str] | None = self._in_flight.get(key)
            if future is not None:
                return future, False
            future = Future()
            if key in self._entries:
                entries = self._entries[key] = self._entries.pop(key)  # the last one in the dict was used last
                future.set_result(entries)
                return future, False
            self._in_flight[key] = future
            return future, True

    def _call(self, key: Hashable) -> Keys | str:
        try:
            return tuple(self.expand(key) or ()) if self.pay() else BUDGET_SPENT
        except Exception as error:  # whatever a user's function raises costs its own answer only
            return failure(error)

    async def _await(self, key: Hashable) -> Keys | str:
        try:
            return tuple(await self.expand(key) or ()) if self.pay() else BUDGET_SPENT
        except Exception as error:
            return failure(error)

    def _settle(self, key: Hashable, future: "Future[Keys | str]", entries: Keys | str) -> None:
        with self._lock:
            if not isinstance(entries, str):
                self._entries[key] = entries
                while len(self._entries) > self.capacity:
                    del self._entries[next(iter(self._entries))]
            self._in_flight.pop(key, None)
        future.set_result(entries)


def combined(entries: Iterable[Hashable] | str, rows: "Iterable[CachedRow[Any]]") -> EntryRows:
    """Return the rows of all entries of a key, with the probability that all of them are right."""
    if isinstance(entries, str):
        return EntryRows({}, 0.0, entries)
    found, freshness = dict(zip(entries, rows, strict=True)), 1.0
    for row in found.values():
        freshness *= row.freshness
    return EntryRows(found, freshness)
