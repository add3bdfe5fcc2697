"""Late responses: those that a source gives after the deadline of the evaluation that asked for them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.cache.evaluation import Decision, Refreshes
from freshkeeper.maintenance.cache.view_writer import ViewWriter
from freshkeeper.maintenance.fetching.endpoint import Late

LONGEST_WAIT = 1_000
"""Evaluations that are remembered for what may still come of what they asked for."""


@dataclass(frozen=True, eq=False)
class LateRefreshes:
    """Knows which evaluation asked at which instant."""

    writer: ViewWriter
    _evaluation_at: dict[int, int] = field(default_factory=dict)

    def receive(self, late: Sequence[Late], k: int) -> Refreshes:
        """Put late responses into the view at evaluation `k`; those for entries that have left it are dropped."""
        by_kind = self.writer.view.srs.by_kind
        known = [one for one in late if one.key in by_kind[one.kind]]
        slots = [by_kind[one.kind][one.key] for one in known]
        changed = [
            bool(self.writer.receive(np.array([slot], np.int32), [one.key], [one.outcome], one.read_at)[0])
            for slot, one in zip(slots, known, strict=True)
        ]
        return Refreshes.of_late(known, slots, changed, [self._evaluation_at.get(one.read_at, k) for one in known])

    def remember(self, decision: Decision, errors: Sequence[str | None]) -> None:
        """Remember which evaluation it was: responses that are not there yet may still come."""
        if any(errors):
            self._evaluation_at[decision.now] = decision.k
        if len(self._evaluation_at) > LONGEST_WAIT:
            del self._evaluation_at[next(iter(self._evaluation_at))]
