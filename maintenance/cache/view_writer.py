"""Responses of a source go into the view, in time or late, and to the models that learn from them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Ids
from freshkeeper.maintenance.cache.evaluation import Decision, Refreshes
from freshkeeper.maintenance.cache.round_builder import KeyText
from freshkeeper.maintenance.cache.view.changes import ChangeModel, Evidence
from freshkeeper.maintenance.cache.view.local_view import View
from freshkeeper.maintenance.cache.window_demand import WindowDemand
from freshkeeper.maintenance.fetching.endpoint import Copy, Expanded, Late
from freshkeeper.policies.base import Results
from freshkeeper.policies.runner import PolicyRunner

LONGEST_WAIT = 1_000
"""Evaluations that are remembered for what may still come of what they asked for."""


@dataclass(eq=False)
class ViewWriter:
    """Writes copies; the model sees them as evidence, a policy that observes as results."""

    view: View
    model: ChangeModel
    runner: PolicyRunner
    demand: WindowDemand
    key_text: KeyText
    overtaken: bool = False
    """whether copies have come that were read before the last evaluation"""

    def receive(self, srs: Ids, keys: Sequence[Hashable], outcome: Sequence[Copy | Expanded], read_at: int) -> Bools:
        """Put what was fetched into the view, now or late; tells which values had changed."""
        self.overtaken |= self.demand.now is not None and read_at < self.demand.now
        good = np.array([result.error is None for result in outcome], bool)
        plain = good & np.array([isinstance(result, Copy) for result in outcome], bool)
        copies = [result for result in outcome if isinstance(result, Copy) and result.error is None]
        changed = np.zeros(len(keys), bool)
        changed[plain] = self.store(srs[plain], copies, read_at)
        brought: dict[int, Copy] = {}  # lookup keys that were fetched together share entries
        for key, result in zip(keys, outcome, strict=True):
            if isinstance(result, Expanded) and result.error is None:
                slots = self.view.complete(key, list(result.copies), result.edges is not None).tolist()
                copies = [*result.copies.values(), *([] if result.edges is None else [result.edges])]
                brought |= {slot: copy for slot, copy in zip(slots, copies, strict=True) if copy.error is None}
        if brought:
            self.store(np.array(list(brought), np.int32), list(brought.values()), read_at)
        if self.runner.observes:
            kinds = self.view.kinds[srs]
            names = tuple(map(self.key_text, kinds.tolist(), keys))
            self.runner.observe(Results(srs, good, changed, read_at, keys=names, kinds=kinds))
        return changed

    def store(self, slots: Ids, copies: Sequence[Copy], now: int) -> Bools:
        """Store new copies in the view; one read before the copy that is held comes too late to be of use."""
        previous = self.view.last_refresh[slots]
        if (previous > now).any():
            newer, changed = previous <= now, np.zeros(len(slots), bool)
            changed[newer] = self.store(slots[newer], [copies[n] for n in np.flatnonzero(newer).tolist()], now)
            return changed
        changed = self.view.store(slots, [copy.value for copy in copies], now)
        modified = np.array([copy.modified for copy in copies], dtype=np.int64)
        expires = np.array([copy.expires for copy in copies], dtype=np.int64)
        self.model.observe(Evidence(slots, now, previous, changed, modified=modified, expires=expires))
        return changed


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
