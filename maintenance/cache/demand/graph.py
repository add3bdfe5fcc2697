"""The maintenance graph: the view's edges × the window's profile → what a policy is asked about.

Demand is kept per last evaluation: an arrival touches the edges of its own SN once, expiry empties one row, and W is
the suffix sum of the rows. Edges may come and go at any time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints, spread
from freshkeeper.maintenance.cache.demand import kernels
from freshkeeper.maintenance.cache.demand.adjacency import Rows, both_ways
from freshkeeper.maintenance.cache.demand.window import Movement, Window
from freshkeeper.maintenance.cache.demand.window_counts import WindowCounts
from freshkeeper.policies.base import Graph, Scope, Structure

MIN_NEW_ANSWERS = 0.01
"""New answers per evaluation below which an SR that the window does not need is left out of rounds."""


@dataclass(eq=False)
class MaintenanceGraph:
    """Bipartite edges SN ↔ SR with the demand on every SR."""

    window: Window
    by_sn: Rows = field(default_factory=Rows)
    by_sr: Rows = field(default_factory=Rows)
    edges: int = 0
    tallies: WindowCounts = field(init=False)
    """answers per SR and last evaluation"""
    rewired: set[int] = field(default_factory=set)
    """SNs whose edges changed since somebody last cleared this"""
    _snapshot: Graph | None = None

    def __post_init__(self) -> None:
        self.tallies = WindowCounts(self.window.ring)

    @property
    def sns(self) -> int:
        """The number of slots of lookup keys in use."""
        return self.by_sn.count

    @property
    def srs(self) -> int:
        """The number of slots of entries in use."""
        return self.by_sr.count

    def extend(self, sns: int, srs: int) -> None:
        """Make room for SNs and SRs numbered below these."""
        if sns > self.sns or srs > self.srs:
            self.by_sn.extend(sns)
            self.by_sr.extend(srs)
            self._snapshot = None
        self.window.tallies.extend(sns)
        self.tallies.extend(srs)

    def lay(self, sn: Ids | Ints, sr: Ids | Ints, sns: int, srs: int) -> None:
        """Take all edges at once; what the window holds counts at once."""
        self.by_sn, self.by_sr = both_ways(sn, sr, sns, srs)
        self.edges = self.by_sn.used
        self.tallies.clear()
        self._snapshot = None
        self.extend(sns, srs)
        self._count()

    def follow(self, window: Window) -> None:
        """Take another window, with what it holds."""
        self.window, self.tallies = window, WindowCounts(window.ring)
        self.extend(self.sns, self.srs)
        self._count()

    def dump(self, sns: Iterable[int]) -> list[list[int]]:
        """Return the entries that each of these lookup keys needs, in their order."""
        return [self.by_sn.of(sn).tolist() for sn in sns]

    def load(self, edges: Sequence[Sequence[int]], srs: int) -> None:
        """Lay the edges of all lookup keys from slot 0 on, with what the window has loaded."""
        lengths = np.array([len(each) for each in edges], np.int64)
        sr = np.array([sr for each in edges for sr in each], np.int32)
        self.lay(np.repeat(np.arange(lengths.size), lengths), sr, lengths.size, srs)
        self.by_sn = Rows.from_csr(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), sr)

    def add_edge(self, sn: int, sr: int) -> bool:
        """Connect; False where they are connected."""
        if (self.by_sn.of(sn) == sr).any():
            return False
        self.by_sn.append(sn, sr)
        self.by_sr.append(sr, sn)
        self._changed(sn, sr, 1)
        return True

    def remove_edge(self, sn: int, sr: int) -> None:
        """Disconnect an entry from a lookup key, from the next round on."""
        self.by_sn.discard(sn, sr)
        self.by_sr.discard(sr, sn)
        self._changed(sn, sr, -1)

    def apply(self, movement: Movement) -> None:
        """Follow the window: what left, what expired, what entered."""
        by_sn, tallies = self.by_sn, self.tallies
        fade = tallies.rates.fade(movement.evaluations)
        edges, counts = (by_sn.start, by_sn.stop, by_sn.neighbours), (tallies.rows, tallies.total, tallies.rates.counts)
        kernels.touch(*edges, *counts, fade, *movement.parts)

    def active(self, scope: Scope) -> Ints | None:
        """Return the entries in a round of this scope, or None where that is most of them, so that all may be in it."""
        if scope is Scope.ALL:
            return None
        wanted = self.tallies.total[: self.srs] > 0
        if scope is Scope.EXPECTED:
            wanted |= self.tallies.rates.per_evaluation(self.srs) >= MIN_NEW_ANSWERS
        return None if 2 * np.count_nonzero(wanted) > self.srs else np.flatnonzero(wanted)

    def demand(self, horizon: int, srs: Ints | None = None) -> Floats:
        """W, SR × H: how many answers SR j takes part in, m evaluations from now; of all or some SRs."""
        return self.tallies.still_there(self.window.k or 0, self.srs if srs is None else srs, horizon)

    def arrivals(self, srs: Ints) -> Floats:
        """Return in how many new answers each of these entries is expected to take part per evaluation."""
        return self.tallies.rates.per_evaluation(self.srs)[srs]

    def structure(self, horizon: int, srs: Ints | None) -> Structure:
        """Build what a policy sees beyond demand: all edges, or those of keys in the window to the chosen entries."""
        rates = self.window.tallies.rates.per_evaluation(self.sns)
        if srs is None:
            return Structure(self.snapshot(), self.window.profile(self.sns, horizon), rates)
        sns = np.flatnonzero(self.window.counts(self.sns))
        _, sr = self.edges_of(sns)
        number = np.zeros(self.srs, np.int64)
        number[srs] = np.arange(srs.size)
        row = np.repeat(np.arange(sns.size), self.degrees(sns))
        graph = Graph.from_edges(row, number[sr], sns.size, srs.size)
        return Structure(graph, self.window.profile(sns, horizon), rates[sns])

    def snapshot(self) -> Graph:
        """Return the edges as CSR both ways, as a policy gets them."""
        if self._snapshot is None:
            self._snapshot = Graph(*self.by_sn.csr(), *self.by_sr.csr())
        return self._snapshot

    def degrees(self, sns: Ints) -> Ints:
        """Return how many entries each of some lookup keys needs."""
        return self.by_sn.stop[sns] - self.by_sn.start[sns]

    def edges_of(self, sns: Ints) -> tuple[Ints, Ids]:
        """Return the edges of some lookup keys, as two columns."""
        lengths = self.degrees(sns)
        return np.repeat(sns, lengths), self.by_sn.neighbours[spread(self.by_sn.start[sns], lengths)]

    def _count(self) -> None:
        """Count what the window holds and expects, into tallies that are empty."""
        sns, rows = self.window.mappings_by_row()
        self.apply(Movement(entered_sn=sns, entered_row=rows))
        theirs, mine = self.window.tallies.rates, self.tallies.rates
        mine.counts[: self.srs] = np.asarray(self.snapshot().transposed @ theirs.counts[: self.sns])
        mine.evaluations = theirs.evaluations

    def _changed(self, sn: int, sr: int, sign: int) -> None:
        self.edges += sign
        self.rewired.add(sn)
        self._snapshot = None
        mine, theirs = self.tallies, self.window.tallies
        mine.rows[:, sr] += sign * theirs.rows[:, sn]
        mine.total[sr] += sign * theirs.total[sn]
        mine.rates.counts[sr] += sign * theirs.rates.counts[sn]
