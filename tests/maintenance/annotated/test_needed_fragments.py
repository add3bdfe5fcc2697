"""What is fetched of a source of fragments is enough for any query, and as little as its counts allow."""

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
import query_runner
from algebra import Service, walk
from fragment_queries import PREFIX, QUERIES, SOCIAL, E
from fragment_sites import reader_of
from pyoxigraph import BlankNode, NamedNode, Quad, RdfFormat, Store, parse
from query_generator import case_of
from query_runner import outcome
from query_runner import quads as facts
from terms import Term, solutions

from freshkeeper.maintenance.annotated.fragment_server import FragmentServer
from freshkeeper.maintenance.annotated.served_data import StaticData
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.sources.fragments.needed_fragments import count_patterns, fetch_needed

TRAINS = [
    line
    for n in range(100)
    for line in (f":t{n} :delay {n % 7}", f':t{n} :platform "{n % 5}"', f':t{n} :sign "Town {n % 9}"@en')
]


def site(turtle: str, per_page: int = 100) -> tuple[FragmentServer, list[Quad]]:
    quads = list(parse(f"PREFIX : <{E}> {turtle} .", format=RdfFormat.TURTLE))
    return FragmentServer(StaticData(quads), lambda: 0, "/data", per_page), quads


def rows(store: Store, query: str) -> Counter[object]:
    found = solutions(store.query(rewrite_for_pyoxigraph(PREFIX + query)))
    return Counter(tuple(map(str, row)) for row in found)


def asked_of(server: FragmentServer, query: str, **more: str) -> tuple[Counter[object], list[str]]:
    asked: list[str] = []
    store = fetch_needed(PREFIX + query, reader_of(server, asked, **more))
    return rows(store, query), asked


def truth(quads: list[Quad], query: str) -> Counter[object]:
    store = Store()
    store.extend(quads)
    return rows(store, query)


@pytest.mark.parametrize("media", ["application/trig", "application/n-quads", "text/turtle", "application/ld+json"])
@pytest.mark.parametrize("per_page", [2, 100])
def test_thirty_queries_have_the_rows_of_an_evaluation_over_all_the_data(per_page: int, media: str) -> None:
    server, quads = site(SOCIAL, per_page)
    assert len(QUERIES) == 30
    for query in QUERIES:
        assert asked_of(server, query, media=media)[0] == truth(quads, query), query


def test_a_path_of_no_length_begins_at_every_node() -> None:
    server, quads = site(SOCIAL, 7)
    query = "SELECT * { ?x :knows? ?y }"
    assert asked_of(server, query)[0] == truth(quads, query)


def test_three_patterns_over_a_hundred_trains_take_a_page_each() -> None:
    server, quads = site(" . ".join(TRAINS))
    query = "SELECT * { ?x :delay ?d ; :platform ?p ; :sign ?s }"
    found, asked = asked_of(server, query)
    assert found == truth(quads, query)
    assert len(asked) == 4, "the form, and a page for each pattern"


def test_few_values_are_asked_for_one_by_one_and_many_by_the_pages_of_their_pattern() -> None:
    server, _ = site(" . ".join(TRAINS), per_page=10)
    _, one = asked_of(server, "SELECT * { VALUES ?x { :t1 } ?x :delay ?d ; :platform ?p }")
    _, ten = asked_of(server, "SELECT * { ?x :sign 'Town 1'@en . ?x :delay ?d }")
    assert len(one) == 3, "the form, and one page each"
    assert len(ten) == 1 + 2 + 10, "the form, two pages of twelve trains, ten pages of delays rather than twelve trains"


def test_what_an_optional_alone_binds_is_not_narrowed_by_what_comes_after_it() -> None:
    server, quads = site(":a :p :x . :x :q :y . :z :r 1")
    query = "SELECT * { { ?s :p ?o OPTIONAL { ?o :q ?v } } ?v :r ?n }"
    assert asked_of(server, query)[0] == truth(quads, query) == Counter()


def test_a_literal_that_a_store_writes_its_own_way_is_found_as_the_source_writes_it() -> None:
    server, quads = site(":a :p 01 . :b :q 01 . :b :q 2")
    query = "SELECT * { ?x :p ?n . ?y :q ?n }"
    assert sum(asked_of(server, query)[0].values()) == sum(truth(quads, query).values()) == 1


def test_blank_nodes_of_our_server_have_names_so_that_they_join() -> None:
    quads = [Quad(BlankNode("b"), NamedNode(f"{E}{p}"), NamedNode(f"{E}o")) for p in "pq"]
    server = FragmentServer(StaticData(quads), lambda: 0, "/data", 1)
    assert sum(asked_of(server, "SELECT * { ?x :p ?y ; :q ?y }")[0].values()) == 1


def test_a_pattern_that_asks_for_a_service_inside_is_refused() -> None:
    server, _ = site(SOCIAL)
    with pytest.raises(FetchError, match="SERVICE"):
        asked_of(server, "SELECT * { ?x :by ?y SERVICE :other { ?y :n ?n } }")


def test_the_pages_of_a_query_are_at_least_its_triple_patterns() -> None:
    assert count_patterns("SELECT * { ?x <a:p> ?y ; <a:q> ?z OPTIONAL { ?z <a:r> [ <a:s> 1 ] } }") == 4


class Both(query_runner.Remote):
    """A remote that is asked over all its data and by its fragments: both must say the same."""

    asked = 0

    def __call__(self, query: str, now: int) -> list[Mapping[str, Term]]:
        whole = super().__call__(query, now)
        server = FragmentServer(StaticData(facts(self.case.world.remote(self.name, now))), lambda: 0, "/data", 3)
        store = fetch_needed(query, reader_of(server))
        found = solutions(store.query(rewrite_for_pyoxigraph(query)))
        names = [variable.value for variable in found.variables]
        rows = [{n: term for n, term in zip(names, row, strict=True) if term is not None} for row in found]
        if "LIMIT" not in query:
            assert _bag(rows) == _bag(whole), (query, now)
        Both.asked += 1
        return whole


def _bag(rows: Iterable[Mapping[str, object]]) -> Counter[object]:
    return Counter(tuple(sorted((name, str(term)) for name, term in row.items())) for row in rows)


@pytest.mark.slow
def test_whatever_the_engine_asks_a_remote_is_answered_by_fragments_as_it_is_by_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(query_runner, "Remote", Both)
    Both.asked = 0
    for n in range(400):
        case = case_of(f"fragments{n}")
        if any(isinstance(each, Service) for each in walk(case.query)):
            assert outcome(case, EvaluatorKind.SNAPSHOT).kind not in ("wrong", "crash"), case.seed
    assert Both.asked > 250
