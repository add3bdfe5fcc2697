"""Sources that work by a clock: a learner that tells from change bits how regular each entry is, and where it stands.

Changes of an entry are the ends of rounds of k phases, each of which lasts exponentially long: k = 1 is Poisson, and
the greater k, the more like a clock (Erlang). For every mean interval, half an octave apart, and every k there is a
vector φ of the probabilities to be in each phase at the last fetch, times how well all checks so far are explained. In
a time τ the number of phases that pass is Poisson with the mean μ = kτ/interval, so that a check that saw

    no change   φ(j) ← Σ_i φ(i)·P(N = j − i)                        no round ended
    a change    φ(j) ← Σ_i φ(i)·(P(N ≡ j − i mod k) − P(N = j − i))  at least one did

What all entries have in common, how often each interval and each k fits, is the prior, renewed by one step of EM
whenever the checks have grown by a tenth. An entry takes 9.6 KB and a check some 40 us, so that `UNPROVEN` entries are
followed until there is evidence of clocks among them, and `FOLLOWED` at most; all others have their rates.
"""

from math import exp
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freshkeeper.maintenance.view.changes import Beliefs
from freshkeeper.maintenance.view.dumpable import Dumped
from freshkeeper.maintenance.view.rates import Checks
from freshkeeper.policies.arrays import Bools, Floats, Ids, Ints, grown

SHAPES = np.array([1, 6, 36])
FIRST = np.concatenate([[0], np.cumsum(SHAPES)])
"""where the phases of each shape begin"""
INTERVALS = 250.0 * 2.0 ** (np.arange(56) / 2.0)
"""Mean intervals between changes, in ms: a quarter of a second to a year."""
SELDOM = 1e-3
"""Hypotheses that are less likely are left out of beliefs."""
FORGOTTEN = 200.0
"""Phases after which nothing is known any more of where a round stands."""
AT_FIRST = -3.0
"""The evidence for clocks before any check: they have to show that they are better."""
UNPROVEN, FOLLOWED = 1_024, 16_384
CERTAIN = 50.0
"""More evidence than this is not added up, so that a source may change its ways."""
NOBODY = -1
FLAT = np.tile([0.5, 0.25, 0.25], (INTERVALS.size, 1)) / INTERVALS.size
"""Half the entries have no clock, and every interval is as likely."""


class Clocks(Dumped):
    """Beliefs of entries that may be regular, and the evidence that taking them for such tells checks better."""

    LEARNED: ClassVar = ("_phases", "_row", "_chance", "_period", "_prior", "_evidence", "_checks", "_fitted")

    def __init__(self) -> None:
        """Any interval is as likely as any other, and clocks as no clocks."""
        self._phases = np.zeros((0, INTERVALS.size * int(FIRST[-1])), np.float32)
        self._row = np.full(16, NOBODY, np.int64)
        self._chance, self._period = np.zeros(0), np.zeros(0)
        self._prior = FLAT
        self._evidence = np.full(2, AT_FIRST)
        self._checks = self._fitted = 0

    @property
    def weight(self) -> float:
        """How much is believed in clocks: the odds are those of having predicted the checks so far better.

        Better than the rates that are believed otherwise, and than Poisson processes known in the same way: to weigh
        many intervals against each other predicts well what never changes, and makes no clock of it.
        """
        return 1.0 / (1.0 + exp(-float(self._evidence.min())))

    def reset(self, slots: Ids) -> None:
        """Forget these slots."""
        self._rows(slots)
        self._row[slots] = NOBODY

    def observe(self, checks: Checks, rates: Floats) -> None:
        """Learn from checks, of which plain rates (one per check) are the other explanation."""
        self._follow(checks.slots[checks.tau > 0])
        rows = self._rows(checks.slots)
        real = (checks.tau > 0) & (rows >= 0)
        rows, tau, changed = rows[real], checks.tau[real].astype(np.float64), checks.changed[real]
        if not rows.size:
            return
        foretold, poisson = check_all(self._phases, rows, tau, changed, self._prior, INTERVALS, SHAPES, FIRST)
        unchanged = np.exp(-rates[real] * tau)
        others = np.stack([np.where(changed, 1.0 - unchanged, unchanged), poisson])
        better = np.log(np.maximum(foretold, 1e-6)) - np.log(np.maximum(others, 1e-6))
        self._evidence = np.clip(self._evidence + better.sum(axis=1), -CERTAIN, CERTAIN)
        self._checks += rows.size
        if self._checks >= 1.1 * self._fitted:
            self._fit()

    def beliefs(self, slots: Ints, instants: Ints, last_refresh: Ints, look_ahead: bool) -> Beliefs:
        """Of regular slots."""
        ahead = (instants - instants[0]).astype(np.float64)
        age = np.maximum(instants[0] - last_refresh, 0).astype(np.float64)
        rows = self._rows(slots)
        parts = (self._phases, rows, age, ahead, self._prior, INTERVALS, SHAPES, FIRST)
        refreshed, kept, change = believe(*parts, look_ahead)
        return Beliefs(refreshed, kept, change if look_ahead else None)

    def regular(self, slots: Ints | Ids) -> tuple[Floats, Floats]:
        """The probability that each slot works by a clock, and the period in ms that it has then; 0 where none does."""
        rows = self._rows(slots)
        here = rows >= 0
        chance, period = np.zeros(slots.size), np.zeros(slots.size)
        if self.weight >= 0.5:
            chance[here], period[here] = self._chance[rows[here]], self._period[rows[here]]
        return chance, period

    def _follow(self, slots: Ids) -> None:
        """Give rows to slots that have none, as long as there are any."""
        strangers = np.unique(slots[self._rows(slots) == NOBODY])
        most = FOLLOWED if self._evidence.min() > 0 else UNPROVEN
        held = self._row[self._row >= 0]
        if not strangers.size or held.size >= most:
            return
        width = min(most, held.size + strangers.size)
        self._phases = grown(self._phases, width, 0)
        self._chance, self._period = grown(self._chance, width, 0), grown(self._period, width, 0)
        free = np.setdiff1d(np.arange(min(most, self._phases.shape[0])), held)[: strangers.size]
        self._row[strangers[: free.size]] = free
        self._chance[free] = 0.0
        self._phases[free] = np.tile(np.repeat(1.0 / SHAPES, SHAPES), INTERVALS.size)

    def _posterior(self, rows: Ints) -> Floats:
        """How likely each interval and shape is, rows × intervals × shapes."""
        phases = self._phases[rows].reshape(rows.size, INTERVALS.size, int(FIRST[-1]))
        likely: Floats = np.add.reduceat(phases, FIRST[:-1], axis=2) * self._prior
        shares: Floats = likely / likely.sum(axis=(1, 2), keepdims=True)
        return shares

    def _fit(self) -> None:
        """One step of EM, with one entry's worth of doubt."""
        self._fitted = self._checks
        rows = self._row[self._row >= 0]
        likely = self._posterior(rows)
        self._prior = (likely.sum(axis=0) + FLAT) / (rows.size + 1.0)
        clocks = likely[:, :, 1:].sum(axis=2)
        self._chance[rows] = clocks.sum(axis=1)
        self._period[rows] = np.exp(clocks @ np.log(INTERVALS) / np.maximum(clocks.sum(axis=1), 1e-300))

    def _rows(self, slots: Ints | Ids) -> Ints:
        self._row = grown(self._row, int(slots.max(initial=-1)) + 1, NOBODY)
        rows: Ints = self._row[slots]
        return rows


@njit(cache=True, nogil=True)
def passing(mean: float, shape: int, alone: Floats, wrapped: Floats) -> None:
    """P(N = n) for n < shape, and P(N ≡ n modulo shape)."""
    if mean > FORGOTTEN:
        alone[:shape], wrapped[:shape] = 0.0, 1.0 / shape
        return
    wrapped[:shape] = 0.0
    chance, total, n, place = exp(-mean), 0.0, 0, 0
    while n < shape or (total < 1.0 - 1e-12 and n < 500):
        if n < shape:
            alone[n] = chance
        wrapped[place] += chance
        total += chance
        n += 1
        place = place + 1 if place + 1 < shape else 0
        chance *= mean / n


@njit(cache=True, nogil=True)
def follow(
    before: Floats, k: int, mean: float, changed: bool, alone: Floats, wrapped: Floats, after: Floats
) -> None:  # fmt: skip
    """The phases of one hypothesis after a check; the outer loop is the sum, so that the inner one is vectorised."""
    after[:k] = 0.0
    if mean > FORGOTTEN:
        if changed:
            for i in range(k):
                after[0] += before[i] * (1.0 / k)
            after[1:k] = after[0]
        return
    passing(mean, k, alone, wrapped)
    for i in range(k):
        if changed:
            for j in range(i):
                after[j] += before[i] * wrapped[k + j - i]
            for j in range(i, k):
                after[j] += before[i] * (wrapped[j - i] - alone[j - i])
        else:
            for j in range(i, k):
                after[j] += before[i] * alone[j - i]


@njit(cache=True, nogil=True)
def check_all(
    phases: NDArray[np.float32], rows: Ints, tau: Floats, changed: Bools, prior: Floats, intervals: Floats,
    shapes: Ints, first: Ints,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Renew the phases of each row by its check; tells how probable that was, to all shapes and to the first alone."""
    width = first[-1]
    alone, wrapped, before, after = np.empty(width), np.empty(width), np.empty(width), np.empty(intervals.size * width)
    foretold, simple = np.empty(rows.size), np.empty(rows.size)
    old, new = np.empty(shapes.size), np.empty(shapes.size)
    for c in range(rows.size):
        row = phases[rows[c]]
        old[:], new[:], greatest = 0.0, 0.0, 0.0
        for t in range(intervals.size):
            for s in range(shapes.size):
                k, at = shapes[s], t * width + first[s]
                for i in range(k):
                    before[i] = row[at + i]
                follow(before, k, k * tau[c] / intervals[t], changed[c], alone, wrapped, after[at : at + k])
                held = 0.0
                for j in range(at, at + k):
                    after[j] = max(after[j], 0.0)
                    held += after[j]
                    greatest = max(greatest, after[j])
                old[s] += prior[t, s] * before[:k].sum()
                new[s] += prior[t, s] * held
        foretold[c] = new.sum() / old.sum() if old.sum() > 0 else 1.0
        simple[c] = new[0] / old[0] if old[0] > 0 else 1.0
        if greatest > 0:
            for i in range(after.size):
                row[i] = after[i] / greatest
    return foretold, simple


@njit(cache=True, nogil=True)
def lasting(state: Floats, mean: float, k: int) -> float:
    """The probability that no round ends while so many phases pass on average."""
    if mean > FORGOTTEN:
        return 0.0
    chance, fewer, lasts = exp(-mean), 0.0, 0.0
    for n in range(k):
        fewer += chance
        lasts += state[k - 1 - n] * fewer
        chance *= mean / (n + 1)
    return lasts


@njit(cache=True, nogil=True)
def move(state: Floats, mean: float, k: int, alone: Floats, wrapped: Floats, moved: Floats) -> None:
    """The phases after a time of which nothing was seen."""
    passing(mean, k, alone, wrapped)
    for j in range(k):
        moved[j] = 0.0
        for i in range(k):
            moved[j] += state[i] * wrapped[(j - i) % k]


@njit(cache=True, nogil=True)
def weigh(row: NDArray[np.float32], prior: Floats, shapes: Ints, first: Ints, likely: Floats) -> float:
    """How likely each interval and shape is, 0 where that is seldom; the sum of what is left."""
    for t in range(likely.shape[0]):
        for s in range(shapes.size):
            at = t * first[-1] + first[s]
            likely[t, s] = prior[t, s] * row[at : at + shapes[s]].sum()
    least, total = SELDOM * likely.sum(), 0.0
    for t in range(likely.shape[0]):
        for s in range(shapes.size):
            if likely[t, s] < least:
                likely[t, s] = 0.0
            total += likely[t, s]
    return total


@njit(cache=True, nogil=True)
def believe(
    phases: NDArray[np.float32], rows: Ints, age: Floats, ahead: Floats, prior: Floats, intervals: Floats,
    shapes: Ints, first: Ints, look_ahead: bool,
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """fresh_if_refreshed, fresh_if_kept and the chance of a change per evaluation, slot × H."""
    width, horizon, most = first[-1], ahead.size, shapes.max()
    refreshed, kept = np.zeros((rows.size, horizon)), np.zeros((rows.size, horizon))
    change = np.zeros((rows.size if look_ahead else 0, horizon))
    alone, wrapped, state, now, later = np.empty(most), np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    likely = np.empty((intervals.size, shapes.size))
    for j in range(rows.size):
        row = phases[rows[j]]
        total = weigh(row, prior, shapes, first, likely)
        for t in range(intervals.size):
            for s in range(shapes.size):
                if likely[t, s] == 0:
                    continue
                k, at = shapes[s], t * width + first[s]
                for i in range(k):
                    state[i] = prior[t, s] * row[at + i] / total
                pace = k / intervals[t]
                move(state, pace * age[j], k, alone, wrapped, now)
                for m in range(horizon):
                    refreshed[j, m] += lasting(now, pace * ahead[m], k)
                    kept[j, m] += lasting(state, pace * (age[j] + ahead[m]), k)
                if look_ahead:
                    whole = now[:k].sum()
                    for m in range(1, horizon):
                        change[j, m] += whole - lasting(now, pace * (ahead[m] - ahead[m - 1]), k)
                        move(now, pace * (ahead[m] - ahead[m - 1]), k, alone, wrapped, later)
                        now, later = later, now
    return np.minimum(refreshed, 1.0), np.minimum(kept, 1.0), np.clip(change, 0.0, 1.0)
