"""A stream over a network, through as many connections as necessary, with the position at which to resume it.

Data that a server does not keep while nobody is connected is lost when a connection breaks: the gap is reported and
counted.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Protocol, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.errors import ConfigError, InputError, InputLostError, nearest
from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.streams.timed_lines import LONGEST_LINE, TimedLines

TOO_LONG = b"a line is longer than %d bytes\n" % LONGEST_LINE
"""Replaces a line that is too long: it is no element, so that its reader reports it."""


@dataclass(eq=False)
class LineSplitter:
    """A buffer for the incomplete line at the end."""

    _rest: bytes = b""
    _skipping: bool = False

    def take(self, chunk: bytes) -> bytes:
        if self._skipping:
            _, newline, chunk = chunk.partition(b"\n")
            self._skipping = not newline
        complete, newline, self._rest = (self._rest + chunk).rpartition(b"\n")
        if len(self._rest) > LONGEST_LINE:
            self._rest = b""
            self._skipping = True
            return complete + newline + TOO_LONG
        return complete + newline

    def rest(self) -> bytes:
        rest, self._rest = self._rest, b""
        if not rest:
            return b""
        return rest + b"\n"


def stamped(value: bytes, time: int | None) -> bytes:
    """Return the lines of a message; statements without a time get that of the message."""
    if not value.strip():
        return b""
    if time is not None and value[:1] in (b"<", b"_"):
        at = b"%d\t" % time
        return b"".join(at + line + b"\n" for line in value.splitlines() if line.strip())
    if value.endswith(b"\n"):
        return value
    return value + b"\n"


Position: TypeAlias = Mapping[str, int | str]
"""The position at which to resume, by part of a stream (such as a partition): the next message, or the last one."""


class LostError(InputError):
    """Raised if a connection fails or breaks; another attempt may succeed."""


class OnLoss(StrEnum):
    """The reaction to the end of a connection."""

    FAIL = "fail"
    RECONNECT = "reconnect"
    END = "end"


@dataclass(frozen=True, eq=False)
class Received:
    """Complete lines of timestamped N-Quads, none if nothing arrived for a while."""

    text: bytes
    position: Position
    """the position behind the lines"""


class FeedConnection(Protocol):
    """An open connection, which resumes at a position."""

    @property
    def gap(self) -> str:
        """The reason why data is missing between the requested position and the first data, or an empty string."""

    def receive(self) -> Received | None:
        """Return the data that has arrived, after a short wait if possible; None at the end."""

    def commit(self, position: Position) -> None:
        """Report that nothing before a position is needed again, if the server keeps account of it."""

    def close(self) -> None:
        """Close the connection, even if another thread waits for it."""


@dataclass(eq=False)
class FeedAddress(ABC):
    """The address of a stream."""

    url: str

    @property
    def name(self) -> str:
        """The address for messages, without credentials."""
        return mask_secrets(self.url)

    @property
    def keeps(self) -> bool:
        """True if data sent while nobody is connected can be fetched later."""
        return False

    @abstractmethod
    def check(self) -> None:
        """Raise ConfigError if the address is wrong, and MissingExtraError if a library is missing."""

    @abstractmethod
    def connect(self, position: Position) -> FeedConnection:
        """Connect and resume at a position, or begin where the address says if it is empty.

        Raise LostError on failure.
        """


@dataclass(eq=False)
class Backoff:
    """Pauses that grow with each failure.

    A pause is drawn between zero and the current maximum, so that clients do not all reconnect at the same time.
    """

    first: float = 0.5
    longest: float = 30.0
    random: Random = field(default_factory=Random)
    failures: int = 0

    def next(self) -> float:
        """Return the seconds to wait after another failure."""
        self.failures += 1
        exponent = min(self.failures, 30)  # 2 ** failures would overflow a float some day
        return self.random.uniform(0, min(self.longest, self.first * 2**exponent))

    def reset(self) -> None:
        self.failures = 0


@dataclass(eq=False)
class LinkStatus:
    """The state of a stream's connection, for metrics and pages."""

    connected: bool = False
    reconnects: int = 0
    gaps: int = 0
    """how often something may have been missed"""
    away: float = 0.0
    """the number of times that data may have been missed"""
    failure: str = ""
    """the reason why it is not connected"""


@dataclass(eq=False)
class Feed:
    """The data of an address."""

    address: FeedAddress
    on_loss: OnLoss = OnLoss.FAIL
    notify: Callable[[str], None] = field(default=lambda _: None)
    position: Position = field(default_factory=dict)
    """the position behind the last data"""
    backoff: Backoff = field(default_factory=Backoff)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    status: LinkStatus = field(default_factory=LinkStatus)
    missed: Callable[[str], None] = field(default=lambda _: None)
    """called with the reason of a gap"""
    stopped: bool = False
    _connection: FeedConnection | None = None
    _lost_at: float | None = None
    """when it was lost"""
    _was_connected: bool = False
    """whether there was ever a connection"""

    @property
    def name(self) -> str:
        return f"the stream {self.address.name}"

    def received(self) -> Iterator[Received]:
        """Yield data, connection after connection."""
        while not self.stopped:
            try:
                connection = self.address.connect(self.position)
            except InputError as error:
                # what is no loss is a mistake, which no further attempt mends, unless it worked before
                if not (self._was_connected or isinstance(error, LostError)):
                    raise
                if self.on_loss is not OnLoss.RECONNECT:
                    raise InputLostError(f"{self.name} cannot be reached: {error}") from None
                self._note_loss(f"cannot be reached: {error}")
            else:
                self._note_connection(connection)
                with closing(connection):
                    why = yield from self._receive_from(connection)
                    self._connection = None
                if self.stopped or self.on_loss is OnLoss.END:
                    return
                if self.on_loss is OnLoss.FAIL:
                    raise InputLostError(f"{self.name} {why}")
                self._note_loss(why)
            self._wait(self.backoff.next())

    def commit(self, position: Position) -> None:
        connection = self._connection
        if connection is not None:
            connection.commit(position)

    def stop(self) -> None:
        """Stop; a reader that waits for data gets the end."""
        self.stopped = True
        connection = self._connection
        if connection is not None:
            connection.close()

    def _receive_from(self, connection: FeedConnection) -> Generator[Received, None, str]:
        """Yield the data of one connection and return why it ended."""
        while not self.stopped:
            try:
                received = connection.receive()
            except LostError as error:
                return f"broke off: {error}"
            if received is None:
                return "has ended"
            # a connection that delivers something works: the next failure begins with a short pause
            if received.text or received.position != self.position:
                self.backoff.reset()
                self.position = received.position
                yield received
        return "was closed"

    def _note_connection(self, connection: FeedConnection) -> None:
        self._connection = connection
        status = self.status
        status.connected = True
        status.failure = ""
        gap = connection.gap
        if self._lost_at is not None:
            away = self.clock() - self._lost_at
            self._lost_at = None
            status.reconnects += 1
            if not (self.address.keeps or gap):
                gap = "data sent meanwhile is missing"
                status.away += away
            self.notify(f"{self.name} is back after {away:.1f} s: {gap or 'nothing was missed'}")
        elif gap:
            self.notify(f"{self.name}: {gap}")
        if gap:
            status.gaps += 1
            self.missed(gap)
        self._was_connected = True

    def _note_loss(self, why: str) -> None:
        if self.status.failure != why:
            self.notify(f"{self.name} {why}; trying again")
        self.status.connected = False
        self.status.failure = why
        if self._lost_at is None and self._was_connected:
            self._lost_at = self.clock()

    def _wait(self, seconds: float) -> None:
        """Wait in short steps, so that `stop` is noticed."""
        until = self.clock() + seconds
        left = seconds
        while left > 0 and not self.stopped:
            self.sleep(min(left, 0.2))
            left = until - self.clock()


MAX_POSITIONS = 10_001
"""Positions that are remembered, an odd number; of more, every other one is dropped, so that more is read again."""


@dataclass(eq=False)
class Trail:
    """Positions before chunks of elements, and the latest time by the end of each chunk."""

    _steps: deque[tuple[Position, int]] = field(default_factory=deque)
    end: Position = field(default_factory=dict)
    """the position after all chunks"""

    def add(self, before: Position, latest: int, after: Position) -> None:
        """Add a chunk: the positions before and behind it, and the latest time up to its end."""
        if self._steps and self._steps[-1][1] == latest:
            self.end = after  # no later than the chunks before: read again with them
            return
        self._steps.append((before, latest))
        self.end = after
        if len(self._steps) > MAX_POSITIONS:
            # two chunks become one: it begins where the first did, and is read again until the second is old
            pairs = zip(list(self._steps)[::2], list(self._steps)[1::2], strict=False)
            self._steps = deque((first[0], second[1]) for first, second in pairs)

    def back_to(self, time: int) -> Position:
        """Return the position from which everything later than an instant is sent again; older ones are forgotten."""
        while self._steps and self._steps[0][1] <= time:
            self._steps.popleft()
        if not self._steps:
            return self.end
        return self._steps[0][0]


@dataclass(eq=False, kw_only=True)
class FeedLines(TimedLines):
    """The elements of a feed."""

    feed: Feed
    trail: Trail = field(default_factory=Trail)

    def chunks(self) -> Iterator[tuple[bytes, int]]:
        """Yield complete lines as they arrive; when the next ones are requested, these have been read."""
        line = 1
        before = self.feed.position
        self.trail.end = before
        for received in self.feed.received():
            if received.text:
                yield received.text, line
                line += received.text.count(b"\n")
            latest = DISTANT_PAST
            if self.steps.latest is not None:
                latest = self.steps.latest
            self.trail.add(before, latest, received.position)
            before = received.position


def options_of(url: str, how: str, **known: str | None) -> dict[str, str]:
    """Return the options of an address by name.

    `known` has the permitted options with their defaults; None marks a required one, for which `how` is the remedy.
    """
    options = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    for name in options:
        if name not in known:
            raise ConfigError(f"the stream {mask_secrets(url)}: unknown {name}; {nearest(name, list(known))}")
    for name, default in known.items():
        if default is None and not options.get(name):
            raise ConfigError(f"the stream {mask_secrets(url)} has no {name}: {how}")
    return {name: options.get(name, default or "") for name, default in known.items()}
