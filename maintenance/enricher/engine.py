"""The cache for plain keys: every read decides whether its row is worth a request, at the price that the budget sets.

    read ─▶ row in the cache, right with enough probability ─▶ hit
        └─▶ wanted ─▶ queue ─▶ token bucket ─▶ request (with riders) ─▶ source ─▶ rows, rates ─▶ readers that wait

A hit costs a look-up in a dict and three comparisons. Everything else happens under one lock, and costs the same
however many rows there are: nothing ever walks through all keys.

All that is known of a row is two numbers: the rate λ at which it changes, and the time `doubt_from` from which on it
may have. The probability that it is still right is e^(−λ·(now − doubt_from)). A row is taken to be right for certain
until `expires`, so doubt begins there; a hint moves `doubt_from` into the past.
"""

import logging
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.beliefs.change_rates import ChangeRates
from freshkeeper.maintenance.beliefs.hints import HintQuality
from freshkeeper.maintenance.enricher.flights import Flight, Outcomes, ReadOptions, Sender
from freshkeeper.maintenance.enricher.row import CachedRow, fingerprint
from freshkeeper.maintenance.enricher.row_table import FIRST_GAP_MS, NOW, Entry, RowTable
from freshkeeper.maintenance.enricher.statistics import Counters, Stats
from freshkeeper.maintenance.enricher.stored_row import StoredRow, StoreError
from freshkeeper.maintenance.enricher.thresholds import PRICE_STEPS, Thresholds
from freshkeeper.maintenance.enricher.token_bucket import PriceController, TokenBucket
from freshkeeper.maintenance.fetching.backoff import KeyBackoff
from freshkeeper.maintenance.fetching.endpoint import Copy, EntryId, Price

if TYPE_CHECKING:
    from freshkeeper.maintenance.enricher.shared_state import SharedState

LOGGER = logging.getLogger("freshkeeper")
LOG_EVERY_MS = 10_000.0
MAX_COUNTED_READS = 64
"""Reads of a key are counted with a memory of about so many."""
RIDERS_PER_KEY = 8
"""So many recent reads are remembered per key of a batch; the best of them fill requests that have room."""
CHANGES_PER_GAP = 0.1
"""A row is taken to change once in ten gaps between its reads until something was learned."""
MIN_TICK_MS, MAX_TICK_MS = 1.0, 1000.0
POLL_MS = 50.0
"""Requests that the source does not take now are tried again after so long."""
CLAIM_MS = 5000.0
"""How long a process may take to fetch a key that it claimed in a shared store, before another one tries."""
CLAIM_POLL_MS = 20.0
CLOSED = "the enricher is closed"
TICKS_PER_BANK = 500.0


@dataclass(eq=False)
class KeyCache:
    """The rows of one enricher, and the decisions about them."""

    sender: Sender
    bucket: TokenBucket
    now: Callable[[], float]
    """milliseconds since the epoch"""
    price: Price = field(default_factory=Price)
    capacity: int = 100_000
    waits: bool = True
    """whether reads of rows that are not worth keeping wait for the fetch; if not, they get the old row"""
    target: float | None = None
    linger: float = 0.0
    """milliseconds that a key waits for others to share its request"""
    stale_if_error: bool = True
    audit: float = 0.0
    seed: int = 0
    name: str = "rows"
    """what logs call it"""
    shared: "SharedState | None" = None
    """the store that other processes use, too"""
    epoch: int = 0
    """changes with the price: entries of another epoch are considered again"""
    next_tick: float = NOW
    counters: Counters = field(default_factory=Counters)
    quick_hits: int = 0
    """hits that were answered without a decision; readers count them without the lock"""
    flights: dict[Hashable, Flight] = field(default_factory=dict)
    rates: ChangeRates = field(init=False)
    hints: HintQuality = field(default_factory=HintQuality)
    lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        self.controller = PriceController(target=self.target)
        self.rates = ChangeRates(FIRST_GAP_MS / CHANGES_PER_GAP)
        self._thresholds = Thresholds(self.waits)
        self._epoch_price = self.controller.price
        self.table = RowTable(self.capacity, self.now(), self.seed)
        self.rows = self.table.entries
        self._misses: deque[Flight] = deque()
        self._refreshes: deque[Flight] = deque()
        self._recent: deque[Entry] = deque(maxlen=max(RIDERS_PER_KEY * self.price.batch, 1))
        self._backoff = KeyBackoff()
        self._errors: OrderedDict[Hashable, str] = OrderedDict()
        self._hinted: dict[Hashable, float] = {}
        self._audited: dict[Hashable, float] = {}
        self._started = self.now()
        self._fill = 1.0
        self._audit_credit = 0.0
        self._elsewhere: dict[Hashable, Flight] = {}
        self._linger_until: float | None = None
        self._gathering = 0
        self._next_log, self._unlogged_failures = NOW, 0
        self._closed = False
        self._tick_ms = min(max(self.bucket.capacity / self.bucket.rate / TICKS_PER_BANK, MIN_TICK_MS), MAX_TICK_MS)

    # ---- reading

    def read(self, key: Hashable, options: ReadOptions) -> CachedRow[Any] | Flight:
        """Return a row, or the flight to wait for. Called where the quick look at `rows` was not enough."""
        with self.lock:
            now = self.now()
            self._tick(now)
            entry = self.rows.get(key)
            if entry is None:
                entry = self._adopt(key, -math.inf, now)
            if entry is None:
                self.counters.misses += 1
                return self._read_missing(key, now)
            entry.reads += 1
            self.counters.hits += 1
            wanted, demanded = self._consider(entry, now, options)
            found = self._fetch_again(entry, now, demanded, options) if wanted else self.row_of(entry, now)
            answered_fresh = isinstance(found, Flight)
            self._judge(1, 1.0 if answered_fresh else self._probability_right(entry, now))
            self.counters.waited += answered_fresh
            return found

    def _fetch_again(self, entry: Entry, now: float, demanded: bool, options: ReadOptions) -> CachedRow[Any] | Flight:
        """Fetch a row that is there, if budget and source allow; its reader waits, or gets the old row."""
        error = self._why_in_backoff(entry.key, now)
        if self._closed or error is not None:
            return self._old_row(entry, now, error if demanded else None)
        if self._adopt(entry.key, entry.fetched, now) is not None and now < self._stale_at(entry, now):
            return self.row_of(entry, now)
        old = self.row_of(entry, now)
        flight = self.flights.get(entry.key)
        if flight is None:
            if not self._may_refresh(demanded):
                return old
            flight = self._enqueue(entry.key, self._refreshes)
            self.pump(now)
        if not options.waits or not (self.waits or demanded):
            return old
        if flight.future.done():
            return flight.future.result()
        flight.waiters += 1
        return flight

    def _read_missing(self, key: Hashable, now: float) -> CachedRow[Any] | Flight:
        """Fetch a row that is not there."""
        error = self._why_in_backoff(key, now)
        if self._closed or error is not None:
            return CachedRow.failed(CLOSED if error is None else error)
        flight = self.flights.get(key)
        if flight is None:
            flight = self._enqueue(key, self._misses)
            self.pump(now)
        if flight.future.done():
            return flight.future.result()
        flight.waiters += 1
        return flight

    def _why_in_backoff(self, key: Hashable, now: float) -> str | None:
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
            entry = self.rows.get(flight.key)
            error = f"no answer within {waited_s:g} s: {why}"
            return CachedRow.failed(error) if entry is None else self.row_of(entry, now, error=error)

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
            self.counters.requests += paid
            return paid

    def set_budget(self, rate: float, capacity: float) -> None:
        """Change the budget: cost units per ms, and how many the bucket holds."""
        with self.lock:
            self.bucket.fill(self.now())
            self.bucket.resize(rate, capacity)
            self.next_tick = NOW
            self._tick_ms = min(max(capacity / rate / TICKS_PER_BANK, MIN_TICK_MS), MAX_TICK_MS)

    def close(self) -> None:
        """Send nothing more; readers that wait get an error."""
        with self.lock:
            self._closed = True
            self._drop_unsent(CLOSED)
            waiting = list(self.flights.values())
            self.flights.clear()
            if self.shared is not None:
                self.shared.flush(self.now())
                self.shared.store.close()
        for flight in waiting:
            if not flight.future.done():
                flight.future.set_result(CachedRow.failed(CLOSED))

    def after_fork(self) -> None:
        """Forget requests under way: they were the parent's."""
        self.flights.clear()
        self._misses.clear()
        self._refreshes.clear()
        self._elsewhere.clear()
        self._linger_until = None
        self._gathering = 0
        if self.shared is not None:
            self.shared.store.after_fork()

    def stats(self) -> Stats:
        """Return the numbers of the cache and its budget."""
        with self.lock:
            self._tick(self.now())
            count = self.counters
            return Stats(
                hits=count.hits + self.quick_hits,
                misses=count.misses,
                waited=count.waited,
                requests=count.requests,
                spent=self.bucket.spent,
                refreshed=count.refreshed,
                changed=count.changed,
                failed=count.failed,
                evicted=count.evicted,
                rows=len(self.rows),
                in_flight=len(self.flights),
                available=self.bucket.level,
                price=self.controller.price,
                expected_freshness=count.believed / count.judged if count.judged else 1.0,
                audited=count.audited,
                measured_freshness=count.audit_right / count.audited if count.audited else None,
                paused=None if self.sender.ready() else self.sender.why_not(),
            )

    def row_of(self, entry: Entry, now: float, hit: bool = True, error: str | None = None) -> CachedRow[Any]:
        """Return what is known of a row now."""
        return CachedRow(entry.value, self._probability_right(entry, now), (now - entry.fetched) / 1000, hit, error)

    def _probability_right(self, entry: Entry, now: float) -> float:
        """Return the probability that a row is still right."""
        doubt = now - entry.doubt_from
        return math.exp(-self.rates.rate(entry) * doubt) if doubt > 0 else 1.0

    def put(self, key: Hashable, copy: Copy, at: float) -> None:
        """Take a row that somebody else has read at the source at this time."""
        with self.lock:
            entry = self.rows.get(key)
            if entry is None or entry.fetched <= at:
                self._store(key, copy, at)
                self._share([key])

    def invalidate(self, key: Hashable) -> None:
        """Take a row to be wrong: it is kept, and its next read fetches it."""
        with self.lock:
            entry = self.rows.get(key)
            if entry is not None:
                entry.doubt_from = -math.inf
                entry.check_at = NOW
            if self.shared is not None:
                self.shared.remove(key, self.now())

    def may_have_changed(self, key: Hashable, at: float) -> None:
        """Take in a hint: as likely as hints of this source were right, the row has changed."""
        with self.lock:
            entry = self.rows.get(key)
            if entry is None or entry.fetched > at:
                return
            self._hinted.setdefault(key, self.row_of(entry, self.now()).freshness)
            doubt_from = min(entry.doubt_from, self.now())
            entry.doubt_from = doubt_from + math.log(1.0 - min(self.hints.precision, 0.999)) / self.rates.rate(entry)
            entry.check_at = NOW

    def forget(self, key: Hashable) -> None:
        """Drop a row and what was learned of it."""
        with self.lock:
            self.table.remove(key, self.now())
            self._hinted.pop(key, None)
            self._audited.pop(key, None)
            if self.shared is not None:
                self.shared.remove(key, self.now())

    def clear(self) -> None:
        """Drop all rows; what was learned of the source as a whole stays."""
        with self.lock:
            for rows in (self.table, self._recent, self._errors, self._hinted, self._audited):
                rows.clear()

    # ---- deciding

    def _consider(self, entry: Entry, now: float, options: ReadOptions) -> tuple[bool, bool]:
        """Return whether a row is worth a fetch now, and whether this read demands one whatever it costs."""
        kept = self._probability_right(entry, now)
        self._judge_quick_reads(entry, now)
        demanded = entry.doubt_from == -math.inf
        if options.max_age is not None:
            demanded = demanded or now - entry.fetched > options.max_age
        if options.min_freshness is not None:
            demanded = demanded or kept < options.min_freshness
        self._recent.append(entry)
        stale_at = self._stale_at(entry, now)
        entry.epoch = self.epoch
        if now >= stale_at:
            entry.check_at = NOW
            return True, demanded
        # Read rates change: look again when half of the time is over, or when the key was known for half as long again.
        known = now - entry.since
        entry.check_at = min(now + (stale_at - now) / 2, now + known / 2 + self.table.gap(now) / 4)
        return demanded or self._audit_due(entry, kept), demanded

    def _stale_at(self, entry: Entry, now: float) -> float:
        """Return the time from which on a read should fetch the row again."""
        rate = self.rates.rate(entry)
        if entry.doubt_from == -math.inf:
            return NOW
        price = self.controller.price * self._key_cost
        threshold = self._thresholds.best(self.table.read_rate(entry, now) / rate, max(price, 1e-9))
        return entry.doubt_from + threshold / rate

    @property
    def _key_cost(self) -> float:
        """The cost of one key in a request as full as they have been of late."""
        return self.price.paid(1, 1) if self.price.batch == 1 else self.price.paid(1, round(self._fill)) / self._fill

    def _judge_quick_reads(self, entry: Entry, now: float) -> None:
        """Judge the hits since the last decision about a row, and count reads with a short memory."""
        quick = entry.reads - 1 - entry.judged
        if quick > 0:
            x = self.rates.rate(entry) * max(now - entry.doubt_from, 0.0)
            self._judge(quick, (1.0 - math.exp(-x)) / x if x > 1e-6 else 1.0)  # the mean of e^-x since doubt began
        if entry.reads > MAX_COUNTED_READS:
            entry.reads //= 2
            entry.since = (entry.since + now) / 2
        entry.judged = entry.reads

    def _judge(self, reads: int, believed: float) -> None:
        """Note how right reads are believed to have been; a target follows it."""
        self.counters.judged += reads
        self.counters.believed += reads * believed
        self.controller.answered(reads, believed)

    def _may_refresh(self, demanded: bool) -> bool:
        """Return whether the budget has a request for a refresh."""
        if self._linger_until is not None and len(self._misses) + len(self._refreshes) < self.price.batch:
            return True  # joins a request that is about to be sent
        cost = self.price.paid(1, 1)
        return self.bucket.affords(cost, miss=demanded) and self.sender.ready()

    def _audit_due(self, entry: Entry, kept: float) -> bool:
        cost = self.price.paid(1, 1)
        if self._audit_credit < cost or entry.key in self._audited:
            return False
        self._audit_credit -= cost
        self._audited[entry.key] = kept
        return True

    # ---- sending

    def _enqueue(self, key: Hashable, queue: "deque[Flight]") -> Flight:
        flight = self.flights[key] = Flight(key, is_miss=queue is self._misses)
        queue.append(flight)
        return flight

    def pump(self, now: float | None = None, flush: bool = False) -> None:
        """Send what waits, as far as the budget, the source and the company of other keys allow."""
        with self.lock:
            if self._gathering or self._closed:
                return
            now = self.now() if now is None else now
            self._tick(now)
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

    def _send_all(self, now: float, flush: bool) -> float:
        """Send requests until nothing is left or something has to be waited for; return for how many ms."""
        while self._misses or self._refreshes:
            wait = self._company(now) if self.linger and not flush else 0.0
            if wait > 0:
                return wait
            if not self.sender.ready():
                return POLL_MS
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
            self.counters.requests += 1
            self._fill += 0.05 * (len(keys) - self._fill)
            proven = not self.rows or any(key in self.rows for key in keys)
            self.sender.send(keys, partial(self._received, keys, now), proven)
        return 0.0

    def _claimed(self, keys: list[Hashable], now: float) -> list[Hashable]:
        """Return the keys that no other process is fetching; the rows of the others are awaited from the store."""
        if self.shared is None or not self.shared.available(now):
            return keys
        try:
            granted = self.shared.store.claim(keys, now + CLAIM_MS, now)
        except (StoreError, TypeError) as error:
            if isinstance(error, StoreError):
                self.shared.fail(error, now)
            return keys
        for key in keys:
            flight = self.flights.get(key)
            if key not in granted and flight is not None:
                flight.elsewhere_until = now + CLAIM_MS
                self._elsewhere[key] = flight
        return granted

    def _look_elsewhere(self, now: float) -> None:
        """Answer the readers of rows that another process has fetched; fetch those here that it did not in time."""
        for key, flight in list(self._elsewhere.items()):
            entry = self.rows.get(key)
            found = self._adopt(key, -math.inf if entry is None else entry.fetched, now)
            if found is None and now < flight.elsewhere_until and self.shared and self.shared.available(now):
                continue
            del self._elsewhere[key]
            if found is not None:
                self.flights.pop(key, None)
                flight.future.set_result(self.row_of(found, now, hit=False))
            else:
                flight.sent = False
                (self._misses if entry is None else self._refreshes).append(flight)

    def _adopt(self, key: Hashable, newer_than: float, now: float) -> Entry | None:
        """Take a newer copy of a row from the store, with what other processes have learned of it."""
        if self.shared is None:
            return None
        stored = self.shared.load(key, newer_than, now)
        if stored is None:
            return None
        entry = self.rows.get(key)
        if entry is None:
            entry = self._insert(key, now)
            self.rates.add(stored.changes, stored.exposure)
            entry.reads, entry.since = stored.reads, stored.since
        entry.value, entry.fetched, entry.doubt_from = stored.value, stored.fetched, stored.doubt_from
        entry.changes, entry.exposure = stored.changes, stored.exposure
        entry.fingerprint = fingerprint(stored.value)
        entry.check_at = NOW
        return entry

    def _share(self, keys: Sequence[Hashable]) -> None:
        """Let other processes have these rows."""
        if self.shared is None:
            return
        now = self.now()
        for key in keys:
            entry = self.rows.get(key)
            if entry is not None:
                self.shared.keep(key, _stored(entry), now)
        self.shared.flush(now)

    def _company(self, now: float) -> float:
        """Return for how many ms the keys that wait should wait for more keys to share their request."""
        if len(self._misses) + len(self._refreshes) >= self.price.batch:
            return 0.0
        if self._linger_until is None:
            self._linger_until = now + self.linger
        return self._linger_until - now

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
                entry = self.rows.get(flight.key)
                row = CachedRow.failed(error or self.why_waiting()) if entry is None else self.row_of(entry, self.now())
                flight.future.set_result(row)

    def why_waiting(self) -> str:
        """Return in words what requests wait for."""
        if not self.sender.ready():
            return self.sender.why_not()
        seconds = self.bucket.wait(self.price.paid(1, 1)) / 1000
        return f"the budget is spent; the next request can be paid in {seconds:.1f} s"

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
        if keys and room > 0 and self._recent:
            keys += self._riders(room)
        return keys

    def _put_back(self, keys: Sequence[Hashable]) -> None:
        """Return keys to the head of their queue; riders go."""
        for key in reversed(keys):
            flight = self.flights.get(key)
            if flight is None:
                continue
            flight.sent = False
            (self._refreshes if key in self.rows else self._misses).appendleft(flight)

    def _riders(self, room: int) -> list[Hashable]:
        """Return the rows worth most among those that were read of late: they nearly ride for free."""
        now, worth = self.now(), {}
        for entry in self._recent:
            key = entry.key
            if (
                key in worth
                or key in self.flights
                or self.rows.get(key) is not entry
                or self._backoff.has_failed(_id(key))
            ):
                continue
            doubt = 1.0 - self._probability_right(entry, now)
            gain = doubt * self.table.read_rate(entry, now) / self.rates.rate(entry)
            if gain > self.controller.price * self.price.per_key and doubt > 0.01:
                worth[key] = gain
        best = sorted(worth, key=worth.__getitem__, reverse=True)[:room]
        for key in best:
            self.flights[key] = Flight(key, is_miss=False, sent=True)
        return best

    # ---- receiving

    def _received(self, keys: Sequence[Hashable], sent_at: float, outcomes: Outcomes) -> None:
        """Take the reply to a request: store rows, learn, and answer those who wait."""
        answered: list[tuple[Flight, CachedRow[Any]]] = []
        with self.lock:
            now = self.now()
            whole = len(keys) > 1 and all(outcomes[key].error is not None for key in keys)
            again: list[Flight] = []
            for key in keys:
                copy = outcomes[key]
                flight = self.flights.pop(key, None)
                if copy.error is not None:
                    if whole and flight is not None:
                        again.append(flight)
                        continue
                    row = self._failed(key, copy.error, now, alone=len(keys) == 1)
                else:
                    self._backoff.answered([_id(key)])
                    entry = self._store(key, copy, sent_at)
                    row = self.row_of(entry, now, hit=False)
                if flight is not None:
                    answered.append((flight, row))
            self._halve(again, keys)
            self._share([key for key in keys if outcomes[key].error is None])
            self._release(keys, now)
            self.pump(now)
        for flight, row in answered:
            if not flight.future.done():
                flight.future.set_result(row)

    def _release(self, keys: Sequence[Hashable], now: float) -> None:
        """Let other processes fetch these keys."""
        if self.shared is None or not self.shared.available(now):
            return
        try:
            self.shared.store.release(keys)
        except TypeError:
            return
        except StoreError as error:
            self.shared.fail(error, now)

    def _halve(self, again: Sequence[Flight], keys: Sequence[Hashable]) -> None:
        """Send the keys of a failed request again in halves: whose fault it was is not known yet."""
        if again:
            self._backoff.request_failed([_id(key) for key in keys])
        for flight in again:
            flight.sent = False
            self.flights[flight.key] = flight
            (self._refreshes if flight.key in self.rows else self._misses).append(flight)

    def _failed(self, key: Hashable, error: str, now: float, alone: bool) -> CachedRow[Any]:
        """Note the failure of a key: it is tried again ever more seldom, and its old row stays."""
        self.counters.failed += 1
        self._log_failure(key, error, now)
        self._backoff.advance(int((now - self._started) / 1000))
        if alone:
            self._backoff.request_failed([_id(key)])
        else:
            self._backoff.key_failed(_id(key))
        self._errors[key] = error
        self._errors.move_to_end(key)
        while len(self._errors) > self.capacity:
            self._errors.popitem(last=False)
        entry = self.rows.get(key)
        return CachedRow.failed(error) if entry is None else self._old_row(entry, now, error)

    def _log_failure(self, key: Hashable, error: str, now: float) -> None:
        """Log failures, the first at once and then one line for all of a while."""
        self._unlogged_failures += 1
        if now >= self._next_log:
            others = f" ({self._unlogged_failures - 1} more failures since)" if self._unlogged_failures > 1 else ""
            LOGGER.warning("%s: %r could not be fetched: %s%s", self.name, key, error, others)
            self._next_log = now + LOG_EVERY_MS
            self._unlogged_failures = 0

    def _old_row(self, entry: Entry, now: float, error: str | None) -> CachedRow[Any]:
        if error is not None and not self.stale_if_error:
            return CachedRow.failed(error)
        return self.row_of(entry, now, error=error)

    def _store(self, key: Hashable, copy: Copy, at: float) -> Entry:
        """Put a fresh row in the place of the old one, and learn from the difference."""
        entry = self.rows.get(key)
        modified = float(copy.modified) if copy.modified != UNKNOWN else None
        if entry is None:
            entry = self._insert(key, at)
            if modified is not None:
                self.rates.learn_date(entry, math.inf, at - modified)  # the row was right all that time
        else:
            changed = entry.fingerprint != fingerprint(copy.value)
            age = at - entry.fetched
            self._learn(entry, changed)
            if modified is not None and modified <= at:
                self.rates.learn_date(entry, age, at - modified)
            else:
                self.rates.learn(entry, age, changed)
            self.counters.refreshed += 1
            self.counters.changed += changed
        entry.value = copy.value
        entry.fingerprint = fingerprint(copy.value)
        entry.fetched = entry.doubt_from = at
        if copy.expires != UNKNOWN and copy.expires > at:
            entry.doubt_from = float(copy.expires)
        entry.check_at = NOW
        return entry

    def _learn(self, entry: Entry, changed: bool) -> None:
        """Learn how good hints are, and compare what an audit believed with what it found."""
        hinted = self._hinted.pop(entry.key, None)
        if hinted is not None:
            self.hints.learn(True, changed, 1.0 - hinted)
        elif changed:
            self.hints.learn(False, changed, 0.0)
        believed = self._audited.pop(entry.key, None)
        if believed is not None:
            self.counters.audited += 1
            self.counters.audit_believed += believed
            self.counters.audit_right += not changed

    def _insert(self, key: Hashable, now: float) -> Entry:
        entry, evicted = self.table.insert(key, now)
        self.counters.evicted += len(evicted)
        for old in evicted:
            self._hinted.pop(old, None)
            self._audited.pop(old, None)
        return entry

    def _tick(self, now: float) -> None:
        """Pay income in, and set the price; entries are considered again when it has moved by a cell of the grid."""
        if now < self.next_tick:
            return
        income = self.bucket.fill(now)
        price = self.controller.update(self.bucket, income)
        self._audit_credit = min(self._audit_credit + self.audit * income, max(1.0, self.audit * self.bucket.capacity))
        if abs(math.log(price / self._epoch_price)) > 0.5 / PRICE_STEPS:
            self._epoch_price = price
            self.epoch += 1
        self.next_tick = now + self._tick_ms
        self.table.reads = float(self.counters.hits + self.quick_hits + self.counters.misses)


def _id(key: Hashable) -> EntryId:
    return Kind.COPY, key


def _stored(entry: Entry) -> StoredRow:
    return StoredRow(
        value=entry.value,
        fetched=entry.fetched,
        doubt_from=entry.doubt_from,
        changes=entry.changes,
        exposure=entry.exposure,
        reads=entry.reads,
        since=entry.since,
    )
