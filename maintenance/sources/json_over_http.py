"""SERVICE patterns on JSON over HTTP: documents are fetched by key, read as triples, and the query is asked of them.

A request for a key fetches the document about it. An expansion fetches the one about the SN; where that alone gives
no edge it fetches what the document links to as well, as far as the budget allows. Keys whose documents were not read
are fetched later, each on its own. A subject that has no document, or is of no kind that has one, has no data.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pyoxigraph import NamedNode, Quad, Store

from freshkeeper.maintenance.base.credentials import Credentials
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.fetch_errors import FetchError, NotSentError
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool, HttpResponse
from freshkeeper.maintenance.fetching.http.response_status import check, media_type
from freshkeeper.maintenance.fetching.http.validators import Validators
from freshkeeper.maintenance.fetching.http.validity_headers import Validity, of_headers
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.sources.bounds import bounded
from freshkeeper.maintenance.sources.json_documents import Resource, read_json
from freshkeeper.maintenance.sources.sparql_over_http import USER_AGENT
from freshkeeper.maintenance.sources.transport import Bound, GraphQuery, Solutions, Term

STATUSES_WITHOUT_DOCUMENT = (404, 410)


@dataclass(eq=False)
class JsonOverHttp:
    """An HTTP service with documents in JSON."""

    resources: Sequence[Resource]
    credentials: Credentials = field(default_factory=Credentials)
    pool: ConnectionPool = field(default_factory=ConnectionPool)
    dated: bool = False
    """whether headers speak of the values"""
    validators: Validators = field(default_factory=Validators)
    wall: Callable[[], float] = time.time

    def select(self, query: GraphQuery, now: int, deadline: Deadline) -> Solutions:
        if not query.keys:
            raise NotSentError("not sent: documents are asked for by key, and this pattern has none")
        reading = _Reading(self, now, deadline)
        reading.read(term for key in query.keys for term in key)
        rows = reading.solutions(query.text)
        linked = reading.linked() if query.expands and not rows else []
        if linked:
            try:
                reading.read(linked)
            except NotSentError:
                more = f"{len(linked)} documents more to find its edges"
                raise NotSentError(f"not sent: it takes {more}, and budget or limits do not allow them now") from None
            rows = reading.solutions(query.text)
        modified = UNKNOWN
        if len(reading.validities) == 1:
            modified = reading.validities[0].modified
        return Solutions(
            rows,
            modified=modified,
            expires=min((each.expires for each in reading.validities), default=UNKNOWN),  # unknown is the least
            resources_read=frozenset(reading.resources) if query.expands else None,
        )

    def close(self) -> None:
        """Close connections; documents that are being read fail."""
        self.pool.close()

    def address(self, term: Term | None) -> tuple[Resource, str] | None:
        found = ((each, each.address(term)) for each in self.resources)
        return next(((each, url) for each, url in found if url is not None), None)

    def get(self, url: str, deadline: Deadline) -> HttpResponse:
        """Send one GET; an unchanged document need not be sent again."""
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json", **self.validators.headers(url)}
        headers |= self.credentials.headers
        return self.validators.complete(url, self.pool.exchange(Call("GET", url, headers), deadline))


@dataclass(eq=False)
class _Reading:
    """The documents of one request."""

    source: JsonOverHttp
    now: int
    deadline: Deadline
    store: Store = field(default_factory=Store)
    resources: set[Term] = field(default_factory=set)
    validities: list[Validity] = field(default_factory=list)

    def read(self, terms: Iterable[Term | None]) -> None:
        for term in terms:
            place = self.source.address(term)
            if place is None or term in self.resources or not isinstance(term, NamedNode):
                continue
            resource, url = place
            answer = self.source.get(url, self.deadline)
            if answer.status not in STATUSES_WITHOUT_DOCUMENT:
                check(answer, self.source.wall)
                self.store.extend(_triples(resource, term, _document(answer, self.source.pool.max_bytes)))
            if self.source.dated:
                self.validities.append(of_headers(answer.headers, self.now, self.source.wall()))
            self.resources.add(term)

    def linked(self) -> list[NamedNode]:
        """Return the links of the documents that have documents of their own."""
        found = dict.fromkeys(quad.object for quad in self.store if isinstance(quad.object, NamedNode))
        return [term for term in found if term not in self.resources and self.source.address(term)]

    def solutions(self, query: str) -> list[Bound]:
        try:
            return bounded(lambda: self.store.query(rewrite_for_pyoxigraph(query)), self.source.pool.max_bytes)
        except (SyntaxError, OSError) as error:
            raise FetchError(f"malformed: the pattern cannot be asked of documents: {error}") from None


def _triples(resource: Resource, subject: NamedNode, document: object) -> list[Quad]:
    try:
        return list(resource.triples(subject, document))
    except ValueError as error:
        raise FetchError(f"malformed: the answer holds a value that is no term: {error}", refused=True) from None


def _document(answer: HttpResponse, max_bytes: int) -> object:
    kind = media_type(answer)
    if kind != "application/json" and not kind.endswith("+json"):
        raise FetchError(f"malformed: the source answered with {kind or 'no content type'}, not with JSON")
    try:
        return read_json(answer.body, max_bytes)
    except (ValueError, RecursionError):
        raise FetchError("malformed: the answer is no JSON", again=True, keys=True) from None
