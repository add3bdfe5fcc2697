"""The streams of a run: which of them to read next, and the watermark that all have reached."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import Empty, Queue
from threading import Event, Thread

from freshkeeper.maintenance.base.durations import to_iso
from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.streams.batch import Stream, TimedElements
from freshkeeper.maintenance.streams.event_order import EMPTY, EventOrder
from freshkeeper.maintenance.streams.gap_limit import LONGEST_GAP
from freshkeeper.maintenance.streams.read_errors import ReadErrors, StreamError

MAX_QUEUED_BATCHES = 16


class SilentError(Exception):
    """Raised when no batch arrives within the timeout."""


@dataclass(eq=False)
class BackgroundReader:
    """A reader of a stream in a thread of its own."""

    stream: Stream
    timeout_s: float
    """seconds of silence after which `take` raises SilentError"""
    notify: Callable[[], None]
    """called when a batch arrives"""
    _arrived: Queue[TimedElements | BaseException | None] = field(default_factory=lambda: Queue(MAX_QUEUED_BATCHES))
    _thread: Thread | None = None

    @property
    def ready(self) -> bool:
        return not self._arrived.empty()

    def take(self) -> TimedElements | None:
        """Return the next batch, or None at the end; raise SilentError if none arrives in time."""
        if self._thread is None:
            self._thread = Thread(target=self._read, daemon=True)
            self._thread.start()
        try:
            arrived = self._arrived.get(timeout=self.timeout_s)
        except Empty:
            raise SilentError from None
        if isinstance(arrived, BaseException):
            raise arrived
        return arrived

    def _read(self) -> None:
        try:
            for batch in self.stream.batches():
                self._hand_over(batch)
            self._hand_over(None)
        except Exception as error:
            self._hand_over(error)

    def _hand_over(self, arrived: TimedElements | BaseException | None) -> None:
        self._arrived.put(arrived)
        self.notify()


@dataclass(eq=False)
class Input:
    """A stream with its order in time, and elements that were read but not yet handed on."""

    name: str
    stream: Stream
    order: EventOrder
    background: BackgroundReader | None = None
    """the reader of a stream that may be idle"""
    first: int | None = None
    """the time of the earliest element"""
    ended: bool = False
    idle: bool = False
    """True after so long a silence that no other stream waits for this one"""

    _batches: Iterator[TimedElements] | None = None

    @property
    def holds(self) -> bool:
        """True if other streams wait for this one."""
        return not self.ended and not self.idle

    def read_from(self, stream: Stream) -> None:
        """Replace the reader of the elements, before the first is read."""
        self.stream = stream
        if self.background is not None:
            self.background.stream = stream

    def read(self) -> TimedElements:
        """Return the next elements in order; at the end, those that waited; none of a silent stream."""
        try:
            batch = self._next()
        except SilentError:
            self.idle = True
            return EMPTY
        if batch is None:
            return self.end()
        return self.take(batch)

    def _next(self) -> TimedElements | None:
        if self.background is not None:
            return self.background.take()
        self._batches = self._batches or iter(self.stream.batches())
        return next(self._batches, None)

    def take(self, batch: TimedElements) -> TimedElements:
        self.idle = False
        if self.first is None and len(batch):
            self.first = int(min(batch.times))
        return self.order.take(batch)

    def end(self) -> TimedElements:
        self.ended = True
        self.idle = False
        return self.order.rest()


@dataclass(eq=False)
class Inputs:
    """The streams of a run; the one furthest behind is read next, so that several files are one replay."""

    gap: int = LONGEST_GAP
    """the longest plausible time between two elements of any streams"""
    read_errors: ReadErrors = field(default_factory=ReadErrors)
    inputs: list[Input] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    """streams that begin implausibly long after the others, so that time never gets there"""
    _arrival: Event = field(default_factory=Event)

    def add(self, name: str, stream: Stream, delay: int = 0, idle: float | None = None) -> None:
        """Add a stream; with `idle`, after so many seconds of silence it no longer holds the others back."""
        background = None
        if idle is not None:
            background = BackgroundReader(stream, idle, self._arrival.set)
        self.inputs.append(Input(name, stream, EventOrder(delay), background))

    def __iter__(self) -> Iterator[Input]:
        return iter(self.inputs)

    def find(self, name: str) -> Input:
        return next(one for one in self.inputs if one.name == name)

    def next(self) -> Input | None:
        """Return the stream to read: an idle one with new elements, or the one furthest behind.

        None when all have ended.
        """
        while any(not one.ended for one in self.inputs):
            self._arrival.clear()  # before looking, so that an arrival meanwhile is not missed
            returning = [one for one in self.inputs if one.idle and one.background is not None and one.background.ready]
            candidates = returning or [one for one in self.inputs if one.holds]
            if candidates:
                return min(candidates, key=lambda one: one.order.watermark)
            self._arrival.wait()
        return None

    def watermark(self) -> int:
        """Return the instant before which no element will be handed on.

        An idle stream that comes back with an element before it has that element counted as late.
        """
        holding = [one.order.watermark for one in self.inputs if one.holds]
        if holding:
            passed = min(holding)
        elif any(one.idle for one in self.inputs):  # nobody holds time back: it goes as far as any stream has got
            passed = max(one.order.watermark for one in self.inputs)
        else:
            return DISTANT_PAST
        passed = self._reached(passed)
        for one in self.inputs:
            if one.idle:  # else an element that comes later would be before evaluations that were answered
                one.order.advance(passed)
        return passed

    @property
    def late(self) -> int:
        return sum(one.order.late for one in self.inputs)

    @property
    def latest(self) -> int:
        return self._reached(max((one.order.latest for one in self.inputs), default=DISTANT_PAST))

    def _reached(self, instant: int) -> int:
        """Return how far time passes on the way to an instant: not over a gap without elements of any stream."""
        reached = None
        begun = ((one.first, one.order.latest, one.name) for one in self.inputs if one.first is not None)
        for first, latest, name in sorted(begun):
            if reached is None:
                reached = latest
            elif first - reached <= self.gap:
                reached = max(reached, latest)
            elif instant > reached and name not in self.unreached:
                self.unreached.append(name)
                ahead = f"at {first}, {to_iso(first - reached)} after all elements of other streams"
                problem = f"it is {ahead}; at most {to_iso(self.gap)} is plausible (--gap)"
                self.read_errors.report(StreamError(f"the stream <{name}>", "its first element", problem))
        if reached is None:
            return instant
        return min(instant, reached)
