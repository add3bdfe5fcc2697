"""Texts that one of the two evaluators misread: both answer as SPARQL says, by hand."""

import pytest
from pyoxigraph import Literal, NamedNode, Triple
from queries import E, Written, by_time, elements, quads

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import continuous_query, run
from freshkeeper.maintenance.sources.sources import Source

WINDOW = "FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S]"


def answers(kind: str, head: str, pattern: str, stream: Written, graph: str) -> list[str]:
    """The answers of the first evaluation of a query over a window and the static graph :g."""
    text = f"PREFIX : <{E}> {head} {WINDOW} FROM NAMED :g {{ {pattern} }}"
    query = build(parse(text), {f"{E}g": quads(graph)}, evaluator=EvaluatorKind(kind))
    engine = Engine([query])
    engine.listen(f"{E}s", elements(stream))
    return by_time(engine.run())[1000]


@pytest.mark.parametrize("kind", ["auto", "snapshot"])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("?s ?k +5", ["p a", "p d"]),
        ("?s :p +5", ["a", "d"]),
        ("?s :p+5", ["a", "d"]),  # the longest token is +5, so this is no path
        ("?s :p + 5", ["a", "c", "d"]),
        ("?s :p -5", ["b"]),
        ("?s :p +5 , +5 ; :q 1", ["d"]),
    ],
)
def test_a_sign_before_a_digit_belongs_to_the_number(kind: str, pattern: str, expected: list[str]) -> None:
    stream = [(1000, ":a :p 5"), (1000, ":b :p -5"), (1000, ":c :p :a"), (1000, ":d :p 5 ; :q 1")]
    assert answers(kind, "SELECT *", f"WINDOW :w {{ {pattern} }}", stream, ":x :y :z") == expected


@pytest.mark.parametrize("kind", ["auto", "snapshot"])
@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("GRAPH <urn:nope> {}", []),
        ("GRAPH <urn:nope> { {} }", []),
        ("GRAPH :g {}", ["5 a"]),
        ("GRAPH <urn:nope> { ?x :y ?z }", []),
    ],
)
def test_a_graph_that_does_not_exist_has_no_solution(kind: str, block: str, expected: list[str]) -> None:
    pattern = f"WINDOW :w {{ ?s :p ?o }} {block}"
    assert answers(kind, "SELECT *", pattern, [(1000, ":a :p 5")], ":x :y :z") == expected


@pytest.mark.parametrize("kind", ["auto", "snapshot"])
@pytest.mark.parametrize(
    ("static", "expected"),
    [
        ("?s :y ?z {| :k ?q |}", ["5 v a z"]),
        ("?s :y ?z ~ ?r", ["5 r1 a z"]),
        ("?s :y ?z ~ ?r {| :k ?q |} , ?other ; :t 1 .", ["5 z v r1 a z"]),
        ("?s :y ?z {| :k ?q {| :m ?n |} |}", ["1 5 v a z"]),
        ("?s :y ?z ~ :r2", []),
        ("<< ?s :y ?z ~ ?r >> :k ?q", ["5 v r1 a z"]),
        ("<< ?s :y ?z >>", ["5 a z"]),
    ],
)
def test_annotations_and_reifiers_over_a_static_graph(kind: str, static: str, expected: list[str]) -> None:
    graph = ":a :y :z ~ :r1 {| :k :v {| :m 1 |} |} ; :t 1"
    pattern = f"WINDOW :w {{ ?s :p ?o }} GRAPH :g {{ {static} }}"
    assert answers(kind, "SELECT *", pattern, [(1000, ":a :p 5")], graph) == expected


@pytest.mark.parametrize("kind", ["auto", "snapshot"])
@pytest.mark.parametrize(
    ("pattern", "expected"), [("?s :p ?o ~ ?r", ["5 r1 a"]), ("?s :p ?o {| :k ?q |}", ["5 v a"]), ("?s :p ?o", ["5 a"])]
)
def test_annotations_and_reifiers_in_a_window(kind: str, pattern: str, expected: list[str]) -> None:
    stream = [(1000, ":a :p 5 ~ :r1 {| :k :v |}")]
    assert answers(kind, "SELECT *", f"WINDOW :w {{ {pattern} }}", stream, ":x :y :z") == expected


@pytest.mark.parametrize("evaluation", ["view", "always", "once"])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("SERVICE SILENT <urn:nope> { ?s :n ?k }", [{"s": "a", "o": "5"}]),
        ("SERVICE SILENT <urn:nope> {}", [{"s": "a", "o": "5"}]),
        ("SERVICE :blog { ?s :n ?k } SERVICE SILENT <urn:nope> { ?s :n ?l }", [{"s": "a", "o": "5", "k": "5"}]),
        ("SERVICE :blog { ?s :n +5 }", [{"s": "a", "o": "5"}]),
        ("SERVICE :blog { ?s :n +6 }", []),
        ("SERVICE :blog { ?s :n ?k ~ ?r }", [{"s": "a", "o": "5", "k": "5", "r": "r1"}]),
    ],
)
def test_services_without_a_source_and_with_every_kind_of_object(
    evaluation: str, pattern: str, expected: list[dict[str, str]]
) -> None:
    sources = {f"{E}blog": Source.embedded(f"PREFIX : <{E}> :a :n 5 ~ :r1 .", [f"{E}n"])}
    text = f"PREFIX : <{E}> SELECT * {WINDOW} {{ WINDOW :w {{ ?s :p ?o }} {pattern} }}"
    element = Triple(NamedNode(f"{E}a"), NamedNode(f"{E}p"), Literal(5))
    (result,) = run(continuous_query(text, sources, fetch=evaluation), {f"{E}s": [(1000, element)]})
    found = [{k: str(v.value).removeprefix(E) for k, v in row.items()} for row, _ in result.solutions()]  # type: ignore[union-attr]
    assert found == expected


def test_a_service_that_is_not_silent_needs_its_source() -> None:
    with pytest.raises(ConfigError, match="there is no source <urn:nope>: give it as --source 'urn:nope=FILE'"):
        continuous_query(f"PREFIX : <{E}> SELECT * {WINDOW} {{ WINDOW :w {{ ?s :p ?o }} SERVICE <urn:nope> {{}} }}")


@pytest.mark.parametrize(
    "pattern", ["?s :p WINDOW :w { ?s :p ?o }", "OPTIONAL WINDOW :w { ?s :p ?o }", "FILTER WINDOW :w { ?s :p ?o }"]
)
def test_an_error_at_a_window_block_speaks_of_window(pattern: str) -> None:
    with pytest.raises(QuerySyntaxError, match="SPARQL does not accept WINDOW here"):
        parse(f"PREFIX : <{E}> SELECT * {WINDOW} {{ {pattern} }}")


@pytest.mark.parametrize("kind", ["auto", "snapshot"])
@pytest.mark.parametrize(
    ("made", "values", "expected"),
    [
        ("SUM(?o)", ["9223372036854775807", "2"], ["9223372036854775809"]),
        ("SUM(?o)", ["-9223372036854775808", "-1"], ["-9223372036854775809"]),
        ("SUM(?o)", ["99999999999999999999", "1"], ["100000000000000000000"]),
        ("SUM(?o)", ["9223372036854775807", "2", "0.5"], ["9223372036854775809.5"]),
        ("SUM(DISTINCT ?o)", ["9223372036854775807", "2"], ["9223372036854775809"]),
        ("AVG(?o)", ["9223372036854775807", "4"], ["4611686018427387905.5"]),
        ("AVG(?o)", ["9223372036854775807", "1", "3"], ["3074457345618258603.666666666666666666"]),
        ("SUM(?o)", ["9223372036854775807", "2", '"x"'], ["-"]),
        ("SUM(?o)", ["2", "3"], ["5"]),
    ],
)
def test_sums_go_beyond_64_bits(kind: str, made: str, values: list[str], expected: list[str]) -> None:
    stream = [(1000, f":a :p {value}") for value in values]
    assert answers(kind, f"SELECT ({made} AS ?n)", "WINDOW :w { ?s :p ?o }", stream, ":x :y :z") == expected
