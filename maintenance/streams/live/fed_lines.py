"""A feed as a stream of lines, which remembers from where its elements would have to be read again."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.streams.event_order import NEVER
from freshkeeper.maintenance.streams.live.feed import Feed, Position
from freshkeeper.maintenance.streams.timed_lines import TimedLines

MOST = 10_001
"""Places that are remembered, an odd number; beyond that every other one is, which only makes more be read again."""


@dataclass(eq=False)
class Trail:
    """The places before chunks of elements, and the latest time by the end of each."""

    _steps: deque[tuple[Position, int]] = field(default_factory=deque)
    end: Position = field(default_factory=dict)
    """after all of them"""

    def add(self, before: Position, latest: int, after: Position) -> None:
        """Note a chunk: the places before and behind it, and the latest time that it has."""
        if self._steps and self._steps[-1][1] == latest:
            self.end = after  # no later than those before: read again with them
            return
        self._steps.append((before, latest))
        self.end = after
        if len(self._steps) > MOST:
            pairs = zip(list(self._steps)[::2], list(self._steps)[1::2], strict=False)
            self._steps = deque((first[0], second[1]) for first, second in pairs)

    def back_to(self, time: int) -> Position:
        """From where everything later than an instant comes again; what is older is forgotten."""
        while self._steps and self._steps[0][1] <= time:
            self._steps.popleft()
        return self._steps[0][0] if self._steps else self.end


@dataclass(eq=False, kw_only=True)
class FedLines(TimedLines):
    """The elements of a feed."""

    feed: Feed
    trail: Trail = field(default_factory=Trail)

    def chunks(self) -> Iterator[tuple[bytes, int]]:
        """Whole lines as they come; when more is asked for, these have been read."""
        line, before = 1, self.feed.position
        self.trail.end = before
        for received in self.feed.received():
            if received.text:
                yield received.text, line
                line += received.text.count(b"\n")
            self.trail.add(before, NEVER if self.steps.latest is None else self.steps.latest, received.position)
            before = received.position
