"""The way to one source of RDF: the service that answers queries, and the executor with the source's limits.

All fetchers of a source share its transport: connections, threads, rate limits, breaker.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from freshkeeper.maintenance.base.errors import EndpointError
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.dispatcher import Dispatcher
from freshkeeper.maintenance.fetching.endpoint import Copy, Order
from freshkeeper.maintenance.fetching.executors import InlineExecutor
from freshkeeper.maintenance.fetching.fetch_errors import FetchError, kind_of
from freshkeeper.maintenance.fetching.fetch_jobs import Pending
from freshkeeper.maintenance.fetching.key_fetcher import KeyFetcher
from freshkeeper.maintenance.fetching.requests import Deadline, FetchReply, FetchRequest

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
Bound: TypeAlias = Mapping[str, Term]
"""One solution: what is unbound is not there."""
Terms: TypeAlias = tuple[Term | None, ...]


@dataclass(frozen=True, eq=False)
class GraphQuery:
    """A SELECT query, and the keys that it asks for."""

    text: str
    variables: tuple[str, ...] = ()
    keys: tuple[Terms, ...] = ()
    """values of `variables`, which the query has as VALUES"""
    expands: bool = False
    """the keys are lookup keys"""


@dataclass(frozen=True)
class Solutions:
    """The solutions of a query, and what the source says of their validity."""

    rows: Sequence[Bound] = ()
    modified: int = UNKNOWN
    expires: int = UNKNOWN
    resources_read: frozenset[Term] | None = None
    """of a source that gives one resource at a time; None: all that there are"""


class GraphService(Protocol):
    """Answers queries over RDF: a SPARQL endpoint, fragments or JSON documents over HTTP, or data in this process."""

    def select(self, query: GraphQuery, now: int, deadline: Deadline) -> Solutions:
        """Ask once. Raise FetchError where the request failed, and NotSentError where nothing was sent."""
        ...

    def close(self) -> None:
        """Close connections; requests under way fail."""
        ...


@runtime_checkable
class ReportsWarnings(Protocol):
    """A service that counts what its source says and cannot be right."""

    def warnings(self) -> list[str]: ...


class Ask(Protocol):
    """A source that answers at once; EndpointError says that it did not."""

    def __call__(self, query: str, now: int) -> list[Bound]:
        """Return the solutions of a SELECT query at an instant."""


@dataclass(frozen=True, eq=False)
class InProcess:
    """A source inside this process."""

    ask: Ask

    def select(self, query: GraphQuery, now: int, deadline: Deadline) -> Solutions:
        try:
            return Solutions(self.ask(query.text, now))
        except FetchError:
            raise
        except EndpointError as error:
            raise FetchError(str(error), refused=kind_of(str(error)) == "refused") from None

    def close(self) -> None:
        """Do nothing: there is no connection."""


@dataclass(frozen=True, eq=False)
class Transport:
    """A service, and the executor that sends its requests."""

    service: GraphService
    executor: Dispatcher | InlineExecutor = field(default_factory=InlineExecutor)

    @classmethod
    def in_process(cls, ask: Ask) -> "Transport":
        """Return the way to a source inside this process: one request after the other, without limits."""
        return cls(InProcess(ask))

    @property
    def dispatcher(self) -> Dispatcher | None:
        if isinstance(self.executor, Dispatcher):
            return self.executor
        return None

    def warnings(self) -> list[str]:
        if isinstance(self.service, ReportsWarnings):
            return self.service.warnings()
        return []

    def query(self, text: str, now: int, within: float = math.inf, allowance: float = math.inf) -> Pending[Copy]:
        """Send a query without keys: the rows are the value of the copy."""
        fetcher = KeyFetcher(WholeQuery(self.service, text), executor=self.executor, within=within)
        delivery = yield from fetcher.carry_out(Order(now, [()], allowance=allowance))
        return delivery.copies[0]

    def close(self) -> None:
        if isinstance(self.executor, Dispatcher):
            self.executor.close()
        else:
            self.service.close()


@dataclass(frozen=True, eq=False)
class WholeQuery:
    """A query without keys, as a source with one key."""

    service: GraphService
    text: str

    def fetch(self, request: FetchRequest) -> FetchReply:
        found = self.service.select(GraphQuery(self.text), request.now, request.deadline)
        return FetchReply([Copy(found.rows)])
