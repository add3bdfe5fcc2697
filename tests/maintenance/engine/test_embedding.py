"""A continuous query inside a Python program."""

import pyoxigraph as ox

from maintenance.engine.embedding import continuous_query
from maintenance.engine.engine import run
from maintenance.engine.sources import Source

E = "http://example.org/"
BLOG = f"PREFIX : <{E}> :jazz :discussedBy :ann, :bob . :ann :followers 10 . :bob :followers 20 ."
REACH = f"""PREFIX : <{E}>
SELECT ?topic (SUM(?n) AS ?reach) FROM NAMED WINDOW :posts ON :stream [RANGE PT4S STEP PT1S]
{{ WINDOW :posts {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}
GROUP BY ?topic"""


def test_a_query_over_an_iterable_and_a_source_gives_solutions_with_their_freshness() -> None:
    blog = Source.embedded(BLOG, [f"{E}followers"])
    query = continuous_query(REACH, {f"{E}blog": blog}, budget=1)
    post = ox.Triple(*(ox.NamedNode(E + name) for name in ("post", "topic", "jazz")))
    results = list(run(query, {f"{E}stream": [(1000, post), (3000, post)]}))
    assert [result.t for result in results] == [1000, 2000, 3000]
    for result in results:
        ((bound, freshness),) = result.solutions()
        assert bound == {"topic": ox.NamedNode(f"{E}jazz"), "reach": ox.Literal(30)}
        assert (freshness.probability == 1.0) == (freshness.age == 0) == (result.t == 1000)


def test_what_binds_nothing_is_not_among_the_bindings() -> None:
    query = continuous_query("SELECT ?a ?b FROM WINDOW ON <http://e/s> [NOW] { ?a ?p ?o OPTIONAL { ?o ?q ?b } }")
    node = ox.NamedNode("http://e/x")
    (result,) = run(query, {"http://e/s": [(5, ox.Triple(node, node, ox.Literal(1)))]})
    assert [bound for bound, _ in result.solutions()] == [{"a": node}]
