"""The local view R in columns: which SNs and SRs are held, the edges between them, and the age of every copy.

An SN that the window needs and the view lacks is a miss: it gets a placeholder among the SRs, so that a policy weighs
fetching it like any refresh. When it is fetched, its edges and copies take the placeholder's place. Where edges are
refreshed, those of an SN have a slot among the SRs too. Both have the SN's key: the column `kinds` tells them apart.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from freshkeeper.maintenance.base.arrays import Bools, Ids, Ints, Kinds
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.demand.graph import MaintenanceGraph
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.slots import Slots
from freshkeeper.policies.base import NEVER

Number = TypeVar("Number", bound=np.integer)


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
    kinds: Kinds = field(default_factory=lambda: np.empty(0, np.int8))
    form: Callable[[object], object] | None = None
    """what is kept of a value; all of it unless somebody says otherwise"""
    elsewhere: tuple[int, int] = (0, 0)
    """edges and SNs of the same cache that somebody else holds"""
    released: int = 0
    """how often an SN was let go: slots that were known before may be another's"""

    def __post_init__(self) -> None:
        """Raise ConfigError for a capacity below 1."""
        if self.capacity is not None and self.capacity < 1:
            raise ConfigError(f"a view's capacity must be at least 1, not {self.capacity}; leave it out for any number")

    def fill(self, edges: Sequence[tuple[Hashable, Hashable]], values: dict[Hashable, object], now: int) -> None:
        """Start warm: all edges and a fresh copy of every value, as of `now`."""
        sn = np.array([self.sns.take(sn)[0] for sn, _ in edges], dtype=np.int32)
        sr = np.array([self._slot(sr) for _, sr in edges], dtype=np.int32)
        self.fill_slots(sn, sr, now)
        for key, value in values.items():
            if key in self.srs.numbers:
                self.values[self.srs.numbers[key]] = value

    def hold(self, srs: Sequence[Hashable], values: Sequence[object], at: Ints) -> Ids:
        """Return the slots of entries; new ones get a copy of that time, and no lookup key needs them yet."""
        new = [n for n, sr in enumerate(srs) if sr not in self.srs.numbers]
        slots = np.array([self._slot(sr) for sr in srs], np.int32)
        for n in new:
            self.values[slots[n]] = values[n]
        self.last_refresh[slots[new]] = at[new]
        self.graph.extend(self.sns.width, self.srs.width)
        return slots

    def fill_numbered(self, sn: Ids, sr: Ids, sns: int, srs: int, now: int) -> None:
        """Start warm with keys that are the numbers themselves, without a loop over edges."""
        self.sns, self.srs = _numbered(sns), _numbered(srs)
        self.values = [None] * srs
        self.last_refresh, self.kinds = np.full(srs, NEVER), np.zeros(srs, np.int8)
        self.model.admit(np.arange(srs, dtype=np.int32), range(srs))
        self.fill_slots(sn, sr, now)

    def fill_slots(self, sn: Ids, sr: Ids, now: int) -> None:
        """Lay the edges between slots that are taken, and call every copy fetched at `now`."""
        self.graph.lay(sn, sr, self.sns.width, self.srs.width)
        self.last_refresh[:] = now

    def sn_slots(self, keys: Iterable[Hashable]) -> Ints:
        """Return the slots of the lookup keys that arrive; those that the view lacks become misses."""
        keys, numbers = list(keys), self.sns.numbers
        self._miss([key for key in dict.fromkeys(keys) if key not in numbers])
        return np.array([numbers[key] for key in keys], dtype=np.int64)

    @property
    def misses(self) -> dict[Hashable, int]:
        """The slots of the SNs that the window needs and the view lacks."""
        return self.srs.by_kind[Kind.MISS]

    @property
    def degree(self) -> float:
        """The mean number of entries of a fetched lookup key, which is what a miss is expected to bring."""
        edges, sns = self.elsewhere
        fetched = len(self.sns) - len(self.misses) + sns
        return max(1.0, (self.graph.edges - len(self.misses) + edges) / fetched) if fetched > 0 else 1.0

    def missing(self, slots: Ints | Ids) -> Bools:
        """Return which of these slots are misses."""
        found: Bools = self.kinds[slots] == Kind.MISS
        return found

    def store(self, slots: Ids, values: Sequence[object], now: int) -> Bools:
        """Store copies fetched at `now`; return which differ from those that they replace."""
        held = self.last_refresh[slots] != NEVER
        changed = np.zeros(len(slots), bool)
        kept = values if self.form is None else [self.form(value) for value in values]
        for n, (slot, value) in enumerate(zip(slots.tolist(), kept, strict=True)):
            changed[n] = held[n] and self.values[slot] != value
            self.values[slot] = value
            self.srs.note(slot)
        self.last_refresh[slots] = now
        return changed

    def complete(self, sn: Hashable, srs: Sequence[Hashable], edges: bool) -> Ids:
        """Replace the placeholder of a lookup key by its entries; return their slots, and that of its edges."""
        slot, placeholder = self.sns.numbers[sn], self.misses.get(sn)
        slots = [*map(self._slot, srs), *([self._slot(sn, Kind.EDGES)] if edges else [])]
        inputs = np.array(slots, dtype=np.int32)
        self.graph.extend(self.sns.width, self.srs.width)
        for sr in inputs.tolist():
            self.graph.add_edge(slot, sr)
        if placeholder is not None:
            self.graph.remove_edge(slot, placeholder)
            self._release_sr(placeholder)
        return inputs

    def disconnect(self, sn: Hashable, sr: int) -> None:
        """Remove an edge that is gone at the source; an entry without edges is released."""
        self.graph.remove_edge(self.sns.numbers[sn], sr)
        if not self.graph.by_sr.of(sr).size:
            self._release_sr(sr)

    def release(self, sns: Ints) -> None:
        """Let go of these SNs, though the window may need them: what it holds of them is forgotten."""
        for slot in sns.tolist():
            self._release_sn(slot)
        self.graph.window.forget(sns)

    def watch(self) -> None:
        """Note from now on what changes, for `changed`."""
        self.sns.changed, self.srs.changed = {}, {}
        self.graph.rewired.clear()

    def changed(self) -> tuple[list[int], list[int]]:
        """Return the slots of keys and entries that changed since the last call, released ones included."""
        noted = self.sns.changed or {}, self.srs.changed or {}, self.graph.rewired
        sns, srs, rewired = map(list, noted)
        edges = compress(srs, (self.kinds[srs] == Kind.EDGES).tolist())
        renewed = (self.sns.numbers[key] for slot in edges if (key := self.srs.keys[slot]) in self.sns.numbers)
        for each in noted:
            each.clear()
        return list(dict.fromkeys([*sns, *renewed, *rewired])), srs

    def dump(self, srs: Sequence[int]) -> dict[str, list[Any]]:
        """Columns of some slots of SRs; free ones have no key."""
        return {
            "key": [self.srs.keys[slot] for slot in srs],
            "kind": self.kinds[srs].tolist(),
            "value": [self.values[slot] for slot in srs],
            "refreshed": self.last_refresh[srs].tolist(),
        }

    def load(self, columns: Mapping[str, Sequence[Any]], free: Sequence[int]) -> None:
        """Load columns of all slots from 0 on, into a view that is empty."""
        self.srs.load(columns["key"], columns["kind"], free)
        self.values = list(columns["value"])
        self.kinds, self.last_refresh = np.array(columns["kind"], np.int8), np.array(columns["refreshed"], np.int64)

    def evict(self) -> None:
        """Let go of SNs that are out of every window, least demanded first, until the SRs fit the capacity."""
        if self.capacity is None or len(self.srs) <= self.capacity:
            return
        window = self.graph.window
        busy, often = window.busy(self.sns.width), window.tallies.rates.counts
        idle = [slot for slot in self.sns.numbers.values() if not busy[slot]]
        for slot in sorted(idle, key=lambda slot: (often[slot], slot)):
            if len(self.srs) <= self.capacity:
                break
            self._release_sn(slot)

    def _miss(self, keys: Sequence[Hashable]) -> None:
        """SNs that the view lacks get a placeholder each."""
        if not keys:
            return
        missed = [(self.sns.take(key)[0], self._slot(key, Kind.MISS)) for key in keys]
        self.graph.extend(self.sns.width, self.srs.width)
        for slot, placeholder in missed:
            self.graph.add_edge(slot, placeholder)

    def _slot(self, key: Hashable, kind: Kind = Kind.COPY) -> int:
        slot, new = self.srs.take(key, kind)
        if not new:
            return slot
        if slot == len(self.values):
            self.values.append(None)
            self._grow()
        self.values[slot] = None
        self.last_refresh[slot], self.kinds[slot] = NEVER, kind
        self.model.admit(np.array([slot], dtype=np.int32), [key if kind == Kind.COPY else None])
        return slot

    def _grow(self) -> None:
        """Add one row to the columns, with room for as many again."""
        width = len(self.values)
        self.last_refresh, self.kinds = _longer(self.last_refresh, width), _longer(self.kinds, width)

    def _release_sn(self, slot: int) -> None:
        for sr in self.graph.by_sn.of(slot).tolist():
            self.graph.remove_edge(slot, sr)
            if not self.graph.by_sr.of(sr).size:
                self._release_sr(sr)
        self.graph.window.tallies.rates.counts[slot] = 0.0
        self.sns.release(slot)
        self.released += 1

    def _release_sr(self, slot: int) -> None:
        self.model.evict(np.array([slot], dtype=np.int32))
        self.graph.tallies.rates.counts[slot] = 0.0
        self.srs.release(slot, int(self.kinds[slot]))
        self.values[slot] = None
        self.last_refresh[slot], self.kinds[slot] = NEVER, Kind.COPY


def _numbered(count: int) -> Slots:
    return Slots(list(range(count)), ({n: n for n in range(count)}, *({} for _ in Kind if _)))


def _longer(column: NDArray[Number], width: int) -> NDArray[Number]:
    """Return a column of this width, with room behind it."""
    base = column.base
    if isinstance(base, np.ndarray) and base.size >= width:
        return base[:width]
    room = np.empty(max(16, 2 * width), column.dtype)
    room[: column.size] = column
    return room[:width]
