"""Expiries and last-modified times that a source publishes."""

from math import exp

import numpy as np
import pytest

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.view.changes import Evidence
from freshkeeper.maintenance.cache.view.published import Published
from freshkeeper.maintenance.cache.view.rates import LastModified
from freshkeeper.policies.base import NEVER


def ints(*values: int) -> Ints:
    """Times as the models take them."""
    return np.array(values, np.int64)


def fetched(
    model: Published,
    now: int,
    previous: int = NEVER,
    changed: bool = False,
    modified: int = UNKNOWN,
    expires: int = UNKNOWN,
    slot: int = 0,
) -> Published:
    """The model after one fetch."""
    model.observe(
        Evidence(np.array([slot], np.int32), now, ints(previous), np.array([changed]), ints(modified), ints(expires))
    )
    return model


def admitted(model: Published, slots: int = 1) -> Published:
    """The model with so many slots."""
    model.admit(np.arange(slots, dtype=np.int32), list(range(slots)))
    return model


def test_a_copy_is_fresh_before_it_expires_and_not_at_the_instant() -> None:
    model = fetched(admitted(Published()), now=100, modified=40, expires=190)
    beliefs = model.beliefs(ints(100, 130, 160, 190, 220), ints(100), look_ahead=False)
    assert beliefs.kept.tolist() == [[1, 1, 1, 0, 0]]


def test_a_refresh_before_the_expiry_brings_the_same_copy() -> None:
    model = fetched(admitted(Published()), now=100, modified=40, expires=190)
    beliefs = model.beliefs(ints(130, 160, 190), ints(100), look_ahead=False)
    assert beliefs.refreshed.tolist() == beliefs.kept.tolist() == [[1, 1, 0]]


def test_a_periodic_source_goes_on_with_its_interval() -> None:
    """Modified 40, expires 190: the interval is 150, so at 500 the copy expired and the next one holds until 640."""
    model = fetched(admitted(Published(periodic=True)), now=100, modified=40, expires=190)
    beliefs = model.beliefs(ints(500, 600, 640, 700, 800), ints(100), look_ahead=True)
    assert beliefs.kept.tolist() == [[0, 0, 0, 0, 0]]
    assert beliefs.refreshed.tolist() == [[1, 1, 0, 0, 0]]
    assert beliefs.change is not None
    assert beliefs.change.tolist() == [[0, 0, 1, 0, 1]]


def test_at_the_very_expiry_the_next_copy_is_there() -> None:
    model = fetched(admitted(Published(periodic=True)), now=100, modified=40, expires=190)
    beliefs = model.beliefs(ints(190, 339, 340), ints(100), look_ahead=False)
    assert beliefs.refreshed.tolist() == [[1, 1, 0]]
    assert beliefs.kept.tolist() == [[0, 0, 0]]


def test_other_sources_go_on_with_the_mean_validity() -> None:
    """Validities 150 and 50, and the mean of both added as one more: (200 + 100)/3 = 100."""
    model = fetched(admitted(Published()), now=100, modified=40, expires=190)
    fetched(model, now=200, previous=100, changed=True, modified=190, expires=240)
    beliefs = model.beliefs(ints(300, 350), ints(200), look_ahead=True)
    assert beliefs.kept.tolist() == [[0, 0]]
    assert beliefs.refreshed[0].tolist() == pytest.approx([1, exp(-0.5)])
    assert beliefs.change is not None
    assert beliefs.change[0].tolist() == pytest.approx([0, 1 - exp(-0.5)])


def test_the_same_copy_seen_again_counts_once() -> None:
    model = fetched(admitted(Published()), now=100, modified=40, expires=190)
    fetched(model, now=120, previous=100, modified=40, expires=190)
    fetched(model, now=200, previous=120, changed=True, modified=190, expires=240)
    assert model.beliefs(ints(300, 350), ints(200), look_ahead=False).refreshed[0, 1] == pytest.approx(exp(-0.5))


def test_change_is_certain_around_the_expiry() -> None:
    model = fetched(admitted(Published()), now=100, modified=40, expires=190)
    changes = model.beliefs(ints(100, 150, 190, 230), ints(100), look_ahead=True).change
    assert changes is not None
    change = changes[0]
    assert change[:3].tolist() == [0, 0, 1]
    assert change[3] == pytest.approx(1 - exp(-40 / 150))


def test_a_copy_that_was_expired_when_it_came_tells_nothing() -> None:
    model = fetched(admitted(Published()), now=100, modified=40, expires=100)
    assert model.beliefs(ints(100, 101), ints(100), look_ahead=False).kept[0, 0] == 1


def test_dates_in_the_wrong_order_make_no_interval() -> None:
    model = fetched(admitted(Published(periodic=True)), now=100, modified=250, expires=190)
    beliefs = model.beliefs(ints(200, 300), ints(100), look_ahead=False)
    assert beliefs.refreshed[0, 0] == 1
    assert 0 < beliefs.refreshed[0, 1] < 1


def test_a_copy_without_expiry_replaces_one_that_had_one() -> None:
    model = fetched(admitted(Published()), now=100, modified=40, expires=190)
    fetched(model, now=200, previous=100, changed=True, modified=195)
    assert 0 < model.beliefs(ints(1000), ints(200), look_ahead=False).kept[0, 0] < 1


def test_the_last_modified_rate_decides() -> None:
    model = admitted(Published(estimator=LastModified(prior_interval=1000)))
    assert model.beliefs(ints(0, 500), ints(0), look_ahead=False).refreshed[0, 1] == pytest.approx(exp(-0.5))


def test_a_version_that_is_old_is_believed_to_stay() -> None:
    model = admitted(Published(), 2)
    fetched(model, now=10_000_000, modified=1)
    fetched(model, now=10_000_000, modified=9_999_000, slot=1)
    kept = model.beliefs(ints(10_001_000), ints(10_000_000, 10_000_000), look_ahead=False).kept[:, 0]
    assert kept[0] > kept[1]


def test_each_slot_goes_its_own_way() -> None:
    model = admitted(Published(), 3)
    fetched(model, now=100, modified=40, expires=190)
    fetched(model, now=100, modified=40, slot=1)
    kept = model.beliefs(ints(150, 200), ints(100, 100, NEVER), look_ahead=False).kept
    assert kept[0].tolist() == [1, 0]
    assert 0 < kept[1, 1] < kept[1, 0] < 1
    assert kept[2].tolist() == [0, 0]


def test_an_evicted_slot_forgets_its_expiry() -> None:
    model = fetched(admitted(Published(periodic=True)), now=100, modified=40, expires=190)
    model.evict(np.array([0], np.int32))
    assert model.beliefs(ints(1000), ints(900), look_ahead=False).kept[0, 0] > 0
