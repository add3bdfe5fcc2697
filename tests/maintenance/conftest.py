"""A small manager over a source in memory, as somebody would embed it; queries over streams of a few elements."""

import numpy as np
import pytest
import queries

from freshkeeper.maintenance.budget.ledger import BudgetRule
from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.service.memory import InMemory
from freshkeeper.maintenance.view.schedule import FixedSchedule
from freshkeeper.policies import registry

EDGES = {"jazz": ["ann", "bob"], "rock": ["bob", "cyd"], "folk": ["dan"]}
USERS = ["ann", "bob", "cyd", "dan"]


@pytest.fixture
def source():
    """Four users whose numbers of followers somebody else changes."""
    return InMemory(EDGES, dict.fromkeys(USERS, 100))


@pytest.fixture
def make_manager(source):
    """A manager over the source: window of 4 s every second, one request per evaluation unless said otherwise."""

    def make(policy="ibm", budget=1, warm=True, schedule=None, bank=0, **more):
        numbers = {user: n for n, user in enumerate(USERS)}
        interval, phase = schedule or ([1000] * 4, [0] * 4)
        model = more.pop("model", None) or FixedSchedule(np.array(interval), np.array(phase), numbers)
        made = registry.make(policy) if isinstance(policy, str) else policy
        endpoint = more.pop("endpoint", source)
        manager = Manager(WindowSpec(4000, 1000), endpoint, made, BudgetRule.of(budget, bank), model, **more)
        if warm:
            manager.view.fill([(sn, sr) for sn, srs in EDGES.items() for sr in srs], dict(source.values), now=0)
        return manager

    return make


@pytest.fixture
def ask():
    """Answers by instant."""
    return lambda *given, **more: queries.by_time(queries.answer(*given, **more))


@pytest.fixture
def run_query():
    """Results."""
    return queries.answer


@pytest.fixture
def world():
    """A query over a blog."""
    return queries.World
