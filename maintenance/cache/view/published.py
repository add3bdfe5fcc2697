"""Dates that a source publishes with a value: until when it holds, and since when (knowledge: published)."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints, grown
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.view.changes import Beliefs, Evidence
from freshkeeper.maintenance.cache.view.dumpable import Dumped
from freshkeeper.maintenance.cache.view.learned import checks, exponential
from freshkeeper.maintenance.cache.view.rates import LastModified, paired, reaching, span
from freshkeeper.policies.base import NEVER, Knowledge


class Published(Dumped):
    """A copy is fresh at the instants before it expires; a refresh before that brings the same copy once more.

    What follows an expired copy: if the source is `periodic`, the copy that expires at expires + n·interval, the
    interval being the last `expires − modified` seen; otherwise one that lasts exponentially long, with the mean of the
    validities seen of this SR, one of the mean length over all SRs added. Where no expiry is told, the rate of the
    last-modified estimator decides, which does without `modified` too. An expiry that is past already when it is
    fetched (`Expires: 0`) says nothing and counts as not told.

    >>> from freshkeeper import Published
    >>> Published(periodic=True).knowledge.value
    'published'
    """

    LEARNED: ClassVar = (
        "_estimator", "_expires", "_interval", "_validities", "_validity", "_all_validities", "_all_validity",
    )  # fmt: skip
    knowledge: ClassVar[Knowledge] = Knowledge.PUBLISHED

    def __init__(self, periodic: bool = False, estimator: LastModified | None = None) -> None:
        """`periodic` sources go on with the last interval seen; `estimator` is for SRs that tell no expiry."""
        self._periodic = periodic
        self._estimator = LastModified() if estimator is None else estimator
        self._expires = np.full(16, UNKNOWN, np.int64)
        self._interval = np.zeros(16, np.int64)
        self._validities, self._validity = np.zeros(16), np.zeros(16)
        self._all_validities = self._all_validity = 0.0

    def admit(self, slots: Ids, keys: Sequence[object]) -> None:
        """Forget what these slots stood for."""
        paired(slots, keys)
        self.evict(slots)

    def evict(self, slots: Ids) -> None:
        """Forget these slots; what they taught of all SRs stays."""
        self._reserve(span(slots))
        self._estimator.reset(slots)
        self._expires[slots] = UNKNOWN
        for column in (self._interval, self._validities, self._validity):
            column[slots] = 0

    def observe(self, evidence: Evidence) -> None:
        """Keep the expiry of the copies; count the validity of each new one."""
        if not evidence.slots.size:
            return
        self._reserve(span(evidence.slots))
        seen = checks(evidence)
        self._estimator.observe(seen)
        told = evidence.expires > evidence.now
        self._expires[evidence.slots] = np.where(told, evidence.expires, UNKNOWN)
        whole = told & (evidence.modified != UNKNOWN) & (evidence.expires > evidence.modified)
        slots, length = evidence.slots[whole], (evidence.expires - evidence.modified)[whole]
        self._interval[slots] = length
        self._count(slots, length, (seen.changed | (evidence.previous == NEVER))[whole])

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        """Certainty up to the expiry, and after it where the source is periodic; the rate for the rest."""
        count, which = reaching(last_refresh, slots)
        self._reserve(count)
        part = slice(count) if which is None else which
        by_rate = exponential(self._rates(count, which), instants, last_refresh, look_ahead)
        expires, interval = self._expires[part], self._interval[part]
        told = (expires != UNKNOWN) & (last_refresh != NEVER)
        recurs = told & (interval > 0) & self._periodic
        kept = np.where(told[:, None], instants < expires[:, None], by_rate.kept)
        following = _following(expires, np.where(recurs, interval, 0), instants[0])
        certain = told & (following > instants[0])
        refreshed = np.where(certain[:, None], instants < following[:, None], by_rate.refreshed)
        if by_rate.change is None:
            return Beliefs(refreshed, kept, None)
        return Beliefs(refreshed, kept, _change(by_rate.change, instants, expires, told, np.where(recurs, interval, 0)))

    def _count(self, slots: Ids, length: Ints, new: Bools) -> None:
        self._validities[slots[new]] += 1
        self._validity[slots[new]] += length[new]
        self._all_validities += float(np.count_nonzero(new))
        self._all_validity += float(length[new].sum())

    def _rates(self, slots: int, which: Ints | None) -> Floats:
        """Return one over the mean validity, (Σ + mean)/(n + 1), of entries that expire, or the last-modified rate."""
        rates = self._estimator.rates(slots, which)
        if not self._all_validities:
            return rates
        part = slice(slots) if which is None else which
        count = self._validities[part]
        mean = (self._validity[part] + self._all_validity / self._all_validities) / (count + 1.0)
        return np.where(count > 0, 1.0 / mean, rates)

    def _reserve(self, slots: int) -> None:
        self._expires, self._interval = grown(self._expires, slots, UNKNOWN), grown(self._interval, slots, 0)
        self._validities, self._validity = grown(self._validities, slots, 0), grown(self._validity, slots, 0)


def _following(expires: Ints, interval: Ints, now: int) -> Ints:
    """Return the expiry of what a refresh brings: the copy's own if it is ahead, else the next one of the series."""
    passed = np.where(interval > 0, (now - expires) // np.maximum(interval, 1) + 1, 0)
    return np.where(expires > now, expires, expires + passed * interval)


def _change(change: Floats, instants: Ints, expires: Ints, told: Bools, interval: Ints) -> Floats:
    """0 before the expiry, 1 between the instants around it; after it by the series, or as the rate has it."""
    before, after, expiry = instants[:-1], instants[1:], expires[:, None]
    step = np.maximum(interval, 1)[:, None]
    in_series = (after - expiry) // step > (before - expiry) // step
    later = np.where(interval[:, None] > 0, in_series, change[:, 1:])
    known = np.where(after < expiry, 0.0, np.where(before < expiry, 1.0, later))
    certain = change.copy()
    certain[:, 1:] = np.where(told[:, None], known, change[:, 1:])
    return certain
