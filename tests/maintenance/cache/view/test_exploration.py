"""Learned rates never rule an entry out: one that was quiet for long is looked at again, and found when it wakes up."""

import numpy as np
import pytest

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.sources.memory import InMemory
from freshkeeper.policies.registry import make

BUSY, QUIET = [f"busy{n}" for n in range(15)], [f"quiet{n}" for n in range(5)]


@pytest.mark.slow
def test_entries_that_were_always_quiet_get_a_small_share_of_the_budget_and_are_found_when_they_change() -> None:
    random = np.random.default_rng(1)
    source = InMemory({"topic": [*BUSY, *QUIET]}, dict.fromkeys([*BUSY, *QUIET], 0))
    manager = Manager(WindowSpec(4000, 1000), source, make("gain"), BudgetRule.of(5), Learned())
    looks = {key: [0] for key in QUIET}
    for k in range(1, 1001):
        for key in [*BUSY, *(QUIET if k > 700 else [])]:
            source.values[key] += int(random.random() < 0.5)
        for asked in manager.evaluate(k * 1000, [(k * 1000, "topic")]).refreshes.keys:
            looks.get(str(asked), []).append(k)
    quiet = [[k for k in found if k <= 700] for found in looks.values()]
    assert max(np.diff([*found, 700]).max() for found in quiet) < 100, "no entry is believed fresh for ever"
    assert 0.005 < sum(map(len, quiet)) / (5 * 700) < 0.1, "and little is spent on making sure"
    awake = sum(k > 900 for found in looks.values() for k in found) / (5 * 100)
    assert awake > 0.1, "entries that begin to change get the share of entries that change"
