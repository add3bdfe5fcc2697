"""Where the streams of a run go on after a restart: before everything that windows of the next evaluations hold.

Elements in windows are in no state; they are read again, from a place that is noted with the evaluations that are out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.query.model import WindowKind
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.maintenance.streams.batch import Stream
from freshkeeper.maintenance.streams.event_order import NEVER
from freshkeeper.maintenance.streams.live.feed import FeedLines, LinkStatus, OnLoss, Position
from freshkeeper.maintenance.streams.opening import Reception


@dataclass(eq=False)
class StreamPlaces:
    """Those of streams that come over a network."""

    queries: Sequence[ContinuousQuery]
    state: State | None
    tell: Callable[[str], None]
    _lines: dict[str, FeedLines] = field(default_factory=dict)
    _answered: dict[str, int] = field(default_factory=dict)
    _noted: dict[str, Position] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._answered = {query.name: query.done for query in self.queries if query.done is not None}

    def reception(self, name: str, on_loss: OnLoss) -> Reception:
        """How a stream is received: from where an earlier run wants it."""
        return Reception(on_loss, self.tell, {} if self.state is None else self.state.place(name))

    def follow(self, name: str, stream: Stream) -> None:
        """One more stream; those that are files are read from their beginning."""
        if isinstance(stream, FeedLines):
            self._lines[name] = stream
            self._noted[name] = stream.feed.position

    @property
    def links(self) -> dict[str, LinkStatus]:
        """How the connections are, by stream."""
        return {name: lines.feed.status for name, lines in self._lines.items()}

    def close(self) -> None:
        """Let go of all connections: whoever shares a topic gets its partitions at once."""
        for lines in self._lines.values():
            lines.feed.stop()

    def answered(self, query: str, t: int) -> None:
        """An evaluation is out: what it alone needed is not needed again."""
        if not self._lines:
            return
        self._answered[query] = t
        for name, lines in self._lines.items():
            place = lines.trail.back_to(self._needed(name))
            if place != self._noted[name]:
                self._noted[name] = place
                if self.state is not None:
                    self.state.keep_place(name, place)
                lines.feed.commit(place)

    def _needed(self, stream: str) -> int:
        """Elements after this instant are needed again; those of windows that count, or have no end, all are."""
        since = None
        for query in self.queries:
            for window in query.query.windows:
                if window.stream == stream:
                    answered = self._answered.get(query.name)
                    counts = answered is None or window.kind is not WindowKind.TIME or window.range is None
                    need = NEVER if counts else (answered or 0) - (window.range or 0) - window.lag
                    since = need if since is None else min(since, need)
        return NEVER if since is None else since
