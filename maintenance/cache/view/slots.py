"""Names to numbers and back: every SN and SR that the view knows has a slot, and a freed slot is used again.

A key may stand for several things that are refreshed each on its own: it has a slot for every kind of them.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.base.kinds import Kind


@dataclass(eq=False)
class Slots:
    """A two-way table of keys and slots."""

    keys: list[Hashable] = field(default_factory=list)
    by_kind: tuple[dict[Hashable, int], ...] = field(default_factory=lambda: tuple({} for _ in Kind))
    free: list[int] = field(default_factory=list)
    changed: dict[int, None] | None = None
    """taken, released or noted since somebody last cleared this, the last one last; None where nobody asks"""
    version: int = 0
    """grows whenever a slot gets another key, so that tables derived from the keys know when they are out of date"""

    def __len__(self) -> int:
        return sum(map(len, self.by_kind))

    @property
    def numbers(self) -> dict[Hashable, int]:
        """The slots of copies, by key."""
        return self.by_kind[Kind.COPY]

    @property
    def width(self) -> int:
        """The number of slots, free ones included."""
        return len(self.keys)

    def take(self, key: Hashable, kind: int = Kind.COPY) -> tuple[int, bool]:
        """Return the slot of a key, and whether it is new."""
        held = self.by_kind[kind].get(key)
        if held is not None:
            return held, False
        if self.free:
            slot = self.free.pop()
            self.keys[slot] = key
        else:
            slot = len(self.keys)
            self.keys.append(key)
        self.by_kind[kind][key] = slot
        self.version += 1
        self.note(slot)
        return slot, True

    def release(self, slot: int, kind: int = Kind.COPY) -> None:
        """Forget the key of a slot."""
        del self.by_kind[kind][self.keys[slot]]
        self.keys[slot] = None
        self.free.append(slot)
        self.version += 1
        self.note(slot)

    def note(self, slot: int) -> None:
        """Note that something about this slot has changed."""
        if self.changed is not None:
            self.changed.pop(slot, None)
            self.changed[slot] = None

    def load(self, keys: Sequence[Hashable], kinds: Sequence[int], free: Sequence[int]) -> None:
        """Take the place of what is held; free slots have no key, and the last of them is taken first."""
        self.keys, self.free = list(keys), list(free)
        self.version += 1
        for numbers in self.by_kind:
            numbers.clear()
        for slot, (key, kind) in enumerate(zip(keys, kinds, strict=True)):
            if key is not None:
                self.by_kind[kind][key] = slot
