"""ws://... and wss://...: messages that are lines of timestamped N-Quads; the extra `serve` has the client."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from freshkeeper.maintenance.base.errors import ConfigError, naming_extra
from freshkeeper.maintenance.streams.live.feed import FeedAddress, LostError, Position, Received
from freshkeeper.maintenance.streams.timed_lines import LONGEST_LINE

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

POLL_TIMEOUT_S = 0.2  # short, so that a stop is noticed
MAX_MESSAGE_BYTES = 16 * LONGEST_LINE
CONNECT_TIMEOUT_S = 10.0


@dataclass(eq=False)
class SocketAddress(FeedAddress):
    """The address of a WebSocket, whose messages are lines."""

    def check(self) -> None:
        """Raise ConfigError if the URL is malformed; import the library."""
        with naming_extra(f"the stream {self.name}"):
            from websockets.exceptions import InvalidURI
            from websockets.uri import parse_uri
        try:
            parse_uri(self.url)
        except (InvalidURI, ValueError):
            raise ConfigError(f"the stream {self.name} is no address: write ws://host:port/path") from None

    def connect(self, position: Position) -> "SocketConnection":
        """Connect; messages sent earlier cannot be had."""
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        del position  # the server keeps nothing
        resources = ExitStack()
        try:
            opening = connect(self.url, max_size=MAX_MESSAGE_BYTES, open_timeout=CONNECT_TIMEOUT_S)
            return SocketConnection(resources.enter_context(opening), resources)
        except (WebSocketException, OSError, TimeoutError) as error:
            raise LostError(str(error)) from None


@dataclass(eq=False)
class SocketConnection:
    """An open WebSocket; the library probes the other side every 20 seconds."""

    connection: "ClientConnection"
    resources: ExitStack
    gap: str = ""

    def receive(self) -> Received | None:
        from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK

        try:
            message = self.connection.recv(timeout=POLL_TIMEOUT_S)
        except TimeoutError:
            return Received(b"", {})
        except ConnectionClosedOK:
            return None
        except (ConnectionClosedError, OSError) as error:
            raise LostError(str(error)) from None
        if isinstance(message, str):
            message = message.encode()
        if message and not message.endswith(b"\n"):
            message += b"\n"
        return Received(message, {})

    def commit(self, position: Position) -> None:
        """Do nothing: a WebSocket has no positions."""

    def close(self) -> None:
        self.resources.close()
