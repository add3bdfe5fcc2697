"""One evaluation from end to end, against a source in memory; every wrong input is an error and changes nothing."""

import dataclasses
import pickle
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from freshkeeper.maintenance.base.errors import BadSelectionError, BudgetError, ConfigError, OverspentError, TimeError
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.fetching.endpoint import Copy, Fetched, Key, Price
from freshkeeper.maintenance.sources.memory import InMemory
from freshkeeper.policies.base import (
    NEVER,
    Budget,
    Case,
    Round,
    Selection,
)
from freshkeeper.policies.random import Random

USERS = ("ann", "bob", "cyd", "dan")


def rows(evaluation: Evaluation) -> list[tuple[object, ...]]:
    return sorted((a.key, a.entry, a.value, a.weight, a.refreshed, a.freshness) for a in evaluation.answers)


def test_a_stale_copy_is_fetched_and_its_answers_are_fresh(
    make_manager: Callable[..., Manager], source: InMemory
) -> None:
    manager = make_manager(budget=1)
    source.values["bob"] = 150
    evaluation = manager.evaluate(1000, [(900, "jazz"), (950, "rock")])
    assert rows(evaluation) == [
        ("jazz", "ann", 100, 1, 0, 0.0),
        ("jazz", "bob", 150, 1, 1000, 1.0),
        ("rock", "bob", 150, 1, 1000, 1.0),
        ("rock", "cyd", 100, 1, 0, 0.0),
    ]
    assert (evaluation.record.results, evaluation.record.expected_fresh, evaluation.record.spent) == (4, 2, 1)
    assert evaluation.refreshes.changed.tolist() == [True]


def test_an_aggregate_is_fresh_only_when_all_its_inputs_are(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(policy="sbm", budget=1, case=Case.AGGREGATE)
    evaluation = manager.evaluate(1000, [(900, "jazz"), (950, "folk")])
    assert [(a.key, a.entry, a.freshness) for a in evaluation.answers] == [
        ("jazz", "ann", 0.0), ("jazz", "bob", 0.0), ("folk", "dan", 1.0),
    ]  # fmt: skip
    assert (evaluation.record.results, evaluation.record.expected_fresh) == (2, 1)


def test_an_answer_says_how_long_before_the_evaluation_its_copy_was_fetched(
    make_manager: Callable[..., Manager], source: InMemory
) -> None:
    manager = make_manager(budget=1)
    source.values["bob"] = 150
    answers = manager.evaluate(1000, [(900, "jazz"), (950, "rock")]).answers
    assert sorted({(a.entry, a.age) for a in answers}) == [("ann", 1000), ("bob", 0), ("cyd", 1000)]
    assert answers.age.tolist() == [a.age for a in answers]


def test_what_is_out_of_the_window_is_no_candidate(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(budget=5)
    assert manager.evaluate(1000, [(1000, "folk")]).record.candidates == 1
    for now in (2000, 3000, 4000):
        assert manager.evaluate(now).record.candidates == 1
    assert manager.evaluate(5000).record.candidates == 0


def test_an_sn_that_the_view_lacks_is_a_miss_that_a_policy_may_fetch(
    make_manager: Callable[..., Manager], source: InMemory
) -> None:
    manager = make_manager(budget=1, warm=False)
    first = manager.evaluate(1000, [(900, "jazz"), (900, "jazz"), (950, "folk")])
    assert list(first.refreshes.entries) == [(Kind.MISS, "jazz")]
    assert rows(first) == [("jazz", "ann", 100, 2, 1000, 1.0), ("jazz", "bob", 100, 2, 1000, 1.0)]
    assert (first.record.results, first.record.expected_fresh) == (6, 4), (
        "folk has answers, two like jazz for all we know"
    )
    assert list(manager.view.misses) == ["folk"]
    assert list(manager.evaluate(2000, []).refreshes.entries) == [(Kind.MISS, "folk")]
    assert not manager.view.misses
    assert manager.evaluate(3000, []).refreshes.keys[0] in USERS
    assert source.requests == 3


def test_two_misses_at_once_share_their_srs(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(budget=2, warm=False)
    evaluation = manager.evaluate(1000, [(900, "jazz"), (950, "rock")])
    assert [(a.key, a.entry) for a in sorted(evaluation.answers)] == [
        ("jazz", "ann"), ("jazz", "bob"), ("rock", "bob"), ("rock", "cyd"),
    ]  # fmt: skip
    assert len(manager.view.srs) == 3


def test_a_full_view_lets_go_of_what_no_window_needs(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(budget=9, warm=False, capacity=3)
    manager.evaluate(1000, [(900, "jazz"), (950, "folk")])
    for now in range(2000, 6000, 1000):
        manager.evaluate(now, [(now, "rock")])
    assert set(manager.view.srs.numbers) == {"bob", "cyd"} or len(manager.view.srs) <= 3
    assert "rock" in manager.view.sns.numbers
    again = manager.evaluate(6000, [(6000, "jazz")])
    assert {a.entry for a in again.answers if a.key == "jazz"} == {"ann", "bob"}


def test_the_least_demanded_goes_first(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(budget=9, warm=False, capacity=3)
    for now in (1000, 2000, 3000):
        manager.evaluate(now, [(now, "jazz")])
    manager.evaluate(4000, [(4000, "folk")])
    for now in range(5000, 9000, 1000):
        manager.evaluate(now)
    manager.evaluate(9000, [(9000, "rock")])
    assert "folk" not in manager.view.sns.numbers
    assert "jazz" in manager.view.sns.numbers


class Faulty(InMemory):
    """Fails for one key."""

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        good = super().fetch(keys, now)
        copies = [
            Copy(error="timed out") if key == "bob" else copy for key, copy in zip(keys, good.copies, strict=True)
        ]
        return dataclasses.replace(good, copies=copies)


def test_a_failed_fetch_is_paid_and_leaves_the_old_copy_and_its_age(
    make_manager: Callable[..., Manager], source: InMemory
) -> None:
    manager = make_manager(budget=3, endpoint=Faulty(source.edges, {"bob": 7, "ann": 8}))
    evaluation = manager.evaluate(1000, [(1000, "jazz")])
    assert rows(evaluation) == [("jazz", "ann", 8, 1, 1000, 1.0), ("jazz", "bob", 100, 1, 0, 0.0)]
    assert (evaluation.record.spent, evaluation.record.errors, evaluation.refreshes.failed) == (2, 1, 1)


def test_a_copy_of_an_earlier_evaluation_that_comes_after_the_decision_counts_as_what_it_is(
    make_manager: Callable[..., Manager],
) -> None:
    """All change at 500 and at 2,500: a copy read at 1,000 is fresh at 2,000, one of 0 is not."""
    manager = make_manager(budget=0, schedule=([2000] * 4, [500] * 4))
    manager.evaluate(1000, [(1000, "jazz")])
    decision = manager.decide(2000, np.array([2000]), manager.view.sn_slots(["jazz"]))
    ann = manager.view.srs.numbers["ann"]
    manager.receive(np.array([ann], np.int32), ["ann"], [Copy(150)], read_at=1000)
    evaluation = manager.conclude(decision, manager.fetch(decision))
    assert rows(evaluation) == [("jazz", "ann", 150, 2, 1000, 1.0), ("jazz", "bob", 100, 2, 0, 0.0)]
    assert evaluation.record.expected_fresh == 2


def test_a_bank_keeps_what_a_quiet_evaluation_leaves(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(policy="ibm", budget=1, bank=3)
    assert [manager.evaluate(now).record.carried for now in (1000, 2000, 3000, 4000)] == [1, 2, 3, 4]
    assert manager.evaluate(5000, [(5000, "jazz"), (5000, "rock")]).record.spent == 3
    manager.ledger.check()


def test_learned_knowledge_learns_from_what_refreshes_reveal(
    make_manager: Callable[..., Manager], source: InMemory
) -> None:
    manager = make_manager(policy="gain", budget=2, model=Learned(), warm=True)
    for now in range(1000, 60_000, 1000):
        source.values["ann"] += 1
        manager.evaluate(now, [(now, "jazz")])
    kept = manager.model.beliefs(np.array([60_000]), np.full(4, 59_000), look_ahead=False).kept[:, 0]
    slot = manager.view.srs.numbers
    assert kept[slot["ann"]] < 0.6 < kept[slot["bob"]]


def test_a_manager_that_was_pickled_goes_on_as_it_would_have(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(budget=1)
    manager.evaluate(1000, [(900, "jazz")])
    again = pickle.loads(pickle.dumps(manager))
    assert rows(again.evaluate(2000, [(1900, "rock")])) == rows(manager.evaluate(2000, [(1900, "rock")]))


def test_the_same_seed_makes_the_same_choices(make_manager: Callable[..., Manager]) -> None:
    def history() -> list[list[Key]]:
        manager = make_manager(policy="random", budget=1, seed=5)
        return [manager.evaluate(now, [(now, "jazz"), (now, "rock")]).refreshes.keys for now in range(1000, 9000, 1000)]

    assert history() == history()


def test_counting_windows_evaluate_when_enough_elements_came(
    source: InMemory, make_manager: Callable[..., Manager]
) -> None:
    from freshkeeper.maintenance.cache.demand.window import WindowSpec

    manager = make_manager(budget=1)
    counting = type(manager)(
        WindowSpec(range=2, step=1, count=True), source, manager.policy, manager.budget, manager.model
    )
    counting.view.fill([("jazz", "ann"), ("folk", "dan")], {}, now=0)
    assert counting.evaluate(10, [(10, "jazz")]).record.window_mappings == 1
    assert counting.evaluate(25, [(25, "folk")]).record.window_mappings == 2
    assert counting.evaluate(31, [(31, "folk")]).record.window_mappings == 2


# What is wrong is told, and nothing is half done.


def test_time_going_backwards_is_refused(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager()
    manager.evaluate(2000, [(1500, "jazz")])
    with pytest.raises(TimeError, match="evaluation at 2000 after the one at 2000"):
        manager.evaluate(2000)
    assert manager.evaluate(3000).record.window_mappings == 1


def test_an_arrival_after_its_evaluation_is_refused_and_leaves_no_trace(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(warm=False)
    with pytest.raises(TimeError, match="an arrival at 1001 lies after the evaluation at 1000"):
        manager.evaluate(1000, [(900, "jazz"), (1001, "rock")])
    assert (len(manager.view.sns), manager.content.seen, manager.ledger.evaluations) == (0, 0, 0)


def test_an_instant_between_two_evaluations_is_refused(make_manager: Callable[..., Manager]) -> None:
    with pytest.raises(TimeError, match="no evaluation is due at 1500"):
        make_manager().evaluate(1500)


class Wrong(Random):
    """Chooses what its test tells it to."""

    chosen: Sequence[int] = ()

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        return Selection(np.array(self.chosen), np.zeros(len(self.chosen)))


@pytest.mark.parametrize(
    ("chosen", "error", "said"),
    [
        ([0, 1, 2], OverspentError, "chose 3 entries for 3 cost units; the budget of this evaluation is 1"),
        ([0, 0], BadSelectionError, "chose entry 0 more than once"),
        ([7], BadSelectionError, "chose entry 7, the round has 0 to 3"),
        ([-1], BadSelectionError, "chose entry -1"),
        ([0.5], BadSelectionError, "must choose entry numbers"),
    ],
)
def test_a_policy_that_breaks_its_contract_is_stopped_before_anything_is_fetched(
    make_manager: Callable[..., Manager],
    source: InMemory,
    chosen: list[float],
    error: type[BadSelectionError] | type[OverspentError],
    said: str,
) -> None:
    policy = Wrong()
    object.__setattr__(policy, "chosen", chosen)
    manager = make_manager(policy=policy)
    with pytest.raises(error, match=said):
        manager.evaluate(1000, [(1000, "jazz"), (1000, "rock")])
    assert source.requests == 0
    assert manager.ledger.spent == 0
    object.__setattr__(policy, "chosen", [0])
    assert manager.evaluate(2000, []).record.spent == 1


def test_a_case_that_a_policy_does_not_handle_is_refused_at_once(make_manager: Callable[..., Manager]) -> None:
    with pytest.raises(BadSelectionError, match="'gain' does not handle case aggregate, only bgp"):
        make_manager(policy="gain", case=Case.AGGREGATE)


def test_knowledge_that_a_policy_does_not_work_with_is_refused_at_once(make_manager: Callable[..., Manager]) -> None:
    with pytest.raises(BadSelectionError, match="'oracle' does not work with learned knowledge"):
        make_manager(policy="oracle", model=Learned())


def test_a_source_that_charges_more_than_agreed_is_stopped(
    make_manager: Callable[..., Manager], source: InMemory
) -> None:
    class Greedy(InMemory):
        def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
            return Fetched([Copy(1) for _ in keys], 99.0, len(keys))

    manager = make_manager(endpoint=Greedy(source.edges, {}))
    with pytest.raises(BudgetError, match="1 cost units left, not 99"):
        manager.evaluate(1000, [(1000, "jazz")])


def test_a_view_with_no_room_is_refused(make_manager: Callable[..., Manager]) -> None:
    with pytest.raises(ConfigError, match="capacity must be at least 1"):
        make_manager(capacity=0)


def test_prices_decide_how_many_can_be_fetched(make_manager: Callable[..., Manager], source: InMemory) -> None:
    source.price = Price(per_request=2.0)
    assert make_manager(budget=5).evaluate(1000, [(1000, "jazz"), (1000, "rock")]).record.spent == 4


def test_an_honest_budget_holds_for_any_policy(make_manager: Callable[..., Manager]) -> None:
    class Marked(Random):
        keeps_budget = False

        def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
            return Selection(np.array([0, 1]), np.zeros(2))

    manager = make_manager(policy=Marked(), budget=1)
    manager.evaluate(1000, [(1000, "jazz")])
    assert manager.ledger.over_budget
    assert isinstance(manager.decide(2000, np.array([2000]), np.array([0])).budget, Budget)
    assert NEVER < 0


def test_what_had_no_answer_is_counted_and_not_lost_without_a_word(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager("gain", budget=1, warm=False)
    missed = [manager.evaluate(1000, [(900, "jazz"), (950, "jazz"), (960, "rock")]).record.missed]
    missed += [manager.evaluate(1000 * n, []).record.missed for n in (2, 3)]
    assert missed == [1, 0, 0]


@pytest.mark.parametrize("case", [Case.BGP, Case.AGGREGATE])
def test_what_is_told_of_an_evaluation_is_that_of_its_answers_also_where_they_are_made_when_asked_for(
    make_manager: Callable[..., Manager], case: Case
) -> None:
    arrivals = [(1000, ["jazz", "jazz", "folk"]), (2000, ["rock"]), (3000, []), (4000, ["folk"]), (5000, ["rock"])]
    carrying, asked = (make_manager(policy="sbm", budget=1, warm=False, case=case) for _ in range(2))
    asked.answers = False
    for now, sns in arrivals:
        found, other = (one.evaluate(now, [(now - 100, sn) for sn in sns]) for one in (carrying, asked))
        with pytest.raises(ConfigError, match=r"ask its answers_of\("):
            _ = other.answers
        assert "rows" not in vars(other.join) or case is Case.AGGREGATE, "the window is not joined for numbers"
        answers = [*asked.answers_of(other)]
        assert answers == [*found.answers]
        if case is Case.BGP:
            assert other.record.expected_fresh == pytest.approx(sum(a.weight * a.freshness for a in answers))
            assert other.record.results - len(asked.view.misses) * asked.view.degree == sum(a.weight for a in answers)
        else:
            each = {a.key: a.weight * a.freshness for a in answers}
            assert other.record.expected_fresh == pytest.approx(sum(each.values()))


def test_windows_with_gaps_between_them_are_warned_of() -> None:
    source = InMemory({"jazz": ["ann"]}, {"ann": 1})
    with pytest.warns(UserWarning, match="range 1000 and step 4000 leaves out what comes in the 3000 ms between two"):
        Manager(WindowSpec(1000, 4000), source, "lru", 1, Learned())
