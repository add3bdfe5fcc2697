"""The demonstration: one embedded source that somebody else changes, one stream, several policies side by side.

Topics are posted about, each topic is discussed by users, and the users' numbers of followers change unannounced. Every
policy keeps a view of its own over the same store and may send the same number of requests per evaluation; none of them
knows when anything changes, they learn it from what their refreshes reveal.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from pyoxigraph import Literal, NamedNode, Quad, Store

from maintenance.budget import BudgetRule
from maintenance.manager import Manager
from maintenance.service.embedded import Embedded
from maintenance.view.learned import Learned
from maintenance.window import WindowSpec
from policies.registry import make
from simulator.trace import Trace
from simulator.truth import schedule_of
from simulator.workload import Workload, generate

BASE = "http://example.org/"
FOLLOWERS = NamedNode(BASE + "followers")
POLICIES = ("random", "lru", "sbm", "ibm", "gain", "plan")
WORKLOAD = Workload(
    sns=40, srs=60, edges=240, degree_skew=0.7, change_law="poisson", change_interval_ms=(2_000, 90_000),
    change_degree_correlation=-0.3, duration_ms=120_000,
)  # fmt: skip
WINDOW_MS, STEP_MS = 4_000, 1_000


@dataclass(frozen=True)
class Standing:
    """How one policy did."""

    policy: str
    freshness: float
    believed: float
    requests: float
    decide_us: float


@dataclass(eq=False)
class Contender:
    """A policy with its own view of the source."""

    name: str
    manager: Manager
    fresh: float = 0.0
    believed: float = 0.0
    answers: float = 0.0
    decide_us: float = 0.0


def compete(budget: float = 6, seed: int = 0, progress: Callable[[int, int], None] | None = None) -> list[Standing]:
    """Let the policies compete; freshness is measured on the values themselves."""
    trace = generate(WORKLOAD, seed)
    store = _store(trace)
    contenders = [Contender(name, _manager(name, store, trace, budget, seed)) for name in POLICIES]
    steps = WORKLOAD.duration_ms // STEP_MS
    for k, (now, posts) in enumerate(_steps(trace, store, steps), 1):
        for contender in contenders:
            _evaluate(contender, store, now, posts)
        if progress is not None:
            progress(k, steps)
    return [_standing(contender, steps) for contender in contenders]


def topic(number: int) -> NamedNode:
    """The SN of this number."""
    return NamedNode(f"{BASE}topic/{number}")


def user(number: int) -> NamedNode:
    """The SR of this number."""
    return NamedNode(f"{BASE}user/{number}")


def _store(trace: Trace) -> Store:
    store = Store()
    for sn, sr in zip(trace.edges.sn.tolist(), trace.edges.sr.tolist(), strict=True):
        store.add(Quad(topic(sn), NamedNode(BASE + "discussedBy"), user(sr)))
    for sr in range(trace.srs):
        store.add(Quad(user(sr), FOLLOWERS, Literal(1000)))
    return store


def _manager(name: str, store: Store, trace: Trace, budget: float, seed: int) -> Manager:
    source = Embedded(store, f"?topic <{BASE}discussedBy> ?user", f"?user <{BASE}followers> ?n", sn="topic", sr="user")
    window = WindowSpec(WINDOW_MS, STEP_MS, trace.t0)
    bank = budget * window.span
    return Manager(window, source, make(name), BudgetRule.of(budget, bank), Learned(), seed=seed)


def _steps(trace: Trace, store: Store, steps: int) -> Iterator[tuple[int, list[tuple[int, NamedNode]]]]:
    """Evaluation after evaluation; before each, the store changes as the trace says."""
    schedule, before = schedule_of(trace), trace.t0 - 1
    followers = np.full(trace.srs, 1000)
    for k in range(1, steps + 1):
        now = trace.t0 + k * STEP_MS
        for sr in schedule.changes(before, now)[1].tolist():
            store.remove(Quad(user(sr), FOLLOWERS, Literal(int(followers[sr]))))
            followers[sr] += 1
            store.add(Quad(user(sr), FOLLOWERS, Literal(int(followers[sr]))))
        batch = trace.arrivals_between(before, now)
        yield now, [(t, topic(sn)) for t, sn in zip(batch.t_ms.tolist(), batch.sn.tolist(), strict=True)]
        before = now


def _evaluate(contender: Contender, store: Store, now: int, posts: list[tuple[int, NamedNode]]) -> None:
    evaluation = contender.manager.evaluate(now, posts)
    assert evaluation.answers is not None
    contender.answers += evaluation.record.results
    contender.believed += evaluation.record.expected_fresh
    contender.decide_us += evaluation.record.decide_us
    current: dict[object, object] = {
        quad.subject: ((("n", quad.object),),) for quad in store.quads_for_pattern(None, FOLLOWERS, None)
    }
    contender.fresh += sum(answer.weight for answer in evaluation.answers if answer.value == current[answer.sr])


def _standing(contender: Contender, steps: int) -> Standing:
    ledger = contender.manager.ledger
    ledger.check()
    return Standing(
        contender.name,
        contender.fresh / contender.answers,
        contender.believed / contender.answers,
        float(ledger.spent) / steps,
        contender.decide_us / steps,
    )
