"""What is in the bank when a run ends is lost: policies that are told the end leave nothing there."""

import numpy as np
import pytest

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger
from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget
from freshkeeper.policies.rounds_by_hand import round_of
from freshkeeper.simulator.experiment.experiment_config import resolve, settings_of
from freshkeeper.simulator.experiment.task import Outcome, Task
from freshkeeper.simulator.trace.workload import generate


def test_a_rule_with_an_end_tells_what_remains() -> None:
    ledger = Ledger(BudgetRule.of(2, bank=3, evaluations=3))
    assert [ledger.open().remaining for _ in range(3)] == [3, 2, 1]
    assert Ledger(BudgetRule.of(2)).open().remaining is None


def test_at_the_end_the_bank_has_room_for_nothing() -> None:
    assert Budget(5, 2, bank=4).lost_if_unspent == 1
    assert Budget(5, 2, bank=4, remaining=2).lost_if_unspent == 1
    assert Budget(5, 2, bank=4, remaining=1).lost_if_unspent == 5


def test_plan_spends_at_the_end_what_it_would_have_saved() -> None:
    """SR 0 is worth a little now; SR 1, still fresh, is worth ten times that when it changes at the next evaluation."""
    round = round_of([(0, 0), (1, 1)], counts=[[1, 0], [10, 10]], life=[1, 1], fresh=[1])
    plan = registry.make("plan", {"expect": False})

    def chosen(remaining: int | None) -> list[int]:
        found: list[int] = plan.select(round, Budget(1, 0, 1, remaining), np.random.default_rng(0)).chosen.tolist()
        return found

    assert chosen(None) == []
    assert chosen(2) == []
    assert chosen(1) == [0]


@pytest.mark.slow
@pytest.mark.parametrize("budget", [10, 15])
def test_in_a_short_run_plan_does_not_lose_to_ibm_by_saving(budget: int) -> None:
    """Poisson changes, a bank of one window, 50 evaluations; it was half a point and more behind."""
    workload = {"change_law": "poisson"}
    given = {"budget": budget, "bank": "window", "policies": "ibm,plan", "bound": "never", "workload": workload}
    experiment = resolve(given)
    ahead = []
    for seed in range(3):
        task = Task(settings_of(experiment)[0], seed, generate(experiment.workload, seed), 50)
        ibm, plan = (share(task.run(policy), task.warm_up) for policy in experiment.policies)
        ahead.append(plan - ibm)
    assert np.mean(ahead) > 0.005


def share(outcome: Outcome, warm_up: int) -> float:
    """Fresh answers, all evaluations alike."""
    table = outcome.tables["evaluations"]
    fresh, answers = (table[name].to_numpy()[warm_up:] for name in ("fresh", "results"))
    return float((fresh / answers).mean())
