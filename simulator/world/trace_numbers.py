"""Trace numbers to slots of a view and back, as arrays.

A view gives slots to keys in the order in which they come and uses freed slots again; its dictionaries and lists say
which key has which slot. Every evaluation translates all arrivals and all cached entries, so the simulated world keeps
both directions as arrays, and rebuilds them when a slot has got another key (`Slots.version`).
"""

from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Ids, Ints
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.view.slots import Slots

NO_NUMBER = -1
"""The number of a slot that is free or holds no copy, and the slot of a key that the view lacks."""


@dataclass(eq=False)
class TraceNumbers:
    """The two-way table between slots of a view whose keys are trace numbers, and those numbers."""

    count: int
    """how many numbers the trace has"""
    _slots: Slots | None = None
    _version: int = -1
    _number_of: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _slot_of: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def numbers(self, slots: Slots) -> Ints:
        """Return the trace number of every slot, NO_NUMBER for those without a copy's key."""
        self._renew(slots)
        return self._number_of

    def slots(self, slots: Slots, numbers: Ids | Ints) -> Ints:
        """Return the slots of these trace numbers, NO_NUMBER for those that the view lacks."""
        self._renew(slots)
        return self._slot_of[numbers]

    def _renew(self, slots: Slots) -> None:
        if slots is self._slots and slots.version == self._version:
            return
        held = slots.by_kind[Kind.COPY]
        numbers, places = (np.fromiter(part, np.int64, len(held)) for part in (held.keys(), held.values()))
        self._number_of = np.full(slots.width, NO_NUMBER)
        self._number_of[places] = numbers
        self._slot_of = np.full(self.count, NO_NUMBER)
        self._slot_of[numbers] = places
        self._slots, self._version = slots, slots.version
