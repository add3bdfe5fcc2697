"""Whatever a query asks of data that say how long they hold, it has the rows of what holds, in every way to say so."""

import pytest
from annotated_worlds import START, STYLES, Time, annotated, bag, evaluated, source_of, true_rows
from fragment_queries import PREFIX, QUERIES, SOCIAL, E
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Triple, parse

from freshkeeper.maintenance.annotated.annotated_query import AnnotatedQuery
from freshkeeper.maintenance.annotated.following import FollowedQuery
from freshkeeper.maintenance.annotated.served_data import StaticData
from freshkeeper.maintenance.sources.fragments.annotation_style import (
    OBJECT,
    PREDICATE,
    REIFIES,
    STATEMENT,
    SUBJECT,
    TYPE,
    AnnotationEncoding,
    AnnotationStyle,
    TimedTriple,
    TimeEncoding,
)
from freshkeeper.maintenance.sources.fragments.vocabulary import RDF
from freshkeeper.simulator.trace.trains import DEPARTURES, trains

CHANGING = {f"{E}n", f"{E}knows"}
MORE = ":n :label 'followers' . :by :label 'author' . :note :about <urn:freshkeeper:element:0>, :name"
"""Data may speak of annotations: the mark of an element is called so, and may be a property."""
DATA = list(parse(f"PREFIX : <{E}> {SOCIAL} . {MORE} .", format=RdfFormat.TURTLE))
LASTS = 60_000
STATIC = [quad for quad in DATA if quad.predicate.value not in CHANGING]
NOW = [TimedTriple(quad.triple, START - LASTS, START + LASTS) for quad in DATA if quad.predicate.value in CHANGING]
DAN = NamedNode(f"{E}dan")
OTHERS = [
    TimedTriple(Triple(one.triple.subject, one.triple.predicate, value), one.since + move, one.until + move)
    for one in NOW
    for value, move in ((Literal("gone"), -2 * LASTS), (DAN, -2 * LASTS), (Literal("to come"), 2 * LASTS))
]
"""What held before, and what will; paths would lead over some of it."""
HELD = [*NOW, *OTHERS]
HARD = """
SELECT * { ?x :by ?y . ?y :knows* ?z }
SELECT * { ?x :knows* ?y }
SELECT * { ?x :knows? ?y . ?y :n ?n }
SELECT * { ?x (:knows/:knows)|:boss ?y }
SELECT * { ?x ^:knows ?y . ?x !:by ?z }
SELECT * { ?x !(:by|^:knows) ?y }
SELECT * { ?x :by ?y OPTIONAL { ?y :knows+ ?z } }
SELECT * { ?x :by ?y FILTER NOT EXISTS { ?y :knows+ ?y } }
SELECT * { ?x ?p ?y . ?y ?q ?z }
SELECT * { ?x ?p ?y . ?p :label ?l }
SELECT * { VALUES ?p { :n :name } ?x ?p ?y }
SELECT * { [] ?p 20 }
SELECT * { ?x :knows ?x }
SELECT * { ?x ?p ?x }
SELECT * { ?x :by ?y MINUS { ?y ?p 20 } }
SELECT * { ?x :by ?y OPTIONAL { ?y ?p ?z FILTER(isLiteral(?z)) } }
SELECT * { ?x :by ?y FILTER NOT EXISTS { ?y ?p :cyd } }
SELECT ?p (COUNT(*) AS ?c) { ?x ?p ?y } GROUP BY ?p
SELECT DISTINCT ?x { { ?x ?p ?y } UNION { ?y ?p ?x } }
SELECT * { :note :about ?p . ?x ?p ?y }
SELECT * { { VALUES ?x { :jazz } ?x :by ?y FILTER NOT EXISTS { ?y :n "gone" } } ?y :name ?name }
SELECT * { { VALUES ?x { :rock } ?x :by ?y MINUS { ?y :knows :dan } } ?y :name ?name }
SELECT * { { SELECT ?y { VALUES ?x { :ann :bob } ?x :knows ?y } ORDER BY DESC(STR(?y)) LIMIT 1 } ?y :name ?name }
SELECT * { { VALUES ?x { :jazz } ?x :by ?y OPTIONAL { ?y :n ?n } FILTER(?n != "gone") } ?y :name ?name }
SELECT * { { VALUES ?x { :jazz } ?x :by ?y OPTIONAL { ?y :knows ?z } ?z :n ?n } ?z :name ?name }
SELECT * { { ?y :name ?name . [] :knows ?y } ?x :by ?y }
SELECT * { ?x :by ?y . ?y :n ?n , ?m ; :name ?name ; . ?y :knows [] }
""".strip().splitlines()
IDS = [f"{style.speaking}-{style.timing}" for style in STYLES]


@pytest.mark.parametrize("style", STYLES, ids=IDS)
@pytest.mark.parametrize("history", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_query_has_the_rows_of_what_holds_in_every_style(style: AnnotationStyle, history: bool) -> None:
    if history and style.timing is TimeEncoding.EXPIRATION:
        pytest.skip("an expiration has no history")
    for query in [*QUERIES, *HARD]:
        time = Time()
        source = source_of(annotated(STATIC, HELD, style, history), time, style, per_page=7)
        source.holding = False  # whoever keeps a history may have no form for what holds now
        assert bag(evaluated(source, PREFIX + query)) == bag(true_rows(STATIC, HELD, time.ms, PREFIX + query)), query


IN_GRAPHS = """
SELECT * { GRAPH ?g { ?x :says ?y } }
SELECT * { GRAPH :minutes { ?x :n ?y } }
SELECT * { ?x :n ?n GRAPH ?g { ?x :says ?y } }
SELECT * { ?x :n ?n GRAPH ?g { ?x :n ?y } }
SELECT * { GRAPH ?g { ?x ?p ?y } }
SELECT * { GRAPH ?g { ?x :says+ ?y } OPTIONAL { ?x ?p 20 } }
SELECT * { ?x ?p ?y }
""".strip().splitlines()


@pytest.mark.parametrize(
    "style", [style for style in STYLES if style.speaking is not AnnotationEncoding.GRAPH], ids=str
)
def test_graphs_are_the_datas_own_where_no_graph_says_times(style: AnnotationStyle) -> None:
    told = parse(
        f"PREFIX : <{E}> :minutes {{ :ann :says :bob . :bob :says :cyd ; :n 99 }} :notes {{ :cyd :says :ann }}",
        format=RdfFormat.TRIG,
    )
    static = [*STATIC, *told]
    for query in IN_GRAPHS:
        time = Time()
        source = source_of(annotated(static, HELD, style), time)
        found, true = evaluated(source, PREFIX + query), true_rows(static, HELD, time.ms, PREFIX + query)
        assert bag(found) == bag(true), query
        assert found


def test_a_service_asks_one_of_the_sources_alone() -> None:
    time, other = Time(), "http://other/data"
    people = [TimedTriple(one.triple, one.since, one.until + 1) for one in NOW if one.triple.predicate.value == f"{E}n"]
    more = [
        TimedTriple(Triple(one.triple.subject, one.triple.predicate, Literal(1)), one.since, one.until)
        for one in people
    ]
    first = source_of(annotated(STATIC, more, AnnotationStyle()), time)
    second = source_of(
        annotated([], people, AnnotationStyle(AnnotationEncoding.SINGLETON, TimeEncoding.FLAT)), time, address=other
    )
    both = [Literal(1), *(one.triple.object for one in people if one.triple.subject == NamedNode(f"{E}ann"))]
    for query, wanted in (
        (f"SELECT ?n {{ ?x :by :ann SERVICE <{other}> {{ :ann :n ?n }} }}", both[1:]),
        (f"SELECT ?n {{ ?x :by :ann SERVICE SILENT <{first.client.url}> {{ :ann :n ?n }} }}", both[:1]),
        (
            f"SELECT ?n {{ ?x :by :ann . :ann :n ?n FILTER NOT EXISTS {{ SERVICE <{other}> {{ :ann :n ?n }} }} }}",
            both[:1],
        ),
        ("SELECT ?n { ?x :by :ann . :ann :n ?n }", both),
    ):
        asked = AnnotatedQuery([first, second], PREFIX + query)
        moment = asked.evaluate(asked.parts())
        assert sorted(str(row["n"]) for row in moment.rows) == sorted(map(str, wanted)), query
        assert START + LASTS <= moment.until <= START + LASTS + 1


@pytest.mark.parametrize("speaking", [AnnotationEncoding.STAR, AnnotationEncoding.REIFICATION])
def test_what_is_said_of_a_triple_without_a_time_ends_it_not(speaking: AnnotationEncoding) -> None:
    boss = next(quad for quad in STATIC if quad.predicate.value == f"{E}boss")
    mark = NamedNode("urn:remark")
    said = {
        AnnotationEncoding.STAR: [Quad(mark, REIFIES, boss.triple)],
        AnnotationEncoding.REIFICATION: [
            Quad(mark, TYPE, STATEMENT),
            Quad(mark, SUBJECT, boss.subject),
            Quad(mark, PREDICATE, boss.predicate),
            Quad(mark, OBJECT, boss.object),
        ],
    }
    source = source_of(annotated([*STATIC, *said[speaking]], HELD, AnnotationStyle(speaking)), Time())
    for query in ("SELECT * { ?x :boss ?y }", "SELECT * { ?x ?p :cyd . ?x :n ?n }", "SELECT * { <urn:remark> ?p ?y }"):
        assert bag(evaluated(source, PREFIX + query)) == bag(true_rows(STATIC, HELD, START, PREFIX + query)), query


def test_singleton_properties_may_be_said_by_rdfs_own_name() -> None:
    style = AnnotationStyle(AnnotationEncoding.SINGLETON, TimeEncoding.INTERVAL, NamedNode(f"{RDF}singletonPropertyOf"))
    for known in (None, AnnotationStyle(AnnotationEncoding.SINGLETON, TimeEncoding.INTERVAL)):
        for query in QUERIES:
            source = source_of(annotated(STATIC, HELD, style), Time(), known)
            assert bag(evaluated(source, PREFIX + query)) == bag(true_rows(STATIC, HELD, START, PREFIX + query)), query


def test_an_open_query_is_asked_again_when_what_it_found_expires() -> None:
    time = Time()
    following = FollowedQuery(
        AnnotatedQuery([source_of(annotated(STATIC, HELD, AnnotationStyle()), time)], "SELECT * { ?x ?p ?y }")
    )
    seen = []
    for delivered in following.run(time.sleep):
        at = delivered.moment.at
        assert bag(delivered.rows) == bag(true_rows(STATIC, HELD, at, "SELECT * { ?x ?p ?y }"))
        seen.append(at)
        if len(seen) == 3:
            break
    assert seen[1] - (START + LASTS) < 200, "when the first ended"
    assert seen[2] - (START + 3 * LASTS) < 200, "and the next"


@pytest.mark.slow
@pytest.mark.parametrize(
    "style",
    [
        AnnotationStyle(AnnotationEncoding.GRAPH, TimeEncoding.FLAT),
        AnnotationStyle(AnnotationEncoding.SINGLETON, TimeEncoding.INTERVAL),
    ],
    ids=str,
)
def test_what_is_over_is_not_asked_about_again_where_a_server_gives_all_of_a_history(style: AnnotationStyle) -> None:
    requests = {}
    for keeps in (True, False):
        time, (static, held) = Time(), trains(1, 10_000, START + 700_000, START)
        source = source_of(annotated(static, held, style, history=True), time, per_page=4)
        source.holding = False  # as of a server that knows no form for what holds now
        if not keeps:
            source.keep_ended = lambda found, at: None  # type: ignore[method-assign]
        following = FollowedQuery(AnnotatedQuery([source], DEPARTURES))
        for delivered in following.run(time.sleep):
            at = delivered.moment.at
            assert bag(delivered.rows) == bag(true_rows(static, held, at, DEPARTURES))
            if following.evaluations == 60:
                break
        requests[keeps] = delivered.moment.requests
    marks = 60 / 4  # pages of a predicate's history
    assert requests[True] < 2 * marks * (1 if style.speaking is AnnotationEncoding.GRAPH else 2) + 12
    assert requests[False] > 1.8 * requests[True]


def test_a_source_that_uses_a_mark_again_is_believed() -> None:
    style, graph = AnnotationStyle(AnnotationEncoding.GRAPH, TimeEncoding.INTERVAL), "urn:g"
    triple = NOW[0].triple
    early, late = TimedTriple(triple, START, START + LASTS), TimedTriple(triple, START + 2 * LASTS, START + 3 * LASTS)
    time = Time()
    source = source_of(StaticData([*style.quads(early, graph, str)]), time, style)
    asked = AnnotatedQuery([source], f"SELECT * {{ ?x <{triple.predicate.value}> ?y }}")
    parts, rows = asked.parts(), []
    for at in (START, START + LASTS, START + 2 * LASTS):
        time.ms = max(time.ms, at)
        if at == START + 2 * LASTS:
            again = source_of(StaticData([*style.quads(late, graph, str)]), time, style)
            source.client.pool, source.client.cache = again.client.pool, again.client.cache
        rows.append(len(asked.evaluate(parts).rows))
    assert rows == [1, 0, 1]
