"""Queries that come and go over streams that are pushed: one thread evaluates them, and any thread may ask it to.

push ─▶ read ─▶ log ─▶ acknowledged ─▶ queue ─▶ engine ─▶ answers ─▶ files, subscribers

What was acknowledged is in the log, in the order in which it counts. A service that begins again goes through the log:
elements fill the windows, and evaluations that had been answered are not answered again.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from freshkeeper.maintenance.base.errors import FreshkeeperError, InputError, UnknownNameError
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.engine import Spans
from freshkeeper.maintenance.engine.native.column_lines import ColumnLines
from freshkeeper.maintenance.engine.native.columns import Columns
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.fetching.endpoint import error_text
from freshkeeper.maintenance.observe.logs import LOGGER
from freshkeeper.maintenance.runtime.query_journal import QueryJournal
from freshkeeper.maintenance.runtime.query_runtime import failure_text
from freshkeeper.maintenance.serve.log_summary import History
from freshkeeper.maintenance.serve.overlapping_engine import OverlappingEngine
from freshkeeper.maintenance.serve.registrations import Registrations, as_record
from freshkeeper.maintenance.serve.service_log import Record, ServiceLog
from freshkeeper.maintenance.streams.event_order import NEVER
from freshkeeper.maintenance.streams.gap_limit import GapLimit
from freshkeeper.maintenance.streams.live.feed import LinkStatus, Position
from freshkeeper.maintenance.streams.timed_lines import TimedLines, readable

T = TypeVar("T")
SEGMENT = 1 << 26
OFTEN = 0.005
"""Seconds between two looks at whether sources have answered, where nothing else happens."""
MOST_WAITING = 1 << 26
"""Bytes of elements that may wait to be evaluated; more are refused until some are."""


class BusyError(FreshkeeperError):
    """More was pushed than is evaluated in time: push again a little later."""


class ClosedError(FreshkeeperError):
    """The service has ended."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What somebody wants the thread to do, and for which query's sources that has to wait: "" none, None all."""

    what: Callable[[], Any]
    future: "Future[Any]"
    waits_for: str | None

    def carry_out(self) -> None:
        """Do it, and say what came of it."""
        try:
            self.future.set_result(self.what())
        except Exception as error:
            self.future.set_exception(error)


@dataclass(eq=False)
class Service:
    """One engine, the log before it, and the answers behind it."""

    queries: Registrations
    engine: OverlappingEngine
    """the engine of the runtime of these queries"""
    streams: Mapping[str, int]
    """their names, and how late their elements may come"""
    log: ServiceLog
    gap: int
    journal: QueryJournal = field(default_factory=lambda: QueryJournal(0, None))
    """the journal of the runtime, for readers"""
    idle: float | None = None
    """seconds of silence after which a stream holds the others back no longer; None: it always does"""
    segment: int = SEGMENT
    """bytes of the log before what is over may go"""
    broken: BaseException | None = None
    """what ended it before it was closed, as a disk that is full; all that was acknowledged is in the log"""
    when_broken: Callable[[], None] = field(default=lambda: None)
    failures: dict[str, str] = field(default_factory=dict)
    """queries that ended, and why"""
    deleted: Callable[[str], None] = field(default=lambda _: None)
    """is told of every query that is no more"""
    answered: Callable[[Result, float], None] = field(default=lambda *_: None)
    """is told of every result that is out, and how many seconds it took"""
    links: Mapping[str, LinkStatus] = field(default_factory=dict)
    """how the connections are of streams that it reads"""
    _todo: deque[tuple[str, Columns, int]] = field(default_factory=deque)
    _asked: deque["Asked"] = field(default_factory=deque)
    _waiting: int = 0
    """bytes in the queue"""
    _stopped: bool = False

    def __post_init__(self) -> None:
        self._intake = threading.RLock()
        self._news = threading.Condition(self._intake)
        self._runtime = self.queries.runtime
        self._runtime.on_result = lambda result, took: self.answered(result, took)
        self.engine.failed = self._failed
        self._history = History()
        self._readers: dict[str, ColumnLines] = {}
        self._replay()
        self._heard = dict.fromkeys(self.streams, time.monotonic())
        self._thread = threading.Thread(target=self._live, name="engine", daemon=True)
        self._thread.start()

    def push(
        self, stream: str, text: bytes, producer: str = "", number: int = 0, place: Position | None = None,
        unreadable: Callable[[str], None] | None = None,
    ) -> int:  # fmt: skip
        """Lines of elements: all of them are taken, and there after a kill, or none; returns how many.

        A producer that numbers what it sends, and sends a number again, has it counted once. `place` is where a stream
        that the service reads goes on after them; with `unreadable`, what is no element is told and left out.
        """
        reader = self._reader(stream)
        with self._intake:
            self._check_open()
            if self._waiting + len(text) > MOST_WAITING:
                raise BusyError(f"{self._waiting:,} bytes wait to be evaluated: push again a little later")
            if producer and number <= self._history.producers.get(producer, -1):
                return 0
            try:
                batch = reader.read(text)
            except InputError:
                if unreadable is None:
                    raise
                text = readable(text, reader.lines.steps, unreadable)
                batch = reader.read(text)
            head: dict[str, Any] = {"do": "push", "stream": stream}
            head |= {"producer": producer, "number": number} if producer else {}
            head |= {"place": dict(place)} if place else {}
            self.log.append(Record(head, text))
            self._history.pushed(head, len(batch))
            self._heard[stream] = time.monotonic()
            self._todo.append((stream, batch, len(text)))
            self._waiting += len(text)
            self._news.notify()
        return len(batch)

    def register(self, name: str, text: str, dialect: str = "", configured: bool = False) -> RegisteredQuery:
        """One more query, from the elements on that come from now on; if `configured`, it goes with the config."""
        return self._ask(lambda: self._register(self.queries.new(name, text, dialect, configured)))

    def add_streams(self, streams: Mapping[str, int]) -> None:
        """More of them, with how late their elements may come; until one speaks it holds nobody back."""
        self._ask(lambda: self._add_streams(streams))

    def check(self, text: str, dialect: str = "") -> None:
        """Whether a query could be registered."""
        self.queries.checked(text, dialect)

    def delete(self, name: str) -> None:
        """A query is no more, nor is what its views hold."""
        self._ask(lambda: self._delete(self.queries.named(name)), name)

    def pause(self, name: str) -> None:
        """A query sees no elements until it is resumed; its views stay."""
        self._ask(lambda: self._pause(self.queries.named(name)), name)

    def resume(self, name: str) -> None:
        """A paused query goes on with windows that are empty."""
        self._ask(lambda: self._resume(self.queries.named(name)))

    @property
    def watermark(self) -> int | None:
        """How far event time is; None before there is any."""
        found = self.engine.inputs.watermark()
        return None if found == NEVER else found

    @property
    def late(self) -> int:
        """Elements that came too late so far."""
        return self.engine.late

    @property
    def waiting(self) -> int:
        """Bytes of elements that wait to be evaluated."""
        return self._waiting

    def stream(self, name: str) -> dict[str, Any]:
        """How one stream is: how late its elements may come, how far it is, what came, what came too late."""
        one = self.engine.inputs.find(name)
        watermark = one.order.watermark
        return {
            "delay_ms": self.streams[name], "watermark": None if watermark == NEVER else watermark,
            "elements": self._history.counts.get(name, 0), "late": one.order.late, "idle": one.idle,
            "connection": None if (link := self.links.get(name)) is None else asdict(link),
        }  # fmt: skip

    def trace(self, spans: Spans) -> None:
        """Tell how long evaluations take."""
        self.engine.spans = spans

    def place(self, stream: str) -> Position:
        """Where a stream that the service reads goes on; empty where it has not been read."""
        return self._history.places.get(stream, {})

    @property
    def alive(self) -> bool:
        """Whether its thread works."""
        return self._thread.is_alive() and not self._stopped

    def settled(self) -> int | None:
        """Wait until everything that was pushed before is evaluated; the watermark then."""
        return self._ask(lambda: self.watermark, None)

    def close(self) -> None:
        """Finish what is being evaluated; what waits is in the log."""
        with self._intake:
            self._stopped = True
            self._news.notify()
        self._thread.join()
        self.log.close()
        self._runtime.close()

    def _live(self) -> None:
        try:
            self._work()
        except BaseException as error:
            LOGGER.error("the service ends: %s", error_text(error))
            self.broken = error
        with self._intake:
            self._stopped = True
            for one in self._asked:
                one.future.set_exception(ClosedError("the service is closed"))
        if self.broken is not None:
            self.when_broken()

    def _work(self) -> None:
        while True:
            with self._intake:
                if not (self._todo or self._can_be_done or self._stopped):
                    self._news.wait(OFTEN if self.engine.waits() else self.idle)
                if self._stopped:
                    break
                pushed = self._todo.popleft() if self._todo else None
                if pushed is None:
                    self._carry_out()
                silent = self._silent() if pushed is None else None
            if pushed is not None:
                self._take(*pushed)
            elif silent is not None:
                self._put_out(self._runtime.mark_idle(silent))
            elif self.engine.waits():
                self._put_out(self._runtime.deliver(self.engine.land()))
        self._put_out(self._runtime.deliver(self.engine.settle()))

    def _silent(self) -> str | None:
        """A stream that has been silent for too long, which is in the log as what is pushed is."""
        if self.idle is None or len(self.streams) < 2:
            return None
        long_ago = time.monotonic() - self.idle
        for name in self.streams:
            if self._heard[name] <= long_ago and not self.engine.inputs.find(name).idle:
                self.log.append(Record({"do": "silent", "stream": name}))
                return name
        return None

    @property
    def _can_be_done(self) -> bool:
        """Whether somebody asked for something that need not wait for a source."""
        return any(not self._must_wait(one) for one in self._asked)

    def _must_wait(self, asked: Asked) -> bool:
        if asked.waits_for is None:
            return self.engine.waits()
        query = self.queries.running.get(asked.waits_for)
        return query is not None and self.engine.waits(query)

    def _carry_out(self) -> None:
        """What somebody asked for, when all that was pushed before has been evaluated; nothing is pushed meanwhile."""
        for asked in self._asked:
            if not self._must_wait(asked):
                self._asked.remove(asked)
                asked.carry_out()
                return

    def _ask(self, what: Callable[[], T], waits_for: str | None = "") -> T:
        """Have the thread do something that needs no query to have landed, or one, or None for all."""
        future: Future[T] = Future()
        with self._intake:
            self._check_open()
            self._asked.append(Asked(what, future, waits_for))
            self._news.notify()
        return future.result()

    def _take(self, stream: str, batch: Columns, size: int) -> None:
        self._put_out(self._runtime.push(stream, batch))
        with self._intake:
            self._waiting -= size
            if self.log.size > self.segment and not self._todo:
                self._history.roll(self.log, self.queries, self.engine.inputs)

    def _put_out(self, results: Iterable[Result]) -> None:
        """Write results to the answer files; each counts as answered when its line is written."""
        for result in results:
            self.queries.answers.put(result)

    def _register(self, one: RegisteredQuery, logged: bool = False) -> RegisteredQuery:
        query = self.queries.build(one)
        if not logged:
            try:
                self.log.append(Record({"do": "register"} | as_record(one)))
            except BaseException:
                self.queries.forget(one)
                raise
        self._runtime.add(query)
        self.failures.pop(one.name, None)
        return one

    def _listen(self, name: str) -> None:
        self._runtime.listen(name, delay=self.streams[name])
        lines = TimedLines(name, _unopened, steps=GapLimit(self.gap))
        self._readers[name] = ColumnLines(lines, self.queries.dictionary)

    def _add_streams(self, streams: Mapping[str, int]) -> None:
        """A service that begins again has them from its config, and here in the log when that was."""
        for name, delay in streams.items():
            self.log.append(Record({"do": "listen", "stream": name}))
            self.streams = {**self.streams, name: delay}
            self._heard[name] = time.monotonic()
            self._listen_later(name)

    def _delete(self, one: RegisteredQuery, logged: bool = False) -> None:
        if not logged:
            self.log.append(Record({"do": "delete", "number": one.number}))
        self._runtime.remove(one.name)
        self.queries.forget(one)
        self.failures.pop(one.name, None)
        self.queries.answers.forget(one.name)
        self.deleted(one.name)

    def _pause(self, one: RegisteredQuery, logged: bool = False) -> None:
        if not logged:
            self.log.append(Record({"do": "pause", "number": one.number}))
        self._runtime.remove(one.name)

    def _resume(self, one: RegisteredQuery, logged: bool = False) -> None:
        if one.name in self.queries.running:
            return
        one = self.queries.parsed_again(one)
        query = self.queries.build(one)
        if not logged:
            self.log.append(Record({"do": "resume", "number": one.number}))
        self._runtime.add(query)
        self.failures.pop(one.name, None)

    def _failed(self, query: ContinuousQuery, error: Exception) -> None:
        """A query that fails is paused, and says why."""
        for name in query.names:
            self.queries.running.pop(name, None)
            self._runtime.release(name)
            self.failures[name] = failure_text(error)
            LOGGER.warning("the query %s has failed: %s", name, self.failures[name])

    def _replay(self) -> None:
        """Everything that was acknowledged, again; of queries that are no more there is nothing to do."""
        gone, begun = self._look_ahead(), False
        for record in self.log.records():
            head = record.head
            if head["do"] == "snapshot":
                self._history.load(head)
                if not begun:
                    self._go_on(head, gone)
            elif head["do"] == "push":
                if (reader := self._readers.get(head["stream"])) is not None:
                    batch = reader.read(record.body)
                    self._history.pushed(head, len(batch))
                    self._put_out(self._runtime.push(head["stream"], batch))
            elif head["do"] == "silent":
                if head["stream"] in self._readers:
                    self._put_out(self._runtime.mark_idle(head["stream"]))
            elif head["do"] == "listen":
                self._listen_later(head["stream"])
            elif head["do"] == "register":
                self._restore(head, gone)
            elif head["number"] not in gone:
                self._put_out(self._runtime.deliver(self.engine.settle()))
                one = self.queries.numbered(head["number"])
                {"pause": self._pause, "resume": self._resume}[head["do"]](one, logged=True)
            begun = True

    def _look_ahead(self) -> set[int]:
        """Listen to all streams but those that come later in the log; the numbers of queries that are no more."""
        gone, later, known = set[int](), set[str](), set[str]()
        for place, record in enumerate(self.log.records()):
            head = record.head
            if head["do"] == "delete":
                gone.add(head["number"])
            elif head["do"] == "listen":
                later.add(head["stream"])
            elif head["do"] == "snapshot" and not place:
                known = set(head["passed"])
        for name in self.streams:
            if name not in later - known:
                self._listen(name)
        return gone

    def _listen_later(self, name: str) -> None:
        """To a stream that was added while others were there already."""
        if name in self.streams and name not in self._readers:
            self._listen(name)
            self._put_out(self._runtime.mark_idle(name))

    def _go_on(self, snapshot: Mapping[str, Any], gone: set[int]) -> None:
        """What came before a segment, as far as it still matters."""
        for name, passed in snapshot["passed"].items():
            if name in self._readers:
                self.engine.inputs.find(name).order.advance(passed)
        for name in snapshot.get("silent", ()):
            if name in self._readers:
                self.engine.inputs.find(name).idle = True
        self.queries.next_numbers = snapshot["next"]
        for written in snapshot["queries"]:
            one = self._restore(written, gone)
            if one is not None and written["paused"]:
                self._pause(one, logged=True)

    def _restore(self, record: Mapping[str, Any], gone: Collection[int]) -> RegisteredQuery | None:
        """Register a query of the log again, unless it was deleted later."""
        if record["number"] in gone:
            self.queries.count(record)
            return None
        return self._register(self.queries.restored(record), logged=True)

    def _reader(self, stream: str) -> ColumnLines:
        if stream not in self._readers:
            raise UnknownNameError("stream", stream, self._readers)
        return self._readers[stream]

    def _check_open(self) -> None:
        if self._stopped:
            raise ClosedError("the service is closed")


def _unopened() -> Any:
    raise AssertionError("a stream that is pushed is not opened")
