"""The rows of an enricher: found by key, drawn at random for eviction, and how often their keys are read."""

import math
import random
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from freshkeeper.maintenance.beliefs.change_rates import ChangeRates

NOW = -math.inf
"""An entry with this time of its next check is considered at its next read."""
SAMPLED_FOR_EVICTION = 16
MAX_COUNTED_READS = 64
"""Reads of a key are counted with a memory of about so many."""
FIRST_INTERVAL_MS = 600_000.0
"""Rows are taken to change every ten minutes until something was learned."""
MIN_PACE_READS = 32
"""The present pace is that of the last reads: half as many as there are rows, and at least so many."""
FIRST_READS, FIRST_READS_MS = 1.0, 1000.0
"""The pace that is assumed before any time has passed."""


class Entry:
    """A row in the cache, with what was learned of its key."""

    __slots__ = (
        "changes", "check_at", "counted_from", "doubt_from", "epoch", "exposure", "fetched", "fingerprint", "judged",
        "key", "reads", "value",
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
        self.counted_from = 0.0
        """the number of reads of all keys from which on `reads` are counted"""
        self.changes = 0.0
        self.exposure = 0.0


@dataclass(eq=False)
class RowTable:
    """Entries by key, at most `capacity` of them; nothing ever walks through all of them."""

    capacity: int
    now: float
    """ms; the time up to which reads were counted"""
    seed: int = 0
    entries: dict[Hashable, Entry] = field(default_factory=dict)
    rates: ChangeRates = field(default_factory=lambda: ChangeRates(FIRST_INTERVAL_MS))
    reads: float = 0.0
    """reads of all keys so far, set by the engine"""
    pace: float = FIRST_READS / FIRST_READS_MS
    """reads of all keys per millisecond at present"""
    _drawable: list[Entry] = field(default_factory=list)
    """the entries in any order, and some that were removed since"""
    _paced_reads: float = 0.0
    """`reads` when the pace was last measured"""
    _recent_reads: float = FIRST_READS
    _recent_ms: float = FIRST_READS_MS

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def insert(self, key: Hashable, now: float) -> tuple[Entry, list[Hashable]]:
        """Add an entry; return it with the keys that had to make room."""
        evicted = []
        while len(self.entries) >= self.capacity:
            evicted += self._evict()
        entry = Entry(key, now)
        entry.reads = 1
        # A key that was read once is taken to be read as often as the average key of the table. The rate that follows
        # begins with these reads and is halved with them, so that a popular key is not held down by it for ever.
        entry.counted_from = self.reads - len(self.entries) - 1
        if len(self._drawable) > 2 * len(self.entries) + SAMPLED_FOR_EVICTION:  # most of them were removed
            self._drawable = list(self.entries.values())
        self._drawable.append(entry)
        self.entries[key] = entry
        return entry, evicted

    def remove(self, key: Hashable) -> None:
        """Drop the entry of a key, if there is one."""
        self.entries.pop(key, None)

    def clear(self) -> None:
        """Drop all entries."""
        self.entries.clear()
        self._drawable.clear()

    def measure_pace(self, now: float) -> None:
        """Measure how many reads come in a millisecond at present."""
        new = self.reads - self._paced_reads
        fading = math.exp(-new / max(len(self.entries) / 2, MIN_PACE_READS))
        self._recent_reads = self._recent_reads * fading + new
        self._recent_ms = self._recent_ms * fading + max(now - self.now, 0.0)
        self._paced_reads, self.now = self.reads, now
        self.pace = self._recent_reads / self._recent_ms

    def read_rate(self, entry: Entry) -> float:
        """Return the reads of a key per millisecond: its share of all reads, at the pace of the present hour."""
        return (entry.reads + 0.5) / (self.reads - entry.counted_from) * self.pace

    def keeping_worth(self, entry: Entry) -> float:
        """Return how many reads in a millisecond a row answers rightly if it is fetched at every read that is not.

        A read finds the row of the read before still right if no change came between: with μ/(μ + λ).
        """
        reads = self.read_rate(entry)
        return reads * reads / (reads + self.rates.of_row(entry).mean)

    def known_ms(self, entry: Entry) -> float:
        """Return for how long the reads of a key have been counted, at the present pace."""
        return (self.reads - entry.counted_from) / self.pace

    def fade_reads(self, entry: Entry) -> None:
        """Count the reads of a key with a short memory; the rate that follows from them stays."""
        if entry.reads > MAX_COUNTED_READS:
            entry.reads //= 2
            entry.counted_from = (entry.counted_from + self.reads) / 2

    def _evict(self) -> list[Hashable]:
        """Drop the entry that is worth least of a few drawn at random."""
        least: Entry | None = None
        place = 0
        for _ in range(SAMPLED_FOR_EVICTION):
            drawn = self._rng.randrange(len(self._drawable))
            entry = self._drawable[drawn]
            if self.entries.get(entry.key) is not entry:  # removed since
                least, place = entry, drawn
                break
            if least is None or self.keeping_worth(entry) < self.keeping_worth(least):
                least, place = entry, drawn
        assert least is not None
        last = self._drawable.pop()
        if last is not least:
            self._drawable[place] = last
        if self.entries.get(least.key) is not least:
            return []
        self.remove(least.key)
        return [least.key]
