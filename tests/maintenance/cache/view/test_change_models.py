"""One contract for every change model: the same checks, whatever it knows and whatever it is told."""

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freshkeeper.maintenance.base.arrays import Ids, Ints
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.view.changes import Beliefs, ChangeModel, Evidence
from freshkeeper.maintenance.cache.view.learned import Learned, Poisson
from freshkeeper.maintenance.cache.view.published import Published
from freshkeeper.maintenance.cache.view.rates import ChangeBits, LastModified
from freshkeeper.maintenance.cache.view.schedule import FixedSchedule, RecordedChanges
from freshkeeper.maintenance.cache.view.survival import Survival
from freshkeeper.maintenance.cache.view.unchanging import Unchanging
from freshkeeper.policies.base import NEVER, Knowledge

SLOTS = 6
STEP = 700
ROUNDING = 1e-9


def fixed() -> FixedSchedule:
    """Six schedules from 300 to 5,300 ms."""
    return FixedSchedule(np.arange(300, 6300, 1000), np.arange(6) * 70)


def recorded() -> RecordedChanges:
    """The same, as a trace."""
    t_ms, sr = fixed().changes(-5_000, 60_000)
    return RecordedChanges(sr, t_ms, 6)


MODELS: dict[str, Callable[[], ChangeModel]] = {
    "fixed": fixed,
    "recorded": recorded,
    "poisson": lambda: Poisson(np.geomspace(1e-6, 1e-2, 6)),
    "published": Published,
    "published periodic": lambda: Published(periodic=True),
    "unchanging": Unchanging,
    "survival": Survival,
    "survival own": lambda: Survival(own=2, capacity=32),
    "change bits": Learned,
    "change bits forgetful": lambda: Learned(ChangeBits(memory=5)),
    "last modified": lambda: Learned(LastModified()),
    "last modified forgetful": lambda: Learned(LastModified(memory=5)),
}


@pytest.fixture(params=MODELS.values(), ids=list(MODELS))
def make(request: pytest.FixtureRequest) -> Callable[[], ChangeModel]:
    """What makes the model under test."""
    made: Callable[[], ChangeModel] = request.param
    return made


def admitted(model: ChangeModel, slots: int = SLOTS) -> ChangeModel:
    """The model with slots 0, 1, ... for the SRs 0, 1, ..."""
    model.admit(np.arange(slots, dtype=np.int32), list(range(slots)))
    return model


def evidence(rng: np.random.Generator, now: int, last_refresh: Ints, slots: Ids) -> Evidence:
    """Fetches of these slots with anything that a source might say, sense or nonsense."""
    n = slots.size
    modified = np.where(rng.random(n) < 0.6, now - rng.integers(-5, 4000, n), UNKNOWN)
    expires = np.where(rng.random(n) < 0.6, now + rng.integers(-500, 4000, n), UNKNOWN)
    previous = last_refresh[slots]
    return Evidence(slots, now, previous, (rng.random(n) < 0.5) & (previous != NEVER), modified, expires)


def lived(model: ChangeModel, rng: np.random.Generator, rounds: int = 12, until: int = 0) -> tuple[int, Ints]:
    """Some rounds of fetches; returns the time and when each slot was fetched."""
    now, last_refresh = until, np.full(SLOTS, NEVER)
    for _ in range(rounds):
        now += int(rng.integers(1, 3000))
        slots = rng.permutation(SLOTS)[: rng.integers(0, SLOTS + 1)].astype(np.int32)
        model.observe(evidence(rng, now, last_refresh, slots))
        last_refresh[slots] = now
    return now, last_refresh


def check(model: ChangeModel, now: int, last_refresh: Ints, horizon: int = 4) -> Beliefs:
    """What has to hold of beliefs at any time."""
    instants = now + STEP * np.arange(horizon)
    beliefs = model.beliefs(instants, last_refresh, look_ahead=True)
    assert beliefs.change is not None
    for name, matrix in (("refreshed", beliefs.refreshed), ("kept", beliefs.kept), ("change", beliefs.change)):
        assert matrix.shape == (last_refresh.size, horizon), name
        assert matrix.dtype == np.float64, name
        assert ((matrix >= 0) & (matrix <= 1)).all(), name
    assert (np.diff(beliefs.refreshed, axis=1) <= ROUNDING).all(), "a fresh copy only ages"
    assert (np.diff(beliefs.kept, axis=1) <= ROUNDING).all(), "a kept copy only ages"
    assert (beliefs.kept <= beliefs.refreshed + ROUNDING).all(), "a refresh never harms"
    assert (np.abs(beliefs.refreshed[:, 0] - 1) <= ROUNDING).all(), "what is fetched now is fresh now"
    assert (beliefs.kept[last_refresh == NEVER] == 0).all(), "there is no copy to keep"
    assert (beliefs.change[:, 0] == 0).all()
    return beliefs


def test_it_says_what_it_knows(make: Callable[[], ChangeModel]) -> None:
    assert make().knowledge in Knowledge


def test_it_holds_before_anything_was_observed(make: Callable[[], ChangeModel]) -> None:
    check(admitted(make()), 5000, np.array([NEVER, 0, 4000, 5000, NEVER, 4999]))


def test_it_holds_for_slots_that_nobody_admitted(make: Callable[[], ChangeModel]) -> None:
    check(make(), 5000, np.array([NEVER, 0, 4000] * 20))


def test_it_holds_without_slots_and_with_one_instant(make: Callable[[], ChangeModel]) -> None:
    check(make(), 5000, np.empty(0, np.int64))
    check(admitted(make()), 5000, np.full(SLOTS, 4000), horizon=1)


@pytest.mark.parametrize("seed", range(8))
def test_it_holds_after_any_evidence(make: Callable[[], ChangeModel], seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = admitted(make())
    for _ in range(4):
        now, last_refresh = lived(model, rng)
        check(model, now, last_refresh)
        check(model, now + 100_000, last_refresh)


def test_evidence_of_nothing_is_no_harm(make: Callable[[], ChangeModel]) -> None:
    model = admitted(make())
    model.observe(evidence(np.random.default_rng(0), 100, np.full(SLOTS, NEVER), np.empty(0, np.int32)))
    check(model, 100, np.full(SLOTS, NEVER))


def test_looking_ahead_changes_nothing_else(make: Callable[[], ChangeModel]) -> None:
    model = admitted(make())
    now, last_refresh = lived(model, np.random.default_rng(3))
    instants = now + STEP * np.arange(4)
    plain, ahead = (model.beliefs(instants, last_refresh, look) for look in (False, True))
    assert plain.change is None
    assert (plain.refreshed == ahead.refreshed).all()
    assert (plain.kept == ahead.kept).all()


def test_it_leaves_what_it_is_given_alone(make: Callable[[], ChangeModel]) -> None:
    model = admitted(make())
    rng = np.random.default_rng(5)
    now, last_refresh = lived(model, rng)
    instants = now + STEP * np.arange(4)
    seen = evidence(rng, now, last_refresh, np.arange(SLOTS, dtype=np.int32))
    for array in (instants, last_refresh, seen.slots, seen.previous, seen.changed, seen.modified, seen.expires):
        array.flags.writeable = False
    model.observe(seen)
    model.beliefs(instants, last_refresh, look_ahead=True)


def test_what_it_gives_is_the_caller_s_to_change(make: Callable[[], ChangeModel]) -> None:
    model = admitted(make())
    now, last_refresh = lived(model, np.random.default_rng(6))
    first = check(model, now, last_refresh)
    assert first.change is not None
    expected = [first.refreshed.copy(), first.kept.copy(), first.change.copy()]
    for matrix in (first.refreshed, first.kept, first.change):
        matrix[:] = -1
    again = check(model, now, last_refresh)
    assert again.change is not None
    for matrix, before in zip((again.refreshed, again.kept, again.change), expected, strict=True):
        assert (matrix == before).all()


def test_it_can_be_pickled(make: Callable[[], ChangeModel]) -> None:
    model = admitted(make())
    now, last_refresh = lived(model, np.random.default_rng(7))
    one, other = check(model, now, last_refresh), check(pickle.loads(pickle.dumps(model)), now, last_refresh)
    assert (one.kept == other.kept).all()
    assert (one.refreshed == other.refreshed).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_slot_that_is_used_again_starts_afresh(make: Callable[[], ChangeModel], seed: int) -> None:
    """After evidence, slots 1 and 4 change hands; they are believed what an SR is that just came, at a new slot."""
    model = admitted(make())
    now, _ = lived(model, np.random.default_rng(seed))
    given_back = np.array([4, 1], np.int32)
    model.evict(given_back)
    model.admit(given_back, [0, 3])
    model.admit(np.array([SLOTS + 1, SLOTS], np.int32), [3, 0])
    last_refresh = np.full(SLOTS + 2, now)
    beliefs = check(model, now, last_refresh)
    for old, new in ((4, SLOTS), (1, SLOTS + 1)):
        assert beliefs.refreshed[old] == pytest.approx(beliefs.refreshed[new])
        assert beliefs.kept[old] == pytest.approx(beliefs.kept[new])
        assert beliefs.change is not None
        assert beliefs.change[old] == pytest.approx(beliefs.change[new])


def test_slots_are_one_another_s_strangers(make: Callable[[], ChangeModel]) -> None:
    """What is observed of slot 2 does not touch the last fetch that slot 3 is believed to have."""
    model = admitted(make())
    last_refresh = np.array([NEVER, 0, 0, NEVER, 0, NEVER])
    model.observe(evidence(np.random.default_rng(1), 900, last_refresh, np.array([2], np.int32)))
    assert check(model, 900, last_refresh).kept[3].tolist() == [0, 0, 0, 0]


def test_one_key_for_each_slot(make: Callable[[], ChangeModel]) -> None:
    with pytest.raises(InputError, match="2 slots were admitted with 1 keys"):
        make().admit(np.array([0, 1], np.int32), ["a"])


COMING_AND_GOING = st.lists(st.tuples(st.sampled_from(["admit", "evict", "observe"]), st.integers(0, 40)), max_size=25)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=examples(15))
@given(doings=COMING_AND_GOING, seed=st.integers(0, 99))
def test_it_holds_through_any_coming_and_going(name: str, doings: list[tuple[str, int]], seed: int) -> None:
    """Slots come, go and come back in any order, with evidence in between."""
    model, rng = MODELS[name](), np.random.default_rng(seed)
    held: set[int] = set()
    now, last_refresh = 0, np.full(41, NEVER)
    for doing, slot in doings:
        now += 137
        one = np.array([slot], np.int32)
        if doing == "admit" and slot not in held:
            model.admit(one, [slot % 7])
            held.add(slot)
        elif doing == "evict" and slot in held:
            model.evict(one)
            held.remove(slot)
            last_refresh[slot] = NEVER
        elif doing == "observe" and slot in held:
            model.observe(evidence(rng, now, last_refresh, one))
            last_refresh[slot] = now
        check(model, now, last_refresh)


@pytest.mark.parametrize("some", [[], [0], [1, 4], [0, 2, 3, 5]])
def test_some_slots_are_believed_what_all_are(make: Callable[[], ChangeModel], some: list[int]) -> None:
    model, rng = admitted(make()), np.random.default_rng(3)
    now, last_refresh = lived(model, rng)
    instants, slots = now + STEP * np.arange(4), np.array(some, dtype=np.int64)
    whole = model.beliefs(instants, last_refresh, look_ahead=True)
    part = model.beliefs(instants, last_refresh[slots], True, slots)
    for name in ("refreshed", "kept", "change"):
        assert getattr(part, name).tolist() == getattr(whole, name)[slots].tolist(), name
