"""HTTP exchanges, bounded in time and size, over connections that are kept alive.

urllib bounds single reads, not an exchange: a source that sends a byte now and then would be waited for without end.
Here the time that is left is set before each read and write. Redirects are not followed: a password goes to the
address that was configured and to no other.
"""

import http.client
import io
import math
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from maintenance.service.fault import FetchError, NotSentError

MEGABYTE = 1_000_000
MAX_ERROR = 64_000
"""Bytes read of the body of an error; its first words are shown."""
CHUNK = 256_000


@dataclass(frozen=True)
class Call:
    """What is sent."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class Answer:
    """What came back; names of headers in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Trip:
    """How long one exchange may take, and who says that it may be sent."""

    until: float = math.inf
    """by time.monotonic()"""
    go: Callable[[], bool] = lambda: True
    """asked once per request, when there is a connection and nothing was sent yet; each yes is one request paid"""


class Place(NamedTuple):
    """Where connections go to."""

    tls: bool
    host: str
    port: int | None


@dataclass(eq=False)
class Wire:
    """Connections to sources; threads may share it."""

    max_bytes: int = 32 * MEGABYTE
    clock: Callable[[], float] = time.monotonic
    _idle: dict[Place, list["_Connection"]] = field(default_factory=dict)
    _open: set["_Connection"] = field(default_factory=set)
    _closed: bool = False
    _lock: Lock = field(default_factory=Lock)

    def exchange(self, call: Call, trip: Trip) -> Answer:
        """Send a call and read the answer, whatever its status; FetchError or NotSentError where that fails."""
        parts = urlsplit(call.url)
        place = Place(parts.scheme == "https", parts.hostname or "", parts.port)
        connection = self._connected(place, trip.until)
        if not trip.go():
            self._keep(place, connection)
            raise NotSentError("not sent")
        reusable = False
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request(call.method, target, call.body, dict(call.headers))
            answer, reusable = self._answer(connection)
            return answer
        except TimeoutError:
            raise FetchError("no answer in time", again=True) from None
        except (OSError, http.client.HTTPException) as error:
            raise FetchError(f"the connection broke: {_said(error)}", again=True) from None
        finally:
            if reusable:
                self._keep(place, connection)
            else:
                self._drop(connection)

    def close(self) -> None:
        """Close all connections; exchanges under way fail at once."""
        with self._lock:
            self._closed = True
            open_now, self._idle = list(self._open), {}
        for connection in open_now:
            connection.stop()

    def _connected(self, place: Place, until: float) -> "_Connection":
        while (connection := self._waiting(place)) is not None:
            if connection.usable():
                connection.until = until
                return connection
            self._drop(connection)
        connection = _Connection(place, until, self.clock)
        with self._lock:
            if self._closed:
                raise NotSentError("not sent: the source is closed")
            self._open.add(connection)
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            self._drop(connection)
            raise FetchError(f"no connection to {place.host}: {_said(error)}", again=True) from None
        return connection

    def _waiting(self, place: Place) -> "_Connection | None":
        with self._lock:
            return self._idle[place].pop() if self._idle.get(place) else None

    def _keep(self, place: Place, connection: "_Connection") -> None:
        with self._lock:
            if not self._closed:
                self._idle.setdefault(place, []).append(connection)
                return
        self._drop(connection)

    def _drop(self, connection: "_Connection") -> None:
        with self._lock:
            self._open.discard(connection)
        connection.close()

    def _answer(self, connection: "_Connection") -> tuple[Answer, bool]:
        """The answer, and whether the connection can be used again."""
        response = connection.getresponse()
        try:
            body, whole = self._body(response)
            headers = {name.lower(): value for name, value in response.getheaders()}
            reusable = whole and not response.will_close
            return Answer(response.status, response.reason, headers, body), reusable
        finally:
            response.close()

    def _body(self, response: http.client.HTTPResponse) -> tuple[bytes, bool]:
        """All of it up to the limit; of an error only the beginning is needed."""
        failed = response.status >= 300
        limit = min(self.max_bytes, MAX_ERROR) if failed else self.max_bytes
        found, size = [], 0
        while chunk := response.read1(CHUNK):
            found.append(chunk)
            size += len(chunk)
            if size > limit:
                if failed:
                    return b"".join(found)[:limit], False
                raise FetchError(f"the answer is longer than {limit / MEGABYTE:g} MB, the source's max_size")
        if response.length:
            raise FetchError(f"the answer ended early, {response.length} bytes before its end", again=True)
        return b"".join(found), True


class _Connection(http.client.HTTPConnection):
    """A connection that knows until when everything on it must be done."""

    def __init__(self, place: Place, until: float, clock: Callable[[], float]) -> None:
        super().__init__(place.host, place.port or (443 if place.tls else 80))
        self.until, self._tls, self._clock = until, place.tls, clock

    def connect(self) -> None:
        """Open it, with TLS where the address says so."""
        opened = socket.create_connection((self.host, self.port), self.left())
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls:
            try:
                opened = ssl.create_default_context().wrap_socket(opened, server_hostname=self.host)
            except BaseException:
                opened.close()
                raise
        self.sock = cast(Any, _Timed(opened, self))

    def left(self) -> float | None:
        """The seconds that are left."""
        left = self.until - self._clock()
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

    def __init__(self, inner: socket.socket, owner: _Connection) -> None:
        self.inner, self.owner = inner, owner

    def limit(self) -> None:
        """From here on the time that is left."""
        self.inner.settimeout(self.owner.left())

    def sendall(self, data: Any) -> None:
        """Send all of it in the time that is left."""
        self.limit()
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


def _said(error: BaseException) -> str:
    """What went wrong, in a few words."""
    if isinstance(error, http.client.IncompleteRead):
        return "the answer ended early"
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(words.split()) or type(error).__name__
