"""The seam below an endpoint: how requests reach a source and answers come back, within the source's limits.

A transport belongs to a source, and all endpoints of that source share it, with its limits and its breaker. It never
raises for a request that fails: the reply says so, and says how often the request was sent, because every time is paid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from maintenance.view.changes import UNKNOWN
from policies.errors import EndpointError

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
Bound: TypeAlias = Mapping[str, Term]
"""One solution: what is unbound is not there."""
Terms: TypeAlias = tuple[Term | None, ...]


@dataclass(frozen=True, eq=False)
class Request:
    """One request: a SELECT query, the keys that it asks for, and whose it is."""

    query: str
    variables: tuple[str, ...] = ()
    keys: tuple[Terms, ...] = ()
    """values of `variables`, which the query has as VALUES"""
    expands: bool = False
    """the keys are SNs"""
    owner: object = None
    """late replies go to the one who asked"""


@dataclass(frozen=True)
class Reply:
    """The rows of a request, or why there are none; how often it was sent; what the source told of its validity."""

    rows: Sequence[Bound] = ()
    error: str | None = None
    sent: int = 1
    pending: bool = False
    """it is still on its way; the error says so"""
    modified: int = UNKNOWN
    expires: int = UNKNOWN


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
        ...

    def send(self, requests: Sequence[Request], now: int, allowance: float) -> Sent:
        """Send them, at most so many in all, retries included; come back by the evaluation's deadline."""
        ...


class Ask(Protocol):
    """Ask a source that answers at once; EndpointError says that it did not."""

    def __call__(self, query: str, now: int) -> list[Bound]:
        """The solutions of a SELECT query at an instant."""
        ...


@dataclass(frozen=True, eq=False)
class AtOnce:
    """The way to a source inside the process: one request after the other, no limits."""

    ask: Ask

    def room(self, now: int) -> float:
        """Any number."""
        del now
        return float("inf")

    def send(self, requests: Sequence[Request], now: int, allowance: float) -> Sent:
        """Ask for each; beyond the allowance nothing is sent."""
        return Sent([self._reply(one, now) if n < allowance else NOT_SENT for n, one in enumerate(requests)])

    def _reply(self, request: Request, now: int) -> Reply:
        try:
            return Reply(self.ask(request.query, now))
        except EndpointError as error:
            return Reply(error=str(error))


NOT_SENT = Reply(error="not sent: the budget is spent", sent=0)
