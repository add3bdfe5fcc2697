"""Back-off per key: keys that fail are asked for in ever smaller requests and then ever more seldom.

One bad key fails all keys of its request. The keys of a failed request may next be in requests of half as many, until
the bad key is alone. A key that fails alone is left out of 1, 3, 7, ... orders, and is asked for alone until the source
answers it. Orders are counted rather than seconds, so that a replay does what the run did.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.fetching.endpoint import EntryId

LONGEST_BACKOFF = 256
"""Orders after which a key that failed is asked for again at the latest."""
UNLIMITED = 1 << 62
"""Keys of a request that may hold any number."""


@dataclass(frozen=True)
class KeyFailures:
    """The failures of one key since the source last answered it."""

    limit: int
    """how many keys a request may hold that has this one"""
    alone: int = 0
    """how often the failure was this key's"""
    until: int = 0
    """the order from which on the key is asked for again"""


@dataclass(eq=False)
class KeyBackoff:
    """The keys of one source that failed, over its orders."""

    order: int = 0
    """the number of the order that is carried out"""
    _failures: dict[EntryId, KeyFailures] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether any key has failed; if none has, there is nothing to look up."""
        return bool(self._failures)

    def begin_order(self) -> None:
        """Count one more order, and forget keys that nobody has asked for in a long time."""
        self.order += 1
        if self.order % LONGEST_BACKOFF == 0:
            oldest = self.order - LONGEST_BACKOFF
            self._failures = {entry: one for entry, one in self._failures.items() if one.until > oldest}

    def limit(self, entry: EntryId, batch: int) -> int:
        """Return how many keys a request may hold that has this one."""
        failures = self._failures.get(entry)
        return batch if failures is None else min(batch, failures.limit)

    def orders_left(self, entry: EntryId) -> int:
        """Return in how many orders from now the key is asked for again; 0 is now."""
        failures = self._failures.get(entry)
        return 0 if failures is None else max(0, failures.until - self.order)

    def keys_in_backoff(self) -> Iterator[EntryId]:
        """Return the keys that the next order leaves out."""
        return (entry for entry, one in self._failures.items() if one.until > self.order + 1)

    def request_failed(self, entries: Sequence[EntryId]) -> None:
        """Note that a request failed, and that fewer of its keys may succeed."""
        if len(entries) > 1:
            # Which key is to blame is not known yet: all of them may be asked for at once, in halves.
            self._failures |= dict.fromkeys(entries, KeyFailures(len(entries) // 2, until=self.order))
        for entry in entries if len(entries) == 1 else ():
            self._note(entry, 1)

    def key_failed(self, entry: EntryId) -> None:
        """Note that a key failed in a request that was answered: it harms no other, so it needs no request alone."""
        failures = self._failures.get(entry)
        self._note(entry, UNLIMITED if failures is None else failures.limit)

    def answered(self, entries: Iterable[EntryId]) -> None:
        """Note that these keys were answered."""
        for entry in entries:
            self._failures.pop(entry, None)

    def _note(self, entry: EntryId, limit: int) -> None:
        failures = self._failures.get(entry)
        alone = 1 if failures is None else failures.alone + 1
        self._failures[entry] = KeyFailures(limit, alone, self.order + min(2**alone, LONGEST_BACKOFF))
