"""Queries that come and go over streams that are pushed: one thread evaluates them, any thread may call.

push ─▶ read ─▶ log ─▶ acknowledge ─▶ queue ─▶ QueryRuntime ─▶ answer files ─▶ subscribers

Acknowledged elements and changes of queries are in the log, in the order in which they count. A service that starts
again replays the log: elements fill the windows, and evaluations that were answered before are not answered again.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from freshkeeper.maintenance.base.errors import FreshkeeperError, InputError, StorageError, UnknownNameError
from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines, Columns
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.engine import EvaluationObserver
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.fetching.endpoint import error_text
from freshkeeper.maintenance.observe.logs import LOGGER
from freshkeeper.maintenance.runtime.query_journal import QueryJournal
from freshkeeper.maintenance.runtime.query_runtime import failure_text
from freshkeeper.maintenance.serve.disk_room import DiskRoom
from freshkeeper.maintenance.serve.log_summary import History
from freshkeeper.maintenance.serve.overlapping_engine import OverlappingEngine
from freshkeeper.maintenance.serve.registrations import Registrations, as_record
from freshkeeper.maintenance.serve.service_log import LogRecord, ServiceLog
from freshkeeper.maintenance.streams.blank_nodes import BlankNodes
from freshkeeper.maintenance.streams.gap_limit import GapLimit
from freshkeeper.maintenance.streams.live.feed import LinkStatus, Position
from freshkeeper.maintenance.streams.timed_lines import TimedLines, readable

T = TypeVar("T")
SEGMENT_BYTES = 1 << 26
POLL_INTERVAL_S = 0.005
"""How often the engine looks whether sources have answered, while it has nothing else to do."""
STOP_TIMEOUT_S = 5.0
"""How long an evaluation may go on when the service stops, before it is interrupted."""
QUARANTINE_S = 60.0
MAX_QUARANTINE_S = 3600.0
"""How long a query that fails is left alone, twice as long each time."""
RETRY_INTERVAL_S = 0.2
"""How long the engine waits before it tries again to write to a full disk."""
MAX_QUEUED_BYTES = 1 << 26
"""Bytes of elements that may wait to be evaluated; a push beyond them is refused."""


class BusyError(FreshkeeperError):
    """A push while too many elements wait to be evaluated: repeat it a little later."""


class ClosedError(FreshkeeperError):
    """A call after the service has ended."""


@dataclass(frozen=True, eq=False)
class Command:
    """A function that the engine's thread calls between evaluations, for a caller who waits."""

    function: Callable[[], Any]
    future: "Future[Any]"
    waits_for: str | None
    """the query whose evaluation must be complete before: "" none, None all"""

    def run(self) -> None:
        """Call the function and hand result or error to the caller."""
        try:
            self.future.set_result(self.function())
        except Exception as error:
            self.future.set_exception(error)


@dataclass
class Quarantine:
    """The failures of a query in a row, and the seconds for which it is left alone."""

    failures: int
    wait: float
    since: float
    """when it failed or, while it runs again, when it was tried again"""
    tried_again: bool = False

    @property
    def until(self) -> float:
        """The time when it is tried again or, while it runs again, no longer counts as failing."""
        return self.since + self.wait


@dataclass(eq=False)
class QueryService:
    """A QueryRuntime in a thread of its own, with a log before it and answer files behind it."""

    queries: Registrations
    engine: OverlappingEngine
    """the engine of the runtime of these queries"""
    streams: Mapping[str, int]
    """all streams, with the lateness in ms that their elements may have"""
    log: ServiceLog
    gap: int
    """the longest plausible step of a stream's time, in ms"""
    blank_nodes: BlankNodes = BlankNodes.DOCUMENT
    """where a label of a blank node means the same node"""
    journal: QueryJournal = field(default_factory=lambda: QueryJournal(0, None))
    """the journal of the runtime, for readers"""
    idle: float | None = None
    """seconds of silence after which a stream holds the others back no longer; None: it always does"""
    segment_bytes: int = SEGMENT_BYTES
    """the size of a segment of the log after which a new one begins"""
    broken: BaseException | None = None
    """the error that ended the thread, such as a full disk; the log has everything that was acknowledged"""
    when_broken: Callable[[], None] = field(default=lambda: None)
    disk: DiskRoom | None = None
    """the disk of the state; None: its room is not watched"""
    _blocked: str = ""
    """why evaluations wait"""
    failures: dict[str, str] = field(default_factory=dict)
    """why queries failed, by name"""
    deleted: Callable[[str], None] = field(default=lambda _: None)
    """is called with the name of every deleted query"""
    answered: Callable[[Result, float], None] = field(default=lambda *_: None)
    """is called with every result that is out and the seconds it took"""
    links: Mapping[str, LinkStatus] = field(default_factory=dict)
    """the connections of streams that the service reads by itself"""
    clock: Callable[[], float] = time.monotonic
    _batches: deque[tuple[str, Columns, int]] = field(default_factory=deque)
    """pushed elements that wait to be evaluated: stream, elements, bytes"""
    _commands: deque[Command] = field(default_factory=deque)
    _queued_bytes: int = 0
    _stopped: bool = False
    _step_began: float | None = None
    """when the engine's thread began what it does, by the clock; None while it waits"""

    def __post_init__(self) -> None:
        # Pushing and the engine's thread meet here: log, queues and counters change under this lock only.
        self._lock = threading.RLock()
        self._wakeup = threading.Condition(self._lock)
        self._runtime = self.queries.runtime
        self._runtime.on_result = lambda result, took: self.answered(result, took)
        self.engine.failed = self._on_failure
        self._history = History()
        self._readers: dict[str, ColumnLines] = {}
        self._quarantine: dict[str, Quarantine] = {}
        self._suspect = self.engine.watchdog.take_suspect()
        self.engine.watchdog.start()
        self._replay()
        self._last_activity = dict.fromkeys(self.streams, self.clock())
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def push(
        self, stream: str, text: bytes, producer: str = "", number: int = 0, place: Position | None = None,
        unreadable: Callable[[str], None] | None = None,
    ) -> int:  # fmt: skip
        """Log and queue lines of elements, all or none of them; return how many.

        A producer numbers its pushes upwards, and a number that was there before counts once. `place` is the position
        of a stream that the service reads by itself, behind these elements. With `unreadable`, lines that are no
        elements are reported and left out; without it they are an InputError.
        """
        reader = self._reader(stream)
        with self._lock:
            self._check_open()
            self._check_room()
            if self._queued_bytes + len(text) > MAX_QUEUED_BYTES:
                raise BusyError(f"{self._queued_bytes:,} bytes wait to be evaluated: push again a little later")
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
            if producer:
                head |= {"producer": producer, "number": number}
            if place:
                head["place"] = dict(place)
            self.log.append(LogRecord(head, text))
            self._history.pushed(head, len(batch))
            self._last_activity[stream] = self.clock()
            self._batches.append((stream, batch, len(text)))
            self._queued_bytes += len(text)
            self._wakeup.notify()
        return len(batch)

    def register(self, name: str, text: str, dialect: str = "", configured: bool = False) -> RegisteredQuery:
        """Register a query, which sees elements from now on; a `configured` one comes from the config file."""
        return self._call(lambda: self._register(self.queries.new(name, text, dialect, configured)))

    def add_streams(self, streams: Mapping[str, int]) -> None:
        """Add streams with the lateness of their elements; until its first element a stream holds nobody back."""
        self._call(lambda: self._add_streams(streams))

    def check(self, text: str, dialect: str = "") -> None:
        """Raise ConfigError if a query could not be registered."""
        self.queries.checked(text, dialect)

    def delete(self, name: str, keep: bool = False) -> Path | None:
        """Delete a query with all that belongs to it; to `keep` its text and answers, move them aside first.

        Returns the directory that has them.
        """
        return self._call(lambda: self._delete(self.queries.find(name), keep=keep), name)

    def pause(self, name: str) -> None:
        """Stop evaluating a query until it is resumed; its views stay."""
        self._call(lambda: self._pause(self.queries.find(name)), name)

    def resume(self, name: str) -> None:
        """Evaluate a paused query again, with empty windows."""
        self._call(lambda: self._resume(self.queries.find(name)))

    @property
    def watermark(self) -> int | None:
        """The event time up to which all elements are there; None before the first element."""
        found = self.engine.inputs.watermark()
        return None if found == DISTANT_PAST else found

    @property
    def late(self) -> int:
        """The number of elements that were too late so far."""
        return self.engine.late

    @property
    def waiting(self) -> int:
        """Bytes of elements that wait to be evaluated."""
        return self._queued_bytes

    def stream(self, name: str) -> dict[str, Any]:
        """Return the state of a stream: its delay, watermark, elements, late elements and connection."""
        one = self.engine.inputs.find(name)
        link, watermark = self.links.get(name), one.order.watermark
        return {
            "delay_ms": self.streams[name],
            "watermark": None if watermark == DISTANT_PAST else watermark,
            "elements": self._history.counts.get(name, 0),
            "late": one.order.late,
            "idle": one.idle,
            "connection": None if link is None else asdict(link),
        }

    def trace(self, spans: EvaluationObserver) -> None:
        """Report the beginning and end of evaluations to `spans`."""
        self.engine.spans = spans

    def place(self, stream: str) -> Position:
        """Return the position from which a stream that the service reads is resumed; empty before it was read."""
        return self._history.places.get(stream, {})

    def busy_for(self) -> float:
        """Return how many seconds the engine's thread has taken for its present step; 0 while it waits."""
        began = self._step_began
        return 0.0 if began is None else max(0.0, self.clock() - began)

    @property
    def blocked(self) -> str:
        """The reason why evaluations wait, such as a full disk, until it has passed; empty if there is none."""
        return self._blocked or ("" if self.disk is None else self.disk.shortage())

    @property
    def at_work(self) -> str:
        """The query that is evaluated; empty if none is."""
        return self.engine.watchdog.query

    @property
    def alive(self) -> bool:
        """Tells if the engine's thread works."""
        return self._thread.is_alive() and not self._stopped

    def settled(self) -> int | None:
        """Wait until everything that was pushed before is evaluated; return the watermark then."""
        return self._call(lambda: self.watermark, None)

    def close(self, patience: float = STOP_TIMEOUT_S) -> bool:
        """Finish the evaluation that has begun; what is queued is in the log.

        Returns False if the engine's thread does not end in time: then nothing is closed, and the process should end.
        """
        with self._lock:
            self._stopped = self.engine.stopping = True
            self._wakeup.notify()
        self._thread.join(patience)
        if self._thread.is_alive():
            self.engine.watchdog.interrupt()
            self._thread.join(patience / 2)
        self.engine.watchdog.stop()
        if self._thread.is_alive():
            LOGGER.error("the engine does not stop, at the query %s", self.at_work or "(none)")
            return False
        self.log.close()
        self.queries.answers.close()
        self._runtime.close()
        return True

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            LOGGER.error("the service ends: %s", error_text(error))
            self.broken = error
        with self._lock:
            self._stopped = True
            for command in self._commands:
                command.future.set_exception(ClosedError("the service is closed"))
        if self.broken is not None:
            self.when_broken()

    def _work(self) -> None:
        while True:
            batch = idle_stream = None
            with self._lock:
                if not (self._batches or self._has_runnable_command or self._stopped):
                    self._wakeup.wait(self._longest_wait())
                if self._stopped:
                    break
                if self._is_blocked():
                    self._wakeup.wait(RETRY_INTERVAL_S)
                    continue
                self._try_again()
                if self._batches:
                    batch = self._batches.popleft()
                else:
                    self._run_next_command()
                    idle_stream = self._mark_idle()
            self._step_began = self.clock()
            if batch is not None:
                self._evaluate(*batch)
            elif idle_stream is not None:
                self._put_out(self._runtime.mark_idle(idle_stream))
            elif self.engine.waits():
                self._put_out(self._runtime.deliver(self.engine.complete_ready()))
            self._step_began = None
        self._put_out(self._runtime.deliver(self.engine.settle()))

    def _longest_wait(self) -> float | None:
        """Return after how many seconds there is something to do even if nothing comes; None: never."""
        if self.engine.waits():
            return POLL_INTERVAL_S
        waits = [max(0.0, one.until - self.clock()) for one in self._quarantine.values()]
        if self.idle is not None:
            waits.append(self.idle)
        return min(waits, default=None)

    def _try_again(self) -> None:
        """Resume queries that were left alone for long enough; forget the failures of those that ran as long since."""
        now = self.clock()
        for name, one in [*self._quarantine.items()]:
            if one.until > now:
                continue
            if one.tried_again:
                del self._quarantine[name]
                continue
            one.since, one.tried_again = now, True
            try:
                self._resume(self.queries.find(name))
            except FreshkeeperError as error:
                self._isolate(name, str(error))

    def _isolate(self, name: str, reason: str) -> None:
        """Leave a query alone for a while, longer each time."""
        before = self._quarantine.get(name)
        failures = 0 if before is None else before.failures
        wait_s = min(QUARANTINE_S * 2**failures, MAX_QUARANTINE_S)
        self._quarantine[name] = Quarantine(failures + 1, wait_s, self.clock())
        self.failures[name] = f"{reason}; it is tried again after {wait_s:.0f} s"

    def _mark_idle(self) -> str | None:
        """Log that a stream is idle, and return it; None if all have had elements lately."""
        if self.idle is None or len(self.streams) < 2:
            return None
        limit = self.clock() - self.idle
        for name in self.streams:
            if self._last_activity[name] <= limit and not self.engine.inputs.find(name).idle:
                self.log.append(LogRecord({"do": "silent", "stream": name}))
                return name
        return None

    @property
    def _has_runnable_command(self) -> bool:
        return any(not self._must_wait(command) for command in self._commands)

    def _must_wait(self, command: Command) -> bool:
        if command.waits_for is None:
            return self.engine.waits()
        query = self.queries.running.get(command.waits_for)
        return query is not None and self.engine.waits(query)

    def _run_next_command(self) -> None:
        # The caller holds the lock, so that nothing is pushed meanwhile, and all that was pushed before is evaluated.
        for command in self._commands:
            if not self._must_wait(command):
                self._commands.remove(command)
                command.run()
                return

    def _call(self, function: Callable[[], T], waits_for: str | None = "") -> T:
        """Let the engine's thread call a function, and return its result; see `Command.waits_for`."""
        future: Future[T] = Future()
        with self._lock:
            self._check_open()
            self._commands.append(Command(function, future, waits_for))
            self._wakeup.notify()
        return future.result()

    def _evaluate(self, stream: str, batch: Columns, size: int) -> None:
        self._put_out(self._runtime.push(stream, batch))
        with self._lock:
            self._queued_bytes -= size
            if self.log.size > self.segment_bytes and not self._batches:
                try:
                    self._history.roll(self.log, self.queries, self.engine.inputs)
                except StorageError as error:
                    LOGGER.warning("the log begins no new segment yet: %s", error)

    def _put_out(self, results: Iterable[Result]) -> None:
        """Write results to the answer files; each counts as answered when its line is written."""
        for result in results:
            while True:
                try:
                    self.queries.answers.put(result)
                    break
                except StorageError as error:
                    self._wait_for_storage(error)
            self._blocked = ""
            self._step_began = self.clock()

    def _wait_for_storage(self, error: StorageError) -> None:
        """Wait before a write is tried again; raise its error if the service stops."""
        if not self._blocked:
            LOGGER.error("evaluations wait: %s", error)
        self._blocked = str(error)
        with self._lock:
            if not self._stopped:
                self._wakeup.wait(RETRY_INTERVAL_S)
        if self._stopped:
            raise error

    def _is_blocked(self) -> bool:
        """Return whether evaluations wait for room on the disk; answers and state are written after they begin."""
        why = "" if self.disk is None else self.disk.shortage()
        if why and not self._blocked:
            LOGGER.error("evaluations wait: %s", why)
        elif self._blocked and not why:
            LOGGER.warning("evaluations go on")
        self._blocked = why
        return bool(why)

    def _check_room(self) -> None:
        shortage = "" if self.disk is None else self.disk.shortage()
        if shortage:
            raise StorageError(shortage, is_full=True)

    def _register(self, one: RegisteredQuery, logged: bool = False) -> RegisteredQuery:
        query = self.queries.build(one)
        if not logged:
            try:
                self.log.append(LogRecord({"do": "register"} | as_record(one)))
            except BaseException:
                self.queries.forget(one)
                raise
        self._runtime.add(query)
        self.failures.pop(one.name, None)
        if logged and one.name == self._suspect:
            self._pause(one, logged=True)
            self._isolate(one.name, "the process before did not survive its evaluation")
        return one

    def _listen(self, name: str) -> None:
        self._runtime.listen(name, delay=self.streams[name])
        lines = TimedLines(name, _never_opened, steps=GapLimit(self.gap), scope=self.blank_nodes.scope(name))
        self._readers[name] = ColumnLines(lines, self.queries.dictionary)

    def _add_streams(self, streams: Mapping[str, int]) -> None:
        # When the service starts again it has them from its config, and their records say since when.
        for name, delay in streams.items():
            self.log.append(LogRecord({"do": "listen", "stream": name}))
            self.streams = {**self.streams, name: delay}
            self._last_activity[name] = self.clock()
            self._listen_later(name)

    def _delete(self, one: RegisteredQuery, keep: bool) -> Path | None:
        kept = None
        if keep:
            kept = self.queries.answers.keep(one.name, f"{one.name}.{one.number}", one.text)
        self.log.append(LogRecord({"do": "delete", "number": one.number}))
        self._runtime.remove(one.name)
        self.queries.forget(one)
        self.failures.pop(one.name, None)
        self._quarantine.pop(one.name, None)
        self.queries.answers.forget(one.name)
        self.deleted(one.name)
        return kept

    def _pause(self, one: RegisteredQuery, logged: bool = False) -> None:
        if not logged:
            self.log.append(LogRecord({"do": "pause", "number": one.number}))
        self._runtime.remove(one.name)

    def _resume(self, one: RegisteredQuery, logged: bool = False) -> None:
        if one.name in self.queries.running:
            return
        one = self.queries.parsed_again(one)
        query = self.queries.build(one)
        if not logged:
            self.log.append(LogRecord({"do": "resume", "number": one.number}))
        self._runtime.add(query)
        self.failures.pop(one.name, None)

    def _on_failure(self, query: ContinuousQuery, error: Exception) -> None:
        """Pause a query that fails, and keep the reason."""
        for name in query.names:
            self.queries.running.pop(name, None)
            self._runtime.release(name)
            self._isolate(name, failure_text(error))
            LOGGER.warning("the query %s has failed: %s", name, self.failures[name])

    def _replay(self) -> None:
        """Apply all records of the log; queries that were deleted later are skipped."""
        deleted = self._scan_log()
        is_first = True
        for record in self.log.records():
            head = record.head
            if head["do"] == "snapshot":
                self._history.load(head)
                if is_first:
                    self._restore_snapshot(head, deleted)
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
                self._restore(head, deleted)
            elif head["number"] not in deleted:
                self._put_out(self._runtime.deliver(self.engine.settle()))
                one = self.queries.numbered(head["number"])
                {"pause": self._pause, "resume": self._resume}[head["do"]](one, logged=True)
            is_first = False

    def _scan_log(self) -> set[int]:
        """Listen to the streams that the log does not add later; return the numbers of deleted queries."""
        deleted, added_later, known = set[int](), set[str](), set[str]()
        for place, record in enumerate(self.log.records()):
            head = record.head
            if head["do"] == "delete":
                deleted.add(head["number"])
            elif head["do"] == "listen":
                added_later.add(head["stream"])
            elif head["do"] == "snapshot" and not place:
                known = set(head["passed"])
        for name in self.streams:
            if name not in added_later - known:
                self._listen(name)
        return deleted

    def _listen_later(self, name: str) -> None:
        """Listen to a stream that was added while others had elements already."""
        if name in self.streams and name not in self._readers:
            self._listen(name)
            self._put_out(self._runtime.mark_idle(name))

    def _restore_snapshot(self, snapshot: Mapping[str, Any], deleted: Collection[int]) -> None:
        """Restore what still matters of the segments before the first one that is left."""
        for name, passed in snapshot["passed"].items():
            if name in self._readers:
                self.engine.inputs.find(name).order.advance(passed)
        for name in snapshot.get("silent", ()):
            if name in self._readers:
                self.engine.inputs.find(name).idle = True
        self.queries.next_numbers = snapshot["next"]
        for record in snapshot["queries"]:
            one = self._restore(record, deleted)
            if one is not None and record["paused"]:
                self._pause(one, logged=True)

    def _restore(self, record: Mapping[str, Any], deleted: Collection[int]) -> RegisteredQuery | None:
        """Register a query of the log again, unless it was deleted later."""
        if record["number"] in deleted:
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


def _never_opened() -> Any:
    raise AssertionError("a stream that is pushed is not opened")
