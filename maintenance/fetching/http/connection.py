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
    """A proxy in front of the source, with the credentials that it gets."""

    tls: bool
    host: str
    port: int
    authorization: str = ""

    @classmethod
    def of(cls, written: str) -> "Proxy":
        """Read an address as the environment has it: http://user:password@host:port, or host:port."""
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
        """Return the headers with the credentials of the proxy."""
        return {"Proxy-Authorization": self.authorization} if self.authorization else {}


class Place(NamedTuple):
    """The host and port that connections lead to."""

    tls: bool
    host: str
    port: int | None
    via: Proxy | None = None

    @property
    def masked(self) -> str:
        """Return the host, and the proxy that leads there, as errors show them."""
        return self.host if self.via is None else f"{self.host} by the proxy {self.via.host}:{self.via.port}"


class Connection(http.client.HTTPConnection):
    """A connection with a time by which everything on it must be done."""

    def __init__(self, place: Place, until: float, clock: Callable[[], float]) -> None:
        super().__init__(place.host, place.port or (443 if place.tls else 80))
        self.until, self.clock, self._tls, self._via = until, clock, place.tls, place.via
        self._timed: _Timed | None = None
        """the socket, also when http.client has let go of it because the response ends the connection"""

    def connect(self) -> None:
        """Open the connection, with TLS if the address has it."""
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
        """Connect a socket; at every moment `sock` is what `stop` has to end."""
        self._timed = _Timed(opened, self)
        self.sock = cast(Any, self._timed)
        self.sock.limit()
        opened.connect(address)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._via is not None and self._tls:
            self._tunnel_through(self._via)
        if self._tls or (self._via is not None and self._via.tls):
            name = self.host if self._tls or self._via is None else self._via.host
            secured = trusted_certificates().wrap_socket(opened, server_hostname=name, do_handshake_on_connect=False)
            self._timed = _Timed(secured, self)
            self.sock = cast(Any, self._timed)
            self.sock.limit()
            secured.do_handshake()

    def _tunnel_through(self, proxy: Proxy) -> None:
        """Have a proxy connect to the host; as with urllib, the request to the proxy is not encrypted."""
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

    def seconds_left(self) -> float | None:
        """Return the seconds that are left; None is no limit."""
        left = self.until - self.clock()
        if left <= 0:
            raise TimeoutError("no time left")
        return left if left < math.inf else None

    def usable(self) -> bool:
        """Return whether the server still listens: one that sends something unasked has hung up."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN | select.POLLHUP | select.POLLERR)
        return not poll.poll(0)

    def stop(self) -> None:
        """Close the connection, and wake the thread that reads from it."""
        if self._timed is not None:
            self._timed.shutdown()
        self.close()


class _Timed:
    """A socket for http.client that limits every call to the time that is left."""

    def __init__(self, inner: socket.socket, owner: Connection) -> None:
        self.inner, self.owner = inner, owner

    def limit(self) -> None:
        """Limit the next call to the time that is left."""
        self.inner.settimeout(self.owner.seconds_left())

    def sendall(self, data: Any) -> None:
        """Send all data: it is paid, so it goes out even if time was up just now."""
        left = self.owner.until - self.owner.clock()
        self.inner.settimeout(max(left, GRACE) if left < math.inf else None)
        self.inner.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return the file that the response is read from."""
        return io.BufferedReader(_TimedFile(self.inner.makefile(cast(Any, mode), buffering=0), self), CHUNK)

    def fileno(self) -> int:
        """Return the file descriptor for poll."""
        return self.inner.fileno()

    def shutdown(self) -> None:
        """End reads and writes that are under way."""
        try:
            self.inner.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        """Close the socket when the last file on it is closed."""
        self.inner.close()


class _TimedFile(io.RawIOBase):
    def __init__(self, inner: Any, sock: _Timed) -> None:
        self._inner, self._sock = inner, sock

    def readable(self) -> bool:
        """Return True: responses are read from here."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read once, within the time that is left."""
        self._sock.limit()
        count: int | None = self._inner.readinto(buffer)
        return count

    def close(self) -> None:
        """Close the file, not the socket."""
        self._inner.close()
        super().close()


@cache
def trusted_certificates() -> ssl.SSLContext:
    """Return a context with the machine's certificates, cached because loading takes longer than a request."""
    return ssl.create_default_context()
