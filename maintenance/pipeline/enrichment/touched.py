"""The driver's part of a view whose entries lie on the cluster: what was ever asked for again, and what that taught."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from freshkeeper.maintenance.pipeline.enrichment.scored_parts import Learnt
from freshkeeper.maintenance.pipeline.enrichment.shard import Came
from freshkeeper.maintenance.service.endpoint import Copy
from freshkeeper.maintenance.view.changes import ChangeModel, Evidence
from freshkeeper.maintenance.view.learned import REGULAR, Learned
from freshkeeper.maintenance.view.slots import Slots
from freshkeeper.policies.arrays import Bools, Ints


@dataclass(eq=False)
class Touched:
    """Copies by slot, in the order in which their SRs were first asked for."""

    model: ChangeModel
    slots: Slots = field(default_factory=Slots)
    values: list[object] = field(default_factory=list)
    refreshed: list[int] = field(default_factory=list)
    where: list[tuple[int, int]] = field(default_factory=list)
    """the shard of each, and its number there"""
    renewed: list[int] = field(default_factory=list)
    """what was stored since somebody last asked"""

    def believe(self, instants: Ints) -> Learnt:
        """What is believed at the beginning of an evaluation, before its own refreshes."""
        assert isinstance(self.model, Learned)
        width = self.slots.width
        regular = np.flatnonzero(self.model.regular(np.arange(width))[0] >= REGULAR)
        held = np.array([self.refreshed[slot] for slot in regular.tolist()], np.int64)
        told = self.model.beliefs(instants, held, True, regular) if regular.size else None
        return Learnt(self.model.rates(width + 1), regular, told)

    def admit(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """These will be asked for; those that are new here bring the copy that the warm start had."""
        for row in rows:
            slot, new = self.slots.take(row["sr"])
            if new:
                self.values.append(row["value"])
                self.refreshed.append(row["refreshed_ms"])
                self.where.append((row["shard"], row["entry"]))
                self.model.admit(np.array([slot], np.int32), [row["sr"]])

    def store(self, keys: Sequence[Hashable], copies: Sequence[Copy], read_at: int) -> Bools:
        """What was fetched; tells which values had changed. A copy older than the one held is let go."""
        changed = np.zeros(len(keys), bool)
        good = [
            n for n, (key, copy) in enumerate(zip(keys, copies, strict=True))
            if copy.error is None and self.refreshed[self.slots.numbers[key]] <= read_at
        ]  # fmt: skip
        slots = [self.slots.numbers[keys[n]] for n in good]
        previous = np.array([self.refreshed[slot] for slot in slots], np.int64)
        changed[good] = [self.values[slot] != copies[n].value for n, slot in zip(good, slots, strict=True)]
        for n, slot in zip(good, slots, strict=True):
            self.values[slot], self.refreshed[slot] = copies[n].value, read_at
        self.renewed += slots
        told = [(copies[n].modified, copies[n].expires) for n in good]
        modified, expires = (np.array([pair[side] for pair in told], np.int64) for side in (0, 1))
        seen = np.array(slots, np.int32)
        self.model.observe(Evidence(seen, read_at, previous, changed[good], modified, expires))
        return changed

    def came(self) -> Came:
        """What was stored since this was last asked, for the shards where it belongs."""
        slots = list(dict.fromkeys(self.renewed))
        self.renewed.clear()
        where = np.array([self.where[slot] for slot in slots], np.int64).reshape(-1, 2)
        at = np.array([self.refreshed[slot] for slot in slots], np.int64)
        values = [self.values[slot] for slot in slots]
        return Came(where[:, 0], where[:, 1], np.array(slots, np.int32), values, at)
