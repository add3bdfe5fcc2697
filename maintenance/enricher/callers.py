"""Who runs lookups: the thread that asks, threads of a pool, or an event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

from freshkeeper.maintenance.fetching.requests import FetchRequest

Fetch: TypeAlias = Callable[[FetchRequest], Any]


def in_this_thread(fetch: Fetch, request: FetchRequest) -> "Future[Any]":
    """Fetch in the caller's thread; the reply or its error is there at once."""
    answer: Future[Any] = Future()
    try:
        answer.set_result(fetch(request))
    except Exception as error:
        answer.set_exception(error)
    return answer


@dataclass(frozen=True, eq=False)
class Threads:
    """Fetches in the threads of a pool, for lookups that block."""

    pool: ThreadPoolExecutor

    def submit(self, fetch: Fetch, request: FetchRequest) -> "Future[Any]":
        """Fetch as soon as a thread is free."""
        return self.pool.submit(fetch, request)


@dataclass(eq=False)
class EventLoop:
    """Fetches on an event loop, so many at a time; called from other threads than the loop's."""

    parallel: int
    loop: asyncio.AbstractEventLoop | None = None
    _free: asyncio.Semaphore | None = None

    def bind(self) -> None:
        """Use the loop that runs now, unless the one in use is still open."""
        running = asyncio.get_running_loop()
        if self.loop is None or self.loop.is_closed():
            self.loop, self._free = running, asyncio.Semaphore(self.parallel)

    def submit(self, fetch: Fetch, request: FetchRequest) -> "Future[Any]":
        """Fetch as soon as fewer requests are under way."""
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(self._run(fetch, request), self.loop)

    async def _run(self, fetch: Fetch, request: FetchRequest) -> Any:
        assert self._free is not None
        async with self._free:
            return await fetch(request)
