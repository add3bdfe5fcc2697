"""SERVICE from the view: what joins, what is refreshed, how sure the answers are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.query.syntax.query_errors import SplitError

World = Callable[..., Any]
E = "http://e/"
FROM = "FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S]"
SERVICE = "SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n }"
BODY = f"WHERE {{ WINDOW :w {{ ?post :topic ?topic }} {SERVICE} }}"


TRUTH = {
    1000: ["ann jazz 10", "bob jazz 20"],
    2000: ["ann jazz 10", "bob jazz 21", "bob rock 21", "cyd rock 30"],
    3000: ["ann jazz 11", "bob jazz 22", "bob rock 22", "cyd rock 30"],
    4000: ["ann jazz 11", "bob jazz 22"],
}


def test_with_enough_budget_the_view_answers_what_the_source_would(world: World) -> None:
    seen = world(f"SELECT ?user ?topic ?n {FROM} {BODY}")
    assert seen.answers == TRUTH
    assert set(seen.fresh(3000).values()) == {(1.0, 0)}


@pytest.mark.parametrize("fetch", ["always", "once"])
def test_the_baselines_ask_for_every_sn_always_or_once(world: World, fetch: str) -> None:
    seen = world(f"SELECT ?user ?topic ?n {FROM} {BODY}", fetch=fetch)
    if fetch == "always":
        assert seen.answers == TRUTH
        assert seen.blog.requests == 1 + 2 + 2 + 2
    else:
        assert seen.answers[3000] == ["ann jazz 10", "bob jazz 20", "bob rock 21", "cyd rock 30"]
        assert seen.blog.requests == 3
        assert seen.fresh(3000)["ann"] == (0.0, 2000)


def test_without_budget_there_are_no_answers_because_all_are_misses(world: World) -> None:
    seen = world(f"SELECT ?user ?n {FROM} {BODY}", budget=0)
    assert seen.answers == {1000: [], 2000: [], 3000: [], 4000: []}
    assert seen.blog.requests == 0


def test_within_a_small_budget_answers_say_how_old_and_how_sure_they_are(world: World) -> None:
    seen = world(f"SELECT ?user ?topic ?n {FROM} {BODY}", budget=1)
    assert seen.blog.requests == 4
    assert all(evaluation.record.spent == 1 for evaluation in seen.seen)
    assert seen.answers[1000] == TRUTH[1000]
    old = [f for r in seen.results for f in (r.freshness or []) if f.age]
    assert old
    assert all(0 < f.probability < 1 for f in old)


def test_a_sum_over_the_service_is_as_fresh_as_all_its_inputs(world: World) -> None:
    text = f"SELECT ?topic (SUM(?n) AS ?reach) {FROM} {BODY} GROUP BY ?topic"
    assert world(text).answers == {
        1000: ["jazz 30"],
        2000: ["jazz 31", "rock 51"],
        3000: ["jazz 33", "rock 52"],
        4000: ["jazz 33"],
    }
    poor = world(text, budget=1)
    assert poor.fresh(1000)["jazz"] == (1.0, 0)
    assert poor.seen[0].record.results == 1
    assert [r.t for r in poor.results] == [1000, 2000, 3000, 4000]


def test_window_mappings_live_as_long_as_their_oldest_element(world: World) -> None:
    posts = [(1000, ":p1 :topic :jazz"), (2000, ":p1 :by :eve"), (5000, ":x :y :z")]
    from_ = "FROM NAMED WINDOW :w ON :s [RANGE PT3S STEP PT1S]"
    seen = world(
        f"SELECT ?user ?n {from_} WHERE {{ WINDOW :w {{ ?post :topic ?topic ; :by ?who }} {SERVICE} }}", posts=posts
    )
    assert [bool(r.answers) for r in seen.results] == [False, True, True, False, False]
    demand = {e.record.t_ms: e.record.window_mappings for e in seen.seen}
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
def test_what_stands_around_and_inside_a_service_means_what_it_means_in_sparql(
    world: World, where: str, answers: list[str]
) -> None:
    text = f"SELECT ?user ?topic ?n {FROM} WHERE {{ {where} }}"
    for fetch in ("view", "always"):
        assert world(text, fetch=fetch).answers[3000] == answers


@pytest.mark.parametrize(
    "inside",
    [
        "?topic :discussedBy ?user . { ?user :followers ?n } UNION { ?user :name ?n }",
        "{ ?topic :discussedBy ?user . ?user :followers ?n } UNION { ?topic :discussedBy ?user . ?user :name ?n }",
        "?topic :discussedBy ?user . ?user :followers ?n MINUS { ?user :name 'Ann' }",
        "?topic :discussedBy ?user . ?user :followers ?n FILTER NOT EXISTS { ?user :name 'Ann' }",
        "?topic :discussedBy ?user . ?user :followers ?n BIND(?n * 2 AS ?m)",
        "?topic :discussedBy/^:discussedBy ?t2 . ?t2 :discussedBy ?user . ?user :followers ?n",
        "?topic :discussedBy ?user . { SELECT ?user (MAX(?f) AS ?n) { ?user :followers ?f } GROUP BY ?user }",
        "?topic :discussedBy [ :followers ?n ]",
    ],
)
def test_the_view_agrees_with_the_source_whatever_stands_inside(world: World, inside: str) -> None:
    text = f"SELECT * {FROM} {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ {inside} }} }}"
    truth = world(text, fetch="always").answers
    assert truth[3000]
    assert world(text).answers == truth


def test_static_values_beside_the_key_are_kept_with_the_edge(world: World) -> None:
    service = "SERVICE :blog { ?topic :discussedBy ?user . ?user :name ?name . ?user :followers ?n }"
    seen = world(f"SELECT ?name ?n {FROM} WHERE {{ WINDOW :w {{ ?post :topic ?topic }} {service} }}")
    assert seen.answers[3000] == ["Ann 11", "Bob 22", "Bob 22", "Cyd 30"]


def test_a_window_that_gives_the_key_joins_one_to_one(world: World) -> None:
    posts = [(1000, ":p1 :by :ann"), (2000, ":p2 :by :bob"), (3000, ":p3 :by :nobody")]
    service = "SERVICE :blog { ?user :followers ?n }"
    seen = world(f"SELECT ?user ?n {FROM} WHERE {{ WINDOW :w {{ ?p :by ?user }} {service} }}", posts=posts)
    assert seen.answers == {1000: ["ann 10"], 2000: ["ann 10", "bob 21"], 3000: ["bob 22"]}


def test_istream_construct_and_ask_work_over_a_service(world: World) -> None:
    assert world(f"SELECT ISTREAM ?user ?n {FROM} {BODY}").answers[3000] == ["ann 11", "bob 22", "bob 22"]
    built = world(f"CONSTRUCT {{ ?user :reach ?n }} {FROM} {BODY}").results[2]
    assert sorted(str(t.object.value) for t in built.answers) == ["11", "22", "30"]
    assert [r.answers for r in world(f"ASK {FROM} {BODY}").results] == [[True], [True], [True], [True]]
    assert world(f"SELECT DISTINCT ?user {FROM} {BODY}").answers[3000] == ["ann", "bob", "cyd"]
    assert world(f"SELECT * {FROM} {BODY}").results[0].variables == ("n", "post", "topic", "user")


def test_where_there_is_no_split_the_error_says_which_pattern_and_why(world: World) -> None:
    text = f"SELECT ?n {FROM} WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?u :followers ?n }} }}"
    with pytest.raises(SplitError, match=r"^line \d+, column \d+: SERVICE <http://e/blog>: nothing joins it"):
        world(text)
    with pytest.raises(SplitError, match="no volatile predicate"):
        world(f"SELECT ?n {FROM} {BODY}", volatile=())
    assert world(text, fetch="always").results[0].answers
    with pytest.raises(ConfigError, match=r"there is no source <http://e/blag>.*did you mean 'http://e/blog'"):
        world(f"SELECT ?n {FROM} {BODY}".replace(":blog", ":blag"))


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT ?post (EXISTS {{ {SERVICE} }} AS ?e) {FROM} {{ WINDOW :w {{ ?post :topic ?topic }} }}",
        f"SELECT ?post {FROM} {BODY} GROUP BY ?post HAVING(EXISTS {{ {SERVICE} }})",
    ],
)
def test_a_service_outside_the_pattern_is_an_error_that_says_where_it_can_stand(world: World, text: str) -> None:
    with pytest.raises(ConfigError, match="a SERVICE stands outside WHERE"):
        world(text)
    with pytest.raises(ConfigError, match="write CONSTRUCT"):
        world(f"DESCRIBE ?user {FROM} {BODY}")
    inside = f"SELECT ?post ?e {FROM} {{ WINDOW :w {{ ?post :topic ?topic }} BIND(EXISTS {{ {SERVICE} }} AS ?e) }}"
    for fetch in ("view", "always"):
        assert world(inside, fetch=fetch).answers[4000] == ["p3 true", "p4 false"]


def test_the_view_and_the_source_agree_on_many_random_posts(world: World) -> None:
    random = np.random.default_rng(5)
    topics = ["jazz", "rock", "folk", "none"]
    posts = [(n * 137, f":p{n} :topic :{topics[random.integers(4)]}") for n in range(1, 60)]
    text = f"SELECT ?post ?user ?n FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT0.3S] {BODY}"
    assert world(text, posts=posts).answers == world(text, posts=posts, fetch="always").answers


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
def test_the_view_agrees_with_the_source_whatever_the_windows(world: World, windows: str) -> None:
    random = np.random.default_rng(1)
    topics = ["jazz", "rock", "folk", "none"]
    posts = [(n * 300, f":p{random.integers(6)} :topic :{topics[random.integers(4)]}") for n in range(1, 40)]
    other = "WINDOW :v { ?q :topic ?t2 }" if ":v" in windows else ""
    text = f"SELECT * {windows} WHERE {{ WINDOW :w {{ ?post :topic ?topic }} {other} {SERVICE} }}"
    found = world(text, posts=posts)
    assert any(found.answers.values())
    assert found.answers == world(text, posts=posts, fetch="always").answers


@pytest.mark.parametrize(
    "where",
    [
        f"WINDOW :w {{ ?post :topic ?topic }} MINUS {{ {SERVICE} }}",
        f"WINDOW :w {{ ?post :topic ?topic }} FILTER NOT EXISTS {{ {SERVICE} }}",
        f"WINDOW :w {{ ?post :topic ?topic }} {{ SELECT ?topic (MAX(?n) AS ?m) {{ {SERVICE} }} GROUP BY ?topic }}",
    ],
    ids=["minus", "not exists", "sub-query"],
)
def test_where_an_answer_hides_its_copies_it_counts_as_made_of_all(world: World, where: str) -> None:
    text = f"SELECT * {FROM} WHERE {{ {where} }}"
    assert world(text).answers == world(text, fetch="always").answers
    for result in world(text, budget=1).results:
        assert len({f.probability for f in result.freshness or ()}) <= 1


def test_a_window_that_closes_twice_within_an_instant_joins_with_the_view_each_time(world: World) -> None:
    posts = [
        (1000, ":p1 :topic :jazz"),
        (2000, ":p2 :topic :rock"),
        (3000, ":p3 :topic :rock"),
        (3000, ":p4 :topic :jazz"),
    ]
    text = f"SELECT ?post ?n FROM NAMED WINDOW :w ON :s [ELEMENTS 1] {BODY}"
    seen = world(text, posts=posts)
    last = [sorted(f"{row[0].value[-2:]} {row[1].value}" for row in r.answers) for r in seen.results if r.t == 3000]
    assert last == [["p3 22", "p3 30"], ["p4 10", "p4 22"]]
    ann, bob = sorted(freshness.probability for freshness in seen.results[-1].freshness)
    assert 0 < ann < bob == 1.0


@pytest.mark.parametrize("fetch", ["view", "always", "once"])
@pytest.mark.parametrize(
    ("looking", "said"),
    [
        ("{ FILTER(BOUND(?post)) } UNION { ?user :followers ?n }", r"FILTER\(BOUND\(\?post\)\) uses \?post"),
        ("?user :followers ?n OPTIONAL { ?post :by ?user }", r"OPTIONAL { \?post :by \?user } uses \?post"),
    ],
)
def test_what_exists_gives_a_service_is_no_business_of_its_source(
    world: World, looking: str, said: str, fetch: str
) -> None:
    inside = f"SERVICE :blog {{ ?topic :discussedBy ?user . {looking} }}"
    text = f"""SELECT ?post FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S]
    {{ WINDOW :w {{ ?post :topic ?topic }} FILTER NOT EXISTS {{ {inside} }} }}"""
    with pytest.raises(SplitError, match=f"{said}, which EXISTS gives it"):
        world(text, fetch=fetch)
