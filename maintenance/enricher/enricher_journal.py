"""The journal of an enricher: what it did, as JSON lines that `freshkeeper report` and `check` read.

A line for every interval has the reads, how many of them are believed right, requests and budget; a line for every
fetch has its key, whether the row had changed, and what an audit found. Reads only count, so a hit costs the same with
a journal. Fetches wait in a bounded queue until a thread of its own writes them: a journal never delays or fails a
read, and what it has to leave out is counted. A line is written whole, so that what was written survives a kill.
"""

import json
import logging
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.enricher.settings import Seconds, milliseconds
from freshkeeper.maintenance.enricher.statistics import Counters

if TYPE_CHECKING:
    from freshkeeper.maintenance.enricher.engine import KeyCache

LOGGER = logging.getLogger("freshkeeper")
MAX_QUEUED_FETCHES = 20_000
SEGMENTS = 10
"""A journal is removed in parts: each is at most this part of what may be kept."""
PATTERN = "enricher-*.jsonl"
FORMAT = 1


@dataclass(frozen=True)
class EnricherJournal:
    """The settings of a journal: its directory, and how much of it is kept.

    directory
        several processes may share one
    age
        how long it keeps, at most
    largest
        how many bytes it may have
    interval
        the time between two lines about reads; a kill loses what came after the last one

    >>> from freshkeeper import EnricherJournal
    >>> EnricherJournal("journal", age="7d").largest
    100000000
    """

    directory: str | Path
    age: Seconds = "30d"
    largest: int = 100_000_000
    interval: Seconds = 10.0

    def __post_init__(self) -> None:
        if self.largest < 1 or not milliseconds("age", self.age) or not milliseconds("interval", self.interval):
            raise ConfigError(f"{self}: age, largest and interval must be above 0")


@dataclass(eq=False)
class JournalWriter:
    """Writes the journal of one enricher."""

    settings: EnricherJournal
    name: str
    facts: dict[str, Any]
    """the settings of the enricher, for the first line of a segment"""
    engine: "weakref.ref[KeyCache]"
    clock: Callable[[], float]
    dropped: int = 0
    """fetches that the journal had no room for"""
    _fetches: deque[tuple[Any, ...]] = field(default_factory=deque)
    _file: int | None = None
    _segment: Path | None = None
    _last: Counters = field(default_factory=Counters)
    _last_spent: float = 0.0
    _next_flush: float = 0.0
    _failing: bool = False
    _stopped: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def start(self, background: bool) -> None:
        """Begin: in a thread, or within the calls that fetch."""
        directory = Path(self.settings.directory)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"journal={str(directory)!r}: {error.strerror or error}; name a writable one") from None
        self._interval_ms = milliseconds("interval", self.settings.interval)
        self._next_flush = self.clock() + self._interval_ms
        if background:
            self._thread = Thread(target=_write_until_stopped, args=(weakref.ref(self),), daemon=True)
            self._thread.name = f"freshkeeper-journal-{self.name}"
            self._thread.start()

    def fetched(self, key: Hashable, sent_at: float, now: float, before: Counters, error: str | None) -> None:
        """Note one fetched key, by how the counters have changed since before it."""
        engine = self.engine()
        if engine is None:
            return
        if len(self._fetches) >= MAX_QUEUED_FETCHES:
            self.dropped += 1
        else:
            count = engine.counters
            changed = None if count.refreshed == before.refreshed else count.changed > before.changed
            audit = None if count.audited == before.audited else count.audit_right > before.audit_right
            self._fetches.append((sent_at, key, changed, now - sent_at, error, audit))
        if self._thread is None and now >= self._next_flush:
            self.flush()

    def flush(self) -> None:
        """Write what happened since the last time; errors are logged once and leave lines out."""
        engine = self.engine()
        if engine is None:
            return
        fetches = [self._fetches.popleft() for _ in range(len(self._fetches))]
        now = self.clock()
        lines = [json.dumps(["fetch", round(at), _text(key), *rest]) for at, key, *rest in fetches]
        lines.append(json.dumps(["interval", round(now), self._interval(engine, now)]))
        try:
            self._append(lines, now)
            self._failing = False
        except OSError as error:
            self.dropped += len(fetches)
            if not self._failing:
                LOGGER.warning("%s: the journal %s cannot be written: %s", self.name, self.settings.directory, error)
            self._failing = True
            self._close_segment()

    def close(self) -> None:
        """Write the rest, and stop."""
        self._stopped.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(5.0)
        self.flush()
        self._close_segment()

    def after_fork(self) -> None:
        """Begin anew in a forked child, with a segment of its own."""
        self._fetches.clear()
        self._file = self._segment = None
        self._stopped = Event()
        engine = self.engine()
        if engine is not None:
            self._last, self._last_spent = self._counters(engine), engine.bucket.spent
        self.start(self._thread is not None)

    def wait(self) -> bool:
        """Wait for the next interval; return whether the journal goes on."""
        return not self._stopped.wait(self._interval_ms / 1000) and self.engine() is not None

    def _counters(self, engine: "KeyCache") -> Counters:
        return replace(engine.counters, hits=engine.counters.hits + engine.quick_hits)

    def _interval(self, engine: "KeyCache", now: float) -> dict[str, Any]:
        """Return what the counters gained in an interval."""
        with engine.queue.lock:
            count, spent = self._counters(engine), engine.bucket.spent
        last, passed = self._last, now - (self._next_flush - self._interval_ms)
        gained = {name: value - getattr(last, name) for name, value in vars(count).items()}
        found = {
            **{name: value for name, value in gained.items() if value},
            "spent": spent - self._last_spent,
            "paid": engine.bucket.rate * passed,
            "available": engine.bucket.level,
            "rows": len(engine.rows),
            "dropped": self.dropped,
        }
        self._last, self._last_spent, self._next_flush = count, spent, now + self._interval_ms
        return found

    def _append(self, lines: list[str], now: float) -> None:
        if self._file is not None and self._segment is not None:
            begun = int(self._segment.name.split("-")[1])
            part = milliseconds("age", self.settings.age) / SEGMENTS
            if os.fstat(self._file).st_size > self.settings.largest / SEGMENTS or now - begun > part:
                self._close_segment()
        if self._file is None:
            self._remove_old()
            directory = Path(self.settings.directory)
            self._segment = directory / f"enricher-{now:015.0f}-{os.getpid()}-{id(self) % 10**6}.jsonl"
            self._file = os.open(self._segment, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            lines = [json.dumps(["enricher", FORMAT, self.name, self.facts]), *lines]
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())

    def _remove_old(self) -> None:
        """Remove the oldest segments where there are too many or too old ones."""
        segments = sorted(Path(self.settings.directory).glob(PATTERN))
        sizes = {segment: segment.stat() for segment in segments}
        total = sum(size.st_size for size in sizes.values())
        oldest = time.time() - milliseconds("age", self.settings.age) / 1000
        for segment, size in sizes.items():
            if total <= self.settings.largest * (1 - 1 / SEGMENTS) and size.st_mtime >= oldest:
                break
            segment.unlink(missing_ok=True)
            total -= size.st_size

    def _close_segment(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = self._segment = None


def read_lines(directory: Path) -> Iterator[list[Any]]:
    """Yield the lines of a journal, segment by segment; a line that a kill has torn is left out."""
    for segment in sorted(directory.glob(PATTERN)):
        for line in segment.read_bytes().splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if found[:1] == ["enricher"] and found[1] != FORMAT:
                raise InputError(f"{segment} is of format {found[1]}; this version reads {FORMAT}")
            yield found


def _write_until_stopped(journal: "weakref.ref[JournalWriter]") -> None:
    while True:
        writer = journal()
        if writer is None or not writer.wait():
            return
        writer.flush()
        del writer  # so that an enricher that nobody uses any more can go


def _text(key: Hashable) -> str:
    return key if isinstance(key, str) else repr(key)
