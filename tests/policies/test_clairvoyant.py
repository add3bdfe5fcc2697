"""The bounds against brute force, and the schedules against a simulator that shares no code with them."""

from collections.abc import Mapping, Set
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints
from freshkeeper.maintenance.base.errors import ConfigError, InputError, PolicyError
from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case, Graph, Policy
from freshkeeper.policies.bound import edges, upper_bound
from freshkeeper.policies.bound.edges import Schedule
from freshkeeper.policies.bound.future import Future, headline_weight
from freshkeeper.policies.bound.periods import dual_bound, steps_of
from freshkeeper.policies.clairvoyant import Clairvoyant
from freshkeeper.policies.rounds_by_hand import from_parts, round_of


def future_of(seed: int, k: int = 4, srs: int = 3, sns: int = 3, span: int = 2, **given: object) -> Future:
    """A random trace: arrivals that stay for `span` evaluations, and changes of every pace."""
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(rng.random((sns, srs)) < 0.6).astype(np.int32)
    profile = window(rng.poisson(0.7, (k, sns)), span, 0)
    changed = np.argwhere(rng.random((k, srs)) < rng.random(srs))
    per_mapping = degree(pairs, sns)
    answers = profile @ (np.sign(per_mapping) if given.pop("case", Case.BGP) is Case.AGGREGATE else per_mapping)
    settings: dict[str, object] = {
        "weight": headline_weight(answers, warm_up=int(rng.integers(0, 2))),
        "pay": np.resize([[1.0], [1.0, 2.0], [2.0, 0.0]][seed % 3], k),
        "fresh_at_start": np.full(srs, bool(rng.integers(0, 2))),
        "cost": np.ones(srs),
        "bank": float(rng.integers(0, 3)),
        "initial": float(rng.integers(0, 2)),
    } | given
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], sns, srs)
    return Future.of(sparse.csr_array(profile), graph, changed_at=changed[:, 0], changed_sr=changed[:, 1], **settings)


def window(arrivals: Ints, span: int, ahead: int) -> Floats:
    """What is in the window at each evaluation and will still be `ahead` evaluations later."""
    kept = [np.roll(arrivals, s, axis=0) * (np.arange(len(arrivals)) >= s)[:, None] for s in range(span - ahead)]
    return np.sum(kept, axis=0, dtype=np.float64) if kept else np.zeros(arrivals.shape)


def degree(pairs: Ids, sns: int) -> Floats:
    return np.bincount(pairs[:, 0], minlength=sns).astype(np.float64)


def freshness(future: Future, k: int, fresh: Set[int], case: Case) -> float:
    """The part of the headline that evaluation k adds when the SRs in `fresh` are."""
    if case is Case.BGP:
        row = future.answers.toarray()[k]
        return float(future.weight[k] * sum(row[j] for j in fresh))
    assert future.profile is not None
    row = future.profile.toarray()[k]
    assert future.graph is not None
    inputs = [set(future.graph.inputs(i).tolist()) for i in range(row.size)]
    return float(future.weight[k] * sum(row[i] for i in range(row.size) if inputs[i] and inputs[i] <= fresh))


def changes(future: Future, k: int) -> set[int]:
    return set(future.changed_sr[future.changed_at == k].tolist())


def at_start(future: Future) -> frozenset[int]:
    return frozenset(np.flatnonzero(future.fresh_at_start).tolist())


def brute_force(future: Future, case: Case = Case.BGP) -> float:
    """The best over all schedules of refreshes, every subset of SRs tried at every evaluation."""

    @cache
    def best(k: int, fresh: frozenset[int], carried: float) -> float:
        if k == future.evaluations:
            return 0.0
        held, available = fresh - changes(future, k), carried + future.pay[k]
        options = []
        for size in range(future.srs + 1):
            for chosen in combinations(range(future.srs), size):
                spent = future.cost[list(chosen)].sum()
                if spent <= available + 1e-9:
                    now = held | set(chosen)
                    later = best(k + 1, now, min(future.bank, available - spent))
                    options.append(freshness(future, k, now, case) + later)
        return max(options)

    return best(0, at_start(future), future.initial)


def replay(future: Future, schedule: Schedule) -> float:
    """What a schedule really reaches; it must never spend what is not there."""
    fresh, carried, reached = at_start(future), future.initial, 0.0
    for k in range(future.evaluations):
        chosen = schedule.sr[schedule.at == k].tolist()
        assert len(set(chosen)) == len(chosen)
        left = carried + future.pay[k] - future.cost[chosen].sum()
        assert left >= -1e-9
        held = fresh - changes(future, k)
        assert not held & set(chosen), "a refresh of what is fresh is worth nothing"
        fresh, carried = held | set(chosen), min(future.bank, left)
        reached += freshness(future, k, fresh, Case.BGP)
    return reached


def hand_worked(**given: object) -> Future:
    """Two SRs, three evaluations, one request each; SR 0 changes at every evaluation, SR 1 at the first alone."""
    answers = sparse.csr_array(np.array([[3.0, 1.0], [3.0, 2.0], [1.0, 3.0]]))
    settings: dict[str, Any] = {"weight": np.ones(3), "pay": np.ones(3), "bank": 0.0} | given
    return Future(
        answers,
        np.array([0, 0, 1, 2]),
        np.array([0, 1, 0, 0]),
        fresh_at_start=np.ones(2, bool),
        cost=np.ones(2),
        **settings,
    )


def test_the_hand_worked_example() -> None:
    # SR 1 refreshed at 0 is fresh throughout: 1 + 2 + 3. SR 0 is worth 3, 3, 1. Best: SR 1, then SR 0 twice: 6 + 3 + 1.
    # SR 0 at 0 and SR 1 at 1 would give 3 + 5 + 1 = 9; the greedy choice of 3 answers at every evaluation 3 + 3 + 3.
    bound = upper_bound(hand_worked(), Case.BGP)
    assert [bound.value, bound.reached] == pytest.approx([10, 10])
    assert bound.exact
    assert bound.schedule is not None
    assert bound.schedule.at.tolist() == [0, 1, 2]
    assert bound.schedule.sr.tolist() == [1, 0, 0]


def test_a_bank_moves_budget_to_where_it_is_worth_more() -> None:
    bound = upper_bound(hand_worked(pay=np.array([0.0, 2.0, 0.0]), bank=1.0), Case.BGP)
    assert bound.value == pytest.approx(3 + 2 + 3)
    saved = upper_bound(hand_worked(pay=np.array([2.0, 0.0, 1.0]), bank=1.0), Case.BGP)
    assert saved.value == pytest.approx(6 + 3 + 1)
    lost = upper_bound(hand_worked(pay=np.array([2.0, 0.0, 0.0]), bank=0.0), Case.BGP)
    assert lost.value == pytest.approx(6 + 3)


def test_idle_budget_refreshes_ahead_of_demand() -> None:
    future = hand_worked(weight=np.array([0.0, 0.0, 1.0]))
    assert upper_bound(future, Case.BGP).value == pytest.approx(1 + 3)


@pytest.mark.parametrize("seed", range(150))
def test_case_1_equals_brute_force(seed: int) -> None:
    future = future_of(seed)
    bound = upper_bound(future, Case.BGP)
    assert bound.exact
    assert bound.value == pytest.approx(brute_force(future), abs=1e-9)
    assert bound.reached == pytest.approx(bound.value, abs=1e-9)
    assert bound.schedule is not None
    assert replay(future, bound.schedule) == pytest.approx(bound.reached, abs=1e-9)
    assert (bound.schedule.gain > 0).all()


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(
    "given",
    [
        {"cost": np.array([1.0, 2.0, 0.5])},
        {"cost": np.array([0.0, 1.0, 1.0])},
        {"pay": np.full(4, 0.75), "bank": 1.5},
        {"pay": np.full(4, 1.5), "bank": 0.0},
        {"cost": np.full(3, 0.1), "pay": np.full(4, 0.3), "bank": 0.2, "initial": 0.0},
    ],
    ids=["unequal-costs", "a-free-source", "fractions-banked", "fractions-lost", "tenths"],
)
def test_the_bound_holds_for_any_prices_and_payments(seed: int, given: Mapping[str, Any]) -> None:
    future = future_of(seed, **given)
    best, bound = brute_force(future), upper_bound(future, Case.BGP)
    assert bound.value >= best - 1e-9
    assert bound.reached is not None
    assert bound.reached <= best + 1e-9
    assert bound.schedule is not None
    assert replay(future, bound.schedule) == pytest.approx(bound.reached, abs=1e-9)
    if bound.exact:
        assert bound.value == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(
    "given", [{"pay": np.full(4, 1.5), "bank": 0.0}, {"cost": np.full(3, 0.1), "pay": np.full(4, 0.3)}]
)
def test_equal_costs_are_exact_where_fractions_cannot_be_banked(given: Mapping[str, Any]) -> None:
    assert all(upper_bound(future_of(seed, **given), Case.BGP).exact for seed in range(30))


@pytest.mark.parametrize("seed", range(30))
def test_any_prices_give_a_bound(seed: int) -> None:
    future, rng = future_of(seed), np.random.default_rng(seed)
    steps, certain = steps_of(future)
    best = brute_force(future)
    for scale in (0.0, 0.05, 0.2):
        assert certain + dual_bound(steps, future.allowance, scale * rng.random(4)) >= best - 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_a_trace_solved_in_parts_has_the_same_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    future = future_of(seed, k=40, srs=12, sns=8, span=4)
    whole = upper_bound(future, Case.BGP)
    monkeypatch.setattr(edges, "FIRST_TRY", 20)
    parts = upper_bound(future, Case.BGP)
    assert parts.exact
    assert parts.value == pytest.approx(whole.value, abs=1e-9)
    assert parts.schedule is not None
    assert replay(future, parts.schedule) == pytest.approx(parts.reached, abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_a_limit_loosens_the_bound_but_never_breaks_it(seed: int) -> None:
    future = future_of(seed, k=40, srs=12, sns=8, span=4)
    size = steps_of(future)[0].size
    exact = upper_bound(future, Case.BGP)
    tight, loose = (upper_bound(future, Case.BGP, limit) for limit in (size * 9 // 10, size // 4))
    for bound in (tight, loose):
        assert bound.value >= exact.value - 1e-9
        assert bound.schedule is not None
        assert replay(future, bound.schedule) == pytest.approx(bound.reached, abs=1e-9)
        assert bound.reached is not None
        assert bound.gap == pytest.approx(bound.value - bound.reached)
    assert tight.value - exact.value < 0.01


@pytest.mark.parametrize("seed", range(60))
def test_case_2_is_never_below_brute_force(seed: int) -> None:
    future = future_of(seed, case=Case.AGGREGATE)
    best = brute_force(future, Case.AGGREGATE)
    plain, *looser = (upper_bound(future, Case.AGGREGATE, limit).value for limit in (1000, 8, 1))
    assert plain >= best - 1e-9
    assert all(value >= plain - 1e-9 for value in looser)


@pytest.mark.parametrize("seed", range(20))
def test_case_2_is_exact_where_every_sn_has_one_input(seed: int) -> None:
    future = future_of(seed, case=Case.AGGREGATE)
    assert future.profile is not None
    future = Future.of(
        future.profile,
        Graph.from_edges(np.arange(3), np.array([0, 1, 1]), 3, 3),
        **{
            name: getattr(future, name)
            for name in ("changed_at", "changed_sr", "weight", "pay", "fresh_at_start", "cost")
        },
        bank=future.bank,
    )
    assert upper_bound(future, Case.AGGREGATE).value == pytest.approx(brute_force(future, Case.AGGREGATE), abs=1e-9)


def test_a_shared_input_that_no_budget_completes_is_half_fresh_to_the_relaxation() -> None:
    # One SN needs two SRs that both change at every evaluation; one request renews one of them: nothing is ever fresh.
    graph = Graph.from_edges(np.array([0, 0]), np.array([0, 1]), 1, 2)
    future = Future.of(
        sparse.csr_array(np.ones((2, 1))), graph, changed_at=np.array([0, 0, 1, 1]), changed_sr=np.array([0, 1, 0, 1]),
        weight=np.full(2, 0.5), pay=np.ones(2), fresh_at_start=np.ones(2, bool), cost=np.ones(2),
    )  # fmt: skip
    assert brute_force(future, Case.AGGREGATE) == 0
    bound = upper_bound(future, Case.AGGREGATE)
    assert bound.value == pytest.approx(0.5)
    assert (bound.exact, bound.schedule) == (False, None)


def play(
    policy: Policy, seed: int, budget_rule: tuple[float, float], k: int = 30, span: int = 3
) -> tuple[float, float]:
    """The headline that a policy reaches on a random trace, told all that `exact` knowledge tells, and the bound."""
    rng = np.random.default_rng(seed)
    sns, srs = 6, 9
    pairs = np.argwhere(rng.random((sns, srs)) < 0.4).astype(np.int32)
    graph, arrivals = Graph.from_edges(pairs[:, 0], pairs[:, 1], sns, srs), rng.poisson(0.5, (k, sns))
    changed = rng.random((k + span, srs)) < rng.uniform(0.1, 0.7, srs)
    profile, (pay, bank) = window(arrivals, span, 0), budget_rule
    future = Future.of(
        sparse.csr_array(profile), graph, changed_at=np.nonzero(changed[:k])[0], changed_sr=np.nonzero(changed[:k])[1],
        weight=headline_weight(profile @ degree(pairs, sns), 3), pay=np.full(k, pay), fresh_at_start=np.ones(srs, bool),
        cost=np.ones(srs), bank=bank,
    )  # fmt: skip
    if isinstance(policy, Clairvoyant):
        policy.foresee(future)
    ahead = np.stack([window(arrivals, span, m) for m in range(span)], axis=2)
    fresh, carried, reached = np.ones(srs, bool), 0.0, 0.0
    for now in range(k):
        fresh &= ~changed[now]
        change = changed[now : now + span].T.astype(np.float64)
        change[:, 0] = 0
        lives: Floats = np.cumprod(1 - change, axis=1, dtype=np.float64)
        round = from_parts(graph, ahead[now], lives, lives * fresh[:, None], change)
        budget = Budget(carried + pay, pay, bank)
        chosen = policy.select(round, budget, rng).chosen
        assert chosen.size <= budget.available
        fresh[chosen] = True
        carried = min(bank, budget.available - chosen.size)
        reached += freshness(future, now, frozenset(np.flatnonzero(fresh).tolist()), Case.BGP)
    return reached, upper_bound(future, Case.BGP).value


HONEST = sorted(
    name
    for name, policy in registry.available().items()
    if Case.BGP in policy.cases and not policy.is_bound and registry.make(name).keeps_budget and name != "oracle"
)


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("budget_rule", [(1.0, 0.0), (2.0, 6.0)], ids=["no-bank", "bank"])
def test_no_honest_policy_beats_it(name: str, budget_rule: tuple[float, float]) -> None:
    for seed in range(4):
        reached, bound = play(registry.make(name), seed, budget_rule)
        assert reached <= bound + 1e-9


@pytest.mark.parametrize("budget_rule", [(1.0, 0.0), (2.0, 6.0)], ids=["no-bank", "bank"])
def test_playing_the_schedule_reaches_the_bound_again_and_again(budget_rule: tuple[float, float]) -> None:
    policy = Clairvoyant()
    for seed in range(4):
        reached, bound = play(policy, seed, budget_rule)
        assert reached == pytest.approx(bound, abs=1e-9)
        assert policy.bound.exact


def test_without_a_future_it_says_what_is_missing() -> None:
    with pytest.raises(PolicyError, match="not been told the future"):
        Clairvoyant().select(round_of([(0, 0)], [1], [1]), Budget(1, 1), np.random.default_rng(1))
    with pytest.raises(PolicyError, match="foresee"):
        _ = Clairvoyant().bound


def test_a_run_that_is_not_the_one_foreseen_is_an_error() -> None:
    policy, rng = Clairvoyant(), np.random.default_rng(1)
    policy.foresee(hand_worked())
    round = round_of([(0, 0), (0, 1)], [1], [1, 1])
    with pytest.raises(PolicyError, match="would spend 1 at evaluation 0 and has 0"):
        policy.select(round, Budget(0, 1), rng)
    with pytest.raises(PolicyError, match="2 entries and the round has 1"):
        policy.select(round_of([(0, 0)], [1], [1]), Budget(1, 1), rng)
    played = [policy.select(round, Budget(1, 1), rng).chosen.tolist() for _ in range(3)]
    assert played == [[1], [0], [0]]
    with pytest.raises(PolicyError, match="told of 3 evaluations"):
        policy.select(round, Budget(1, 1), rng)


def test_what_it_declares() -> None:
    policy = registry.make("clairvoyant")
    assert policy.is_bound
    assert policy.keeps_budget
    assert policy.cases == {Case.BGP}
    with pytest.raises(ConfigError, match="exact_below is 0"):
        Clairvoyant(exact_below=0)
    with pytest.raises(ConfigError, match="exact_below is 0"):
        upper_bound(hand_worked(), Case.BGP, 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"pay": np.ones(2)}, r"pay has the shape \(2,\)"),
        ({"pay": np.array([1.0, np.inf, 1.0])}, r"pay contains \[inf\]"),
        ({"weight": np.array([1.0, -1.0, 1.0])}, r"weight contains \[-1.\]"),
        ({"bank": -1.0}, "bank contains"),
        ({"changed_at": np.array([0, 0, 1, 3])}, r"changed_at contains \[3\]; right would be numbers from 0 to 2"),
        ({"changed_sr": np.array([0, 1])}, "changed_sr has the shape"),
        ({"fresh_at_start": np.ones(2)}, "float64"),
        (
            {
                "profile": sparse.csr_array(np.ones((2, 1))),
                "graph": Graph.from_edges(np.array([0]), np.array([0]), 1, 2),
            },
            "profile has the shape",
        ),
    ],
)
def test_a_future_that_cannot_be_is_refused(wrong: Mapping[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        replace(hand_worked(), **wrong)


def test_case_2_needs_the_graph() -> None:
    with pytest.raises(InputError, match="needs the profile"):
        upper_bound(hand_worked(), Case.AGGREGATE)


def test_the_headline_weighs_evaluations_alike_and_answers_within_them() -> None:
    weight = headline_weight(np.array([4, 0, 2, 5]), warm_up=1)
    assert weight == pytest.approx([0, 0, 1 / 4, 1 / 10])


def test_answers_in_several_entries_add_up() -> None:
    split = sparse.csr_array((np.array([1.0, 2.0, 1.0]), np.array([0, 0, 1]), np.array([0, 3, 3, 3])), shape=(3, 2))
    whole = sparse.csr_array(np.array([[3.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))
    values = {upper_bound(replace(hand_worked(), answers=answers), Case.BGP).value for answers in (split, whole)}
    assert values == {3.0}


def test_large_weights_are_solved_as_exactly() -> None:
    assert upper_bound(hand_worked(weight=np.full(3, 1e6)), Case.BGP).exact
    assert upper_bound(hand_worked(weight=np.full(3, 1e-12)), Case.BGP).value == pytest.approx(1e-11)


def test_nothing_to_gain_is_no_error() -> None:
    future = hand_worked(weight=np.zeros(3))
    assert upper_bound(future, Case.BGP).value == 0
    assert upper_bound(replace(hand_worked(), pay=np.zeros(3)), Case.BGP).value == 0
