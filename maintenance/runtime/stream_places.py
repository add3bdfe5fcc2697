"""State that a run resumes from after a restart: the positions of its streams, and the progress of its queries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from freshkeeper.maintenance.base.term_text import decode, encode
from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.r2s import AnswerBag, Freshness
from freshkeeper.maintenance.query.model import WindowKind
from freshkeeper.maintenance.state.database import Database
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.maintenance.streams.batch import Stream
from freshkeeper.maintenance.streams.live.feed import FeedLines, LinkStatus, OnLoss, Position
from freshkeeper.maintenance.streams.opening import Reception


@dataclass(eq=False)
class Progress:
    """The progress of one query."""

    base: Database
    query: str = ""
    """its name; empty for the only query of a run"""

    @property
    def answered(self) -> int | None:
        """The last evaluation whose answers are out for sure."""
        found: int | None = self.base.facts.get(self._key("answered"))
        return found

    @property
    def answering(self) -> int | None:
        """The evaluation that was being answered when the process before ended; its answers may be partial."""
        found: int | None = self.base.facts.get(self._key("answering"))
        return found

    @property
    def streamed(self) -> AnswerBag | None:
        """The answers with which R2S compares the next ones."""
        written = self.base.facts.get(self._key("streamed"))
        if written is not None:
            return _decode(written)
        return None

    def begin(self, t: int) -> None:
        """Note that the answers of an evaluation are about to go out."""
        with self.base.transaction():
            self.base.note({self._key("answering"): t})

    def answer(self, t: int, streamed: AnswerBag | None) -> None:
        """Note that the answers of an evaluation are out; R2S compares the next ones with `streamed`."""
        facts: dict[str, Any] = {"answering": None, "answered": t, "streamed": None}
        if streamed is not None:
            facts["streamed"] = _encode(streamed)
        with self.base.transaction():
            self.base.note({self._key(name): value for name, value in facts.items()})

    def _key(self, fact: str) -> str:
        return f"{fact} {self.query}".rstrip()


def _encode(answers: AnswerBag) -> list[Any]:
    freshness = None
    if answers.freshness is not None:
        freshness = [[one.probability, one.age] for one in answers.freshness]
    return [encode(tuple(answers.items)), freshness]


def _decode(written: list[Any]) -> AnswerBag:
    (items,) = decode([written[0]])
    sure = None if written[1] is None else [Freshness(probability, age) for probability, age in written[1]]
    return AnswerBag(items, sure)


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
