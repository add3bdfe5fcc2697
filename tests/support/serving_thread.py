"""A server of fragments beside other work, in a thread of its own."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Thread

from freshkeeper.maintenance.annotated.http_listener import HttpListener, RequestHandler


@dataclass(eq=False)
class ServingThread:
    """Answers requests until it is closed."""

    answer: RequestHandler
    host: str
    port: int
    wall: Callable[[], float] = time.time
    address: str = field(init=False)
    """with the port that it has, where any would do"""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def __post_init__(self) -> None:
        """Take the port before the thread begins, so that one that is in use is an error here."""
        self._listener = HttpListener(self.answer, self.wall)
        self._listening = self._loop.run_until_complete(self._listener.listen(self.host, self.port))
        self.address = f"http://{self.host}:{self._listening.sockets[0].getsockname()[1]}/"
        self._thread = Thread(target=self._loop.run_forever, name="fragments", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it, with its connections."""

        async def end() -> None:
            self._listening.close()
            for connection in list(self._listener.open):
                connection.transport.abort()
            while self._listener.open:
                await asyncio.sleep(0)
            self._loop.stop()

        asyncio.run_coroutine_threadsafe(end(), self._loop)
        self._thread.join()
        self._loop.close()
