"""The kinds of windows: over time, over everything, over the last elements."""

from functools import cached_property

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.engine.held_triples import NO_MOVE, QuadWindowStore, WindowMove, WindowStore
from freshkeeper.maintenance.engine.window_content import WindowState, graph_of
from freshkeeper.maintenance.query.model import StreamWindow, WindowKind


class TimeWindow(WindowState):
    """The interval (t − ω, t] or [t − ω, t), moved every β or, without a step, at every evaluation.

    NOW is a window with a range of 1 ms.
    """

    @cached_property
    def _later(self) -> int:
        """Milliseconds between the time of an element and its entry: the lag, plus 1 if the end is excluded."""
        right_open = self.window.closure is Closure.RIGHT_OPEN and self.window.kind is WindowKind.TIME
        return self.window.lag + int(right_open)

    def begin(self, first: int) -> None:
        """Place the first move at the first t_k = t0 + k·β, k ≥ 1, at or after the first element."""
        if self.window.step is not None and self.last_move == DISTANT_PAST:
            # -(-a // b) rounds up.
            k = max(1, -(-(first - self.start) // self.window.step))
            self.last_move = self.start + (k - 1) * self.window.step

    def trigger(self) -> int | None:
        if self.window.step is None:
            waiting = super().trigger()
            return None if waiting is None else waiting + self._later
        return self.last_move + self.window.step if self.last_move != DISTANT_PAST else None

    def reached(self, now: int) -> int | None:
        """Return the window's last own instant at or before `now`, or None if it has moved there already."""
        if self.window.step is None:
            return now
        if self.last_move == DISTANT_PAST or now < self.last_move + self.window.step:
            return None
        return self.start + (now - self.start) // self.window.step * self.window.step

    def move(self, now: int) -> WindowMove:
        if (to := self.reached(now)) is None:
            return NO_MOVE
        until = to + 1 - self._later
        oldest = until - (self.window.range or 0)
        self.store.remove_before(oldest)
        self._take_queued(until, oldest)
        self.last_move = to
        return self.store.take_move(self.window.step is not None and to == now)

    def bounds(self) -> tuple[int, int]:
        end = self.last_move - self.window.lag
        return end - (self.window.range or 0), end

    def expiry(self, time: int) -> int:
        return time + (self.window.range or 0) + self._later


class UnboundedWindow(WindowState):
    """Every element so far; nothing leaves."""

    def move(self, now: int) -> WindowMove:
        self._take_queued(now + 1)
        self.last_move = now
        return self.store.take_move(False)

    def bounds(self) -> tuple[int, int]:
        oldest = self.store.oldest
        return (self.last_move if oldest is None else oldest), self.last_move


class CountWindow(WindowState):
    """The last n elements, moved whenever m more have arrived, also several times within one instant."""

    def trigger(self) -> int | None:
        missing = self.window.step or 1
        for batch in self._pending:
            if missing <= len(batch):
                return int(batch.times[missing - 1])
            missing -= len(batch)
        return None

    def move(self, now: int) -> WindowMove:
        due = self.trigger()
        if due is None or due > now:
            return NO_MOVE
        missing = self.window.step or 1
        while missing:
            batch = self._pending.popleft()
            if len(batch) > missing:
                self._pending.appendleft(batch.part(missing, len(batch)))
                batch = batch.part(0, missing)
            missing -= len(batch)
            self.store.add(batch)
        self.store.keep_last(self.window.range or 0)
        self.last_move = due
        return self.store.take_move(True)

    def bounds(self) -> tuple[int, int]:
        oldest = self.store.oldest
        return (self.last_move if oldest is None else oldest), self.last_move


def window_state(window: StreamWindow, start: int, held: WindowStore | None = None) -> WindowState:
    """Create the state of a window by its kind; triples are stored as quads unless another store is given."""
    t0 = start if window.t0 is None else window.t0
    triples = held
    if triples is None:
        triples = QuadWindowStore(graph_of(window), window.kind)
    if window.kind is WindowKind.ELEMENTS:
        return CountWindow(window, t0, triples)
    if window.kind is WindowKind.ALL:
        return UnboundedWindow(window, t0, triples)
    return TimeWindow(window, t0, triples)
