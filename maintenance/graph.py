"""The maintenance graph: the view's edges × the window's profile → what a policy is asked about.

Demand is kept per last evaluation: an arrival touches the edges of its own SN once, expiry empties one row, and W is
the suffix sum of the rows. Edges may come and go at any time. A build from scratch gives equal arrays (tested).
"""

from dataclasses import dataclass, field

import numpy as np

from maintenance import kernels
from maintenance.rows import Rows, both_ways, spread
from maintenance.window import Movement, Window, still_there
from policies.arrays import Floats, Ids, Ints
from policies.base import Graph


@dataclass(eq=False)
class MaintenanceGraph:
    """Bipartite edges SN ↔ SR with the demand on every SR."""

    window: Window
    by_sn: Rows = field(default_factory=Rows)
    by_sr: Rows = field(default_factory=Rows)
    edges: int = 0
    _rows: Ids = field(init=False)
    _snapshot: Graph | None = None

    def __post_init__(self) -> None:
        """The same ring of rows as the window's."""
        self._rows = np.zeros((self.window.ring + 1, 0), np.int32)

    @property
    def sns(self) -> int:
        """How many SN numbers are in use."""
        return self.by_sn.count

    @property
    def srs(self) -> int:
        """How many SR numbers are in use."""
        return self.by_sr.count

    def extend(self, sns: int, srs: int) -> None:
        """Make room for SNs and SRs numbered below these."""
        if sns > self.sns or srs > self.srs:
            self.by_sn.extend(sns)
            self.by_sr.extend(srs)
            self._snapshot = None
        self.window.admit_sns(sns)
        lacking = srs - self._rows.shape[1]
        if lacking > 0:
            room = np.zeros((self._rows.shape[0], max(lacking, self._rows.shape[1])), np.int32)
            self._rows = np.hstack([self._rows, room])

    def load(self, sn: Ids | Ints, sr: Ids | Ints, sns: int, srs: int) -> None:
        """Take all edges at once; what the window holds counts at once."""
        self.by_sn, self.by_sr = both_ways(sn, sr, sns, srs)
        self.edges = self.by_sn.used
        self._rows = np.zeros((self.window.ring + 1, 0), np.int32)
        self._snapshot = None
        self.extend(sns, srs)
        held = self.window.held()
        self._touch(*held, 1)

    def add_edge(self, sn: int, sr: int) -> bool:
        """Connect; False where they are connected."""
        if (self.by_sn.of(sn) == sr).any():
            return False
        self.by_sn.append(sn, sr)
        self.by_sr.append(sr, sn)
        self._changed(sn, sr, 1)
        return True

    def remove_edge(self, sn: int, sr: int) -> None:
        """Disconnect."""
        self.by_sn.discard(sn, sr)
        self.by_sr.discard(sr, sn)
        self._changed(sn, sr, -1)

    def apply(self, movement: Movement) -> None:
        """Follow the window: what left, what expired, what entered."""
        self._touch(movement.left_sn, movement.left_row, -1)
        for row in movement.emptied:
            self._rows[row] = 0
        self._touch(movement.entered_sn, movement.entered_row, 1)

    def demand(self, horizon: int) -> Floats:
        """W, SR × H: how many answers SR j takes part in, m evaluations from now."""
        return still_there(self._rows, self.window.order(), self.srs, horizon)

    def demand_from_scratch(self, profile: Floats) -> Floats:
        """W = Aᵀ·C in one pass over the edges."""
        return kernels.product(self.by_sr.start, self.by_sr.stop, self.by_sr.neighbours, profile)

    def snapshot(self) -> Graph:
        """The edges as CSR both ways, as a policy gets them."""
        if self._snapshot is None:
            self._snapshot = Graph(*self.by_sn.csr(), *self.by_sr.csr())
        return self._snapshot

    def edges_of(self, sns: Ints) -> tuple[Ints, Ids]:
        """The edges of some SNs, as two columns."""
        lengths = self.by_sn.stop[sns] - self.by_sn.start[sns]
        return np.repeat(sns, lengths), self.by_sn.neighbours[spread(self.by_sn.start[sns], lengths)]

    def _touch(self, sns: Ints, rows: Ints, sign: int) -> None:
        if sns.size:
            kernels.touch(self.by_sn.start, self.by_sn.stop, self.by_sn.neighbours, sns, rows, self._rows, sign)

    def _changed(self, sn: int, sr: int, sign: int) -> None:
        self.edges += sign
        self._snapshot = None
        self._rows[:, sr] += sign * self.window.column(sn)
