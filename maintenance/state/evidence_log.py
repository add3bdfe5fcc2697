"""A change model that records all evidence, so that another model can learn the same.

Replaying the evidence gives exactly the same beliefs, whatever the model. To keep it short, a state now and then writes
the whole model (`change_model_state.py`) and begins again.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from freshkeeper.maintenance.base.arrays import Ids, Ints
from freshkeeper.maintenance.base.term_text import Json, decode, encode
from freshkeeper.maintenance.cache.view.changes import Beliefs, ChangeModel, Evidence
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.cache.view.regular import Regular, regular_entries
from freshkeeper.maintenance.state import change_model_state as learned
from freshkeeper.maintenance.state.database import FILE, Database
from freshkeeper.policies.base import Knowledge


@dataclass(eq=False)
class EvidenceLog:
    """Passes evidence on to a model, and records it since the last `clear`."""

    model: ChangeModel
    entries: list[Json] = field(default_factory=list)

    @property
    def knowledge(self) -> Knowledge:
        return self.model.knowledge

    def admit(self, slots: Ids, keys: Sequence[object]) -> None:
        self.model.admit(slots, keys)
        self.entries.append(["admit", slots.tolist(), [encode(key) for key in keys]])

    def evict(self, slots: Ids) -> None:
        self.model.evict(slots)
        self.entries.append(["evict", slots.tolist()])

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        return self.model.beliefs(instants, last_refresh, look_ahead, slots)

    def observe(self, evidence: Evidence) -> None:
        self.model.observe(evidence)
        slots = evidence.slots.tolist()
        columns = (evidence.previous, evidence.changed, evidence.modified, evidence.expires)
        self.entries.append(["observe", slots, evidence.now, *(column.tolist() for column in columns)])

    def clear(self) -> None:
        """Forget the recorded evidence, which is written."""
        self.entries.clear()


def replay(model: ChangeModel, entries: Iterable[Json]) -> None:
    recorded = list(entries)
    keys = iter(decode([key for entry in recorded if entry[0] == "admit" for key in entry[2]]))
    for kind, slots, *rest in recorded:
        numbers = np.array(slots, np.int32)
        if kind == "admit":
            model.admit(numbers, [next(keys) for _ in slots])
        elif kind == "evict":
            model.evict(numbers)
        else:
            now, previous, changed, modified, expires = rest
            evidence = Evidence(
                numbers,
                now,
                previous=np.array(previous, np.int64),
                changed=np.array(changed, bool),
                modified=np.array(modified, np.int64),
                expires=np.array(expires, np.int64),
            )
            model.observe(evidence)


def learned_clocks(directory: Path, sources: Collection[str]) -> dict[str, list[Regular]]:
    """Return the regular entries of each source whose changes are learned, the most certain first.

    Raises ConfigError if a run has the state open.
    """
    if not (directory / FILE).exists():
        return {}
    with closing(Database(directory)) as base:
        views = [view for view in base.read("SELECT view, name FROM views ORDER BY view") if view[1] in sources]
        found: dict[str, list[Regular]] = {name: [] for _, name in views}
        for number, name in views:
            found[name] += _of_view(base, number)
    return {name: sorted(entries, key=lambda entry: -entry.chance) for name, entries in found.items()}


def _of_view(base: Database, number: int) -> list[Regular]:
    """Restore the model of a view as a restart does, and return its regular entries."""
    model, entries = Learned(), []
    for whole, body in base.read("SELECT whole, body FROM learned WHERE view = ? ORDER BY seq", number):
        if whole:
            model.load(learned.unpack(body))
        else:
            entries += json.loads(body)
    replay(model, entries)
    keys = decode(key or "null" for (key,) in base.read("SELECT key FROM srs WHERE view = ? ORDER BY slot", number))
    return regular_entries(model, keys)
