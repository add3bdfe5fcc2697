"""Means, intervals and pairs, worked by hand; t(1) = 12.706, t(2) = 4.303."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from freshkeeper.maintenance.base.stats import estimate, paired, shared_seeds, unpaired


def test_a_mean_of_two_seeds_has_the_interval_of_one_degree_of_freedom() -> None:
    found = estimate(np.array([0.4, 0.6]))
    assert found.mean == pytest.approx(0.5)
    assert found.half == pytest.approx(12.7062 * 0.1, rel=1e-4)
    assert found.low == pytest.approx(0.5 - found.half)
    assert found.high == pytest.approx(0.5 + found.half)


def test_one_seed_has_a_mean_and_no_interval() -> None:
    found = estimate(np.array([0.4]))
    assert found.low == found.high == found.mean == 0.4
    assert np.isnan(found.half)
    assert not found.sure


def test_seeds_without_a_value_do_not_count() -> None:
    assert estimate(np.array([0.4, np.nan, 0.6])).seeds == 2
    assert np.isnan(estimate(np.array([np.nan])).mean)


def test_pairs_see_what_means_do_not() -> None:
    ours, theirs = np.array([0.2, 0.5, 0.8]), np.array([0.1, 0.4, 0.7])
    assert paired(ours, theirs).sure
    assert not unpaired(ours, theirs).sure


def test_seeds_are_matched_by_number() -> None:
    in_a, in_b = shared_seeds(np.array([3, 1, 2]), np.array([2, 5, 3]))
    assert (in_a.tolist(), in_b.tolist()) == ([2, 0], [0, 2])


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9), st.lists(st.floats(0, 1), min_size=2, max_size=9))
def test_unpaired_intervals_are_welchs(ours: list[float], theirs: list[float]) -> None:
    a, b = np.array(ours), np.array(theirs)
    found = unpaired(a, b)
    if np.ptp(a) > 1e-3 and np.ptp(b) > 1e-3:
        wanted = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
        assert found.low == pytest.approx(wanted.low)
        assert found.high == pytest.approx(wanted.high)
