"""Sliding windows over timestamped mappings, in exact integer arithmetic, as counts per SN and last evaluation.

A window never keeps its mappings: all that maintenance asks is how many mappings of SN i are still there m evaluations
from now, so it keeps, per SN, how many mappings have their last evaluation at k, k + 1, ... in a ring of rows (and one
row, `far`, for those that stay beyond the horizon). Every change of a row is told to the graph as a Movement.

Positions are milliseconds for time windows and ordinals for count windows; the formulas are the same.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Floats, Ids, Ints
from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.durations import duration
from freshkeeper.maintenance.base.errors import ConfigError, TimeError
from freshkeeper.maintenance.cache.demand import kernels
from freshkeeper.maintenance.cache.demand.window_counts import Selected, WindowCounts


@dataclass(frozen=True)
class WindowSpec:
    """Range ω, step β and start t0 in milliseconds; or, with `count`, ω and β in elements.

    >>> from freshkeeper import WindowSpec
    >>> window = WindowSpec(range=4000, step=1000)
    >>> window.span, window.instant(3)
    (4, 3000)
    """

    range: int
    step: int
    start: int = 0
    closure: Closure = Closure.LEFT_OPEN
    count: bool = False
    grid: bool = True
    """whether evaluations are at t_k alone; if not, they come at any time, k is the last t_k before, and β is the unit
    in which the future is planned: what is over by then, but not at the next t_k, must be taken out by `remove`"""

    if TYPE_CHECKING:  # durations may be text, and are numbers then

        def __init__(
            self, range: int | str, step: int | str, start: int = ..., closure: Closure = ..., count: bool = ...,
            grid: bool = ...,
        ) -> None: ...  # fmt: skip

    def __post_init__(self) -> None:
        for name, value in (("range", self.range), ("step", self.step)):
            if isinstance(value, str):
                object.__setattr__(self, name, duration(f"a window's {name}", value))
            elif not isinstance(value, int | np.integer) or value <= 0:
                what = "number of elements" if self.count else "number of milliseconds"
                raise ConfigError(f"a window's {name} must be positive, a whole {what} or text as 4s, not {value!r}")

    @property
    def span(self) -> int:
        """ω/β rounded up: the number of evaluations that an element can take part in."""
        return -(-self.range // self.step)

    def instant(self, k: int) -> int:
        """t_k = t0 + k·β."""
        return self.start + k * self.step

    def index(self, now: int) -> int:
        """Return the k of an instant on the grid; raise TimeError for other instants."""
        k, remainder = divmod(now - self.start, self.step)
        if remainder and self.grid:
            raise TimeError(
                f"no evaluation is due at {now}: with start {self.start} and step {self.step} "
                f"they are at {self.instant(k)} and {self.instant(k + 1)}"
            )
        return k

    def first(self, at: Ints) -> Ints:
        """Return the first evaluation whose window holds an element at `at`."""
        offset = at - self.start
        if not self.grid:
            return offset // self.step
        return -(-offset // self.step) if self.closure is Closure.LEFT_OPEN else offset // self.step + 1

    def last(self, at: Ints) -> Ints:
        """Return the last evaluation whose window holds an element at `at`."""
        offset = at + self.range - self.start
        return -(-offset // self.step) - 1 if self.closure is Closure.LEFT_OPEN else offset // self.step

    def lifetime(self, at: Ints, k: int) -> Ints:
        """L, formula (12): in how many evaluations, k included, an element at `at` still takes part."""
        return np.maximum(self.last(at) - k + 1, 0)


Moves: TypeAlias = list[tuple[Ints, Ints]]
"""SNs and the rows that they leave or enter, in parts"""


@dataclass(frozen=True, eq=False)
class Movement:
    """A change of the rows: rows emptied, counts taken out of others, counts put in; in this order."""

    emptied: Ints = field(default_factory=lambda: NO_INTS)
    left_sn: Ints = field(default_factory=lambda: NO_INTS)
    left_row: Ints = field(default_factory=lambda: NO_INTS)
    entered_sn: Ints = field(default_factory=lambda: NO_INTS)
    entered_row: Ints = field(default_factory=lambda: NO_INTS)
    evaluations: int = 0
    """how many evaluations have passed since the last one"""

    @property
    def parts(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """The arrays, as the kernels take them."""
        return self.emptied, self.left_sn, self.left_row, self.entered_sn, self.entered_row


@dataclass(eq=False)
class Window:
    """The content of one sliding window as a profile C, SN × H, kept up to date as mappings arrive and leave."""

    spec: WindowSpec
    ring: int
    """how many evaluations ahead are kept apart; what stays longer is one row, `far`"""
    k: int | None = None
    passed_over: int = 0
    """mappings that no evaluation will see: too late, or in the gap between two windows"""
    size: int = 0
    """mappings in the present window"""
    seen: int = 0
    """elements so far, the ordinals of a count window"""
    tallies: WindowCounts = field(init=False)
    """mappings per SN and last evaluation"""
    _waiting: dict[int, list[tuple[Ints, Ints]]] = field(default_factory=dict)
    _beyond: dict[int, list[Ints]] = field(default_factory=dict)
    _by_identity: dict[Hashable, tuple[int, int, int]] = field(default_factory=dict)
    _names: dict[int, list[Hashable]] = field(default_factory=dict)
    _replaced: list[tuple[int, int]] = field(default_factory=list)
    _withdrawn: Moves = field(default_factory=list)
    _left: list[tuple[Ints, Ints]] = field(default_factory=list)
    _entered: list[tuple[Ints, Ints]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make one row per evaluation ahead that the window can reach, and `far`."""
        self.ring = min(self.spec.span, self.ring)
        self.tallies = WindowCounts(self.ring)

    @property
    def far(self) -> int:
        """The row of mappings that stay beyond the horizon."""
        return self.ring

    def insert(self, at: Ints, sns: Ints, identity: Sequence[Hashable] | None = None) -> None:
        """Add mappings; a mapping of the same `identity` arriving again keeps its latest position."""
        if self.spec.count:
            at = np.arange(self.seen + 1, self.seen + sns.size + 1)
        self.seen += sns.size
        if sns.size:
            self.tallies.extend(int(sns.max()) + 1)
        upcoming = self.k + self.spec.grid if self.k is not None else -(2**62)
        first, last = np.maximum(self.spec.first(at), upcoming), self.spec.last(at)
        seen: Ints = np.flatnonzero(last >= first)
        self.passed_over += int(sns.size - seen.size)
        if identity is not None:
            seen = self._latest(first, last, sns, identity, seen)
        if seen.size == sns.size:
            self._schedule(first, last, sns)
        else:
            self._schedule(first[seen], last[seen], sns[seen])

    def remove(self, identities: Iterable[Hashable]) -> None:
        """Remove mappings before their time; they leave at the next evaluation."""
        for name in identities:
            held = self._by_identity.pop(name, None)
            if held is not None and not self._stop_waiting(*held):
                self._replaced.append(held[:2])

    def withdraw(self, at: Ints, sns: Ints) -> None:
        """Remove mappings without identity that came at these positions; they leave at the next evaluation."""
        self._withdrawn.append((self.spec.last(at), sns))

    def forget(self, sns: Ints) -> None:
        """Remove all mappings of these lookup keys at once, waiting ones too; for mappings without identity."""
        for due, parts in self._waiting.items():
            kept = [~np.isin(part, sns) for _, part in parts]
            self._waiting[due] = [(last[k], part[k]) for (last, part), k in zip(parts, kept, strict=True)]
        for due, beyond in self._beyond.items():
            self._beyond[due] = [part[~np.isin(part, sns)] for part in beyond]
        self.size -= int(self.tallies.total[sns].sum())
        self.tallies.rows[:, sns] = 0
        self.tallies.total[sns] = 0

    def due(self) -> int:
        """Return the latest evaluation of a count window whose last element has arrived."""
        return (self.seen - self.spec.start) // self.spec.step

    def advance(self, k: int) -> Movement:
        """Move to evaluation k: empty what expired, let in what is due."""
        if self.k is not None and k < self.k + self.spec.grid:
            raise TimeError(f"time goes backwards: evaluation {k} after evaluation {self.k}")
        for held in self._replaced:
            if held[0] >= k:  # what is over leaves with its row
                self._withdraw(*held)
        self._replaced.clear()
        for last, sns in self._withdrawn:
            self._withdraw_all(last[last >= k], sns[last >= k])
        self._withdrawn.clear()
        passed = 1 if self.k is None else k - self.k
        emptied = self._over(k)
        self.k = k
        for due in sorted(e for e in self._waiting if e <= k):
            for last, sns in self._waiting.pop(due):
                self._enter(last, sns)
        for due in sorted(e for e in self._beyond if e < k + self.ring):
            for sns in self._beyond.pop(due):
                self._left.append((sns, np.full(sns.size, self.far)))
                self.size -= sns.size
                self._enter(np.full(sns.size, due), sns)
        movement = Movement(emptied, *_joined(self._left), *_joined(self._entered), evaluations=passed)
        self._left, self._entered = [], []
        tallies = self.tallies
        fade = tallies.rates.fade(passed)
        self.size -= kernels.tally(tallies.rows, tallies.total, tallies.rates.counts, fade, *movement.parts)
        return movement

    def profile(self, sns: Selected, horizon: int) -> Floats:
        """C: entry (i, m) counts the mappings of SN i that are still in the window m evaluations from now."""
        if isinstance(sns, int):
            self.tallies.extend(sns)
        return self.tallies.still_there(self.k or 0, sns, horizon)

    def counts(self, sns: int) -> Ids:
        """c_i(0), the mappings of each SN in the present window."""
        return self.tallies.total[:sns]

    def busy(self, sns: int) -> Bools:
        """Return which lookup keys have a mapping in the window, or one that waits for it."""
        here: Bools = self.tallies.total[:sns] > 0
        for chunks in self._waiting.values():
            for _, waiting in chunks:
                here[waiting] = True
        return here

    def mappings_by_row(self) -> tuple[Ints, Ints]:
        """Every mapping in the window, as its SN and its row."""
        rows, sns = np.nonzero(self.tallies.rows)
        counts = self.tallies.rows[rows, sns]
        return np.repeat(sns, counts), np.repeat(rows, counts)

    def with_spec(self, spec: WindowSpec, ring: int, now: int) -> "Window":
        """Return another window over the same arrivals, as far as this one holds them.

        An arrival is placed where its row may have it at the latest. Expected arrivals are counted on in other steps.
        For mappings without identity, in a window without a grid.
        """
        found = Window(spec, ring)
        if self.k is not None:
            sns, rows = self.mappings_by_row()
            near = rows < self.far
            lasts = [self.k + (rows[near] - self.k) % self.ring]
            lasts += [np.full(part.size, due) for due, parts in self._beyond.items() for part in parts]
            sns = np.concatenate([sns[near], *(part for parts in self._beyond.values() for part in parts)])
            last = np.concatenate(lasts)
            at = self.spec.start + (last + 1) * self.spec.step - self.spec.range
            found.insert(np.minimum(at, now), sns)
            found.advance(spec.index(now))
        found.tallies.rates = self.tallies.rates.in_steps(self.spec.step / spec.step)
        found.tallies.extend(self.tallies.total.size)
        return found

    def dump(self, sns: Iterable[int]) -> dict[str, Any]:
        """Return the arrival rates of some lookup keys, and until which evaluation they hold; no mapping is in it."""
        rates = self.tallies.rates
        return {"k": self.k, "evaluations": rates.evaluations, "arrivals": [float(rates.counts[sn]) for sn in sns]}

    def load(self, evaluations: float, arrivals: Sequence[float], age: Sequence[int]) -> None:
        """Load arrival rates of all lookup keys from slot 0 on, each so many evaluations old."""
        self.tallies.extend(len(arrivals))
        self.tallies.rates.load(evaluations, arrivals, age)

    def _schedule(self, first: Ints, last: Ints, sns: Ints) -> None:
        """Let mappings wait for their first evaluation, nearly always the next one."""
        if first.size and first.min() == first.max():
            self._waiting.setdefault(int(first[0]), []).append((last, sns))
            return
        for due in np.unique(first).tolist():
            here = first == due
            self._waiting.setdefault(due, []).append((last[here], sns[here]))

    def _enter(self, last: Ints, sns: Ints) -> None:
        """Count mappings in the rows of their last evaluation, or in `far`."""
        assert self.k is not None
        if last.size and last.min() < self.k:
            alive = last >= self.k
            last, sns = last[alive], sns[alive]
        self.size += sns.size
        if not last.size or last.max() < self.k + self.ring:
            self._entered.append((sns, last % self.ring))
            return
        beyond = last >= self.k + self.ring
        for due in np.unique(last[beyond]).tolist():
            self._beyond.setdefault(due, []).append(sns[last == due])
        self._entered.append((sns, np.where(beyond, self.far, last % self.ring)))

    def _over(self, k: int) -> Ints:
        """Return the rows of the evaluations that are over; identities that lived until then are forgotten."""
        for e in [e for e in self._names if e < k]:
            for name in self._names.pop(e):
                if name in self._by_identity and self._by_identity[name][0] == e:
                    del self._by_identity[name]
        if self.k is None:
            return NO_INTS
        return np.arange(self.k, min(k, self.k + self.ring)) % self.ring

    def _latest(self, first: Ints, last: Ints, sns: Ints, identity: Sequence[Hashable], seen: Ints) -> Ints:
        """Return which arrivals count; those that they replace stop waiting, or leave at the next evaluation."""
        keep: dict[Hashable, int] = {}
        for n in seen.tolist():
            name, now = identity[n], (int(last[n]), int(sns[n]), int(first[n]))
            held = self._by_identity.get(name)
            if held is not None and held[0] >= now[0]:
                continue
            if held is not None and name not in keep and not self._stop_waiting(*held):
                self._replaced.append(held[:2])
            self._by_identity[name] = now
            self._names.setdefault(now[0], []).append(name)
            keep[name] = n
        return np.array(list(keep.values()), dtype=np.int64)

    def _stop_waiting(self, last: int, sn: int, first: int) -> bool:
        for n, (lasts, sns) in enumerate(self._waiting.get(first, [])):
            here = np.flatnonzero((lasts == last) & (sns == sn))
            if here.size:
                self._waiting[first][n] = (np.delete(lasts, here[0]), np.delete(sns, here[0]))
                return True
        return False

    def _withdraw(self, last: int, sn: int) -> None:
        """Take one mapping out of the window, out of a row or from beyond the horizon."""
        self.size -= 1
        row = last % self.ring
        for n, sns in enumerate(self._beyond.get(last, [])):
            here = np.flatnonzero(sns == sn)
            if here.size:
                self._beyond[last][n] = np.delete(sns, here[0])
                row = self.far
                break
        self._left.append((np.array([sn]), np.array([row])))

    def _withdraw_all(self, last: Ints, sns: Ints) -> None:
        """Withdraw many mappings; those that stay beyond the horizon are looked for one by one."""
        beyond = np.isin(last, list(self._beyond))
        for n in np.flatnonzero(beyond).tolist():
            self._withdraw(int(last[n]), int(sns[n]))
        self.size -= int(last.size - np.count_nonzero(beyond))
        self._left.append((sns[~beyond], last[~beyond] % self.ring))


def _joined(parts: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    if not parts:
        return NO_INTS, NO_INTS
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([sns for sns, _ in parts]), np.concatenate([rows for _, rows in parts])
