"""A continuous query inside a Python program."""

import pyoxigraph as ox
import pytest

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.service_join.maintenance_settings import Shares
from freshkeeper.maintenance.query.syntax.query_errors import SplitError
from freshkeeper.maintenance.runtime.embedded_query import continuous_query, run
from freshkeeper.maintenance.sources.sources import EmbeddedSource, Source
from freshkeeper.maintenance.sources.transport import Transport
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


def posts(*seconds: int) -> dict[str, list[tuple[int, ox.Triple]]]:
    """One post about jazz at each second."""
    post = ox.Triple(*(ox.NamedNode(E + name) for name in ("post", "topic", "jazz")))
    return {f"{E}stream": [(1000 * second, post) for second in seconds]}


@pytest.mark.parametrize("edges", [False, True])
def test_a_source_in_which_nothing_changes_needs_no_volatile_predicates_and_is_asked_once(edges: bool) -> None:
    data = EmbeddedSource(list(ox.parse(BLOG, format=ox.RdfFormat.TURTLE)))
    blog = Source(Transport.in_process(data), static=True)
    results = list(run(continuous_query(REACH, {f"{E}blog": blog}, edges=edges), posts(1, 3)))
    for result in results:
        ((bound, freshness),) = result.solutions()
        assert (bound["reach"], freshness.probability) == (ox.Literal(30), 1.0)
    assert data.requests == 1
    (unpaid,) = run(continuous_query(REACH, {f"{E}blog": Source.embedded(BLOG)}, budget=0, missing="drop"), posts(1))
    assert len(unpaid.answers) == 0


def test_a_source_that_changes_is_not_static_whatever_is_said_of_its_predicates() -> None:
    changes = [(2000, ox.Quad(ox.NamedNode(f"{E}ann"), ox.NamedNode(f"{E}followers"), ox.Literal(9)))]
    with pytest.raises(SplitError, match="no volatile predicate occurs"):
        continuous_query(REACH, {f"{E}blog": Source.embedded(BLOG, changes=changes)})
    with pytest.raises(SplitError, match=r"did you mean 'http://example\.org/followers'"):
        continuous_query(REACH, {f"{E}blog": Source.embedded(BLOG, [f"{E}follower"])})


@pytest.mark.parametrize(("fetch", "sure"), [("view", 1.0), ("always", 1.0), ("once", 0.0)])
def test_how_sources_are_asked_is_an_argument(fetch: str, sure: float) -> None:
    blog = Source.embedded(BLOG, [f"{E}followers"])
    *_, last = run(continuous_query(REACH, {f"{E}blog": blog}, fetch=fetch), posts(1, 2))
    ((_, freshness),) = last.solutions()
    assert freshness.probability == sure


def test_a_way_to_ask_sources_that_there_is_not_is_an_error() -> None:
    with pytest.raises(ConfigError, match="fetch='alway': did you mean 'always'"):
        continuous_query(REACH, {f"{E}blog": Source.embedded(BLOG)}, fetch="alway")
    with pytest.raises(ConfigError, match="missing='emitt': did you mean 'emit'"):
        continuous_query(REACH, {f"{E}blog": Source.embedded(BLOG)}, missing="emitt")
    with pytest.raises(ConfigError, match="no option 'bugdet': did you mean 'budget'"):
        continuous_query(REACH, {f"{E}blog": Source.embedded(BLOG)}, bugdet=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("policy", "weights", "fresh"),
    [
        pytest.param("lru", (2, 1), [4, 2, 8, 4], id="its scores are no answers, so weights say what is whose"),
        pytest.param("plan", (1, 1), [3, 3, 6, 6], id="a request brings the same to both"),
        pytest.param("plan", (2, 1), [6, 0, 12, 0], id="an answer to the first counts twice"),
    ],
)
def test_several_queries_share_a_budget(policy: str, weights: tuple[int, int], fresh: list[int]) -> None:
    users = " ".join(f":u{n} :followers {n} ." for n in range(20))
    shared = SharedBudget(BudgetRule.of(6), 1000)
    text = f"""PREFIX : <{E}> SELECT ?n FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
    {{ WINDOW :w {{ ?post :by ?user }} SERVICE :blog {{ ?user :followers ?n }} }}"""
    engine = Engine()
    for weight in weights:
        blog, shares = Source.embedded(f"PREFIX : <{E}> {users}", [f"{E}followers"]), Shares({f"{E}blog": weight})
        engine.register(
            continuous_query(text, {f"{E}blog": blog}, policy=policy, budget=shared, shares=shares, missing="drop")
        )
    posts = [
        (1000 * t, ox.Triple(*(ox.NamedNode(E + x) for x in (f"p{n}", "by", f"u{n}"))))
        for t in (1, 2)
        for n in range(20)
    ]
    engine.listen(f"{E}s", Elements(posts))
    answers = [len(list(result.solutions())) for result in engine.run()]
    assert answers == fresh, "the first evaluation of both queries, then the second"
    assert shared.ledger.spent == 12


def test_what_binds_nothing_is_not_among_the_bindings() -> None:
    query = continuous_query("SELECT ?a ?b FROM WINDOW ON <http://e/s> [NOW] { ?a ?p ?o OPTIONAL { ?o ?q ?b } }")
    node = ox.NamedNode("http://e/x")
    (result,) = run(query, {"http://e/s": [(5, ox.Triple(node, node, ox.Literal(1)))]})
    assert [bound for bound, _ in result.solutions()] == [{"a": node}]
