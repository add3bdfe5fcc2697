"""SERVICE from the view: what joins, what is refreshed, how sure the answers are."""

from typing import Any

import numpy as np
import pyoxigraph as ox
import pytest

from maintenance.budget import BudgetRule
from maintenance.engine.answers import Result
from maintenance.engine.continuous import ContinuousQuery
from maintenance.engine.engine import Engine
from maintenance.engine.services import Fetch
from maintenance.engine.sources import EmbeddedSource, Source
from maintenance.engine.wiring import Upkeep, answering
from maintenance.query import SplitError, parse
from maintenance.service.transport import AtOnce
from maintenance.streams.batch import Elements
from policies.errors import ConfigError
from policies.registry import make

E = "http://e/"
BLOG = """
:jazz :discussedBy :ann, :bob . :rock :discussedBy :bob, :cyd . :folk :discussedBy :dan .
:ann :followers 10 . :bob :followers 20 . :cyd :followers 30 .
:ann :name "Ann" . :bob :name "Bob" . :cyd :name "Cyd" . :dan :name "Dan"
"""
CHANGES = [(1500, ":bob :followers 21"), (2500, ":ann :followers 11"), (2500, ":bob :followers 22")]
POSTS = [(1000, ":p1 :topic :jazz"), (2000, ":p2 :topic :rock"), (3000, ":p3 :topic :jazz"), (4000, ":p4 :topic :none")]
FROM = "FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S]"
SERVICE = "SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n }"
BODY = f"WHERE {{ WINDOW :w {{ ?post :topic ?topic }} {SERVICE} }}"


def quads(turtle: str) -> list[ox.Quad]:
    """Triples as people write them."""
    return list(ox.parse(f"PREFIX : <{E}> {turtle} .", format=ox.RdfFormat.TURTLE))


class World:
    """The blog, a query over it, and what came of it."""

    def __init__(self, text: str, **options: Any) -> None:
        """Run the query over the posts."""
        changes = [(at, quad) for at, text_ in CHANGES for quad in quads(text_)]
        self.blog = EmbeddedSource(quads(BLOG), changes)
        volatile = options.pop("volatile", (f"{E}followers",))
        sources = {f"{E}blog": Source(AtOnce(self.blog), volatile)}
        self.seen: list[Any] = []
        upkeep = Upkeep(
            lambda _: make(options.get("policy", "lru")),
            BudgetRule.of(options.get("budget", 100)),
            fetch=Fetch(options.get("fetch", "view")),
            observe=lambda _, __, evaluation: self.seen.append(evaluation),
        )
        query = ContinuousQuery(parse(f"PREFIX : <{E}> {text}"), answering=answering(sources, upkeep))
        engine = Engine([query], drain=options.get("drain", False))
        posts = options.get("posts", POSTS)
        engine.listen(f"{E}s", Elements([(at, quad.triple) for at, text_ in posts for quad in quads(text_)]))
        self.results: list[Result] = list(engine.run())

    @property
    def answers(self) -> dict[int, list[str]]:
        """Answers by instant, in few letters."""
        return {
            r.t: sorted(" ".join(getattr(t, "value", "-").removeprefix(E) for t in row) for row in r.answers)
            for r in self.results
        }

    def fresh(self, t: int) -> dict[str, tuple[float, int | None]]:
        """Freshness and age of the answers of an instant, by their first term."""
        result = next(r for r in self.results if r.t == t)
        return {
            row[0].value.removeprefix(E): (round(result.fresh(n).probability, 3), result.fresh(n).age)
            for n, row in enumerate(result.answers)
        }


TRUTH = {
    1000: ["ann jazz 10", "bob jazz 20"],
    2000: ["ann jazz 10", "bob jazz 21", "bob rock 21", "cyd rock 30"],
    3000: ["ann jazz 11", "bob jazz 22", "bob rock 22", "cyd rock 30"],
    4000: ["ann jazz 11", "bob jazz 22"],
}


def test_with_enough_budget_the_view_answers_what_the_source_would() -> None:
    world = World(f"SELECT ?user ?topic ?n {FROM} {BODY}")
    assert world.answers == TRUTH
    assert set(world.fresh(3000).values()) == {(1.0, 0)}


@pytest.mark.parametrize("fetch", ["always", "once"])
def test_the_baselines_ask_for_every_sn_always_or_once(fetch: str) -> None:
    world = World(f"SELECT ?user ?topic ?n {FROM} {BODY}", fetch=fetch)
    if fetch == "always":
        assert world.answers == TRUTH
        assert world.blog.requests == 1 + 2 + 2 + 2
    else:
        assert world.answers[3000] == ["ann jazz 10", "bob jazz 20", "bob rock 21", "cyd rock 30"]
        assert world.blog.requests == 3
        assert world.fresh(3000)["ann"] == (0.0, 2000)


def test_without_budget_there_are_no_answers_because_all_are_misses() -> None:
    world = World(f"SELECT ?user ?n {FROM} {BODY}", budget=0)
    assert world.answers == {1000: [], 2000: [], 3000: [], 4000: []}
    assert world.blog.requests == 0


def test_within_a_small_budget_answers_say_how_old_and_how_sure_they_are() -> None:
    world = World(f"SELECT ?user ?topic ?n {FROM} {BODY}", budget=1)
    assert world.blog.requests == 4
    assert all(evaluation.record.spent == 1 for evaluation in world.seen)
    assert world.answers[1000] == TRUTH[1000]
    old = [f for r in world.results for f in (r.freshness or []) if f.age]
    assert old
    assert all(0 < f.probability < 1 for f in old)


def test_a_sum_over_the_service_is_as_fresh_as_all_its_inputs() -> None:
    text = f"SELECT ?topic (SUM(?n) AS ?reach) {FROM} {BODY} GROUP BY ?topic"
    assert World(text).answers == {
        1000: ["jazz 30"],
        2000: ["jazz 31", "rock 51"],
        3000: ["jazz 33", "rock 52"],
        4000: ["jazz 33"],
    }
    poor = World(text, budget=1)
    assert poor.fresh(1000)["jazz"] == (1.0, 0)
    assert poor.seen[0].record.results == 1
    assert [r.t for r in poor.results] == [1000, 2000, 3000, 4000]


def test_window_mappings_live_as_long_as_their_oldest_element() -> None:
    posts = [(1000, ":p1 :topic :jazz"), (2000, ":p1 :by :eve"), (5000, ":x :y :z")]
    from_ = "FROM NAMED WINDOW :w ON :s [RANGE PT3S STEP PT1S]"
    world = World(
        f"SELECT ?user ?n {from_} WHERE {{ WINDOW :w {{ ?post :topic ?topic ; :by ?who }} {SERVICE} }}", posts=posts
    )
    assert [bool(r.answers) for r in world.results] == [False, True, True, False, False]
    demand = {e.record.t_ms: e.record.window_mappings for e in world.seen}
    assert demand == {1000: 0, 2000: 1, 3000: 1, 4000: 0, 5000: 0}


@pytest.mark.parametrize(
    ("where", "answers"),
    [
        (f"WINDOW :w {{ ?post :topic ?topic }} {SERVICE} FILTER(?n > 25)", ["cyd rock 30"]),
        (f"WINDOW :w {{ ?post :topic ?topic }} OPTIONAL {{ {SERVICE} FILTER(?n > 25) }}", ["- jazz -", "cyd rock 30"]),
        (f"VALUES ?topic {{ :rock }} WINDOW :w {{ ?post :topic ?topic }} {SERVICE}", ["bob rock 22", "cyd rock 30"]),
        (
            f"{{ WINDOW :w {{ ?post :topic ?topic }} {SERVICE} }} UNION {{ WINDOW :w {{ ?post :topic ?topic }} }}",
            ["- jazz -", "- rock -", "ann jazz 11", "bob jazz 22", "bob rock 22", "cyd rock 30"],
        ),
        (f"WINDOW :w {{ ?post :topic ?topic }} {SERVICE} BIND(1 AS ?x) FILTER(?x = 1 && ?n < 12)", ["ann jazz 11"]),
        (
            "WINDOW :w { ?post :topic ?topic } SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n "
            "FILTER(?n > 21) }",
            ["bob jazz 22", "bob rock 22", "cyd rock 30"],
        ),
        (
            "WINDOW :w { ?post :topic ?topic } SERVICE :blog { ?topic :discussedBy ?user . OPTIONAL { ?user :followers "
            "?n } VALUES ?user { :ann :cyd } }",
            ["ann jazz 11", "cyd rock 30"],
        ),
    ],
    ids=["filter", "optional", "values", "union", "bind", "filter inside", "optional and values inside"],
)
def test_what_stands_around_and_inside_a_service_means_what_it_means_in_sparql(where: str, answers: list[str]) -> None:
    text = f"SELECT ?user ?topic ?n {FROM} WHERE {{ {where} }}"
    for fetch in ("view", "always"):
        assert World(text, fetch=fetch).answers[3000] == answers


def test_static_values_beside_the_key_are_kept_with_the_edge() -> None:
    service = "SERVICE :blog { ?topic :discussedBy ?user . ?user :name ?name . ?user :followers ?n }"
    world = World(f"SELECT ?name ?n {FROM} WHERE {{ WINDOW :w {{ ?post :topic ?topic }} {service} }}")
    assert world.answers[3000] == ["Ann 11", "Bob 22", "Bob 22", "Cyd 30"]


def test_a_window_that_gives_the_key_joins_one_to_one() -> None:
    posts = [(1000, ":p1 :by :ann"), (2000, ":p2 :by :bob"), (3000, ":p3 :by :nobody")]
    service = "SERVICE :blog { ?user :followers ?n }"
    world = World(f"SELECT ?user ?n {FROM} WHERE {{ WINDOW :w {{ ?p :by ?user }} {service} }}", posts=posts)
    assert world.answers == {1000: ["ann 10"], 2000: ["ann 10", "bob 21"], 3000: ["bob 22"]}


def test_istream_construct_and_ask_work_over_a_service() -> None:
    assert World(f"SELECT ISTREAM ?user ?n {FROM} {BODY}").answers[3000] == ["ann 11", "bob 22", "bob 22"]
    built = World(f"CONSTRUCT {{ ?user :reach ?n }} {FROM} {BODY}").results[2]
    assert sorted(str(t.object.value) for t in built.answers) == ["11", "22", "30"]
    assert [r.answers for r in World(f"ASK {FROM} {BODY}").results] == [[True], [True], [True], [True]]
    assert World(f"SELECT DISTINCT ?user {FROM} {BODY}").answers[3000] == ["ann", "bob", "cyd"]
    assert World(f"SELECT * {FROM} {BODY}").results[0].variables == ("n", "post", "topic", "user")


def test_where_there_is_no_split_the_error_says_which_pattern_and_why() -> None:
    text = f"SELECT ?n {FROM} WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?u :followers ?n }} }}"
    with pytest.raises(SplitError, match=r"SERVICE <http://e/blog>: nothing joins it with a window"):
        World(text)
    with pytest.raises(SplitError, match="no volatile predicate"):
        World(f"SELECT ?n {FROM} {BODY}", volatile=())
    assert World(text, fetch="always").results[0].answers
    with pytest.raises(ConfigError, match=r"there is no source <http://e/blag>.*did you mean 'http://e/blog'"):
        World(f"SELECT ?n {FROM} {BODY}".replace(":blog", ":blag"))


def test_the_view_and_the_source_agree_on_many_random_posts() -> None:
    random = np.random.default_rng(5)
    topics = ["jazz", "rock", "folk", "none"]
    posts = [(n * 137, f":p{n} :topic :{topics[random.integers(4)]}") for n in range(1, 60)]
    text = f"SELECT ?post ?user ?n FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT0.3S] {BODY}"
    assert World(text, posts=posts).answers == World(text, posts=posts, fetch="always").answers


@pytest.mark.parametrize(
    "windows",
    [
        "FROM NAMED WINDOW :w ON :s [ELEMENTS 2]",
        "FROM NAMED WINDOW :w ON :s [NOW]",
        "FROM NAMED WINDOW :w ON :s [RANGE PT2S]",
        "FROM NAMED WINDOW :w ON :s [ALL]",
        "FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S CLOSURE RIGHT_OPEN]",
        "FROM NAMED WINDOW :w ON :s [RANGE PT3S STEP PT2S] FROM NAMED WINDOW :v ON :s [RANGE PT2S STEP PT1S]",
    ],
)
def test_the_view_agrees_with_the_source_whatever_the_windows(windows: str) -> None:
    random = np.random.default_rng(1)
    topics = ["jazz", "rock", "folk", "none"]
    posts = [(n * 300, f":p{random.integers(6)} :topic :{topics[random.integers(4)]}") for n in range(1, 40)]
    other = "WINDOW :v { ?q :topic ?t2 }" if ":v" in windows else ""
    text = f"SELECT * {windows} WHERE {{ WINDOW :w {{ ?post :topic ?topic }} {other} {SERVICE} }}"
    found = World(text, posts=posts)
    assert any(found.answers.values())
    assert found.answers == World(text, posts=posts, fetch="always").answers


@pytest.mark.parametrize(
    "where",
    [
        f"WINDOW :w {{ ?post :topic ?topic }} MINUS {{ {SERVICE} }}",
        f"WINDOW :w {{ ?post :topic ?topic }} FILTER NOT EXISTS {{ {SERVICE} }}",
        f"WINDOW :w {{ ?post :topic ?topic }} {{ SELECT ?topic (MAX(?n) AS ?m) {{ {SERVICE} }} GROUP BY ?topic }}",
    ],
    ids=["minus", "not exists", "sub-query"],
)
def test_where_an_answer_hides_its_copies_it_counts_as_made_of_all(where: str) -> None:
    text = f"SELECT * {FROM} WHERE {{ {where} }}"
    assert World(text).answers == World(text, fetch="always").answers
    for result in World(text, budget=1).results:
        assert len({f.probability for f in result.freshness or ()}) <= 1
