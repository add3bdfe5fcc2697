"""Saving for aggregates: the dynamic program against every course of action, and what it is worth on dense graphs."""

from functools import cache

import numpy as np
import pytest

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case, Graph, Knowledge, Round
from freshkeeper.policies.rounds_by_hand import from_parts
from freshkeeper.policies.save_or_spend import SaveOrSpend, worth_of_money
from freshkeeper.simulator.experiment.experiment_config import resolve, settings_of
from freshkeeper.simulator.experiment.task import Task
from freshkeeper.simulator.trace.workload import generate


def by_trying_all(cost: Ints, answers: Floats, idle: Floats, bundles: float, pay: int, cap: int) -> float:
    """The best that money can bring, course by course."""

    @cache
    def best(m: int, s: int, money: int) -> float:
        if m == len(cost):
            return 0.0
        later = min(s + 1, cost.shape[1] - 1) if s else 0
        courses = [(0, idle[m, s], later), (pay, idle[m, s] + bundles, later), (cost[m, s], answers[m, s], 1)]
        return float(
            max(
                brings + best(m + 1, after, min(money - spent, cap) + pay)
                for spent, brings, after in courses
                if spent <= money
            )
        )

    return best(0, 0, pay)


@pytest.mark.parametrize("seed", range(20))
def test_the_worth_of_money_is_that_of_the_best_of_all_courses(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ahead, pay, cap = (int(rng.integers(1, most)) for most in (7, 4, 9))
    cost = rng.integers(0, cap + pay + 3, (ahead, 4))
    answers, idle = rng.exponential(3.0, (ahead, 4)), rng.exponential(1.0, (ahead, 4))
    bundles = float(rng.exponential(1.0))
    worth = worth_of_money(cost, answers, idle, bundles, pay, cap)
    assert worth[0, 0, pay] == pytest.approx(by_trying_all(cost, answers, idle, bundles, pay, cap))


def all_needed(inputs: int = 4, keys: int = 3, fresh: list[int] | tuple[()] = ()) -> Round:
    """Every key needs every input; all change at every evaluation but those in `fresh`, which never do."""
    graph = Graph.from_edges(np.repeat(np.arange(keys), inputs), np.tile(np.arange(inputs), keys), keys, inputs)
    change = np.tile([0.0, 1.0, 1.0], (inputs, 1))
    change[list(fresh)] = 0.0
    stays: Floats = np.cumprod(1.0 - change, axis=1, dtype=np.float64)
    kept = stays * np.isin(np.arange(inputs), list(fresh))[:, None]
    return from_parts(graph, np.ones((keys, 3)), stays, kept, change, None, Case.AGGREGATE, Knowledge.EXACT)


def chosen(round: Round, budget: Budget) -> list[int]:
    policy = registry.make("bundle", {"expect": False})
    return sorted(policy.select(round, budget, np.random.default_rng(0)).chosen.tolist())


def test_half_of_the_inputs_are_worth_nothing_so_money_is_saved_until_it_pays_for_all() -> None:
    """γ = 2 never refreshes the four inputs of three keys; every other evaluation it does."""
    assert chosen(all_needed(), Budget(2, 2, bank=2)) == []
    assert chosen(all_needed(), Budget(4, 2, bank=2)) == [0, 1, 2, 3]


def test_what_is_fresh_is_not_paid_for() -> None:
    assert chosen(all_needed(fresh=[1]), Budget(3, 2, bank=2)) == [0, 2, 3]


def test_nothing_is_saved_for_what_comes_after_the_end() -> None:
    """Two inputs are missing and there is money for both: two evaluations of answers now, or one then and never."""
    assert chosen(all_needed(fresh=[0, 1]), Budget(2, 1, bank=1, remaining=1)) == [2, 3]
    price = SaveOrSpend.of(all_needed(), Budget(2, 2, bank=2, remaining=1), np.ones((3, 3)), 0.0).price
    assert price == 0.0


def dense(policy: str, knowledge: str, bank: int, evaluations: int = 50) -> float:
    """002's Figure 3(a): 50 keys with ten inputs each, 50 entries of which some 34 change per evaluation, γ = 10."""
    experiment = resolve(
        {
            "case": "aggregate", "workload": {"edges": 500}, "budget": 10, "bank": bank, "policies": policy,
            "knowledge": knowledge, "evaluations": evaluations, "bound": "never",
        }
    )  # fmt: skip
    workload = experiment.workload.model_copy(update={"duration_ms": evaluations * 1000})
    task = Task(settings_of(experiment)[0], 0, generate(workload, 0), evaluations)
    outcome = task.run(experiment.policies[0])
    table = outcome.tables["evaluations"]
    fresh, answers = (table[name].to_numpy()[task.warm_up :].sum() for name in ("fresh", "results"))
    assert not outcome.over_budget
    return float(fresh / answers)


def test_a_bank_makes_dense_aggregates_fresh_several_times_as_often() -> None:
    assert dense("bundle", "exact", 80) > 0.22 > 2 * dense("bundle", "exact", 0)


@pytest.mark.slow
def test_it_does_where_only_refreshes_tell_of_changes() -> None:
    assert dense("bundle", "learned", 80) > 0.17 > 2 * dense("bundle", "learned", 0)
