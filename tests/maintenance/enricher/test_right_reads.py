"""How many reads an Enricher answers rightly with so many requests, on its own clock; benchmarks/enricher.py has more.

24,000 Zipf reads of 2,000 keys in ten minutes, whose rows change once in a minute in the middle, and ten times as often
or as seldom as that for one in eight of them. Nothing is known in advance.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def traces() -> ModuleType:
    """The traces of the benchmark."""
    path = Path(__file__).parents[3] / "benchmarks" / "read_traces.py"
    spec = importlib.util.spec_from_file_location("read_traces", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["read_traces"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("budget", "right", "more"), [(0.2, 0.698, 0.17), (0.3, 0.821, 0.13)])
def test_reads_are_right_far_more_often_than_with_the_best_ttl_in_hindsight(
    traces: ModuleType, budget: float, right: float, more: float
) -> None:
    trace = traces.log_normal(1, keys=2000, reads=24_000, span=600_000, interval=60_000, sigma=1.5)
    outcome = traces.with_enricher(trace, budget)
    assert outcome.requests == pytest.approx(budget, rel=0.01)
    assert outcome.right >= right
    assert outcome.right >= traces.ttl_frontier(trace)(outcome.requests) + more


def test_reads_that_never_wait_are_right_in_two_of_three_cases(traces: ModuleType) -> None:
    trace = traces.log_normal(1, keys=2000, reads=24_000, span=600_000, interval=60_000, sigma=1.5)
    outcome = traces.with_enricher(trace, 0.27, "serve")
    assert outcome.requests == pytest.approx(0.27, rel=0.02)
    assert outcome.right >= 0.645
