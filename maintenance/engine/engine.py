"""Queries over streams: elements in order to every query that wants them, results as the watermark passes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, TypeVar

from pyoxigraph import Quad, Triple

from freshkeeper.maintenance.base.errors import ConfigError, InputLostError, nearest
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.native.column_lines import as_columns
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.stored_literals import as_stored
from freshkeeper.maintenance.fetching.asking import Asking, ask
from freshkeeper.maintenance.streams.batch import Elements, Stream, Timed
from freshkeeper.maintenance.streams.event_order import NEVER
from freshkeeper.maintenance.streams.steps import LONGEST_GAP, Steps
from freshkeeper.maintenance.streams.timed_lines import TimedLines
from freshkeeper.maintenance.streams.watermark import Inputs

T = TypeVar("T")
ENDLESS = 2**63


class Spans(Protocol):
    """Who wants to know how long evaluations take."""

    def begun(self, query: str, t: int) -> None:
        """One of this instant has begun."""

    def ended(self, query: str, t: int, failed: bool) -> None:
        """The evaluation of a query at an instant is over."""


@dataclass(eq=False)
class Engine:
    """Runs queries over streams in event time: the same input gives the same results, whatever the pace."""

    queries: list[ContinuousQuery] = field(default_factory=list)
    drain: bool = False
    """whether to go on after the last element until the windows are empty"""
    inputs: Inputs = field(default_factory=Inputs)
    failed: Callable[[ContinuousQuery, Exception], None] | None = None
    """is told of a query that fails, while the others go on; without it, the first that fails ends the run"""
    spans: "Spans | None" = None
    """is told when evaluations begin and end"""
    reading: bool = False
    """whether it waits for elements, and evaluates nothing"""
    before_reading: Callable[[], None] = field(default=lambda: None)
    """raises what ends it where it should not wait any more"""

    def register(self, query: ContinuousQuery) -> None:
        """Evaluate one query more."""
        self.queries.append(query)

    def listen(self, name: str, stream: Stream, delay: int = 0, idle: float | None = None) -> None:
        """One more stream; elements may come `delay` milliseconds late.

        With `idle`, the stream holds the others back no longer when it was silent for so many seconds.
        """
        self.inputs.add(name, stream, delay, idle)

    def run(self) -> Iterator[Result]:
        """Read everything; results come as soon as the watermark allows.

        A live stream that is lost ends it with its error, when what has come is answered.
        """
        self._check()
        self._aim()
        for query in [query for query in self.queries if not query.query.windows]:
            if (result := self._of(query, query.once, 0)) is not None:
                yield result
        lost: InputLostError | None = None
        while lost is None and (behind := self.inputs.next()) is not None:
            self.reading = True
            try:
                self.before_reading()
                batch = behind.read()
            except InputLostError as error:
                if behind.first is None:
                    raise
                lost, batch = error, behind.end()
            self.reading = False
            self._hand_on(behind.name, batch)
            yield from self.advance(self.inputs.watermark())
        if lost is None or all(one.ended for one in self.inputs):
            yield from self.finish()
        if lost is not None:
            raise lost

    def push(self, name: str, batch: Timed) -> Iterator[Result]:
        """Elements of a stream that is not read but told; gives what they make due."""
        self._hand_on(name, self.inputs.named(name).take(batch))
        yield from self.advance(self.inputs.watermark())

    def silent(self, name: str) -> Iterator[Result]:
        """A stream that is told is silent for now; gives what the others were waiting with."""
        self.inputs.named(name).idle = True
        yield from self.advance(self.inputs.watermark())

    def end(self, name: str) -> Iterator[Result]:
        """A stream that is told has ended."""
        self._hand_on(name, self.inputs.named(name).end())
        yield from self.advance(self.inputs.watermark())

    def advance(self, watermark: int) -> Iterator[Result]:
        """Every evaluation before the watermark, in time and then in the order of registration."""
        if watermark == NEVER:
            return
        for query in [*self.queries]:
            self._begin(query, watermark)
            self._of(query, query.reach, watermark)
        yield from self._together(lambda query: query.due(), watermark)
        yield from self._sweep()

    def finish(self) -> Iterator[Result]:
        """The streams have ended: evaluations up to the last element's time, or until nothing is left."""
        yield from self.advance(self.inputs.latest + 1)
        for name in self.inputs.unreached:
            for query in self.queries:
                query.discard(name)
        yield from self._together(lambda query: query.called())
        if self.drain:
            yield from self._together(lambda query: query.emptying())

    @property
    def late(self) -> int:
        """How many elements came too late, over all streams."""
        return self.inputs.late

    def _sweep(self) -> Iterator[Result]:
        """Free ids that nobody has."""
        for dictionary in self._dictionaries():
            dictionary.sweep()
        yield from ()

    def _hand_on(self, name: str, batch: Timed) -> None:
        if not len(batch):
            return
        batch = as_stored(batch)
        for query in self.queries:
            if name in query.streams:
                query.receive(name, batch)

    def _begin(self, query: ContinuousQuery, watermark: int) -> None:
        """A query begins with the earliest element of its streams, known when the watermark passes it."""
        if query.begun:
            return
        seen = [one.order.first for one in self.inputs if one.name in query.streams and one.order.first is not None]
        if seen and min(seen) < watermark:
            query.begin(min(seen))

    def _together(self, due: Callable[[ContinuousQuery], int | None], until: int = ENDLESS) -> Iterator[Result]:
        """Evaluations before an instant, in time; those of one instant ask their sources together.

        Their results come in the order of registration.
        """
        while (waiting := self._first(due, until)) is not None:
            now, queries = waiting
            ask([asking for query in queries for asking in self._prepared(query, now)], now)
            for query in queries:
                yield from self._answered(query, now)

    def _prepared(self, query: ContinuousQuery, now: int) -> Iterable[Asking]:
        """What an evaluation has to ask of sources; it has begun."""
        if self.spans is not None:
            self.spans.begun(query.name, now)
        return self._of(query, query.prepare, now) or ()

    def _answered(self, query: ContinuousQuery, now: int) -> Iterator[Result]:
        """The answers of an evaluation, which is over."""
        found = self._of(query, query.answers, now) if query in self.queries else None
        if self.spans is not None:
            self.spans.ended(query.name, now, query not in self.queries)
        for result in found or ():
            yield replace(result, late=self.late) if self.late else result

    def _first(
        self, due: Callable[[ContinuousQuery], int | None], until: int
    ) -> tuple[int, list[ContinuousQuery]] | None:
        """The first instant at which something is due, and whose."""
        instants = [due(query) for query in self.queries]
        now = min((t for t in instants if t is not None and t < until), default=None)
        if now is None:
            return None
        return now, [query for query, t in zip(self.queries, instants, strict=True) if t == now]

    def _of(self, query: ContinuousQuery, step: Callable[[int], T], now: int) -> T | None:
        """What a query's step gives; a query that fails is out."""
        try:
            return step(now)
        except Exception as error:
            if self.failed is None:
                raise
            self.queries.remove(query)
            query.leave()
            self.failed(query, error)
            return None

    def _aim(self) -> None:
        """Elements that one named window alone wants are read into its graph; those that are joined by ids, as ids."""
        for one in self.inputs:
            wanting = [c for query in self.queries for c in query.contents if c.window.stream == one.name]
            if len(wanting) == 1 and isinstance(one.stream, TimedLines):
                one.stream.graph = wanting[0].graph
            for dictionary in self._dictionaries(one.name)[:1]:
                one.read_from(as_columns(one.stream, dictionary))

    def _dictionaries(self, stream: str | None = None) -> list[Dictionary]:
        """Those of the queries, or of the queries of one stream."""
        queries = [query for query in self.queries if stream is None or stream in query.streams]
        return list(dict.fromkeys(query.dictionary for query in queries if query.dictionary is not None))

    def _check(self) -> None:
        known = [one.name for one in self.inputs]
        for query in self.queries:
            for name in query.streams:
                if name not in known:
                    near = f"; {nearest(name, known)}" if known else ""
                    raise ConfigError(f"nothing feeds the stream <{name}>: give it as --stream '{name}=FILE'{near}")


Feed: TypeAlias = Stream | Iterable[tuple[int, Triple | Quad]]
"""A stream, or any iterable of (milliseconds, triple)"""


def run(
    query: ContinuousQuery | Sequence[ContinuousQuery],
    streams: Mapping[str, Feed],
    delay: int = 0,
    drain: bool = False,
    gap: int = LONGEST_GAP,
) -> Iterator[Result]:
    """One query or several over the same streams; `gap` is the longest plausible step of their time, in milliseconds.

    Of several (see `continuous_queries`), results come in time and then in the order of the queries, whose `query` they
    name. The first that fails ends the run.

    >>> from pyoxigraph import NamedNode, Triple
    >>> from freshkeeper import continuous_query, run
    >>> text = '''PREFIX : <urn:>
    ... SELECT ?topic FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S] { WINDOW :w { ?post :topic ?topic } }'''
    >>> post = Triple(NamedNode("urn:p"), NamedNode("urn:topic"), NamedNode("urn:jazz"))
    >>> results = run(continuous_query(text), {"urn:s": [(500, post), (2500, post)]})
    >>> [(result.t, len(result.answers)) for result in results]
    [(1000, 1), (2000, 1)]
    """
    queries = [query] if isinstance(query, ContinuousQuery) else list(query)
    engine = Engine(queries, drain, Inputs(gap))
    for name, feed in streams.items():
        engine.listen(name, feed if isinstance(feed, Stream) else Elements(feed, steps=Steps(gap)), delay)
    return engine.run()
