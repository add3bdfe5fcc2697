"""A server of fragments beside other work, in a thread of its own."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Thread

from freshkeeper.maintenance.fragments.fragment_server import FragmentServer
from freshkeeper.maintenance.fragments.http_listener import Answers, Listener
from freshkeeper.maintenance.fragments.served_data import Serving
from freshkeeper.policies.errors import ConfigError


@dataclass(eq=False)
class ServingThread:
    """Answers requests until it is closed."""

    answer: Answers
    host: str
    port: int
    wall: Callable[[], float] = time.time
    address: str = field(init=False)
    """with the port that it has, where any would do"""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    @classmethod
    def of(cls, data: Serving, host: str, port: int, wall: Callable[[], float] = time.time) -> "ServingThread":
        """A server of data, at `/`."""
        return cls(FragmentServer(data, lambda: int(wall() * 1000), "/").answer, host, port, wall)

    def __post_init__(self) -> None:
        """Take the port before the thread begins, so that one that is in use is an error here."""
        self._listener = Listener(self.answer, self.wall)
        try:
            self._listening = self._loop.run_until_complete(self._listener.listen(self.host, self.port))
        except OSError as error:
            self._loop.close()
            said = os.strerror(error.errno or 0)
            raise ConfigError(f"cannot listen on {self.host}:{self.port}: {said}; 0 is any port") from None
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
