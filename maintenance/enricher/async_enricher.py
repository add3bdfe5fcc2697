"""Events enriched by key in an event loop: hits are answered at once, lookups are awaited on the loop."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Hashable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Self, TypeVar

from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.enricher.cached_row import CachedRow, nothing
from freshkeeper.maintenance.enricher.callers import EventLoop, Threads, in_this_thread
from freshkeeper.maintenance.enricher.enrichment import Enrichment
from freshkeeper.maintenance.enricher.joining import KeyOf, key_reader, no_key
from freshkeeper.maintenance.enricher.settings import is_asynchronous
from freshkeeper.maintenance.enricher.shared_entries import EntryRows, together
from freshkeeper.maintenance.fetching.executors import Submit

T = TypeVar("T")


@dataclass(eq=False)
class AsyncEnricher(Enrichment):
    """An `Enricher` for asyncio: the same settings, and a lookup that is awaited, or runs in threads if it is not.

    Choosing what to fetch runs in a thread, so that the loop is not held up; lookups run on the loop.

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

    async def get(self, key: Hashable) -> CachedRow:
        """The row of a key, as far as it is known."""
        row = self.cache.row(key, self._now())
        return await self._missing(key) if row is None else row

    async def get_many(self, keys: Iterable[Hashable]) -> list[CachedRow]:
        """The rows of many keys; those that are not there are fetched together."""
        asked = list(keys)
        unique = dict.fromkeys(asked)
        found = dict(zip(unique, await asyncio.gather(*map(self.get, unique)), strict=True))
        return [found[key] for key in asked]

    async def get_entries(self, key: Hashable) -> EntryRows:
        """The rows of all entries that a key has, as `expand` says; that is asked once and kept until `forget(key)`."""
        if not self._started:
            await self._begin()
        entries = await self._entries.awaited(key, self._patience)
        return together(entries, () if isinstance(entries, str) else await self.get_many(entries))

    async def join(self, events: AsyncIterable[T] | Iterable[T], key: KeyOf) -> AsyncIterator[tuple[T, CachedRow]]:
        """Every event with the row of its key, which is a field of it or what a function says."""
        key_of = key_reader(key)
        async for event in events if isinstance(events, AsyncIterable) else _one_by_one(events):
            try:
                name = key_of(event)
            except Exception as error:
                raise no_key(event, error) from error
            row = self.cache.row(name, self._now())
            yield event, await self._missing(name) if row is None else row

    async def tick(self, now: int | None = None) -> Evaluation | None:
        """A round of maintenance, if one is due: every step is paid once."""
        self._bind()
        return await asyncio.to_thread(self._tick, now)

    async def close(self) -> None:
        """No more rounds and requests; what is held can still be asked for."""
        await asyncio.to_thread(self._close)

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _submitters(self) -> tuple[Submit, Submit]:
        self._loop = EventLoop(self.parallel)
        if is_asynchronous(self.lookup):
            return self._loop.submit, self._loop.submit
        return Threads(self._threads).submit, in_this_thread

    async def _missing(self, key: Hashable) -> CachedRow:
        if not self._started:
            await self._begin()
        future: Future[CachedRow] = self._ask(key)
        asyncio.get_running_loop().call_soon(self._send)  # when all who are about to ask have asked
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), self._patience)
        except TimeoutError:
            return nothing(f"no answer within {self.timeout}")

    async def _begin(self) -> None:
        self._bind()
        await asyncio.to_thread(self._start)

    def _bind(self) -> None:
        self._loop.bind()


async def _one_by_one(events: Iterable[T]) -> AsyncIterator[T]:
    for event in events:
        yield event
