"""Back-off per key: keys that fail are asked for in ever smaller requests and then ever more seldom.

One bad key fails all keys of its request. The keys of a failed request may next be in requests of half as many, until
the bad key is alone. A key that fails alone is left out of 1, 3, 7, ... orders, and is asked for alone until the source
answers it. Orders are counted rather than seconds, so that a replay does what the run did.

A source that is down fails every key, and no key is to blame. Sources over a network have a breaker for that. With
`expects_outages`, one key is asked for now and then while nothing is answered, and when the source is back, each answer
ends the back-off of a few keys that failed meanwhile.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from freshkeeper.maintenance.fetching.endpoint import EntryId

LONGEST_BACKOFF = 256
"""Orders after which a key that failed is asked for again at the latest."""
OUTAGE_KEYS = 5
"""Different keys that failed with no answer in between: more are taken for an outage of the source."""
ORDERS_PER_PROBE = 4
"""In an outage one key may be asked for in every fourth order; the others are for keys that were not asked for yet."""
RELEASED_PER_ANSWER = 2
"""Keys whose back-off ends with each answer after an outage: soon all, if the source is well, and few, if they fail."""
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

    expects_outages: bool = False
    order: int = 0
    """the number of the order that is carried out"""
    _failures: dict[EntryId, KeyFailures] = field(default_factory=dict)
    _since_answer: dict[EntryId, None] = field(default_factory=dict)
    """keys that failed since the source last answered"""
    _to_release: list[EntryId] = field(default_factory=list)
    """keys that failed in an outage that is over"""
    _probe: tuple[int, EntryId] | None = None
    """an order, and the key that it may ask for though it is in back-off"""

    def __bool__(self) -> bool:
        """Return whether any key has failed; if none has, there is nothing to look up."""
        return bool(self._failures)

    def begin_order(self) -> None:
        """Count one more order, and forget keys that nobody has asked for in a long time."""
        self.order += 1
        if self.order % LONGEST_BACKOFF == 0:
            oldest = self.order - LONGEST_BACKOFF
            self._failures = {entry: one for entry, one in self._failures.items() if one.until > oldest}
        following = self.order + 1
        if len(self._since_answer) >= OUTAGE_KEYS and following % ORDERS_PER_PROBE == 0:
            soonest = min(self._failures, key=lambda entry: self._failures[entry].until)
            self._probe = following, soonest

    def advance(self, order: int) -> None:
        """Go on to this order: for callers that count seconds, say, instead of orders."""
        while self.order < order:
            self.begin_order()

    def has_failed(self, entry: EntryId) -> bool:
        """Return whether the last failure of a key was its own, and it was not answered since."""
        failures = self._failures.get(entry)
        return failures is not None and failures.alone > 0

    def limit(self, entry: EntryId, batch: int) -> int:
        """Return how many keys a request may hold that has this one."""
        failures = self._failures.get(entry)
        if failures is None:
            return batch
        return min(batch, failures.limit)

    def orders_left(self, entry: EntryId) -> int:
        """Return in how many orders from now the key is asked for again; 0 is now."""
        failures = self._failures.get(entry)
        if failures is None or (self.order, entry) == self._probe:
            return 0
        return max(0, failures.until - self.order)

    def keys_in_backoff(self) -> Iterator[EntryId]:
        following = self.order + 1
        for entry, one in self._failures.items():
            if one.until > following and (following, entry) != self._probe:
                yield entry

    def request_failed(self, entries: Sequence[EntryId]) -> None:
        """Note that a request failed, and that fewer of its keys may succeed."""
        if len(entries) > 1:
            # Which key is to blame is not known yet: all of them may be asked for at once, in halves.
            self._failures |= dict.fromkeys(entries, KeyFailures(len(entries) // 2, until=self.order))
        else:
            self._note(entries[0], 1)

    def key_failed(self, entry: EntryId) -> None:
        """Note that a key failed in a request that was answered: it harms no other, so it needs no request alone."""
        failures = self._failures.get(entry)
        self._note(entry, UNLIMITED if failures is None else failures.limit)

    def answered(self, entries: Iterable[EntryId]) -> None:
        for entry in entries:
            self._failures.pop(entry, None)
        if len(self._since_answer) >= OUTAGE_KEYS:
            self._to_release = list(self._since_answer)
        self._since_answer.clear()
        for _ in range(RELEASED_PER_ANSWER if self._to_release else 0):
            self._release(self._to_release.pop(0))
            if not self._to_release:
                break

    def _release(self, entry: EntryId) -> None:
        failures = self._failures.get(entry)
        if failures is not None:
            self._failures[entry] = replace(failures, until=self.order)

    def _note(self, entry: EntryId, limit: int) -> None:
        failures = self._failures.get(entry)
        alone = 1 if failures is None else failures.alone + 1
        self._failures[entry] = KeyFailures(limit, alone, self.order + min(2**alone, LONGEST_BACKOFF))
        if self.expects_outages:
            self._since_answer[entry] = None
