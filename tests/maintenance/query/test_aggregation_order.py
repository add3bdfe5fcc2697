"""Aggregates are made in one order, whatever order a store has."""

import pytest
from pyoxigraph import Literal, NamedNode, Quad, QuerySolutions, Store

from freshkeeper.maintenance.query.row_order import order_aggregates

DECIMAL, DATE = (NamedNode(f"http://www.w3.org/2001/XMLSchema#{name}") for name in ("decimal", "dateTime"))


def made(query: str, values: list[Literal]) -> list[tuple[object, ...]]:
    """What a query says of values that were stored in this order."""
    store = Store()
    for n, value in enumerate(values):
        store.add(Quad(NamedNode(f"urn:{n}"), NamedNode("urn:v"), value))
    found = store.query(query)
    assert isinstance(found, QuerySolutions)
    return [tuple(solution) for solution in found]


@pytest.mark.parametrize(
    ("function", "values"),
    [
        ("SUM", [Literal(0.1), Literal(0.2), Literal(0.3)]),
        ("AVG", [Literal(1e16), Literal(1.0), Literal(-1e16)]),
        ("SUM", [Literal(2**63 - 1), Literal(1), Literal(-2)]),
        ("MIN", [Literal(1), Literal("1", datatype=DECIMAL)]),
        ("MAX", [Literal(1.0), Literal(1)]),
        ("SUM DISTINCT", [Literal(0.1), Literal(0.2), Literal(0.3), Literal(0.2)]),
    ],
)
def test_an_aggregate_does_not_depend_on_the_order_of_its_values(function: str, values: list[Literal]) -> None:
    name, _, distinct = function.partition(" ")
    query = f"SELECT ({name}({distinct} ?v) AS ?made) WHERE {{ ?x <urn:v> ?v }}"
    rotated = [values[n:] + values[:n] for n in range(len(values))]
    each = [*rotated, *(one[::-1] for one in rotated)]
    assert len({str(made(query, one)) for one in each}) > 1, "without one order it does"
    assert len({str(made(order_aggregates(query), one)) for one in each}) == 1


def test_what_the_library_cannot_sort_is_no_trouble() -> None:
    dates = [Literal(f"2020-01-0{n % 3 + 1}T{n % 24:02}:00:00{'Z' * (n % 2)}", datatype=DATE) for n in range(60)]
    query = order_aggregates("SELECT (MAX(?v) AS ?last) (COUNT(*) AS ?n) { ?x <urn:v> ?v }")
    assert made(query, dates) == made(query, dates[::-1])


def test_counting_needs_no_order() -> None:
    text = "SELECT ?x (COUNT(DISTINCT ?v) AS ?n) { ?x <urn:v> ?v } GROUP BY ?x"
    assert order_aggregates(text) == text
