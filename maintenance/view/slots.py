"""Names to numbers and back: every SN and SR that the view knows has a slot, and a freed slot is used again."""

from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Slots:
    """A two-way table of keys and slots."""

    keys: list[Hashable] = field(default_factory=list)
    numbers: dict[Hashable, int] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        """How many keys are held."""
        return len(self.numbers)

    @property
    def width(self) -> int:
        """How many slots there are, free ones included."""
        return len(self.keys)

    def take(self, key: Hashable) -> tuple[int, bool]:
        """The slot of a key, and whether it is new."""
        held = self.numbers.get(key)
        if held is not None:
            return held, False
        if self.free:
            slot = self.free.pop()
            self.keys[slot] = key
        else:
            slot = len(self.keys)
            self.keys.append(key)
        self.numbers[key] = slot
        return slot, True

    def release(self, slot: int) -> None:
        """Forget the key of a slot."""
        del self.numbers[self.keys[slot]]
        self.keys[slot] = None
        self.free.append(slot)
