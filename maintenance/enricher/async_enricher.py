"""Rows by key for asyncio: the same cache, whose lookups are awaited on the loop."""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from concurrent.futures import Future
from typing import Any, Self, TypeVar, cast

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.enricher.base_enricher import DEFAULT_READ, BaseEnricher, Column, _checked
from freshkeeper.maintenance.enricher.expansions import EntryRows, combined
from freshkeeper.maintenance.enricher.flights import Flight, ReadOptions
from freshkeeper.maintenance.enricher.joining import KeyOf, key_reader, no_key
from freshkeeper.maintenance.enricher.lookup_requests import Lookup, LookupSender
from freshkeeper.maintenance.enricher.loop_requests import LoopSender
from freshkeeper.maintenance.enricher.row import CachedRow, K, V, again
from freshkeeper.maintenance.enricher.settings import Seconds
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter

T = TypeVar("T")


class AsyncEnricher(BaseEnricher[K, V]):
    """An `Enricher` for asyncio: the same settings, and a lookup that is awaited, or runs in threads if it blocks.

    >>> import asyncio
    >>> from freshkeeper import AsyncEnricher
    >>> async def lookup(keys):
    ...     return {key: key.upper() for key in keys}
    >>> async def main():
    ...     async with AsyncEnricher(lookup, budget="5/s") as enricher:
    ...         return [row.value async for event, row in enricher.join(["a", "b", "a"], key=lambda event: event)]
    >>> asyncio.run(main())
    ['A', 'B', 'A']
    """

    async def get(
        self,
        key: K,
        *,
        max_age: Seconds | None = None,
        min_freshness: float | None = None,
        max_wait: Seconds | None = None,
    ) -> CachedRow[V]:
        """Return the row of a key, as `Enricher.get` does."""
        if max_age is None and min_freshness is None:
            entry = self._rows.get(key)
            if entry is not None:
                now, engine = self._now(), self._engine
                if now < entry.check_at and now < engine.next_tick and entry.epoch == engine.epoch:
                    entry.reads += 1
                    engine.quick_hits += 1
                    return engine.cache.row_of(entry, now)
        options = DEFAULT_READ
        if not max_age is min_freshness is max_wait is None:
            options = self._options(max_age, min_freshness, max_wait)
        found = self._begin(key, options)
        return await self._wait(found, self._wait_s(max_wait)) if isinstance(found, Flight) else found

    async def get_many(self, keys: Iterable[K] | Column, *, max_wait: Seconds | None = None) -> list[CachedRow[V]]:
        """Return the rows of many keys, as `Enricher.get_many` does."""
        options, until = self._options(None, None, max_wait), time.monotonic() + self._wait_s(max_wait)
        self._bind()
        rows: list[CachedRow[V]] = []
        fetched: dict[K, CachedRow[V]] = {}
        for key, found in self._begin_many(keys, options):
            if not isinstance(found, Flight):
                rows.append(found)
            elif key in fetched:
                rows.append(again(fetched[key]))
            else:
                fetched[key] = await self._wait(found, max(0.0, until - time.monotonic()))
                rows.append(fetched[key])
        return rows

    async def get_entries(self, key: Any) -> EntryRows:
        """Return the rows of all entries that a key has, as `expand` says; its answer is kept until `forget(key)`."""
        if self._expansions is None:
            raise ConfigError("get_entries needs expand=...: a function from a key to the keys of its entries")
        entries = await self._expansions.awaited(key, self._wait_s(None))
        return combined(
            entries, () if isinstance(entries, str) else await self.get_many(cast("tuple[K, ...]", entries))
        )

    async def join(self, events: AsyncIterable[T] | Iterable[T], key: KeyOf) -> AsyncIterator[tuple[T, CachedRow[V]]]:
        """Yield every event with the row of its key, which is a field of the event or what a function says."""
        key_of = key_reader(key)
        async for event in events if isinstance(events, AsyncIterable) else _as_async(events):
            try:
                name = _checked(key_of(event))
            except Exception as error:
                raise no_key(event, error) from error
            yield event, await self.get(name)

    async def aclose(self) -> None:
        """Send no more requests; rows that are there can still be read."""
        self._stop()
        close_lookup = getattr(self._sender.lookup, "aclose", None)
        if close_lookup is not None:
            await close_lookup()
        if self._metrics is not None:
            self._metrics.close(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def _make_sender(self, lookup: Lookup[K, V], limiter: RateLimiter) -> LookupSender:
        return LoopSender(
            lookup, limiter, self.settings.parallel, name=self.name, pump=lambda: self._engine.queue.pump()
        )

    def _bind(self) -> None:
        """Move to the running loop; fetches that another loop had under way are begun again."""
        sender = self._sender
        if isinstance(sender, LoopSender) and sender.bind():
            self._engine.queue.restart()

    def _begin(self, key: K, options: ReadOptions) -> CachedRow[V] | Flight:
        self._bind()
        return self._admit(self._engine.read(_checked(key), options), key)

    async def _wait(self, flight: Flight, wait_s: float) -> CachedRow[V]:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[CachedRow[V]] = loop.create_future()

        def deliver(done: "Future[CachedRow[V]]") -> None:
            loop.call_soon_threadsafe(_settle, waiter, done.result())

        flight.future.add_done_callback(deliver)
        try:
            return await asyncio.wait_for(waiter, wait_s)
        except TimeoutError:
            return self._unanswered(flight, wait_s)


def _settle(waiter: "asyncio.Future[CachedRow[V]]", row: CachedRow[V]) -> None:
    if not waiter.done():
        waiter.set_result(row)


async def _as_async(events: Iterable[T]) -> AsyncIterator[T]:
    for event in events:
        yield event
