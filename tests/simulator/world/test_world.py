"""The simulated world: without latency 002's semantics to the letter, with latency what a clock allows."""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from math import floor, inf
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.fetching.endpoint import PENDING
from freshkeeper.maintenance.fetching.key_fetcher import IN_FLIGHT
from freshkeeper.policies.base import (
    BasePolicy,
    Budget,
    Case,
    Policy,
    Round,
    Selection,
)
from freshkeeper.policies.registry import make
from freshkeeper.simulator.experiment.experiment_config import GridSetting, PolicySettings, resolve, settings_of
from freshkeeper.simulator.experiment.task import Task
from freshkeeper.simulator.trace.trace import Trace
from freshkeeper.simulator.trace.workload import generate
from freshkeeper.simulator.world.world import World

SMALL = {"sns": 25, "srs": 30, "edges": 140}
EVALUATIONS = 24


Entry: TypeAlias = tuple[int, int]
"""The kind of what is fetched, and its key: in this order misses come behind what is known."""


@dataclass(frozen=True)
class Steady(BasePolicy):
    """One of 002's orders for case 1, equal scores by key: a choice without chance, that can be done again by hand."""

    name: ClassVar[str] = "steady"
    order: str = "lru"

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """All that the policy would choose if it could, cut where the money ends."""
        everything = Budget(1e9, 1e9)
        whole = make(self.order).select(replace(round, case=Case.BGP), everything, rng)
        every = zip(whole.scores.tolist(), whole.chosen.tolist(), strict=True)
        scored = [
            (score, sr) for score, sr in every if round.cost[sr] <= budget.available
        ]  # the others are in back-off
        kinds = round.kinds
        assert kinds is not None
        ranked = sorted(scored, key=lambda choice: (-choice[0], kinds[choice[1]], int(str(round.keys[choice[1]]))))
        best = ranked[: floor(budget.available)]
        return Selection(np.array([sr for _, sr in best], np.int32), np.array([score for score, _ in best]))


class Given(PolicySettings):
    """A steady policy where an experiment expects one by name."""

    def make(self) -> Policy:
        return Steady(self.name)


def task(policy: str = "lru", seed: int = 0, **keys: object) -> Task:
    """One setting with its trace; keys are those of a config, dotted ones with two underscores."""
    changes = {"evaluations": EVALUATIONS, "budget": 4, "bound": "never", "policies": policy, "workload": dict(SMALL)}
    experiment = resolve(changes, {key.replace("__", "."): value for key, value in keys.items()})
    setting = settings_of(experiment)[0]
    evaluations = experiment.evaluations or EVALUATIONS
    duration = {"duration_ms": evaluations * experiment.step}
    return Task(setting, seed, generate(experiment.workload.model_copy(update=duration), seed), evaluations)


def rows(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def run(policy: str = "lru", seed: int = 0, **keys: Any) -> dict[str, pa.Table]:
    """The tables of a run of a steady policy."""
    return task(policy, seed, **keys).run(Given(name=policy)).tables


def numbers(tables: dict[str, pa.Table]) -> list[tuple[Any, ...]]:
    return rows(tables["evaluations"], "results", "fresh", "spent")


class ByHand:
    """The same simulation written down as 002 defines it: dictionaries, loops and no array."""

    def __init__(self, setting: GridSetting, trace: Trace, order: str, late: bool = False, fails: bool = False) -> None:
        self.setting, self.order, self.late, self.fails = setting, order, late, fails
        self.window, self.step, self.t0 = setting.experiment.window, setting.experiment.step, trace.t0
        self.arrivals = list(zip(trace.arrivals.t_ms.tolist(), trace.arrivals.sn.tolist(), strict=True))
        self.needs: dict[int, list[int]] = {sn: [] for sn in range(trace.sns)}
        for sn, sr in zip(trace.edges.sn.tolist(), trace.edges.sr.tolist(), strict=True):
            self.needs[sn].append(sr)
        self.changes: dict[int, list[int]] = {sr: [] for sr in range(trace.srs)}
        for t, sr in zip(trace.changes.t_ms.tolist(), trace.changes.sr.tolist(), strict=True):
            self.changes[sr].append(t)
        warm = setting.experiment.start == "warm"
        self.known = {sn: list(srs) for sn, srs in self.needs.items()} if warm else {}
        self.read = dict.fromkeys(self.changes, self.t0) if warm else {}
        self.carried = 0.0
        self.failures: Counter[Entry] = Counter()
        self.backoff_until: dict[Entry, int] = {}

    def evaluations(self, count: int) -> list[tuple[float, float, float]]:
        return [self.evaluate(k) for k in range(1, count + 1)]

    def content(self, now: int) -> Counter[int]:
        """How many mappings each SN has in the window at an instant, by definition."""
        right_open = self.setting.experiment.closure.value == "right-open"
        shift = 1 if right_open else 0  # [o, c) in whole milliseconds is (o − 1, c − 1]
        begin, end = now - self.window - shift, now - shift
        return Counter(sn for t, sn in self.arrivals if begin < t <= end and t <= self.now)

    def fresh(self, sr: int, now: int) -> bool:
        """No change in (r, t]."""
        if sr not in self.read:
            return False
        changes = self.changes[sr]
        return bisect_right(changes, self.read[sr]) == bisect_right(changes, now)

    def evaluate(self, k: int) -> tuple[float, float, float]:
        self.now = now = self.t0 + k * self.step
        counts = self.content(now)
        gamma = float(self.setting.rule.per_evaluation)
        available = self.carried + floor(k * gamma) - floor((k - 1) * gamma)
        wanted = [entry for entry in self.choose(counts) if self.backoff_until.get(entry, 0) <= k]
        chosen = wanted[: floor(available)]
        if self.fails:
            self.failures.update(chosen)
            self.backoff_until |= {entry: k + 2 ** self.failures[entry] for entry in chosen}
        self.carried = min(float(self.setting.rule.bank), available - len(chosen))
        if not self.late:
            self.fetch(chosen, now)
        answers = self.answers(counts, now)
        if self.late:
            self.fetch(chosen, now)
        return (*answers, float(len(chosen)))

    def fetch(self, chosen: list[Entry], now: int) -> None:
        for kind, key in [] if self.fails else chosen:
            if kind == Kind.MISS:
                self.known[key] = self.needs[key]
                self.read |= dict.fromkeys(self.needs[key], now)
            else:
                self.read[key] = now

    def choose(self, counts: Counter[int]) -> list[Entry]:
        """Stale candidates, best first."""
        demand: dict[Entry, list[float]] = {}
        ahead = [self.content(self.now + m * self.step) for m in range(-(-self.window // self.step))]
        for sn in counts:
            answers = 1.0 if sn in self.known else self.expected_of_a_miss()
            for entry in [(Kind.COPY, sr) for sr in self.known[sn]] if sn in self.known else [(Kind.MISS, sn)]:
                waiting = demand.setdefault(entry, [0.0] * len(ahead))
                for m, then in enumerate(ahead):
                    waiting[m] += then[sn] * answers
        stale = [(kind, key) for kind, key in demand if kind == Kind.MISS or not self.fresh(key, self.now)]
        return sorted(stale, key=lambda entry: (-self.score(entry[0], entry[1], demand[entry]), entry))

    def expected_of_a_miss(self) -> float:
        """As many answers as an SN has that was fetched already, on average."""
        if self.setting.case is Case.AGGREGATE or not self.known:
            return 1.0
        return max(1.0, sum(map(len, self.known.values())) / len(self.known))

    def score(self, kind: int, key: int, demand: list[float]) -> float:
        if self.order == "lru":
            return inf if kind == Kind.MISS else self.now - self.read[key]
        if self.order == "sbm":
            return demand[0]
        ahead = [] if kind == Kind.MISS else self.changes[key]
        upcoming = next((t for t in ahead if t > self.now), inf)
        return sum(waiting for m, waiting in enumerate(demand) if self.now + m * self.step < upcoming)

    def answers(self, counts: Counter[int], now: int) -> tuple[float, float]:
        results = fresh = 0
        for sn, count in counts.items():
            copies = [sn in self.known and self.fresh(sr, now) for sr in self.needs[sn]]
            if self.setting.case is Case.BGP:
                results += count * len(copies)
                fresh += count * sum(copies)
            elif copies:
                results += count
                fresh += count * all(copies)
        return float(results), float(fresh)


def by_hand(task: Task, order: str, **how: bool) -> list[tuple[float, float, float]]:
    return ByHand(task.setting, task.trace, order, **how).evaluations(task.evaluations)


@pytest.mark.parametrize("order", ["lru", "sbm", "ibm"])
@pytest.mark.parametrize("start", ["warm", "cold"])
@pytest.mark.parametrize("case", ["bgp", "aggregate"])
@pytest.mark.parametrize("law", ["fixed", "poisson"])
def test_without_latency_it_is_the_instantaneous_semantics(law: str, case: str, start: str, order: str) -> None:
    given = task(order, start=start, case=case, workload__change_law=law)
    found = numbers(given.run(Given(name=order)).tables)
    assert found == by_hand(given, order)
    assert sum(spent for _, _, spent in found) > 0
    assert 0 <= sum(fresh for _, fresh, _ in found) < sum(results for results, _, _ in found)


@pytest.mark.parametrize(
    "keys",
    [
        {"closure": "right-open"},
        {"budget": 2.5, "bank": 3},
        {"window": 3500, "step": 800},
        {"window": 500, "step": 900},
        {"workload__edges": 20, "start": "cold", "case": "aggregate"},
        {"budget": 0},
        {"start": "cold", "seed": 5, "budget": 9},
    ],
    ids=lambda keys: ",".join(f"{key}={value}" for key, value in keys.items()),
)
def test_so_it_is_for_every_window_budget_and_population(keys: dict[str, Any]) -> None:
    given = task("ibm", **keys)
    assert numbers(given.run(Given(name="ibm")).tables) == by_hand(given, "ibm")


@pytest.mark.parametrize("start", ["warm", "cold"])
@pytest.mark.parametrize("knowledge", ["exact", "published", "rates", "learned"])
def test_a_tiny_latency_makes_no_difference(knowledge: str, start: str) -> None:
    """Rates learned check by check may differ in the last digit from those learned evaluation by evaluation."""
    for policy in ("lru",) if knowledge == "learned" else ("ibm", "gain"):
        at_once, soon = (
            task(policy, knowledge=knowledge, start=start, remote__latency_ms=latency).run(PolicySettings(name=policy))
            for latency in (0, 0.001)
        )
        assert numbers(soon.tables) == numbers(at_once.tables)
        assert soon.late == 0
        assert soon.tables["refreshes"]["sr"].to_pylist() == at_once.tables["refreshes"]["sr"].to_pylist()


@pytest.mark.parametrize("start", ["warm", "cold"])
@pytest.mark.parametrize("case", ["bgp", "aggregate"])
def test_what_comes_after_the_deadline_counts_as_late_and_is_used_later(case: str, start: str) -> None:
    given = task("ibm", case=case, start=start, remote__latency_ms=700, remote__deadline_ms=600)
    outcome = given.run(Given(name="ibm"))
    assert numbers(outcome.tables) == by_hand(given, "ibm", late=True)
    assert outcome.late == outcome.requests == outcome.spent > 0
    assert asked_and_late(outcome.tables["refreshes"])


@pytest.mark.parametrize(("latency", "deadline", "late"), [(600, 600, False), (601, 600, True), (500, None, False)])
def test_what_comes_at_the_deadline_is_in_time(latency: int, deadline: int | None, late: bool) -> None:
    given = task("ibm", remote__latency_ms=latency, remote__deadline_ms=deadline)
    assert numbers(given.run(Given(name="ibm")).tables) == by_hand(given, "ibm", late=late)


def test_a_deadline_of_nothing_still_takes_what_comes_at_once() -> None:
    given = task("ibm", remote__failure_rate=1e-12, remote__deadline_ms=0)
    assert numbers(given.run(Given(name="ibm")).tables) == by_hand(given, "ibm")
    assert asked_and_late(run("ibm", remote__latency_ms=1, remote__deadline_ms=0)["refreshes"])


def asked_and_late(refreshes: pa.Table) -> bool:
    """Whether every entry has a row for its request and one for what came of it late, of the same evaluation."""
    found = rows(refreshes, "k", "t_ms", "sr", "requests", "error", "late")
    asked = [row[:3] for row in found if row[3:] == (1, PENDING, False)]
    came = [row[:3] for row in found if row[3:] == (0, None, True)]
    return len(asked) + len(came) == len(found) > 0 and sorted(asked) == sorted(came)


def started(world: World) -> list[list[int]]:
    """When each evaluation's requests were read, late ones included, from its instant on."""
    concluded = list(world.run())
    by_k: dict[int, list[int]] = {done.record.k: [] for done in concluded}
    for refreshes in [*(done.refreshes for done in concluded), *world.late]:
        here = [error != PENDING for error in refreshes.errors]
        for k, after in zip(
            refreshes.k[here].tolist(), (refreshes.read_at - refreshes.t_ms)[here].tolist(), strict=True
        ):
            by_k[k].append(after)
    return [sorted(by_k[k]) for k in sorted(by_k)]


def world_of(policy: str = "lru", **keys: Any) -> World:
    return task(policy, **keys).world(make(policy))[0]


def test_no_more_requests_are_under_way_than_allowed() -> None:
    world = world_of(budget=7, remote__latency_ms=100, remote__concurrency=3)
    times = started(world)
    assert max(times) == [0, 0, 0, 100, 100, 100, 200]
    assert all(found == max(times)[: len(found)] for found in times)


def test_a_rate_limit_is_of_any_stretch_of_time_and_bounds_what_a_policy_may_spend() -> None:
    """As in production: 2 in a second are sent together, a second later 2 more, and nothing piles up."""
    world = world_of(budget=5, remote__requests_per_second=2, remote__latency_ms=10)
    assert started(world) == [[0, 0]] * EVALUATIONS
    assert not world.late
    evaluations = run(budget=5, bank=4, remote__requests_per_second=2, remote__latency_ms=10)["evaluations"]
    assert rows(evaluations, "budget", "spent", "carried")[:3] == [(2, 2, 3), (2, 2, 6), (2, 2, 7)]


@pytest.mark.parametrize(("rate", "fewest"), [(0.4, [0, 3000, 6000, 9000]), (1, [0, 1000, 2000, 3000])])
def test_a_slow_rate_limit_holds_across_evaluations(rate: float, fewest: list[int]) -> None:
    """One in 2.5 s may be sent with every third evaluation."""
    times = [1000 * k + t for k, found in enumerate(started(world_of(remote__requests_per_second=rate))) for t in found]
    assert times[:4] == fewest


def test_what_has_no_place_by_the_deadline_is_not_sent_and_not_paid() -> None:
    """With one place and 300 ms each, two are sent by 500 ms; the second comes late, at 600."""
    tables = run(budget=4, bank=9, remote__latency_ms=300, remote__concurrency=1)
    first = [row for row in rows(tables["refreshes"], "k", "requests", "error", "late") if row[0] == 1]
    no_time = (1, 0, "not sent: there was no time left", False)
    sent = [(1, 1, None, False), (1, 1, PENDING, False), (1, 0, None, True)]
    assert sorted(first, key=str) == sorted([*sent, no_time, no_time], key=str)
    assert rows(tables["evaluations"], "budget", "spent", "carried")[:2] == [(4, 2, 2), (6, 2, 4)]


def test_while_all_places_wait_for_late_answers_nothing_may_be_spent() -> None:
    evaluations = run(budget=4, remote__latency_ms=2500, remote__concurrency=3)["evaluations"]
    assert evaluations["budget"].to_pylist()[:7] == [4, 0, 0, 4, 0, 0, 4]
    assert evaluations["spent"].to_pylist()[:7] == [3, 0, 0, 3, 0, 0, 3]


def test_what_is_on_its_way_is_not_asked_for_again_and_costs_nothing() -> None:
    """Each answer takes 2.5 s, and the most wanted are wanted again before; the words are production's."""
    given = task("sbm", budget=6, bank=6, workload__change_interval_ms=[100, 400], remote__latency_ms=2500)
    outcome = given.run(Given(name="sbm"))
    asked = rows(outcome.tables["refreshes"].filter(pc.invert(pc.field("late"))), "t_ms", "sr", "requests", "error")
    sent: dict[str, int] = {}
    refused = 0
    for at, sr, requests, error in asked:
        under_way = at < sent.get(sr, -inf) + 2500
        assert (requests, error) == ((0, IN_FLIGHT) if under_way else (1, PENDING))
        sent[sr] = sent[sr] if under_way else at
        refused += under_way
    assert refused
    assert outcome.requests == outcome.spent == len(asked) - refused
    for budget, spent, left in rows(outcome.tables["evaluations"], "budget", "spent", "carried"):
        assert left == budget - spent


def test_a_failure_is_paid_for_and_leaves_the_old_copy_and_its_age() -> None:
    given = task("ibm", remote__failure_rate=1.0)
    tables = given.run(Given(name="ibm")).tables
    assert numbers(tables) == by_hand(given, "ibm", fails=True)
    assert rows(tables["evaluations"], "errors") == rows(tables["evaluations"], "spent")
    assert set(tables["refreshes"]["error"].to_pylist()) == {"failed"}
    assert not any(tables["refreshes"]["changed"].to_pylist())


def test_of_some_failures_only_the_others_make_copies_younger() -> None:
    world = world_of("ibm", remote__failure_rate=0.4)
    before = world.manager.view.last_refresh.copy()
    failed = done = 0
    for evaluation in world.run():
        after, refreshes = world.manager.view.last_refresh.copy(), evaluation.refreshes
        for slot, error in zip(refreshes.srs.tolist(), refreshes.errors, strict=True):
            assert after[slot] == (evaluation.record.t_ms if error is None else before[slot])
        failed, done = failed + refreshes.failed, done + len(refreshes.errors)
        before = after
    assert 0.25 * done < failed < 0.6 * done
    assert world.manager.ledger.spent == 4 * EVALUATIONS


ROUGH: list[dict[str, object]] = [
    {"latency_ms": 300, "latency_law": "exponential"},
    {"latency_ms": 1700, "latency_law": "lognormal", "deadline_ms": 2500},
    {"latency_ms": 900, "latency_law": "lognormal", "deadline_ms": 10_000, "concurrency": 2, "failure_rate": 0.2},
    {"latency_ms": 2500, "deadline_ms": 1000},
    {"latency_ms": 1000, "deadline_ms": 1000, "requests_per_second": 3},
    {"failure_rate": 0.5, "deadline_ms": 0},
]


@pytest.mark.parametrize("remote", ROUGH, ids=str)
@pytest.mark.parametrize("start", ["warm", "cold"])
def test_whatever_the_remote_does_evaluations_stay_apart_and_the_ledger_balances(
    remote: dict[str, object], start: str
) -> None:
    for policy, case, knowledge, budget in (("ibm", "bgp", "exact", 20.5), ("bundle", "aggregate", "learned", 3.5)):
        given = task(policy, remote=remote, start=start, case=case, knowledge=knowledge, budget=budget, bank=2)
        outcome = given.run(PolicySettings(name=policy))
        evaluations, refreshes = outcome.tables["evaluations"], outcome.tables["refreshes"]
        expected = [(k, given.trace.t0 + 1000 * k) for k in range(1, EVALUATIONS + 1)]
        assert rows(evaluations, "k", "t_ms") == expected
        assert refreshes["k"].to_pylist() == sorted(refreshes["k"].to_pylist())
        sent = Counter(k for k, requests in rows(refreshes, "k", "requests") if requests)
        assert evaluations["spent"].to_pylist() == [sent[k] for k, _ in expected]
        assert outcome.spent == outcome.requests == sum(sent.values())
        assert sum(refreshes["late"].to_pylist()) == outcome.late
        carried = 0.0
        limited = {"concurrency", "requests_per_second"} & remote.keys()
        for k, available, spent, left in rows(evaluations, "k", "budget", "spent", "carried"):
            had = carried + floor(budget * k) - floor(budget * (k - 1))
            assert available <= had if limited else available == had
            assert left == had - spent >= 0
            carried = min(2.0, left)
        for results, fresh in rows(evaluations, "results", "fresh"):
            assert 0 <= fresh <= results


@pytest.mark.parametrize("remote", [*ROUGH, {"latency_ms": 2500}], ids=str)
@pytest.mark.parametrize("start", ["warm", "cold"])
@pytest.mark.parametrize("case", ["bgp", "aggregate"])
def test_who_knows_everything_expects_what_is_true(case: str, start: str, remote: dict[str, object]) -> None:
    """Also of copies that were read before the evaluation and came when it was decided already."""
    workload = {**SMALL, "change_law": "poisson" if case == "bgp" else "fixed", "change_interval_ms": [100, 30_000]}
    evaluations = run("ibm", case=case, start=start, remote=remote, workload=workload)["evaluations"]
    assert evaluations["expected_fresh"].to_pylist() == evaluations["fresh"].to_pylist()
    assert sum(evaluations["fresh"].to_pylist())


@pytest.mark.parametrize("start", ["warm", "cold"])
def test_an_old_copy_never_takes_the_place_of_a_newer_one(start: str) -> None:
    remote = {"latency_ms": 1700, "latency_law": "lognormal", "deadline_ms": 2500}
    world = world_of("ibm", remote=remote, start=start)
    newest = dict.fromkeys(range(world.trace.srs), world.trace.t0 if start == "warm" else -1)
    out_of_order = 0
    concluded = [done.refreshes for done in world.run()]
    for refreshes in [*concluded, *world.late]:
        for (kind, key), at, error in zip(refreshes.entries, refreshes.read_at.tolist(), refreshes.errors, strict=True):
            if error is not None:
                continue
            assert isinstance(key, int)
            for sr in world.remote.graph.inputs(key).tolist() if kind == Kind.MISS else [key]:
                out_of_order += at < newest[sr]
                newest[sr] = max(newest[sr], at)
    view = world.manager.view
    held = {key: int(view.last_refresh[slot]) for key, slot in view.srs.numbers.items()}
    assert out_of_order
    assert held == {sr: at for sr, at in newest.items() if at >= 0}


def test_the_same_seed_gives_the_same_world() -> None:
    remote = {"latency_ms": 900, "latency_law": "lognormal", "failure_rate": 0.2}
    first, again = (run("ibm", remote=remote) for _ in range(2))
    timeless = [name for name in first["evaluations"].column_names if name != "decide_us"]
    assert first["evaluations"].select(timeless).equals(again["evaluations"].select(timeless))
    assert first["refreshes"].equals(again["refreshes"])
    assert not run("ibm", seed=1, remote=remote)["refreshes"].equals(first["refreshes"])
