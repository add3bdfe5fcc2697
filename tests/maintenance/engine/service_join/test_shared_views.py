"""SERVICE patterns of several queries that are one: one view, what all need of it, and the same answers as alone."""

from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import BLOG, CHANGES, Blog, E, elements, quads, written

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.budget.shared_budget import SharedIncome
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.service_join.maintenance_settings import (
    MaintenanceSettings,
    PolicyName,
    Shares,
)
from freshkeeper.maintenance.engine.service_join.query_definition import QueryDefinition, RegisteredQuery
from freshkeeper.maintenance.engine.service_join.service_view import ServiceView
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build_all
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.maintenance.sources.transport import Transport

TEXT = """SELECT ?topic ?user ?n FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S]
{ WINDOW :w { ?post :topic ?topic } SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n } }"""
RENAMED = """PREFIX ex: <http://e/>
SELECT ?a ?z ?m FROM NAMED WINDOW :v ON :s [RANGE PT3S STEP PT1S]
{ WINDOW :v { ?p :topic ?z } SERVICE ex:blog {
  ?z <http://e/discussedBy> ?a .  ?a ex:followers ?m } }"""
SLOW = TEXT.replace("RANGE PT2S STEP PT1S", "RANGE PT4S STEP PT2S")
RARE = TEXT.replace("?topic }", "?topic, :rock }", 1)
FILTERED = TEXT.replace("?n } }", "?n FILTER(?n > 15) } }")
SUMMED = TEXT.replace("SELECT ?topic ?user ?n", "SELECT ?topic (SUM(?n) AS ?sum)") + " GROUP BY ?topic"
TWO = """SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT3S STEP PT1S]
{ WINDOW :w { ?post :topic ?b ; :by ?a } SERVICE :blog { ?b :discussedBy ?a . ?a :followers ?n } }"""
SWAPPED = TWO.replace("?a", "?x").replace("?b", "?a").replace("?x", "?b")
POSTS = [
    (1000, ":p1 :topic :jazz ; :by :ann"),
    (2000, ":p2 :topic :rock ; :by :cyd"),
    (3000, ":p3 :topic :jazz ; :by :bob"),
    (4000, ":p4 :topic :folk ; :by :dan"),
    (6000, ":p5 :topic :rock ; :by :bob"),
]


def registered(
    texts: list[str],
    budget: int = 100,
    shares: Shares | None = None,
    policy: str = "lru",
    weights: dict[int, float] | None = None,
    evaluator: str = "auto",
    **more: Any,
) -> tuple[list[ContinuousQuery], Blog]:
    """Queries over one blog, and the blog."""
    blog = Blog(quads(BLOG), [(at, quad) for at, text in CHANGES for quad in quads(text)])
    maintenance = MaintenanceSettings(PolicyName(policy), BudgetRule.of(budget), shares=shares, **more)
    registrations = [
        RegisteredQuery(
            parse(f"PREFIX : <{E}> {text}"), f"q{n}", maintenance, QueryDefinition(weight=(weights or {}).get(n, 1))
        )
        for n, text in enumerate(texts)
    ]
    sources = {f"{E}blog": Source(Transport.in_process(blog), (f"{E}followers",))}
    return build_all(registrations, sources=sources, evaluator=EvaluatorKind(evaluator)), blog


def answering(query: ContinuousQuery) -> Any:
    """What answers its services."""
    return query.answering


def views(queries: list[ContinuousQuery]) -> list[ServiceView]:
    """The distinct ones."""
    services = (service for query in queries for service in answering(query).services)
    return list(dict.fromkeys(getattr(service, "service", service).view for service in services))


def answers(queries: list[ContinuousQuery], posts: list[tuple[int, str]] = POSTS) -> dict[tuple[str, int], list[str]]:
    """What each query answers at each instant, sorted."""
    return {(r.query, r.t): sorted(written(r)) for r in run(queries, {f"{E}s": elements(posts)})}


@pytest.mark.parametrize(
    ("texts", "distinct"),
    [
        ([TEXT, RENAMED], 1),
        ([TEXT, SLOW, RENAMED], 1),
        ([TWO, SWAPPED], 1),
        ([TEXT, FILTERED], 2),
        ([TEXT, SUMMED], 2),
        ([TEXT, TWO], 2),
        ([TEXT, TEXT.replace(":discussedBy", ":likedBy")], 2),
    ],
)
def test_patterns_are_one_view_where_only_names_of_variables_and_windows_differ(
    texts: list[str], distinct: int
) -> None:
    queries, _ = registered(texts)
    assert len(views(queries)) == distinct


def test_queries_that_share_a_view_ask_for_each_entry_once() -> None:
    together, blog = registered([TEXT, RENAMED, TEXT])
    answers(together)
    alone, lonely = registered([RENAMED])
    answers(alone)
    assert blog.requests == lonely.requests, "the longest window needs all that the others need"


@pytest.mark.parametrize("evaluator", ["auto", "snapshot"])
def test_a_query_that_has_nothing_in_its_windows_yet_shares_a_view_with_one_that_has(evaluator: str) -> None:
    queries, _ = registered([RARE, TEXT], evaluator=evaluator)
    assert len(views(queries)) == 1
    found = answers(queries, POSTS[:2])
    assert [found["q0", t] for t in (1000, 2000)] == [[], ["rock bob 21", "rock cyd 30"]]


@settings(max_examples=examples(40))
@given(
    st.sampled_from(["auto", "snapshot"]),
    st.lists(st.sampled_from([TEXT, RENAMED, SLOW, RARE, FILTERED, SUMMED, TWO, SWAPPED]), min_size=1, max_size=4),
    st.lists(
        st.tuples(st.integers(1, 9000), st.integers(1, 6), st.sampled_from(["jazz", "rock", "folk", "none"]),
                  st.sampled_from(["ann", "bob", "cyd"])), max_size=12),
)  # fmt: skip
def test_each_query_answers_as_it_does_alone_where_the_budget_is_enough(
    evaluator: str, texts: list[str], drawn: list[tuple[int, int, str, str]]
) -> None:
    posts = [(t, f":p{n} :topic :{topic} ; :by :{who}") for t, n, topic, who in sorted(drawn)]
    together, _ = registered(texts, evaluator=evaluator)
    expected: dict[object, object] = {}
    for n, text in enumerate(texts):
        (alone,), _ = registered([text], evaluator="snapshot")
        alone.name = f"q{n}"
        expected |= answers([alone], posts)
    assert answers(together, posts) == expected


def test_a_view_has_the_weights_of_all_its_queries_in_a_shared_budget() -> None:
    queries, _ = registered([TEXT, RENAMED, FILTERED], 6, Shares({f"{E}blog": 2}), weights={0: 0.1, 1: 0.2, 2: 3})
    one, other = (view.manager.ledger for view in views(queries))
    assert isinstance(one.income, SharedIncome)
    assert isinstance(other.income, SharedIncome)
    assert (str(one.income.weight), str(other.income.weight)) == ("3/5", "6")
    answers(queries)
    assert one.spent + other.spent <= 6 * 6


def test_demand_is_the_sum_over_the_queries() -> None:
    seen = []
    queries, _ = registered([TEXT, RENAMED], observe=lambda source, _, evaluation: seen.append((source, evaluation)))
    answers(queries)
    assert {source for source, _ in seen} == {f"q0, q1 {E}blog"}
    assert [evaluation.record.window_mappings for _, evaluation in seen] == [2, 4, 5, 5, 3, 3]


def failing(*_: object) -> None:
    raise ValueError("it cannot be evaluated")


@pytest.mark.parametrize("evaluator", ["auto", "snapshot"])
def test_a_query_that_fails_takes_its_demand_with_it_and_the_others_go_on(
    evaluator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, _ = registered([TEXT, RENAMED], evaluator=evaluator)
    gone, (view,) = [], views(queries)
    engine = Engine(list(queries), failed=lambda query, error: gone.append((query.name, str(error))))
    engine.listen(f"{E}s", elements(POSTS))
    mappings, results = [], []
    for result in engine.run():
        results.append((result.query, result.t))
        mappings.append(view.evaluation.record.window_mappings)
        if result.t == 2000:
            monkeypatch.setattr(queries[0].answering, "answers", failing)
    assert gone == [("q0", "it cannot be evaluated")]
    assert results == [
        ("q0", 1000),
        ("q1", 1000),
        ("q0", 2000),
        ("q1", 2000),
        *(("q1", t) for t in range(3000, 7000, 1000)),
    ]
    assert mappings[-3:] == [3, 2, 2]
