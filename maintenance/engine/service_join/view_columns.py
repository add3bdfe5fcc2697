"""The entries of a view in columns of ids: the solutions of SERVICE for the lookup keys in the window.

A row combines an edge of the static part with a row of the entry. Entries are encoded when they were refreshed, edges
when their lookup key was fetched; nothing else is touched by a refresh.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from pyoxigraph import BlankNode, Triple

from freshkeeper.maintenance.base.arrays import NO_INTS, Bools, Ids, Ints, grown, spread
from freshkeeper.maintenance.cache.evaluation import Evaluation, Join
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.group_index import GroupIndex
from freshkeeper.maintenance.engine.evaluator import TermRow
from freshkeeper.maintenance.engine.service_join.service_rows import has_blank_node, skolem
from freshkeeper.maintenance.sources.pattern_source import PatternSource
from freshkeeper.policies.base import NEVER

UNBOUND = -1
STALE_EDGES = 1_000
"""Edges of removed lookup keys that are tolerated before they are cleared."""


@dataclass(eq=False)
class RowPool:
    """Variable-length groups of rows by number; replaced groups leave gaps, which are closed once they dominate."""

    width: int
    """ids per row"""
    start: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    count: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    rows: Ints = field(init=False)
    used: int = 0
    live: int = 0

    def __post_init__(self) -> None:
        self.rows = np.empty((self.width, 0), np.int64)

    def put(self, numbers: Ints, counts: Ints, rows: Ints) -> None:
        """Replace the rows of some numbers; `rows` has them one group after the other."""
        self._know(int(numbers.max(initial=-1)) + 1)
        self.live += rows.shape[1] - int(self.count[numbers].sum())
        self.start[numbers] = self.used + np.cumsum(counts) - counts
        self.count[numbers] = counts
        end = self.used + rows.shape[1]
        self.rows = grown(self.rows, end, axis=-1)
        self.rows[:, self.used : end] = rows
        self.used = end
        # Closing gaps copies everything, so wait until three quarters are gaps: amortised O(1) per row.
        if self.used > 4 * self.live + 1_000:
            places = spread(self.start, self.count)
            self.rows = self.rows[:, places]
            self.start, self.used = np.cumsum(self.count) - self.count, self.live

    def holds(self, numbers: Ints, counts: Ints, rows: Ints) -> Bools:
        """Return which of these numbers have exactly these rows already."""
        self._know(int(numbers.max(initial=-1)) + 1)
        same: Bools = self.count[numbers] == counts
        there = np.repeat(same, counts)
        mine = self.rows[:, spread(self.start[numbers[same]], counts[same])]
        other = (mine != rows[:, there]).any(axis=0)
        same[np.repeat(np.arange(numbers.size), counts)[there][other]] = False
        return same

    def mark(self, live: Bools) -> None:
        """Set live[id] for the ids of all rows."""
        ids = self.rows[:, spread(self.start, self.count)].ravel()
        live[ids[ids >= 0]] = True

    def _know(self, width: int) -> None:
        have = self.start.size
        if width > have:
            self.start, self.count = (np.concatenate([c, np.zeros(width, np.int64)]) for c in (self.start, self.count))


@dataclass(frozen=True, eq=False)
class ServiceExpansion:
    """The rows that SERVICE adds to some solutions, one per joining pair."""

    solutions: Ints
    """the position of the solution"""
    columns: dict[str, Ints]
    srs: Ids
    """the slot of the entry that made each row"""


@dataclass(eq=False)
class ViewChanges:
    """Collects the changes of a view until they are taken."""

    sns: list[Ints] = field(default_factory=list)
    """lookup keys whose edges were read"""
    srs: list[Ints] = field(default_factory=list)
    """entries with other rows than before"""

    def take(self) -> tuple[Ints, Ints]:
        """Return the distinct lookup keys and entries, and forget them."""
        sns = np.unique(np.concatenate([NO_INTS, *self.sns]))
        srs = np.unique(np.concatenate([NO_INTS, *self.srs]))
        self.sns.clear()
        self.srs.clear()
        return sns, srs


@dataclass(eq=False)
class ViewColumns:
    """The columns of one view, under the names of its endpoint."""

    manager: Manager
    source: PatternSource
    dictionary: Dictionary
    blanks: dict[int, int] = field(default_factory=dict)
    """blank nodes of the source, by the ids of the IRIs that stand for them"""
    listeners: list[ViewChanges] = field(default_factory=list)
    _seen: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _read: dict[int, tuple[object, object]] = field(default_factory=dict)
    """the key and value that the rows of each slot were made of: unchanged ones are not encoded again"""
    _followed: Evaluation | None = None
    _missing: set[int] = field(default_factory=set)
    _nameless: set[int] = field(default_factory=set)
    """lookup keys that contain a blank node, so that no source can be queried for them"""
    _edges: GroupIndex = field(default_factory=GroupIndex)
    _edge_count: int = 0

    def __post_init__(self) -> None:
        split = self.source.split
        # Columns of an edge are the variables that neither its key nor the entry has; the key is stored with the rows
        # of the entry.
        self._extra = [n for n, name in enumerate(self.source.edge) if name not in split.key]
        self._edge_names = tuple(self.source.edge[n] for n in self._extra)
        self._copy_names = (*split.key, *split.values)
        self.copies = RowPool(len(self._copy_names))
        self.edges = RowPool(len(self._extra))
        self.dictionary.hold(self._mark)

    def follow(self, evaluation: Evaluation, arrived: Collection[int]) -> None:
        """Take in the view's evaluation; `arrived` are the lookup keys that are new in the window."""
        self._missing.update(arrived)
        for sn in arrived:
            key = self.manager.view.sns.keys[sn]
            (self._nameless.add if isinstance(key, tuple) and has_blank_node(key) else self._nameless.discard)(sn)
        if evaluation is not self._followed:
            self._followed = evaluation
            self._read_copies(evaluation.join)
        self._read_edges()

    def expand(self, sns: Ints, marks: bool = False) -> ServiceExpansion:
        """Return the rows of some solutions by their lookup keys; keys of other queries cost nothing.

        With `marks` a lookup key that the view lacks has one row, in which nothing is bound.
        """
        each, place = _different(sns, self.manager.view.sns.width)
        sn, sr = self.manager.graph.edges_of(each)
        if marks:
            missed = self.manager.view.missing(sr)
        else:
            missed = np.zeros(sr.size, bool)
        if self._nameless and missed.any():
            missed &= ~np.isin(sn, list(self._nameless))
        # A response that comes after the evaluation has filled copies of which no rows are read yet.
        read = sr < self._seen.size
        held = read.copy()
        held[read] = self._seen[sr[read]] != NEVER
        edge, copy, pairs = self._rows(sn[held], sr[held])
        ids = np.concatenate([self.edges.rows[:, edge], self.copies.rows[:, copy]])
        owner, made = sn[held][pairs], sr[held][pairs]
        if missed.any():
            ids = np.concatenate([ids, np.full((len(ids), int(missed.sum())), UNBOUND)], axis=1)
            owner, made = np.concatenate([owner, sn[missed]]), np.concatenate([made, sr[missed]])
            order = np.argsort(place[owner], kind="stable")
            ids, owner, made = ids[:, order], owner[order], made[order]
        columns = dict(zip((*self._edge_names, *self._copy_names), ids, strict=True))
        sr = made
        count, where = np.bincount(place[owner], minlength=each.size + 1), place[sns]
        lengths = count[where]
        rows = spread((np.cumsum(count) - count)[where], lengths)
        columns = {name: ids[rows] for name, ids in columns.items()}
        return ServiceExpansion(np.repeat(np.arange(sns.size), lengths), columns, sr[rows])

    def _rows(self, sn: Ints, sr: Ids) -> tuple[Ints, Ints, Ints]:
        """Return the rows of each edge and of its entry, and the position of the pair."""
        number = self._edges.first(self._edges.find([sn, sr.astype(np.int64)], sn.size)[0])
        known = number >= 0  # edges of other queries' lookup keys may not have been read yet
        edge_rows = np.zeros(number.size, np.int64)
        edge_rows[known] = self.edges.count[number[known]]
        inner = self.copies.count[sr]
        times = edge_rows * inner
        pairs = np.repeat(np.arange(sn.size), times)
        within = np.arange(pairs.size) - np.repeat(np.cumsum(times) - times, times)
        edge, copy = np.divmod(within, inner[pairs])
        return self.edges.start[number[pairs]] + edge, self.copies.start[sr[pairs]] + copy, pairs

    def _read_copies(self, join: Join) -> None:
        """Encode the entries that were fetched since the last evaluation and have a new value."""
        view, now = self.manager.view, join.refreshed
        if (more := now.size - self._seen.size) > 0:
            self._seen = np.concatenate([self._seen, np.full(more, NEVER)])
        changed = np.flatnonzero(now != self._seen[: now.size])
        self._seen[changed] = now[changed]
        changed = changed[(now[changed] != NEVER)]
        slots = changed.tolist()
        values = join.values(slots, view.values)
        held = {n: (view.srs.keys[n], value) for n, value in zip(slots, values, strict=True)}
        changed = np.array([n for n, each in held.items() if self._read.get(n) != each], np.int64)
        rows: list[TermRow] = []
        counts = np.zeros(changed.size, np.int64)
        for n, slot in enumerate(changed.tolist()):
            key, value = self._read[slot] = held[slot]
            assert isinstance(key, tuple)
            assert isinstance(value, tuple)
            rows += [(*key, *row) for row in value]
            counts[n] = len(value)
        if changed.size:
            ids = self._encoded(rows, self.copies.width)
            if self.listeners:
                others = changed[~self.copies.holds(changed, counts, ids)]
                for listener in self.listeners:
                    listener.srs.append(others)
            self.copies.put(changed, counts, ids)

    def _read_edges(self) -> None:
        """Encode the edges of lookup keys that are no longer missing."""
        view, graph = self.manager.view, self.manager.graph
        there = [sn for sn in self._missing if view.sns.keys[sn] not in view.misses]
        self._missing.difference_update(there)
        there = [sn for sn in there if view.sns.keys[sn] is not None]  # some were evicted before they were fetched
        sns, slots = graph.edges_of(np.array(there, np.int64))
        found = []
        for sn, slot in zip(sns.tolist(), slots.tolist(), strict=True):
            key = view.sns.keys[sn]
            assert isinstance(key, tuple)
            found.append(self.source.edges.get(key, {}).get(view.srs.keys[slot], ()))
        counts = np.array([len(each) for each in found], np.int64)
        rows = [tuple(map(edge.__getitem__, self._extra)) for each in found for edge in each]
        self.edges.put(self._numbers(sns, slots.astype(np.int64)), counts, self._encoded(rows, self.edges.width))
        for listener in self.listeners:
            listener.sns.append(np.array(there, np.int64))
        if self._edge_count > 2 * graph.edges + STALE_EDGES:
            self._forget_removed()

    def _forget_removed(self) -> None:
        """Forget the edges of lookup keys that the view has removed, once they dominate."""
        sns, slots = self.manager.graph.edges_of(np.arange(self.manager.graph.sns))
        keys = [sns, slots.astype(np.int64)]
        known = self._edges.first(self._edges.find(keys, sns.size)[0])
        there = known >= 0
        known, before = known[there], self.edges
        self._edges, self.edges, self._edge_count = GroupIndex(), RowPool(before.width), known.size
        self._edges.add(np.arange(known.size), [key[there] for key in keys])
        rows = before.rows[:, spread(before.start[known], before.count[known])]
        self.edges.put(np.arange(known.size), before.count[known], rows)

    def _numbers(self, sns: Ints, slots: Ints) -> Ints:
        """Return the number of every edge; new edges get the next numbers."""
        known = self._edges.first(self._edges.find([sns, slots], sns.size)[0])
        new = np.flatnonzero(known < 0)
        known[new] = self._edge_count + np.arange(new.size)
        self._edge_count += new.size
        self._edges.add(known[new], [sns[new], slots[new]])
        return known

    def _encoded(self, rows: Sequence[TermRow], width: int) -> Ints:
        terms = [term for row in rows for term in row]
        ids = np.full(len(terms), UNBOUND, np.int64)
        bound = np.array([term is not None for term in terms], bool)
        ids[bound] = self.dictionary.encode(skolem(term) for term in terms if term is not None)
        for term in {term for term in terms if isinstance(term, BlankNode | Triple)}:
            self.blanks[self.dictionary.id(skolem(term))] = self.dictionary.id(term)
        return np.ascontiguousarray(ids.reshape(len(rows), width).T)

    def _mark(self, live: Bools) -> None:
        held = np.zeros(live.size, bool)
        self.copies.mark(held)
        self.edges.mark(held)
        self.blanks = {travelling: blank for travelling, blank in self.blanks.items() if held[travelling]}
        held[[*self.blanks.values()]] = True
        live |= held


def _different(numbers: Ints, width: int) -> tuple[Ints, Ints]:
    """Return the distinct numbers in order, and by number its position among them; -1 comes after all."""
    there = np.zeros(width + 1, bool)
    there[numbers] = True
    each = np.flatnonzero(there[:-1])
    place = np.full(width + 1, each.size)
    place[each] = np.arange(each.size)
    return each, place
