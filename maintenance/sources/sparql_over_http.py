"""The SPARQL 1.1 Protocol: SPARQLWrapper says what a request looks like, `http` carries it within bounds.

The query goes by GET where the address stays short, so that caches on the way may help, and else by POST.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from urllib.request import Request as HttpRequest

from pyoxigraph import QueryResultsFormat, parse_query_results
from SPARQLWrapper import GET, JSON, POST, SELECT, SPARQLWrapper

from freshkeeper.maintenance.base.credentials import Credentials
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.exchange import MEGABYTE, Call, ConnectionPool, HttpResponse
from freshkeeper.maintenance.fetching.http.response_status import check, media_type
from freshkeeper.maintenance.fetching.http.validity_headers import Validity, of_headers
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.sources.bounds import bounded, check_json, check_values
from freshkeeper.maintenance.sources.transport import Bound, GraphQuery, Solutions

USER_AGENT = f"freshkeeper/{version('freshkeeper')}"
LONGEST_URL = 2_000
"""Characters that every server and proxy takes."""
JSON_TYPES = ("application/sparql-results+json", "application/json")


class Method(StrEnum):
    """The HTTP method of queries."""

    AUTO = "auto"
    GET = "get"
    POST = "post"


class Described(SPARQLWrapper):
    """SPARQLWrapper with a way to have the request that it would send; its public face sends it at once."""

    def request(self) -> HttpRequest:
        return self._createRequest()


@dataclass(eq=False)
class SparqlOverHttp:
    """A SPARQL endpoint over HTTP."""

    url: str
    credentials: Credentials = field(default_factory=Credentials)
    method: Method = Method.AUTO
    pool: ConnectionPool = field(default_factory=ConnectionPool)
    dated: bool = False
    """whether headers speak of the values; most endpoints date the whole dataset, or the moment"""
    wall: Callable[[], float] = time.time

    def select(self, query: GraphQuery, now: int, deadline: Deadline) -> Solutions:
        answer = self.pool.exchange(self.call(query.text), deadline)
        check(answer, self.wall)
        told = of_headers(answer.headers, now, self.wall()) if self.dated else Validity()
        modified = told.modified if len(query.keys) == 1 else UNKNOWN  # one date says nothing of several keys
        return Solutions(rows_of(answer, self.pool.max_bytes), modified=modified, expires=told.expires)

    def close(self) -> None:
        """Close connections; queries under way fail."""
        self.pool.close()

    def call(self, query: str) -> Call:
        """Return the request as SPARQLWrapper builds it."""
        built = self._built(query, POST if self.method is Method.POST else GET)
        if self.method is Method.AUTO and len(built.url) > LONGEST_URL:
            built = self._built(query, POST)
        return built

    def _built(self, query: str, method: str) -> Call:
        address, _, fixed = self.url.partition("?")
        wrapper = Described(address, returnFormat=JSON, agent=USER_AGENT)
        wrapper.setOnlyConneg(True)
        wrapper.setMethod(method)
        wrapper.queryString, wrapper.queryType = query, SELECT  # setQuery would guess the type from the text
        made = wrapper.request()
        assert made.data is None or isinstance(made.data, bytes)
        url = made.full_url + (("&" if "?" in made.full_url else "?") + fixed if fixed else "")
        return Call(made.get_method(), url, {**dict(made.header_items()), **self.credentials.headers}, made.data)


def rows_of(answer: HttpResponse, max_bytes: int = 32 * MEGABYTE) -> list[Bound]:
    """Return the solutions in a response; raise FetchError if it holds none."""
    kind = media_type(answer)
    if kind not in JSON_TYPES:
        raise FetchError(
            f"malformed: the source answered with {kind or 'no content type'}, not with SPARQL results in JSON"
        )
    check_json(answer.body, max_bytes)
    check_values(answer.body)
    try:
        return bounded(lambda: parse_query_results(answer.body, format=QueryResultsFormat.JSON), max_bytes)
    except SyntaxError as error:
        said = " ".join(str(error.msg).split())
        raise FetchError(f"malformed: the answer is no SPARQL result: {said}", again=True, keys=True) from None
