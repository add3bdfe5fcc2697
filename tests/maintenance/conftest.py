"""A small manager over a source in memory, as somebody would embed it; queries over streams of a few elements."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import queries

from freshkeeper.maintenance.cache.budget.ledger import Amount, BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.schedule import FixedSchedule
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.sources.memory import InMemory
from freshkeeper.policies import registry
from freshkeeper.policies.base import Policy

EDGES = {"jazz": ["ann", "bob"], "rock": ["bob", "cyd"], "folk": ["dan"]}
USERS = ["ann", "bob", "cyd", "dan"]


@pytest.fixture
def source() -> InMemory:
    """Four users whose numbers of followers somebody else changes."""
    return InMemory(EDGES, dict.fromkeys(USERS, 100))


@pytest.fixture
def make_manager(source: InMemory) -> Callable[..., Manager]:
    """A manager over the source: window of 4 s every second, one request per evaluation unless said otherwise."""

    def make(
        policy: Policy | str = "ibm",
        budget: Amount = 1,
        warm: bool = True,
        schedule: tuple[list[int], list[int]] | None = None,
        bank: Amount = 0,
        **more: Any,
    ) -> Manager:
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
def ask() -> Callable[..., dict[int, list[str]]]:
    """Answers by instant."""
    return lambda *given, **more: queries.by_time(queries.answer(*given, **more))


@pytest.fixture
def run_query() -> Callable[..., list[Result]]:
    """Results."""
    return queries.answer


@pytest.fixture
def world() -> type[queries.World]:
    """A query over a blog."""
    return queries.World
