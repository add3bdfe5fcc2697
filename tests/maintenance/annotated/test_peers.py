"""Real peers: our client against @ldf/server, Comunica against our server; the rows are those of the whole data."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fragment_peers import LdfServer, by_comunica
from fragment_queries import PREFIX, QUERIES, SOCIAL, E
from fragment_sites import FragmentSite
from pyoxigraph import Literal, Quad, RdfFormat, Store, Triple, parse, serialize
from terms import solutions

from freshkeeper.maintenance.annotated.annotated_data import AnnotatedData
from freshkeeper.maintenance.annotated.annotated_query import AnnotatedQuery, CurrentAnswers
from freshkeeper.maintenance.annotated.annotated_source import AnnotatedSource
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.sources.annotations import TMP
from freshkeeper.maintenance.sources.fragments.annotation_style import (
    AnnotationEncoding,
    AnnotationStyle,
    TimedTriple,
    TimeEncoding,
)
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.sources.transport import GraphQuery

pytestmark = pytest.mark.slow
DATA = list(parse(f"PREFIX : <{E}> {SOCIAL} .", format=RdfFormat.TURTLE))
TRAINS = "".join(
    f"<{E}t{n}> <{E}delay> {n % 7} ; <{E}platform> '{n % 5}' ; <{E}sign> 'Town {n % 9}'@en .\n" for n in range(100)
)


def bag(rows: Iterable[Mapping[str, object]]) -> Counter[object]:
    return Counter(tuple(sorted((name, str(term)) for name, term in row.items())) for row in rows)


def truth(quads: list[Quad], query: str) -> Counter[object]:
    store = Store()
    store.extend(quads)
    found = solutions(store.query(rewrite_for_pyoxigraph(query)))
    names = [variable.value for variable in found.variables]
    return bag({n: term for n, term in zip(names, row, strict=True) if term is not None} for row in found)


def counting() -> tuple[list[Any], Deadline]:
    """A client's requests are counted where they are let through."""
    sent: list[int] = []

    def go() -> bool:
        sent.append(1)
        return True

    return sent, Deadline(may_send=go)


@pytest.fixture
def ldf(tmp_path: Path) -> Iterator[Callable[..., LdfServer]]:
    made = []

    def make(quads: list[Quad]) -> LdfServer:
        file = tmp_path / "data.nq"
        serialize(quads, file, format=RdfFormat.N_QUADS)
        made.append(LdfServer(file))
        return made[-1]

    yield make
    for server in made:
        server.stop()


def test_our_client_has_the_rows_of_thirty_queries_from_ldf_server(ldf: Callable[..., LdfServer]) -> None:
    client = FragmentsOverHttp(ldf(DATA).url)
    try:
        for query in QUERIES:
            found = client.select(GraphQuery(PREFIX + query), 0, Deadline()).rows
            assert bag(found) == truth(DATA, PREFIX + query), query
    finally:
        client.close()


def test_comunica_has_the_rows_of_thirty_queries_from_our_server(sites: Callable[..., FragmentSite]) -> None:
    found = by_comunica(sites(DATA, per_page=4).url, [PREFIX + query for query in QUERIES])
    for query, rows in zip(QUERIES, found, strict=True):
        assert bag(rows) == truth(DATA, PREFIX + query), query


def test_a_hundred_trains_with_three_patterns_take_twelve_requests_at_most_of_either_server(
    sites: Callable[..., FragmentSite], ldf: Callable[..., LdfServer]
) -> None:
    quads = list(parse(TRAINS, format=RdfFormat.TURTLE))
    query = f"SELECT * {{ ?x <{E}delay> ?d ; <{E}platform> ?p ; <{E}sign> ?s }}"
    for url in (sites(quads).url, ldf(quads).url):
        client, (sent, deadline) = FragmentsOverHttp(url), counting()
        try:
            assert bag(client.select(GraphQuery(query), 0, deadline).rows) == truth(quads, query)
        finally:
            client.close()
        assert len(sent) <= 12


GRAPHS = AnnotationStyle(AnnotationEncoding.GRAPH, TimeEncoding.INTERVAL)
CHANGING = {f"{E}n", f"{E}knows"}


def annotated(at: int, style: AnnotationStyle = GRAPHS) -> tuple[list[Quad], list[TimedTriple], list[Quad]]:
    """The data with two predicates that hold now, and a year ago were others."""
    year = 31_536_000_000
    static = [quad for quad in DATA if quad.predicate.value not in CHANGING]
    now = [quad.triple for quad in DATA if quad.predicate.value in CHANGING]
    gone = [Triple(t.subject, t.predicate, Literal("gone")) for t in now]
    held = [TimedTriple(t, at - year, at + year) for t in now] + [
        TimedTriple(t, at - 2 * year, at - year) for t in gone
    ]
    marked = (q for n, one in enumerate(held) for q in style.quads(one, f"urn:element:{n}", str))
    return static, held, [*static, *marked]


def followed(url: str) -> dict[str, CurrentAnswers]:
    """The thirty queries by our client."""
    client, found = FragmentsOverHttp(url), {}
    source = AnnotatedSource(client)  # how times are said is found
    try:
        for query in QUERIES:
            asked = AnnotatedQuery([source], PREFIX + query)
            found[query] = asked.evaluate(asked.parts())
    finally:
        client.close()
    return found


@pytest.mark.parametrize(
    "style",
    [
        GRAPHS,
        AnnotationStyle(AnnotationEncoding.SINGLETON, TimeEncoding.FLAT),
        AnnotationStyle(AnnotationEncoding.REIFICATION, TimeEncoding.INTERVAL),
    ],
    ids=lambda style: style.speaking,
)
def test_the_rows_of_thirty_queries_over_annotated_data_are_those_of_what_holds_now_on_either_server(
    style: AnnotationStyle, sites: Callable[..., FragmentSite], ldf: Callable[[list[Quad]], LdfServer]
) -> None:
    at = int(time.time() * 1000)
    static, held, quads = annotated(at, style)
    ours = sites(AnnotatedData(static, held, style, history=True), per_page=7)
    for url in (ours.url, ldf(quads).url):
        found = followed(url)
        equal = [query for query, moment in found.items() if bag(moment.rows) == truth(DATA, PREFIX + query)]
        assert equal == QUERIES
        assert len(equal) == 30
        assert all(moment.since <= at < moment.until and not moment.odd for moment in found.values())


def test_comunica_finds_the_annotations_of_our_server(sites: Callable[..., FragmentSite]) -> None:
    at = int(time.time() * 1000)
    _, _, quads = annotated(at)
    site = sites(quads, per_page=7)
    queries = [
        f"SELECT * {{ GRAPH ?g {{ ?x <{E}n> ?n }} ?g <{TMP}interval> ?i . ?i <{TMP}initial> ?a ; <{TMP}final> ?z }}",
        f"SELECT * {{ ?t <{E}by> ?x . GRAPH ?g {{ ?x <{E}n> ?n }} }}",
        "SELECT * { GRAPH <urn:element:0> { ?x ?p ?o } }",
    ]
    thirty = [PREFIX + query for query in QUERIES]
    found = by_comunica(site.url, [*queries, *thirty])
    for query, rows in zip([*queries, *thirty], found, strict=True):
        assert bag(rows) == truth(quads, query), query
    assert all(found[: len(queries)])
