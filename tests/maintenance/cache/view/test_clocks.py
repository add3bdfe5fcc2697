"""Entries that work by a clock: as matrix exponentials have it, found where there are any, else rates are believed."""

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view import clocks as code
from freshkeeper.maintenance.cache.view.changes import Evidence
from freshkeeper.maintenance.cache.view.clocks import (
    FIRST,
    INTERVALS,
    NO_ROW,
    SHAPES,
    UNPROVEN,
    Clocks,
    average_outlooks,
    check_all,
)
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.cache.view.rates import Checks
from freshkeeper.maintenance.observe.metrics import Metrics
from freshkeeper.maintenance.sources.memory import InMemory
from freshkeeper.policies.registry import make


def generator(k: int, interval: float, wraps: bool) -> Floats:
    """Phases pass at k per interval; a round that ends begins anew (`wraps`) or is lost."""
    q = np.diag(np.full(k, -k / interval)) + np.diag(np.full(k - 1, k / interval), 1)
    if wraps:
        q[-1, 0] += k / interval
    return q


def alone(k: int, interval: float, rows: int) -> tuple[NDArray[Any], tuple[Floats, Floats, Ints, Ints]]:
    """The arguments of a model in which there is one shape and one interval."""
    return np.tile(np.full(k, 1.0 / k, np.float32), (rows, 1)), (
        np.ones((1, 1)), np.array([float(interval)]), np.array([k]), np.array([0, k]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("k", "interval", "second"),
    [
        (1, 7000.0, True), (3, 7000.0, True), (6, 7000.0, True), (6, 7000.0, False), (36, 7000.0, True),
        (1, 100_000.0, True), (6, 100_000.0, True), (6, 100_000.0, False), (36, 100_000.0, False),
    ],
)  # fmt: skip
def test_checks_and_beliefs_are_those_of_matrix_exponentials(k: int, interval: float, second: bool) -> None:
    taus, seen = [1500.0, 9000.0, 4000.0, 800.0], [False, True, second, False]
    (phases, model), mass = alone(k, interval, 1), np.ones((1, 1, 1))
    free, ended = generator(k, interval, True), generator(k, interval, False)
    state = np.full(k, 1.0 / k)
    for tau, changed in zip(taus, seen, strict=True):
        quiet, whole = state @ expm(ended * tau), state @ expm(free * tau)
        after = whole - quiet if changed else quiet
        foretold, _ = check_all(phases, mass, np.zeros(1, np.int64), np.array([tau]), np.array([changed]), *model)
        assert foretold[0] == pytest.approx(after.sum() / state.sum(), rel=1e-4)
        state = after / after.sum()
        assert phases[0] / phases[0].sum() == pytest.approx(state, abs=1e-5)
        assert mass[0, 0, 0] == pytest.approx(phases[0].sum())
    age, ahead = 3000.0, np.array([0.0, 1000.0, 5000.0, 6000.0])
    first, told = np.zeros(1, np.int64), np.zeros((1, 3 * ahead.size), np.float32)
    parts, known = np.zeros((1, phases.shape[1], told.size), np.float32), np.zeros((1, 1, 1), bool)
    average_outlooks(phases, mass, first, first, first, np.array([age]), ahead, *model, True, parts, known, told)
    refreshed, kept, change = np.split(told, 3, axis=1)
    now = state @ expm(free * age)
    assert refreshed[0] == pytest.approx([(now @ expm(ended * m)).sum() for m in ahead], abs=1e-5)
    assert kept[0] == pytest.approx([(state @ expm(ended * (age + m))).sum() for m in ahead], abs=1e-5)
    steps = [1 - (state @ expm(free * (age + a)) @ expm(ended * (b - a))).sum() for a, b in pairwise(ahead)]
    assert change[0] == pytest.approx([0, *steps], abs=1e-5)


def watched(
    rng: np.random.Generator, changes_at: Callable[..., object], entries: int, seconds: int, model: Learned
) -> Ints:
    """Every entry fetched at random instants, some ten seconds apart."""
    slots = np.arange(entries, dtype=np.int32)
    model.admit(slots, slots.tolist())
    last = np.zeros(entries, np.int64)
    for now in range(1000, seconds * 1000, 1000):
        due = np.flatnonzero(rng.random(entries) < 0.1).astype(np.int32)
        if due.size:
            changed = np.array([changes_at(j, now) != changes_at(j, int(last[j])) for j in due])
            told = np.full(due.size, UNKNOWN)
            model.observe(Evidence(due, now, last[due].copy(), changed, told, told))
            last[due] = now
    return last


def test_a_clock_is_found_with_its_period_and_where_it_stands() -> None:
    rng = np.random.default_rng(1)
    period, phase = rng.uniform(15_000, 40_000, 20), rng.uniform(0, 15_000, 20)
    model = Learned()
    last = watched(rng, lambda j, now: (now - phase[j]) // period[j], 20, 600, model)
    assert model.clocks.weight > 0.99
    chance, found = model.clocks.regular(np.arange(20))
    assert (chance > 0.9).mean() > 0.9
    assert np.median(np.abs(np.log2(found / period))) < 0.25  # they are half an octave apart
    instants = 600_000 + 1000 * np.arange(40)
    ends = (instants - phase[:, None]) // period[:, None]
    truth = ends == ((last - phase) // period)[:, None]
    kept = model.beliefs(instants, last, False).kept
    plain = np.exp(-model.rates(20)[:, None] * (instants - last[:, None]))
    assert ((kept - truth) ** 2).mean() < 0.6 * ((plain - truth) ** 2).mean()


def test_where_nothing_is_regular_rates_are_believed_as_before() -> None:
    rng = np.random.default_rng(2)
    times = [np.cumsum(rng.exponential(20_000, 100)) for _ in range(20)]
    model = Learned()
    last = watched(rng, lambda j, now: int(np.searchsorted(times[j], now, side="right")), 20, 600, model)
    assert model.clocks.weight < 0.5
    assert model.clocks.regular(np.arange(20))[0].tolist() == [0.0] * 20
    kept = model.beliefs(np.array([600_000]), last, False).kept[:, 0]
    assert kept == pytest.approx(np.exp(-model.rates(20) * (600_000 - last)))


def test_what_was_learned_survives_a_restart() -> None:
    rng = np.random.default_rng(3)
    model, again = Learned(), Learned()
    last = watched(rng, lambda j, now: (now + 777 * j) // 20_000, 10, 300, model)
    again.load({name: column.copy() for name, column in model.dump().items()})
    instants = 300_000 + 1000 * np.arange(4)
    first, second = (each.beliefs(instants, last, True) for each in (model, again))
    for one, other in zip(first.matrices, second.matrices, strict=True):
        assert (one == other).all()
    assert again.clocks.weight == model.clocks.weight


def test_only_so_many_are_followed_until_there_is_evidence() -> None:
    clocks = Clocks()
    slots = np.arange(UNPROVEN + 500, dtype=np.int32)
    checks = Checks(slots, np.full(slots.size, 1000), np.zeros(slots.size, bool), np.full(slots.size, -1))
    clocks.observe(checks, np.full(slots.size, 1e-9))
    assert np.count_nonzero(clocks._row[slots] != NO_ROW) == UNPROVEN
    clocks.reset(slots[:100])
    assert (clocks._row[:100] == NO_ROW).all()
    clocks.observe(checks, np.full(slots.size, 1e-9))
    assert np.count_nonzero(clocks._row[slots] != NO_ROW) == UNPROVEN


def test_the_hypotheses_are_laid_side_by_side() -> None:
    assert FIRST.tolist() == [0, *np.cumsum(SHAPES).tolist()]
    assert INTERVALS[0] == 250.0
    assert INTERVALS[-1] > 180 * 24 * 3_600_000 / 4


def test_metrics_say_which_entries_are_regular_and_their_period() -> None:
    source = InMemory({"all": [f"e{n}" for n in range(6)]}, {f"e{n}": 0 for n in range(6)})
    manager = Manager(WindowSpec(4000, 1000), source, make("lru"), BudgetRule.of(1), Learned())
    metrics = Metrics()
    for now in range(1000, 700_000, 1000):
        for n in range(6):
            source.values[f"e{n}"] = (now + 2000 * n) // 20_000
        metrics.observe("blog", manager, manager.evaluate(now, [(now, "all")]))
    entries = manager.regular()
    assert {entry.key for entry in entries} == {f"e{n}" for n in range(6)}
    assert all(15_000 < entry.period_ms < 27_000 and entry.chance > 0.5 for entry in entries)
    assert metrics.registry.get_sample_value("freshkeeper_regular_entries", {"source": "blog"}) == 6
    labels = {"source": "blog", "entry": "e3"}
    assert 15 < (metrics.registry.get_sample_value("freshkeeper_regular_period_seconds", labels) or 0) < 27


def test_what_is_told_does_not_depend_on_who_is_told_with_it() -> None:
    rng = np.random.default_rng(4)
    together, apart, size = Clocks(), [Clocks() for _ in range(6)], 6
    slots, last = np.arange(size, dtype=np.int32), np.zeros(size, np.int64)
    for now in range(1000, 400_000, 1000):
        due = slots[rng.random(size) < 0.2]
        changed = np.not_equal(now // 20_000, last[due] // 20_000)
        checks = Checks(due, now - last[due], changed, np.full(due.size, -1))
        together.observe(checks, np.full(due.size, 5e-5))
        for n, slot in enumerate(due.tolist()):
            alike = Checks(slots[:1], checks.tau[n : n + 1], changed[n : n + 1], np.full(1, -1))
            apart[slot].observe(alike, np.full(1, 5e-5))
        last[due] = now
    for each in apart:
        each._prior = together._prior
    instants = 400_000 + 1000 * np.arange(3)
    found = together.beliefs(slots.astype(np.int64), instants, last, True)
    for slot, each in enumerate(apart):
        own = each.beliefs(np.zeros(1, np.int64), instants, last[slot : slot + 1], True)
        for one, other in zip(own.matrices, found.matrices, strict=True):
            assert one[0] == pytest.approx(other[slot], abs=1e-4)


def test_what_is_left_out_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    in_python: Callable[..., tuple[Floats, Floats]] = vars(check_all)["py_func"]
    monkeypatch.setattr(
        code, "MIN_POSTERIOR", 0.0
    )  # which compiled code does not see, and the same code in Python does
    prior, row = np.full((INTERVALS.size, SHAPES.size), 1.0 / INTERVALS.size / SHAPES.size), np.zeros(1, np.int64)
    start = np.tile(np.repeat(1.0 / SHAPES, SHAPES), INTERVALS.size)[None].astype(np.float32)
    short, whole = ((start.copy(), np.ones((1, *prior.shape))) for _ in range(2))
    for n in range(1, 60):  # it changes every 20 s, and is looked at every 5 s
        tau, changed = np.array([5_000.0]), np.array([n % 4 == 0])
        foretold, _ = check_all(*short, row, tau, changed, prior, INTERVALS, SHAPES, FIRST)
        expected, _ = in_python(*whole, row, tau, changed, prior, INTERVALS, SHAPES, FIRST)
        assert foretold == pytest.approx(expected, rel=1e-4)
        one, other = ((mass[0] * prior) / (mass[0] * prior).sum() for _, mass in (short, whole))
        assert one == pytest.approx(other, abs=1e-6)


def test_an_entry_whose_clock_stops_is_believed_to_go_on_as_it_is_now() -> None:
    clocks, slot, rate = Clocks(), np.zeros(1, np.int32), np.full(1, 5e-5)
    for n in range(1, 200):
        clocks.observe(Checks(slot, np.full(1, 5000), np.array([n % 4 == 0]), np.full(1, -1)), rate)
    day = np.array([0, 86_400_000])
    for _ in range(4):  # days without a change, of which no clock of seconds has an explanation
        clocks.observe(Checks(slot, day[1:], np.zeros(1, bool), np.full(1, -1)), rate)
        assert np.isfinite(clocks._mass[clocks._row[0]]).all()
    found = clocks.beliefs(slot.astype(np.int64), day, np.zeros(1, np.int64), True)
    assert all(np.isfinite(matrix).all() for matrix in found.matrices)
    assert found.kept[0, 1] > 0.3


def some_clocks() -> tuple[Clocks, Ints, Ints]:
    """Six entries that change every 20 s, with copies of six ages."""
    clocks, slots = Clocks(), np.arange(6, dtype=np.int32)
    for n in range(1, 40):
        told = np.full(6, -1)
        clocks.observe(Checks(slots, np.full(6, 5000), np.full(6, n % 4 == 0), told), np.full(6, 5e-5))
    return clocks, slots.astype(np.int64), 1000 * np.arange(6)


def test_what_is_kept_of_ages_is_what_would_be_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks, slots, fetched = some_clocks()
    copied, roomless = pickle.loads(pickle.dumps(clocks)), pickle.loads(pickle.dumps(clocks))
    for now in (6000, 7000, 8000):
        for look_ahead, horizon in ((False, 4), (True, 4), (False, 1)):
            instants = now + 1000 * np.arange(horizon)
            found = clocks.beliefs(slots, instants, fetched, look_ahead)
            with monkeypatch.context() as little:
                little.setattr(code, "LARGEST", 1)  # one age at a time
                again = roomless.beliefs(slots, instants, fetched, look_ahead)
            copied._outlooks.clear()
            alone = copied.beliefs(slots, instants, fetched, look_ahead)
            for one, two, three in zip(found.matrices, again.matrices, alone.matrices, strict=True):
                assert one.tolist() == two.tolist() == three.tolist()


def test_threads_may_ask_for_other_ages_at_once() -> None:
    clocks, slots, fetched = some_clocks()
    instants = [now + 1000 * np.arange(4) for now in range(6000, 206_000, 1000)]
    expected = [clocks.beliefs(slots, each, fetched, False).kept.tolist() for each in instants]
    clocks._outlooks.clear()
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda each: clocks.beliefs(slots, each, fetched, False).kept.tolist(), instants)
    assert list(found) == expected
