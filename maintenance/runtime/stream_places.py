"""The positions from which streams of a run are resumed: before all elements that windows of the next evaluations hold.

Elements in windows are in no state. They are read again, from a position that is noted with the answered evaluations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.query.model import WindowKind
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.maintenance.streams.batch import Stream
from freshkeeper.maintenance.streams.live.feed import FeedLines, LinkStatus, OnLoss, Position
from freshkeeper.maintenance.streams.opening import Reception


@dataclass(eq=False)
class StreamPlaces:
    """The positions of streams over a network."""

    queries: Sequence[ContinuousQuery]
    state: State | None
    log: Callable[[str], None]
    _lines: dict[str, FeedLines] = field(default_factory=dict)
    _answered: dict[str, int] = field(default_factory=dict)
    _noted: dict[str, Position] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._answered = {query.name: query.done for query in self.queries if query.done is not None}

    def reception(self, name: str, on_loss: OnLoss) -> Reception:
        """Return how a stream is received: from the position of an earlier run."""
        return Reception(on_loss, self.log, {} if self.state is None else self.state.place(name))

    def follow(self, name: str, stream: Stream) -> None:
        """Add a stream; files are read from their beginning."""
        if isinstance(stream, FeedLines):
            self._lines[name] = stream
            self._noted[name] = stream.feed.position

    @property
    def links(self) -> dict[str, LinkStatus]:
        """The connections by stream."""
        return {name: lines.feed.status for name, lines in self._lines.items()}

    def close(self) -> None:
        """Close all connections, so that other consumers of a topic get its partitions at once."""
        for lines in self._lines.values():
            lines.feed.stop()

    def answered(self, query: str, t: int) -> None:
        """Note that an evaluation is answered: elements that only it needed are not read again."""
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
        """Return the instant after which elements are needed again: DISTANT_PAST if a window counts or never ends."""
        instants = []
        for query in self.queries:
            answered = self._answered.get(query.name)
            for window in query.query.windows:
                if window.stream == stream:
                    if answered is None or window.kind is not WindowKind.TIME or window.range is None:
                        return DISTANT_PAST
                    instants.append(answered - window.range - window.lag)
        return min(instants, default=DISTANT_PAST)
