"""Caches without a budget: the walk over a whole trace is what the policies do in the simulated world."""

from typing import Any

import numpy as np
import pytest

from freshkeeper.simulator.budget.run_without_journal import run_without_journal
from freshkeeper.simulator.experiment.experiment_config import PolicySettings, resolve
from freshkeeper.simulator.experiment.run_parts import task_of
from freshkeeper.simulator.experiment.task import Task
from freshkeeper.simulator.experiment.ttl_caches import Reads

STEP = 1000


def small(case: str, start: str, seed: int) -> Task:
    """M:N, with keys that come late and entries that change at every pace."""
    workload = {
        "sns": 12,
        "srs": 9,
        "edges": 25,
        "arrival_interval_ms": [1500, 9000],
        "change_interval_ms": [500, 9000],
    }
    chosen = {"workload": workload, "evaluations": 25, "case": case, "start": start, "window": 3 * STEP, "step": STEP,
              "knowledge": "learned", "bound": "never"}  # fmt: skip
    return task_of(resolve(chosen), 0, seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["warm", "cold"])
@pytest.mark.parametrize("case", ["bgp", "aggregate"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("policy", "steps", "ahead"),
    [
        ("ttl", 1, False), ("ttl", 2, False), ("ttl", 5, False), ("refresh-ahead", 2, True),
        ("refresh-ahead", 6, True), ("no-cache", 0, False), ("fetch-once", 10**9, False),
    ],
)  # fmt: skip
def test_a_walk_over_the_trace_is_what_the_policy_does(
    case: str, start: str, seed: int, policy: str, steps: int, ahead: bool
) -> None:
    task = small(case, start, seed)
    settings: dict[str, Any] = {"ttl_ms": steps * STEP} if policy in ("ttl", "refresh-ahead") else {}
    lived = run_without_journal(task, PolicySettings(name=policy, **settings))
    walked = Reads.of(task).cached(np.full(task.trace.srs, steps), ahead)
    for column in vars(lived):
        np.testing.assert_array_equal(getattr(walked, column), getattr(lived, column), column)
    assert lived.answers.sum() > 0


def test_no_cache_is_always_fresh_and_nothing_costs_more_and_fetching_once_costs_least() -> None:
    reads = Reads.of(small("bgp", "cold", 1))
    none, once, some = reads.uncached, reads.once, reads.lasting(3 * STEP)
    assert none.fresh.sum() == none.answers.sum()
    assert none.requests.sum() > some.requests.sum() > once.requests.sum()
    assert some.fresh.sum() > once.fresh.sum()


def test_a_time_to_live_between_two_steps_costs_what_lies_between() -> None:
    reads = Reads.of(small("bgp", "warm", 2))
    spent = [reads.lasting(ttl).requests.sum() for ttl in (2 * STEP, 2.5 * STEP, 3 * STEP)]
    assert spent[0] > spent[1] > spent[2]
