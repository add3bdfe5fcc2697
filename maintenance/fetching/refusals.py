"""Keys that a source refuses, as with a 400: asked for in ever smaller requests until the bad one is found.

One bad key in a request has all of them refused. The keys of a refused request may next be in requests of half as many;
one that is refused alone is left out of 1, 3, 7, ... orders, and is asked for alone until the source answers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.fetching.endpoint import Asked

LONGEST = 256
"""Orders after which a key that was refused is asked for again at the latest."""


@dataclass(frozen=True)
class Refusal:
    """What is known of a key that was in a refused request."""

    most: int
    """how many keys a request may hold that has it"""
    alone: int = 0
    """how often it was refused alone"""
    until: int = 0
    """the order from which on it is asked for again"""


@dataclass(eq=False)
class Refusals:
    """The keys of one endpoint that were in refused requests, over its orders."""

    order: int = 0
    """the number of the order that is carried out"""
    _known: dict[Asked, Refusal] = field(default_factory=dict)

    def begin(self) -> None:
        """One more order; what nobody asked for in a long time is forgotten."""
        self.order += 1
        if self.order % LONGEST == 0:
            self._known = {key: one for key, one in self._known.items() if one.until > self.order - LONGEST}

    def most(self, key: Asked, batch: int) -> int:
        """How many keys a request may hold that has this one."""
        known = self._known.get(key)
        return batch if known is None else min(batch, known.most)

    def rests(self, key: Asked) -> int:
        """How many orders from now it is asked for again."""
        known = self._known.get(key)
        return 0 if known is None else max(0, known.until - self.order)

    def resting(self) -> Iterator[Asked]:
        """What the next order would not ask for."""
        return (key for key, one in self._known.items() if one.until > self.order + 1)

    def refused(self, keys: list[Asked]) -> None:
        """A request for these was refused."""
        if len(keys) > 1:
            self._known |= dict.fromkeys(keys, Refusal(len(keys) // 2, until=self.order))
        for key in keys if len(keys) == 1 else ():
            times = self._known[key].alone + 1 if key in self._known else 1
            self._known[key] = Refusal(1, times, self.order + min(2**times, LONGEST))

    def answered(self, keys: Iterable[Asked]) -> None:
        """A request for these was answered."""
        for key in keys:
            self._known.pop(key, None)
