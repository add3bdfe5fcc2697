"""The rows of an enricher: found by key, drawn at random for eviction, and how often their keys are read."""

import math
import random
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

NOW = -math.inf
"""An entry with this time of its next check is considered at its next read."""
SAMPLED_FOR_EVICTION = 16
FIRST_GAP_MS = 60_000.0
"""The mean time between reads of a key that is assumed before anything was read twice."""


class Entry:
    """A row in the cache, with what was learned of its key."""

    __slots__ = (
        "changes", "check_at", "doubt_from", "epoch", "exposure", "fetched", "fingerprint", "judged", "key", "reads",
        "since", "value",
    )  # fmt: skip

    def __init__(self, key: Hashable, now: float) -> None:
        self.key = key
        self.value: Any = None
        self.fetched = self.doubt_from = now
        self.check_at = NOW
        """the time from which on a read considers a fetch; earlier if the price has changed since `epoch`"""
        self.epoch = self.fingerprint = 0
        self.reads = self.judged = 0
        """reads so far, with a short memory, and how many of them the controller has heard of"""
        self.since = now
        """the time from which on `reads` are counted"""
        self.changes = 0
        self.exposure = 0.0


@dataclass(eq=False)
class RowTable:
    """Entries by key, at most `capacity` of them; nothing ever walks through all of them."""

    capacity: int
    started: float
    """ms; the time from which on reads are counted"""
    seed: int = 0
    entries: dict[Hashable, Entry] = field(default_factory=dict)
    reads: float = 0.0
    """all reads so far, set by the engine now and then"""
    _drawable: list[Entry] = field(default_factory=list)
    """the entries in any order, and some that were removed since"""
    _lived: float = 0.0
    """the sum of the times that entries were in the table, up to `_lived_until`, in ms"""

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._lived_until = self.started

    def insert(self, key: Hashable, now: float) -> tuple[Entry, list[Hashable]]:
        """Add an entry; return it with the keys that had to make room."""
        evicted = []
        while len(self.entries) >= self.capacity:
            evicted += self._evict(now)
        self._count_time(now)
        entry = Entry(key, now)
        entry.reads = 1
        if len(self._drawable) > 2 * len(self.entries) + SAMPLED_FOR_EVICTION:  # most of them were removed
            self._drawable = list(self.entries.values())
        self._drawable.append(entry)
        self.entries[key] = entry
        return entry, evicted

    def remove(self, key: Hashable, now: float) -> None:
        """Drop the entry of a key, if there is one."""
        self._count_time(now)
        self.entries.pop(key, None)

    def clear(self) -> None:
        """Drop all entries."""
        self.entries.clear()
        self._drawable.clear()

    def gap(self, now: float) -> float:
        """Return the mean time between two reads of a key, in ms."""
        lived = self._lived + (now - self._lived_until) * len(self.entries)
        return (lived + FIRST_GAP_MS) / (self.reads + 1.0)

    def read_rate(self, entry: Entry, now: float) -> float:
        """Return the reads of a key per millisecond; of a key read once little is known, so it counts as little."""
        return (entry.reads + 0.5) / (now - entry.since + self.gap(now))

    def _evict(self, now: float) -> list[Hashable]:
        """Drop the entry that is read least of a few drawn at random."""
        least: Entry | None = None
        place = 0
        for _ in range(SAMPLED_FOR_EVICTION):
            drawn = self._rng.randrange(len(self._drawable))
            entry = self._drawable[drawn]
            if self.entries.get(entry.key) is not entry:  # removed since
                least, place = entry, drawn
                break
            if least is None or self.read_rate(entry, now) < self.read_rate(least, now):
                least, place = entry, drawn
        assert least is not None
        last = self._drawable.pop()
        if last is not least:
            self._drawable[place] = last
        if self.entries.get(least.key) is not least:
            return []
        self.remove(least.key, now)
        return [least.key]

    def _count_time(self, now: float) -> None:
        self._lived += (now - self._lived_until) * len(self.entries)
        self._lived_until = now
