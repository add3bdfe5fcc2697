"""HTTP/1.1 for a server that only answers GET: a request is its head, and what has a body is refused.

Written out because the frameworks that there are take longer for their own work than a held page takes altogether
(docs/decisions.md). Bounded: heads, how long a connection may be silent, and how many there are.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TypeAlias

from freshkeeper.maintenance.annotated.fragment_server import Response

LONGEST_HEAD = 16_384
"""Bytes of a request."""
SILENCE = 60.0
"""Seconds after which a connection that asks nothing is closed."""
MOST_CONNECTIONS = 2_000
HIGH_WATER = 1 << 20
"""Bytes that may wait for a reader who does not read, before no more of its requests are answered."""

Answers: TypeAlias = Callable[[str, str, Mapping[str, str]], Response]
"""From method, target and headers to a response."""


@dataclass(eq=False)
class Listener:
    """Connections that are open, and who answers them."""

    answer: Answers
    seconds: Callable[[], float]
    """since 1970"""
    open: set["_Connection"] = field(default_factory=set)
    sent: int = 0
    """bytes, heads and bodies"""
    _date: tuple[int, str] = (0, "")

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Begin to listen; port 0 is any free one."""
        return await asyncio.get_running_loop().create_server(lambda: _Connection(self), host, port, backlog=1_000)

    def date(self) -> str:
        """The Date of responses, made once a second."""
        second = int(self.seconds())
        if self._date[0] != second:
            self._date = second, formatdate(second, usegmt=True)
        return self._date[1]


class _Connection(asyncio.Protocol):
    """One connection; requests on it are answered in their order."""

    def __init__(self, listener: Listener) -> None:
        self.listener, self.transport = listener, asyncio.Transport()
        self.buffer, self.timer = b"", asyncio.get_running_loop().call_later(SILENCE, self._silent)
        self.paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take it, unless there are too many."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.transport.set_write_buffer_limits(HIGH_WATER)
        self.listener.open.add(self)
        if len(self.listener.open) > MOST_CONNECTIONS:
            self._refuse("503 Service Unavailable")

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio says that it is closed: what is not answered yet will not be."""
        del exc
        self.timer.cancel()
        self.listener.open.discard(self)

    def data_received(self, data: bytes) -> None:
        """Answer every request that is there."""
        self.timer.cancel()
        self.timer = asyncio.get_running_loop().call_later(SILENCE, self._silent)
        self.buffer += data
        self._work()

    def pause_writing(self) -> None:
        """The reader does not read."""
        self.paused = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """asyncio says that the client takes more: read on, and answer what waits."""
        self.paused = False
        self.transport.resume_reading()
        self._work()

    def _work(self) -> None:
        while not self.paused and not self.transport.is_closing():
            head, end, rest = self.buffer.partition(b"\r\n\r\n")
            if not end:
                break
            self.buffer = rest
            self._answer(head)
        if len(self.buffer) > LONGEST_HEAD and not self.paused:
            self._refuse("431 Request Header Fields Too Large")

    def _answer(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
            return self._refuse("400 Bad Request")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return self._refuse("413 Content Too Large")
        try:
            response = self.listener.answer(words[0], words[1], headers)
        except Exception as error:  # one request costs its answer, and nothing else
            response = Response(
                "500 Internal Server Error", {"Content-Type": "text/plain"}, type(error).__name__.encode()
            )
        head = response.head(self.listener.date())
        said = head if words[0] == "HEAD" else head + response.body
        self.listener.sent += len(said)
        self.transport.write(said)
        wish = headers.get("connection", "").lower()
        if wish == "close" or (words[2] == "HTTP/1.0" and wish != "keep-alive"):
            self.transport.close()
        return None

    def _refuse(self, status: str) -> None:
        date = self.listener.date()
        self.transport.write(Response(status, {"Connection": "close", "Content-Type": "text/plain"}).head(date))
        self.transport.close()

    def _silent(self) -> None:
        self.transport.close()
