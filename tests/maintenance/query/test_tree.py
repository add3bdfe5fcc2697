"""The syntax tree: its elements at their places, and the triples that a triple pattern stands for."""

from collections.abc import Sequence

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.query.model import Form, Query, QueryExpression
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.source_text import Path, Quoted
from freshkeeper.maintenance.query.syntax.tree import Element, ServiceBlock, TriplePattern, WindowBlock

E = "http://e/"
PROLOGUE = Prologue(None, (("", E),))
XSD = "http://www.w3.org/2001/XMLSchema#"


def tree(pattern: str) -> tuple[Element, ...]:
    """The elements of a group."""
    return Query(QueryExpression(PROLOGUE, "SELECT *", f"{{ {pattern} }}"), Form.SELECT).group


def triples(pattern: str) -> list[tuple[object, ...]]:
    """What the triple patterns of a group stand for."""
    return [triple for e in tree(pattern) if isinstance(e, TriplePattern) for triple in e.triples]


def test_every_element_stands_at_its_place_inside_the_one_that_holds_it() -> None:
    query = parse(
        "PREFIX : <http://e/> SELECT ?t (COUNT(*) AS ?n) FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S] WHERE { "
        "WINDOW :w { ?p :topic ?t ; :by ?u, _:b # who\n FILTER NOT EXISTS { ?p :hidden true } } "
        "OPTIONAL { SERVICE SILENT :b { ?t :n ?n } } { SELECT ?t { ?t a :T } LIMIT 3 } UNION { VALUES ?t { 1 UNDEF } } "
        "BIND(STR(?t) AS ?name) MINUS { GRAPH ?g { ?t :p/:q* ?x } } } GROUP BY ?t (STR(?u) AS ?v) HAVING(?n > 1)"
    )
    source = query.expression.source.tokens.text
    for outer in query.tree.walk():
        assert source[outer.start : outer.end].startswith(outer.text.split()[0])
        assert all(outer.start <= inner.start <= inner.end <= outer.end for inner in outer.inner)
        assert frozenset().union(*(inner.always for inner in outer.inner)) <= frozenset().union(
            *(inner.variables for inner in outer.inner)
        )
    names = [type(element).__name__ for element in query.group]
    assert names == ["WindowBlock", "Optional", "Union", "Bind", "Minus"]
    window, _, union, bind, minus = query.group
    assert isinstance(window, WindowBlock)
    assert window.iri == f"{E}w"
    assert window.always == window.bound == {"p", "t", "u", "_:b"}
    assert [e.text for e in window.inner[:3]] == ["?p :topic ?t", "?p :by ?u", "?p :by _:b"]
    assert not union.always
    assert union.bound == {"t"}
    assert bind.bound == {"name"}
    assert not minus.bound
    assert minus.predicates == {f"{E}p", f"{E}q"}
    assert query.tree.grouped == {"t"}
    assert (query.tree.aggregated, list(query.tree.columns)) == (True, ["t", "n"])
    (service,) = (e for e in query.tree.deep() if isinstance(e, ServiceBlock))
    assert (service.iri, service.silent, service.group.text) == (f"{E}b", True, "{ ?t :n ?n }")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("?s a :T ; :p 1, ?o .", [("s", "rdf:type", f"<{E}T>"), ("s", "p", f'"1"^^<{XSD}integer>'), ("s", "p", "o")]),
        ("?s ?p 'x'@en", [("s", "?p", '"x"@en')]),
        ("_:b :p '5'^^:t", [("_:b", "p", f'"5"^^<{E}t>')]),
        ("?s :p -1.5", [("s", "p", f'"-1.5"^^<{XSD}decimal>')]),
        ("?s :p [ :q ?x ; :r [] ]", [("s", "p", "_:[16"), ("_:[16", "q", "x"), ("_:[16", "r", "_:[29")]),
        ("[ :q ?x ] :p ?o", [("_:[10", "q", "x"), ("_:[10", "p", "o")]),
        ("?s :p ()", [("s", "p", "<rdf:nil>")]),
        (
            "?s :p (1 ?x)",
            [("s", "p", "_:(17"), ("_:(17", "rdf:first", f'"1"^^<{XSD}integer>'), ("_:(17", "rdf:rest", "_:(19"),
             ("_:(19", "rdf:first", "x"), ("_:(19", "rdf:rest", "<rdf:nil>")],
        ),
    ],
)  # fmt: skip
def test_the_triples_of_a_pattern_by_hand(pattern: str, expected: list[tuple[str, str, str]]) -> None:
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    assert [tuple(str(term) for term in triple) for triple in triples(pattern)] == [
        (
            s,
            p[1:] if p.startswith("?") else f"<{rdf}{p[4:]}>" if p.startswith("rdf:") else f"<{E}{p}>",
            o.replace("rdf:", rdf),
        )
        for s, p, o in expected
    ]


def test_paths_and_quoted_triples_keep_their_text_with_names_in_full() -> None:
    ((_, path, _),) = triples("?s ^:p/(:q|a)* ?o")
    assert path == Path(
        f"^<{E}p>/(<{E}q>|<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>)*",
        frozenset({f"{E}p", f"{E}q", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"}),
    )
    ((_, _, quoted),) = triples("?s :p <<( ?a :q ?b )>>")
    assert isinstance(quoted, Quoted)
    assert quoted.iris == {f"{E}q"}


nodes = st.recursive(
    st.sampled_from([":a", ":b", "1", "'x'", "true", "_:z", "()", "[]"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda given: f"({' '.join(given)})"),
        st.lists(inner, min_size=1, max_size=2).map(lambda given: f"[ :p {', '.join(given)} ]"),
    ),
    max_leaves=5,
)
sentences = st.builds(
    lambda subject, first, more: f"{subject} :p {', '.join(first)} {''.join(f'; :q {node} ' for node in more)}.",
    st.sampled_from([":s", "_:z", "[ :r 1 ]", "(:a 2)"]),
    st.lists(nodes, min_size=1, max_size=3),
    st.lists(nodes, max_size=2),
)


@given(st.lists(sentences, min_size=1, max_size=3))
def test_a_group_without_variables_stands_for_the_triples_that_turtle_says(written: list[str]) -> None:
    text = " ".join(written)
    dataset = ox.Dataset(ox.parse(f"@prefix : <{E}> . {text}".encode(), format=ox.RdfFormat.TURTLE))
    ours = ox.Dataset(_quad(triple) for triple in triples(text))
    dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    ours.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    assert ours == dataset


def _quad(triple: Sequence[object]) -> ox.Quad:
    subject, predicate, value = map(_term, triple)
    assert not isinstance(subject, ox.Literal)
    assert isinstance(predicate, ox.NamedNode)
    return ox.Quad(subject, predicate, value)


def _term(term: object) -> ox.NamedNode | ox.BlankNode | ox.Literal:
    if isinstance(term, str):
        return ox.BlankNode("".join(c if c.isalnum() else f"x{ord(c)}" for c in term))
    assert isinstance(term, ox.NamedNode | ox.Literal)
    return term
