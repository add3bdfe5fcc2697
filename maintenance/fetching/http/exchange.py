"""The HTTP client: exchanges bounded in time and size, and streamed responses, over connections that are kept alive.

Redirects are not followed: credentials go to the configured address and to no other.
"""

import http.client
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from freshkeeper.maintenance.fetching.fetch_errors import FetchError, NotSentError
from freshkeeper.maintenance.fetching.http.compression import ACCEPTED, Unpacker
from freshkeeper.maintenance.fetching.http.connection import CHUNK, Connection, Place, Proxy
from freshkeeper.maintenance.fetching.requests import NO_DEADLINE, Deadline

MEGABYTE = 1_000_000
MAX_ERROR = 64_000
"""Bytes read of the body of an error; its first words are shown."""


@dataclass(frozen=True)
class Call:
    """An HTTP request: method, address, headers and body."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response; names of headers are in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(eq=False)
class ConnectionPool:
    """Connections to sources; threads may share it."""

    max_bytes: int = 32 * MEGABYTE
    clock: Callable[[], float] = time.monotonic
    proxies: Mapping[str, str] = field(default_factory=getproxies)
    """by scheme, from the environment as urllib reads it; NO_PROXY names the hosts that need none"""
    _idle: dict[Place, list[Connection]] = field(default_factory=dict)
    _open: set[Connection] = field(default_factory=set)
    _closed: bool = False
    _process: int = field(default_factory=os.getpid)
    _lock: Lock = field(default_factory=Lock)

    def exchange(self, call: Call, deadline: Deadline) -> HttpResponse:
        """Send a call and read the whole response, whatever its status.

        Raise FetchError if that fails, and NotSentError if nothing was sent.
        """
        place, connection = self._send(call, deadline)
        reusable = False
        try:
            with as_fetch_errors():
                response, reusable = self._response(connection)
                return response
        finally:
            if reusable:
                self._keep(place, connection)
            else:
                self._drop(connection)

    def stream(self, call: Call, deadline: Deadline = NO_DEADLINE) -> "HttpStream":
        """Send a call and return a response that is read piece by piece, on a connection of its own."""
        _, connection = self._send(call, deadline, uncompressed=True)
        try:
            with as_fetch_errors():
                response = connection.getresponse()
        except FetchError:
            self._drop(connection)
            raise
        return HttpStream(self, connection, response)

    def drop(self, connection: Connection) -> None:
        """End a connection, and with it whoever reads from it."""
        connection.stop()
        self._drop(connection)

    def _send(self, call: Call, deadline: Deadline, uncompressed: bool = False) -> tuple[Place, Connection]:
        """Send a call on a connection that is idle or new."""
        place, target, headers = addressed(call, self.proxies, uncompressed)
        connection = self._connected(place, deadline.until)
        reusable = True
        try:
            if not deadline.may_send():  # it may raise as well
                raise NotSentError("not sent: the budget or the time is spent")
            reusable = False
            with as_fetch_errors():
                connection.request(call.method, target, call.body, headers)
        except BaseException:
            if reusable:
                self._keep(place, connection)
            else:
                self._drop(connection)
            raise
        return place, connection

    def close(self) -> None:
        """Close all connections; exchanges under way fail at once."""
        with self._lock:
            self._closed = True
            open_now, self._idle = list(self._open), {}
        for connection in open_now:
            connection.stop()

    def _connected(self, place: Place, until: float) -> Connection:
        while (connection := self._waiting(place)) is not None:
            if connection.usable():
                connection.until = until
                return connection
            self._drop(connection)
        connection = Connection(place, until, self.clock)
        with self._lock:
            if self._closed:
                raise NotSentError("not sent: the source is closed")
            self._open.add(connection)
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            self._drop(connection)
            raise FetchError(f"connection: no way to {place.masked}: {_reason(error)}", again=True) from None
        return connection

    def _waiting(self, place: Place) -> "Connection | None":
        with self._lock:
            if self._process != os.getpid():  # a fork: connections are the parent's, and must not be shared
                self._process, self._open, self._idle = os.getpid(), set(), {}
            return self._idle[place].pop() if self._idle.get(place) else None

    def _keep(self, place: Place, connection: Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.setdefault(place, []).append(connection)
                return
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        with self._lock:
            self._open.discard(connection)
        connection.close()

    def _response(self, connection: Connection) -> tuple[HttpResponse, bool]:
        """Return the response, and whether the connection can be used again."""
        response = connection.getresponse()
        try:
            body, whole = self._body(response)
            headers = {name.lower(): value for name, value in response.getheaders()}
            reusable = whole and not response.will_close
            return HttpResponse(response.status, response.reason, headers, body), reusable
        finally:
            response.close()

    def _body(self, response: http.client.HTTPResponse) -> tuple[bytes, bool]:
        """Return the body up to the limit, and whether it is complete; of an error only the beginning is needed."""
        failed = response.status >= 300
        limit = min(self.max_bytes, MAX_ERROR) if failed else self.max_bytes
        unpacker = Unpacker(response.getheader("Content-Encoding", ""))
        found, size, packed = [], 0, 0
        while chunk := response.read1(CHUNK):
            found.append(unpacker.unpack(chunk, limit + 1 - size))
            size, packed = size + len(found[-1]), packed + len(chunk)
            if max(size, packed // 2) > limit:  # what unpacks to nothing has an end too
                if failed:
                    return b"".join(found)[:limit], False
                raise too_large(limit)
        if response.length:
            raise FetchError(f"malformed: the answer ends {response.length} bytes before its end", again=True)
        if not unpacker.is_complete:
            raise FetchError(f"malformed: the answer ends before its {unpacker.coding} does", again=True)
        return b"".join(found), True


@dataclass(eq=False)
class HttpStream:
    """A response that is read piece by piece, for as long as the server sends."""

    pool: ConnectionPool
    connection: Connection
    response: http.client.HTTPResponse

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def reason(self) -> str:
        return self.response.reason

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by names in lower case."""
        return {name.lower(): value for name, value in self.response.getheaders()}

    def read1(self, size: int, patience: float = math.inf) -> bytes:
        """Return what is there, at most so many bytes; empty at the end. Raise FetchError if it breaks.

        patience
            how many seconds to wait for the next bytes
        """
        self.connection.until = self.pool.clock() + patience
        with as_fetch_errors():
            try:
                return self.response.read1(size)
            except (ValueError, AttributeError) as error:  # another thread has closed it
                raise FetchError(f"connection: it was closed: {error}") from None

    def lines(self, patience: float = math.inf) -> Iterator[bytes]:
        """Return the lines, each as soon as it is there, without their ends."""
        rest = b""
        while chunk := self.read1(CHUNK, patience):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
        if rest:
            yield rest

    def close(self) -> None:
        """End the connection, also while another thread reads from it."""
        self.pool.drop(self.connection)
        self.response.close()


def too_large(limit: int) -> FetchError:
    """Return the error for a response beyond the limit."""
    return FetchError(
        f"too large: the answer is longer than {limit / MEGABYTE:g} MB, the source's max_size", refused=True
    )


def addressed(
    call: Call, proxies: Mapping[str, str], uncompressed: bool = False
) -> tuple[Place, str, Mapping[str, str]]:
    """Return where a call goes, and the target and the headers that are sent there."""
    parts = urlsplit(call.url)
    written = proxies.get(parts.scheme)
    via = Proxy.of(written) if written and not proxy_bypass(parts.netloc) else None
    place = Place(parts.scheme == "https", parts.hostname or "", parts.port, via)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = dict(call.headers) if uncompressed else {"Accept-Encoding": ACCEPTED, **call.headers}
    if via is not None and not place.tls:
        target, headers = f"http://{parts.netloc}{target}", headers | via.headers
    return place, target, headers


@contextmanager
def as_fetch_errors() -> Iterator[None]:
    """Raise what goes wrong on a connection as FetchError."""
    try:
        yield
    except TimeoutError:
        raise FetchError("timeout: no answer in time", again=True) from None
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(_error_after_send(error), again=True) from None


def _error_after_send(error: OSError | http.client.HTTPException) -> str:
    """Return the error for a failure after something was sent."""
    if isinstance(error, http.client.IncompleteRead):
        return "malformed: the answer ends before its end"
    if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
        return f"malformed: the answer is no HTTP: {_reason(error)}"
    return f"connection: it broke: {_reason(error)}"


def _reason(error: Exception) -> str:
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(words.split()) or type(error).__name__
