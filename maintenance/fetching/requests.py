"""Requests to a source and their replies: the seam that every kind of source implements.

A source has one method, `fetch(request)`, from a request for a few keys to a reply with one outcome per key. When
requests are sent, how often and at what cost is the business of `KeyFetcher` and its executor.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.fetching.endpoint import Copy, EntryId, Expanded, Key, failure
from freshkeeper.maintenance.fetching.fetch_errors import FetchError, NotSentError

Outcome: TypeAlias = Copy | Expanded
"""What a source has for one key: a copy of a cached entry, or the entries of a lookup key."""
Outcomes: TypeAlias = Sequence[Outcome] | Callable[[], Sequence[Outcome]]


@dataclass(frozen=True)
class Deadline:
    """The time that one attempt has, and the permission to send it."""

    until: float = math.inf
    """by the executor's clock, in seconds"""
    may_send: Callable[[], bool] = lambda: True
    """called once per request on the wire, when nothing of it was sent yet; every True is one request paid"""


NO_DEADLINE = Deadline()


@dataclass(eq=False, slots=True)
class FetchRequest:
    """A request for some keys of one kind, for one instant."""

    kind: Kind
    keys: Sequence[Key]
    now: int
    """the evaluation's instant, in ms"""
    deadline: Deadline = NO_DEADLINE
    entries: Sequence[EntryId] = ()
    """the keys with their kind"""

    def __post_init__(self) -> None:
        if not self.entries:
            kind = self.kind
            self.entries = [(kind, key) for key in self.keys]

    def failed(self, error: str) -> list[Outcome]:
        """Return an outcome with this error for each key."""
        if self.kind is Kind.MISS:
            return [Expanded(error=error) for _ in self.keys]
        return [Copy(error=error) for _ in self.keys]


@dataclass(eq=False, slots=True)
class FetchReply:
    """The reply to one request: an outcome for each of its keys in their order, or why there is none."""

    outcomes: Outcomes = ()
    """or a function that reads them, in the thread that gave the order: it may change what the source remembers"""
    error: str | None = None
    """why the whole request failed"""
    refused: bool = False
    """the failure may be due to the keys: a request for fewer of them may succeed"""
    pending: bool = False
    """the reply is still on its way"""
    sent: int = 1
    """requests on the wire, retries and pages included"""
    spent: float | None = None
    """what the source says that it cost; None: what the price says"""


NOT_PAID = FetchReply(error="not sent: the budget is spent", sent=0)
NO_TIME = FetchReply(error="not sent: there was no time left", sent=0)


class KeySource(Protocol):
    """A source of values by key."""

    def fetch(self, request: FetchRequest) -> FetchReply:
        """Ask for the keys of one request.

        Raise FetchError where the request failed, and NotSentError where nothing was sent. An asynchronous source
        returns an awaitable of the reply, and needs an executor that awaits it.
        """
        ...


class SentRequest(Protocol):
    """A request that an executor has taken."""

    request: FetchRequest

    def done(self) -> bool: ...

    def stop(self) -> int:
        """Send nothing more for this request; return how often it was sent."""
        ...

    def reply(self) -> FetchReply:
        """Return the reply of a request that is done."""
        ...


class Executor(Protocol):
    """Sends the requests of one source: in the calling thread, in threads, on an event loop, or in simulated time.

    All fetchers of a source share its executor, with its limits.
    """

    @property
    def deadline(self) -> float:
        """Return the seconds that the requests of one `send` may take together."""
        ...

    def capacity(self) -> float: ...

    def reserve(self, requests: int) -> None:
        """Keep room for so many requests that will be sent soon; a negative number gives room back."""
        ...

    def send(
        self, fetch: Callable[[FetchRequest], Any], requests: Sequence[FetchRequest], tries: float, until: float
    ) -> Sequence[SentRequest]:
        """Begin to send the requests, at most `tries` times in all; come back at once."""
        ...

    def wait(self, sent: Sequence[SentRequest], until: float) -> None:
        """Wait until all replies are there or time is up, unless the caller is the one who waits."""
        ...


@dataclass(eq=False, slots=True)
class Replied:
    """A request whose reply is there already."""

    request: FetchRequest
    answer: FetchReply

    def done(self) -> bool:
        return True

    def stop(self) -> int:
        return self.answer.sent

    def reply(self) -> FetchReply:
        return self.answer


def reply_of_failure(error: Exception) -> FetchReply:
    """Return the reply that stands for an exception of a source."""
    if isinstance(error, NotSentError):
        return FetchReply(error=str(error), sent=0)
    if isinstance(error, FetchError):
        return FetchReply(error=str(error), refused=error.keys)
    return FetchReply(error=failure(error), refused=True)
