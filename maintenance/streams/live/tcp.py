"""tcp://host:port: a server that sends lines of timestamped N-Quads."""

import socket
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.streams.live.feed import FeedAddress, LineSplitter, LostError, Position, Received
from freshkeeper.maintenance.streams.timed_lines import CHUNK

CONNECT_TIMEOUT_S = 10.0
KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds of silence before the first probe, seconds between probes, and the number of probes without an answer."""


@dataclass(eq=False)
class TcpAddress(FeedAddress):
    """A host and port that send lines."""

    def check(self) -> None:
        """Raise ConfigError if the address has no host or no port."""
        self._where()

    def connect(self, position: Position) -> "TcpConnection":
        """Connect; lines sent earlier cannot be had."""
        del position  # the server keeps nothing
        try:
            connection = socket.create_connection(self._where(), CONNECT_TIMEOUT_S)
        except OSError as error:
            raise LostError(error.strerror or str(error)) from None
        connection.settimeout(None)  # a stream may be silent for any time; keep-alive notices a dead peer
        keep_alive(connection)
        return TcpConnection(connection)

    def _where(self) -> tuple[str, int]:
        with suppress(ValueError):
            where = urlsplit(self.url)
            if where.hostname is not None and where.port is not None:
                return where.hostname, where.port
        raise ConfigError(f"the stream {self.name} has no host or no port: write tcp://host:port")


@dataclass(eq=False)
class TcpConnection:
    """A socket, read line by line."""

    connection: socket.socket
    gap: str = ""
    _lines: LineSplitter = field(default_factory=LineSplitter)
    _ended: bool = False

    def receive(self) -> Received | None:
        if self._ended:
            return None
        try:
            chunk = self.connection.recv(CHUNK)
        except OSError as error:
            raise LostError(error.strerror or str(error)) from None
        self._ended = not chunk
        if self._ended:
            return Received(self._lines.rest(), {})
        return Received(self._lines.take(chunk), {})

    def commit(self, position: Position) -> None:
        """Do nothing: a socket has no positions."""

    def close(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def keep_alive(connection: socket.socket) -> None:
    """Have the system probe the other side, so that a broken link is noticed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
