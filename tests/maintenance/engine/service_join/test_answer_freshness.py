"""How sure answers are: never surer than the copies and the gaps of the view allow."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

World = Callable[..., Any]
FROM = "FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S]"
WINDOW = "WINDOW :w { ?post :topic ?topic }"
SERVICE = "SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n }"
JAZZ_AND_ROCK = [(1000, ":p1 :topic :jazz"), (1000, ":p2 :topic :rock"), (2000, ":p3 :topic :jazz")]


def test_a_sum_over_several_sns_vouches_for_nothing_while_one_of_them_is_missing(world: World) -> None:
    text = f"SELECT (SUM(?n) AS ?all) {FROM} WHERE {{ {WINDOW} {SERVICE} }}"
    poor = world(text, posts=JAZZ_AND_ROCK, budget=1)
    assert poor.answers[1000] in (["30"], ["50"])
    assert [f for f, _ in poor.fresh(1000).values()] == [0.0]
    rich = world(text, posts=JAZZ_AND_ROCK)
    assert rich.fresh(1000) == {"80": (1.0, 0)}


def test_a_group_of_one_sn_does_not_care_what_others_lack(world: World) -> None:
    text = f"SELECT ?topic (SUM(?n) AS ?all) {FROM} WHERE {{ {WINDOW} {SERVICE} }} GROUP BY ?topic"
    (fresh,) = world(text, posts=JAZZ_AND_ROCK, budget=1).fresh(1000).values()
    assert fresh == (1.0, 0)


def test_a_group_without_solutions_is_as_sure_as_all_that_was_looked_at(world: World) -> None:
    text = f"SELECT (COUNT(*) AS ?many) {FROM} WHERE {{ {WINDOW} {SERVICE} FILTER(?n > 1000) }}"
    assert world(text, posts=JAZZ_AND_ROCK, budget=0).fresh(1000) == {"0": (0.0, None)}
    assert world(text, posts=JAZZ_AND_ROCK).fresh(1000) == {"0": (1.0, 0)}
    (old,) = world(text, posts=[(1000, ":p :topic :jazz"), (2000, ":p :topic :rock")], budget=1).fresh(2000).values()
    assert 0 < old[0] < 1


def test_an_answer_that_optional_left_alone_is_as_sure_as_its_sn_is_known(world: World) -> None:
    text = f"SELECT ?post ?n {FROM} WHERE {{ {WINDOW} OPTIONAL {{ {SERVICE} FILTER(?n > 25) }} }}"
    posts = [(1000, ":p1 :topic :jazz"), (1000, ":p2 :topic :none")]
    assert world(text, posts=posts).fresh(1000) == {"p1": (1.0, 0), "p2": (1.0, None)}
    assert set(world(text, posts=posts, budget=0).fresh(1000).values()) == {(0.0, None)}
    kept = world(text, posts=[*posts, (2000, ":p3 :topic :rock")], budget=2).fresh(2000)
    assert 0 < kept["p1"][0] < 1
    assert kept["p1"][1] == 1000
    assert kept["p2"] == (1.0, None)


def test_groups_over_an_optional_service_count_what_it_left_out(world: World) -> None:
    text = f"SELECT ?topic (SUM(?n) AS ?all) {FROM} WHERE {{ {WINDOW} OPTIONAL {{ {SERVICE} }} }} GROUP BY ?topic"
    found = world(text, posts=JAZZ_AND_ROCK, budget=1).fresh(1000)
    assert sorted(f for f, _ in found.values()) == [0.0, 1.0]


def test_a_branch_of_union_without_the_service_is_certain(world: World) -> None:
    text = f"SELECT ?topic ?n {FROM} WHERE {{ {{ {WINDOW} }} UNION {{ {WINDOW} {SERVICE} }} }}"
    assert world(text, posts=JAZZ_AND_ROCK, budget=0).fresh(1000) == {"jazz": (1.0, None), "rock": (1.0, None)}


@pytest.mark.parametrize(
    "where",
    [
        f"{WINDOW} MINUS {{ {SERVICE} }}",
        f"{WINDOW} FILTER NOT EXISTS {{ {SERVICE} }}",
        f"{WINDOW} OPTIONAL {{ {{ SELECT ?topic (MAX(?n) AS ?m) {{ {SERVICE} }} GROUP BY ?topic }} }}",
    ],
    ids=["minus", "not exists", "sub-query"],
)
def test_what_hides_its_copies_vouches_for_nothing_while_an_sn_is_missing(world: World, where: str) -> None:
    text = f"SELECT * {FROM} WHERE {{ {where} }}"
    result = world(text, posts=JAZZ_AND_ROCK, budget=0).results[0]
    assert len(result.answers) == 2
    assert {f.probability for f in result.freshness} == {0.0}


def test_the_first_of_an_order_depend_on_all_others(world: World) -> None:
    text = f"SELECT ?user ?n {FROM} WHERE {{ {WINDOW} {SERVICE} }} ORDER BY DESC(?n) LIMIT 1"
    assert world(text, posts=JAZZ_AND_ROCK).fresh(1000) == {"cyd": (1.0, 0)}
    assert [f for f, _ in world(text, posts=JAZZ_AND_ROCK, budget=1).fresh(1000).values()] == [0.0]
    assert world(text.replace("ORDER BY DESC(?n)", ""), posts=JAZZ_AND_ROCK, budget=1).fresh(1000).popitem()[1] == (
        1,
        0,
    )


def test_no_is_no_surer_than_what_was_looked_at(world: World) -> None:
    text = f"ASK {FROM} WHERE {{ {WINDOW} {SERVICE} FILTER(?n > 1000) }}"
    assert world(text, budget=0).fresh(1000) == {"False": (0.0, None)}
    assert world(text).fresh(1000) == {"False": (1.0, 0)}


@pytest.mark.parametrize(
    ("fetch", "errors"), [("always", [0, 2, 2, 0]), ("once", [0, 1, 1, 0]), ("view", [0, 3, 3, 0])]
)
def test_a_source_that_fails_costs_its_answers_and_not_the_run(world: World, fetch: str, errors: list[int]) -> None:
    found = world(f"SELECT ?topic ?n {FROM} WHERE {{ {WINDOW} {SERVICE} }}", fetch=fetch, failing=(2000, 3000))
    assert [r.errors for r in found.results] == errors
    assert bool(found.answers[2000]) == (fetch != "always")
    assert found.answers[1000] == ["jazz 10", "jazz 20"]


def test_a_pattern_without_split_that_fails_is_counted_and_vouches_for_nothing(world: World) -> None:
    service = "SERVICE :blog { ?someone :followers ?n }"
    text = f"SELECT ?post (COUNT(?n) AS ?many) {FROM} WHERE {{ {WINDOW} OPTIONAL {{ {service} }} }} GROUP BY ?post"
    found = world(text, fetch="always", failing=(2000,))
    assert [r.errors for r in found.results] == [0, 1, 0, 0]
    assert found.fresh(1000) == {"p1": (1.0, 0)}
    assert [probability for probability, _ in found.fresh(2000).values()] == [0.0, 0.0]


@pytest.mark.parametrize("service", [SERVICE, "SERVICE :blog { ?someone :followers ?n }"], ids=["split", "no split"])
def test_a_silent_failure_is_a_solution_that_binds_nothing_and_is_not_vouched_for(world: World, service: str) -> None:
    text = f"SELECT ?post ?n {FROM} WHERE {{ {WINDOW} {service.replace('SERVICE', 'SERVICE SILENT')} }}"
    found = world(text, fetch="always", failing=(1000,))
    assert found.answers[1000] == ["p1 -"]
    assert found.fresh(1000) == {"p1": (0.0, None)}


def test_what_was_read_once_is_no_longer_vouched_for_with_or_without_a_split(world: World) -> None:
    for service in (SERVICE, "SERVICE :blog { ?someone :followers ?n }"):
        found = world(
            f"SELECT ?n {FROM} WHERE {{ {WINDOW} {service} }}",
            fetch="once",
            posts=[(1000, ":p :topic :jazz"), (2000, ":x :y 1")],
        )
        assert found.fresh(1000)["10"] == (1.0, 0)
        assert found.fresh(2000)["10"] == (0.0, 1000)


SHAPES = [
    f"SELECT ?post ?n {FROM} {{ {WINDOW} {SERVICE} }}",
    f"SELECT ?post ?n {FROM} {{ {WINDOW} OPTIONAL {{ {SERVICE} FILTER(?n > 20) }} }}",
    f"SELECT * {FROM} {{ {WINDOW} OPTIONAL {{ {SERVICE} }} FILTER(!BOUND(?n)) }}",
    f"SELECT DISTINCT ?topic {FROM} {{ {WINDOW} {SERVICE} FILTER(?n > 20) }}",
    f"SELECT ?n {FROM} {{ {WINDOW} {SERVICE} }} ORDER BY DESC(?n) LIMIT 2",
    f"SELECT ?topic (SUM(?n) AS ?all) {FROM} {{ {WINDOW} {SERVICE} }} GROUP BY ?topic",
    f"SELECT (SUM(?n) AS ?all) {FROM} {{ {WINDOW} {SERVICE} }}",
    f"SELECT ?user (COUNT(?post) AS ?posts) {FROM} {{ {WINDOW} {SERVICE} }} GROUP BY ?user",
    f"SELECT (COUNT(*) AS ?many) {FROM} {{ {WINDOW} {SERVICE} FILTER(?n > 20) }}",
    f"SELECT ?topic (COUNT(?n) AS ?m) {FROM} {{ {WINDOW} OPTIONAL {{ {SERVICE} FILTER(?n > 20) }} }} GROUP BY ?topic",
    f"SELECT ?topic (SUM(?n) AS ?all) {FROM} {{ {WINDOW} {SERVICE} }} GROUP BY ?topic HAVING(SUM(?n) > 41)",
    f"SELECT ?post {FROM} {{ {WINDOW} MINUS {{ {SERVICE} FILTER(?n > 20) }} }}",
    f"SELECT ?post {FROM} {{ {WINDOW} FILTER NOT EXISTS {{ {SERVICE} FILTER(?n > 20) }} }}",
    f"SELECT ?post ?m {FROM} {{ {WINDOW} {{ SELECT ?topic (MAX(?n) AS ?m) {{ {SERVICE} }} GROUP BY ?topic }} }}",
    f"SELECT ?post ?e {FROM} {{ {WINDOW} BIND(EXISTS {{ {SERVICE} FILTER(?n > 20) }} AS ?e) }}",
    f"SELECT ?post ?n {FROM} {{ {{ {WINDOW} }} UNION {{ {WINDOW} {SERVICE} }} }}",
    f"ASK {FROM} {{ {WINDOW} {SERVICE} FILTER(?n > 30) }}",
    f"CONSTRUCT {{ ?topic :has ?n }} {FROM} {{ {WINDOW} {SERVICE} }}",
]


@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("edges", [False, True], ids=["edges kept", "edges refreshed"])
def test_what_is_said_to_be_fresh_for_sure_is_what_the_source_says_now(world: World, text: str, edges: bool) -> None:
    """Copies are sure at the instant of their refresh alone, so that all answers that are sure must be right."""
    random, sure = np.random.default_rng(7), 0
    topics, users = ["jazz", "rock", "folk", "none"], ["ann", "bob", "cyd", "dan"]
    posts = [(n * 250, f":p{random.integers(9)} :topic :{topics[random.integers(4)]}") for n in range(1, 37)]
    changes = [(n * 400, f":{users[random.integers(4)]} :followers {random.integers(50)}") for n in range(1, 25)]
    if edges:
        changes += [(n * 900, f":{topics[n % 3]} :discussedBy :{users[random.integers(4)]}") for n in range(1, 11)]
    truth = world(text, posts=posts, changes=changes, fetch="always").answers
    for budget in (0.5, 1, 2, 100):
        found = world(text, posts=posts, changes=changes, edges=edges, budget=budget, policy="random")
        for result, (t, right) in zip(found.results, truth.items(), strict=True):
            said = [a for n, a in enumerate(found.written(result)) if result.fresh(n).probability == 1.0]
            assert not Counter(said) - Counter(right), (budget, t)
            sure += len(said)
    assert sure
