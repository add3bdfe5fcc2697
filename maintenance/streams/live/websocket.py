"""ws://... and wss://..., whose messages are lines of timestamped N-Quads; the extra `serve` has the client."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.streams.live.feed import LostError, Position, Received
from freshkeeper.maintenance.streams.timed_lines import LONGEST_LINE

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

LOOK = 0.2
"""Seconds to wait for a message before it is looked whether one should stop."""
LARGEST = 16 * LONGEST_LINE
PATIENCE = 10.0


@dataclass(frozen=True)
class SocketAddress:
    """The address of a WebSocket, whose messages are lines."""

    url: str
    keeps: bool = False

    @property
    def name(self) -> str:
        """As it may be shown."""
        return shown(self.url)

    def check(self) -> None:
        """Whether there is a host, and the library."""
        from websockets.exceptions import InvalidURI
        from websockets.uri import parse_uri

        try:
            parse_uri(self.url)
        except (InvalidURI, ValueError):
            raise ConfigError(f"the stream {self.name} is no address: write ws://host:port/path") from None

    def connect(self, position: Position) -> "SocketConnection":
        """One connection; what was sent before it is gone."""
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        del position
        held = ExitStack()
        try:
            opening = connect(self.url, max_size=LARGEST, open_timeout=PATIENCE)
            return SocketConnection(held.enter_context(opening), held)
        except (WebSocketException, OSError, TimeoutError) as error:
            raise LostError(str(error)) from None


@dataclass(eq=False)
class SocketConnection:
    """One connection; the library asks every 20 seconds whether the other side is there."""

    connection: "ClientConnection"
    held: ExitStack
    gap: str = ""

    def receive(self) -> Received | None:
        """The lines of one message."""
        from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK

        try:
            message = self.connection.recv(timeout=LOOK)
        except TimeoutError:
            return Received(b"", {})
        except ConnectionClosedOK:
            return None
        except (ConnectionClosedError, OSError) as error:
            raise LostError(str(error)) from None
        text = message.encode() if isinstance(message, str) else bytes(message)
        return Received(text if text.endswith(b"\n") or not text else text + b"\n", {})

    def commit(self, position: Position) -> None:
        """Nobody keeps an account."""

    def close(self) -> None:
        """Close with the handshake that WebSocket has for it."""
        self.held.close()
