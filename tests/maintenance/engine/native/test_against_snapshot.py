"""Random conjunctive queries over random streams give the same on both evaluators."""

from collections.abc import Sequence

import pytest
from evaluators import Elements, results, said
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Triple
from terms import in_default_graph

from freshkeeper.maintenance.engine.native.moving_query import MovingQuery
from freshkeeper.maintenance.engine.native.native_plan import plan_of
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind, NotNativeError
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run

NAMES = [NamedNode(f"urn:{name}") for name in "abc"]
PREDICATES = [NamedNode(f"urn:{name}") for name in "pppq"]
VALUES = [
    *NAMES,
    Literal("1"),
    Literal(1),
    Literal("01", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#integer")),
    Literal("x", language="en"),
    BlankNode("n"),
]
TERMS = st.sampled_from(["?x", "?x", "?x", "?y", "?y", "?z", "<urn:a>"])
OBJECTS = st.sampled_from(["?y", "?y", "?z", "?z", "?x", "<urn:a>", "1"])
EXTENTS = ["RANGE PT2S STEP PT1S", "RANGE PT3S STEP PT2S", "RANGE PT1S STEP PT3S", "RANGE PT2S", "NOW", "ALL",
           "RANGE PT1S", "RANGE PT3S", "NOW", "ELEMENTS 1 STEP 1",
           "ELEMENTS 3 STEP 1", "ELEMENTS 2 STEP 3", "RANGE PT2S STEP PT1S CLOSURE RIGHT_OPEN"]  # fmt: skip
FILTERS = [
    "FILTER(?x != ?y)",
    "FILTER(?y = ?z)",
    "FILTER(?x > 0)",
    "FILTER(isIRI(?y))",
    "FILTER(?z < 2 || ?x = <urn:a>)",
]

BINDS = [
    "BIND(STR(?x) AS ?k)",
    "BIND(?y + 1 AS ?k)",
    "BIND(?z AS ?k) FILTER(?k != ?x)",
    "BIND(IF(?y = 1, ?x, ?y) AS ?k) BIND(STR(?k) AS ?l)",
]
HEADS = [
    *["SELECT *", "SELECT DISTINCT *", "SELECT ?x", "SELECT DISTINCT ?x", "SELECT ?y ?x"] * 2,
    "SELECT ?x (STR(?y) AS ?said)",
    "SELECT DISTINCT (?y * 2 AS ?double)",
    "SELECT (COUNT(*) AS ?n)",
    "SELECT ?x (SUM(?y) AS ?n) (AVG(DISTINCT ?z) AS ?m) GROUP BY ?x",
    "SELECT (MIN(?y) AS ?n) (MAX(?z) AS ?m)",
    "SELECT ?x (COUNT(?y) AS ?n) (COUNT(DISTINCT ?y) AS ?m) GROUP BY ?x",
    "SELECT DISTINCT (COUNT(DISTINCT ?z) AS ?n) GROUP BY ?x ?y",
    "CONSTRUCT { ?x <urn:out> ?y . ?y ?z ?x }",
    "CONSTRUCT { <urn:a> <urn:out> ?y }",
    "ASK",
]

patterns = st.builds(
    lambda s, p, o: f"{s} {p} {o} .", TERMS, st.sampled_from(["<urn:p>"] * 5 + ["?p", "?p", "<urn:q>", "?x"]), OBJECTS
)
blocks = st.lists(patterns, min_size=1, max_size=2).map(" ".join)


@st.composite
def queries(draw: st.DrawFn, kinds: Sequence[str] = EXTENTS) -> str:
    """One or two windows, a static part, a filter, computed values; all operators and forms."""
    extents = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=2))
    windows = "".join(f"FROM NAMED WINDOW <urn:w{n}> ON <urn:s{n % 2}> [{one}]\n" for n, one in enumerate(extents))
    body = " ".join(f"WINDOW <urn:w{n}> {{ {draw(blocks)} }}" for n in range(len(extents)))
    if draw(st.booleans()):
        body += f" {draw(blocks)}"
    if draw(st.booleans()):
        body += f" {draw(st.sampled_from(FILTERS))}"
    if draw(st.booleans()):
        body += f" {draw(st.sampled_from(BINDS))}"
    operator = draw(st.sampled_from(["RSTREAM", "ISTREAM", "DSTREAM"]))
    head, _, grouped = draw(st.sampled_from(HEADS)).partition(" GROUP BY ")
    tail = f" GROUP BY {grouped}" if grouped else ""
    report = draw(st.sampled_from(["", "REPORT ON_CONTENT_CHANGE", "REPORT NON_EMPTY, ON_CONTENT_CHANGE"]))
    prologue = draw(st.sampled_from(["", "PREFIX e: <urn:> ", "BASE <urn:> PREFIX select: <urn:> "]))
    return f"{prologue}REGISTER {operator} <urn:out> AS {head}\n{windows}{report} WHERE {{ {body} }}{tail}"


triples = st.builds(
    Triple, st.sampled_from([*NAMES, BlankNode("n")]), st.sampled_from(PREDICATES), st.sampled_from(VALUES)
)
streams = st.lists(st.tuples(st.integers(0, 9).map(lambda n: n * 500), triples), min_size=4, max_size=25).map(
    lambda found: sorted(found, key=lambda element: element[0])
)
graphs = st.lists(triples, min_size=3, max_size=12)


def native(text: str) -> bool:
    """Whether there is a plan."""
    try:
        plan_of(parse(text))
    except NotNativeError:
        return False
    return True


@settings(max_examples=examples(300))
@given(text=queries(), first=streams, second=streams, graph=graphs)
def test_both_evaluators_say_the_same(text: str, first: Elements, second: Elements, graph: list[Triple]) -> None:
    if not native(text):
        return
    fed = {"urn:s0": first, "urn:s1": second} if "urn:w1" in text else {"urn:s0": first}
    static = {"": [in_default_graph(triple) for triple in graph]}
    expected = said(results(text, "snapshot", fed, static))
    assert said(results(text, "native", fed, static)) == expected


MOVING = ["RANGE PT2S", "RANGE PT1S", "NOW", "ALL", "ELEMENTS 1 STEP 1", "ELEMENTS 3 STEP 1", "ELEMENTS 2 STEP 3"]


@settings(max_examples=examples(300))
@given(text=queries(MOVING), first=streams, second=streams, graph=graphs, most=st.integers(1, 6), quiet=st.booleans())
def test_batches_of_any_size_say_the_same(
    text: str, first: Elements, second: Elements, graph: list[Triple], most: int, quiet: bool
) -> None:
    if not native(text):
        return
    fed = {"urn:s0": first, "urn:s1": second} if "urn:w1" in text else {"urn:s0": first}
    static = {"": [in_default_graph(triple) for triple in graph]}
    query = build(parse(text), static, evaluator=EvaluatorKind.NATIVE)
    if isinstance(query, MovingQuery):
        query.most, query.quiet = most, quiet
        expected = results(text, "snapshot", fed, static)
        assert said(run(query, fed)) == said(one for one in expected if one.answers or not quiet)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?s FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S] { WINDOW <urn:w> { ?s <urn:p>+ ?o } }",
    ],
)
def test_what_is_no_join_has_a_reason(text: str) -> None:
    with pytest.raises(NotNativeError, match="path"):
        plan_of(parse(text))
