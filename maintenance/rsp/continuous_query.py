"""One continuous query from elements to results.

elements ─▶ contents of windows ─▶ dataset ─▶ evaluator ─▶ R2S ─▶ result
                   │                              ▲
                   ╰──▶ clock and report ──▶ SERVICE from the view
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyoxigraph import NamedNode

from freshkeeper.maintenance.query.federation.free_graphs import check_free_graphs
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.rsp.evaluator import Evaluator, Function, Snapshot
from freshkeeper.maintenance.rsp.functions import functions
from freshkeeper.maintenance.rsp.held_triples import STILL, Move
from freshkeeper.maintenance.rsp.r2s import Answers, Result, Streamer
from freshkeeper.maintenance.rsp.report_policy import Clock
from freshkeeper.maintenance.rsp.window_content import Content
from freshkeeper.maintenance.rsp.window_dataset import Graphs, WindowDataset, static_quads
from freshkeeper.maintenance.streams.batch import Timed
from freshkeeper.policies.errors import ConfigError


class Answering(Protocol):
    """How the answers of one instant are found: from the dataset alone, or with SERVICE from the view."""

    variables: tuple[str, ...]
    errors: int

    def answers(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Answers:
        """All answers at `now`, as R2S compares them."""
        ...

    def rebuild(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> None:
        """An instant that an earlier run answered: only what the windows hold matters."""
        ...

    def emit(self, streamed: Answers) -> Answers:
        """What goes out of what R2S left."""
        ...


@dataclass(eq=False)
class ContinuousQuery:
    """A registered query, made by `build`: give it elements and the watermark, and it gives results."""

    query: Query
    contents: Sequence[Content]
    """of its windows"""
    answering: Answering
    graphs: Graphs = field(default_factory=dict)
    start: int = 0
    """t0 of windows that do not say theirs"""
    name: str = ""
    done: int | None = None
    """an earlier run answered all evaluations up to this one: here they only fill the windows"""
    follow: Callable[[Content, Move], None] | None = None
    """who is told how windows move; None: a dataset, over which the SPARQL library evaluates the query"""

    def __post_init__(self) -> None:
        """Lay out the dataset."""
        if self.query.times.every is not None and not self.query.windows:
            raise ConfigError(
                "COMPUTED EVERY needs a window: time passes with the elements of a stream, and this query reads none; "
                "declare FROM WINDOW ON <stream> [RANGE ...], or leave the period out to evaluate it once"
            )
        check_free_graphs(self.query.group)
        self._evaluator: Evaluator = Snapshot()
        self._follow = self.follow or self._lay_dataset().apply
        self._clock = Clock(self.query, self.contents, self.start)
        self._by_stream: dict[str, list[Content]] = {}
        for content in self.contents:
            self._by_stream.setdefault(content.window.stream, []).append(content)
        self.streamer = Streamer(self.query.operator)

    def _lay_dataset(self) -> WindowDataset:
        static, dataset = static_quads(self.query, self.graphs), self.query.dataset
        visible = [*dataset.named_graphs, *(window.name for window in dataset.named_windows)]
        self._evaluator = Snapshot(static, [NamedNode(name) for name in visible])
        return WindowDataset.of(self.query, static, self._evaluator)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams it reads."""
        return tuple(self._by_stream)

    def receive(self, stream: str, batch: Timed) -> None:
        """Elements of a stream, in order."""
        for content in self._by_stream.get(stream, ()):
            content.receive(batch)

    def discard(self, stream: str) -> None:
        """What a stream's windows wait with will never be due."""
        for content in self._by_stream.get(stream, ()):
            content.discard()

    def begin(self, first: int) -> None:
        """The earliest element of its streams has this time; until this is said nothing is evaluated."""
        if not self._clock.begun:
            self._clock.begin(first)

    @property
    def begun(self) -> bool:
        """Whether evaluations have a beginning."""
        return self._clock.begun

    def advance(self, watermark: int) -> Iterator[Result]:
        """Every evaluation before the watermark, in order."""
        while (now := self._clock.next()) is not None and now < watermark:
            result = self._evaluate(now)
            self._clock.passed(now)
            if result is not None:
                yield result

    def conclude(self) -> Iterator[Result]:
        """What the last elements call for: a window that leaves out its end holds them a millisecond later."""
        while (now := self._clock.called()) is not None:
            yield from self.advance(now + 1)

    def drain(self) -> Iterator[Result]:
        """Go on until the windows are empty."""
        while any(_drains(content) for content in self.contents) and (now := self._clock.next()) is not None:
            yield from self.advance(now + 1)

    def once(self, now: int = 0) -> Result:
        """A query without windows is evaluated once."""
        return self._answer(now)

    def _evaluate(self, now: int) -> Result | None:
        moves: Sequence[tuple[Content, Move]] = [(content, self._move(content, now)) for content in self.contents]
        if not self._clock.reports(moves):
            return None
        if self.done is None or now > self.done:
            return self._answer(now)
        self.answering.rebuild(now, self._evaluator, functions(self.contents, now))
        return None

    def _move(self, content: Content, now: int) -> Move:
        move = content.move(now)
        self._follow(content, move)
        while self.query.times.every is not None and (further := content.move(now)) is not STILL and further.changed:
            self._follow(content, further)
            move = further
        return move

    def _answer(self, now: int) -> Result:
        found = self.answering.answers(now, self._evaluator, functions(self.contents, now))
        streamed = self.answering.emit(self.streamer.stream(found))
        return Result(
            now,
            self.query.form,
            self.query.operator,
            self.answering.variables,
            streamed.items,
            streamed.freshness,
            {content.window.name: content.bounds() for content in self.contents},
            self.name,
            errors=self.answering.errors,
        )


def _drains(content: Content) -> bool:
    """Whether time alone will empty the window."""
    return content.window.step is not None and content.window.range is not None and not content.empty
