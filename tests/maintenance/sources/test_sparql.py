"""The SPARQL 1.1 Protocol as it is spoken over HTTP, and answers of all kinds."""

import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pyoxigraph import Literal, NamedNode
from servers import Documents, MakeProxy, Oxigraph

from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool, HttpResponse
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.sources.sparql_over_http import (
    LONGEST_URL,
    Described,
    Method,
    SparqlOverHttp,
    rows_of,
)
from freshkeeper.maintenance.sources.transport import GraphQuery

ALL = "SELECT * WHERE { ?s <http://example.org/followers> ?n }"
XSD = "http://www.w3.org/2001/XMLSchema#"


@pytest.fixture
def endpoint() -> Iterator[Callable[..., SparqlOverHttp]]:
    """Makes endpoints; closed after the test."""
    made = []

    def make(url: str, **more: Any) -> SparqlOverHttp:
        made.append(SparqlOverHttp(url, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_request_says_who_asks_and_what_is_understood(
    endpoint: Callable[..., SparqlOverHttp], proxied: MakeProxy
) -> None:
    proxy = proxied()
    reply = endpoint(proxy.url).select(GraphQuery(ALL), 0, Deadline())
    assert len(reply.rows) == 3
    head = proxy.heads[0]
    assert f"User-agent: freshkeeper/{version('freshkeeper')}\n" in head
    assert "application/sparql-results+json" in head
    assert "format=" not in head, "the type is negotiated, not asked for in parameters that nobody specified"


def test_short_queries_go_by_get_and_long_ones_by_post(
    endpoint: Callable[..., SparqlOverHttp], proxied: MakeProxy
) -> None:
    proxy = proxied()
    asking = endpoint(proxy.url)
    for query in (ALL, ALL + " # " + "x" * LONGEST_URL):
        assert len(asking.select(GraphQuery(query), 0, Deadline()).rows) == 3
    assert [head.split()[0] for head in proxy.heads] == ["GET", "POST"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_request_is_the_one_that_sparqlwrapper_sends_by_its_public_face(proxied: MakeProxy, method: str) -> None:
    proxy = proxied()
    wrapper = Described(proxy.url, returnFormat="json", agent="us")
    wrapper.setOnlyConneg(True)
    wrapper.setMethod(method)
    wrapper.setQuery(ALL)
    request = wrapper.request()
    with wrapper.query().response:
        first, *fields = proxy.heads[0].split("\n")
    assert first.split()[:2] == [request.get_method(), request.selector]
    sent = dict(field.lower().split(": ", 1) for field in fields if ": " in field)
    assert sent.items() >= {(name.lower(), value.lower()) for name, value in request.header_items()}
    assert isinstance(request.data, bytes | None)
    assert sent.get("content-length") == (None if request.data is None else str(len(request.data)))


@pytest.mark.parametrize(("method", "first"), [(Method.GET, "GET"), (Method.POST, "POST")])
def test_the_method_can_be_chosen(method: Method, first: str) -> None:
    assert SparqlOverHttp("http://h/q", method=method).call(ALL + " " * LONGEST_URL).method == first


@pytest.mark.parametrize("method", [Method.GET, Method.POST])
def test_parameters_of_the_address_stay_in_the_address(method: Method) -> None:
    call = SparqlOverHttp("http://h/q?db=blog&x=1", method=method).call(ALL)
    sent = parse_qs(urlsplit(call.url).query)
    assert (sent["db"], sent["x"]) == (["blog"], ["1"])
    assert ("query" in sent) == (call.body is None)


def answer(body: str, kind: str = "application/sparql-results+json") -> HttpResponse:
    return HttpResponse(200, "OK", {"content-type": kind}, body.encode())


def test_terms_come_as_they_are() -> None:
    body = """{"head": {"vars": ["a", "b"]}, "results": {"bindings": [
        {"a": {"type": "uri", "value": "http://e/x"}, "b": {"type": "literal", "value": "é", "xml:lang": "fr"}},
        {"a": {"type": "typed-literal", "value": "1", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}}]}}"""
    rows = rows_of(answer(body, "application/json; charset=utf-8"))
    assert rows == [
        {"a": NamedNode("http://e/x"), "b": Literal("é", language="fr")},
        {"a": Literal("1", datatype=NamedNode(XSD + "integer"))},
    ]


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ('{"head": {}, "boolean": true}', "application/sparql-results+json", "yes or no where solutions"),
        ("", "application/sparql-results+json", "no SPARQL result"),
        ('{"results": {"bindings": [{"a": {"type": "uri", "value": "a b"}}]}}', "application/json", "no SPARQL result"),
        ("<sparql/>", "application/sparql-results+xml", r"answered with application/sparql-results\+xml"),
        ("{}", "", "answered with no content type"),
    ],
)
def test_what_is_no_answer_is_a_fault_that_says_so(body: str, kind: str, said: str) -> None:
    with pytest.raises(FetchError, match=said):
        rows_of(answer(body, kind))


def test_time_is_bounded_for_an_exchange_and_not_for_a_read(
    proxied: MakeProxy, endpoint: Callable[..., SparqlOverHttp]
) -> None:
    asking = endpoint(proxied("drip").url)
    began = time.monotonic()
    with pytest.raises(FetchError, match="no answer in time"):
        asking.select(GraphQuery(ALL), 0, Deadline(began + 0.3))
    assert 0.25 < time.monotonic() - began < 3


def test_an_error_body_is_bounded_too(proxied: MakeProxy) -> None:
    pool = ConnectionPool(max_bytes=50)
    with pytest.raises(FetchError, match="longer than 5e-05 MB"):
        pool.exchange(Call("GET", proxied("html").url), Deadline())
    assert len(pool.exchange(Call("GET", proxied("echo").url), Deadline()).body) <= 50
    pool.close()


def test_tls_to_a_server_that_speaks_none_is_a_fault_and_leaves_nothing_open(
    oxigraph: Oxigraph, endpoint: Callable[..., SparqlOverHttp]
) -> None:
    with pytest.raises(FetchError, match="connection: no way to 127"):
        endpoint(oxigraph.url.replace("http:", "https:")).select(GraphQuery(ALL), 0, Deadline(time.monotonic() + 0.5))


def test_headers_of_a_batch_say_until_when_it_holds_and_not_when_each_of_its_keys_changed(
    documents: Callable[[Mapping[str, object]], Documents],
) -> None:
    body = {"head": {"vars": ["n"]}, "results": {"bindings": []}}
    server = documents({})
    server.headers = {"Content-Type": "application/sparql-results+json", "Cache-Control": "max-age=60"}
    server.headers |= {"Date": "Wed, 01 Jul 2015 12:00:00 GMT", "Last-Modified": "Wed, 01 Jul 2015 11:59:59 GMT"}
    asking = SparqlOverHttp(f"{server.url}/query", dated=True)
    keys = ((NamedNode("http://e/a"),), (NamedNode("http://e/b"),))
    for asked, modified in ((keys[:1], 9_000), (keys, UNKNOWN)):
        call = asking.call(ALL)
        server.documents[call.url.removeprefix(server.url)] = body
        reply = asking.select(GraphQuery(ALL, ("n",), asked), 10_000, Deadline())
        assert (reply.modified, reply.expires) == (modified, 70_000)
    asking.close()
