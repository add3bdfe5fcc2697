"""Rows by key for threads: a cache that decides at each read whether a row is worth a request."""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Self, TypeVar, cast

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.beliefs.change_rates import PRIOR_CHANGES, PRIOR_FADES
from freshkeeper.maintenance.enricher.base_enricher import DEFAULT_READ, BaseEnricher, Column, _checked
from freshkeeper.maintenance.enricher.engine import new_row
from freshkeeper.maintenance.enricher.expansions import EntryRows, combined
from freshkeeper.maintenance.enricher.flights import Flight, ReadOptions
from freshkeeper.maintenance.enricher.joining import KeyOf, key_reader, no_key
from freshkeeper.maintenance.enricher.lookup_requests import (
    InlineSender,
    Lookup,
    LookupSender,
    ThreadSender,
    is_asynchronous,
)
from freshkeeper.maintenance.enricher.row import CachedRow, K, V, again
from freshkeeper.maintenance.enricher.settings import Seconds
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter

T = TypeVar("T")


class Enricher(BaseEnricher[K, V]):
    """Rows of somebody else's table or service by key, as right as a budget of requests allows.

    Every read decides whether its row is worth a request at the price that the budget sets at the moment; any number of
    threads may read. Durations are seconds, timedeltas, or text such as "500ms".

    lookup
        a function from a list of keys to a mapping of rows; a key that is not in it has no row. A row may be a
        `Row(value, modified=, expires=)`. It may raise, and `RetryAfter(seconds)` says when to try again.
    budget
        requests in a period: "5/s", "0.5/s", "300/min", "20000/day"
    batch
        how many keys a request may hold
    bank
        how long unspent budget keeps (default: the budget's own unit, at least a minute)
    rate_limit
        a limit of the source, beside the budget: "10/s"
    on_stale
        "wait": the read of a row that is not worth keeping waits for the fetch; "serve": it gets the old row meanwhile
    on_miss
        "wait": the read of a key that is not there waits; "null": it gets no row; "error": it raises RowError. The key
        is fetched in any case
    max_wait
        how long a read waits at most; it then gets the old row, or a row with an error
    stale_if_error
        whether an old row is good enough where its fetch failed; it is marked by its error
    target
        the share of reads that is to be right, as 0.95: the budget is then the most that is spent for it
    price
        what a request costs, where that is not 1
    capacity
        how many rows are kept; those read least go
    parallel
        how many requests may be under way
    expand
        from a key to the keys of its entries, for `get_entries`
    audit
        the share of the budget that measures how right the answers are
    journal
        a directory for what the enricher did, which `freshkeeper report` and `check` read; an `EnricherJournal` says
        how much is kept
    metrics
        where Prometheus finds its numbers: ":9100"
    background
        whether requests run in threads; without, they run in the thread that reads, and nothing waits for the budget
    clock
        milliseconds since the epoch, for tests

    >>> from freshkeeper import Enricher
    >>> prices = {"pen": 2, "ink": 7}
    >>> with Enricher(lambda keys: {key: prices[key] for key in keys}, budget="5/s") as enricher:
    ...     for event, row in enricher.join([{"product": "pen"}, {"product": "pen"}], key="product"):
    ...         print(event["product"], row.value, row.hit)
    pen 2 False
    pen 2 True
    """

    def get(
        self,
        key: K,
        *,
        max_age: Seconds | None = None,
        min_freshness: float | None = None,
        max_wait: Seconds | None = None,
    ) -> CachedRow[V]:
        """Return the row of a key.

        `max_age` and `min_freshness` demand a row that is young or right enough, whatever a request costs; `max_wait`
        is how long this read waits.
        """
        if max_age is None and min_freshness is None:
            entry = self._rows.get(key)
            if entry is not None:
                now, engine = self._now(), self._engine
                if now < entry.check_at and now < engine.next_tick and entry.epoch == engine.epoch:
                    entry.reads += 1  # two threads at once may count as one
                    engine.quick_hits += 1
                    doubt = now - entry.doubt_from
                    freshness = 1.0
                    if doubt > 0.0:  # as UncertainRate.probability, without the calls
                        rates = engine.rates
                        changes = entry.changes
                        scale = entry.exposure + rates.prior_exposure * PRIOR_FADES / (PRIOR_FADES + changes)
                        freshness = (1.0 + doubt * rates.unannounced / scale) ** -(changes + PRIOR_CHANGES)
                    return new_row(CachedRow, (entry.value, freshness, (now - entry.fetched) / 1000, True, None))
            if max_wait is None:
                return self._read(key, DEFAULT_READ, None)
        return self._read(key, self._options(max_age, min_freshness, max_wait), max_wait)

    def get_many(
        self, keys: Iterable[K] | Column, *, max_wait: Seconds | None = None, reads: Sequence[int] | None = None
    ) -> list[CachedRow[V]]:
        """Return the rows of many keys, in their order: one decision and one answer for all of them.

        Arrays of numpy and columns of pyarrow, pandas and polars are taken as they are. Keys that have to be fetched
        share requests; where the budget affords fewer than are wanted, it goes where most reads become right.
        `max_wait` is for all of them together; `reads` says how often each key is read, where keys that repeat are
        given once. `values, freshness, *rest = zip(*enricher.get_many(keys))` are columns.
        """
        options, until = self._options(None, None, max_wait), time.monotonic() + self._wait_s(max_wait)
        rows: list[CachedRow[V]] = []
        fetched: dict[K, CachedRow[V]] = {}
        for key, found in self._begin_many(keys, options, reads):
            if not isinstance(found, Flight):
                rows.append(found)
            elif key in fetched:
                rows.append(again(fetched[key]))
            else:
                fetched[key] = self._wait(found, max(0.0, until - time.monotonic()))
                rows.append(fetched[key])
        return rows

    def get_entries(self, key: Any) -> EntryRows:
        """Return the rows of all entries that `expand` says a key has; what it says is kept until `forget(key)`."""
        if self._expansions is None:
            raise ConfigError("get_entries needs expand=...: a function from a key to the keys of its entries")
        entries = self._expansions.of(key, self._wait_s(None))
        return combined(entries, () if isinstance(entries, str) else self.get_many(cast("tuple[K, ...]", entries)))

    def join(self, events: Iterable[T], key: KeyOf, *, ahead: int | None = None) -> Iterator[tuple[T, CachedRow[V]]]:
        """Yield every event with the row of its key, which is a field of the event or what a function says.

        `ahead` events are read before the first is answered, so that their keys share requests (default: a few for
        lists, and none for streams, whose next event may take long to come).
        """
        key_of = key_reader(key)
        if ahead is None:
            ahead = max(self.settings.pricing.batch, self.settings.parallel) if isinstance(events, Sequence) else 1
        source = iter(events)
        while chunk := list(islice(source, max(1, ahead))):
            keys = []
            for event in chunk:
                try:
                    keys.append(_checked(key_of(event)))
                except Exception as error:
                    raise no_key(event, error) from error
            yield from zip(chunk, self.get_many(keys) if len(keys) > 1 else map(self.get, keys), strict=True)

    def close(self) -> None:
        """Send no more requests; rows in the cache can still be read."""
        self._stop()
        if self._metrics is not None:
            self._metrics.close(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _make_sender(self, lookup: Lookup[K, V], limiter: RateLimiter) -> LookupSender:
        if is_asynchronous(lookup):
            raise ConfigError("lookup is a coroutine function: use AsyncEnricher, which awaits it")
        name, parallel = self.name, self.settings.parallel
        if not self._background:
            return InlineSender(lookup, limiter, parallel, name=name)
        return ThreadSender(lookup, limiter, parallel, name=name, pump=lambda: self._engine.queue.pump())

    def _read(self, key: K, options: ReadOptions, max_wait: Seconds | None) -> CachedRow[V]:
        found = self._begin(key, options)
        return self._wait(found, self._wait_s(max_wait)) if isinstance(found, Flight) else found

    def _begin(self, key: K, options: ReadOptions) -> CachedRow[V] | Flight:
        """Begin a read: return the row, or the flight to wait for."""
        return self._admit(self._engine.read(_checked(key), options), key)

    def _wait(self, flight: Flight, wait_s: float) -> CachedRow[V]:
        try:
            row: CachedRow[V] = flight.future.result(wait_s)
        except TimeoutError:
            return self._unanswered(flight, wait_s)
        return row

    def _after_fork(self) -> None:
        super()._after_fork()
        if isinstance(self._sender, ThreadSender):
            self._sender.restart()
