"""A survival curve from observed intervals between changes (Kaplan-Meier), and the change model that reads it.

S(t) is the probability that a version lives longer than t. Nothing is assumed of its shape: yearly, daily and hourly
rhythms show as steps. Where the age a of the current version is told, it stays fresh for d more with the probability
S(a + d)/S(a); where it is not, with the equilibrium residual E(d) = ∫_d^∞ S/μ, μ = ∫_0^∞ S: the view looked at a moment
that had nothing to do with the version.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints, grown
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.view.changes import Beliefs, Evidence
from freshkeeper.maintenance.cache.view.dumpable import Dumped
from freshkeeper.maintenance.cache.view.rates import PRIOR_INTERVAL, expected_age, paired, reaching, span
from freshkeeper.policies.base import NEVER, Knowledge

KNOTS = 256
"""A curve is thinned to so many pieces, so that looking it up stays cheap."""

MIN_HAZARD = 1e-300
"""Stands for a hazard of nothing, so that it can be divided by."""

LONGEST = float(2**40)
"""Ages are cut off here (35 years in ms), so that several curves can share one sorted array."""


@dataclass(frozen=True, eq=False)
class Curve:
    """S in pieces: from age[k] on, S(t) = exp(log_s[k] − hazard[k]·(t − age[k])); it jumps at knots where ends fell."""

    age: Floats
    log_s: Floats
    hazard: Floats

    @classmethod
    def fit(cls, entry: Floats, leave: Floats, ended: Bools, rate: float, weight: float = 1.0) -> "Curve":
        """Kaplan-Meier with a prior: at each age the share that ends is (dN + weight·rate·dt)/(Y + weight).

        Y counts the versions that are watched at that age: each from the age at which it was first seen (`entry`) to
        the one at which it ended, or was seen last (`leave`). With weight → 0 it is the plain product-limit estimate;
        the prior of `weight` versions with an exponential life (Hjort's beta process) goes on where nobody watches.
        """
        if not (entry < leave).all():
            bad = int((entry >= leave).argmax())
            raise InputError(
                f"an interval watched from age {entry[bad]} to {leave[bad]}; it has to end after it begins"
            )
        age = np.unique(np.concatenate([[0.0], entry, leave]))
        watched = np.searchsorted(np.sort(entry), age, "right") - np.searchsorted(np.sort(leave), age, "right")
        ends = np.bincount(np.searchsorted(age, leave[ended]), minlength=age.size)
        hazard: Floats = rate * weight / (watched + weight).astype(np.float64)
        jump = np.log1p(-ends[1:] / (watched[:-1] + weight))
        log_s = np.append(0.0, np.cumsum(jump - hazard[:-1] * np.diff(age)))
        return cls(age, log_s, hazard)._thin_out()

    def _thin_out(self) -> "Curve":
        """Every so many knots one is kept, and S falls evenly in between."""
        if self.age.size <= KNOTS:
            return self
        keep = np.unique(np.linspace(0, self.age.size - 1, KNOTS).astype(np.int64))
        age, log_s = self.age[keep], self.log_s[keep]
        return Curve(age, log_s, np.append(-np.diff(log_s) / np.diff(age), self.hazard[-1]))


class Curves(Dumped):
    """A set of curves in one sorted array, to look many ages up at once, each on its own curve."""

    LEARNED: ClassVar = ("_age", "_log_s", "_hazard", "_area", "mean", "_place")

    def __init__(self, curves: Sequence[Curve]) -> None:
        """Curves are numbered from 0 in the order given."""
        self._age = np.concatenate([curve.age for curve in curves])
        self._log_s = np.concatenate([curve.log_s for curve in curves])
        self._hazard = np.concatenate([curve.hazard for curve in curves])
        areas = [_areas(curve) for curve in curves]
        self._area = np.concatenate([area[:-1] for area in areas])
        self.mean = np.array([area[-1] for area in areas])
        self._place = self._age + np.repeat(np.arange(len(curves)) * LONGEST, [curve.age.size for curve in curves])

    def log_survival(self, curve: Ints, age: Floats) -> Floats:
        """Return the logarithm of S(age)."""
        k, past = self._find(curve, age)
        log_s: Floats = self._log_s[k] - self._hazard[k] * past
        return log_s

    def residual(self, curve: Ints, ahead: Floats) -> Floats:
        """E(ahead) = 1 − ∫_0^ahead S/μ, the chance that a version met at any moment lives on for so long."""
        k, past = self._find(curve, ahead)
        area = self._area[k] + np.exp(self._log_s[k]) * _decayed(self._hazard[k], past)
        left: Floats = np.clip(1.0 - area / self.mean[curve], 0.0, 1.0)
        return left

    def _find(self, curve: Ints, age: Floats) -> tuple[Ints, Floats]:
        age = np.clip(age, 0.0, LONGEST - 1.0)
        k = self._place.searchsorted(age + curve * LONGEST, side="right") - 1
        return k, age - self._age[k]


class Survival(Dumped):
    """Beliefs from the pooled curve, or from an SR's own once `own` of its versions were seen to end (None: never).

    Ends are seen only to lie between two fetches. They are put where a Poisson process of the pooled rate has the first
    change on average, given the gap and, if told, the last change in it: the error vanishes as fetches get dense. A
    version whose beginning is not told is dated the same way for learning, but counts as of unknown age in beliefs.
    The last `capacity` intervals are kept, and the curves are fitted anew when a tenth has been added.

    >>> import numpy as np
    >>> from freshkeeper import Survival
    >>> model = Survival(prior_interval=10_000)
    >>> model.admit(np.array([0], np.int32), ["ann"])
    >>> model.beliefs(np.array([1000, 2000]), np.array([500]), look_ahead=False).kept.round(2)
    array([[0.95, 0.86]])
    """

    LEARNED: ClassVar = (
        "_entry", "_leave", "_ended", "_owner", "_seen", "_added", "_born", "_since", "_until", "_dated", "_curve",
        "_rate", "_curves",
    )  # fmt: skip
    knowledge: ClassVar[Knowledge] = Knowledge.PUBLISHED

    def __init__(
        self, prior_interval: float = PRIOR_INTERVAL, weight: float = 1.0, own: int | None = None, capacity: int = 4096
    ) -> None:
        """`prior_interval` (ms) is the mean life believed before any end was seen; it counts as `weight` versions."""
        if not prior_interval > 0 or not weight > 0 or capacity < 1 or (own is not None and own < 1):
            given = f"prior_interval={prior_interval}, weight={weight}, own={own}, capacity={capacity}"
            raise ConfigError(f"a survival curve with {given}; all of them have to be above 0")
        self._prior, self._weight, self._min_ends = prior_interval, weight, own
        self._entry, self._leave = np.zeros(capacity), np.zeros(capacity)
        self._ended, self._owner = np.zeros(capacity, np.bool_), np.full(capacity, -1, np.int64)
        self._seen = self._added = 0
        self._born, self._since = np.full(16, UNKNOWN, np.int64), np.zeros(16, np.int64)
        self._until, self._dated = np.zeros(16, np.int64), np.zeros(16, np.bool_)
        self._curve = np.zeros(16, np.int64)
        self._rate = 1.0 / prior_interval
        self._curves = Curves([Curve(np.zeros(1), np.zeros(1), np.array([self._rate]))])

    def admit(self, slots: Ids, keys: Sequence[object]) -> None:
        """Forget the entries that had these slots."""
        paired(slots, keys)
        self.evict(slots)

    def evict(self, slots: Ids) -> None:
        """Forget these slots; the intervals seen of them stay in the pooled curve, the current ones as unfinished."""
        self._reserve(span(slots))
        watched = self._watched(np.asarray(slots, np.int64))  # versions that nobody will watch any longer
        born = self._born[watched]
        self._record(watched, self._since[watched] - born, self._until[watched] - born, False)
        self._born[slots], self._dated[slots], self._curve[slots] = UNKNOWN, False, 0
        self._since[slots] = self._until[slots] = 0
        self._owner[np.isin(self._owner, slots)] = -1

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        """Kept: no change since the fetch; refreshed: the kept version if it is still there, else one met just now.

        kept[m] = S(a + βm)/S(a − (now − r)) where the age a is told, E(now − r + βm) where it is not;
        refreshed[m] = kept[m] + (1 − kept[0])·E(βm) where it is told, E(βm) where it is not.
        """
        count, which = reaching(last_refresh, slots)
        self._reserve(count)
        part = np.arange(count) if which is None else which
        curve, held = self._curve[part, None], last_refresh != NEVER
        ahead = (instants - instants[0]).astype(np.float64)
        anew = self._anew(ahead)[curve[:, 0]]
        kept = np.zeros((part.size, instants.size))
        told = np.flatnonzero(held & self._dated[part])
        unknown = np.flatnonzero(held & ~self._dated[part])
        kept[told] = self._conditional(part[told], instants, last_refresh[told])
        age = np.maximum(instants - last_refresh[unknown, None], 0).astype(np.float64)
        kept[unknown] = self._curves.residual(curve[unknown], age)
        refreshed = anew.copy()
        refreshed[told] = kept[told] + (1.0 - kept[told, :1]) * anew[told]
        change = self._change(kept, told, curve[:, 0], ahead) if look_ahead else None
        return Beliefs(refreshed, kept, change)

    def observe(self, evidence: Evidence) -> None:
        """Close the intervals that ended, prolong the others, and fit again when enough has come in."""
        if not evidence.slots.size:
            return
        self._reserve(span(evidence.slots))
        slots, held = evidence.slots.astype(np.int64), evidence.previous != NEVER
        modified = np.minimum(evidence.modified, evidence.now)
        newer = held & (evidence.changed | (modified > evidence.previous))
        first, last = self._between(evidence.previous, modified, evidence.now)
        self._close(slots[newer], first[newer])
        self._begin(slots[newer], modified[newer], last[newer], evidence.now)
        fresh = ~held
        self._begin(slots[fresh], modified[fresh], np.full(int(fresh.sum()), UNKNOWN), evidence.now)
        self._date(slots[held & ~newer], modified[held & ~newer], evidence.previous[held & ~newer])
        self._until[slots] = evidence.now
        self._added += slots.size
        if self._added >= 16 and self._added * 10 >= self._filled:
            self._fit()

    @property
    def _filled(self) -> int:
        return min(self._seen, self._entry.size)

    def _anew(self, ahead: Floats) -> Floats:
        """E(ahead) of every curve, curve × H."""
        return self._curves.residual(np.arange(self._curves.mean.size)[:, None], ahead)

    def _conditional(self, told: Ints, instants: Ints, last_refresh: Ints) -> Floats:
        """S at the age of each instant over S at the age of the fetch."""
        curve, born = self._curve[told, None], self._born[told, None]
        fetched = self._curves.log_survival(curve, (last_refresh[:, None] - born).astype(np.float64))
        later = self._curves.log_survival(curve, (instants - born).astype(np.float64))
        chance: Floats = np.exp(np.minimum(later - fetched, 0.0))
        return chance

    def _change(self, kept: Floats, told: Ints, curve: Ints, ahead: Floats) -> Floats:
        """1 − E(gap); where the age is told, the kept version's end or, if it is gone, 1 − E(gap) of a later one."""
        change = 1.0 - self._anew(np.diff(ahead, prepend=0.0))[curve]
        alive = kept[told, :-1]
        change[told, 1:] = alive - kept[told, 1:] + (1.0 - alive) * change[told, 1:]
        change[:, 0] = 0.0
        return np.clip(change, 0.0, 1.0)

    def _between(self, previous: Ints, modified: Ints, now: int) -> tuple[Ints, Ints]:
        """Place the first and the last change between two fetches; the last one exactly where its date is told.

        With the last change a time g after the first fetch, the first one comes after (1 − e^{−λg})/λ on average.
        """
        told = (modified > previous) & (previous != NEVER)
        gap = np.where(previous != NEVER, np.maximum(now - previous, 1), 1)
        inside = expected_age(gap, np.full(gap.size, self._rate))
        first = np.where(told, -np.expm1(-self._rate * np.where(told, modified - previous, 0)) / self._rate, inside)
        begin = now - gap
        at_first = begin + np.clip(np.rint(first).astype(np.int64), 1, gap)
        at_last = np.where(told, modified, now - np.clip(np.rint(inside).astype(np.int64), 0, gap - 1))
        return at_first, at_last

    def _close(self, slots: Ints, end: Ints) -> None:
        """Record versions that ended."""
        dated = self._born[slots] != UNKNOWN
        slots, end = slots[dated], end[dated]
        born = self._born[slots]
        self._record(slots, self._since[slots] - born, np.maximum(end, self._since[slots] + 1) - born, True)

    def _watched(self, slots: Ints) -> Ints:
        """Return the slots whose current version has a date and was seen more than once."""
        twice: Bools = (self._born[slots] != UNKNOWN) & (self._until[slots] > self._since[slots])
        return slots[twice]

    def _record(self, slots: Ints, entry: Ints, leave: Ints, ended: bool) -> None:
        """Write into the ring; of more than it holds only the last."""
        keep = slice(max(0, slots.size - self._entry.size), None)
        place = (self._seen + np.arange(slots.size)[keep]) % self._entry.size
        self._entry[place], self._leave[place] = np.maximum(entry[keep], 0), leave[keep]
        self._ended[place], self._owner[place] = ended, slots[keep]
        self._seen += slots.size

    def _begin(self, slots: Ints, modified: Ints, guess: Ints, now: int) -> None:
        """Begin to watch a new version."""
        told = modified != UNKNOWN
        self._born[slots], self._dated[slots] = np.where(told, modified, guess), told
        self._since[slots] = now

    def _date(self, slots: Ints, modified: Ints, previous: Ints) -> None:
        """Date a version that is already held; it was there at the fetch before."""
        late = (modified != UNKNOWN) & ~self._dated[slots]
        self._born[slots[late]], self._dated[slots[late]] = modified[late], True
        self._since[slots[late]] = previous[late]

    def _fit(self) -> None:
        """Fit the pooled curve and those of SRs with enough ends of their own."""
        entry, leave, ended, owner = self._intervals()
        changes, time = self._weight + np.count_nonzero(ended), float((leave - entry).sum())
        self._rate = changes / (time + self._weight * self._prior)
        curves = [Curve.fit(entry, leave, ended, self._rate, self._weight)]
        self._curve[:] = 0
        for slot in self._owners(owner[ended]):
            mine = owner == slot
            self._curve[slot] = len(curves)
            curves.append(Curve.fit(entry[mine], leave[mine], ended[mine], self._rate, self._weight))
        self._curves, self._added = Curves(curves), 0

    def _intervals(self) -> tuple[Floats, Floats, Bools, Ints]:
        """Return the intervals in the ring, and the current versions as unfinished ones."""
        n = self._filled
        current = self._watched(np.arange(self._born.size))
        born = self._born[current]
        return (
            np.append(self._entry[:n], np.maximum(self._since[current] - born, 0)),
            np.append(self._leave[:n], self._until[current] - born),
            np.append(self._ended[:n], np.zeros(current.size, np.bool_)),
            np.append(self._owner[:n], current),
        )

    def _owners(self, owner: Ints) -> list[int]:
        """Return the slots with enough ends for a curve of their own."""
        if self._min_ends is None:
            return []
        slots, count = np.unique(owner[owner >= 0], return_counts=True)
        return [int(slot) for slot in slots[count >= self._min_ends]]

    def _reserve(self, slots: int) -> None:
        self._born, self._since = grown(self._born, slots, UNKNOWN), grown(self._since, slots, 0)
        self._until, self._dated = grown(self._until, slots, 0), grown(self._dated, slots, False)
        self._curve = grown(self._curve, slots, 0)


def _areas(curve: Curve) -> Floats:
    """∫_0^age S at each knot, and over the whole curve at the end."""
    length = np.append(np.diff(curve.age), np.inf)
    pieces = np.exp(curve.log_s) * _decayed(curve.hazard, length)
    return np.append(0.0, np.cumsum(pieces))


def _decayed(hazard: Floats, length: Floats) -> Floats:
    """∫_0^length exp(−hazard·u) du = (1 − exp(−hazard·length))/hazard."""
    rate = np.maximum(hazard, MIN_HAZARD)
    area: Floats = -np.expm1(-rate * length) / rate
    return area
