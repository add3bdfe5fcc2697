"""Requests of an enricher on an event loop."""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from freshkeeper.maintenance.enricher.lookup_requests import LookupSender, is_asynchronous
from freshkeeper.maintenance.enricher.workers import Workers


@dataclass(eq=False)
class LoopSender(LookupSender):
    """Awaits the lookup on the running event loop; lookups that block run in daemon threads."""

    pump: Callable[[], None] = field(default=lambda: None)

    def __post_init__(self) -> None:
        self._workers = Workers(self.parallel, self.name)
        self._lookup = getattr(self.lookup, "fetch_async", self.lookup)
        self._awaited = is_asynchronous(self._lookup)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> bool:
        """Use the running loop; return whether it is another one than before."""
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return False
        moved = self._loop is not None
        self._loop = loop
        self.running = 0
        self._tasks.clear()
        return moved

    def wake(self, after: float) -> None:
        """Wake the engine from the loop."""
        assert self._loop is not None
        self._loop.call_later(after / 1000, self.pump)

    def _begin(self, keys: list[Hashable], replied: Callable[[Callable[[], Any]], None]) -> None:
        assert self._loop is not None
        task = self._loop.create_task(self._call(keys, replied))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, keys: list[Hashable], replied: Callable[[Callable[[], Any]], None]) -> None:
        future: Future[Any] = Future()
        try:
            if self._awaited:
                found = await self._lookup(keys)
            else:
                found = await asyncio.wrap_future(self._workers.submit(self.lookup, keys))
            future.set_result(found)
        except BaseException as error:
            future.set_exception(error)
            replied(future.result)
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        replied(future.result)
