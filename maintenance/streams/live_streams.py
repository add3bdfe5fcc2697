"""Streams that go on: a TCP connection, server-sent events, a directory that grows."""

import re
import socket
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from freshkeeper.maintenance.service.http.credentials import basic
from freshkeeper.maintenance.settings.addresses import shown
from freshkeeper.maintenance.streams.batch import Stream, Timed
from freshkeeper.maintenance.streams.steps import Steps
from freshkeeper.maintenance.streams.timed_lines import LONGEST_LINE, Mistakes, TimedLines
from freshkeeper.policies.errors import ConfigError, InputError

POLL_S = 0.2
"""How often a directory is looked at."""
EVENTS = "text/event-stream"
_END = re.compile(rb"\r\n|\n|\r")
"""of a line; one that is cut between its two bytes makes an empty line, which means nothing"""


def connect(url: str) -> BinaryIO:
    """tcp://host:port, which sends timestamped N-Quads."""
    where = urlsplit(url)
    if where.hostname is None or where.port is None:
        raise ConfigError(f"the stream {shown(url)} has no host or no port: write tcp://host:port")
    try:
        with socket.create_connection((where.hostname, where.port)) as connection:
            return cast(BinaryIO, connection.makefile("rb"))
    except OSError as error:
        raise InputError(f"the stream {shown(url)} cannot be reached: {error.strerror or error}") from None


class Events(BufferedIOBase):
    """The data of server-sent events, as lines."""

    def __init__(self, url: str, source: BufferedIOBase) -> None:
        self._url, self._source = url, source
        self._rest, self._begun = b"", False

    def read1(self, size: int = -1, /) -> bytes:
        """All lines of data that have come whole; nothing at the end."""
        while chunk := self._source.read1(size):
            *whole, self._rest = _END.split(self._rest + chunk)
            if len(self._rest) > LONGEST_LINE:
                if not self._rest.startswith(b":"):
                    whole.append(b"data:a line of events is longer than %d bytes" % LONGEST_LINE)  # no element
                self._rest = b":"  # what follows is skipped as a comment
            if data := self._data(whole):
                return data
        whole, self._rest = [self._rest], b""
        return self._data(whole)

    def _data(self, lines: list[bytes]) -> bytes:
        if lines and not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(BOM_UTF8)
        found = [line.removeprefix(b"data:").removeprefix(b" ") for line in lines if line.startswith(b"data:")]
        return b"".join(line + b"\n" for line in found)

    def close(self) -> None:
        """Let go of the connection."""
        self._source.close()


def listen(url: str) -> BinaryIO:
    """http://user:password@..., which sends events whose data are lines of timestamped N-Quads."""
    try:
        response = urlopen(_request(url))
    except (OSError, HTTPException, ValueError) as error:
        said = f"the stream {url} cannot be reached: {getattr(error, 'reason', error)}"
        raise InputError(shown(said)) from None
    kind = response.headers.get("Content-Type", "nothing that has a type")
    if kind.partition(";")[0].strip().lower() != EVENTS:
        response.close()
        raise InputError(f"the stream {shown(url)} sends {kind}, and events are {EVENTS}")
    return cast(BinaryIO, Events(shown(url), response))


def _request(url: str) -> Request:
    """What an address says of who asks becomes a header, which a redirect leads nowhere else."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    request = Request(parts._replace(netloc=place).geturl(), headers={"Accept": EVENTS, "User-Agent": "freshkeeper"})
    if at:
        name, _, password = user.partition(":")
        request.add_unredirected_header("Authorization", basic(unquote(name), unquote(password)))
    return request


def online(url: str, mistakes: Mistakes, steps: Steps) -> TimedLines:
    """The stream behind an address."""
    open_it = connect if url.startswith("tcp://") else listen
    return TimedLines(shown(url), lambda: open_it(url), mistakes, steps)


@dataclass(eq=False)
class Directory:
    """The files of a directory by name; with `follow`, also those that come later (with names that sort later)."""

    path: Path
    open_file: Callable[[Path], Stream]
    follow: bool = False
    wait: Callable[[], bool] = field(default=lambda: _pause())
    """called when there is nothing new; False ends the stream"""

    def batches(self) -> Iterator[Timed]:
        """File by file; one that is still written should have another name until it is whole, or begin with a dot."""
        last = ""
        while True:
            new = sorted(f for f in self.path.iterdir() if f.name > last and f.is_file() and not f.name.startswith("."))
            for file in new:
                yield from self.open_file(file).batches()
                last = file.name
            if not new and not (self.follow and self.wait()):
                return


def _pause() -> bool:
    time.sleep(POLL_S)
    return True
