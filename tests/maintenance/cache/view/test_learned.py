"""Beliefs of Poisson processes: by hand, learned until they are right, and never sure for ever."""

from collections.abc import Sequence
from math import exp
from typing import TypeVar

import numpy as np
import pytest

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.view.changes import ChangeModel, Evidence
from freshkeeper.maintenance.cache.view.learned import Learned, Poisson, checks
from freshkeeper.maintenance.cache.view.rates import ChangeBits, LastModified
from freshkeeper.policies.base import NEVER, Knowledge

Model = TypeVar("Model", bound=ChangeModel)


def ints(*values: int) -> Ints:
    """Times as the models take them."""
    return np.array(values, np.int64)


def admitted(model: Model, slots: int) -> Model:
    """The model with so many slots, whose keys are their numbers."""
    model.admit(np.arange(slots, dtype=np.int32), list(range(slots)))
    return model


def evidence(
    now: int, previous: list[int], changed: Sequence[bool] | Bools, modified: list[int] | None = None
) -> Evidence:
    """What fetching slots 0, 1, ... at `now` revealed."""
    n = len(changed)
    return Evidence(
        np.arange(n, dtype=np.int32),
        now,
        np.array(previous, np.int64),
        np.array(changed, np.bool_),
        np.full(n, UNKNOWN) if modified is None else np.array(modified, np.int64),
        np.full(n, UNKNOWN),
    )


def test_refreshed_and_kept_are_exponential() -> None:
    """λ = 1/1000, β = 500, a copy fetched 250 ago: exp(−βm/1000) and exp(−(250 + βm)/1000)."""
    model = admitted(Poisson(np.array([1 / 1000])), 1)
    beliefs = model.beliefs(ints(750, 1250, 1750), ints(500), look_ahead=True)
    assert beliefs.refreshed[0].tolist() == pytest.approx([1, exp(-0.5), exp(-1)])
    assert beliefs.kept[0].tolist() == pytest.approx([exp(-0.25), exp(-0.75), exp(-1.25)])
    assert beliefs.change is not None
    assert beliefs.change[0].tolist() == pytest.approx([0, 1 - exp(-0.5), 1 - exp(-0.5)])


def test_there_is_no_fresh_copy_where_none_was_fetched() -> None:
    assert admitted(Poisson(np.zeros(1)), 1).beliefs(ints(0, 9), ints(NEVER), look_ahead=False).kept.sum() == 0


def test_a_key_without_a_number_never_changes() -> None:
    model = Poisson(np.array([0.5]), {"a": 0})
    model.admit(np.array([0, 1], np.int32), ["b", "a"])
    assert model.beliefs(ints(0, 2), ints(0, 0), look_ahead=False).refreshed[:, 1].tolist() == [1, exp(-1)]


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_what_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="entry 1 has the rate"):
        Poisson(np.array([0.1, rate]))


def test_before_any_check_the_prior_speaks() -> None:
    model = admitted(Learned(ChangeBits(prior_interval=1000)), 1)
    assert model.beliefs(ints(0, 500), ints(0), look_ahead=False).refreshed[0, 1] == pytest.approx(exp(-0.5))


@pytest.mark.parametrize("estimator", [ChangeBits, LastModified])
def test_beliefs_come_true(estimator: type[ChangeBits] | type[LastModified]) -> None:
    """40 SRs polled at random; of the copies believed fresh with about p, about p are."""
    rng, model = np.random.default_rng(2), admitted(Learned(estimator()), 40)
    rate, now = np.geomspace(1e-5, 1e-3, 40), 0
    fetched, last = np.zeros(40, np.int64), np.full(40, -1, np.int64)
    believed, true = [], []
    for _ in range(500):
        gap = int(rng.integers(500, 3000))
        change = now + gap - np.rint(rng.exponential(1 / rate)).astype(np.int64)
        now, last = now + gap, np.where(change > now, change, last)
        believed.append(model.beliefs(ints(now), fetched, look_ahead=False).kept[:, 0])
        true.append(last <= fetched)
        polled = np.flatnonzero(rng.random(40) < 0.3).astype(np.int32)
        nothing = np.full(polled.size, UNKNOWN)
        told = last[polled] if estimator is LastModified else nothing
        model.observe(Evidence(polled, now, fetched[polled], ~true[-1][polled], told, nothing))
        fetched[polled] = now
    p, fresh = np.concatenate(believed[100:]), np.concatenate(true[100:])
    for low in np.arange(0, 1, 0.2):
        part = (p >= low) & (p < low + 0.2)
        assert fresh[part].mean() == pytest.approx(p[part].mean(), abs=0.05)


def test_an_entry_that_was_always_quiet_is_doubted_in_the_end() -> None:
    """Slot 0 was never seen to change, the others always are; no rate falls below a hundredth of the pooled one."""
    model = admitted(Learned(floor=0.01), 5)
    changed = np.array([False, True, True, True, True])
    for now in range(1000, 400_000, 1000):
        model.observe(evidence(now, [now - 1000] * 5, changed & (now % 2000 == 0)))
    assert model.rates(5)[0] == pytest.approx(0.01 * model.rates(6)[5])
    later = model.beliefs(ints(400_000, 1_000_000, 3_000_000), np.full(5, 399_000), look_ahead=False)
    assert later.kept[0, 0] > 0.98
    assert later.kept[0, 2] < 0.05


def test_labels_say_what_was_used() -> None:
    assert Learned().knowledge is Knowledge.LEARNED
    assert Learned(LastModified()).knowledge is Knowledge.PUBLISHED


def test_a_floor_beyond_the_pooled_rate_is_refused() -> None:
    with pytest.raises(ConfigError, match="floor is 2"):
        Learned(floor=2)


def test_the_first_answer_to_a_first_check() -> None:
    """Where half of all checks after 1000 ms find a change, one changed check makes two of three: e^{−λτ} = 1/3."""
    model = admitted(Learned(), 1001)
    model.observe(evidence(1000, [0] * 1000, [True, False] * 500))
    model.observe(Evidence(np.array([1000], np.int32), 1000, ints(0), np.array([True]), ints(UNKNOWN), ints(UNKNOWN)))
    kept = model.beliefs(ints(1000), np.zeros(1001, np.int64), look_ahead=False).kept[1000, 0]
    assert kept == pytest.approx(1 / 3, abs=0.001)


def test_intervals_and_ages() -> None:
    seen = checks(evidence(1000, [NEVER, 400, 400], [False, True, False], [UNKNOWN, 900, 100]))
    assert seen.tau.tolist() == [0, 600, 600]
    assert seen.age.tolist() == [-1, 100, 900]
    assert seen.changed.tolist() == [False, True, False]


def test_a_younger_version_of_the_same_value_is_a_change() -> None:
    assert checks(evidence(1000, [400], [False], [500])).changed.tolist() == [True]


def test_a_first_fetch_that_tells_its_age_teaches_the_pool() -> None:
    model = admitted(Learned(LastModified(prior_interval=1e9)), 2)
    before = model.rates(2)[1]
    model.observe(evidence(1000, [NEVER], [False], [500]))
    assert model.rates(2)[1] > before
