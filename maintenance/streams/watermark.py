"""The streams of a run: which is read next, and how far all of them are."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event

from freshkeeper.maintenance.base.durations import to_iso
from freshkeeper.maintenance.streams.background import Background, SilentError
from freshkeeper.maintenance.streams.batch import Stream, Timed
from freshkeeper.maintenance.streams.event_order import EMPTY, NEVER, Order
from freshkeeper.maintenance.streams.steps import LONGEST_GAP
from freshkeeper.maintenance.streams.stream_error import StreamError
from freshkeeper.maintenance.streams.timed_lines import ReadErrors


@dataclass(eq=False)
class Input:
    """One stream with its order, and what of it was read but not yet taken."""

    name: str
    stream: Stream
    order: Order
    background: Background | None = None
    """reads it, where it may be idle"""
    first: int | None = None
    """the time of its earliest element"""
    ended: bool = False
    idle: bool = False
    """it was silent for so long that it holds nobody back"""

    _batches: Iterator[Timed] | None = None

    @property
    def holds(self) -> bool:
        """Whether the others wait for it."""
        return not self.ended and not self.idle

    def read_from(self, stream: Stream) -> None:
        """The same elements from another reader; before the first is read."""
        self.stream = stream
        if self.background is not None:
            self.background.stream = stream

    def read(self) -> Timed:
        """The next elements in order; at the end, those that waited; of a silent stream nothing."""
        try:
            batch = self._next()
        except SilentError:
            self.idle = True
            return EMPTY
        return self.end() if batch is None else self.take(batch)

    def _next(self) -> Timed | None:
        if self.background is not None:
            return self.background.take()
        self._batches = self._batches or iter(self.stream.batches())
        return next(self._batches, None)

    def take(self, batch: Timed) -> Timed:
        """What may be handed on of elements that have come."""
        self.idle = False
        if self.first is None and len(batch):
            self.first = int(min(batch.times))
        return self.order.take(batch)

    def end(self) -> Timed:
        """Nothing comes any more; what waited may be handed on."""
        self.ended, self.idle = True, False
        return self.order.rest()


@dataclass(eq=False)
class Inputs:
    """All streams of a run; the one that is furthest behind is read next, so that several files are one replay."""

    gap: int = LONGEST_GAP
    """the longest plausible time between two elements of any streams"""
    read_errors: ReadErrors = field(default_factory=ReadErrors)
    inputs: list[Input] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    """streams that begin so long after the others that time never gets there"""
    _news: Event = field(default_factory=Event)

    def add(self, name: str, stream: Stream, delay: int = 0, idle: float | None = None) -> None:
        """One more; with `idle`, so many seconds of silence make it hold the others back no longer."""
        background = None if idle is None else Background(stream, idle, self._news.set)
        self.inputs.append(Input(name, stream, Order(delay), background))

    def __iter__(self) -> Iterator[Input]:
        """The streams in the order in which they were added."""
        return iter(self.inputs)

    def named(self, name: str) -> Input:
        """The stream of this name."""
        return next(one for one in self.inputs if one.name == name)

    def next(self) -> Input | None:
        """Which to read: an idle one that speaks again, or the one furthest behind; nothing when all have ended."""
        while any(not one.ended for one in self.inputs):
            self._news.clear()
            speaking = [one for one in self.inputs if one.idle and one.background is not None and one.background.ready]
            waited_for = speaking or [one for one in self.inputs if one.holds]
            if waited_for:
                return min(waited_for, key=lambda one: one.order.watermark)
            self._news.wait()
        return None

    def watermark(self) -> int:
        """No element before this instant comes any more; an idle stream that comes with one has it counted as late."""
        holding = [one.order.watermark for one in self.inputs if one.holds]
        if holding:
            passed = min(holding)
        elif any(one.idle for one in self.inputs):
            passed = max(one.order.watermark for one in self.inputs)
        else:
            return NEVER
        passed = self._reached(passed)
        for one in self.inputs:
            if one.idle:
                one.order.go_on(passed)
        return passed

    @property
    def late(self) -> int:
        """How many elements came too late, over all streams."""
        return sum(one.order.late for one in self.inputs)

    @property
    def latest(self) -> int:
        """The time of the last element of all."""
        return self._reached(max((one.order.latest for one in self.inputs), default=NEVER))

    def _reached(self, wanted: int) -> int:
        """How far time passes on the way to an instant: not over a gap that no element of any stream is in."""
        reached = None
        begun = ((one.first, one.order.latest, one.name) for one in self.inputs if one.first is not None)
        for first, latest, name in sorted(begun):
            if reached is None or first - reached <= self.gap:
                reached = latest if reached is None else max(reached, latest)
            elif wanted > reached and name not in self.unreached:
                self.unreached.append(name)
                ahead = f"at {first}, {to_iso(first - reached)} after all that other streams have"
                problem = f"it is {ahead}; at most {to_iso(self.gap)} is plausible, which --gap says"
                self.read_errors.found(StreamError(f"the stream <{name}>", "its first element", problem))
        return wanted if reached is None else min(wanted, reached)
