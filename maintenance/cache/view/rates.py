"""Change rates learned from checks at irregular times; arrays by slot alone, no view.

A *check* is a fetch of an SR of which a copy was held: it tells whether the SR changed in the time τ in between.
Under a Poisson process of rate λ the likelihood of the checks of an SR is greatest where

    Σ_changed τ/(e^{λτ} − 1) = Σ_unchanged τ                                                    (*)

To both sides one pseudo-interval of each kind is added, of the length τ0 = ln 2/λ̄, where λ̄ is the rate of all SRs
pooled: τ0 alone solves (*) at λ̄, so an SR without checks has λ̄, and the first checks draw it away by degrees. The pool
gets a pseudo-interval of each kind as well, as long as the mean check: a first guess that was far off leaves no trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints, grown
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.cache.view.dumpable import Dumped

PRIOR_INTERVAL = 60_000.0
"""The mean time between changes, in ms, that is believed before any check."""

HALF = log(2.0)
STEEP = 500.0
"""e^x is cut off here: what it divides is nothing already, and it must not overflow."""
TOLERANCE = 1e-3
"""The last Newton step is shorter than this share; as Newton squares its error, some 1e-6 is what remains."""
STEPS = 60
BLOCK = 4096
"""How many slots are solved at a time, to bound the memory that takes."""

Scalar = TypeVar("Scalar", bound=np.generic)


def span(slots: Ids) -> int:
    """Return how many rows a column needs for these slots."""
    return int(slots.max(initial=-1)) + 1


def reaching(last_refresh: Ints, slots: Ints | None) -> tuple[int, Ints | None]:
    """Return how many slots there must be for these to be among them, and which are meant; None for all."""
    return (last_refresh.size, None) if slots is None else (int(slots[-1]) + 1 if slots.size else 0, slots)


def paired(slots: Ids, keys: Sequence[object]) -> None:
    """Refuse slots that come without a key each."""
    if len(slots) != len(keys):
        raise InputError(f"{len(slots)} slots were admitted with {len(keys)} keys; give one key for each slot")


@dataclass(frozen=True, eq=False)
class Checks:
    """The outcome of fetches for learning, one row per slot."""

    slots: Ids
    tau: Ints
    """how long ago the replaced copy had been fetched, in ms; 0 where there was none"""
    changed: Bools
    age: Ints
    """how long ago the last change was, in ms, or −1 where the source does not tell"""


class Estimator(Protocol):
    """Turns checks into change rates per ms."""

    @property
    def pooled(self) -> float:
        """λ̄, the rate of all SRs together."""

    def rates(self, slots: int, which: Ints | None = None) -> Floats:
        """Return the rates of the first `slots`, or of some of them."""

    def reset(self, slots: Ids) -> None:
        """Forget the checks of these slots; what they taught of all others stays."""

    def observe(self, checks: Checks) -> None:
        """Learn from what fetches told of changes."""


def solve(counts: Floats, taus: Floats, unchanged: Floats, start: Floats) -> Floats:
    """Solve Σ_b n_b·τ_b/(e^{λτ_b} − 1) = U for each row, by Newton from `start` on the logarithm of the left.

    That logarithm is convex and falls with λ (each term is log-convex, and so is their sum), so a step never passes
    the root from the left, and one from the right lands left of it or, cut at a tenth, comes ten times nearer. The
    smallest e^{−λτ} is taken out of the sum, so that no rate is too great. An empty bin bears the τ of a full one.
    """
    shortest = taus.min(axis=1)
    rate = start
    for _ in range(STEPS):
        pull = taus / -np.expm1(-rate[:, None] * taus)
        terms = counts * pull * np.exp(-rate[:, None] * (taus - shortest[:, None]))
        total = terms.sum(axis=1)
        slope = (terms * pull).sum(axis=1) / total
        moved = np.maximum(rate + (np.log(total / unchanged) - rate * shortest) / slope, rate / 10.0)
        settled = bool((np.abs(moved - rate) <= TOLERANCE * rate).all())
        rate = moved
        if settled:
            break
    return rate


class ChangeBits(Dumped):
    """Maximum likelihood from changed-or-not bits, online: O(bins) per refresh and per slot, however many checks.

    Per slot it keeps the sum U of unchanged intervals, and in each bin b the count n_b and the sum of the changed ones,
    so their mean m_b: 1 KB with the default bins. It solves (*) with n_b·f(m_b) for the sum of f over the bin,
    f_λ(τ) = τ/(e^{λτ} − 1), by one to three Newton steps from the last root, as a rule.

    Bound. Let λ* be the exact root and λ̂ the one found. f_λ is convex in τ, so (Jensen) the left side is never too
    great and λ̂ ≤ λ*. If for every bin E f_{(1+ε)λ}(τ) ≤ f_λ(E τ), then at λ*/(1+ε) the left side is still at least
    what the exact one is at λ*, so λ̂ ≥ λ*/(1+ε), whatever the checks. With x = λτ and g(x) = x/(e^x − 1) that condition
    is E g((1+ε)x)/(1+ε) ≤ g(E x); by convexity its worst case puts all weight on the two ends of the bin, leaving a
    function of two numbers: where the bin lies, and how the weight is split. For bins of 2^(1/6) it holds with ε = 2 %
    wherever x ≤ 13 (1 % for x ≤ 7, 0.3 % for x ≤ 3). A longer changed check, of more than 13 mean change intervals,
    weighs less than x·e^{−x} < 3e-5 of a short one. Checks that are equal within a bin (a polling grid) cost nothing.
    The two open bins, under `shortest` and over shortest·2^octaves (250 ms and 3 days), are without such a bound.

    λ̄ is the root of (*) over the checks of all slots. The prior of single slots follows it in steps of a tenth, at
    which all slots are solved anew; as λ̄ settles these become rare. `memory` checks are what a slot remembers, if
    given: at each refresh all it knows loses the share 1/memory.
    """

    LEARNED: ClassVar = (
        "_count", "_sum", "_unchanged", "_rate", "_checked", "_all_count", "_all_sum", "_all_unchanged", "_all_checks",
        "_pooled", "_prior",
    )  # fmt: skip

    def __init__(
        self,
        prior_interval: float = PRIOR_INTERVAL,
        weight: float = 1.0,
        memory: float | None = None,
        shortest: float = 250.0,
        octaves: int = 20,
        per_octave: int = 6,
    ) -> None:
        """`prior_interval` (ms) is believed before any check; there are `weight` pseudo-intervals of each kind."""
        _check_settings(prior_interval, weight, memory)
        if shortest <= 0 or octaves < 1 or per_octave < 1:
            given = f"shortest={shortest}, octaves={octaves}, per_octave={per_octave}"
            raise ConfigError(f"bins of check intervals with {given}; all three have to be above 0")
        self._weight = weight
        self._keep = 1.0 if memory is None else 1.0 - 1.0 / memory
        self._shortest, self._per_octave, self._bins = shortest, per_octave, octaves * per_octave + 2
        self._count = np.zeros((16, self._bins), np.float32)
        self._sum = np.zeros((16, self._bins), np.float32)
        self._unchanged = np.zeros(16)
        self._rate = np.zeros(16)
        self._checked = np.zeros(16, np.bool_)
        self._all_count, self._all_sum = np.zeros(self._bins), np.zeros(self._bins)
        self._all_unchanged = self._all_checks = 0.0
        self._pooled = self._prior = 1.0 / prior_interval

    @property
    def pooled(self) -> float:
        """The rate λ̄ of all entries together."""
        return self._pooled

    @property
    def prior(self) -> float:
        """The rate that single slots are drawn to: λ̄, to within a tenth."""
        return self._prior

    def rates(self, slots: int, which: Ints | None = None) -> Floats:
        """Return the rates of the first `slots`, or of some; λ̄ for those that were never checked."""
        self._reserve(slots)
        part = slice(slots) if which is None else which
        return np.where(self._checked[part], self._rate[part], self._pooled)

    def reset(self, slots: Ids) -> None:
        """Forget the checks of these slots; the pool keeps them."""
        self._reserve(span(slots))
        for column in (self._count, self._sum, self._unchanged, self._checked):
            column[slots] = 0

    def observe(self, checks: Checks) -> None:
        """Count checks and solve the slots they concern, from where these stood."""
        real = checks.tau > 0
        slots, tau, changed = checks.slots[real], checks.tau[real], checks.changed[real]
        if not slots.size:
            return
        self._reserve(span(slots))
        self._forget(slots)
        self._count_changed(slots[changed], tau[changed])
        self._unchanged[slots[~changed]] += tau[~changed]
        self._all_unchanged += float(tau[~changed].sum())
        self._all_checks += slots.size
        self._rate[slots] = np.where(self._checked[slots], self._rate[slots], self._prior)
        self._checked[slots] = True
        self._solve(self._follow(slots))

    def _count_changed(self, slots: Ids, tau: Ints) -> None:
        # Log-spaced: `per_octave` to each doubling from `shortest` on, one below and one above them.
        place = np.floor(np.log2(tau / self._shortest) * self._per_octave) + 1.0
        bins = np.clip(place, 0, self._bins - 1).astype(np.int64)
        self._count[slots, bins] += 1
        self._sum[slots, bins] += tau
        self._all_count += np.bincount(bins, minlength=self._bins)
        self._all_sum += np.bincount(bins, tau, minlength=self._bins)

    def _forget(self, slots: Ids) -> None:
        """Slots lose a share at each of their own refreshes; the pool at the mean pace of all."""
        if self._keep == 1.0:
            return
        for column in (self._count, self._sum, self._unchanged):
            column[slots] *= self._keep
        pace = self._keep ** (slots.size / max(1, int(np.count_nonzero(self._checked))))
        self._all_count *= pace
        self._all_sum *= pace
        self._all_unchanged *= pace
        self._all_checks *= pace

    def _follow(self, slots: Ids) -> Ids | Ints:
        """Renew λ̄; where the prior has to follow, every slot that has checks is due, otherwise these slots are."""
        typical = (self._all_sum.sum() + self._all_unchanged) / self._all_checks
        count, mean = self._equation(self._all_count[None, :], self._all_sum[None, :], typical)
        unchanged = np.array([self._all_unchanged + self._weight * typical])
        self._pooled = float(solve(count, mean, unchanged, np.array([self._pooled]))[0])
        if abs(log(self._pooled / self._prior)) < 0.1:
            return slots
        self._prior = self._pooled
        return np.flatnonzero(self._checked)

    def _solve(self, slots: Ids | Ints) -> None:
        used = np.flatnonzero(self._all_count)
        for begin in range(0, slots.size, BLOCK):
            part = slots[begin : begin + BLOCK]
            cells = np.ix_(part, used)
            count, mean = self._equation(self._count[cells], self._sum[cells], HALF / self._prior)
            unchanged = self._unchanged[part] + self._weight * HALF / self._prior
            self._rate[part] = solve(count, mean, unchanged, self._rate[part])

    def _equation(
        self, count: NDArray[np.floating], total: NDArray[np.floating], pseudo: float
    ) -> tuple[Floats, Floats]:
        """Return counts and means of the bins, with the pseudo-interval as one more bin; empty bins weigh nothing."""
        rows, bins = count.shape
        counts, means = np.empty((rows, bins + 1)), np.full((rows, bins + 1), pseudo)
        counts[:, :-1] = count
        np.divide(total, count, out=means[:, :-1], where=count > 0)
        counts[:, -1] = self._weight
        return counts, means

    def _reserve(self, slots: int) -> None:
        if slots > self._rate.size:
            self._count, self._sum = grown(self._count, slots, 0), grown(self._sum, slots, 0)
            self._unchanged, self._rate = grown(self._unchanged, slots, 0), grown(self._rate, slots, 0)
            self._checked = grown(self._checked, slots, False)


class LastModified(Dumped):
    """λ = X/T where the source tells when it last changed: X changed checks, T the time that was seen to pass quietly.

    T is the age of the last change at each changed check plus τ at each unchanged one; this is the maximum of the
    likelihood itself, so nothing is approximated: λ = (X + 1)/(T + 1/λ̄), the pseudo-intervals included. A first fetch
    whose age is told counts as a changed check (looking back, the age of a Poisson process is one interval of it).
    At a changed check whose age is not told, T grows by what it is expected to be, 1/λ − τ/(e^{λτ} − 1).
    """

    LEARNED: ClassVar = ("_changes", "_quiet", "_all_changes", "_all_quiet", "_all_checks")

    def __init__(
        self, prior_interval: float = PRIOR_INTERVAL, weight: float = 1.0, memory: float | None = None
    ) -> None:
        """`prior_interval` (ms) is believed before any check; `weight` and `memory` as in ChangeBits."""
        _check_settings(prior_interval, weight, memory)
        self._weight, self._first = weight, 1.0 / prior_interval
        self._keep = 1.0 if memory is None else 1.0 - 1.0 / memory
        self._changes, self._quiet = np.zeros(16), np.zeros(16)
        self._all_changes = self._all_quiet = self._all_checks = 0.0

    @property
    def pooled(self) -> float:
        """λ̄, the rate of all SRs together; its pseudo-intervals are as long as the mean quiet time of a check."""
        if not self._all_checks:
            return self._first
        typical = self._all_quiet / self._all_checks
        return (self._all_changes + self._weight) / (self._all_quiet + self._weight * typical / HALF)

    def rates(self, slots: int, which: Ints | None = None) -> Floats:
        """Return the drawn rates of the first `slots`, or of some; λ̄ for those without a check."""
        self._reserve(slots)
        part = slice(slots) if which is None else which
        return self._with_prior(self._changes[part], self._quiet[part])

    def reset(self, slots: Ids) -> None:
        """Forget changes and quiet time of these slots; the pool keeps them."""
        self._reserve(span(slots))
        self._changes[slots] = self._quiet[slots] = 0.0

    def observe(self, checks: Checks) -> None:
        """Add up changes and quiet time."""
        told = checks.age >= 0
        real = (checks.tau > 0) | told
        slots, tau, told = checks.slots[real], checks.tau[real], told[real]
        if not slots.size:
            return
        self._reserve(span(slots))
        changed = checks.changed[real] | (tau <= 0)
        age = np.where(tau > 0, np.minimum(checks.age[real], tau), checks.age[real])
        guessed = expected_age(tau, self._with_prior(self._changes[slots], self._quiet[slots]))
        quiet = np.maximum(np.where(changed, np.where(told, age, guessed), tau), 1.0)
        self._forget(slots)
        self._changes[slots] += changed
        self._quiet[slots] += quiet
        self._all_checks += slots.size
        self._all_changes += float(np.count_nonzero(changed))
        self._all_quiet += float(quiet.sum())

    def _with_prior(self, changes: Floats, quiet: Floats) -> Floats:
        """(X + 1)/(T + 1/λ̄)."""
        return (changes + self._weight) / (quiet + self._weight / self.pooled)

    def _forget(self, slots: Ids) -> None:
        """Fade slots at each of their own refreshes, and the pool at the mean pace of all."""
        if self._keep == 1.0:
            return
        self._changes[slots] *= self._keep
        self._quiet[slots] *= self._keep
        pace = self._keep ** (slots.size / max(1, int(np.count_nonzero(self._quiet))))
        self._all_changes *= pace
        self._all_quiet *= pace
        self._all_checks *= pace

    def _reserve(self, slots: int) -> None:
        self._changes, self._quiet = grown(self._changes, slots, 0), grown(self._quiet, slots, 0)


def expected_age(tau: Ints | Floats, rate: Floats) -> Floats:
    """E[age of the last change | some change in τ] = 1/λ − τ/(e^{λτ} − 1); by symmetry also the time to the first."""
    x = np.minimum(rate * tau, STEEP)
    # Below 1e-4 the difference of two great numbers is replaced by its series, τ/2 − λτ²/12.
    exact = 1.0 / rate - tau / np.expm1(np.maximum(x, 1e-4))
    return np.where(x < 1e-4, tau / 2.0 - x * tau / 12.0, exact)


def _check_settings(prior_interval: float, weight: float, memory: float | None) -> None:
    if not 0 < prior_interval < inf:
        raise ConfigError(f"prior_interval is {prior_interval} ms; a mean time between changes is above 0 and finite")
    if not 0 < weight < inf:
        raise ConfigError(f"weight is {weight}; the pseudo-intervals need a weight above 0, 1 is usual")
    if memory is not None and memory <= 1:
        raise ConfigError(f"memory is {memory}; at least one check is remembered, so it has to be above 1")
