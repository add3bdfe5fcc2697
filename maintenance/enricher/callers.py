"""Who runs lookups: the thread that asks, threads of a pool, or an event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

from freshkeeper.maintenance.enricher.lookup_source import Lookup, Rows


class Here:
    """The thread that asks."""

    def begin(self, call: Lookup, keys: list[Any]) -> "Future[Any]":
        """Call the look-up in the caller's thread; the answer or its error is there at once."""
        answer: Future[Any] = Future()
        try:
            answer.set_result(call(keys))
        except Exception as error:
            answer.set_exception(error)
        return answer


@dataclass(frozen=True, eq=False)
class Threads:
    """Calls in the threads of a pool, for look-ups that block."""

    pool: ThreadPoolExecutor

    def begin(self, call: Lookup, keys: list[Any]) -> "Future[Any]":
        """As soon as one is free."""
        return self.pool.submit(call, keys)


@dataclass(eq=False)
class EventLoop:
    """Coroutines on a loop, so many at a time; asked from other threads than the loop's."""

    parallel: int
    loop: asyncio.AbstractEventLoop | None = None
    _free: asyncio.Semaphore | None = None

    def bind(self) -> None:
        """The loop that runs now is the one, as long as it is open."""
        running = asyncio.get_running_loop()
        if self.loop is None or self.loop.is_closed():
            self.loop, self._free = running, asyncio.Semaphore(self.parallel)

    def begin(self, call: Lookup, keys: list[Any]) -> "Future[Any]":
        """As soon as fewer are under way."""
        assert self.loop is not None
        awaited = cast(Callable[[list[Any]], Awaitable[Rows]], call)
        return asyncio.run_coroutine_threadsafe(self._run(awaited, keys), self.loop)

    async def _run(self, call: Callable[[list[Any]], Awaitable[Rows]], keys: list[Any]) -> Rows:
        assert self._free is not None
        async with self._free:
            return await call(keys)
