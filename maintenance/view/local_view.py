"""The local view R in columns: which SNs and SRs are held, the edges between them, and the age of every copy.

An SN that the window needs and the view lacks is a miss: it gets a placeholder SR, keyed `Miss(sn)`, so that a policy
weighs fetching it like any refresh. When it is fetched, its edges and copies take the placeholder's place.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.view.changes import ChangeModel
from freshkeeper.maintenance.view.slots import Slots
from freshkeeper.policies.arrays import Bools, Ids, Ints
from freshkeeper.policies.base import NEVER
from freshkeeper.policies.errors import ConfigError


@dataclass(frozen=True)
class Miss:
    """The key of the placeholder of an SN that the view lacks."""

    sn: Hashable


@dataclass(eq=False)
class View:
    """The cached answers of one SERVICE pattern."""

    graph: MaintenanceGraph
    model: ChangeModel
    capacity: int | None = None
    """how many SRs may be held; None for any number"""
    sns: Slots = field(default_factory=Slots)
    srs: Slots = field(default_factory=Slots)
    values: list[object] = field(default_factory=list)
    last_refresh: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    evicted: int = 0
    misses: set[int] = field(default_factory=set)
    """the slots of placeholders"""

    def __post_init__(self) -> None:
        """A view that may hold nothing is a mistake."""
        if self.capacity is not None and self.capacity < 1:
            raise ConfigError(f"a view's capacity must be at least 1, not {self.capacity}; leave it out for any number")

    def load(self, edges: Sequence[tuple[Hashable, Hashable]], values: dict[Hashable, object], now: int) -> None:
        """Start warm: all edges and a fresh copy of every value, as of `now`."""
        sn = np.array([self.sns.take(sn)[0] for sn, _ in edges], dtype=np.int32)
        sr = np.array([self._slot(sr) for _, sr in edges], dtype=np.int32)
        self.load_slots(sn, sr, now)
        for key, value in values.items():
            if key in self.srs.numbers:
                self.values[self.srs.numbers[key]] = value

    def load_numbered(self, sn: Ids, sr: Ids, sns: int, srs: int, now: int) -> None:
        """Start warm with keys that are the numbers themselves, without a loop over edges."""
        self.sns, self.srs = _numbered(sns), _numbered(srs)
        self.values = [None] * srs
        self.last_refresh = np.full(srs, NEVER)
        self.model.admit(np.arange(srs, dtype=np.int32), range(srs))
        self.load_slots(sn, sr, now)

    def load_slots(self, sn: Ids, sr: Ids, now: int) -> None:
        """Lay the edges between slots that are taken, and call every copy fetched at `now`."""
        self.graph.load(sn, sr, self.sns.width, self.srs.width)
        self.last_refresh[:] = now

    def sn_slots(self, keys: Iterable[Hashable]) -> Ints:
        """The slots of the SNs that arrive; those that the view lacks become misses."""
        keys, numbers = list(keys), self.sns.numbers
        self._miss([key for key in dict.fromkeys(keys) if key not in numbers])
        return np.array([numbers[key] for key in keys], dtype=np.int64)

    @property
    def degree(self) -> float:
        """How many SRs an SN that was fetched has on average, which is what a miss may be expected to bring."""
        fetched = len(self.sns) - len(self.misses)
        return max(1.0, (self.graph.edges - len(self.misses)) / fetched) if fetched > 0 else 1.0

    def missing(self, slots: Ints | Ids) -> Bools:
        """Which of these slots are placeholders."""
        found: Bools = np.isin(slots, np.fromiter(self.misses, np.int64, len(self.misses)))
        return found

    def store(self, slots: Ids, values: Sequence[object], now: int) -> Bools:
        """New copies, fetched at `now`; tells which differ from those that they replace."""
        held = self.last_refresh[slots] != NEVER
        changed = np.zeros(len(slots), bool)
        for n, (slot, value) in enumerate(zip(slots.tolist(), values, strict=True)):
            changed[n] = held[n] and self.values[slot] != value
            self.values[slot] = value
        self.last_refresh[slots] = now
        return changed

    def complete(self, sn: Hashable, srs: Sequence[Hashable]) -> Ids:
        """A miss was fetched: its edges take the placeholder's place; returns the slots of its SRs."""
        slot = self.sns.numbers[sn]
        placeholder = self.srs.numbers.get(Miss(sn))
        inputs = np.array([self._slot(sr) for sr in srs], dtype=np.int32)
        self.graph.extend(self.sns.width, self.srs.width)
        for sr in inputs.tolist():
            self.graph.add_edge(slot, sr)
        if placeholder is not None:
            self.graph.remove_edge(slot, placeholder)
            self._release_sr(placeholder)
        return inputs

    def disconnect(self, sn: Hashable, sr: int) -> None:
        """An edge is gone at the source; an SR without edges is let go."""
        self.graph.remove_edge(self.sns.numbers[sn], sr)
        if not self.graph.by_sr.of(sr).size:
            self._release_sr(sr)

    def evict(self) -> None:
        """Let go of SNs that are out of every window, least demanded first, until the SRs fit the capacity."""
        if self.capacity is None or len(self.srs) <= self.capacity:
            return
        window, before = self.graph.window, len(self.srs)
        busy, often = window.busy(self.sns.width), window.tallies.rates.counts
        idle = [slot for slot in self.sns.numbers.values() if not busy[slot]]
        for slot in sorted(idle, key=lambda slot: (often[slot], slot)):
            if len(self.srs) <= self.capacity:
                break
            self._release_sn(slot)
        self.evicted += before - len(self.srs)

    def _miss(self, keys: Sequence[Hashable]) -> None:
        """SNs that the view lacks get a placeholder each."""
        if not keys:
            return
        missed = [(self.sns.take(key)[0], self._slot(Miss(key))) for key in keys]
        self.graph.extend(self.sns.width, self.srs.width)
        for slot, placeholder in missed:
            self.misses.add(placeholder)
            self.graph.add_edge(slot, placeholder)

    def _slot(self, key: Hashable) -> int:
        slot, new = self.srs.take(key)
        if not new:
            return slot
        if slot == len(self.values):
            self.values.append(None)
            self._grow()
        self.values[slot] = None
        self.last_refresh[slot] = NEVER
        self.model.admit(np.array([slot], dtype=np.int32), [key])
        return slot

    def _grow(self) -> None:
        """One more row in the column of refresh times, with room for as many again."""
        width = len(self.values)
        base = self.last_refresh.base
        room = base if isinstance(base, np.ndarray) and base.size >= width else None
        if room is None:
            room = np.full(max(16, 2 * width), NEVER)
            room[: width - 1] = self.last_refresh
        self.last_refresh = room[:width]

    def _release_sn(self, slot: int) -> None:
        for sr in self.graph.by_sn.of(slot).tolist():
            self.graph.remove_edge(slot, sr)
            if not self.graph.by_sr.of(sr).size:
                self._release_sr(sr)
        self.graph.window.tallies.rates.counts[slot] = 0.0
        self.sns.release(slot)

    def _release_sr(self, slot: int) -> None:
        self.model.evict(np.array([slot], dtype=np.int32))
        self.graph.tallies.rates.counts[slot] = 0.0
        self.misses.discard(slot)
        self.srs.release(slot)
        self.values[slot] = None
        self.last_refresh[slot] = NEVER


def _numbered(count: int) -> Slots:
    return Slots(list(range(count)), {n: n for n in range(count)})
