"""Sources that work by a clock: a learner that tells from change bits how regular each entry is, and where it stands.

Changes of an entry are the ends of rounds of k phases, each of which lasts exponentially long: k = 1 is Poisson, and
the greater k, the more like a clock (Erlang). For every mean interval, half an octave apart, and every k there is a
vector φ of the probabilities to be in each phase at the last fetch, times how well all checks so far are explained. In
a time τ the number of phases that pass is Poisson with the mean μ = kτ/interval, so that a check that saw

    no change   φ(j) ← Σ_i φ(i)·P(N = j − i)                        no round ended
    a change    φ(j) ← Σ_i φ(i)·(P(N ≡ j − i mod k) − P(N = j − i))  at least one did

What all entries have in common, how often each interval and each k fits, is the prior, renewed by one step of EM
whenever the checks have grown by a tenth. An entry takes 11 KB and a check some 8 us, so that `UNPROVEN` entries are
followed until there is evidence of clocks among them, and `FOLLOWED` at most; all others have their rates.

Loops go six phases at a time, over slices: compilers make vectors of such, and of indices that may be negative none.
"""

from collections.abc import Mapping
from math import exp
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints, grown
from freshkeeper.maintenance.base.compiled import njit
from freshkeeper.maintenance.cache.view.changes import Beliefs
from freshkeeper.maintenance.cache.view.dumpable import Dumped
from freshkeeper.maintenance.cache.view.rates import Checks

SHAPES = np.array([1, 6, 36])
FIRST = np.concatenate([[0], np.cumsum(SHAPES)])
"""where the phases of each shape begin"""
INTERVALS = 250.0 * 2.0 ** (np.arange(56) / 2.0)
"""Mean intervals between changes, in ms: a quarter of a second to a year."""
MIN_LIKELIHOOD = 1e-3
"""Hypotheses that are less likely are left out of beliefs."""
FORGOTTEN = 200.0
"""Phases after which nothing is known any more of where a round stands."""
NEGLIGIBLE_CHANCE = 1e-18
"""Chances that are less make no difference."""
TOGETHER = 6
"""Phases that are computed at a time: enough for a sum to be worth a load and a store."""
AGES, LARGEST = 64, 1 << 24
"""Ages of which is kept what clocks say, and bytes that this may take; for longer horizons it is fewer ages."""
MIN_POSTERIOR = 1e-12
"""Hypotheses that are less likely are left where they are: they cost nothing, and come back if the others do worse."""
SMALL = 1e-3
"""What is left of an entry's best hypothesis when all are made greater again."""
AT_FIRST = -3.0
"""The evidence for clocks before any check: they have to show that they are better."""
UNPROVEN, FOLLOWED = 1_024, 16_384
CERTAIN = 50.0
"""More evidence than this is not added up, so that a source may change its ways."""
NO_ROW = -1
FLAT = np.tile([0.5, 0.25, 0.25], (INTERVALS.size, 1)) / INTERVALS.size
"""Half the entries have no clock, and every interval is as likely."""


class Clocks(Dumped):
    """Beliefs of entries that may be regular, and the evidence that taking them for such tells checks better."""

    LEARNED: ClassVar = ("_phases", "_row", "_chance", "_period", "_prior", "_evidence", "_checks", "_fitted")

    def __init__(self) -> None:
        """Any interval is as likely as any other, and clocks as no clocks."""
        self._phases = np.zeros((0, INTERVALS.size * int(FIRST[-1])), np.float32)
        self._mass = np.zeros((0, INTERVALS.size, SHAPES.size))
        self._row = np.full(16, NO_ROW, np.int64)
        self._chance, self._period = np.zeros(0), np.zeros(0)
        self._prior = FLAT
        self._evidence = np.full(2, AT_FIRST)
        self._checks = self._fitted = 0
        self._outlooks: dict[tuple[bool, int], Outlooks] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again, and room that is not in use."""
        used = int(self._row.max(initial=NO_ROW)) + 1
        rows = {name: self.__dict__[name][:used] for name in ("_phases", "_chance", "_period")}
        return self.__dict__ | rows | {"_mass": None, "_outlooks": {}, "_lock": None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore the arrays, and compute the sums over phases."""
        self.__dict__.update(state, _lock=Lock())
        self._weigh_phases()

    @property
    def weight(self) -> float:
        """The weight of clocks: the odds are those of having predicted the checks so far better.

        Better than the rates that are believed otherwise, and than Poisson processes known in the same way: to weigh
        many intervals against each other predicts well what never changes, and makes no clock of it.
        """
        return 1.0 / (1.0 + exp(-float(self._evidence.min())))

    def load(self, learned: Mapping[str, NDArray[Any]]) -> None:
        """Know what another one learned."""
        super().load(learned)
        self._weigh_phases()

    def reset(self, slots: Ids) -> None:
        """Forget what was seen of these slots."""
        self._rows(slots)
        self._row[slots] = NO_ROW

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
        ages, age = np.unique(np.maximum(instants[0] - last_refresh, 0).astype(np.float64), return_inverse=True)
        with self._lock:  # what is kept is written while it is read
            known = self._outlooks.get((look_ahead, ahead.size))
            if known is None or not np.array_equal(known.ahead, ahead):
                known = self._outlooks[look_ahead, ahead.size] = Outlooks(ahead, look_ahead)
            told, most = np.zeros((slots.size, known.columns), np.float32), known.ages.size
            for few in range(0, ages.size, most):
                own = np.flatnonzero((age >= few) & (age < few + most))
                own = own[np.argsort(age[own], kind="stable")]
                place = known.place(ages[few : few + most])[age[own] - few]
                average_outlooks(
                    self._phases, self._mass, self._rows(slots[own]), own, place, known.ages, ahead, self._prior,
                    INTERVALS, SHAPES, FIRST, look_ahead, *known.tables, told,
                )  # fmt: skip
        refreshed, kept, *change = np.split(np.clip(told.astype(np.float64), 0.0, 1.0), 3 if look_ahead else 2, axis=1)
        return Beliefs(refreshed, kept, change[0] if look_ahead else None)

    def regular(self, slots: Ints | Ids) -> tuple[Floats, Floats]:
        """Return the probability that each slot changes by a clock, and its period in ms then; 0 where none does."""
        rows = self._rows(slots)
        here = rows >= 0
        chance, period = np.zeros(slots.size), np.zeros(slots.size)
        if self.weight >= 0.5:
            chance[here], period[here] = self._chance[rows[here]], self._period[rows[here]]
        return chance, period

    def _follow(self, slots: Ids) -> None:
        """Give rows to slots that have none, as long as there are any."""
        strangers = np.unique(slots[self._rows(slots) == NO_ROW])
        most = FOLLOWED if self._evidence.min() > 0 else UNPROVEN
        held = self._row[self._row >= 0]
        if not strangers.size or held.size >= most:
            return
        width = min(most, held.size + strangers.size)
        self._phases, self._mass = grown(self._phases, width, 0), grown(self._mass, width, 0)
        self._chance, self._period = grown(self._chance, width, 0), grown(self._period, width, 0)
        empty = np.ones(self._phases.shape[0], bool)
        empty[held] = False
        free = np.flatnonzero(empty[:most])[: strangers.size]
        self._row[strangers[: free.size]] = free
        self._chance[free] = 0.0
        self._phases[free] = np.tile(np.repeat(1.0 / SHAPES, SHAPES), INTERVALS.size)
        self._mass[free] = 1.0

    def _weigh_phases(self) -> None:
        self._mass = np.zeros((self._phases.shape[0], INTERVALS.size, SHAPES.size))
        for row, mass in zip(self._phases, self._mass, strict=True):
            gather(row, mass, SHAPES, FIRST)

    def _posterior(self, rows: Ints) -> Floats:
        """Return how likely each interval and shape is, rows × intervals × shapes."""
        likely: Floats = self._mass[rows] * self._prior
        shares: Floats = likely / likely.sum(axis=(1, 2), keepdims=True)
        return shares

    def _fit(self) -> None:
        """Renew the prior by one step of EM, with one entry's worth of doubt."""
        self._fitted = self._checks
        rows = self._row[self._row >= 0]
        likely = self._posterior(rows)
        self._prior = (likely.sum(axis=0) + FLAT) / (rows.size + 1.0)
        clocks = likely[:, :, 1:].sum(axis=2)
        self._chance[rows] = clocks.sum(axis=1)
        self._period[rows] = np.exp(clocks @ np.log(INTERVALS) / np.maximum(clocks.sum(axis=1), 1e-300))

    def _rows(self, slots: Ints | Ids) -> Ints:
        self._row = grown(self._row, int(slots.max(initial=-1)) + 1, NO_ROW)
        rows: Ints = self._row[slots]
        return rows


class Outlooks:
    """A table of what each hypothesis says of entries of some ages, by phase."""

    def __init__(self, ahead: Floats, look_ahead: bool) -> None:
        """Make room for evaluations so far ahead."""
        self.ahead, self.columns = ahead, ahead.size * (3 if look_ahead else 2)
        states = INTERVALS.size * int(FIRST[-1])
        most = max(1, min(AGES, LARGEST // (4 * states * self.columns)))
        self.ages = np.full(most, -1.0)
        self.tables = np.zeros((most, states, self.columns), np.float32), np.zeros((most, *FLAT.shape), np.bool_)

    def place(self, ages: Floats) -> Ints:
        """Return where these ages are, at most as many as there is room for; new ones replace others."""
        new = np.setdiff1d(ages, self.ages)
        free = np.flatnonzero(~np.isin(self.ages, ages))[: new.size]
        self.ages[free] = new
        self.tables[1][free] = False
        order = np.argsort(self.ages)
        place: Ints = order[np.searchsorted(self.ages, ages, sorter=order)]
        return place


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
    """Compute, by phase, the probability that no round ends while so many phases pass on average."""
    ends[:k] = 0.0
    if mean > FORGOTTEN:
        return
    chance, fewer = exp(-mean), 0.0
    for n in range(k):
        fewer += chance
        ends[k - 1 - n] = fewer
        chance *= mean / (n + 1)


@njit(cache=True, nogil=True)
def steps(mean: float, k: int, quiet: Floats, ended: Floats) -> int:
    """Compute the chances that a phase moves on by d, without the end of a round and with one, in row k + d of each.

    Tells how many phases pass at most, or k where it may be more.
    """
    passing(mean, k, quiet[k:], ended[:k])
    for n in range(k):
        quiet[n], ended[k + n] = 0.0, ended[n] - quiet[k + n]
    most = k
    while mean < k and most > 0 and quiet[k + most - 1] < NEGLIGIBLE_CHANCE:
        most -= 1
    return most


@njit(cache=True, nogil=True)
def follow(
    row: NDArray[np.float32], at: int, k: int, chances: Floats, most: int, changed: bool, after: Floats
) -> float:  # fmt: skip
    """Move the k phases from `at` on after a check, after[j] = Σ_i row[i]·chances[k + j − i], and sum them."""
    here, whole = 2 * at + k, k // TOGETHER * TOGETHER
    after[at : at + k] = 0.0
    for i in range(0, whole, TOGETHER):
        n = at + i
        a, b, c, d, e, f = row[n], row[n + 1], row[n + 2], row[n + 3], row[n + 4], row[n + 5]
        low, high = i, min(k, i + TOGETHER + most)  # within a round phases only grow
        if changed:  # after its end they are fewer, where no more than a round passes
            low, high = 0, k if most == k else max(0, i + TOGETHER + most - k)
        m, n = here - i + low, high - low
        pa, pb, pc = chances[m : m + n], chances[m - 1 : m - 1 + n], chances[m - 2 : m - 2 + n]
        pd, pe, pf = chances[m - 3 : m - 3 + n], chances[m - 4 : m - 4 + n], chances[m - 5 : m - 5 + n]
        told = after[at + low : at + high]
        for j in range(n):
            told[j] += a * pa[j] + b * pb[j] + c * pc[j] + d * pd[j] + e * pe[j] + f * pf[j]
    for i in range(whole, k):
        for j in range(k):
            after[at + j] += row[at + i] * chances[here + j - i]
    total = 0.0
    for j in range(at, at + k):
        after[j] = max(after[j], 0.0)
        total += after[j]
    return total


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
    most = np.empty(prior.shape, np.int64)
    known, done = np.zeros(prior.shape, np.bool_), np.zeros(prior.shape, np.bool_)
    foretold, simple, after = np.empty(rows.size), np.empty(rows.size), np.empty(intervals.size * width)
    old, new, left = np.empty(shapes.size), np.empty(shapes.size), np.empty(prior.shape)
    for c in range(rows.size):
        row, held, chances = phases[rows[c]], mass[rows[c]], ended if changed[c] else quiet
        if c == 0 or tau[c] != tau[c - 1]:
            known[:] = False
        old[:], new[:], done[:], weight = 0.0, 0.0, False, 0.0
        for t in range(intervals.size):
            for s in range(shapes.size):
                left[t, s] = held[t, s]
                weight += prior[t, s] * held[t, s]
        for least in (MIN_POSTERIOR * weight, 0.0):
            for t in range(intervals.size):
                for s in range(shapes.size):
                    if done[t, s] or prior[t, s] * held[t, s] < least:
                        continue
                    k, at = shapes[s], t * width + first[s]
                    if not known[t, s]:
                        here, known[t, s] = slice(2 * at, 2 * (at + k)), True
                        most[t, s] = steps(k * tau[c] / intervals[t], k, quiet[here], ended[here])
                    left[t, s] = follow(row, at, k, chances, most[t, s], changed[c], after)
                    done[t, s] = True
                    old[s] += prior[t, s] * held[t, s]
                    new[s] += prior[t, s] * left[t, s]
            if new.sum() > SMALL * SMALL * weight:
                break  # what is left out is still nothing beside these
        foretold[c] = new.sum() / old.sum() if old.sum() > 0 else 1.0
        simple[c] = new[0] / old[0] if old[0] > 0 else 1.0
        renew(row, held, after, left, done, shapes, first)
    return foretold, simple


@njit(cache=True, nogil=True)
def renew(
    row: NDArray[np.float32], held: Floats, after: Floats, left: Floats, done: NDArray[np.bool_], shapes: Ints,
    first: Ints,
) -> None:  # fmt: skip
    """Store the phases after a check; scale all up where even the best has become small."""
    best = left.max()
    if best <= 0.0:
        return  # nothing explains the check: it is left out
    scale = 1.0 / best if best < SMALL else 1.0
    for t in range(held.shape[0]):
        for s in range(shapes.size):
            at = t * first[-1] + first[s]
            own, told = row[at : at + shapes[s]], after[at : at + shapes[s]]
            if not done[t, s] and scale == 1.0:
                continue
            held[t, s] = 0.0
            for i in range(shapes[s]):
                own[i] = scale * (told[i] if done[t, s] else own[i])
                held[t, s] += own[i]


@njit(cache=True, nogil=True)
def gather(row: NDArray[np.float32], mass: Floats, shapes: Ints, first: Ints) -> None:
    """Sum the phases of each interval and shape."""
    for t in range(mass.shape[0]):
        for s in range(shapes.size):
            at, mass[t, s] = t * first[-1] + first[s], 0.0
            for i in range(at, at + shapes[s]):
                mass[t, s] += row[i]


@njit(cache=True, nogil=True)
def weigh(mass: Floats, prior: Floats, likely: Floats) -> float:
    """Compute how likely each interval and shape is, 0 where that is unlikely; return the sum of what is left."""
    whole, total = 0.0, 0.0
    for t in range(likely.shape[0]):
        for s in range(likely.shape[1]):
            likely[t, s] = mass[t, s] * prior[t, s]
            whole += likely[t, s]
    for t in range(likely.shape[0]):
        for s in range(likely.shape[1]):
            likely[t, s] = likely[t, s] if likely[t, s] >= MIN_LIKELIHOOD * whole else 0.0
            total += likely[t, s]
    return total


@njit(cache=True, nogil=True)
def outlook(pace: float, k: int, age: float, ahead: Floats, look_ahead: bool, parts: NDArray[np.float32]) -> None:
    """Compute what one hypothesis says of an entry of this age, by phase at its last fetch: rows of `parts`.

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
    """Average `ends` over the phases after a time of which nothing was seen, by phase at first."""
    out[:k] = 0.0
    for passed in range(k):
        chance = wrapped[passed]
        for i in range(k - passed):
            out[i] += chance * ends[i + passed]
        for i in range(k - passed, k):
            out[i] += chance * ends[i + passed - k]


@njit(cache=True, nogil=True)
def add_up(
    share: np.float32, row: NDArray[np.float32], at: int, k: int, parts: NDArray[np.float32], age: int,
    told: NDArray[np.float32], own: int,
) -> None:  # fmt: skip
    """told[own, n] += share·Σ_i row[i]·parts[age, i, n], over the k phases from `at` on."""
    one, six, start, end = np.uint64(1), np.uint64(TOGETHER), np.uint64(at), np.uint64(at + k)
    whole, width, of, j = end - (end - start) % six, np.uint64(told.shape[1]), np.uint64(age), np.uint64(own)
    for i in range(start, whole, six):
        i1, i2, i3, i4, i5 = i + one, i + one + one, i + six - one - one - one, i + six - one - one, i + six - one
        a, b, c = share * row[i], share * row[i1], share * row[i2]
        d, e, f = share * row[i3], share * row[i4], share * row[i5]
        for n in range(width):
            told[j, n] += (
                a * parts[of, i, n] + b * parts[of, i1, n] + c * parts[of, i2, n]
                + d * parts[of, i3, n] + e * parts[of, i4, n] + f * parts[of, i5, n]
            )  # fmt: skip
    for i in range(whole, end):
        a = share * row[i]
        for n in range(width):
            told[j, n] += a * parts[of, i, n]


@njit(cache=True, nogil=True)
def average_outlooks(
    phases: NDArray[np.float32], mass: Floats, rows: Ints, own: Ints, place: Ints, ages: Floats, ahead: Floats,
    prior: Floats, intervals: Floats, shapes: Ints, first: Ints, look_ahead: bool,
    parts: NDArray[np.float32], known: NDArray[np.bool_], told: NDArray[np.float32],
) -> None:  # fmt: skip
    """fresh_if_refreshed, fresh_if_kept and the chance of a change per evaluation, added to rows `own` of `told`.

    All three are sums over the phases at the last fetch; what they are multiplied with, `parts`, is computed once for
    all entries of one age, which is at `place`.
    """
    width, likely = first[-1], np.empty(prior.shape)
    for n in range(rows.size):
        age, row = place[n], phases[rows[n]]
        total = weigh(mass[rows[n]], prior, likely)
        for t in range(intervals.size):
            for s in range(shapes.size):
                if likely[t, s] == 0:
                    continue
                k, at = shapes[s], t * width + first[s]
                if not known[age, t, s]:
                    known[age, t, s] = True
                    outlook(k / intervals[t], k, ages[age], ahead, look_ahead, parts[age, at : at + k])
                add_up(np.float32(prior[t, s] / total), row, at, k, parts, age, told, own[n])
