"""Believed freshness against the truth: of the copies that are called fresh with p, about p are.

Entries change as Poisson processes whose rates nobody tells. What is believed of a copy after each round of refreshes
is compared with whether it changed, band by band; copies that were refreshed in the round are left out.
"""

import numpy as np
import pytest

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.view.changes import Evidence
from freshkeeper.maintenance.cache.view.learned import Learned

ENTRIES, ROUNDS, WARM_UP, STEP, MEAN = 200, 250, 60, 1000, 10_000.0
BANDS = ((0.0, 0.3), (0.3, 0.6), (0.6, 0.9), (0.9, 1.0))


def believed(seed: int, budget: int, stalest: bool) -> Floats:
    """Beliefs and truths, two rows, of a cache that refreshes the stalest entries, or entries at random."""
    rng = np.random.default_rng(seed)
    rates = np.exp(rng.normal(-0.5, 1.0, ENTRIES)) / MEAN
    model, slots = Learned(), np.arange(ENTRIES, dtype=np.int32)
    model.admit(slots, slots.tolist())
    refreshed, changed = np.zeros(ENTRIES, np.int64), np.zeros(ENTRIES, np.bool_)
    found = []
    for now in range(STEP, ROUNDS * STEP, STEP):
        changed |= rng.random(ENTRIES) < -np.expm1(-rates * STEP)
        kept = model.beliefs(np.array([now]), refreshed, False).kept[:, 0]
        picked = np.sort(np.argsort(kept)[:budget] if stalest else rng.choice(ENTRIES, budget, replace=False))
        chosen = picked.astype(np.int32)
        untold = np.full(budget, UNKNOWN)
        model.observe(Evidence(chosen, now, refreshed[chosen], changed[chosen], untold, untold))
        refreshed[chosen], changed[chosen] = now, False
        others = np.setdiff1d(slots, chosen)
        if now > WARM_UP * STEP:
            kept = model.beliefs(np.array([now]), refreshed, False).kept[:, 0]
            found.append(np.stack([kept[others], ~changed[others]]))
    return np.concatenate(found, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "stalest", "off"), [(5, False, 0.08), (20, False, 0.04), (5, True, 0.08), (20, True, 0.04)]
)
def test_what_is_believed_is_what_is_true_in_every_band(budget: int, stalest: bool, off: float) -> None:
    beliefs, truths = np.concatenate([believed(seed, budget, stalest) for seed in range(3)], axis=1)
    for low, high in BANDS:
        here = (beliefs >= low) & (beliefs < high)
        if np.count_nonzero(here) > 1000:
            claim, truth = beliefs[here].mean(), truths[here].mean()
            assert abs(claim - truth) <= off, f"{claim:.3f} was true in {truth:.3f} of {np.count_nonzero(here)}"
    assert abs(beliefs.mean() - truths.mean()) <= 0.02
