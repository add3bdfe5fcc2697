"""Static graphs as columns: read as they always were, and shared."""

from pathlib import Path

import pytest
from evaluators import said
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Triple

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.graph_columns import StaticPattern
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.native.joins import DeltaJoin
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run

TEXT = """<urn:a> <urn:p> <urn:b> .
# a remark
<urn:a> <urn:p> <urn:b> .

<urn:b> <urn:p> "01"^^<http://www.w3.org/2001/XMLSchema#integer> .
<urn:b> <urn:q> "x"@en .
"""


def read(tmp_path: Path, text: str, name: str = "g.nt") -> set[Triple]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    graphs = StaticGraphs(Dictionary(), {"": path})
    return {quad.triple for quad in graphs[""]}


def test_a_file_is_a_set_of_triples_as_the_store_has_them(tmp_path: Path) -> None:
    a, b, p, q = (NamedNode(f"urn:{name}") for name in "abpq")
    expected = {Triple(a, p, b), Triple(b, p, Literal(1)), Triple(b, q, Literal("x", language="en"))}
    assert read(tmp_path, TEXT) == read(tmp_path, TEXT, "g.ttl") == expected


def test_blank_nodes_and_long_files_are_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(tmp_path, TEXT + "_:n <urn:p> _:n .\n")
    assert len(found) == 4
    assert any(isinstance(triple.subject, BlankNode) and triple.subject == triple.object for triple in found)
    monkeypatch.setattr("freshkeeper.maintenance.engine.columns.static_graphs.CHUNK", 40)
    assert read(tmp_path, TEXT) == read(tmp_path, TEXT, "g.ttl")


@pytest.mark.parametrize("wrong", ["<urn:a> <urn:p> .", "<urn:a> <urn:p> <urn:b> <urn:g> .", "<urn:a> 'p' <urn:b> ."])
def test_what_is_no_triple_has_its_line(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InputError, match="line 7"):
        read(tmp_path, TEXT + wrong + "\n")


terms = st.sampled_from([NamedNode(f"urn:{name}") for name in "abc"])
triples = st.lists(st.tuples(terms, terms, terms), max_size=12)
places = st.sampled_from(["x", "x", "y", "z", *[NamedNode(f"urn:{name}") for name in "ab"]])


@given(triples, st.lists(st.tuples(places, places, places), min_size=1, max_size=3))
def test_joins_are_those_of_all_combinations(
    held: list[tuple[NamedNode, ...]], patterns: list[tuple[str | NamedNode, ...]]
) -> None:
    dictionary = Dictionary()
    graph = StaticGraphs(dictionary, {"": [Quad(*each) for each in held]}).columns("")
    ids = [tuple(t if isinstance(t, str) else dictionary.id(t) for t in each) for each in patterns]
    expected: list[dict[str, int]] = [{}]
    for pattern in ids:
        facts = [tuple(dictionary.encode(each).tolist()) for each in set(held)]
        expected = [
            bound | dict(pairs)
            for bound in expected
            for fact in facts
            if all(bound.get(t, v) == v if isinstance(t, str) else t == v for t, v in zip(pattern, fact, strict=True))
            if len({*(pairs := [(t, v) for t, v in zip(pattern, fact, strict=True) if isinstance(t, str)])})
            == len(dict(pairs))
        ]
    found = [
        {name: int(column[n]) for name, column in part.bound.items()}
        for part in DeltaJoin([StaticPattern(graph, each) for each in ids]).all()  # type: ignore[arg-type]
        for n in range(part.size)
    ]
    assert sorted(map(sorted, map(dict.items, found))) == sorted(map(sorted, map(dict.items, expected)))


QUERY = """SELECT ?x ?n FROM <urn:names> FROM NAMED <urn:plan>
FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S]
{ WINDOW <urn:w> { ?x <urn:at> ?l } ?x <urn:name> ?n GRAPH <urn:plan> { ?l <urn:door> ?m } FILTER(?l != ?m) }"""


def test_named_graphs_are_where_the_query_wants_them() -> None:
    x, a, b, at, name, door = (NamedNode(f"urn:{word}") for word in ("x", "a", "b", "at", "name", "door"))
    graphs = {"urn:names": [Quad(x, name, Literal("X"))], "urn:plan": [Quad(a, door, b), Quad(a, door, a)]}
    stream = {"urn:s": [(100, Triple(x, at, a)), (3_500, Triple(x, at, b))]}
    native, snapshot = (said(run(build(parse(QUERY), graphs, evaluator=EvaluatorKind(kind)), stream)) for kind in
                        ("native", "snapshot"))  # fmt: skip
    assert native == snapshot
    assert sum(native[0][3].values()) == 1


def test_a_graph_that_nobody_gives_is_named() -> None:
    with pytest.raises(ConfigError, match="urn:plan"):
        build(parse(QUERY), {"urn:names": []}, evaluator=EvaluatorKind.NATIVE)
