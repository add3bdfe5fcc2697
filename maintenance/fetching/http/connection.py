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
from urllib.parse import unquote, urlsplit

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.credentials import basic
from freshkeeper.maintenance.fetching.fetch_errors import FetchError

CHUNK = 256_000
"""Bytes of a read."""
GRACE = 1.0
"""Seconds that sending may take at least."""


class Proxy(NamedTuple):
    """A proxy between us and the source: where it is, and what it is told of who asks."""

    tls: bool
    host: str
    port: int
    authorization: str = ""

    @classmethod
    def of(cls, written: str) -> "Proxy":
        """From an address as the environment has it: http://user:password@host:port, or host:port."""
        parts = urlsplit(written if "://" in written else f"http://{written}")
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            port = 0
        if parts.scheme not in ("http", "https") or not parts.hostname or not port:
            raise FetchError(
                f"connection: the proxy {mask_secrets(written)} in the environment is not http://host:port"
            )
        user = "" if parts.username is None else basic(unquote(parts.username), unquote(parts.password or ""))
        return cls(parts.scheme == "https", parts.hostname, port, user)

    @property
    def headers(self) -> dict[str, str]:
        """What it is told of who asks."""
        return {"Proxy-Authorization": self.authorization} if self.authorization else {}


class Place(NamedTuple):
    """Where connections go to."""

    tls: bool
    host: str
    port: int | None
    via: Proxy | None = None

    @property
    def masked(self) -> str:
        """The place as errors show it: its host, and the proxy that leads there."""
        return self.host if self.via is None else f"{self.host} by the proxy {self.via.host}:{self.via.port}"


class Connection(http.client.HTTPConnection):
    """A connection that knows until when everything on it must be done."""

    def __init__(self, place: Place, until: float, clock: Callable[[], float]) -> None:
        super().__init__(place.host, place.port or (443 if place.tls else 80))
        self.until, self.clock, self._tls, self._via = until, clock, place.tls, place.via
        self._timed: _Timed | None = None
        """the socket, also when http.client has let go of it because the response ends the connection"""

    def connect(self) -> None:
        """Open it, with TLS where the address says so."""
        failed = OSError("its name has no address")
        host, port = (self.host, self.port) if self._via is None else (self._via.host, self._via.port)
        for family, kind, number, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                self._dial(socket.socket(family, kind, number), address)
                return
            except OSError as error:
                self.close()
                failed = error
        raise failed

    def _dial(self, opened: socket.socket, address: Any) -> None:
        """At every moment `sock` is what `stop` has to end."""
        self._timed = _Timed(opened, self)
        self.sock = cast(Any, self._timed)
        self.sock.limit()
        opened.connect(address)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._via is not None and self._tls:
            self._tunnel_through(self._via)
        if self._tls or (self._via is not None and self._via.tls):
            name = self.host if self._tls or self._via is None else self._via.host
            secured = _trusted().wrap_socket(opened, server_hostname=name, do_handshake_on_connect=False)
            self._timed = _Timed(secured, self)
            self.sock = cast(Any, self._timed)
            self.sock.limit()
            secured.do_handshake()

    def _tunnel_through(self, proxy: Proxy) -> None:
        """Have a proxy make the connection on; like urllib, what is said to it is not encrypted."""
        where = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}", *(f"{k}: {v}" for k, v in proxy.headers.items())]
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode())
        response = http.client.HTTPResponse(self.sock, method="CONNECT")
        try:
            response.begin()
        except http.client.HTTPException:
            raise OSError("what it answers is no HTTP") from None
        finally:
            response.close()
        if response.status != 200:
            raise OSError(f"{response.status} {response.reason}")

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
        if self._timed is not None:
            self._timed.shutdown()
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
        """The number that poll waits for."""
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
        """What a response is read from can be read."""
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
