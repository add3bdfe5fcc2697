"""Where the two evaluators could say something else, and what stays with the snapshot evaluator for that."""

import pytest
from evaluators import results, said
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from freshkeeper.maintenance.engine.native.native_plan import plan_of
from freshkeeper.maintenance.engine.native.plan_head import NotNativeError
from freshkeeper.maintenance.query.parser import parse

A, B, P = NamedNode("urn:a"), NamedNode("urn:b"), NamedNode("urn:p")
STREAM = [(1000, Triple(A, P, B)), (2000, Triple(B, P, A))]
W = "FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S]"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"SELECT ?s {W} {{ WINDOW <urn:w> {{ ?s <urn:p>+ ?o }} }}", "path"),
        (f"SELECT ?s ?n {W} {{ WINDOW <urn:w> {{ ?s ?p ?o }} BIND(RAND() AS ?n) }}", "not deterministic"),
        (f"SELECT ?s {W} {{ WINDOW <urn:w> {{ ?s ?p ?o }} FILTER(RAND() < 0.5) }}", "not deterministic"),
        (f"SELECT ?s {W} {{ WINDOW <urn:w> {{ ?s ?p ?o }} {{ SELECT (NOW() AS ?t) {{ }} }} }}", "not deterministic"),
        (
            f"SELECT ?n {W} {{ WINDOW <urn:w> {{ ?s ?p ?o }} BIND(<freshkeeper:now>() AS ?n) }}",
            "timestamps of elements",
        ),
        (
            f"PREFIX f: <freshkeeper:> SELECT (f:timestamp(?s, ?p, ?o) AS ?n) {W} {{ WINDOW <urn:w> {{ ?s ?p ?o }} }}",
            "timestamps of elements",
        ),
    ],
)
def test_what_is_no_join_has_a_reason(text: str, reason: str) -> None:
    with pytest.raises(NotNativeError, match=reason):
        plan_of(parse(text))


def test_names_that_are_relative_are_names_like_others() -> None:
    text = "SELECT ?s FROM NAMED WINDOW <w> ON <s> [RANGE PT2S STEP PT1S] { WINDOW <w> { ?s <p> <o> } }"
    stream = {"freshkeeper:/s": [(1000, Triple(A, NamedNode("freshkeeper:/p"), NamedNode("freshkeeper:/o")))]}
    assert [bag.total() for _, _, _, bag, _ in said(results(text, "native", stream, {}))] == [1]


def test_what_is_loaded_as_default_graph_is_in_the_graph_of_a_merged_window() -> None:
    text = "SELECT ?s ?n FROM WINDOW <urn:w> ON <urn:s> [RANGE PT1S STEP PT1S] { ?s <urn:p> ?o . ?o <urn:n> ?n }"
    graphs = {"": [Quad(B, NamedNode("urn:n"), Literal(7), DefaultGraph())]}
    plan_of(parse(text))
    with pytest.raises(NotNativeError, match="a window and static graphs are merged"):
        plan_of(parse(text), graphs)
    found = said(results(text, "auto", {"urn:s": STREAM}, graphs))
    assert found == said(results(text, "snapshot", {"urn:s": STREAM}, graphs))
    assert [len(bag) for _, _, _, bag, _ in found] == [1, 0]


def test_a_graph_that_is_a_variable_is_no_window() -> None:
    text = f"SELECT ?s ?g {W} FROM NAMED <urn:g> {{ WINDOW <urn:w> {{ ?s ?p ?o }} GRAPH ?g {{ ?s ?p ?o }} }}"
    graphs = {"urn:g": [Quad(B, P, A, DefaultGraph())]}
    for kind in ("native", "snapshot"):
        found = said(results(text, kind, {"urn:s": STREAM}, graphs))
        assert [bag.total() for _, _, _, bag, _ in found] == [0, 1]


def test_a_graph_that_is_constructed_is_a_set_also_where_a_triple_has_a_blank_node() -> None:
    text = f"CONSTRUCT {{ <urn:all> ?p ?o }} {W} {{ WINDOW <urn:w> {{ ?s ?p ?o }} }}"
    stream = [(1000, Triple(A, P, BlankNode("n"))), (1000, Triple(B, P, BlankNode("n")))]
    for kind in ("native", "snapshot"):
        assert [bag.total() for _, _, _, bag, _ in said(results(text, kind, {"urn:s": stream}, {}))] == [1]


@pytest.mark.parametrize("operator", ["RSTREAM", "ISTREAM", "DSTREAM"])
def test_a_triple_that_would_be_a_subject_is_left_out_of_what_is_constructed(operator: str) -> None:
    text = f"REGISTER {operator} <urn:out> AS CONSTRUCT {{ ?o ?p ?s }} {W} {{ WINDOW <urn:w> {{ ?s ?p ?o }} }}"
    stream = [(1000, Triple(A, P, Triple(A, P, B))), (1000, Triple(A, P, B)), (4000, Triple(A, P, A))]
    expected = said(results(text, "snapshot", {"urn:s": stream}, {}))
    assert said(results(text, "native", {"urn:s": stream}, {})) == expected
    assert sum(bag.total() for _, _, _, bag, _ in expected) == {"RSTREAM": 3, "ISTREAM": 2, "DSTREAM": 1}[operator]


def test_a_window_over_all_begins_where_it_is_asked_as_long_as_nothing_came() -> None:
    windows = "FROM NAMED WINDOW <urn:w> ON <urn:s> [ELEMENTS 1] FROM NAMED WINDOW <urn:all> ON <urn:t> [ALL]"
    text = f"SELECT ?s {windows} {{ WINDOW <urn:w> {{ ?s ?p ?o }} WINDOW <urn:all> {{ ?o ?p ?s }} }}"
    streams = {"urn:s": STREAM, "urn:t": [(3000, Triple(A, P, B)), (4000, Triple(A, P, B))]}
    found = said(results(text, "native", streams, {}))
    assert found == said(results(text, "snapshot", streams, {}))
    assert [dict(windows)["urn:all"] for _, windows, _, _, _ in found] == [(1000, 1000), (2000, 2000)]
