"""Audits measure what the answers that went out were worth, on their own part of the budget."""

from dataclasses import replace

import numpy as np
import pytest

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.audit import Measured
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.fetching.endpoint import Copy, Fetched
from freshkeeper.maintenance.fetching.function_source import fetcher_of
from freshkeeper.maintenance.sources.memory import InMemory
from freshkeeper.policies.base import Case
from freshkeeper.policies.registry import make


class Topics:
    """Topics with two users each, whose followers change at random; and what is true."""

    def __init__(
        self, case: Case, audit: float, seed: int = 1, budget: int = 4, policy: str | None = None, change: float = 0.08
    ) -> None:
        self.rng, self.change = np.random.default_rng(seed), change
        self.edges = {t: [2 * t, 2 * t + 1] for t in range(20)} | {20: list(range(0, 40, 5))}
        self.values = dict.fromkeys(range(40), 0)
        self.source = InMemory(self.edges, self.values)
        name = policy or ("ibm" if case is Case.AGGREGATE else "lru")
        rule = BudgetRule.of(budget, 10)
        self.manager = Manager(
            WindowSpec(3000, 1000), self.source, make(name), rule, Learned(), case, seed=seed, audit=audit
        )
        self.fresh = self.answers = 0

    def step(self, k: int) -> Evaluation:
        for user in np.flatnonzero(self.rng.random(40) < self.change).tolist():
            self.values[user] += 1
        now = 1000 * k
        evaluation = self.manager.evaluate(now, [(now, int(t)) for t in self.rng.integers(0, 21, 15)])
        if k > 20:
            self.count(evaluation)
        return evaluation

    def count(self, evaluation: Evaluation) -> None:
        held = {(a.key, a.entry): a.value for a in evaluation.answers}
        for sn, count in zip(evaluation.sns.tolist(), evaluation.counts.tolist(), strict=True):
            topic = self.manager.view.sns.keys[sn]
            right = [held.get((topic, user)) == self.values[user] for user in self.edges[topic]]
            own = [all(right)] if self.manager.case is Case.AGGREGATE else right
            self.fresh += count * sum(own)
            self.answers += count * len(own)


@pytest.mark.slow
@pytest.mark.parametrize("case", list(Case))
def test_the_true_freshness_lies_in_the_interval_that_audits_give(case: Case) -> None:
    world = Topics(case, 0.25, budget=8)
    for k in range(1, 21):
        world.step(k)
    assert world.manager.auditor is not None
    world.manager.auditor.measured = Measured()
    for k in range(21, 1500):
        world.step(k)
    assert world.manager.auditor is not None
    measured = world.manager.auditor.measured
    low, high = measured.interval
    assert measured.checked > 300
    assert low <= world.fresh / world.answers <= high
    world.manager.ledger.check()
    assert world.source.requests == world.manager.ledger.spent


@pytest.mark.slow
def test_audits_spend_their_share_and_no_more() -> None:
    world = Topics(Case.BGP, 0.1, budget=10)
    requests = sum(len(world.step(k).refreshes.audited) for k in range(1, 400))
    assert 380 <= requests <= 399, "a tenth of ten requests for each of 399 evaluations"
    assert world.manager.auditor is not None
    assert 0 <= world.manager.auditor.account <= 2
    world.manager.ledger.check()


def test_an_audited_copy_enters_the_view_when_the_answers_are_out() -> None:
    world = Topics(Case.BGP, 0.5, budget=2, change=1.0)
    stale = []
    for k in range(1, 60):
        evaluation = world.step(k)
        held = {a.entry: a.refreshed for a in evaluation.answers}
        audits = [a for a in evaluation.audits if a.srs and a.srs[0] in held]
        stale += [a for a in audits if a.fresh is False]
        assert all(held[a.srs[0]] == a.refreshed[0] for a in audits)
        kept = world.manager.view.last_refresh
        slots = world.manager.view.srs.numbers
        assert all(kept[slots[a.srs[0]]] == evaluation.record.t_ms for a in audits)
        assert [*world.manager.answers_of(replace(evaluation, carried_answers=None))] == [*evaluation.answers]
    assert stale


def test_without_a_share_nothing_is_drawn_and_choices_are_the_same() -> None:
    with_none, again = Topics(Case.BGP, 0, policy="random"), Topics(Case.BGP, 0, policy="random")
    for k in range(1, 30):
        one, other = with_none.step(k), again.step(k)
        assert not one.audits
        assert one.refreshes.keys == other.refreshes.keys


def test_a_copy_that_cannot_be_had_leaves_the_answer_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Topics(Case.BGP, 0.5, budget=2)
    for k in range(1, 20):
        world.step(k)
    assert world.manager.auditor is not None
    before = world.manager.auditor.measured.checked
    monkeypatch.setattr(world.source, "fetch", lambda keys, now: failing(keys))
    world.manager.endpoint = fetcher_of(world.source)
    for k in range(20, 40):
        world.step(k)
    assert world.manager.auditor.measured.unknown > 0
    assert world.manager.auditor.measured.checked - before <= 20


def failing(keys: list[int]) -> Fetched:
    return Fetched([Copy(error="down") for _ in keys], float(len(keys)), len(keys))


def test_wilson_intervals_are_what_they_are_said_to_be() -> None:
    assert Measured().interval == (0.0, 1.0)
    low, high = Measured(fresh=90, checked=100).interval
    assert (low, high) == pytest.approx((0.8256, 0.9448), abs=5e-4)


def test_audits_cannot_have_the_whole_budget() -> None:
    with pytest.raises(ConfigError, match="below 1"):
        Topics(Case.BGP, 1)
