"""What a query leaves unsaid gets its dialect's default; the rewritten SPARQL means what RSP-QL means."""

import pickle
from dataclasses import replace

import pyoxigraph as ox
import pytest

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.query.model import Form, Operator, Query, Report, StreamWindow, WindowKind
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError

W = "PREFIX : <http://e/> SELECT * FROM NAMED WINDOW :w ON :s {} {}{{ WINDOW :w {{ ?a ?b ?c }} }}"


def window(extent: str, more: str = "") -> StreamWindow:
    return parse(W.format(extent, more)).windows[0]


def test_the_same_window_in_every_spelling() -> None:
    expected = StreamWindow("http://e/w", "http://e/s", WindowKind.TIME, 10_000, 500)
    for extent in ("[RANGE PT10S STEP PT0.5S]", "[range 10s slide 500ms]", "[RANGE 10000 STEP 500]"):
        assert window(extent) == expected
    assert window("[RANGE 10 SECONDS STEP 500 ms]") == expected


def test_a_window_without_step_moves_with_every_element_and_reports_on_content_change() -> None:
    query = parse(W.format("[RANGE PT10S]", ""))
    assert query.windows[0].step is None
    assert query.times.report == (Report.ON_CONTENT_CHANGE,)


def test_one_window_with_a_step_is_enough_to_close() -> None:
    query = parse("ASK FROM WINDOW <a> ON <s> [NOW] FROM WINDOW <b> ON <s> [ELEMENTS 5 STEP 5] { ?x ?y ?z }")
    assert query.times.report == (Report.ON_WINDOW_CLOSE,)


def test_now_is_one_millisecond_and_all_has_no_range() -> None:
    assert (window("[NOW]").range, window("[ALL]").range) == (1, None)


@pytest.mark.parametrize("written", ["1000", '"1970-01-01T00:00:01Z"', "1970-01-01T00:00:01Z", "'1000'"])
def test_starting_at_inside_or_behind_the_brackets(written: str) -> None:
    assert window(f"[RANGE 1s STARTING AT {written}]").t0 == 1000
    assert window("[RANGE 1s]", f"STARTING AT {written} ").t0 == 1000


def test_closure_is_left_open_unless_said() -> None:
    assert window("[RANGE 1s]").closure is Closure.LEFT_OPEN
    assert window("[RANGE 1s CLOSURE RIGHT_OPEN]").closure is Closure.RIGHT_OPEN


@pytest.mark.parametrize("written", ["NON_EMPTY, ON_WINDOW_CLOSE", "on_window_close and non_empty",
                                     "NON_EMPTY ON_WINDOW_CLOSE"])  # fmt: skip
def test_report_policies_combine_in_any_order(written: str) -> None:
    query = parse(W.format("[RANGE 1s STEP 1s]", f"REPORT {written} "))
    assert query.times.report == (Report.NON_EMPTY, Report.ON_WINDOW_CLOSE)


@pytest.mark.parametrize(
    ("head", "operator", "form"),
    [
        ("SELECT *", Operator.RSTREAM, Form.SELECT), ("SELECT ISTREAM ?a", Operator.ISTREAM, Form.SELECT),
        ("REGISTER DSTREAM <o> AS ASK", Operator.DSTREAM, Form.ASK),
        ("REGISTER STREAM <o> AS CONSTRUCT ISTREAM { ?a ?b ?c }", Operator.ISTREAM, Form.CONSTRUCT),
        ("REGISTER ISTREAM <o> AS SELECT ISTREAM *", Operator.ISTREAM, Form.SELECT),
        ("DESCRIBE RSTREAM ?a", Operator.RSTREAM, Form.DESCRIBE),
    ],
)  # fmt: skip
def test_the_operator_stands_before_the_output_or_behind_the_form(head: str, operator: Operator, form: Form) -> None:
    query = parse(f"{head} FROM NAMED WINDOW <w> ON <s> [RANGE 1s] {{ WINDOW <w> {{ ?a ?b ?c }} }}")
    assert (query.operator, query.form) == (operator, form)


def test_names_are_resolved_against_the_querys_base_before_the_callers() -> None:
    text = "ASK FROM WINDOW <w> ON <s> [NOW] { ?a ?b ?c }"
    assert parse(text).windows[0].stream == "freshkeeper:/s"
    assert parse(text, base="http://e/q.rq").windows[0].stream == "http://e/s"
    assert parse(f"BASE <http://f/> {text}", base="http://e/").windows[0].stream == "http://f/s"


def test_a_base_is_kept_only_where_the_pattern_needs_it() -> None:
    assert parse("ASK FROM <g> { ?a ?b ?c }").expression.prologue.base is None
    assert parse("ASK { ?a <b> ?c }").expression.prologue.base == "freshkeeper:/"
    assert parse('ASK { BIND(IRI("x") AS ?c) }', base="http://e/").expression.prologue.base == "http://e/"


def test_the_default_dataset_of_each_dialect() -> None:
    """seeds/001: named windows in CQELS, merged ones in C-SPARQL and SPARQLstream, both in RSP-QL."""
    cqels = parse("SELECT * { STREAM <s> [RANGE 3s SLIDE 1s] { ?a ?b ?c } }")
    csparql = parse("SELECT * FROM STREAM <s> [RANGE 3s STEP 1s] { ?a ?b ?c }")
    sparqlstream = parse("SELECT * FROM NAMED STREAM <s> [NOW - 3 S SLIDE 1 S] { ?a ?b ?c }")
    assert [defaults(q) for q in (cqels, csparql, sparqlstream)] == [
        (True, Operator.ISTREAM, ("ON_CONTENT_CHANGE",), Closure.LEFT_OPEN),
        (False, Operator.RSTREAM, ("NON_EMPTY", "ON_WINDOW_CLOSE"), Closure.RIGHT_OPEN),
        (False, Operator.RSTREAM, ("NON_EMPTY", "ON_WINDOW_CLOSE"), Closure.RIGHT_OPEN),
    ]
    assert all((q.windows[0].range, q.windows[0].step) == (3000, 1000) for q in (cqels, csparql, sparqlstream))


def defaults(query: Query) -> tuple[bool, Operator, tuple[str, ...], Closure]:
    return query.windows[0].is_named, query.operator, query.times.report, query.windows[0].closure


def test_a_count_window_steps_as_its_engine_does() -> None:
    texts = {
        "cqels": "ASK { STREAM <s> [TRIPLES 10] { ?a ?b ?c } }",
        "csparql": "ASK FROM STREAM <s> [TRIPLES 10] { ?a ?b ?c }",
        "sparqlstream": "ASK FROM NAMED STREAM <s> [TRIPLES 10] { ?a ?b ?c }",
        "rspql": "ASK FROM WINDOW ON <s> [ELEMENTS 10] { ?a ?b ?c }",
    }
    steps = {dialect: parse(text, dialect).windows[0].step for dialect, text in texts.items()}
    assert steps == {"cqels": 1, "csparql": 10, "sparqlstream": 1, "rspql": 1}


def answers(query: Query, quads: list[tuple[str, str]]) -> list[dict[str, str]]:
    """Evaluate with the named windows and graphs as named graphs; each quad is (object, graph)."""
    store = ox.Store()
    subject = ox.NamedNode("http://e/x")
    store.extend(ox.Quad(subject, subject, ox.Literal(o), ox.NamedNode(g)) for o, g in quads)
    dataset = query.dataset
    merged: list[ox.NamedNode | ox.BlankNode | ox.DefaultGraph] = [
        ox.NamedNode(g) for g in (*dataset.default_graphs, *(w.name for w in dataset.merged_windows))
    ]
    named: list[ox.NamedNode | ox.BlankNode] = [
        ox.NamedNode(g) for g in (*dataset.named_graphs, *(w.name for w in dataset.named_windows))
    ]
    found = store.query(query.sparql, default_graph=merged or None, named_graphs=named)
    assert isinstance(found, ox.QuerySolutions)
    names = [variable.value for variable in found.variables]
    return sorted(({n: str(row[n]) for n in names} for row in found), key=str)


def test_window_variables_see_windows_alone_and_graph_variables_see_graphs_alone() -> None:
    query = parse(
        "PREFIX : <http://e/> SELECT ?w ?a ?g ?b FROM NAMED :g1 FROM NAMED :g2 "
        "FROM NAMED WINDOW :w1 ON :s [NOW] FROM NAMED WINDOW :w2 ON :s [NOW] "
        "{ WINDOW ?w { ?x ?p ?a } GRAPH ?g { ?x ?p ?b } }"
    )
    quads = [(name, f"http://e/{name}") for name in ("w1", "w2", "g1", "g2")]
    pairs = {(row["w"], row["g"]) for row in answers(query, quads)}
    assert pairs == {(f"<http://e/{w}>", f"<http://e/{g}>") for w in ("w1", "w2") for g in ("g1", "g2")}


def test_merged_windows_join_the_default_graph() -> None:
    query = parse("SELECT ?o FROM <g> FROM WINDOW <w> ON <s> [NOW] { ?x ?p ?o }", base="http://e/")
    quads = [("from the graph", "http://e/g"), ("from the window", "http://e/w"), ("elsewhere", "http://e/h")]
    assert [row["o"] for row in answers(query, quads)] == ['"from the graph"', '"from the window"']


def test_aliases_beside_aggregates_stand_for_their_expressions() -> None:
    query = parse(
        "SELECT (COUNT(?o) AS ?n) ((?n + 1) AS ?m) (?m * 2 AS ?k) FROM WINDOW <http://e/w> ON <s> [NOW] { ?x ?p ?o }"
    )
    rows = answers(query, [("a", "http://e/w"), ("b", "http://e/w")])
    assert [row["k"].split('"')[1] for row in rows] == ["6"]


def test_services_are_found_at_any_depth_with_their_place_in_the_text() -> None:
    query = parse(
        "PREFIX : <http://e/> SELECT * FROM NAMED WINDOW :w ON :s [NOW] { WINDOW :w { ?a :p ?b } "
        'OPTIONAL { SERVICE SILENT :one { ?b :q "SERVICE :no { }" } } '
        "FILTER NOT EXISTS { SERVICE ?two { ?b :r ?c . GRAPH ?g { ?c :s ?d } } } }"
    )
    one, two = query.services
    assert (one.endpoint, one.silent, one.variables) == ("http://e/one", True, ("b",))
    assert (two.endpoint, two.endpoint_variable, two.variables) == (None, "two", ("b", "c", "d", "g"))
    assert query.expression.source.tokens.text[slice(*two.span)] == "SERVICE ?two { ?b :r ?c . GRAPH ?g { ?c :s ?d } }"
    assert one.predicates == ("http://e/q",)


def test_window_variables_are_what_a_window_binds_and_what_is_computed_from_it() -> None:
    query = parse(
        "PREFIX : <http://e/> SELECT * FROM NAMED WINDOW :w ON :s [NOW] FROM WINDOW :m ON :s [NOW] { "
        "WINDOW :w { ?a :p ?b . OPTIONAL { ?b :q ?c } FILTER(?d > 1) MINUS { ?a :r ?e } } "
        "{ SELECT ?f { WINDOW :w { ?f :p ?hidden } } } BIND(STR(?b) AS ?g) ?h :p _:i . GRAPH :x { ?j :p ?k } }"
    )
    assert query.window_variables == {"http://e/w": set("abcfg"), "http://e/m": {"h"}}


def test_a_query_is_a_value() -> None:
    query = parse(W.format("[NOW]", ""))
    assert hash(query) == hash(parse(W.format("[NOW]", "")))
    copy = pickle.loads(pickle.dumps(query))
    assert copy == query
    assert copy.sparql == query.sparql
    assert replace(query, dialect="another") == query


def test_an_error_is_a_value_too() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse("SELECT * {\n ?a nope:b ?c }")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.line, copy.column) == (str(caught.value), 2, 5)
    assert caught.value.exit_code == 2
