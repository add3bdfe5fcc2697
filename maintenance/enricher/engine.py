"""The cache for plain keys: every read decides whether its row is worth a request, at the price that the budget sets.

    read ─▶ row in the cache, right with enough probability ─▶ hit
        └─▶ wanted ─▶ request_queue.py ─▶ source ─▶ row_cache.py ─▶ readers that wait

A hit costs a look-up in a dict and three comparisons. Everything else happens under one lock, and costs the same
however many rows there are: nothing ever walks through all keys.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from freshkeeper.maintenance.beliefs.change_rates import PRIOR_CHANGES, PRIOR_FADES
from freshkeeper.maintenance.enricher.flights import Flight, ReadOptions, Sender
from freshkeeper.maintenance.enricher.request_queue import CLOSED, MIN_TICK_MS, RequestQueue
from freshkeeper.maintenance.enricher.row import CachedRow, again, fingerprint
from freshkeeper.maintenance.enricher.row_cache import RowCache
from freshkeeper.maintenance.enricher.row_table import NOW, Entry, RowTable
from freshkeeper.maintenance.enricher.statistics import Counters, Stats
from freshkeeper.maintenance.enricher.token_bucket import PriceController, TokenBucket
from freshkeeper.maintenance.enricher.worth import Worth
from freshkeeper.maintenance.fetching.endpoint import Copy, Price

if TYPE_CHECKING:
    from freshkeeper.maintenance.enricher.shared_state import SharedState

NOTICEABLE_PRICE, NOTICEABLE_PACE = 1 / 16, 1 / 4
"""Entries are considered again when the logarithm of the price, or of the pace of reads, has moved by more."""
FIRST_PRICE, FIRST_PRICE_BEHIND = 1.0, 0.25
"""A request begins to be worth it if it makes the read right that asks for it, or, where that one gets the old row, one
of four reads to come."""
MAX_TICK_MS = 1000.0
LONGEST_AUDIT_GAP = 5.0
"""Audits are at most so many times as far apart as they are on average."""
MAX_SHARED_TICK_MS = 100.0
"""With a store, invalidations of other processes take this long at most."""
TICKS_PER_BANK = 500.0
new_row = tuple.__new__
"""Makes a CachedRow in half the time that calling the class takes."""


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

    def __post_init__(self) -> None:
        self.controller = PriceController(target=self.target, base=FIRST_PRICE if self.waits else FIRST_PRICE_BEHIND)
        self.table = RowTable(self.capacity, self.now(), self.seed)
        self.cache = RowCache(self.table, self.counters, self.shared)
        self.rows, self.rates = self.table.entries, self.table.rates
        self.queue = RequestQueue(
            self.cache,
            self.sender,
            self.bucket,
            self.controller,
            now=self.now,
            tick=self._tick,
            price=self.price,
            linger=self.linger,
            stale_if_error=self.stale_if_error,
            name=self.name,
        )
        if self.shared is not None and self.shared.price is not None:
            self.controller.base = self.shared.price
        self._worth = Worth(self.waits)
        self._epoch_price, self._epoch_pace = self.controller.price, self.table.pace
        self._audit_credit, self._audit_threshold = 0.0, self.price.paid(1, 1)
        self._rng = Random(self.seed)
        self._set_tick()

    def read(self, key: Hashable, options: ReadOptions) -> CachedRow[Any] | Flight:
        """Return a row, or the flight to wait for. Called where the quick look at `rows` was not enough."""
        with self.queue.lock:
            now = self.now()
            self._count_reads()
            # A read that comes when a tick is due is like any other; one that was due itself has an older row.
            sampled = now >= self.next_tick
            self._tick(now)
            entry = self.rows.get(key)
            if entry is None:
                entry = self.cache.adopt({key: -math.inf}, now).get(key)
            if entry is None:
                self.counters.misses += 1
                answer = self._read_missing(key, now)
                self.queue.pump(now)
                return _landed(answer)
            entry.reads += 1
            self.counters.hits += 1
            wanted, demanded = self._consider(entry, now, options, sampled)
            if not wanted:
                found: CachedRow[Any] | Flight = self.cache.row_of(entry, now)
            elif key in self.cache.adopt({key: entry.fetched}, now) and self._wait(entry, now) > 0.0:
                found = self.cache.row_of(entry, now)
            else:
                affords = key in self.queue.flights or self.queue.may_refresh(demanded)
                found = self._fetch_again(entry, now, demanded, options, affords)
                self.queue.pump(now)
                found = _landed(found)
            self._judge_answer(entry, found, now)
            return found

    def read_many(
        self, keys: Sequence[Hashable], options: ReadOptions, reads: Sequence[int] | None = None
    ) -> list[CachedRow[Any] | Flight]:
        """Return a row or a flight for each key, all decided at one instant and at one price.

        `reads` says how often each key is read (default: once for each time that it occurs). Where the budget affords
        fewer fetches than are wanted, those rows are fetched that bring most right reads.
        """
        now = self.now()
        sampled = now >= self.next_tick
        if sampled:
            with self.queue.lock:
                self._tick(now)
        plain = options.max_age is None and options.min_freshness is None
        answers: list[CachedRow[Any] | Flight | None] = []
        undecided: dict[Hashable, list[int]] = {}
        rows, epoch = self.rows, self.epoch
        prior_exposure, unannounced = self.rates.prior_exposure, self.rates.unannounced
        quick = 0
        for place, key in enumerate(keys):
            entry = rows.get(key)
            if entry is None or now >= entry.check_at or entry.epoch != epoch or not plain:
                undecided.setdefault(key, []).append(place)
                answers.append(None)
                continue
            count = 1 if reads is None else reads[place]
            entry.reads += count
            quick += count
            doubt = now - entry.doubt_from
            freshness = 1.0
            if doubt > 0.0:  # as UncertainRate.probability, without the calls
                changes = entry.changes
                scale = entry.exposure + prior_exposure * PRIOR_FADES / (PRIOR_FADES + changes)
                freshness = (1.0 + doubt * unannounced / scale) ** -(changes + PRIOR_CHANGES)
            answers.append(new_row(CachedRow, (entry.value, freshness, (now - entry.fetched) / 1000, True, None)))
        self.quick_hits += quick
        if undecided:
            counts = {key: len(places) for key, places in undecided.items()}
            if reads is not None:
                for key, places in undecided.items():
                    counts[key] = sum(reads[place] for place in places)
            found = self._decide_many(counts, now, options, sampled)
            for key, places in undecided.items():
                first = answers[places[0]] = found[key]
                for place in places[1:]:
                    answers[place] = first if isinstance(first, Flight) else again(first)
        return answers  # type: ignore[return-value]  # every place was filled

    def _decide_many(
        self, reads: dict[Hashable, int], now: float, options: ReadOptions, sampled: bool
    ) -> dict[Hashable, CachedRow[Any] | Flight]:
        """Decide about keys that are read so often each: one look into the store, one choice, one sending."""
        found: dict[Hashable, CachedRow[Any] | Flight] = {}
        stale: list[tuple[bool, float, Entry]] = []
        with self.queue.lock, self.queue.gathering():
            self._count_reads()
            self.cache.adopt({key: -math.inf for key in reads if key not in self.rows}, now)
            for key, count in reads.items():
                entry = self.rows.get(key)
                if entry is None:
                    self.counters.misses += 1
                    self.counters.hits += count - 1
                    found[key] = self._read_missing(key, now)
                    continue
                entry.reads += 1
                wanted, demanded = self._consider(entry, now, options, sampled)
                entry.reads += count - 1
                entry.judged = entry.reads
                self.counters.hits += count
                if wanted:
                    stale.append((demanded, self.cache.gain(entry, now), entry))
                else:
                    found[key] = self.cache.row_of(entry, now)
                    self._judge_answer(entry, found[key], now, count)
            adopted = self.cache.adopt({entry.key: entry.fetched for _, _, entry in stale}, now)
            affordable = self.queue.affordable_refreshes(len(stale))
            if len(stale) > affordable:
                stale.sort(key=lambda each: each[:2], reverse=True)
            for place, (demanded, _, entry) in enumerate(stale):
                if entry.key in adopted and self._wait(entry, now) > 0.0:
                    found[entry.key] = self.cache.row_of(entry, now)
                else:
                    affords = place < affordable or (demanded and self.queue.may_refresh(demanded))
                    found[entry.key] = self._fetch_again(entry, now, demanded, options, affords)
                self._judge_answer(entry, found[entry.key], now, reads[entry.key])
        return {key: _landed(answer) for key, answer in found.items()}

    def _fetch_again(
        self, entry: Entry, now: float, demanded: bool, options: ReadOptions, affords: bool
    ) -> CachedRow[Any] | Flight:
        """Fetch a row that is there, if budget and source allow; its reader waits, or gets the old row."""
        error = self.queue.why_in_backoff(entry.key, now)
        if self.queue.closed or error is not None:
            return self.queue.old_row(entry, now, error if demanded else None)
        flight = self.queue.flights.get(entry.key)
        if flight is None:
            if not affords:
                return self.queue.old_row(entry, now, self.queue.why_waiting() if demanded else None)
            flight = self.queue.enqueue(entry.key, is_miss=False)
        if not options.waits or not (self.waits or demanded):
            return self.cache.row_of(entry, now)
        flight.waiters += 1
        return flight

    def _read_missing(self, key: Hashable, now: float) -> CachedRow[Any] | Flight:
        """Fetch a row that is not there."""
        error = self.queue.why_in_backoff(key, now)
        if self.queue.closed or error is not None:
            return CachedRow.failed(CLOSED if error is None else error)
        flight = self.queue.flights.get(key)
        if flight is None:
            flight = self.queue.enqueue(key, is_miss=True)
        flight.waiters += 1
        return flight

    def put(self, key: Hashable, copy: Copy, at: float) -> None:
        """Take a row that somebody else has read at the source at this time."""
        digest = fingerprint(copy.value)
        with self.queue.lock:
            entry = self.rows.get(key)
            if entry is None or entry.fetched <= at:
                self.cache.store(key, copy, at, digest)
                self.cache.share([key])

    def invalidate(self, key: Hashable) -> None:
        """Take a row to be wrong: it is kept, and its next read fetches it."""
        with self.queue.lock:
            self._doubt(key)
            if self.shared is not None:
                self.shared.invalidate(key, self.now())

    def _doubt(self, key: Hashable) -> None:
        self.cache.doubt(key)
        flight = self.queue.flights.get(key)
        if flight is not None and flight.sent:
            flight.invalidated = True

    def may_have_changed(self, key: Hashable, at: float) -> None:
        """Take in a hint that a row may have changed."""
        with self.queue.lock:
            self.cache.hint(key, at, self.now())
            flight = self.queue.flights.get(key)
            if flight is not None and flight.sent:
                flight.hinted_at = at

    def forget(self, key: Hashable) -> None:
        """Drop a row and what was learned of it."""
        with self.queue.lock:
            self.cache.forget(key, self.now())

    def clear(self) -> None:
        """Drop all rows; what was learned of the source as a whole stays."""
        with self.queue.lock:
            self.cache.clear()
            self.queue.clear()

    def _consider(self, entry: Entry, now: float, options: ReadOptions, sampled: bool) -> tuple[bool, bool]:
        """Return whether a row is worth a fetch now, and whether this read demands one whatever it costs.

        Only a `sampled` read may be audited.
        """
        kept = self.cache.probability_right(entry, now)
        self._judge_quick_reads(entry, now)
        demanded = entry.doubt_from == -math.inf
        if options.max_age is not None:
            demanded = demanded or now - entry.fetched > options.max_age
        if options.min_freshness is not None:
            demanded = demanded or kept < options.min_freshness
        self.queue.recent.append(entry)
        wait = self._wait(entry, now)
        entry.epoch = self.epoch
        if wait <= 0.0:
            entry.check_at = NOW
            return True, demanded
        # Read rates change: look again when the key was known for half as long again.
        entry.check_at = now + min(wait, self.table.known_ms(entry) / 2)
        return demanded or (sampled and self._audit_due(entry, kept)), demanded

    def _wait(self, entry: Entry, now: float) -> float:
        """Return milliseconds during which no read should fetch the row again; 0 if this one should."""
        price = max(self.controller.price * self.queue.key_cost, 1e-9)
        row = self.rates.of_row(entry)
        return self._worth.wait(row, self.table.read_rate(entry), now - entry.doubt_from, price)

    def _judge_quick_reads(self, entry: Entry, now: float) -> None:
        """Judge the hits since the last decision about a row, and count reads with a short memory."""
        quick = entry.reads - 1 - entry.judged
        if quick > 0:
            row, doubt = self.rates.of_row(entry), now - entry.doubt_from
            finite = 0.0 < doubt < math.inf
            self._judge(quick, row.right_ms(doubt) / doubt if finite else row.probability(doubt))
        self.table.fade_reads(entry)
        entry.judged = entry.reads

    def _judge(self, reads: int, believed: float) -> None:
        """Note how right reads are believed to have been; a target follows it."""
        self.counters.judged += reads
        self.counters.believed += reads * believed
        self.controller.answered(reads, believed)

    def _judge_answer(self, entry: Entry, answer: CachedRow[Any] | Flight, now: float, reads: int = 1) -> None:
        """Note how right the answer is that these reads get: readers who wait get a fresh row."""
        fresh = isinstance(answer, Flight)
        self.counters.waited += reads if fresh else 0
        self._judge(reads, 1.0 if fresh else self.cache.probability_right(entry, now))

    def _audit_due(self, entry: Entry, kept: float) -> bool:
        if self._audit_credit < self._audit_threshold or entry.key in self.cache.audited:
            return False
        self._audit_credit -= self._audit_threshold
        # At random times, as rows may change at regular ones; the cost of an audit on average.
        self._audit_threshold = min(self._rng.expovariate(1.0), LONGEST_AUDIT_GAP) * self.price.paid(1, 1)
        self.cache.audited[entry.key] = kept
        return True

    def _tick(self, now: float) -> None:
        """Pay income in, measure the pace of reads, and set the price."""
        if now < self.next_tick:
            return
        self._count_reads()
        income = self.bucket.fill(now)
        price = self.controller.update(self.bucket, income)
        most = max(LONGEST_AUDIT_GAP * self.price.paid(1, 1), self.audit * self.bucket.capacity)
        self._audit_credit = min(self._audit_credit + self.audit * income, most)
        self.table.measure_pace(now)
        dearer, faster = math.log(price / self._epoch_price), math.log(self.table.pace / self._epoch_pace)
        if abs(dearer) > NOTICEABLE_PRICE or abs(faster) > NOTICEABLE_PACE:
            self._epoch_price, self._epoch_pace = price, self.table.pace
            self.epoch += 1
        self.next_tick = now + self._tick_ms
        if self.shared is not None:
            self.shared.price = self.controller.base
            for key in self.shared.invalidated():
                self._doubt(key)

    def _count_reads(self) -> None:
        self.table.reads = float(self.counters.hits + self.quick_hits + self.counters.misses)

    def stats(self) -> Stats:
        """Return the numbers of the cache and its budget."""
        with self.queue.lock:
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
                unchanged=count.unchanged,
                failed=count.failed,
                evicted=count.evicted,
                rows=len(self.rows),
                in_flight=len(self.queue.flights),
                available=self.bucket.level,
                price=self.controller.price,
                expected_freshness=count.believed / count.judged if count.judged else 1.0,
                audited=count.audited,
                measured_freshness=count.audit_right / count.audited if count.audited else None,
                store_away=None if self.shared is None else self.shared.why_away,
                paused=None if self.sender.ready() else self.sender.why_not(),
            )

    def set_budget(self, rate: float, capacity: float) -> None:
        """Change the budget: cost units per ms, and how many the bucket holds."""
        with self.queue.lock:
            self.bucket.fill(self.now())
            self.bucket.resize(rate, capacity)
            self.next_tick = NOW
            self._set_tick()

    def _set_tick(self) -> None:
        longest = MAX_TICK_MS if self.shared is None else MAX_SHARED_TICK_MS
        self._tick_ms = min(max(self.bucket.capacity / self.bucket.rate / TICKS_PER_BANK, MIN_TICK_MS), longest)


def _landed(answer: CachedRow[Any] | Flight) -> CachedRow[Any] | Flight:
    """Return the row of a flight that is over already, as it is where lookups run in the thread that reads."""
    return answer.future.result() if isinstance(answer, Flight) and answer.future.done() else answer
