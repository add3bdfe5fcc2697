"""The least budget of each policy, what TTL does with as many requests, and the words and the page of it."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.simulator.budget import words
from freshkeeper.simulator.budget.answer import BudgetAnswer, answer
from freshkeeper.simulator.budget.budget_page import write
from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.budget.run_without_journal import run_without_journal
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.point import EvaluationSeries, MeasuredPoint, Point
from freshkeeper.simulator.experiment.run_parts import task_of


def fresh(asked: Question, title: str, budget: float) -> float:
    policy = next(one for one in asked.policies if one.title == title)
    tried = asked.with_budget(policy, budget)
    tasks = [task_of(tried, 0, seed) for seed in tried.seed_list]
    return MeasuredPoint(
        [run_without_journal(task, policy) for task in tasks], tasks[0].warm_up, asked.draws_traces
    ).share


def point_of(answered: BudgetAnswer, name: str) -> Point:
    point = answered.of(name).point
    assert point is not None
    return point


@pytest.mark.slow
def test_the_budget_is_enough_and_the_next_smaller_is_not(answered: BudgetAnswer) -> None:
    for title in ("lru", "gain"):
        needed = answered.of(title)
        assert needed.point is not None
        unit = 0.1 if needed.point.knob <= 10 else 1
        assert fresh(answered.question, title, needed.point.knob) == needed.point.freshness.mean >= 0.85
        assert fresh(answered.question, title, round(needed.point.knob - unit, 1)) < 0.85


def test_caches_without_a_budget_stand_beside_at_the_same_freshness(answered: BudgetAnswer) -> None:
    for name in ("ttl", "refresh-ahead"):
        assert point_of(answered, name).freshness.mean == pytest.approx(0.85, abs=0.02)
    assert point_of(answered, "no-cache").freshness.mean == 1
    assert answered.of("fetch-once").point is None
    assert not any(answered.of(name).budgeted for name in ("ttl", "refresh-ahead", "no-cache", "fetch-once"))


@pytest.mark.slow
def test_a_ttl_cache_with_as_many_requests_is_what_policies_are_compared_with(answered: BudgetAnswer) -> None:
    needed = answered.of("gain")
    assert needed.ttl is not None
    assert needed.point is not None
    assert needed.ttl.requests == pytest.approx(needed.point.requests, rel=0.03)
    assert needed.ahead is not None
    assert needed.point.freshness is not None
    assert needed.ttl.freshness is not None
    assert needed.ahead.mean == pytest.approx(needed.point.freshness.mean - needed.ttl.freshness.mean)


def test_the_sentence_says_requests_and_money_of_the_best_and_of_ttl(answered: BudgetAnswer) -> None:
    best, asked = answered.best, answered.question
    assert best is not None
    assert best.point is not None
    day = best.point.requests * 86_400
    assert words.period_requests(asked, best.point) == day
    said = words.lead(answered)
    assert said.startswith(f"{best.curve} keeps 85")
    assert f"{float(f'{day:.3g}'):,.0f} requests a day for {day * 0.01:,.2f}" in said
    assert f"a TTL cache needs {words.requests(asked, point_of(answered, 'ttl'))}" in said


def test_what_nobody_reaches_is_said(ask: Callable[..., Question]) -> None:
    never = answer(ask(0.999, "lru", 1, remote={"latency_ms": 100, "failure_rate": 0.9}))
    assert never.best is None
    assert words.lead(never).startswith("No policy keeps 99.9")


def test_the_page_has_the_sentence_the_table_the_picture_and_what_it_cannot_tell(
    answered: BudgetAnswer, tmp_path: Path
) -> None:
    page = write(words.sheet(answered), tmp_path, "mine", "freshkeeper budget mine").read_text()
    assert words.lead(answered) in page
    assert page.count("sets no budget</span>") == 4
    assert "What this page cannot tell" in page
    assert "A note." in page
    assert "http://" not in page.replace("http://www.w3.org", "").split("<script>")[0]
    with Image.open(tmp_path / "frontier.png") as picture:
        assert picture.width > 600
    rows = list(csv.DictReader((tmp_path / "frontier.csv").read_text().splitlines()))
    assert {row["policy"] for row in rows} == {"lru", "gain", "ttl", "refresh-ahead", "no-cache", "fetch-once"}
    told = json.loads((tmp_path / "budget.json").read_text())
    assert [row["policy"] for row in told["rows"] if row["sets_budget"]] == ["lru", "gain"]


def test_blocks_of_one_trace_give_an_interval_and_pairs_of_them_a_narrower_one() -> None:
    rng = np.random.default_rng(0)
    hard = np.sin(np.arange(400) / 30) * 0.1

    def series(level: float) -> EvaluationSeries:
        kept = 100 * (level + hard + rng.normal(0, 0.01, 400))
        return EvaluationSeries(np.ones(400), np.full(400, 100.0), kept)

    one, other = (MeasuredPoint([series(level)], 40, False) for level in (0.7, 0.6))
    assert 0.005 < one.point("a", 1).freshness.half < 0.1
    assert one.ahead(other).half < one.point("a", 1).freshness.half / 5
    assert one.ahead(other).mean == pytest.approx(0.1, abs=0.01)


def test_shares_are_fresh_answers_over_all_answers() -> None:
    """Of 1,000 answers 900 are fresh, and of one none: 900 of 1,001, not the mean of 90 % and 0 %."""
    busy_and_quiet = EvaluationSeries(np.ones(2), np.array([1000.0, 1.0]), np.array([900.0, 0.0]))
    assert MeasuredPoint([busy_and_quiet], 0, drawn=False).share == pytest.approx(900 / 1001)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"target": 1.5}, "the target is 1.5"),
        ({"price": -1}, "the price of a request is -1"),
        ({"per": "fortnight"}, "hour, day, week, month, year"),
    ],
)
def test_a_question_without_an_answer_is_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Question(**{"experiment": resolve({}), "target": 0.9, **keys})


def test_policies_that_heed_no_budget_are_no_question_of_theirs() -> None:
    with pytest.raises(ConfigError, match="heeds a budget"):
        Question(resolve({"policies": "ttl,unlimited"}), 0.9)
    with pytest.raises(ConfigError, match="knowledge has several values"):
        Question(resolve({"sweep": {"knowledge": ["exact", "learned"]}}), 0.9)


def test_where_a_ttl_cache_is_cheaper_the_sentence_says_so(answered: BudgetAnswer) -> None:
    ttl = answered.of("ttl")
    cheap = replace(ttl, point=replace(point_of(answered, "ttl"), requests=0.01))
    told = replace(answered, needed=[cheap if one is ttl else one for one in answered.needed])
    assert "; here a TTL cache is cheaper, and needs 864 for 8.64." in words.lead(told)


def test_where_no_ttl_cache_makes_so_few_requests_nothing_is_compared(ask: Callable[..., Question]) -> None:
    """Every key comes once: what a cache lacks takes more than the budget that policies have."""
    keys = {"workload": {"sns": 400, "srs": 400, "edges": 400, "arrival_interval_ms": [60_000, 90_000]}}
    found = answer(ask(0.15, "lru", 1, start="cold", evaluations=40, **keys))
    needed = found.of("lru")
    assert needed.ttl is not None
    assert needed.nearest is not None
    assert needed.ttl.requests > 1.03 * needed.nearest.requests
    assert needed.ahead is None
    assert "No TTL cache makes as few requests as lru" in " ".join(words.sentences(found))
