"""http://...: server-sent events whose data are lines of timestamped N-Quads; their ids say where to resume."""

import os
import re
import socket
from codecs import BOM_UTF8
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from io import BufferedIOBase
from typing import cast
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.credentials import basic
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.streams.live.feed import LostError, Position, Received
from freshkeeper.maintenance.streams.timed_lines import CHUNK, LONGEST_LINE

EVENTS = "text/event-stream"
_END = re.compile(rb"\r\n|\n|\r")
"""the end of a line; one that is cut between its two bytes makes an empty line, which is ignored"""
TOO_LONG = b"data:a line of events is longer than %d bytes" % LONGEST_LINE
"""Replaces a line that is too long: it is no element, so that its reader reports it."""
LAST = "last event"


@dataclass(eq=False)
class EventAddress:
    """The address of an endless response of events."""

    url: str
    _numbered: bool = False
    """whether events had ids, by which they can be requested again"""

    @property
    def name(self) -> str:
        return shown(self.url)

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
        """Request the events after the last one received, or from now on."""
        last = str(position.get(LAST, ""))
        self._numbered = bool(last)
        try:
            response = urlopen(_request(self.url, last))
        except (OSError, HTTPException, ValueError) as error:
            raise LostError(_why(error)) from None
        kind = response.headers.get("Content-Type", "nothing that has a type")
        if kind.partition(";")[0].strip().lower() != EVENTS:
            response.close()
            raise InputError(f"the stream {self.name} sends {kind}, and events are {EVENTS}")
        return EventConnection(cast(BufferedIOBase, response), last)


@dataclass(eq=False)
class EventConnection:
    """An endless response."""

    source: BufferedIOBase
    last: str = ""
    """the id of the last complete event"""
    gap: str = ""
    _id: str = ""
    _rest: bytes = b""
    _data: list[bytes] = field(default_factory=list)
    """data of an event that is not complete yet"""
    _begun: bool = False
    _ended: bool = False
    _socket: socket.socket | None = None
    """the socket beneath all readers"""

    def __post_init__(self) -> None:
        self._id = self.last
        with suppress(OSError, ValueError):
            self._socket = socket.socket(fileno=os.dup(self.source.fileno()))

    def receive(self) -> Received | None:
        """Return the data of complete events, and at the end of an incomplete one if it cannot be requested again."""
        if self._ended:
            return None
        try:
            chunk = self.source.read1(CHUNK)
        except (OSError, HTTPException, ValueError, AttributeError) as error:  # the last where it was closed meanwhile
            raise LostError(_why(error)) from None
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
        """Close the response; its socket is shut down first, because closing would wait for a reader."""
        if self._socket is not None:
            with suppress(OSError), self._socket as connection:
                connection.shutdown(socket.SHUT_RDWR)
        self.source.close()


def _request(url: str, last: str) -> Request:
    """Return the request, with credentials of the address in a header that redirects do not pass on."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    headers = {"Accept": EVENTS, "User-Agent": "freshkeeper"}
    if last:
        headers["Last-Event-ID"] = last
    request = Request(parts._replace(netloc=place).geturl(), headers=headers)
    if at:
        name, _, password = user.partition(":")
        request.add_unredirected_header("Authorization", basic(unquote(name), unquote(password)))
    return request


def _why(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"HTTP {error.code} {error.reason}"
    return shown(str(getattr(error, "reason", error)))
