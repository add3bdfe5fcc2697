"""Triples with times: what is written is read again, in five ways to speak of a triple and three to say its time."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, Triple

from freshkeeper.maintenance.annotated.page_writer import PagePosition
from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.sources.fragments.annotation_style import (
    EXPIRATION,
    FLAT_FINAL,
    FLAT_INITIAL,
    AnnotationEncoding,
    AnnotationStyle,
    TimedTriple,
    TimeEncoding,
    date_literal,
    read_elements,
)
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern

STYLES = [AnnotationStyle(*both) for both in product(AnnotationEncoding, TimeEncoding)]
NAMES = st.integers(0, 3)


def address(pattern: QuadPattern) -> str:
    return PagePosition("http://e/data", pattern, 1, 1, 0).fragment


def triple(n: int) -> Triple:
    return Triple(NamedNode(f"http://e/s{n}"), NamedNode(f"http://e/p{n % 2}"), Literal(n))


def written(elements: list[TimedTriple], style: AnnotationStyle) -> list[Quad]:
    return [quad for n, held in enumerate(elements) for quad in style.quads(held, f"urn:e:{n}", address)]


@given(st.sampled_from(STYLES), st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), max_size=6))
def test_elements_are_read_as_they_were_written_beside_triples_without_a_time(
    style: AnnotationStyle, spans: list[tuple[int, int]]
) -> None:
    elements = [TimedTriple(triple(n), since, since + lasts) for n, (since, lasts) in enumerate(spans)]
    plain = Quad(NamedNode("http://e/t"), NamedNode("http://e/p1"), Literal("plain"))
    read = read_elements([plain, *written(elements, style)], style, address)
    begins = style.timing is not TimeEncoding.EXPIRATION
    expected = {TimedTriple(held.triple, held.since if begins else DISTANT_PAST, held.until) for held in elements}
    assert set(read.elements) == expected
    assert read.plain == [plain]
    assert not read.odd


def test_flat_intervals_are_open_at_the_beginning_and_closed_at_the_end() -> None:
    graph = NamedNode("http://e/g")
    quads = [
        Quad(NamedNode("http://e/s"), NamedNode("http://e/p"), Literal(1), graph),
        Quad(graph, FLAT_INITIAL, date_literal(1000)),
        Quad(graph, FLAT_FINAL, date_literal(2000)),
    ]
    (held,) = read_elements(quads, AnnotationStyle(AnnotationEncoding.GRAPH, TimeEncoding.FLAT), address).elements
    assert (held.since, held.until) == (1001, 2001)


@pytest.mark.parametrize("style", STYLES, ids=lambda style: f"{style.speaking} {style.timing}")
def test_an_element_that_ends_before_it_begins_is_odd_and_holds_never(style: AnnotationStyle) -> None:
    quads = written([TimedTriple(triple(1), 2000, 1000)], style)
    read = read_elements(quads, style, address)
    if style.timing is not TimeEncoding.EXPIRATION:
        assert not read.elements
        assert "not after its begin" in read.odd[0]


def test_a_time_that_is_none_and_a_graph_without_one_are_odd() -> None:
    style, graph = AnnotationStyle(), NamedNode("http://e/g")
    element = Quad(NamedNode("http://e/s"), NamedNode("http://e/p"), Literal(1), graph)
    assert "has no time" in read_elements([element], style, address).odd[0]
    read = read_elements([element, Quad(graph, EXPIRATION, Literal("soon"))], style, address)
    assert not [held for held in read.elements if held.until > 0]
    assert "not a date and time" in read.odd[0]


@pytest.mark.parametrize("timing", [TimeEncoding.INTERVAL, TimeEncoding.FLAT])
def test_a_value_that_comes_back_holds_in_each_of_its_intervals(timing: TimeEncoding) -> None:
    style, spans = (
        AnnotationStyle(AnnotationEncoding.IMPLICIT, timing),
        [(1_000, 2_000), (5_000, 6_000), (2_000, 3_000)],
    )
    read = read_elements(written([TimedTriple(triple(1), *span) for span in spans], style), style, address)
    assert {(held.since, held.until) for held in read.elements} == set(spans)
    assert not read.odd


@pytest.mark.parametrize(
    "style", [AnnotationStyle(AnnotationEncoding.GRAPH, timing) for timing in TimeEncoding], ids=str
)
def test_whichever_time_is_none_the_triple_holds_never(style: AnnotationStyle) -> None:
    quads = written([TimedTriple(triple(1), 1_000, 2_000)], style)
    times = [
        n for n, quad in enumerate(quads) if isinstance(quad.object, Literal) and "date" in quad.object.datatype.value
    ]
    assert times
    for n in times:
        broken = [
            Quad(q.subject, q.predicate, Literal("soon") if m == n else q.object, q.graph_name)
            for m, q in enumerate(quads)
        ]
        read = read_elements(broken, style, address)
        assert not [held for held in read.elements if held.until > 0]
        assert any("not a date and time" in odd for odd in read.odd)


def test_several_triples_of_one_graph_share_its_time() -> None:
    style, graph = AnnotationStyle(), NamedNode("http://e/g")
    quads = [Quad(NamedNode("http://e/s"), NamedNode("http://e/p"), Literal(n), graph) for n in range(3)]
    assert len(read_elements([*quads, Quad(graph, EXPIRATION, date_literal(5))], style, address).elements) == 3
