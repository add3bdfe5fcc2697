"""A continuous query inside a Python program."""

import pyoxigraph as ox

from freshkeeper.maintenance.budget.ledger import BudgetRule
from freshkeeper.maintenance.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.rsp.engine import Engine, run
from freshkeeper.maintenance.run.embedded_query import continuous_query
from freshkeeper.maintenance.service.sources import Source
from freshkeeper.maintenance.service_join.build import Shares
from freshkeeper.maintenance.streams.batch import Elements

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


def test_several_queries_share_a_budget_and_none_takes_what_is_another_s() -> None:
    users = " ".join(f":u{n} :followers {n} ." for n in range(20))
    shared = SharedBudget(BudgetRule.of(6), 1000)
    asks = {"a": Shares({f"{E}blog": 2}), "b": Shares({f"{E}blog": 1})}
    text = f"""PREFIX : <{E}> SELECT ?n FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
    {{ WINDOW :w {{ ?post :by ?user }} SERVICE :blog {{ ?user :followers ?n }} }}"""
    engine = Engine()
    for shares in asks.values():
        blog = Source.embedded(f"PREFIX : <{E}> {users}", [f"{E}followers"])
        engine.register(continuous_query(text, {f"{E}blog": blog}, budget=shared, shares=shares))
    posts = [
        (1000 * t, ox.Triple(*(ox.NamedNode(E + x) for x in (f"p{n}", "by", f"u{n}"))))
        for t in (1, 2)
        for n in range(20)
    ]
    engine.listen(f"{E}s", Elements(posts))
    answers = [len(list(result.solutions())) for result in engine.run()]
    assert answers == [4, 2, 8, 4], "the first evaluation of both queries, then the second"
    assert sum(member.spent for member in shared.members) == 12


def test_what_binds_nothing_is_not_among_the_bindings() -> None:
    query = continuous_query("SELECT ?a ?b FROM WINDOW ON <http://e/s> [NOW] { ?a ?p ?o OPTIONAL { ?o ?q ?b } }")
    node = ox.NamedNode("http://e/x")
    (result,) = run(query, {"http://e/s": [(5, ox.Triple(node, node, ox.Literal(1)))]})
    assert [bound for bound, _ in result.solutions()] == [{"a": node}]
