"""SUM, AVG, MIN and MAX of groups are what the SPARQL library makes of them, whatever is in a group."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, QuerySolutions, Store

from freshkeeper.maintenance.native.aggregates import Aggregated
from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.plan_head import Aggregate

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
            Literal("no number", datatype=NamedNode(XSD + "integer")),
            None,
        ]
    ),
)


def by_library(function: str, drawn: Drawn, groups: int, distinct: str) -> list[object]:
    """A query for each group."""
    found = []
    for group in range(groups):
        store = Store()
        for n, (of, term) in enumerate(drawn):
            if of == group:
                store.add(Quad(NamedNode(f"urn:{n}"), NamedNode("urn:p"), NamedNode("urn:p")))
                if term is not None:
                    store.add(Quad(NamedNode(f"urn:{n}"), NamedNode("urn:v"), term))
        body = "?row <urn:p> <urn:p> OPTIONAL { ?row <urn:v> ?v }"
        rows = store.query(f"SELECT ({function}({distinct}?v) AS ?made) {{ {body} }}")
        assert isinstance(rows, QuerySolutions)
        found.append(next(iter(rows))["made"])
    return found


@pytest.mark.parametrize("function", ["SUM", "AVG", "MIN", "MAX"])
@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), terms), max_size=12), st.sampled_from(["", "DISTINCT "]))
def test_they_are_those_of_the_library(function: str, drawn: Drawn, distinct: str) -> None:
    dictionary = Dictionary()
    if function in ("MIN", "MAX"):  # of equal values of several types it is one of them
        drawn = [(group, term) for group, term in drawn if term is None or term.value not in ("1", "1.0")]
        drawn = [each for each in drawn if not (isinstance(each[1], Literal) and each[1].value.endswith(".0"))]
    column = np.array([-1 if term is None else dictionary.id(term) for _, term in drawn], np.int64)
    groups = np.array([group for group, _ in drawn], np.int64)
    ids = Aggregated(dictionary).rows(Aggregate("made", "v", bool(distinct), function), groups, column, 4)
    assert [None if id < 0 else dictionary.term(id) for id in ids.tolist()] == by_library(function, drawn, 4, distinct)


def test_many_integers_are_not_asked_of_the_library() -> None:
    dictionary = Dictionary()
    column = dictionary.encode([Literal(n) for n in range(1000)])
    groups = np.arange(1000) % 2
    made = Aggregated(dictionary)
    made._asked = None  # type: ignore[method-assign, assignment]
    sums = made.rows(Aggregate("made", "v", False, "SUM"), groups, column, 2)
    means = made.rows(Aggregate("made", "v", False, "AVG"), groups, column, 2)
    assert dictionary.terms(sums) == [Literal(249_500), Literal(250_000)]
    assert [term.value for term in dictionary.terms(means)] == ["499", "500"]
