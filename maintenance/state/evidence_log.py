"""A change model that writes down all that it is told, so that another one can be told the same.

Being told again gives exactly the same beliefs, whatever the model. So that the list stays short, what was learned so
far is kept whole from time to time (`learned.py`), and the list begins anew.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Ids, Ints
from freshkeeper.maintenance.cache.view.changes import Beliefs, ChangeModel, Evidence
from freshkeeper.maintenance.state.term_text import Json, decode, encode
from freshkeeper.policies.base import Knowledge


@dataclass(eq=False)
class EvidenceLog:
    """Hands everything on to the model, and lists what was told since `entries` was last cleared."""

    model: ChangeModel
    entries: list[Json] = field(default_factory=list)

    @property
    def knowledge(self) -> Knowledge:
        """How much the model knows."""
        return self.model.knowledge

    def admit(self, slots: Ids, keys: Sequence[object]) -> None:
        """These slots now stand for these SRs."""
        self.model.admit(slots, keys)
        self.entries.append(["admit", slots.tolist(), [encode(key) for key in keys]])

    def evict(self, slots: Ids) -> None:
        """Forget what was known of these slots."""
        self.model.evict(slots)
        self.entries.append(["evict", slots.tolist()])

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        """What the model believes."""
        return self.model.beliefs(instants, last_refresh, look_ahead, slots)

    def observe(self, evidence: Evidence) -> None:
        """Learn from what fetches revealed."""
        self.model.observe(evidence)
        slots = evidence.slots.tolist()
        columns = (evidence.previous, evidence.changed, evidence.modified, evidence.expires)
        self.entries.append(["observe", slots, evidence.now, *(column.tolist() for column in columns)])

    def clear(self) -> None:
        """All that was told is written."""
        self.entries.clear()


def tell(model: ChangeModel, entries: Iterable[Json]) -> None:
    """Tell a model what another one was told."""
    told = list(entries)
    keys = iter(decode([key for entry in told if entry[0] == "admit" for key in entry[2]]))
    for kind, slots, *rest in told:
        numbers = np.array(slots, np.int32)
        if kind == "admit":
            model.admit(numbers, [next(keys) for _ in slots])
        elif kind == "evict":
            model.evict(numbers)
        else:
            now, previous, changed, modified, expires = rest
            times = (np.array(column, np.int64) for column in (previous, modified, expires))
            before, since, until = times
            model.observe(Evidence(numbers, now, before, np.array(changed, bool), since, until))
