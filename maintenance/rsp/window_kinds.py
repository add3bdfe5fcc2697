"""The kinds of windows: over time, over all that came, over the last elements."""

from collections.abc import Sequence

from pyoxigraph import Quad

from freshkeeper.maintenance.query.model import Window, WindowKind
from freshkeeper.maintenance.rsp.window_content import NEVER, STILL, Content, Move, difference
from freshkeeper.maintenance.settings.closure import Closure


class TimeContent(Content):
    """(t − ω, t] or [t − ω, t): every β, or with a step of None up to date always. NOW is the range of 1 ms."""

    def __post_init__(self) -> None:
        """How much later than its time an element is there: the lag, and a millisecond where the end is left out."""
        super().__post_init__()
        right_open = self.window.closure is Closure.RIGHT_OPEN and self.window.kind is WindowKind.TIME
        self._later = self.window.lag + int(right_open)

    def begin(self, first: int) -> None:
        """Evaluations begin with the first t_k, k ≥ 1, at or after the first element."""
        if self.window.step is not None and self.moved == NEVER:
            k = max(1, -(-(first - self.start) // self.window.step))
            self.moved = self.start + (k - 1) * self.window.step

    def trigger(self) -> int | None:
        """The next t_k; without a step, the first instant that holds the next element."""
        if self.window.step is None:
            waiting = super().trigger()
            return None if waiting is None else waiting + self._later
        return self.moved + self.window.step if self.moved != NEVER else None

    def move(self, now: int) -> Move:
        """To the last own instant at or before `now`."""
        to = now
        if self.window.step is not None:
            if self.moved == NEVER or now < self.moved + self.window.step:
                return STILL
            to = self.start + (now - self.start) // self.window.step * self.window.step
        until = to + 1 - self._later
        oldest = until - (self.window.range or 0)
        removed = self._leave(oldest)
        added = [quad for times, quads in self._take(until, oldest) for quad in self._enter(times, quads)]
        self.moved = to
        return difference(added, removed, self.window.step is not None and to == now)

    def bounds(self) -> tuple[int, int]:
        """t − ω and t, or as much earlier as the window lags behind."""
        end = self.moved - self.window.lag
        return end - (self.window.range or 0), end

    def expiry(self, time: int) -> int:
        """ω after it is there."""
        return time + (self.window.range or 0) + self._later


class AllContent(Content):
    """Every element so far; nothing ever leaves."""

    _first: int | None = None

    def move(self, now: int) -> Move:
        """Take in what waited."""
        latest, added = self.latest, []
        for times, quads in self._take(now + 1):
            self._first = times[0] if self._first is None else self._first
            added += [quad for quad in quads if quad not in latest]
            latest.update(zip(quads, times, strict=True))
        self.moved = now
        return difference(added, [], False)

    def bounds(self) -> tuple[int, int]:
        """From the first element on."""
        return (self.moved if self._first is None else self._first), self.moved


class CountContent(Content):
    """The last n elements; it moves when m more have come, in the order of elements, also within one instant."""

    def trigger(self) -> int | None:
        """The time of the element that completes the next m."""
        missing = self.window.step or 1
        for batch in self._pending:
            if missing <= len(batch):
                return batch.times[missing - 1]
            missing -= len(batch)
        return None

    def move(self, now: int) -> Move:
        """One step further, if its m elements have come."""
        due = self.trigger()
        if due is None or due > now:
            return STILL
        added: list[Quad] = []
        missing = self.window.step or 1
        while missing:
            batch = self._pending.popleft()
            if len(batch) > missing:
                self._pending.appendleft(batch.part(missing, len(batch)))
                batch = batch.part(0, missing)
            missing -= len(batch)
            added += self._enter(batch.times, self._in_graph(batch))
        self.moved = due
        return difference(added, self._drop(), True)

    def bounds(self) -> tuple[int, int]:
        """From the oldest element held on."""
        return (self._held[0][0] if self._held else self.moved), self.moved

    def _enter(self, times: Sequence[int], quads: Sequence[Quad]) -> list[Quad]:
        """Ordinals decide what leaves: an element that comes twice is held twice, and leaves with its last copy."""
        new = [quad for quad in quads if quad not in self.latest]
        for time, quad in zip(times, quads, strict=True):
            self._held.append((time, quad))
            self.latest[quad] = time
            self._copies[quad] = self._copies.get(quad, 0) + 1
        return new

    def _drop(self) -> list[Quad]:
        gone = []
        while len(self._held) > (self.window.range or 0):
            _, quad = self._held.popleft()
            self._copies[quad] -= 1
            if not self._copies[quad]:
                del self._copies[quad], self.latest[quad]
                gone.append(quad)
        return gone

    def __post_init__(self) -> None:
        """Count the copies of each triple."""
        super().__post_init__()
        self._copies: dict[Quad, int] = {}


def content_of(window: Window, start: int) -> Content:
    """The content of a window, by its kind."""
    t0 = start if window.t0 is None else window.t0
    if window.kind is WindowKind.ALL:
        return AllContent(window, t0)
    if window.kind is WindowKind.ELEMENTS:
        return CountContent(window, t0)
    return TimeContent(window, t0)
