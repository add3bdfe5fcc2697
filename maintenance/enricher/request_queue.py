"""Requests of an engine: queues of wanted keys, what they wait for, and what their replies bring.

wanted ─▶ queue ─▶ token bucket ─▶ request (with riders) ─▶ source ─▶ rows, rates ─▶ readers that wait
"""

import logging
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.enricher.flights import Flight, Outcomes, Reply, Sender
from freshkeeper.maintenance.enricher.row import CachedRow, fingerprint
from freshkeeper.maintenance.enricher.row_cache import RowCache
from freshkeeper.maintenance.enricher.row_table import NOW, Entry
from freshkeeper.maintenance.enricher.token_bucket import PriceController, TokenBucket
from freshkeeper.maintenance.fetching.backoff import KeyBackoff
from freshkeeper.maintenance.fetching.endpoint import EntryId, Price

if TYPE_CHECKING:
    from freshkeeper.maintenance.enricher.enricher_journal import JournalWriter

LOGGER = logging.getLogger("freshkeeper")
LOG_EVERY_MS = 10_000.0
RIDERS_PER_KEY = 8
"""So many recent reads are remembered per key of a batch; the best of them fill requests that have room."""
MIN_DOUBT = 0.01
"""Rows that are more likely right than this leaves do not ride with others."""
MIN_TICK_MS = 1.0
CLAIM_MS = 5000.0
"""How long a process may take to fetch a key that it claimed in a shared store, before another one tries."""
CLAIM_POLL_MS = 20.0
Answers: TypeAlias = list[tuple[Flight, CachedRow[Any]]]
"""flights that are over, with the rows that their readers get"""
CLOSED = "the enricher is closed"


@dataclass(eq=False)
class RequestQueue:
    """Keys that are being fetched or wait for it; the budget is spent here and nowhere else."""

    cache: RowCache
    sender: Sender
    bucket: TokenBucket
    controller: PriceController
    now: Callable[[], float]
    tick: Callable[[float], None]
    """pays income in and sets the price"""
    price: Price
    linger: float
    """milliseconds that a key waits for others to share its request"""
    stale_if_error: bool
    name: str
    lock: RLock = field(default_factory=RLock)
    """guards the queue, the rows and the budget"""
    flights: dict[Hashable, Flight] = field(default_factory=dict)
    closed: bool = False
    journal: "JournalWriter | None" = None

    def __post_init__(self) -> None:
        self.recent: deque[Entry] = deque(maxlen=max(RIDERS_PER_KEY * self.price.batch, 1))
        self._shared = self.cache.shared
        self._misses: deque[Flight] = deque()
        self._refreshes: deque[Flight] = deque()
        self._backoff = KeyBackoff()
        self._errors: OrderedDict[Hashable, str] = OrderedDict()
        self._started = self.now()
        self._fill = 1.0
        self._elsewhere: dict[Hashable, Flight] = {}
        self._linger_until: float | None = None
        self._gathering = 0
        self._next_log, self._unlogged_failures = NOW, 0

    def enqueue(self, key: Hashable, is_miss: bool) -> Flight:
        flight = self.flights[key] = Flight(key, is_miss=is_miss)
        (self._misses if is_miss else self._refreshes).append(flight)
        return flight

    def pump(self, now: float | None = None, flush: bool = False) -> None:
        """Send what waits, as far as the budget, the source and the company of other keys allow."""
        with self.lock:
            if self._gathering or self.closed:
                return
            now = self.now() if now is None else now
            self.tick(now)
            if self._elsewhere:
                self._look_elsewhere(now)
            wait = self._send_all(now, flush)
            if self._elsewhere:
                wait = min(wait or CLAIM_POLL_MS, CLAIM_POLL_MS)
            if self._misses or self._refreshes or self._elsewhere:
                if self.sender.can_wait:
                    self.sender.wake(max(wait, MIN_TICK_MS))
                else:
                    self._drop_unsent(None)

    def why_in_backoff(self, key: Hashable, now: float) -> str | None:
        """Return why a key that failed is not tried again yet."""
        if not self._backoff.has_failed(_id(key)):
            return None
        # Back-off counts orders, which are seconds here.
        self._backoff.advance(int((now - self._started) / 1000))
        if left := self._backoff.orders_left(_id(key)):
            return f"{self._errors.get(key)}; tried again in {left} s"
        if self.bucket.retries < self.price.paid(1, 1):
            return f"{self._errors.get(key)}; many keys fail, so it is tried again later"
        return None

    def give_up(self, flight: Flight, waited_s: float) -> CachedRow[Any]:
        """Return what is known of a key whose reader waits no longer."""
        with self.lock:
            if flight.future.done():
                return flight.future.result()
            now = self.now()
            why = "the request is under way" if flight.sent else self.why_waiting()
            flight.waiters -= 1
            if flight.is_miss and not flight.sent and flight.waiters <= 0:
                flight.cancelled = True
                self.flights.pop(flight.key, None)
            entry = self.cache.entries.get(flight.key)
            error = f"no answer within {waited_s:g} s: {why}"
            return CachedRow.failed(error) if entry is None else self.cache.row_of(entry, now, error=error)

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Let the keys that are read within the block share requests."""
        with self.lock:
            self._gathering += 1
            try:
                yield
            finally:
                self._gathering -= 1
                if not self._gathering:
                    self.pump(flush=True)

    def pay(self, cost: float) -> bool:
        """Take the cost of a request that somebody else sends out of the budget."""
        with self.lock:
            self.bucket.fill(self.now())
            paid = self.bucket.take(cost, miss=True)
            self.cache.counters.requests += paid
            return paid

    def close(self) -> None:
        """Send nothing more; readers that wait get an error."""
        with self.lock:
            self.closed = True
            self._drop_unsent(CLOSED)
            waiting = list(self.flights.values())
            self.flights.clear()
            if self._shared is not None:
                self._shared.close()
        for flight in waiting:
            if not flight.future.done():
                flight.future.set_result(CachedRow.failed(CLOSED))

    def after_fork(self) -> None:
        """Begin anew in a forked child, where no other thread holds the lock, and requests were the parent's."""
        self.lock = RLock()
        self.restart()
        if self._shared is not None:
            self._shared.after_fork()

    def restart(self) -> None:
        """Forget requests under way: whoever waited for them is gone."""
        self.flights.clear()
        self._misses.clear()
        self._refreshes.clear()
        self._elsewhere.clear()
        self._linger_until = None
        self._gathering = 0

    def clear(self) -> None:
        """Forget recent reads and errors."""
        self.recent.clear()
        self._errors.clear()

    def why_waiting(self) -> str:
        """Return in words what requests wait for."""
        if not self.sender.ready():
            return self.sender.why_not()
        seconds = self.bucket.wait(self.price.paid(1, 1)) / 1000
        return f"the budget is spent; the next request can be paid in {seconds:.1f} s"

    def may_refresh(self, demanded: bool) -> bool:
        """Return whether the budget has a request for one more refresh, beside those that wait already."""
        queued = len(self._misses) + len(self._refreshes)
        if self._linger_until is not None and queued < self.price.batch:
            return True  # joins a request that is about to be sent
        cost = self.price.paid(queued // self.price.batch + 1, queued + 1)
        return self.bucket.affords(cost, miss=demanded) and self.sender.ready()

    def affordable_refreshes(self, most: int) -> int:
        """Return for how many refreshes the budget has requests, up to `most`, beside those that wait already."""
        if not self.sender.ready():
            return 0
        queued, batch = len(self._misses) + len(self._refreshes), self.price.batch
        keys = 0
        while keys < most:
            more = min(most, keys + batch - (queued + keys) % batch)
            if not self.bucket.affords(self.price.paid(-(-(queued + more) // batch), queued + more), miss=False):
                break
            keys = more
        return keys

    @property
    def key_cost(self) -> float:
        """The cost of one key in a request as full as they have been of late."""
        return self.price.paid(1, 1) if self.price.batch == 1 else self.price.paid(1, round(self._fill)) / self._fill

    def _send_all(self, now: float, flush: bool) -> float:
        """Send requests until nothing is left or something has to be waited for; return for how many ms."""
        while self._misses or self._refreshes:
            wait = self._company(now) if self.linger and not flush else 0.0
            if wait > 0:
                return wait
            if not self.sender.ready():
                return self.sender.wait()
            keys = self._next_keys()
            if not keys:
                continue
            cost = self.price.paid(1, len(keys))
            if not self.bucket.take(cost, miss=True):
                self._put_back(keys)
                return self.bucket.wait(cost)
            keys = self._claimed(keys, now)
            if not keys:
                self.bucket.give_back(cost)
                continue
            if any(self._backoff.has_failed(_id(key)) for key in keys):
                self.bucket.retries -= cost
            self._linger_until = None
            self.cache.counters.requests += 1
            self._fill += 0.05 * (len(keys) - self._fill)
            proven = not self.cache.entries or any(key in self.cache.entries for key in keys)
            self.sender.send(keys, partial(self._received, keys, now, cost), proven)
        return 0.0

    def _next_keys(self) -> list[Hashable]:
        """Take the keys of the next request from the queues, misses first, and fill it with riders."""
        keys: list[Hashable] = []
        limit = self.price.batch
        for queue in (self._misses, self._refreshes):
            for _ in range(len(queue)):
                flight = queue[0]
                if flight.sent or flight.cancelled:
                    queue.popleft()
                    continue
                own = self._backoff.limit(_id(flight.key), self.price.batch)
                if keys and (own <= len(keys) or len(keys) >= limit):
                    break
                limit = min(limit, own)
                queue.popleft()
                flight.sent = True
                keys.append(flight.key)
        room = limit - len(keys)
        if keys and room > 0 and self.recent:
            keys += self._riders(room)
        return keys

    def _put_back(self, keys: Sequence[Hashable]) -> None:
        """Return keys to the head of their queue; riders go."""
        for key in reversed(keys):
            flight = self.flights.get(key)
            if flight is None:
                continue
            flight.sent = False
            (self._refreshes if key in self.cache.entries else self._misses).appendleft(flight)

    def _riders(self, room: int) -> list[Hashable]:
        """Return the rows worth most among those that were read of late: they nearly ride for free."""
        now, worth = self.now(), {}
        for entry in self.recent:
            key = entry.key
            if (
                key in worth
                or key in self.flights
                or self.cache.entries.get(key) is not entry
                or self._backoff.has_failed(_id(key))
            ):
                continue
            gain = self.cache.gain(entry, now)
            worthwhile = gain > self.controller.price * self.price.per_key
            if worthwhile and self.cache.probability_right(entry, now) < 1.0 - MIN_DOUBT:
                worth[key] = gain
        best = sorted(worth, key=worth.__getitem__, reverse=True)[:room]
        for key in best:
            self.flights[key] = Flight(key, is_miss=False, sent=True)
        return best

    def _company(self, now: float) -> float:
        """Return for how many ms the keys that wait should wait for more keys to share their request."""
        if len(self._misses) + len(self._refreshes) >= self.price.batch:
            return 0.0
        if self._linger_until is None:
            self._linger_until = now + self.linger
        return self._linger_until - now

    def _claimed(self, keys: list[Hashable], now: float) -> list[Hashable]:
        """Return the keys that no other process is fetching; the rows of the others are awaited from the store."""
        if self._shared is None:
            return keys
        granted = set(self._shared.claim(self._fetched(keys), CLAIM_MS))
        for key in keys:
            flight = self.flights.get(key)
            if key not in granted and flight is not None:
                flight.elsewhere_until = now + CLAIM_MS
                self._elsewhere[key] = flight
        return [key for key in keys if key in granted]

    def _fetched(self, keys: Iterable[Hashable]) -> dict[Hashable, float]:
        """Return when the rows of these keys were fetched; -inf where there is none."""
        rows = self.cache.entries
        return {key: rows[key].fetched if key in rows else -math.inf for key in keys}

    def _look_elsewhere(self, now: float) -> None:
        """Answer the readers of rows that another process has fetched; fetch those here that it did not in time."""
        rows = self.cache.entries
        adopted = self.cache.adopt(self._fetched(self._elsewhere), now)
        away = self._shared is None or not self._shared.available()
        for key, flight in list(self._elsewhere.items()):
            entry = adopted.get(key)
            if entry is None and now < flight.elsewhere_until and not away:
                continue
            del self._elsewhere[key]
            if entry is not None:
                self.flights.pop(key, None)
                flight.future.set_result(self.cache.row_of(entry, now, hit=False))
            else:
                flight.sent = False
                (self._refreshes if key in rows else self._misses).append(flight)

    def _drop_unsent(self, error: str | None) -> None:
        """Answer the readers of what could not be sent: the old row, or why there is none."""
        for flight in self._elsewhere.values():
            flight.sent = False
        self._misses.extend(self._elsewhere.values())
        self._elsewhere.clear()
        for queue in (self._misses, self._refreshes):
            while queue:
                flight = queue.popleft()
                if flight.cancelled or flight.sent:
                    continue
                self.flights.pop(flight.key, None)
                entry = self.cache.entries.get(flight.key)
                row = (
                    CachedRow.failed(error or self.why_waiting())
                    if entry is None
                    else self.cache.row_of(entry, self.now())
                )
                flight.future.set_result(row)

    def _received(self, keys: Sequence[Hashable], sent_at: float, paid: float, reply: Reply) -> None:
        """Take the reply to a request: store rows, learn, and answer those who wait."""
        digests = {key: fingerprint(copy.value) for key, copy in reply.outcomes.items() if copy.error is None}
        with self.lock:
            now = self.now()
            self.cache.counters.unchanged += reply.unchanged
            if reply.cost is not None and reply.cost < paid:
                self.bucket.give_back(paid - reply.cost)
            if reply.refused:
                answered = self._refused(keys, reply.outcomes, now)
            else:
                answered = self._settled(keys, sent_at, reply.outcomes, digests, now)
            if self._shared is not None:
                self.cache.share([key for key in keys if reply.outcomes[key].error is None])
                self._shared.release(keys)
            self.pump(now)
        for flight, row in answered:
            if not flight.future.done():
                flight.future.set_result(row)

    def _settled(
        self, keys: Sequence[Hashable], sent_at: float, outcomes: Outcomes, digests: dict[Hashable, int], now: float
    ) -> Answers:
        """Store the rows of a reply and note its errors; return what readers get."""
        answered: Answers = []
        whole = len(keys) > 1 and all(outcomes[key].error is not None for key in keys)
        again: list[Flight] = []
        for key in keys:
            copy = outcomes[key]
            flight = self.flights.pop(key, None)
            counts = None if self.journal is None else replace(self.cache.counters)
            if copy.error is not None:
                if whole and flight is not None:
                    again.append(flight)
                    continue
                row = self._failed(key, copy.error, now, alone=len(keys) == 1)
            else:
                self._backoff.answered([_id(key)])
                entry = self.cache.store(key, copy, sent_at, digests[key])
                if flight is not None and flight.invalidated:
                    self.cache.doubt(key)
                elif flight is not None and flight.hinted_at is not None:
                    self.cache.hint(key, flight.hinted_at, now)
                row = self.cache.row_of(entry, now, hit=False)
            if self.journal is not None and counts is not None:
                self.journal.fetched(key, sent_at, now, counts, copy.error)
            if flight is not None:
                answered.append((flight, row))
        self._halve(again, keys)
        return answered

    def _refused(self, keys: Sequence[Hashable], outcomes: Outcomes, now: float) -> Answers:
        """Put missing keys back, whose readers wait on; readers of the others get their old rows."""
        answered: Answers = []
        for key in reversed(keys):
            flight = self.flights.pop(key, None)
            entry = self.cache.entries.get(key)
            if flight is not None and entry is not None:
                answered.append((flight, self.old_row(entry, now, outcomes[key].error)))
            elif flight is not None and flight.waiters > 0:
                flight.sent = False
                self.flights[key] = flight
                self._misses.appendleft(flight)
        return answered

    def _halve(self, again: Sequence[Flight], keys: Sequence[Hashable]) -> None:
        """Send the keys of a failed request again in halves: whose fault it was is not known yet."""
        if again:
            self._backoff.request_failed([_id(key) for key in keys])
        for flight in again:
            flight.sent = False
            self.flights[flight.key] = flight
            (self._refreshes if flight.key in self.cache.entries else self._misses).append(flight)

    def _failed(self, key: Hashable, error: str, now: float, alone: bool) -> CachedRow[Any]:
        """Note the failure of a key: it is tried again ever more seldom, and its old row stays."""
        self.cache.counters.failed += 1
        self._log_failure(key, error, now)
        self._backoff.advance(int((now - self._started) / 1000))
        if alone:
            self._backoff.request_failed([_id(key)])
        else:
            self._backoff.key_failed(_id(key))
        self._errors[key] = error
        self._errors.move_to_end(key)
        while len(self._errors) > self.cache.table.capacity:
            self._errors.popitem(last=False)
        entry = self.cache.entries.get(key)
        return CachedRow.failed(error) if entry is None else self.old_row(entry, now, error)

    def _log_failure(self, key: Hashable, error: str, now: float) -> None:
        """Log failures, the first at once and then one line for all of a while."""
        self._unlogged_failures += 1
        if now >= self._next_log:
            others = f" ({self._unlogged_failures - 1} more failures since)" if self._unlogged_failures > 1 else ""
            LOGGER.warning("%s: %r could not be fetched: %s%s", self.name, key, error, others)
            self._next_log = now + LOG_EVERY_MS
            self._unlogged_failures = 0

    def old_row(self, entry: Entry, now: float, error: str | None) -> CachedRow[Any]:
        if error is not None and not self.stale_if_error:
            return CachedRow.failed(error)
        return self.cache.row_of(entry, now, error=error)


def _id(key: Hashable) -> EntryId:
    return Kind.COPY, key
