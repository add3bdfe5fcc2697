"""A target instead of a budget: what the controller pays, what it never does, and that it follows jumps."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from freshkeeper import BudgetRule, InMemory, Learned, Manager, WindowSpec, policy
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.controller import Controller, Observed
from freshkeeper.maintenance.cache.budget.target_income import TargetIncome, ledger_of
from freshkeeper.simulator.experiment.experiment_config import resolve, settings_of
from freshkeeper.simulator.experiment.task import Task
from freshkeeper.simulator.trace.stepped import SteppedWorkload, stepped

NONE, NO = np.empty(0), np.empty(0, bool)


def answers(fresh: float, spent: float, audited: float | None = None, verdict: bool = True) -> Observed:
    """One evaluation whose answers are all believed fresh with this probability."""
    believed, verdicts = (NONE, NO) if audited is None else (np.array([audited]), np.array([verdict]))
    return Observed(np.ones(10), np.full(10, fresh), NONE, NO, believed, verdicts, spent)


def test_it_begins_at_the_ceiling_and_pays_less_while_more_is_fresh_than_asked_for() -> None:
    control = Controller.of(0.9, 10)
    paid = [control.pay]
    for _ in range(30):
        control.note(answers(0.99, float(control.pay)))
        paid.append(control.pay)
    assert paid[0] == 10
    assert all(after < before for before, after in pairwise(paid))


def test_below_the_target_it_pays_more_but_never_more_than_the_ceiling_and_says_so() -> None:
    control = Controller.of(0.9, 10)
    control.pay = Fraction(2)
    for _ in range(100):
        control.note(answers(0.5, float(control.pay)))
    assert control.pay == 10
    assert control.at_ceiling > 50
    for _ in range(30):
        control.note(answers(0.99, float(control.pay)))
    assert control.pay < 5, "what could not be paid has not been saved up: no windup"


def test_what_is_not_spent_is_no_reason_to_pay_more() -> None:
    control = Controller.of(0.9, 10)
    control.pay = Fraction(2)
    for _ in range(50):
        control.note(answers(0.5, 0.0))
    assert control.pay == 2


def test_within_what_audits_can_tell_it_does_not_move() -> None:
    control = Controller.of(0.9, 10)
    control.pay = Fraction(2)
    for _ in range(50):
        control.note(answers(0.895, 2))
    assert control.pay == 2


@pytest.mark.parametrize("believed", [0.6, 0.9])
def test_audits_overrule_what_the_model_believes(believed: float) -> None:
    """The model is wrong about all answers, which no refresh shows: 4 of 5 are fresh."""
    control = Controller.of(0.9, 10)
    for n in range(2_000):
        for audit in range(5):
            control.note(answers(believed, float(control.pay), believed, (n + audit) % 5 > 0))
    assert control.freshness == pytest.approx(believed + (0.8 - believed) * 0.5, abs=0.02), "half of it is doubted"


def test_refreshes_tell_the_pace_of_changes() -> None:
    """Copies believed fresh with e^-0.1 have changed as if entries changed three times as fast: e^-0.3."""
    draw, control = np.random.default_rng(0), Controller.of(0.9, 10)
    for _ in range(400):
        replaced = np.full(5, np.exp(-0.1))
        changed = draw.random(5) < 1 - np.exp(-0.3)
        control.note(Observed(np.ones(1), np.full(1, np.exp(-0.1)), replaced, changed, NONE, NO, 5))
    assert np.exp(control.pace) == pytest.approx(3, rel=0.35)
    assert control.freshness == pytest.approx(np.exp(-0.3), abs=0.08)


def test_it_goes_on_after_a_restart_as_if_nothing_had_been() -> None:
    whole, first = ledger_of(BudgetRule.of(7), 0.9), ledger_of(BudgetRule.of(7), 0.9)
    second = ledger_of(BudgetRule.of(7), 0.9)
    paid: dict[str, list[float]] = {"whole": [], "parts": []}
    for n in range(60):
        fresh = 0.97 if n < 40 else 0.6
        if n == 30:
            second.load(first.dump())
        for name, ledger in (("whole", whole), ("parts", first if n < 30 else second)):
            budget = ledger.open()
            ledger.spend(budget.available)
            assert isinstance(ledger.income, TargetIncome)
            ledger.income.controller.note(answers(fresh, budget.available, 0.9, n % 7 > 0))
            paid[name].append(budget.available)
    assert paid["parts"] == paid["whole"]
    second.check()


@pytest.mark.parametrize(
    ("target", "budget", "complaint"),
    [(95, 5, "as 0.95, not 95"), (0, 5, "not 0"), (True, 5, "not True"), (0.9, 0, "needs a budget")],
)
def test_a_target_that_is_none_is_an_error(target: float, budget: int, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Controller.of(target, budget)


def test_a_manager_with_a_target_audits_and_pays_less_for_what_never_changes() -> None:
    entries = [f"e{n}" for n in range(20)]
    source = InMemory({entry: [entry] for entry in entries}, dict.fromkeys(entries, 1))
    manager = Manager(WindowSpec("4s", "1s"), source, policy("lru"), BudgetRule.of(20), Learned(), target=0.9)
    for k in range(1, 80):
        manager.evaluate(1000 * k, [(1000 * k, entry) for entry in entries])
    assert isinstance(manager.ledger.income, TargetIncome)
    assert manager.ledger.income.controller.pay < 2
    assert manager.auditor is not None
    assert manager.auditor.measured.checked > 0
    manager.ledger.check()


@pytest.mark.slow
def test_after_a_jump_it_is_back_within_two_points_in_a_hundred_evaluations_and_does_not_swing() -> None:
    """The mean of 8 seeds over 100 evaluations, from 100 after the jump on; benchmarks/target.py has 30."""
    steps = SteppedWorkload(end_ms=700_000, changes_at_ms=250_000, load_at_ms=450_000)
    plain = {"window": "4s", "step": "1s", "start": "cold", "knowledge": "learned", "budget": 30, "hold": 0.9}
    (setting,) = settings_of(resolve(plain | {"bound": "never", "policies": "plan"}))
    fresh, pay = [], []
    for seed in range(8):
        task = Task(setting, seed, stepped(steps, seed), 700)
        world, truth = task.world(setting.experiment.policies[0].make())
        run = [(truth.measure(world.manager, one), one.record.budget) for one in world.run()]
        fresh.append([of / all_ if all_ else np.nan for (all_, of), _ in run])
        pay.append([budget for _, budget in run])
        world.manager.ledger.check()
        assert max(pay[-1]) <= 30
    for begin in (350, 550):
        assert np.nanmean(np.array(fresh)[:, begin : begin + 100]) == pytest.approx(0.9, abs=0.02)
        means = np.array(pay)[:, begin : begin + 100].reshape(8, 5, 20).mean(axis=2)
        assert (means.max(axis=1) / means.min(axis=1)).mean() < 1.6, "the pay over 20 evaluations, within 100"
    assert np.mean(np.array(pay)[:, 350:]) > 1.8 * np.mean(np.array(pay)[:, 150:250]), "the jump was one"
