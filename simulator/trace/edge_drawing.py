"""Drawing distinct edges between SNs and SRs, vectorised and exact at any skew of the degrees."""

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.simulator.trace.trace import Edges


def draw_edges(rng: np.random.Generator, sns: int, srs: int, count: int, skew: float) -> Edges:
    """`count` distinct edges, each SR drawn by its Zipf weight; exact at any skew."""
    weight = rng.permutation(np.arange(1, srs + 1, dtype=np.float64) ** -skew)
    keys = _neighbours(rng, _degrees(rng, weight, sns, count), sns)
    keys = np.sort(keys % sns * srs + keys // sns)
    return Edges((keys // srs).astype(np.int32), (keys % srs).astype(np.int32))


def own_edges(sns: int, srs: int) -> Edges:
    """Return edges that give each SN the same number of SRs of its own."""
    sr = np.arange(srs, dtype=np.int32)
    return Edges(sr // (srs // sns), sr)


def _degrees(rng: np.random.Generator, weight: Floats, sns: int, count: int) -> Ints:
    """Draw the degree of each SR: `count` distinct pairs are drawn one after the other, by the weight of their SR.

    Drawing without replacement is a race: a pair arrives after Exp(weight), the first `count` win. So only what arrives
    by a time at which a few too many have arrived needs to be drawn, whatever the skew.
    """
    enough = min(count + 6 * np.sqrt(count) + 10, float(sns) * weight.size)
    share = _share_arrived(weight, enough / sns)
    while (arrived := rng.binomial(sns, share)).sum() < count:
        share = np.ones_like(share)
    sr = np.repeat(np.arange(weight.size), arrived)
    time = -np.log1p(-rng.random(sr.size) * share[sr]) / weight[sr]
    return np.bincount(sr[np.argpartition(time, count - 1)[:count]], minlength=weight.size)


def _share_arrived(weight: Floats, wanted: float) -> Floats:
    """1 − exp(−weight·t) for the t at which these sum up to `wanted`; Newton's steps climb the concave sum."""
    if wanted >= weight.size:
        return np.ones_like(weight)
    t = 0.0
    share = np.zeros_like(weight)
    while (missing := wanted - share.sum()) > 1e-3 * wanted:
        t += missing / (weight * (1 - share)).sum()
        share = -np.expm1(-weight * t)
    return share


def _neighbours(rng: np.random.Generator, degree: Ints, sns: int) -> Ints:
    """Draw `degree` distinct SNs per SR, as keys sr·sns + sn; beyond half of them, draw those to leave out."""
    mostly = degree > sns // 2
    drawn = np.where(mostly, sns - degree, degree)
    keys = np.empty(0, np.int64)
    missing = drawn
    while missing.any():
        sr = np.repeat(np.arange(degree.size), missing)
        keys = np.unique(np.concatenate([keys, sr * sns + rng.integers(sns, size=sr.size)]))
        missing = drawn - np.bincount(keys // sns, minlength=degree.size)
    every = (np.flatnonzero(mostly)[:, None] * sns + np.arange(sns)).ravel()
    return np.setxor1d(keys, every, assume_unique=True)
