"""One tiny scenario through a simulation and through production's journal gives the same rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.fetching.endpoint import PENDING, Copy, Delivery, Endpoint, Late, Order, Price
from freshkeeper.maintenance.fetching.endpoint import Remote as AnyRemote
from freshkeeper.maintenance.fetching.fetcher import deliver
from freshkeeper.maintenance.fetching.function_source import fetcher_of
from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.runtime.query_journal import QueryJournal
from freshkeeper.policies.registry import make
from freshkeeper.simulator.experiment.experiment_config import resolve, settings_of
from freshkeeper.simulator.experiment.task import Task
from freshkeeper.simulator.trace.trace import Changes, Edges, Trace, TraceArrivals
from freshkeeper.simulator.world.simulated_remote import SimulatedRemote
from freshkeeper.simulator.world.truth import schedule_of

COLUMNS = ("setting", "policy", "seed", "k", "t_ms", "sr", "changed", "requests", "error", "gain", "late")
EVALUATIONS = 5


def trace() -> Trace:
    """Three lookup keys with an entry each, one in every window of a second; two entries change."""
    times, sns = np.array([0, 500, 1500, 2500, 3500, 4500]), np.array([0, 0, 1, 2, 0, 1], np.int32)
    labels, each = np.arange(3), np.arange(3, dtype=np.int32)
    changes = Changes(np.array([200, 1200, 3100]), np.array([0, 1, 0], np.int32))
    return Trace(TraceArrivals(times, sns), Edges(each, each), changes, labels, labels)


@dataclass
class NextTime:
    """A source in production whose answers always come with the next order."""

    remote: SimulatedRemote
    price: Price = field(default_factory=Price)
    waiting: Sequence[Late] = ()

    def room(self, now: int) -> float:
        return float("inf")

    def deliver(self, order: Order) -> Delivery:
        found = deliver(fetcher_of(self.remote), order)
        came, self.waiting = (
            self.waiting,
            [Late(key, copy, order.now) for key, copy in zip(order.keys, found.copies, strict=True)],
        )
        return replace(found, copies=[Copy(error=PENDING) for _ in order.keys], late=came)


def simulated(start: str, **remote: object) -> dict[str, pa.Table]:
    keys = {"window": 1000, "step": 1000, "budget": 1, "policies": "lru", "knowledge": "learned", "bound": "never"}
    experiment = resolve({**keys, "start": start, "remote": remote, "answers": True})
    (setting,) = settings_of(experiment)
    (policy,) = experiment.policies
    return Task(setting, 0, trace(), EVALUATIONS).run(policy).tables


def produced(place: Path, setting: str, start: str, late: bool) -> None:
    known = trace()
    task = Task(settings_of(resolve({"window": 1000, "step": 1000}))[0], 0, known, EVALUATIONS)
    remote = SimulatedRemote(schedule_of(known), task.graph)
    source: Endpoint | AnyRemote = NextTime(remote) if late else remote
    manager = Manager(
        task.setting.window(known.t0), source, make("lru"), BudgetRule.of(1), Learned(),
        seed=np.random.SeedSequence([0, 1]),
    )  # fmt: skip
    if start == "warm":
        manager.view.fill_numbered(known.edges.sn, known.edges.sr, known.sns, known.srs, 0)
        every = np.arange(known.srs, dtype=np.int32)
        manager.receive(every, every.tolist(), remote.fetch(every.tolist(), 0).copies, 0)
    told = QueryJournal(0, place)
    before = -1
    for k in range(1, EVALUATIONS + 1):
        now = task.setting.window(known.t0).instant(k)
        batch, before = known.arrivals_between(before, now), now
        pairs = list(zip(batch.t_ms.tolist(), batch.sn.tolist(), strict=True))
        told.observe(setting, manager, manager.evaluate(now, pairs))
    told.close()


def rows(table: pa.Table | None, names: Sequence[str]) -> list[tuple[object, ...]]:
    assert table is not None
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True), key=str)


@pytest.mark.parametrize(
    ("start", "remote"), [("warm", {}), ("cold", {}), ("warm", {"latency_ms": 700, "deadline_ms": 600})], ids=str
)
def test_production_and_simulation_write_the_same_rows(tmp_path: Path, start: str, remote: dict[str, int]) -> None:
    tables = simulated(start, **remote)
    (setting,) = set(tables["evaluations"]["setting"].to_pylist())
    produced(tmp_path, setting, start, bool(remote))
    found = rows(journal.read(tmp_path, "refreshes"), COLUMNS)
    expected = rows(tables["refreshes"], COLUMNS)
    if remote:  # in production the last answers are still on their way
        expected = [row for row in expected if (row[3], row[-1]) != (EVALUATIONS, True)]
        first = [(row[4], row[5], row[7], row[8], row[10]) for row in found if row[3] == 1]
        assert first == [(1000, "0", 1.0, PENDING, False), (1000, "0", 0.0, None, True)]
    assert found == expected
    assert len(found) >= EVALUATIONS
    same = ("setting", "policy", "seed", "k", "t_ms", "results", "candidates", "spent", "errors", "requests")
    assert rows(journal.read(tmp_path, "evaluations"), same) == rows(tables["evaluations"], same)
    columns = journal.SCHEMAS["answers"].names
    assert rows(journal.read(tmp_path, "answers"), columns) == rows(tables["answers"], columns)
