"""Sources that work by a clock: a learner that tells from change bits how regular each entry is, and where it stands.

Changes of an entry are the ends of rounds of k phases, each of which lasts exponentially long: k = 1 is Poisson, and
the greater k, the more like a clock (Erlang). For every mean interval, half an octave apart, and every k there is a
vector φ of the probabilities to be in each phase at the last fetch, times how well all checks so far are explained. In
a time τ the number of phases that pass is Poisson with the mean μ = kτ/interval, so that a check that saw

    no change   φ(j) ← Σ_i φ(i)·P(N = j − i)                        no round ended
    a change    φ(j) ← Σ_i φ(i)·(P(N ≡ j − i mod k) − P(N = j − i))  at least one did

What all entries have in common, how often each interval and each k fits, is the prior, renewed by one step of EM
whenever the checks have grown by a tenth. An entry takes 11 KB and a check some 10 us, so that `UNPROVEN` entries are
followed until there is evidence of clocks among them, and `FOLLOWED` at most; all others have their rates.
"""

from collections.abc import Mapping
from math import exp
from typing import Any, ClassVar

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
NOTHING = 1e-18
"""Chances that are less make no difference."""
LOST = 1e-12
"""Hypotheses that are less likely are left where they are: they cost nothing, and come back if the others do worse."""
SMALL = 1e-3
"""What is left of an entry's best hypothesis when all are made greater again."""
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
        self._mass = np.zeros((0, INTERVALS.size, SHAPES.size))
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

    def load(self, learned: Mapping[str, NDArray[Any]]) -> None:
        """Know what another one learned."""
        super().load(learned)
        self._mass = np.zeros((self._phases.shape[0], INTERVALS.size, SHAPES.size))
        for row, mass in zip(self._phases, self._mass, strict=True):
            gather(row, mass, SHAPES, FIRST)

    def reset(self, slots: Ids) -> None:
        """Forget what was seen of these slots."""
        self._rows(slots)
        self._row[slots] = NOBODY

    def observe(self, checks: Checks, rates: Floats) -> None:
        """Learn from checks, of which plain rates (one per check) are the other explanation."""
        self._follow(checks.slots[checks.tau > 0])
        rows = self._rows(checks.slots)
        real = np.flatnonzero((checks.tau > 0) & (rows >= 0))
        if np.unique(rows[real]).size == real.size:  # their order does not matter, and alike ones cost less in a row
            real = real[np.argsort(checks.tau[real], kind="stable")]
        rows, tau, changed = rows[real], checks.tau[real].astype(np.float64), checks.changed[real]
        if not rows.size:
            return
        parts = (self._phases, self._mass, rows, tau, changed, self._prior, INTERVALS, SHAPES, FIRST)
        foretold, poisson = check_all(*parts)
        unchanged = np.exp(-rates[real] * tau)
        others = np.stack([np.where(changed, 1.0 - unchanged, unchanged), poisson])
        better = np.log(np.maximum(foretold, 1e-6)) - np.log(np.maximum(others, 1e-6))
        self._evidence = np.clip(self._evidence + better.sum(axis=1), -CERTAIN, CERTAIN)
        self._checks += rows.size
        if self._checks >= 1.1 * self._fitted:
            self._fit()

    def beliefs(self, slots: Ints, instants: Ints, last_refresh: Ints, look_ahead: bool) -> Beliefs:
        """Probabilities of entries that work by a clock, an average over its phases."""
        ahead = (instants - instants[0]).astype(np.float64)
        age = np.maximum(instants[0] - last_refresh, 0).astype(np.float64)
        rows = self._rows(slots)
        parts = (self._phases, self._mass, rows, age, ahead, self._prior, INTERVALS, SHAPES, FIRST)
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
        self._phases, self._mass = grown(self._phases, width, 0), grown(self._mass, width, 0)
        self._chance, self._period = grown(self._chance, width, 0), grown(self._period, width, 0)
        free = np.setdiff1d(np.arange(min(most, self._phases.shape[0])), held)[: strangers.size]
        self._row[strangers[: free.size]] = free
        self._chance[free] = 0.0
        self._phases[free] = np.tile(np.repeat(1.0 / SHAPES, SHAPES), INTERVALS.size)
        self._mass[free] = 1.0

    def _posterior(self, rows: Ints) -> Floats:
        """How likely each interval and shape is, rows × intervals × shapes."""
        likely: Floats = self._mass[rows] * self._prior
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
def lasting(mean: float, k: int, ends: Floats) -> None:
    """By phase, the probability that no round ends while so many phases pass on average."""
    ends[:k] = 0.0
    if mean > FORGOTTEN:
        return
    chance, fewer = exp(-mean), 0.0
    for n in range(k):
        fewer += chance
        ends[k - 1 - n] = fewer
        chance *= mean / (n + 1)


@njit(cache=True, nogil=True)
def steps(mean: float, k: int, quiet: Floats, ended: Floats, reach: Ints) -> None:
    """The chances that a phase moves on by d, without the end of a round and with one, in row k + d of each.

    `reach` is where those begin and end that are anything at all, of the one and the other.
    """
    passing(mean, k, quiet[k:], ended[:k])
    quiet[:k], ended[k:] = 0.0, ended[:k] - quiet[k:]
    for side in range(2):
        chances = quiet if side == 0 else ended
        low, high = 1, 2 * k
        while low < high and chances[low] < NOTHING:
            low += 1
        while high > low and chances[high - 1] < NOTHING:
            high -= 1
        reach[2 * side], reach[2 * side + 1] = low, high


@njit(cache=True, nogil=True)
def follow(row: NDArray[np.float32], k: int, chances: Floats, low: int, high: int, after: Floats) -> None:
    """The phases of one hypothesis after a check; the outer loop is the sum, so that the inner one is vectorised."""
    after[:k] = 0.0
    for i in range(k):
        before = np.float64(row[i])
        for j in range(max(0, i + low - k), min(k, i + high - k)):
            after[j] += before * chances[k + j - i]


@njit(cache=True, nogil=True)
def check_all(
    phases: NDArray[np.float32], mass: Floats, rows: Ints, tau: Floats, changed: Bools, prior: Floats,
    intervals: Floats, shapes: Ints, first: Ints,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Renew the phases of each row by its check; tells how probable that was, to all shapes and to the first alone.

    `mass` is the sum over the phases of each row, interval and shape. What passes is computed once for all checks in
    a row that have the same tau.
    """
    width = first[-1]
    quiet, ended = np.empty(2 * intervals.size * width), np.empty(2 * intervals.size * width)
    reach = np.empty((*prior.shape, 4), np.int64)
    known, done = np.zeros(prior.shape, np.bool_), np.zeros(prior.shape, np.bool_)
    foretold, simple, after = np.empty(rows.size), np.empty(rows.size), np.empty(intervals.size * width)
    old, new = np.empty(shapes.size), np.empty(shapes.size)
    for c in range(rows.size):
        row, held, chances, side = phases[rows[c]], mass[rows[c]], quiet, 0
        if changed[c]:
            chances, side = ended, 2
        if c == 0 or tau[c] != tau[c - 1]:
            known[:] = False
        old[:], new[:], done[:], weight = 0.0, 0.0, False, (prior * held).sum()
        for least in (LOST * weight, 0.0):
            for t in range(intervals.size):
                for s in range(shapes.size):
                    if done[t, s] or prior[t, s] * held[t, s] < least:
                        continue
                    k, at = shapes[s], t * width + first[s]
                    here = slice(2 * at, 2 * (at + k))
                    if not known[t, s]:
                        known[t, s] = True
                        steps(k * tau[c] / intervals[t], k, quiet[here], ended[here], reach[t, s])
                    low, high = reach[t, s, side], reach[t, s, side + 1]
                    follow(row[at : at + k], k, chances[here], low, high, after[at : at + k])
                    done[t, s] = True
                    old[s] += prior[t, s] * held[t, s]
                    new[s] += prior[t, s] * after[at : at + k].sum()
            if new.sum() > SMALL * SMALL * weight:
                break  # what is left out is still nothing beside these
        foretold[c] = new.sum() / old.sum() if old.sum() > 0 else 1.0
        simple[c] = new[0] / old[0] if old[0] > 0 else 1.0
        renew(row, held, after, done, shapes, first)
    return foretold, simple


@njit(cache=True, nogil=True)
def renew(
    row: NDArray[np.float32], held: Floats, after: Floats, done: NDArray[np.bool_], shapes: Ints, first: Ints
) -> None:
    """The phases after a check, where it was followed; all are made greater where even the best has become small."""
    best = 0.0
    for t in range(held.shape[0]):
        for s in range(shapes.size):
            at = t * first[-1] + first[s]
            best = max(best, after[at : at + shapes[s]].sum() if done[t, s] else held[t, s])
    if best <= 0.0:
        return  # nothing explains the check: it is left out
    scale = 1.0 / best if best < SMALL else 1.0
    for t in range(held.shape[0]):
        for s in range(shapes.size):
            at = t * first[-1] + first[s]
            if done[t, s] or scale != 1.0:
                held[t, s] = 0.0
                for i in range(at, at + shapes[s]):
                    row[i] = scale * (max(after[i], 0.0) if done[t, s] else row[i])
                    held[t, s] += row[i]


@njit(cache=True, nogil=True)
def gather(row: NDArray[np.float32], mass: Floats, shapes: Ints, first: Ints) -> None:
    """The sums over the phases of each interval and shape."""
    for t in range(mass.shape[0]):
        for s in range(shapes.size):
            at, mass[t, s] = t * first[-1] + first[s], 0.0
            for i in range(at, at + shapes[s]):
                mass[t, s] += row[i]


@njit(cache=True, nogil=True)
def weigh(mass: Floats, prior: Floats, likely: Floats) -> float:
    """How likely each interval and shape is, 0 where that is seldom; the sum of what is left."""
    likely[:] = mass * prior
    least, total = SELDOM * likely.sum(), 0.0
    for t in range(likely.shape[0]):
        for s in range(likely.shape[1]):
            if likely[t, s] < least:
                likely[t, s] = 0.0
            total += likely[t, s]
    return total


@njit(cache=True, nogil=True)
def outlook(pace: float, k: int, age: float, ahead: Floats, look_ahead: bool, parts: Floats) -> None:
    """What one hypothesis says of an entry of this age, by phase at its last fetch: rows of `parts`.

    Its columns are the H of fresh_if_refreshed, of fresh_if_kept, and of the chances of a change.
    """
    horizon = ahead.size
    alone, wrapped, ends, after = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    for m in range(horizon):
        lasting(pace * (age + ahead[m]), k, ends)
        parts[:k, horizon + m] = ends
    passing(pace * age, k, alone, wrapped)
    for m in range(horizon):
        lasting(pace * ahead[m], k, ends)
        turned(wrapped, ends, k, after)
        parts[:k, m] = after
    if look_ahead:
        parts[:k, 2 * horizon] = 0.0
        for m in range(1, horizon):
            passing(pace * (age + ahead[m - 1]), k, alone, wrapped)
            lasting(pace * (ahead[m] - ahead[m - 1]), k, ends)
            turned(wrapped, ends, k, after)
            parts[:k, 2 * horizon + m] = 1.0 - after


@njit(cache=True, nogil=True)
def turned(wrapped: Floats, ends: Floats, k: int, out: Floats) -> None:
    """By phase at first, `ends` of the phase after a time of which nothing was seen."""
    out[:k] = 0.0
    for passed in range(k):
        chance = wrapped[passed]
        for i in range(k - passed):
            out[i] += chance * ends[i + passed]
        for i in range(k - passed, k):
            out[i] += chance * ends[i + passed - k]


@njit(cache=True, nogil=True)
def believe(
    phases: NDArray[np.float32], mass: Floats, rows: Ints, age: Floats, ahead: Floats, prior: Floats,
    intervals: Floats, shapes: Ints, first: Ints, look_ahead: bool,
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """fresh_if_refreshed, fresh_if_kept and the chance of a change per evaluation, slot × H.

    All three are sums over the phases at the last fetch; what they are multiplied with is computed once for all entries
    of one age.
    """
    width, horizon = first[-1], ahead.size
    columns = horizon * (3 if look_ahead else 2)
    told = np.zeros((rows.size, columns))
    parts = np.empty((intervals.size * width, columns))
    known = np.zeros((intervals.size, shapes.size), np.bool_)
    likely = np.empty((intervals.size, shapes.size))
    order = np.argsort(age)
    for n in range(rows.size):
        j = order[n]
        if n > 0 and age[j] != age[order[n - 1]]:
            known[:] = False
        row, sums = phases[rows[j]], told[j]
        total = weigh(mass[rows[j]], prior, likely)
        for t in range(intervals.size):
            for s in range(shapes.size):
                if likely[t, s] == 0:
                    continue
                k, at = shapes[s], t * width + first[s]
                if not known[t, s]:
                    known[t, s] = True
                    outlook(k / intervals[t], k, age[j], ahead, look_ahead, parts[at : at + k])
                share = prior[t, s] / total
                for i in range(at, at + k):
                    state = share * row[i]
                    for c in range(columns):
                        sums[c] += state * parts[i, c]
    told = np.clip(told, 0.0, 1.0)
    return told[:, :horizon], told[:, horizon : 2 * horizon], told[:, 2 * horizon :]
