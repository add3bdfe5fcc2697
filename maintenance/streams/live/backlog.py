"""Parts of a stream that are read at once, and handed on in the order of time while a part has unread messages.

Brokers send one part after the other. With many unread messages, as after a pause, elements of one part would seem late
because those of another happened to arrive first; so messages wait until each part is where it ended when reading
began. From there on messages are handed on as they arrive.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field

MAX_WAITING_MESSAGES = 200_000
"""Messages that may wait for those of another part; if there are more, they are handed on in any order."""


@dataclass(frozen=True, eq=False)
class PendingMessage:
    """A message that was not handed on yet, and its place."""

    part: str
    number: int
    text: bytes

    @property
    def time(self) -> int:
        """The time of the first element, or 0 if it has none: its reader then reports what is wrong with it."""
        first = self.text.partition(b"\t")[0]
        if first.isdigit() and len(first) < 19:
            return int(first)
        return 0


@dataclass(eq=False)
class Backlog:
    """Parts of a stream, and the messages of each that wait."""

    _ends: dict[str, int] = field(default_factory=dict)
    """parts with unread messages, and where these end"""
    _waiting: dict[str, deque[PendingMessage]] = field(default_factory=dict)
    _count: int = 0

    def expect(self, part: str, begin: int, end: int) -> None:
        """Note that a part has messages from one number to another, the last excluded."""
        if begin < end:
            self._ends[part] = end

    def forget(self, part: str) -> None:
        """Drop a part, from which nothing will arrive any more."""
        self._ends.pop(part, None)
        self._count -= len(self._waiting.pop(part, ()))

    def take(self, message: PendingMessage) -> None:
        """Add a message, the next of its part."""
        self._waiting.setdefault(message.part, deque()).append(message)
        self._count += 1
        # the part is where it ended when reading began: from now on its messages need not be waited for
        if message.number + 1 >= self._ends.get(message.part, 0):
            self._ends.pop(message.part, None)

    def ready(self) -> list[PendingMessage]:
        """Return the messages that can be handed on now."""
        found: list[PendingMessage] = []
        heads = [(queue[0].time, part) for part, queue in self._waiting.items() if queue]
        heapq.heapify(heads)
        # a part with unread messages and none here might have an earlier one: wait for it, within limits
        while heads and (self._count > MAX_WAITING_MESSAGES or not self._missing()):
            _, part = heapq.heappop(heads)
            queue = self._waiting[part]
            found.append(queue.popleft())
            self._count -= 1
            if queue:
                heapq.heappush(heads, (queue[0].time, part))
        return found

    def _missing(self) -> bool:
        """Return whether a part with unread messages has none here whose time could be compared."""
        return any(not self._waiting.get(part) for part in self._ends)
