"""The demand of a window, from one evaluation to the next: its content and the view's graph move together."""

from collections.abc import Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Ids, Ints
from freshkeeper.maintenance.base.errors import InputError, TimeError
from freshkeeper.maintenance.cache.demand.window import Window, WindowSpec
from freshkeeper.maintenance.cache.view.local_view import View


@dataclass(eq=False)
class WindowDemand:
    """The window's content and the graph that follows it."""

    content: Window
    view: View
    now: int | None = None
    """the instant of the last evaluation, and its number"""
    k: int = 0

    def times(self, now: int, times: list[int]) -> Ints:
        """Return the times of arrivals before the next evaluation; raise TimeError for later ones."""
        self.check(now)
        at = np.array(times, dtype=np.int64)
        if at.size and at.max() > now:
            raise TimeError(f"an arrival at {at.max()} lies after the evaluation at {now}: hand it to a later one")
        return at

    def check(self, now: int) -> None:
        """Raise TimeError unless there can be an evaluation at `now`."""
        if self.now is not None and now <= self.now:
            raise TimeError(f"time goes backwards: evaluation at {now} after the one at {self.now}")
        if not self.content.spec.count:
            self.content.spec.index(now)

    def advance(self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None) -> None:
        """Move on to `now`, with what arrived."""
        width, graph = self.view.sns.width, self.view.graph
        if sns.size and (int(sns.max()) >= width or int(sns.min()) < 0):
            raise InputError(f"an arrival names lookup key {int(sns.max())}; the view has {width} slots")
        graph.extend(width, self.view.srs.width)
        self.content.insert(at, sns, identity)
        self.k = self.content.due() if self.content.spec.count else self.content.spec.index(now)
        graph.apply(self.content.advance(self.k))
        self.now = now

    def advance_again(self, now: int, at: Ints, sns: Ints, identity: Sequence[Hashable] | None) -> None:
        """Advance after a restart: a restored view has counted the arrivals of this window already."""
        tallies = self.content.tallies, self.view.graph.tallies
        known = [deepcopy(one.rates) for one in tallies] if self.content.k is None else None
        self.advance(now, at, sns, identity)
        for one, rates in zip(tallies, known or (), strict=False):
            rates.extend(one.total.size)
            one.rates = rates

    def present(self) -> tuple[Ints, Ints]:
        """Return the slots of the lookup keys in the window, and how many mappings each of them has there."""
        counts = self.content.counts(self.view.graph.sns)
        present = np.flatnonzero(counts)
        return present, counts[present].astype(np.int64)

    def needed(self, now: int, sns: Ints, counts: Ints) -> Ids:
        """Return how often a window needs each entry; if a later evaluation has begun since, by these counts."""
        graph = self.view.graph
        if now == self.now:
            return graph.tallies.total[: graph.srs]
        _, srs = graph.edges_of(sns)
        needed: Ids = np.bincount(srs, np.repeat(counts, graph.degrees(sns)), graph.srs).astype(np.int32)
        return needed

    def move_to(self, window: WindowSpec, horizon: int, now: int) -> None:
        """Count in another window from now on; of what came so far, as much as both reach."""
        self.content = self.content.with_spec(window, horizon, now)
        self.view.graph.follow(self.content)
