"""Edges that change: those of an SN are an SR of their own."""

from collections.abc import Callable
from typing import Any

import pytest

from freshkeeper.maintenance.base.term_text import key_as_text
from freshkeeper.maintenance.fetching.endpoint import Price
from freshkeeper.maintenance.journal.rows import KIND_PREFIXES

World = Callable[..., Any]
FROM = "FROM NAMED WINDOW :w ON :s [RANGE PT9S STEP PT1S]"
BODY = "WHERE { WINDOW :w { ?post :topic ?topic } SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n } }"
PLAIN = f"SELECT ?user ?n {FROM} {BODY}"
POSTS = [(1000, ":p1 :topic :jazz"), (5000, ":x :y 1")]
MOVED = [(1500, ":jazz :discussedBy :cyd")]
"""Instead of ann and bob."""


def test_edges_are_kept_for_ever_unless_they_are_said_to_change(world: World) -> None:
    assert world(PLAIN, posts=POSTS, changes=MOVED).answers[5000] == ["ann 10", "bob 20"]


@pytest.mark.parametrize("policy", ["lru", "gain", "random"])
def test_edges_that_change_are_refreshed_within_the_budget(world: World, policy: str) -> None:
    found = world(PLAIN, posts=POSTS, changes=MOVED, edges=True, policy=policy)
    assert found.answers == {1000: ["ann 10", "bob 20"], **{t: ["cyd 30"] for t in range(2000, 6000, 1000)}}
    assert found.fresh(5000) == {"cyd": (1.0, 0)}
    view = world(PLAIN, posts=POSTS, changes=MOVED, edges=True, policy=policy, budget=1)
    assert all(evaluation.record.spent <= 1 for evaluation in view.seen)
    assert view.answers[5000] == ["cyd 30"]


def test_edges_have_a_pace_of_their_own_and_the_journal_sees_it(world: World) -> None:
    found = world(PLAIN, posts=POSTS, changes=MOVED, edges=True)
    pairs = [pair for e in found.seen for pair in zip(e.refreshes.entries, e.refreshes.changed, strict=True)]
    seen = [(KIND_PREFIXES[kind] + key_as_text(key), changed) for (kind, key), changed in pairs]
    assert seen[0][0] == "miss <http://e/jazz>"
    assert [changed for sr, changed in seen if sr == "edges <http://e/jazz>"] == [True, False, False, False]


def test_an_answer_is_no_surer_than_its_edge(world: World) -> None:
    kept = world(PLAIN, posts=POSTS, changes=[], budget=0.5)
    found = world(PLAIN, posts=POSTS, changes=[], edges=True, budget=0.5)
    assert found.fresh(2000) == {"ann": (1.0, 0), "bob": (1.0, 0)}
    assert 0 < found.fresh(3000)["ann"][0] < kept.fresh(3000)["ann"][0] < 1
    assert {e.record.results for e in found.seen[1:]} == {2.0}


def test_a_sum_is_as_sure_as_its_edges_too(world: World) -> None:
    text = f"SELECT ?topic (SUM(?n) AS ?reach) {FROM} {BODY} GROUP BY ?topic"
    found = world(text, posts=POSTS, changes=MOVED, edges=True, policy="ibm")
    assert found.answers == {1000: ["jazz 30"], **{t: ["jazz 30"] for t in range(2000, 6000, 1000)}}
    assert found.blog.requests > 5
    poor = world(text, posts=POSTS, changes=MOVED, edges=True, policy="ibm", budget=0.5)
    assert 0 < poor.fresh(5000)["jazz"][0] < 1


@pytest.mark.parametrize("price", [Price(batch=3), Price(batch=2, per_key=0.25), Price(per_key=0.5)])
@pytest.mark.parametrize("budget", [2, 3, 5])
def test_edges_and_copies_together_cost_no_more_than_the_budget(world: World, price: Price, budget: int) -> None:
    posts = [(n * 400, f":p{n % 5} :topic :{('jazz', 'rock', 'folk')[n % 3]}") for n in range(1, 25)]
    found = world(PLAIN, posts=posts, changes=MOVED, edges=True, price=price, budget=budget)
    spent = [evaluation.record.spent for evaluation in found.seen]
    assert sum(spent) <= budget * len(spent)
    assert max(spent) > 0


def test_a_refresh_of_edges_that_fails_leaves_them_as_they_are(world: World) -> None:
    found = world(PLAIN, posts=POSTS, changes=MOVED, edges=True, failing=(2000,))
    assert found.answers[2000] == ["ann 10", "bob 20"]
    assert found.answers[3000] == ["cyd 30"]
    assert [r.errors > 0 for r in found.results] == [False, True, False, False, False]


def test_refreshed_edges_agree_with_the_source_whatever_moves(world: World) -> None:
    users = ("ann", "bob", "cyd", "dan")
    changes = [
        (n * 700 + 1, f":{t} :discussedBy :{users[(n * 7 + len(t) * n) % 4]}")
        for n in range(12)
        for t in ("jazz", "rock")
    ]
    posts = [(n * 400, f":p{n % 5} :topic :{('jazz', 'rock', 'folk')[n % 3]}") for n in range(1, 25)]
    text = f"SELECT ?post ?user ?n FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S] {BODY}"
    truth = world(text, posts=posts, changes=changes, fetch="always").answers
    assert world(text, posts=posts, changes=changes, edges=True).answers == truth
    assert world(text, posts=posts, changes=changes).answers != truth
