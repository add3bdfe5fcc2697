"""The seam below an endpoint: how requests reach a source and answers come back, within the source's limits.

A transport belongs to a source, and all endpoints of that source share it, with its limits and its breaker. It never
raises for a request that fails: the reply says so, and says how often the request was sent, because every time is paid.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from freshkeeper.maintenance.base.errors import EndpointError
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.asking import Waiting
from freshkeeper.maintenance.fetching.fetch_errors import kind_of

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
Bound: TypeAlias = Mapping[str, Term]
"""One solution: what is unbound is not there."""
Terms: TypeAlias = tuple[Term | None, ...]


@dataclass(frozen=True, eq=False)
class Request:
    """One request: a SELECT query, and the keys that it asks for."""

    query: str
    variables: tuple[str, ...] = ()
    keys: tuple[Terms, ...] = ()
    """values of `variables`, which the query has as VALUES"""
    expands: bool = False
    """the keys are SNs"""


@dataclass(frozen=True)
class Reply:
    """The rows of a request, or why there are none; how often it was sent; what the source told of its validity."""

    rows: Sequence[Bound] = ()
    error: str | None = None
    sent: int = 1
    pending: bool = False
    """it is still on its way; the error says so"""
    refused: bool = False
    """it cannot be answered as it is, or what is answered cannot be read: one for fewer keys may go well"""
    modified: int = UNKNOWN
    expires: int = UNKNOWN
    known: frozenset[Term] | None = None
    """the resources that were read, where the source gives one at a time; None: all that there are"""


@dataclass(frozen=True)
class LateReply:
    """What an earlier evaluation had asked for; how often it was sent has been said already."""

    request: Request
    reply: Reply
    asked_at: int


@dataclass(frozen=True)
class Sent:
    """A reply for each request, in their order, and what came late for this owner."""

    replies: Sequence[Reply]
    late: Sequence[LateReply] = ()


class Transport(Protocol):
    """The way to one source."""

    def room(self, now: int) -> float:
        """How many requests the source takes now."""

    def send(
        self, requests: Sequence[Request], now: int, allowance: float, owner: object = None, within: float = math.inf
    ) -> Sent:
        """Send them, at most so many in all, retries included; come back within so many seconds.

        What is not there by then is `pending`, and comes with a later send of the same owner.
        """

    def close(self) -> None:
        """No more requests: threads and connections end."""


@runtime_checkable
class Overlapping(Protocol):
    """A transport whose requests are under way while others are sent."""

    def begin(
        self, requests: Sequence[Request], now: int, allowance: float, owner: object = None, within: float = math.inf
    ) -> Callable[[], Sent]:
        """As `send`, which comes back at once; what it gives waits, and says what came.

        Where it has `ready()`, that says whether it would wait no more.
        """
        ...

    def book(self, requests: int) -> None:
        """So many more are about to be sent, or so many fewer: there is less room for others meanwhile."""
        ...


def sending(
    transport: Transport, requests: Sequence[Request], now: int, allowance: float, owner: object, within: float
) -> Waiting[Sent]:
    """Send, and pause while the requests are on their way, if the transport can do that."""
    if not isinstance(transport, Overlapping):
        return transport.send(requests, now, allowance, owner, within)
    wait = transport.begin(requests, now, allowance, owner, within)
    yield getattr(wait, "ready", None)
    return wait()


@runtime_checkable
class Stateful(Protocol):
    """What must survive a restart: a transport that has this is saved with the view and restored before its first use.

    Times in it are those of the wall clock, in seconds since 1970, so that a limit per day counts on over a restart.
    """

    def state(self, ahead: int = 0) -> dict[str, Any]:
        """All of it, as JSON has it: strings, numbers, lists, and dicts of them.

        With `ahead` requests more that count as sent now: those that may be sent before anybody can write it down.
        """

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of an earlier run; what it says of limits that are no longer there is dropped."""


@runtime_checkable
class Wondering(Protocol):
    """A transport, or what carries its requests, that counts what a source says and cannot be right."""

    def oddities(self) -> list[str]:
        """What that was, a sentence each."""
        ...


class Ask(Protocol):
    """Ask a source that answers at once; EndpointError says that it did not."""

    def __call__(self, query: str, now: int) -> list[Bound]:
        """The solutions of a SELECT query at an instant."""


@dataclass(frozen=True, eq=False)
class AtOnce:
    """The way to a source inside the process: one request after the other, no limits."""

    ask: Ask

    def room(self, now: int) -> float:
        """Without a limit there is room for any number of requests."""
        del now
        return math.inf

    def send(
        self, requests: Sequence[Request], now: int, allowance: float, owner: object = None, within: float = math.inf
    ) -> Sent:
        """Ask for each; beyond the allowance nothing is sent."""
        del owner, within
        return Sent([self._reply(one, now) if n < allowance else NOT_SENT for n, one in enumerate(requests)])

    def close(self) -> None:
        """There is no connection to close."""

    def _reply(self, request: Request, now: int) -> Reply:
        try:
            return Reply(self.ask(request.query, now))
        except EndpointError as error:
            return Reply(error=str(error), refused=kind_of(str(error)) == "refused")


NOT_SENT = Reply(error="not sent: the budget is spent", sent=0)
