"""The cached entries that a key has, where several keys share them: asked for once a key, by one request each."""

import asyncio
import inspect
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from freshkeeper.maintenance.enricher.cached_row import UNSURE, CachedRow
from freshkeeper.maintenance.fetching.endpoint import failure

Keys = tuple[Hashable, ...]


class EntryRows(NamedTuple):
    """The rows of a key's entries, and how likely all of them still are what the source has."""

    rows: dict[Hashable, CachedRow]
    freshness: float
    """the probability that all are; 0 where the entries are not known"""
    error: str | None = None
    """why the entries are not known"""


@dataclass(eq=False)
class Entries:
    """Which entries each key has, at most so many keys; the least lately asked for go."""

    expand: Callable[[Any], Any]
    pay: Callable[[], bool]
    """takes a request out of the budget, if there is one"""
    capacity: int
    _known: dict[Hashable, Keys] = field(default_factory=dict)
    _under_way: dict[Hashable, "Future[Keys | str]"] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, key: Hashable, patience: float) -> Keys | str:
        """The entries of a key, or why they are not known; who asks for the same key shares the request."""
        future, own = self._future(key)
        if own:
            self._settle(key, future, self._asked(key))
        try:
            return future.result(patience)
        except TimeoutError:
            return f"no answer within {patience:g} s"

    async def awaited(self, key: Hashable, patience: float) -> Keys | str:
        """The same on an event loop."""
        future, own = self._future(key)
        if own:
            found: Keys | str = "whoever asked for it was cancelled"
            try:
                later = inspect.iscoroutinefunction(self.expand)
                found = await (self._asked_on_loop(key) if later else asyncio.to_thread(self._asked, key))
            finally:  # others wait for it
                self._settle(key, future, found)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), patience)
        except TimeoutError:
            return f"no answer within {patience:g} s"

    def forget(self, key: Hashable) -> None:
        """They are asked for again."""
        with self._lock:
            self._known.pop(key, None)

    def _future(self, key: Hashable) -> "tuple[Future[Keys | str], bool]":
        """What comes of a key, and whether it is on the caller to see to it."""
        with self._lock:
            future: Future[Keys | str] | None = self._under_way.get(key)
            if future is not None:
                return future, False
            future = Future()
            if key in self._known:
                self._known[key] = known = self._known.pop(key)
                future.set_result(known)
                return future, False
            self._under_way[key] = future
            return future, True

    def _asked(self, key: Hashable) -> Keys | str:
        try:
            return tuple(self.expand(key) or ()) if self.pay() else str(UNSURE.error)
        except Exception as error:  # whatever somebody's function raises costs its answer, and nothing else
            return failure(error)

    async def _asked_on_loop(self, key: Hashable) -> Keys | str:
        try:
            return tuple(await self.expand(key) or ()) if self.pay() else str(UNSURE.error)
        except Exception as error:
            return failure(error)

    def _settle(self, key: Hashable, future: "Future[Keys | str]", found: Keys | str) -> None:
        with self._lock:
            if not isinstance(found, str):
                self._known[key] = found
                while len(self._known) > self.capacity:
                    del self._known[next(iter(self._known))]
            self._under_way.pop(key, None)
        future.set_result(found)


def together(entries: Iterable[Hashable] | str, rows: Iterable[CachedRow]) -> EntryRows:
    """The rows of all entries of a key."""
    if isinstance(entries, str):
        return EntryRows({}, 0.0, entries)
    found, freshness = dict(zip(entries, rows, strict=True)), 1.0
    for row in found.values():
        freshness *= row.freshness
    return EntryRows(found, freshness)
