"""A small question, asked once for all that look at its answer."""

from collections.abc import Callable

import pytest

from freshkeeper.simulator.budget.answer import BudgetAnswer, answer
from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.experiment.experiment_config import resolve

WORKLOAD = {"sns": 30, "srs": 30, "edges": 60, "change_law": "poisson", "change_interval_ms": [3000, 60_000],
            "arrival_interval_ms": [1000, 9000]}  # fmt: skip


def question(target: float = 0.85, policies: str = "lru,gain", seeds: int = 2, **keys: object) -> Question:
    """A synthetic run: every seed draws its own trace."""
    given = {"workload": WORKLOAD, "evaluations": 60, "policies": policies, "knowledge": "learned", "seeds": seeds}
    return Question(resolve({**given, **keys}), target, 0.01)


@pytest.fixture(scope="session")
def ask() -> Callable[..., Question]:
    return question


@pytest.fixture(scope="session")
def answered() -> BudgetAnswer:
    return answer(question(), notes=["A note."])
