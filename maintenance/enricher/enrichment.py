"""An enricher without its doors: rounds of maintenance in a thread, and misses that are fetched together.

Asking never waits for a round. A key that is not there has one future for all who ask for it; a few threads work on
what is queued, request after request, and tell those who wait.
"""

import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from threading import Event, Lock, RLock, Thread
from typing import TYPE_CHECKING, Any, cast

from freshkeeper.maintenance.base.errors import ConfigError, InputError, TimeError, extra_for
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.enricher.cached_row import UNSURE, CachedRow, nothing
from freshkeeper.maintenance.enricher.counts import Counts
from freshkeeper.maintenance.enricher.lookup_source import AsyncLookupSource, LookupSource, row_fetcher
from freshkeeper.maintenance.enricher.row_cache import RowCache, warm_up
from freshkeeper.maintenance.enricher.settings import EnricherSettings, duration, is_asynchronous
from freshkeeper.maintenance.enricher.shared_entries import Entries
from freshkeeper.maintenance.fetching.endpoint import PENDING
from freshkeeper.maintenance.fetching.executors import Submit, SubmittedRequest, SubmittingExecutor
from freshkeeper.maintenance.fetching.key_fetcher import Arrival
from freshkeeper.maintenance.observe.logs import LOGGER

if TYPE_CHECKING:
    from freshkeeper.maintenance.enricher.stored_rows import StoredRows
    from freshkeeper.maintenance.observe.metrics import Metrics

WAITED = 0.9
"""The part of a step for which a round waits for its requests; what comes later is for the next."""
CLOSED = nothing("the enricher is closed")


@dataclass(eq=False)
class Enrichment(EnricherSettings, ABC):
    """Settings, the cache made of them, and what keeps it fresh."""

    cache: RowCache = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._last = 0
        self._now: Callable[[], int] = self.clock or (wall_clock() if self.background else lambda: self._last)
        self._patience = duration("timeout", self.timeout) / 1000
        self._due: int | None = None
        self._threads = ThreadPoolExecutor(self.parallel, "enricher")
        self._lock, self._starting, self._ticking = Lock(), RLock(), Lock()
        self._awaited: dict[Hashable, Future[CachedRow]] = {}
        self._serving = 0
        self._started = self._closed = False
        self._stop = Event()
        self._thread: Thread | None = None
        self._metrics: Metrics | None = None
        source = (AsyncLookupSource if is_asynchronous(self.lookup) else LookupSource)(self.lookup)
        rounds, misses = self._submitters()
        fetcher = row_fetcher(source, rounds, self.pricing, self.parallel)
        self._misses = SubmittingExecutor(misses, source.limits, self.parallel)
        stored = self._stored_rows()
        now = self._now()
        try:
            self.cache = RowCache(self, fetcher, now if stored is None else stored.start(now), stored=stored)
        except BaseException:
            if stored is not None:
                stored.close()
            raise
        if self.cache.last is not None:
            self._go_on(self.cache.last, now)

    def __reduce__(self) -> tuple[Any, ...]:
        """Settings travel, rows do not: what comes out begins anew."""
        return partial(type(self), **self.settings()), ()

    @property
    def counts(self) -> Counts:
        """What it has done so far."""
        return self.cache.counts.copy()

    def forget(self, key: Hashable) -> None:
        """Somebody knows that a row has changed: it is fetched again when it is next asked for."""
        self.cache.forget(key)
        if self.expand is not None:
            self._entries.forget(key)

    @cached_property
    def _entries(self) -> Entries:
        """Of keys that share them."""
        if self.expand is None:
            raise ConfigError("get_entries needs expand=...: a function from a key to the keys of its rows")
        return Entries(self.expand, self.cache.pay, self.capacity)

    @abstractmethod
    def _submitters(self) -> tuple[Submit, Submit]:
        """Return what runs the lookups of rounds, and those of keys that somebody waits for."""

    def _ask(self, key: Hashable) -> "Future[CachedRow]":
        """Want a key that is not there, and be told what comes of it."""
        if key is None:
            raise InputError("None is no key: an event without one has no row")
        waits = self.missing != "without" and not self._closed
        with self._lock:
            future = self._awaited.get(key)
            new = future is None
            if future is None:
                future = Future()
                if waits:
                    self._awaited[key] = future
        self.cache.want(key, new and waits)
        if not waits:
            _settle(future, CLOSED if self._closed else nothing("it is not in the cache"))
        elif new and (row := self.cache.row(key, self._now())) is not None:  # it came meanwhile
            self._resolve({key: row})
        return future

    def _send(self) -> None:
        """See to it that somebody works on what is queued."""
        with self._lock:
            if self._serving >= self.parallel or not self.cache.queued or self._closed:
                return
            self._serving += 1
        self._threads.submit(self._serve)

    def _serve(self) -> None:
        """Fetch what is queued, request after request, until nothing is, or nothing is left to pay it with."""
        while True:
            sent = self.cache.next_request(self._now(), self._misses)
            if sent is not None:
                self._send()
                rows = self.cache.received(sent)
                self._tell_failures([row.error for row in rows.values()])
                self._resolve(rows)
                continue
            left = self.cache.abandoned()
            if self.missing == "fetch":
                self._resolve(dict.fromkeys(left, UNSURE))
            with self._lock:
                if not self.cache.queued:
                    self._serving -= 1
                    return

    def _resolve(self, rows: dict[Hashable, CachedRow]) -> None:
        """Tell those who wait."""
        with self._lock:
            futures = [(self._awaited.pop(key, None), row) for key, row in rows.items()]
        for future, row in futures:
            if future is not None:
                _settle(future, row)

    def _tick(self, now: int | None = None) -> Evaluation | None:
        """A round, if one is due: every step is paid once."""
        with self._ticking:
            at = self._now() if now is None else now
            if not self._is_due(at):
                return None
            evaluation = self._turned(at)
        self._tell_failures(evaluation.refreshes.errors)
        LOGGER.debug("%s: a round at %d spent %g", self.name, evaluation.record.t_ms, evaluation.record.spent)
        if self._metrics is not None:
            self._metrics.observe(self.name, self.cache.manager, evaluation)
            self._metrics.looked_up(self.name, self.cache.counts.hits, self.cache.counts.misses)
        with self._lock:
            awaited = list(self._awaited)
        self._resolve(self._found(evaluation, awaited))
        return evaluation

    def _maintained(self) -> float:
        """A round by the clock, if one is due; the seconds until the next. Nobody waits for it: failures are told."""
        try:
            if self._due is None or self._now() >= self._due:
                self._tick()
        except Exception:
            LOGGER.exception("a round of maintenance failed")
        return max(0.001, ((self._due or 0) - self._now()) / 1000)

    def _tell_failures(self, errors: Sequence[str | None]) -> None:
        """In the log, the first of them in full."""
        found = [error for error in errors if error not in (None, PENDING)]
        if found:
            LOGGER.warning("%s: %d keys could not be fetched: %s", self.name, len(found), found[0])

    def _stored_rows(self) -> "StoredRows | None":
        if self.state is None:
            return None
        try:
            from freshkeeper.maintenance.enricher.stored_rows import StoredRows
        except ModuleNotFoundError as error:
            raise extra_for(error, "a state") from error
        return StoredRows(Path(self.state), self.name)

    def _go_on(self, last: int, now: int) -> None:
        """After an earlier run, which may have had this step: the next round is that of the next step."""
        if now < last:
            LOGGER.warning("%s: the clock is %d ms behind the last round: it goes on from there", self.name, last - now)
            clock, ahead = self._now, last - now
            self._now = lambda: clock() + ahead
        self._last = max(last, now)
        start = self.cache.start
        self._due = start + ((max(last, now) - start) // self.every + 1) * self.every

    def _is_due(self, now: int) -> bool:
        if self.cache.last is not None and now < self.cache.last:
            raise TimeError(f"time goes backwards: a round at {now} after the one at {self.cache.last}")
        if self._due is not None and now < self._due:
            return False
        start = self.cache.start
        self._due = start + ((now - start) // self.every + 1) * self.every
        self._last = now
        return True

    def _turned(self, now: int) -> Evaluation:
        """A round by the clock waits for its requests nearly until the next one is due."""
        patience = WAITED * self.every / 1000 if self.background else None
        work = self.cache.turn(now)
        while True:
            try:
                arrival = cast("Arrival", next(work))
            except StopIteration as end:
                return cast("Evaluation", end.value)
            sent = [one for one in arrival.sent if isinstance(one, SubmittedRequest)]
            wait([cast("Future[Any]", one.answer) for one in sent], patience)

    def _found(self, evaluation: Evaluation, awaited: Iterable[Hashable]) -> dict[Hashable, CachedRow]:
        """What a round has for those who wait: rows, and errors."""
        refreshes = evaluation.refreshes
        errors = {key: e for key, e in zip(refreshes.keys, refreshes.errors, strict=True) if e not in (None, PENDING)}
        rows = {}
        for key in awaited:
            row = self.cache.row(key, self._now())
            if row is not None:
                rows[key] = row._replace(hit=False)
            elif key in errors:
                rows[key] = nothing(str(errors[key]))
        return rows

    def _start(self) -> None:
        """The first round opens the budget; those who come meanwhile wait for it."""
        with self._starting:
            if self._started or self._closed:
                return
            if self.metrics is not None:
                self._serve_metrics(self.metrics)
            if self.background:
                warm_up()
                self._tick()
                self._thread = Thread(target=_maintain, args=(weakref.ref(self), self._stop), daemon=True)
                self._thread.start()
            self._started = True

    def _serve_metrics(self, written: str) -> None:
        from freshkeeper.maintenance.observe.metrics import Metrics, address_of  # an extra

        port, address = address_of(written)[::-1]
        self._metrics = Metrics()
        self._metrics.serve(port, address)

    def _close(self) -> None:
        """No more rounds and requests; those who wait are told."""
        self._closed = True
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._metrics is not None:
            self._metrics.close()
        if self.cache.stored is not None:
            with self._ticking:
                self.cache.stored.close()
        self._resolve(dict.fromkeys(list(self._awaited), CLOSED))


def wall_clock() -> Callable[[], int]:
    """Milliseconds since the epoch, that never go back."""
    clock = time.monotonic_ns
    ahead = time.time_ns() - clock()
    return lambda: (ahead + clock()) // 1_000_000


def _maintain(owner: "weakref.ref[Enrichment]", stop: Event) -> None:
    """Round after round, until it is closed or nobody has it any more."""
    delay = 0.0
    while not stop.wait(delay):
        enrichment = owner()
        if enrichment is None:
            return
        delay = enrichment._maintained()
        del enrichment


def _settle(future: "Future[CachedRow]", row: CachedRow) -> None:
    if not future.done():
        future.set_result(row)
