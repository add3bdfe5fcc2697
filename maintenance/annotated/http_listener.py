"""HTTP/1.1 for a server that only responds to GET: a request is a head, and requests with a body are refused.

The existing frameworks spend more time on a request than sending a cached page takes altogether (docs/decisions.md).
The size of a head, the idle time of a connection and the number of connections are limited.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TypeAlias

from freshkeeper.maintenance.annotated.fragment_server import FragmentResponse

MAX_HEAD_BYTES = 16_384
IDLE_TIMEOUT_S = 60.0
"""Connections without a request for this long are closed."""
MAX_CONNECTIONS = 2_000
MAX_UNSENT_BYTES = 1 << 20
"""With this many unsent bytes, no further requests of a slow client are processed."""

RequestHandler: TypeAlias = Callable[[str, str, Mapping[str, str]], FragmentResponse]
"""Maps method, target and headers to a response."""


@dataclass(eq=False)
class HttpListener:
    """The open connections, and the handler of their requests."""

    answer: RequestHandler
    seconds: Callable[[], float]
    """returns seconds since 1970"""
    open: set["_Connection"] = field(default_factory=set)
    sent: int = 0
    """number of bytes sent, heads and bodies"""
    _date: tuple[int, str] = (0, "")

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Start to listen; port 0 selects a free port."""
        return await asyncio.get_running_loop().create_server(lambda: _Connection(self), host, port, backlog=1_000)

    def date(self) -> str:
        second = int(self.seconds())
        if self._date[0] != second:
            self._date = second, formatdate(second, usegmt=True)
        return self._date[1]


class _Connection(asyncio.Protocol):
    """A connection whose requests are answered in order."""

    def __init__(self, listener: HttpListener) -> None:
        self.listener, self.transport = listener, asyncio.Transport()
        self.buffer, self.timer = b"", asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, self._close_idle)
        self.paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, unless there are too many."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.transport.set_write_buffer_limits(MAX_UNSENT_BYTES)
        self.listener.open.add(self)
        if len(self.listener.open) > MAX_CONNECTIONS:
            self._refuse("503 Service Unavailable")

    def connection_lost(self, _: Exception | None) -> None:
        self.timer.cancel()
        self.listener.open.discard(self)

    def data_received(self, data: bytes) -> None:
        self.timer.cancel()
        self.timer = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, self._close_idle)
        self.buffer += data
        self._work()

    def pause_writing(self) -> None:
        self.paused = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
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
        if len(self.buffer) > MAX_HEAD_BYTES and not self.paused:
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
        except Exception as error:  # a failing request must not close the server
            response = FragmentResponse(
                "500 Internal Server Error", {"Content-Type": "text/plain"}, type(error).__name__.encode()
            )
        head = response.head(self.listener.date())
        message = head if words[0] == "HEAD" else head + response.body
        self.listener.sent += len(message)
        self.transport.write(message)
        wish = headers.get("connection", "").lower()
        if wish == "close" or (words[2] == "HTTP/1.0" and wish != "keep-alive"):
            self.transport.close()
        return None

    def _refuse(self, status: str) -> None:
        date = self.listener.date()
        self.transport.write(FragmentResponse(status, {"Connection": "close", "Content-Type": "text/plain"}).head(date))
        self.transport.close()

    def _close_idle(self) -> None:
        self.transport.close()
