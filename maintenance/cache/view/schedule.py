"""Changes that are known exactly: fixed schedules, and the changes that a trace recorded (knowledge: exact).

A copy fetched at r is fresh at t iff the SR did not change in (r, t]; a change exactly at t makes an older copy stale
at t. Both classes speak by slot as change models, and by SR number to whoever needs the truth. A slot whose key has no
number (a placeholder for something not fetched yet) never changes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints, grown, spread
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.cache.view.changes import Beliefs, Evidence
from freshkeeper.maintenance.cache.view.dumpable import Dumped
from freshkeeper.maintenance.cache.view.rates import paired, reaching, span
from freshkeeper.policies.base import NEVER, Knowledge

BEFORE = NEVER + 1
"""The last change of an SR that has not changed as far back as is known: no copy is older, only a missing one is."""


NO_NUMBER = -1
"""The number of a slot that the model knows nothing of; as an index it means the last row, which stands for `never`."""


class Numbering(Dumped):
    """A table of the entry number of each slot; without `numbers` the keys are the numbers themselves."""

    LEARNED: ClassVar = ("_by_slot",)

    def __init__(self, srs: int, numbers: Mapping[Any, int] | None = None) -> None:
        """`srs` is how many numbers there are."""
        self._numbers = dict(enumerate(range(srs))) if numbers is None else dict(numbers)
        self._by_slot = np.full(16, NO_NUMBER, np.int64)
        for key, number in self._numbers.items():
            if not 0 <= number < srs:
                raise InputError(f"key {key!r} has the entry number {number}; the numbers here are 0 to {srs - 1}")

    def admit(self, slots: Ids, keys: Sequence[object]) -> None:
        """Assign these keys to these slots."""
        paired(slots, keys)
        self.of(span(slots))
        self._by_slot[slots] = [self._numbers.get(key, NO_NUMBER) for key in keys]

    def evict(self, slots: Ids) -> None:
        """Clear these slots."""
        self.of(span(slots))
        self._by_slot[slots] = NO_NUMBER

    def of(self, slots: int, which: Ints | None = None) -> Ints:
        """Return the numbers of the first `slots`, or of some of them."""
        if slots > self._by_slot.size:
            self._by_slot = grown(self._by_slot, slots, NO_NUMBER)
        return self._by_slot[:slots] if which is None else self._by_slot[which]


class Numbered(Dumped):
    """A model that is told all beforehand: its slots stand for SR numbers, and refreshes teach it nothing."""

    LEARNED: ClassVar = ("_numbering",)
    _numbering: Numbering

    def admit(self, slots: Ids, keys: Sequence[object]) -> None:
        """Assign these entries to these slots."""
        self._numbering.admit(slots, keys)

    def evict(self, slots: Ids) -> None:
        """Forget which entries these slots stood for."""
        self._numbering.evict(slots)

    def observe(self, evidence: Evidence) -> None:
        """Ignore the evidence: all is known beforehand."""


class FixedSchedule(Numbered):
    """SR j changes at phase_j + n·interval_j for every integer n, negative ones too: a schedule has no beginning.

    >>> import numpy as np
    >>> from freshkeeper import FixedSchedule
    >>> schedule = FixedSchedule(interval=np.array([4000, 10_000]), phase=np.array([1000, 0]))
    >>> schedule.last_change(6000).tolist(), schedule.next_change(6000).tolist()
    ([5000, 0], [9000, 10000])
    """

    knowledge: ClassVar[Knowledge] = Knowledge.EXACT

    def __init__(self, interval: Ints, phase: Ints, numbers: Mapping[Any, int] | None = None) -> None:
        """`interval` and `phase` in ms by SR number, `numbers` the number of each key (default: keys are numbers)."""
        interval, phase = np.asarray(interval, np.int64), np.asarray(phase, np.int64)
        check_schedule(interval, phase)
        # The row for strangers: its one change before any fetch is BEFORE, its next one DISTANT_FUTURE.
        self._interval = np.append(interval, DISTANT_FUTURE - BEFORE)
        self._phase = np.append(phase, BEFORE)
        self._numbering = Numbering(interval.size, numbers)

    @property
    def srs(self) -> int:
        """The number of entries."""
        return self._interval.size - 1

    def last_change(self, now: int) -> Ints:
        """Return the last change of each entry at or before `now`, by number."""
        last: Ints = now - (now - self._phase[:-1]) % self._interval[:-1]
        return last

    def next_change(self, now: int) -> Ints:
        """Return the first change of each entry strictly after `now`, by number."""
        upcoming: Ints = self.last_change(now) + self._interval[:-1]
        return upcoming

    def changes(self, start: int, end: int) -> tuple[Ints, Ints]:
        """Return all changes in (start, end] as (t_ms, number), sorted by time and then by number."""
        first = self.next_change(start)
        interval = self._interval[:-1]
        count = np.maximum((end - first) // interval + 1, 0)
        sr = np.repeat(np.arange(self.srs), count)
        t_ms = first[sr] + spread(np.zeros_like(count), count) * interval[sr]
        order = np.argsort(t_ms, kind="stable")
        return t_ms[order], sr[order]

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        """Certainties: fresh while the next change lies ahead, and kept only if fetched since the last one."""
        number = self._numbering.of(*reaching(last_refresh, slots))
        return scheduled(self._interval[number], self._phase[number], instants, last_refresh, look_ahead)


def check_schedule(interval: Ints, phase: Ints) -> None:
    """Refuse what is no schedule."""
    if interval.shape != phase.shape or interval.ndim != 1:
        raise InputError(f"{interval.size} intervals and {phase.size} phases; give one of each for every entry")
    wrong = np.flatnonzero(~((interval >= 1) & (phase == phase)))  # noqa: PLR0124: what is not a number
    if wrong.size:
        worst = int(wrong[0])
        raise InputError(f"entry {worst} has a change interval of {interval[worst]} ms; the least is 1 ms")


def scheduled(interval: Ints, phase: Ints, instants: Ints, last_refresh: Ints, look_ahead: bool) -> Beliefs:
    """Beliefs of schedules, one per slot: fresh while the next change lies ahead, kept if fetched since the last."""
    last = instants[0] - (instants[0] - phase) % interval
    refreshed = (last + interval)[:, None] > instants
    kept = refreshed & (last_refresh >= last)[:, None]
    change = _change(instants, interval, phase) if look_ahead else None
    return Beliefs(refreshed.astype(np.float64), kept.astype(np.float64), change)


def _change(instants: Ints, interval: Ints, phase: Ints) -> Floats:
    """1 where the count of changes so far, ⌊(t − phase)/interval⌋, grows from one instant to the next."""
    count = (instants - phase[:, None]) // interval[:, None]
    change = np.zeros(count.shape)
    change[:, 1:] = count[:, 1:] > count[:, :-1]
    return change


class RecordedChanges(Numbered):
    """Changes as a trace recorded them; a cursor follows `now` and touches only the changes it passes.

    Time may go back (another run over the same trace): the cursor then starts again from the beginning.
    Past the next change of an SR nothing is promised to a policy, so `change` there is 1 − exp(−λ·gap) with
    λ = (n + 1)/(T + 1/λ̄): n changes of the SR in the time T since `start`, and one interval of the mean rate λ̄ of all.

    >>> import numpy as np
    >>> from freshkeeper import RecordedChanges
    >>> recorded = RecordedChanges(sr=np.array([0, 1, 0]), t_ms=np.array([1000, 2000, 5000]))
    >>> recorded.last_change(4000).tolist()
    [1000, 2000]
    """

    knowledge: ClassVar[Knowledge] = Knowledge.EXACT

    def __init__(
        self,
        sr: Ints,
        t_ms: Ints,
        srs: int | None = None,
        numbers: Mapping[Any, int] | None = None,
        start: int | None = None,
    ) -> None:
        """Take one row per change, in any order; `srs` is how many SRs there are, `start` (ms) when recording began.

        `numbers` gives the number of each key (default: the keys are the numbers), `start` is the first change's time
        unless it is given.
        """
        sr, t_ms = np.asarray(sr, np.int64), np.asarray(t_ms, np.int64)
        if sr.shape != t_ms.shape or sr.ndim != 1:
            raise InputError(f"{sr.size} entries and {t_ms.size} times of change; give one of each for every change")
        self._srs = int(sr.max(initial=-1)) + 1 if srs is None else srs
        if sr.size and not 0 <= sr.min() <= sr.max() < self._srs:
            raise InputError(
                f"changes of the entries {sr.min()} to {sr.max()}; the numbers here are 0 to {self._srs - 1}"
            )
        order = np.lexsort((sr, t_ms))
        self._sr, self._t = sr[order], t_ms[order]
        self._after, self._first = self._successors()
        self._start = int(self._t[0]) if start is None and sr.size else (start or 0)
        self._numbering = Numbering(self._srs, numbers)
        self._rewind()

    @property
    def srs(self) -> int:
        """The number of entries in the recording."""
        return self._srs

    def last_change(self, now: int) -> Ints:
        """Return the last change of each entry at or before `now`, by number; BEFORE where there was none."""
        self._advance(now)
        return self._last[:-1].copy()

    def next_change(self, now: int) -> Ints:
        """Return the first change of each entry strictly after `now`; DISTANT_FUTURE where there is none."""
        self._advance(now)
        return self._next[:-1].copy()

    def changes(self, start: int, end: int) -> tuple[Ints, Ints]:
        """Return the recorded changes in (start, end] as (t_ms, number), sorted by time and then by number."""
        begin, stop = self._t.searchsorted([start, max(start, end)], side="right")
        return self._t[begin:stop].copy(), self._sr[begin:stop].copy()

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        """Return certainties: fresh while the next recorded change lies ahead, kept if fetched since the last one."""
        self._advance(int(instants[0]))
        number = self._numbering.of(*reaching(last_refresh, slots))
        upcoming = self._next[number][:, None]
        refreshed = upcoming > instants
        kept = refreshed & (last_refresh >= self._last[number])[:, None]
        change = self._change(instants, upcoming, self._rate(number)) if look_ahead else None
        return Beliefs(refreshed.astype(np.float64), kept.astype(np.float64), change)

    def _successors(self) -> tuple[Ints, Ints]:
        """Return for each change the next one of the same SR, and for each SR its first one, or DISTANT_FUTURE."""
        by_sr = np.lexsort((self._t, self._sr))
        sr, t = self._sr[by_sr], self._t[by_sr]
        same = sr[1:] == sr[:-1]
        after = np.full(sr.size, DISTANT_FUTURE, np.int64)
        after[by_sr[:-1][same]] = t[1:][same]
        first = np.full(self._srs + 1, DISTANT_FUTURE, np.int64)
        leads = np.flatnonzero(np.append(True, ~same)[: sr.size])
        first[sr[leads]] = t[leads]
        return after, first

    def _rewind(self) -> None:
        """Before the first change; the last row is the strangers'."""
        self._cursor, self._now = 0, BEFORE
        self._last = np.full(self._srs + 1, BEFORE, np.int64)
        self._next = self._first.copy()
        self._passed = np.zeros(self._srs + 1)

    def _advance(self, now: int) -> None:
        """Pass the changes up to `now`; where an SR changes twice, numpy keeps the later one."""
        if now < self._now:
            self._rewind()
        self._now = now
        end = int(self._t.searchsorted(now, side="right"))
        if end > self._cursor:
            passed = slice(self._cursor, end)
            sr = self._sr[passed]
            self._last[sr] = self._t[passed]
            self._next[sr] = self._after[passed]
            np.add.at(self._passed, sr, 1.0)
            self._cursor = end

    def _rate(self, number: Ints) -> Floats:
        """λ = (n + 1)/(T + 1/λ̄); 0 for strangers, and for all before anything has changed."""
        if not self._cursor:
            return np.zeros(number.size)
        elapsed = max(1, self._now - self._start)
        mean = elapsed * self._srs / self._cursor
        return np.where(number == NO_NUMBER, 0.0, (self._passed[number] + 1.0) / (elapsed + mean))

    @staticmethod
    def _change(instants: Ints, upcoming: Ints, rate: Floats) -> Floats:
        """0 before the next change, 1 between the instants around it, 1 − exp(−λ·gap) after."""
        before, after = instants[:-1], instants[1:]
        beyond = -np.expm1(np.multiply.outer(-rate, (after - before).astype(np.float64)))
        change = np.zeros((rate.size, instants.size))
        change[:, 1:] = np.where(after < upcoming, 0.0, np.where(before < upcoming, 1.0, beyond))
        return change
