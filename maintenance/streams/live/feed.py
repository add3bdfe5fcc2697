"""A stream over a network, over as many connections as it takes: what came, and the place where one goes on after it.

What a connection does not keep for those who are away is gone when it breaks: such a gap is told and counted.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Protocol, TypeAlias

from freshkeeper.maintenance.base.errors import InputError, InputLostError

Position: TypeAlias = Mapping[str, int | str]
"""Where one goes on: by part of a stream (as a partition) what comes next, or the last that came."""


class LostError(InputError):
    """A connection cannot be had, or has broken; it may come back."""


class OnLoss(StrEnum):
    """What to do when a connection ends."""

    FAIL = "fail"
    RECONNECT = "reconnect"
    END = "end"


@dataclass(frozen=True, eq=False)
class Received:
    """What has come: whole lines of timestamped N-Quads, none if nothing came for a while."""

    text: bytes
    position: Position
    """where one goes on after them"""


class Connection(Protocol):
    """A connection that is open, from its place on."""

    @property
    def gap(self) -> str:
        """What is missing between the place that was asked for and what comes; empty: nothing that is known of."""

    def receive(self) -> Received | None:
        """What has come since, after a short while at most where that can be; nothing at all at the end."""

    def commit(self, position: Position) -> None:
        """Nothing before this place is needed again: whoever keeps an account of it may be told."""

    def close(self) -> None:
        """Let go of it."""


class Address(Protocol):
    """What a stream's address names."""

    @property
    def name(self) -> str:
        """As it may be shown."""

    @property
    def keeps(self) -> bool:
        """Whether what is sent while nobody is connected can be had later."""

    def check(self) -> None:
        """Whether it can be an address; a ConfigError says what would be right."""

    def connect(self, position: Position) -> Connection:
        """Go on at a place; empty: as the address says. LostError where it cannot be reached."""


@dataclass(eq=False)
class Backoff:
    """Waits that grow, drawn between nothing and the longest that is allowed by then, so that not all come at once."""

    first: float = 0.5
    longest: float = 30.0
    random: Random = field(default_factory=Random)
    failures: int = 0

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        self.failures += 1
        return self.random.uniform(0, min(self.longest, self.first * 2 ** min(self.failures, 30)))

    def reset(self) -> None:
        """Something came: the next pause is a short one again."""
        self.failures = 0


@dataclass(eq=False)
class LinkStatus:
    """How a stream's connection is, for who watches."""

    connected: bool = False
    reconnects: int = 0
    gaps: int = 0
    """how often something may have been missed"""
    away: float = 0.0
    """seconds that it was away, over all gaps"""
    failure: str = ""
    """why it is not connected"""


@dataclass(eq=False)
class Feed:
    """What comes from an address."""

    address: Address
    on_loss: OnLoss = OnLoss.FAIL
    tell: Callable[[str], None] = field(default=lambda _: None)
    position: Position = field(default_factory=dict)
    """where one goes on after what was given last"""
    backoff: Backoff = field(default_factory=Backoff)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    status: LinkStatus = field(default_factory=LinkStatus)
    missed: Callable[[str], None] = field(default=lambda _: None)
    """is told of a gap, and why it is one"""
    stopped: bool = False
    _connection: Connection | None = None
    _left: float | None = None
    """when it was lost"""
    _known: bool = False
    """whether it has ever been connected"""

    @property
    def name(self) -> str:
        """What it is called."""
        return f"the stream {self.address.name}"

    def received(self) -> Iterator[Received]:
        """What comes, over connection after connection."""
        while not self.stopped:
            try:
                connection = self.address.connect(self.position)
            except InputError as error:
                if not (self._known or isinstance(error, LostError)):
                    raise
                if self.on_loss is not OnLoss.RECONNECT:
                    raise InputLostError(f"{self.name} cannot be reached: {error}") from None
                self._lost(f"cannot be reached: {error}")
            else:
                self._connected(connection)
                with closing(connection):
                    why = yield from self._from(connection)
                    self._connection = None
                if self.stopped or self.on_loss is OnLoss.END:
                    return
                if self.on_loss is OnLoss.FAIL:
                    raise InputLostError(f"{self.name} {why}")
                self._lost(why)
            self._wait(self.backoff.next())

    def commit(self, position: Position) -> None:
        """Nothing before this place is needed again."""
        if (connection := self._connection) is not None:
            connection.commit(position)

    def stop(self) -> None:
        """Give no more; what waits for something to come gets an end."""
        self.stopped = True
        if (connection := self._connection) is not None:
            connection.close()

    def _from(self, connection: Connection) -> Generator[Received, None, str]:
        """What one connection gives; returns why it ended."""
        while not self.stopped:
            try:
                received = connection.receive()
            except LostError as error:
                return f"broke off: {error}"
            if received is None:
                return "has ended"
            if received.text or received.position != self.position:
                self.backoff.reset()
                self.position = received.position
                yield received
        return "was let go"

    def _connected(self, connection: Connection) -> None:
        status, self._connection = self.status, connection
        status.connected, status.failure = True, ""
        gap = connection.gap
        if self._left is not None:
            away, self._left = self.clock() - self._left, None
            status.reconnects += 1
            if not (self.address.keeps or gap):
                gap = "what was sent meanwhile is missing"
                status.away += away
            self.tell(f"{self.name} is back after {away:.1f} s: {gap or 'it goes on where it was'}")
        elif gap:
            self.tell(f"{self.name}: {gap}")
        if gap:
            status.gaps += 1
            self.missed(gap)
        self._known = True

    def _lost(self, why: str) -> None:
        if self.status.failure != why:
            self.tell(f"{self.name} {why}; trying again")
        self.status.connected, self.status.failure = False, why
        if self._left is None and self._known:
            self._left = self.clock()

    def _wait(self, seconds: float) -> None:
        """In short steps, so that it can be stopped."""
        until = self.clock() + seconds
        while not self.stopped and (left := until - self.clock()) > 0:
            self.sleep(min(left, 0.2))
