"""A connection with a deadline: the time that is left is set before each read and write on it.

urllib bounds single reads, not an exchange: a source that sends a byte now and then would be waited for without end.
"""

import http.client
import io
import math
import select
import socket
import ssl
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

CHUNK = 256_000
"""Bytes of a read."""
GRACE = 1.0
"""Seconds that sending may take at least."""


class Place(NamedTuple):
    """Where connections go to."""

    tls: bool
    host: str
    port: int | None


class Connection(http.client.HTTPConnection):
    """A connection that knows until when everything on it must be done."""

    def __init__(self, place: Place, until: float, clock: Callable[[], float]) -> None:
        """Not opened yet."""
        super().__init__(place.host, place.port or (443 if place.tls else 80))
        self.until, self.clock, self._tls = until, clock, place.tls

    def connect(self) -> None:
        """Open it, with TLS where the address says so."""
        failed = OSError("its name has no address")
        for family, kind, number, _, address in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            try:
                self._dial(socket.socket(family, kind, number), address)
                return
            except OSError as error:
                self.close()
                failed = error
        raise failed

    def _dial(self, opened: socket.socket, address: Any) -> None:
        """At every moment `sock` is what `stop` has to end."""
        self.sock = cast(Any, _Timed(opened, self))
        self.sock.limit()
        opened.connect(address)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls:
            secured = _trusted().wrap_socket(opened, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock = cast(Any, _Timed(secured, self))
            self.sock.limit()
            secured.do_handshake()

    def left(self) -> float | None:
        """The seconds that are left."""
        left = self.until - self.clock()
        if left <= 0:
            raise TimeoutError("no time left")
        return left if left < math.inf else None

    def usable(self) -> bool:
        """Whether the other side still listens: one that has something to say before it is asked has hung up."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN | select.POLLHUP | select.POLLERR)
        return not poll.poll(0)

    def stop(self) -> None:
        """Close it, and wake the thread that reads from it."""
        if isinstance(self.sock, _Timed):
            self.sock.shutdown()
        self.close()


class _Timed:
    """The parts of a socket that http.client uses, each with the time that is left."""

    def __init__(self, inner: socket.socket, owner: Connection) -> None:
        self.inner, self.owner = inner, owner

    def limit(self) -> None:
        """From here on the time that is left."""
        self.inner.settimeout(self.owner.left())

    def sendall(self, data: Any) -> None:
        """Send all of it: it is paid, so it goes out even where time was up just now."""
        left = self.owner.until - self.owner.clock()
        self.inner.settimeout(max(left, GRACE) if left < math.inf else None)
        self.inner.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """What the response is read from."""
        return io.BufferedReader(_TimedFile(self.inner.makefile(cast(Any, mode), buffering=0), self), CHUNK)

    def fileno(self) -> int:
        """For poll."""
        return self.inner.fileno()

    def shutdown(self) -> None:
        """End reads and writes under way."""
        try:
            self.inner.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        """Close it when the last file on it is closed."""
        self.inner.close()


class _TimedFile(io.RawIOBase):
    def __init__(self, inner: Any, sock: _Timed) -> None:
        self._inner, self._sock = inner, sock

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """One read, in the time that is left."""
        self._sock.limit()
        count: int | None = self._inner.readinto(buffer)
        return count

    def close(self) -> None:
        """Let go of the socket."""
        self._inner.close()
        super().close()


@cache
def _trusted() -> ssl.SSLContext:
    """The machine's certificates; reading them takes longer than a request."""
    return ssl.create_default_context()
