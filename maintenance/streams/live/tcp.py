"""tcp://host:port, which sends lines of timestamped N-Quads."""

import socket
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.streams.live.feed import LostError, Position, Received
from freshkeeper.maintenance.streams.live.line_splitter import LineSplitter
from freshkeeper.maintenance.streams.timed_lines import CHUNK

PATIENCE = 10.0
"""Seconds until a connection is there."""
KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""After how many seconds of silence it is asked whether the other side is there, how often, and how long in vain."""


@dataclass(frozen=True)
class TcpAddress:
    """A host and port that send lines."""

    url: str
    keeps: bool = False

    @property
    def name(self) -> str:
        """As it may be shown."""
        return shown(self.url)

    def check(self) -> None:
        """Refuse an address without host or port before anything runs."""
        self._where()

    def connect(self, position: Position) -> "TcpConnection":
        """One connection; what was sent before it is gone."""
        del position
        try:
            connection = socket.create_connection(self._where(), PATIENCE)
        except OSError as error:
            raise LostError(error.strerror or str(error)) from None
        connection.settimeout(None)
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
    """One socket, read line by line."""

    connection: socket.socket
    gap: str = ""
    _lines: LineSplitter = field(default_factory=LineSplitter)
    _ended: bool = False

    def receive(self) -> Received | None:
        """All lines that are whole."""
        if self._ended:
            return None
        try:
            chunk = self.connection.recv(CHUNK)
        except OSError as error:
            raise LostError(error.strerror or str(error)) from None
        self._ended = not chunk
        return Received(self._lines.take(chunk) if chunk else self._lines.rest(), {})

    def commit(self, position: Position) -> None:
        """Nobody keeps an account."""

    def close(self) -> None:
        """Let go of it, whoever waits for it."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def keep_alive(connection: socket.socket) -> None:
    """Have the system ask whether the other side is still there, so that a cable that was pulled is noticed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
