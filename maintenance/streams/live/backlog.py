"""Several parts of one stream, read at once and handed on in the order of time while one has more than was read.

Brokers give a part after the other as it comes. Where a lot waits, as after a pause, elements of one part would seem
late because of another that happened to come first; so what is behind is waited for until each part is where it ended
when reading began. From there on elements go on as they come.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field

MOST = 200_000
"""Messages that may wait for those of another part; more go on, in whatever order."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """A message that nobody has taken yet, and where it came from."""

    part: str
    number: int
    text: bytes

    @property
    def time(self) -> int:
        """That of its first element; what has none goes first, to whoever says what is wrong with it."""
        first = self.text.partition(b"\t")[0]
        return int(first) if first.isdigit() and len(first) < 19 else 0


@dataclass(eq=False)
class Backlog:
    """The parts, and what waits of each."""

    _ends: dict[str, int] = field(default_factory=dict)
    """parts that have more than was read, and where that ends"""
    _waiting: dict[str, deque[Waiting]] = field(default_factory=dict)
    _count: int = 0

    def expect(self, part: str, begin: int, end: int) -> None:
        """A part has messages from one number to another, the last excluded."""
        if begin < end:
            self._ends[part] = end

    def forget(self, part: str) -> None:
        """Nothing of it comes any more."""
        self._ends.pop(part, None)
        self._count -= len(self._waiting.pop(part, ()))

    def take(self, message: Waiting) -> None:
        """One more, of a part in order."""
        self._waiting.setdefault(message.part, deque()).append(message)
        self._count += 1
        if message.number + 1 >= self._ends.get(message.part, 0):
            self._ends.pop(message.part, None)

    def ready(self) -> list[Waiting]:
        """What may go on now."""
        found: list[Waiting] = []
        heads = [(queue[0].time, part) for part, queue in self._waiting.items() if queue]
        heapq.heapify(heads)
        while heads and (self._count > MOST or not self._missing()):
            _, part = heapq.heappop(heads)
            queue = self._waiting[part]
            found.append(queue.popleft())
            self._count -= 1
            if queue:
                heapq.heappush(heads, (queue[0].time, part))
        return found

    def _missing(self) -> bool:
        """Whether a part that has more has nothing here to compare with."""
        return any(not self._waiting.get(part) for part in self._ends)
