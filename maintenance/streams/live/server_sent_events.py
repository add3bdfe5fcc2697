"""http://...: server-sent events whose data are lines of timestamped N-Quads; their ids say where to resume."""

import re
from codecs import BOM_UTF8
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote, urljoin, urlsplit

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.credentials import basic
from freshkeeper.maintenance.base.errors import ConfigError, EndpointError, InputError
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool, HttpStream
from freshkeeper.maintenance.streams.live.feed import FeedAddress, LostError, Position, Received
from freshkeeper.maintenance.streams.timed_lines import CHUNK, LONGEST_LINE

EVENTS = "text/event-stream"
_END = re.compile(rb"\r\n|\n|\r")
"""the end of a line; one that is cut between its two bytes makes an empty line, which is ignored"""
TOO_LONG = b"data:a line of events is longer than %d bytes" % LONGEST_LINE
"""Replaces a line that is too long: it is no element, so that its reader reports it."""
LAST = "last event"
REDIRECTS = (301, 302, 303, 307, 308)
MAX_REDIRECTS = 10


class ByteSource(Protocol):
    """A response that is read piece by piece."""

    def read1(self, size: int, /) -> bytes:
        """Return what is there, at most so many bytes; empty at the end."""
        ...

    def close(self) -> None: ...


@dataclass(eq=False)
class EventAddress(FeedAddress):
    """The address of an endless response of events."""

    _numbered: bool = False
    """whether events had ids, by which they can be requested again"""

    @property
    def keeps(self) -> bool:
        """True if the server numbers its events: it then sends those after the last one."""
        return self._numbered

    def check(self) -> None:
        """Raise ConfigError if the URL has no host."""
        with suppress(ValueError):
            if urlsplit(self.url).hostname:
                return
        raise ConfigError(f"the stream {self.name} has no host: write http://host/path")

    def connect(self, position: Position) -> "EventConnection":
        last = str(position.get(LAST, ""))
        self._numbered = bool(last)
        response = _open(self.url, last)
        kind = response.headers.get("content-type", "nothing that has a type")
        if kind.partition(";")[0].strip().lower() != EVENTS:
            response.close()
            raise InputError(f"the stream {self.name} sends {kind}, and events are {EVENTS}")
        return EventConnection(response, last)


@dataclass(eq=False)
class EventConnection:
    """An endless response."""

    source: ByteSource
    last: str = ""
    """the id of the last complete event"""
    gap: str = ""
    _id: str = ""
    _rest: bytes = b""
    _data: list[bytes] = field(default_factory=list)
    """data of an event that is not complete yet"""
    _begun: bool = False
    _ended: bool = False

    def __post_init__(self) -> None:
        self._id = self.last

    def receive(self) -> Received | None:
        """Return the data of complete events, and at the end of an incomplete one if it cannot be requested again."""
        if self._ended:
            return None
        try:
            chunk = self.source.read1(CHUNK)
        except (EndpointError, OSError) as error:
            raise LostError(mask_secrets(str(error))) from None
        *lines, self._rest = _END.split(self._rest + chunk)
        if len(self._rest) > LONGEST_LINE:
            if not self._rest.startswith(b":"):
                lines.append(TOO_LONG)
            self._rest = b":"  # the remainder of the line is skipped as a comment
        if not chunk:
            lines = list(filter(None, [self._rest]))
            self._rest = b""
            self._ended = True
        data = self._read(lines)
        if not self.last:
            return Received(data, {})
        return Received(data, {LAST: self.last})

    def _read(self, lines: list[bytes]) -> bytes:
        if lines and not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(BOM_UTF8)
        found: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line.removeprefix(b"data:").removeprefix(b" ") + b"\n")
            elif line.startswith(b"id:") and b"\0" not in line:
                self._id = line.removeprefix(b"id:").strip().decode("utf-8", "replace")
            elif not line:
                found += self._data
                self._data = []
                self.last = self._id
        if not self._id:  # without ids nothing can be requested again: incomplete events are handed on at once
            found += self._data
            self._data = []
        return b"".join(found)

    def commit(self, position: Position) -> None:
        """Do nothing: the server keeps no account of readers."""

    def close(self) -> None:
        self.source.close()


def _open(url: str, last: str) -> HttpStream:
    """Request events, and follow redirects; the credentials of the address go to no other."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    address = parts._replace(netloc=place).geturl()
    headers = {"Accept": EVENTS, "User-Agent": "freshkeeper"}
    if last:
        headers["Last-Event-ID"] = last
    if at:
        name, _, password = user.partition(":")
        headers["Authorization"] = basic(unquote(name), unquote(password))
    pool = ConnectionPool()
    for _ in range(MAX_REDIRECTS):
        try:
            response = pool.stream(Call("GET", address, headers))
        except (EndpointError, ValueError) as error:
            raise LostError(mask_secrets(str(error))) from None
        if 200 <= response.status < 300:
            return response
        status, reason, location = response.status, response.reason, response.headers.get("location")
        response.close()
        if status not in REDIRECTS or location is None:
            raise LostError(f"HTTP {status} {reason}")
        address = urljoin(address, location)
        headers.pop("Authorization", None)
    raise LostError(f"it was redirected {MAX_REDIRECTS} times")
