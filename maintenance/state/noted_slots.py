"""Slots that remember which of them were taken or released, so that only these are written again."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from freshkeeper.maintenance.view.slots import Slots
from freshkeeper.policies.base import Kind


@dataclass(eq=False)
class NotedSlots(Slots):
    """A two-way table of keys and slots with a note of every change."""

    noted: dict[int, None] = field(default_factory=dict)
    """in the order of the last change, which is the order in which freed slots are used again"""

    def take(self, key: Hashable, kind: int = Kind.COPY) -> tuple[int, bool]:
        """The slot of a key, and whether it is new."""
        slot, new = super().take(key, kind)
        if new:
            self._note(slot)
        return slot, new

    def release(self, slot: int, kind: int = Kind.COPY) -> None:
        """Forget the key of a slot."""
        super().release(slot, kind)
        self._note(slot)

    def clear(self) -> None:
        """All changes are written."""
        self.noted.clear()

    def _note(self, slot: int) -> None:
        self.noted.pop(slot, None)
        self.noted[slot] = None
