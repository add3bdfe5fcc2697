"""A shared budget: parted by weights, minimums kept, leftovers used, and never more spent than was paid."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from threading import Barrier

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freshkeeper.maintenance.base.errors import BudgetError, ConfigError
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.sources.memory import InMemory
from freshkeeper.policies.registry import make


def hungry(member: Ledger, now: int) -> Fraction:
    """Spends whatever it may."""
    member.open(now)
    had = member.available
    member.spend(had)
    return had


def test_members_that_want_everything_get_what_their_weights_say() -> None:
    shared = SharedBudget(BudgetRule.of(9), 1000)
    one, two = shared.member("a", 2), shared.member("b", 1)
    for now in (0, 1000, 2000):
        assert hungry(one, now) == 6
        assert hungry(two, now) == 3


def test_what_cannot_be_divided_goes_round() -> None:
    shared = SharedBudget(BudgetRule.of(5), 1000)
    one, two = shared.member("a"), shared.member("b")
    taken = [(hungry(one, now), hungry(two, now)) for now in range(0, 4000, 1000)]
    assert {sum(both) for both in taken} == {5}
    assert sum(a for a, _ in taken) == sum(b for _, b in taken) == 10


def test_what_one_leaves_is_there_for_those_that_come_after_it() -> None:
    shared = SharedBudget(BudgetRule.of(4), 1000)
    one, two = shared.member("a"), shared.member("b")
    one.open(0)
    assert one.available == 2, "the other's half is the other's until it has evaluated"
    assert hungry(two, 0) == 4


def test_the_bank_is_common() -> None:
    shared = SharedBudget(BudgetRule.of(4, bank=10), 1000)
    one, two = shared.member("a"), shared.member("b")
    for now in (0, 1000):
        one.open(now)
        two.open(now)
    assert hungry(one, 2000) == 6
    assert hungry(two, 2000) == 6


def test_a_minimum_share_is_kept_for_whoever_has_no_weight_to_speak_of() -> None:
    shared = SharedBudget(BudgetRule.of(10), 1000)
    heavy, light = shared.member("a", 99), shared.member("b", 1, minimum=0.2)
    taken = [(hungry(heavy, now), hungry(light, now)) for now in range(0, 10_000, 1000)]
    assert all(b >= 2 for _, b in taken)
    assert sum(a + b for a, b in taken) == 100


@given(
    st.integers(0, 12),
    st.integers(0, 8),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=4),
    st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), max_size=25),
)
def test_all_together_never_spend_more_than_was_paid_and_none_starves(
    gamma: int, bank: int, shapes: list[tuple[int, int, int]], wishes: list[list[int]]
) -> None:
    shared = SharedBudget(BudgetRule.of(gamma, bank), 1000)
    members = [shared.member(str(n), weight, Fraction(low, 12)) for n, (weight, low, _) in enumerate(shapes)]
    wanted_all = [True] * len(members)
    for k, row in enumerate(wishes):
        for n, (member, (_, _, pace)) in enumerate(zip(members, shapes, strict=True)):
            if k % pace:
                wanted_all[n] = False
                continue
            member.open(1000 * k)
            spent = min(Fraction(row[n]), member.available)
            wanted_all[n] &= spent == member.available
            member.spend(spent)
        assert sum(member.spent for member in members) <= (k + 1) * gamma
    for n, member in enumerate(members):
        if wanted_all[n]:
            assert member.spent >= Fraction(shapes[n][1], 12) * gamma * len(wishes) - len(members)


def test_nobody_spends_what_belongs_to_others() -> None:
    shared = SharedBudget(BudgetRule.of(4), 1000)
    one, _ = shared.member("a"), shared.member("b")
    one.open(0)
    with pytest.raises(BudgetError, match="a has 2 cost units of the shared budget left, not 3"):
        one.spend(3)


def test_mistakes_are_said() -> None:
    shared = SharedBudget(BudgetRule.of(4), 1000)
    shared.member("a", 1, 0.7)
    with pytest.raises(ConfigError, match="more than the whole"):
        shared.member("b", 1, 0.4)
    with pytest.raises(ConfigError, match="starve"):
        shared.member("c", 0)


def test_managers_of_two_sources_share_one_budget() -> None:
    shared = SharedBudget(BudgetRule.of(6), 1000)
    managers = [
        Manager(
            WindowSpec(4000, 1000),
            InMemory({n: [n] for n in range(40)}, dict.fromkeys(range(40), 0)),
            make("lru"),
            shared.member(name, weight),
            Learned(),
        )
        for name, weight in (("a", 2), ("b", 1))
    ]
    for k in range(1, 11):
        for manager in managers:
            manager.evaluate(1000 * k, [(1000 * k, n) for n in range(40)])
    assert [manager.ledger.spent for manager in managers] == [40, 20]
    shared.check()


@settings(max_examples=examples(150))
@given(
    st.integers(0, 9),
    st.integers(0, 8),
    st.lists(st.integers(1, 4), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 9)), max_size=60),
)
def test_evaluations_of_several_threads_may_lie_within_each_other(
    gamma: int, bank: int, weights: list[int], steps: list[tuple[int, bool, int]]
) -> None:
    shared = SharedBudget(BudgetRule.of(gamma, bank), 1000)
    members = [shared.member(str(n), weight) for n, weight in enumerate(weights)]
    with contextlib.ExitStack() as stack:
        threads = [stack.enter_context(ThreadPoolExecutor(1)) for _ in members]
        opened, now = set(), 0
        for number, later, wish in steps:
            member, thread = members[number % len(members)], threads[number % len(members)]
            now += 1000 * later
            if member in opened:
                thread.submit(member.spend, min(Fraction(wish), member.available)).result()
                opened.discard(member)
            else:
                thread.submit(member.open, now).result()
                opened.add(member)
            assert sum(each.spent for each in members) <= (now // 1000 + 1) * gamma
            assert Fraction(shared.dump()["purse"]["available"]) <= (gamma + bank) * (1 + len(opened))
    shared.check()


def test_a_shared_budget_pays_threads_at_once_no_more_than_it_has() -> None:
    shared, rounds = SharedBudget(BudgetRule.of(20), 1000), 300
    members = [shared.member(str(n)) for n in range(6)]
    ready = Barrier(6)

    def evaluate(member: Ledger) -> None:
        for k in range(rounds):
            ready.wait()
            hungry(member, 1000 * k)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(evaluate, members))
    assert sum(member.spent for member in members) == 20 * rounds
    shared.check()
