"""The contract of every policy, as checks that its author can run: `check(policy, round, budget)`.

The test suite runs them on generated rounds for every registered policy; `freshkeeper policies --check` for a new one,
on seeded random rounds of every kind (`examples`): empty windows, isolated SRs, equal scores, H = 1. Both ask for the
three traits of a policy as well (`Trait`), unless it says that one is not its own (`waives`).
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.errors import PolicyError
from freshkeeper.policies.base import Budget, Case, Graph, Knowledge, Policy, Round, Selection, Structure, Trait
from freshkeeper.policies.choose import SLACK
from freshkeeper.policies.rounds_by_hand import from_parts

SEED = 7


def check(policy: Policy, round: Round, budget: Budget) -> Selection:
    """Run every check on one round; the first that fails is an error that says what is wrong.

    The policy itself is left as it was: what has state chooses on copies.

    >>> from freshkeeper import Budget, check_policy, policy, round_of
    >>> round = round_of([(0, 0), (0, 1), (1, 1)], counts=[[1], [2]], life=[1, 1])
    >>> check_policy(policy("gain"), round, Budget(1, 1)).chosen.tolist()
    [1]
    """
    before = fingerprint(round)
    selection = deepcopy(policy).select(round, budget, np.random.default_rng(SEED))
    chosen = selection.chosen
    checks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("chose an entry twice", lambda: np.unique(chosen).size != chosen.size),
        ("chose an entry that the round does not have", lambda: bool(((chosen < 0) | (chosen >= round.srs)).any())),
        (
            "spent more than the budget",
            lambda: policy.keeps_budget and round.cost[chosen].sum() > budget.available + SLACK,
        ),
        ("did not give one score per choice", lambda: len(selection.scores) != chosen.size),
        (
            "chose what is certainly fresh",
            lambda: expects(policy, Trait.NEVER_FRESH) and bool((round.fresh_if_kept[chosen, 0] >= 1).any()),
        ),
        ("changed the round that it was given", lambda: fingerprint(round) != before),
        ("chose differently for the same seed", lambda: _wavers(policy, selection, round, budget)),
        (
            "chose otherwise when every demand was 8 times as high",
            lambda: expects(policy, Trait.ANY_SCALE) and _heeds_scale(policy, selection, round, budget),
        ),
    )
    for name, broken in checks:
        if broken():
            raise PolicyError(f"the policy {policy.name!r} {name}: chose {chosen.tolist()}")
    return selection


def expects(policy: Policy, trait: Trait) -> bool:
    """Return whether a policy has to have a trait.

    It does not if it waives it; a cache without a budget need not spare what is fresh, and a policy that plays back
    what it foresaw need not put staler entries first.
    """
    spared = {Trait.STALER_FIRST: hasattr(policy, "foresee"), Trait.NEVER_FRESH: not getattr(policy, "budgeted", True)}
    return trait not in getattr(policy, "waives", ()) and not spared.get(trait, False)


def fingerprint(round: Round) -> tuple[bytes, ...]:
    """Return the content of a round's arrays, to tell whether a policy wrote to them."""
    graph, rate = round.graph, round.structure.arrival_rate
    arrays = (
        round.profile, round.demand, round.fresh_if_refreshed, round.fresh_if_kept, round.cost, round.last_refresh,
        round.change, round.expected_arrivals, rate, graph.sn_start, graph.sn_neighbours, graph.sr_start,
        graph.sr_neighbours,
    )  # fmt: skip
    return tuple(array.tobytes() for array in arrays if array is not None)


def _wavers(policy: Policy, selection: Selection, round: Round, budget: Budget) -> bool:
    again = deepcopy(policy).select(round, budget, np.random.default_rng(SEED))
    return not np.array_equal(again.chosen, selection.chosen)


def _heeds_scale(policy: Policy, selection: Selection, round: Round, budget: Budget) -> bool:
    if round.expected_arrivals is None:
        return False
    eightfold = replace(
        round,
        demand=8 * round.demand,
        expected_arrivals=8 * round.expected_arrivals,
        build=lambda: Structure(round.graph, 8 * round.profile, 8 * round.structure.arrival_rate),
    )
    scaled = deepcopy(policy).select(eightfold, budget, np.random.default_rng(SEED))
    return set(scaled.chosen.tolist()) != set(selection.chosen.tolist())


def check_staler_first(policy: Policy, case: Case, knowledge: Knowledge) -> None:
    """Check that of entries that differ only in how likely they are stale, the staler go first.

    >>> from freshkeeper.policies.contract import check_staler_first
    >>> from freshkeeper import Case, Knowledge, policy
    >>> check_staler_first(policy("plan"), Case.BGP, Knowledge.LEARNED)
    """
    if not expects(policy, Trait.STALER_FIRST):
        return
    for seed in range(20):
        rng = np.random.default_rng([seed, 13])
        round = alike(rng, case, knowledge)
        money = float(rng.integers(1, round.srs))
        chosen = deepcopy(policy).select(round, Budget(money, money), np.random.default_rng(SEED)).chosen
        fresh = round.fresh_if_kept[:, 0]
        left_out = np.delete(fresh, chosen)
        if chosen.size and left_out.size and left_out.min() < fresh[chosen].max():
            raise PolicyError(
                f"the policy {policy.name!r} left out a staler entry for a fresher one: it chose {chosen.tolist()} "
                f"where the copies are fresh with the probabilities {fresh.round(3).tolist()}; "
                "one that is meant to says waives = frozenset({Trait.STALER_FIRST})"
            )


def alike(rng: np.random.Generator, case: Case, knowledge: Knowledge) -> Round:
    """Entries of one rate and one demand, each of an SN of its own, whose copies are of different ages."""
    srs, horizon = int(rng.integers(3, 9)), int(rng.integers(1, 6))
    age = rng.permutation(np.arange(1, srs + 1)) * int(rng.integers(1, 5))
    stays = rng.uniform(0.5, 0.99)
    refreshed = np.tile(stays ** np.arange(horizon), (srs, 1))
    fresh = (age < np.median(age)).astype(np.float64) if knowledge is Knowledge.EXACT else stays**age
    profile = np.tile(np.sort(rng.integers(1, 5, horizon))[::-1].astype(np.float64), (srs, 1))
    change = np.full((srs, horizon), 1.0 - stays)
    change[:, 0] = 0.0
    if knowledge is Knowledge.EXACT:
        refreshed, change = np.ones((srs, horizon)), np.zeros((srs, horizon))
    graph = Graph.from_edges(np.arange(srs), np.arange(srs), srs, srs)
    made = from_parts(
        graph, profile, refreshed, refreshed * fresh[:, None], change=change, case=case, knowledge=knowledge
    )
    return replace(made, last_refresh=1000 - age, now=1000)


def examples(case: Case, knowledge: Knowledge, count: int = 60) -> Iterator[Round]:
    """Yield `count` rounds of one case and one knowledge level, the same ones every time."""
    for seed in range(count):
        yield example(np.random.default_rng([seed, 11]), case, knowledge)


def example(rng: np.random.Generator, case: Case, knowledge: Knowledge) -> Round:
    """Return one round of a random size."""
    sns, srs, horizon = (int(rng.integers(1, most)) for most in (8, 10, 5))
    pairs = np.argwhere(rng.random((sns, srs)) < rng.random()).astype(np.int32)
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], sns, srs)
    arriving = rng.integers(0, int(rng.integers(1, 4)), (sns, horizon)).astype(np.float64)
    profile = np.ascontiguousarray(np.cumsum(arriving, axis=1)[:, ::-1])
    chances = [0.0, 1.0] if knowledge is Knowledge.EXACT else [0.0, 0.1, 0.5, 0.9, 1.0]
    change: Floats = rng.choice(np.array(chances), (srs, horizon)).astype(np.float64)
    change[:, 0] = 0.0
    refreshed: Floats = np.cumprod(1.0 - change, axis=1, dtype=np.float64)
    kept = refreshed * rng.choice(chances, srs)[:, None]
    cost = rng.choice([0.5, 1.0, 2.0], srs).tolist() if rng.random() < 0.3 else None
    return from_parts(graph, profile, refreshed, kept, change=change, cost=cost, case=case, knowledge=knowledge)
