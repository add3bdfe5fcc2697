"""SUM, AVG, MIN and MAX of groups are what the SPARQL library makes of them in one order, whatever is in a group."""

import numpy as np
import pytest
from evaluators import results, said
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, Triple
from terms import text_of

from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.evaluator import Snapshot, Table
from freshkeeper.maintenance.engine.native.aggregates import AggregateEvaluator
from freshkeeper.maintenance.engine.native.plan_head import Aggregate
from freshkeeper.maintenance.query.row_order import order_aggregates

XSD = "http://www.w3.org/2001/XMLSchema#"
Drawn = list[tuple[int, Literal | NamedNode | None]]
integers = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
decimals = st.integers(-500, 500).map(lambda n: Literal(f"{n / 100}", datatype=NamedNode(XSD + "decimal")))
numbers = st.one_of(integers.map(Literal), st.integers(-5, 5).map(Literal))
terms = st.one_of(
    numbers,
    numbers,
    decimals,
    st.sampled_from(
        [
            Literal("a"),
            NamedNode("urn:a"),
            Literal("1", datatype=NamedNode(XSD + "byte")),
            *(Literal(number) for number in (0.1, 0.2, 0.3, 1e16, 1.0, float("nan"))),
            *(Literal(text, datatype=NamedNode(XSD + "float")) for text in ("1", "0.1", "16777216")),
            Literal("2020-01-01T00:00:00", datatype=NamedNode(XSD + "dateTime")),
            Literal("2020-01-01T00:00:00Z", datatype=NamedNode(XSD + "dateTime")),
            Literal("no number", datatype=NamedNode(XSD + "integer")),
            None,
        ]
    ),
)


def by_library(function: str, drawn: Drawn, groups: int, distinct: str) -> list[object]:
    """A query for each group."""
    found: list[object] = []
    for group in range(groups):
        quads = []
        for n, (of, term) in enumerate(drawn):
            if of == group:
                quads.append(Quad(NamedNode(f"urn:{n}"), NamedNode("urn:p"), NamedNode("urn:p")))
                if term is not None:
                    quads.append(Quad(NamedNode(f"urn:{n}"), NamedNode("urn:v"), term))
        body = "?row <urn:p> <urn:p> OPTIONAL { ?row <urn:v> ?v }"
        text = order_aggregates(f"SELECT ({function}({distinct}?v) AS ?made) {{ {body} }}")
        table = Snapshot(quads).find(text, {})
        assert isinstance(table, Table)
        found.append(table.rows[0][0])
    return found


@pytest.mark.parametrize("function", ["SUM", "AVG", "MIN", "MAX"])
@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), terms), max_size=12), st.sampled_from(["", "DISTINCT "]))
def test_they_are_those_of_the_library(function: str, drawn: Drawn, distinct: str) -> None:
    dictionary = Dictionary()
    column = np.array([-1 if term is None else dictionary.id(term) for _, term in drawn], np.int64)
    groups = np.array([group for group, _ in drawn], np.int64)
    ids = AggregateEvaluator(dictionary).rows(
        Aggregate("made", "v", bool(distinct), function), groups, {"v": column}, 4
    )
    made = [None if id < 0 else dictionary.term(id) for id in ids.tolist()]
    assert made == by_library(function, drawn, 4, distinct)
    assert made == by_library(function, drawn[::-1], 4, distinct)


def test_many_integers_are_not_asked_of_the_library() -> None:
    dictionary = Dictionary()
    column = dictionary.encode([Literal(n) for n in range(1000)])
    groups = np.arange(1000) % 2
    made = AggregateEvaluator(dictionary)
    made._by_library = None  # type: ignore[method-assign, assignment]
    sums = made.rows(Aggregate("made", "v", False, "SUM"), groups, {"v": column}, 2)
    means = made.rows(Aggregate("made", "v", False, "AVG"), groups, {"v": column}, 2)
    assert dictionary.terms(sums) == [Literal(249_500), Literal(250_000)]
    assert [text_of(term) for term in dictionary.terms(means)] == ["499", "500"]


HEADS = [
    "SELECT ?x (SUM(?y) AS ?n) (AVG(DISTINCT ?z) AS ?m)",
    "SELECT ?x (MIN(?z) AS ?n) (SUM(DISTINCT ?y) AS ?m) (COUNT(?z) AS ?k)",
    "SELECT (AVG(?z) AS ?n) (SUM(?y) AS ?m) (MAX(?y) AS ?k)",
]
subjects = st.sampled_from([NamedNode(f"urn:{name}") for name in "abc"])
values = terms.filter(lambda term: term is not None)
elements = st.tuples(st.integers(0, 9).map(lambda n: n * 500), subjects, st.sampled_from(["urn:p", "urn:q"]), values)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(HEADS), st.sampled_from(["RSTREAM", "ISTREAM", "DSTREAM"]),
    st.lists(elements, min_size=4, max_size=30), st.sampled_from(["RANGE PT2S STEP PT1S", "ELEMENTS 8 STEP 2"]),
)  # fmt: skip
def test_both_evaluators_say_the_same_of_mixed_numbers(
    head: str, operator: str, drawn: list[tuple[int, NamedNode, str, Literal | NamedNode]], extent: str
) -> None:
    window = f"FROM NAMED WINDOW <urn:w> ON <urn:s> [{extent}]"
    body = f"{{ WINDOW <urn:w> {{ ?x <urn:p> ?y . ?x <urn:q> ?z }} }} {'GROUP BY ?x' if '?x' in head else ''}"
    text = f"REGISTER {operator} <urn:out> AS {head} {window} {body}"
    stream = [(t, Triple(s, NamedNode(p), o)) for t, s, p, o in sorted(drawn, key=lambda each: each[0])]
    expected = said(results(text, "snapshot", {"urn:s": stream}, {}))
    assert said(results(text, "native", {"urn:s": stream}, {})) == expected
