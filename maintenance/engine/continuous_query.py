"""One continuous query from elements to results.

elements ─▶ contents of windows ─▶ dataset ─▶ evaluator ─▶ R2S ─▶ result
                   │                              ▲
                   ╰──▶ clock and report ──▶ SERVICE from the view
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from pyoxigraph import NamedNode, Quad

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.engine.evaluation_limits import Limits
from freshkeeper.maintenance.engine.evaluator import Evaluator, Function, Snapshot
from freshkeeper.maintenance.engine.functions import functions
from freshkeeper.maintenance.engine.held_triples import STILL, Move
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.r2s import Answers, Result, Streamer
from freshkeeper.maintenance.engine.report_policy import Clock
from freshkeeper.maintenance.engine.window_content import Content
from freshkeeper.maintenance.engine.window_dataset import Graphs, Place, WindowDataset, static_places, static_quads
from freshkeeper.maintenance.fetching.asking import Asking, ask
from freshkeeper.maintenance.query.free_graphs import check_free_graphs
from freshkeeper.maintenance.query.model import Query, WindowKind
from freshkeeper.maintenance.streams.batch import Timed


class Answering(Protocol):
    """How the answers of one instant are found: from the dataset alone, or with SERVICE from the view."""

    variables: tuple[str, ...]
    errors: int

    def prepare(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Sequence[Asking]:
        """What must be asked of sources before there are answers."""
        ...

    def answers(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Answers:
        """All answers at `now`, as R2S compares them."""
        ...

    def rebuild(self, now: int, done: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Sequence[Asking]:
        """An instant that an earlier run answered, the last being `done`: only what the windows hold matters."""
        ...

    def emit(self, streamed: Answers) -> Answers:
        """What goes out of what R2S left."""
        ...

    def leave(self) -> None:
        """There are no more evaluations."""
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
    limits: Limits = field(default_factory=Limits)
    """of one evaluation"""
    done: int | None = None
    """an earlier run answered all evaluations up to this one: here they only fill the windows"""
    follow: Callable[[Content, Move], None] | None = None
    """who is told how windows move; None: a dataset, over which the SPARQL library evaluates the query"""
    dictionary: Dictionary | None = None
    """where its ids come from; None: it is evaluated with terms"""

    def __post_init__(self) -> None:
        if self.query.times.every is not None and not self.query.windows:
            raise ConfigError(
                "COMPUTED EVERY needs a window: time passes with the elements of a stream, and this query reads none; "
                "declare FROM WINDOW ON <stream> [RANGE ...], or leave the period out to evaluate it once"
            )
        check_free_graphs(self.query)
        self._evaluator: Evaluator = Snapshot()
        self._changes: deque[Callable[[], None]] = deque()
        self._follow = self.follow or self._lay_dataset().apply
        self._clock = Clock(self.query, self.contents, self.start)
        self._by_stream: dict[str, list[Content]] = {}
        for content in self.contents:
            self._by_stream.setdefault(content.window.stream, []).append(content)
        self.streamer = Streamer(self.query.operator)
        self._answers = False

    def _lay_dataset(self) -> WindowDataset:
        static, dataset = static_quads(self.query, self.graphs), self.query.dataset
        visible = [*dataset.named_graphs, *(window.name for window in dataset.named_windows)]
        self._evaluator = Snapshot(static, [NamedNode(name) for name in visible], self.limits)
        found = WindowDataset.of(self.query, self.graphs, self._evaluator)
        if isinstance(self.graphs, StaticGraphs):
            places = static_places(self.query, self.graphs)
            self.graphs.follow(self, lambda query, *change: query._changed(found, places, *change))
        return found

    def _changed(
        self, dataset: WindowDataset, places: Sequence[tuple[str, Place]], name: str, gone: list[Quad], come: list[Quad]
    ) -> None:
        """A static graph has changed: from the next evaluation on; any thread may say so."""
        for each, place in places:
            if each == name:
                self._changes.append(partial(dataset.change, place, gone, come))

    @property
    def names(self) -> tuple[str, ...]:
        """Of all queries that it answers."""
        return (self.name,)

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

    def leave(self) -> None:
        """It has failed and is evaluated no more: what it shares with others is theirs."""
        self.answering.leave()

    def begin(self, first: int) -> None:
        """The earliest element of its streams has this time; until this is said nothing is evaluated."""
        if not self._clock.begun:
            self._clock.begin(first)

    @property
    def begun(self) -> bool:
        """Whether evaluations have a beginning."""
        return self._clock.begun

    def reach(self, watermark: int) -> None:
        """Evaluations before the watermark may be asked for; who answers many at once does so now."""

    def due(self) -> int | None:
        """The next instant of an evaluation, as far as it is known."""
        return self._clock.next()

    def called(self) -> int | None:
        """The next one, if an element that has come calls for it or for one after it."""
        return None if self._clock.called() is None else self.due()

    def emptying(self) -> int | None:
        """The next one, if time alone will empty a window."""
        timed = (c for c in self.contents if c.window.kind is WindowKind.TIME and c.window.step is not None)
        return None if all(content.empty for content in timed) else self.due()

    def advance(self, watermark: int) -> Iterator[Result]:
        """Every evaluation before the watermark, in order."""
        self.reach(watermark)
        while (now := self.due()) is not None and now < watermark:
            yield from self._evaluate(now)

    def conclude(self) -> Iterator[Result]:
        """What the last elements call for: a window that leaves out its end holds them a millisecond later."""
        while (now := self.called()) is not None:
            yield from self._evaluate(now)

    def drain(self) -> Iterator[Result]:
        """Go on until the windows are empty."""
        while (now := self.emptying()) is not None:
            yield from self._evaluate(now)

    def once(self, now: int = 0) -> Result:
        """A query without windows is evaluated once."""
        ask(self.answering.prepare(now, self._evaluator, functions(self.contents, now)), now)
        return self._answer(now)

    def prepare(self, now: int) -> Sequence[Asking]:
        """Move the windows to an instant that is due; what must be asked before `answer`."""
        while self._changes:
            self._changes.popleft()()
        moves: Sequence[tuple[Content, Move]] = [(content, self._move(content, now)) for content in self.contents]
        self._clock.passed(now)
        reports, known = self._clock.reports(moves), functions(self.contents, now)
        self._answers = reports and (self.done is None or now > self.done)
        if self._answers:
            return self.answering.prepare(now, self._evaluator, known)
        return (
            () if not reports or self.done is None else self.answering.rebuild(now, self.done, self._evaluator, known)
        )

    def answers(self, now: int) -> Sequence[Result]:
        """What the evaluation that was prepared gives, if it reports and no earlier run has answered it."""
        return [self._answer(now)] if self._answers else []

    def _evaluate(self, now: int) -> Iterator[Result]:
        ask(self.prepare(now), now)
        yield from self.answers(now)

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
