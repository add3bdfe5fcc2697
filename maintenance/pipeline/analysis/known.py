"""What answers are judged by: changes, evaluations and choices as sorted numbers, small enough for every executor."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from freshkeeper.policies.arrays import Bools, Ints

NEVER_STALE = 2**63 - 1
UNKNOWN = -(2**63)
"""When a copy was fetched of which nobody knows; it is never fresh."""
ROOM = 2**62


def coded(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Words as numbers, and the words; what is null is -1."""
    encoded = column if types.is_dictionary(column.type) else column.dictionary_encode()
    whole = encoded.unify_dictionaries().combine_chunks()
    assert isinstance(whole, pa.DictionaryArray)
    return numbered(whole.indices), whole.dictionary


def numbered(column: pa.Array) -> Ints:
    """Numbers; -1 for what is null."""
    found: Ints = pc.fill_null(column, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def packed(*columns: Ints) -> Ints:
    """One number for each row, equal where all columns are."""
    number, room = np.zeros(columns[0].size, np.int64), 1
    for column in columns if columns[0].size else ():
        low, width = int(column.min()), int(column.max()) - int(column.min()) + 1
        if room * width >= ROOM:
            column, low = _ranked(column), 0
            width = int(column.max()) + 1
        if room * width >= ROOM:
            number = _ranked(number)
            room = int(number.max()) + 1
        number = number * width + (column - low)
        room *= width
    return number


def grouped(*columns: Ints) -> tuple[Ints, Ints]:
    """The first row of every group, and the group of every row; equal rows that follow one another cost nothing."""
    number = packed(*columns)
    differ = np.ones(number.size, bool)
    differ[1:] = number[1:] != number[:-1]
    starts = np.flatnonzero(differ)
    _, first, group = np.unique(number[starts], return_index=True, return_inverse=True)
    return starts[first], np.repeat(group, np.diff(starts, append=number.size))


def _ranked(column: Ints) -> Ints:
    return np.unique(column, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class Known:
    """A world is a setting and a seed, and has changes of its own; a run is of one policy in it."""

    entries: pa.Array
    worlds: Mapping[tuple[str, int], int]
    runs: Mapping[tuple[str, str, int], int]
    moments: Ints
    """All that evaluations have; an evaluation is a run and a place in here."""
    times: Ints
    """All at which anything changed."""
    changes: Ints
    """Sorted numbers of world, entry and place in `times`."""
    evaluations: Ints | None
    """Sorted; None where there is no such table, and all count."""
    counts: Bools
    """Of these, which are no warm-up."""
    chosen: Ints
    """Sorted numbers of evaluation and entry."""
    cases: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By setting and policy, where answers do not say it."""
    lookup_keys: bool = True
    """Whether answers name them."""
    unnamed: frozenset[str] = frozenset()
    """What of setting and seed changes do not name: they are of every one alike."""

    def world(self, setting: str, seed: int) -> int:
        """Whose changes those of a setting and seed are; -1 where there are none."""
        return self.worlds.get(
            ("" if "setting" in self.unnamed else setting, 0 if "seed" in self.unnamed else seed), -1
        )

    def numbers(self, words: pa.Array) -> Ints:
        """Of entries; -1 for one that neither changed nor was refreshed."""
        return numbered(pc.index_in(words, value_set=self.entries))

    def stale_from(self, worlds: Ints, entries: Ints, refreshed: Ints) -> Ints:
        """The first change after a copy was fetched; one at that very instant is not after it."""
        width = self.times.size + 1
        whose = worlds * len(self.entries) + entries
        after = np.searchsorted(self.times, refreshed, "right")
        at = np.searchsorted(self.changes, whose * width + after)
        found = np.full(worlds.size, NEVER_STALE, np.int64)
        if self.changes.size:
            change = self.changes[np.minimum(at, self.changes.size - 1)]
            same = (at < self.changes.size) & (change // width == whose) & (worlds >= 0) & (entries >= 0)
            found[same] = self.times[change[same] % width]
        found[refreshed == UNKNOWN] = UNKNOWN
        return found

    def evaluation(self, runs: Ints, moments: Ints) -> Ints:
        """The numbers of evaluations; -1 for one that nothing is known of."""
        at = np.searchsorted(self.moments, moments)
        there = (runs >= 0) & (at < self.moments.size)
        there[there] &= self.moments[at[there]] == moments[there]
        return np.where(there, runs * self.moments.size + at, -1)

    def counting(self, evaluations: Ints) -> tuple[Bools, Bools]:
        """Which of them there are, and which of these count."""
        if self.evaluations is None:
            return np.ones(evaluations.size, bool), np.ones(evaluations.size, bool)
        if not self.evaluations.size:
            return np.zeros(evaluations.size, bool), np.zeros(evaluations.size, bool)
        at = np.minimum(np.searchsorted(self.evaluations, evaluations), self.evaluations.size - 1)
        there = (self.evaluations[at] == evaluations) & (evaluations >= 0)
        return there, there & self.counts[at]

    def was_chosen(self, evaluations: Ints, entries: Ints) -> Bools:
        """Whether an entry was asked for in an evaluation."""
        if not self.chosen.size:
            return np.zeros(entries.size, bool)
        wanted = evaluations * len(self.entries) + entries
        at = np.minimum(np.searchsorted(self.chosen, wanted), self.chosen.size - 1)
        found: Bools = (self.chosen[at] == wanted) & (evaluations >= 0) & (entries >= 0)
        return found
