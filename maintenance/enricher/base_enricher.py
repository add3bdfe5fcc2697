"""The common part of `Enricher` and `AsyncEnricher`: settings, the engine, and all calls that never wait."""

import os
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.enricher.engine import KeyCache
from freshkeeper.maintenance.enricher.expansions import Expansions
from freshkeeper.maintenance.enricher.flights import Flight, ReadOptions
from freshkeeper.maintenance.enricher.lookup_requests import Lookup, LookupSender
from freshkeeper.maintenance.enricher.row import CachedRow, K, Row, RowError, V
from freshkeeper.maintenance.enricher.settings import EnricherSettings, OnMiss, OnStale, Seconds, milliseconds
from freshkeeper.maintenance.enricher.statistics import Stats
from freshkeeper.maintenance.enricher.token_bucket import TokenBucket
from freshkeeper.maintenance.fetching.endpoint import Copy, Price
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter

if TYPE_CHECKING:
    from freshkeeper.maintenance.enricher.enricher_journal import EnricherJournal, JournalWriter
    from freshkeeper.maintenance.enricher.exposition import MetricsPort
    from freshkeeper.maintenance.enricher.shared_state import SharedState
    from freshkeeper.maintenance.enricher.stores import RowStore


class Column(Protocol):
    """A column of pyarrow."""

    def to_pylist(self) -> list[Any]:
        """Return the values."""
        ...


LINGER_MS = 2.0
"""Keys that are wanted within so long share a request, where a request may hold several."""
INITIAL_FILL = 0.5
"""The part of the bucket that is full when an enricher begins."""
DEFAULT_READ = ReadOptions()
_LIVE: "weakref.WeakSet[BaseEnricher[Any, Any]]" = weakref.WeakSet()


def _steady_clock() -> Callable[[], float]:
    """Return a clock in ms since the epoch that nobody sets, and that goes on while the machine sleeps."""
    source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    offset = (time.time() - time.clock_gettime(source)) * 1000
    read = time.clock_gettime
    return lambda: read(source) * 1000 + offset


class BaseEnricher(ABC, Generic[K, V]):
    """An enricher without the calls that wait."""

    def __init__(
        self,
        lookup: "Lookup[K, V]",
        budget: str,
        *,
        batch: int = 1,
        bank: Seconds | None = None,
        rate_limit: str | None = None,
        on_stale: OnStale = "wait",
        on_miss: OnMiss = "wait",
        max_wait: Seconds = 10.0,
        stale_if_error: bool = True,
        target: float | None = None,
        price: Price | None = None,
        capacity: int = 100_000,
        parallel: int = 8,
        expand: Callable[[Any], Any] | None = None,
        audit: float = 0.0,
        store: "str | Path | RowStore | None" = None,
        state: str | Path | None = None,
        name: str = "rows",
        journal: "str | Path | EnricherJournal | None" = None,
        metrics: str | None = None,
        background: bool = True,
        clock: Callable[[], float] | None = None,
        seed: int = 0,
    ) -> None:
        self._arguments = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        if not callable(lookup):
            raise ConfigError(f"lookup={lookup!r}: pass a function from a list of keys to a mapping of rows")
        self.settings = EnricherSettings(
            budget=budget, bank=bank, rate_limit=rate_limit, target=target, batch=batch, price=price, on_stale=on_stale,
            on_miss=on_miss, max_wait=max_wait, stale_if_error=stale_if_error, capacity=capacity, parallel=parallel,
            audit=audit,
        )  # fmt: skip
        self.name = name
        self._now = clock or _steady_clock()
        self._background = background
        self._max_wait_ms = self.settings.max_wait_ms
        self._closed = False
        now = self._now()
        bank_size = self.settings.bucket_capacity
        initial = min(max(INITIAL_FILL * bank_size, self.settings.pricing.paid(1, 1)), bank_size)
        bucket = TokenBucket(self.settings.rate.per_ms, bank_size, initial, now)
        shared = self._open_store(store, state)
        if shared is not None:
            bucket = shared.open_bucket(bucket)
        self._sender = self._make_sender(lookup, RateLimiter(self.settings.limits(), clock=lambda: self._now() / 1000))
        self._sender.learned_rate.ceiling = self.settings.rate.per_ms * 1000 / self.settings.pricing.paid(1, 1)
        self._engine = KeyCache(
            self._sender,
            bucket,
            self._now,
            price=self.settings.pricing,
            capacity=capacity,
            waits=on_stale == "wait",
            target=target,
            linger=LINGER_MS if self.settings.pricing.batch > 1 and background else 0.0,
            stale_if_error=stale_if_error,
            audit=audit,
            seed=seed,
            name=name,
            shared=shared,
        )
        self._rows = self._engine.rows
        self._expansions = None if expand is None else Expansions(expand, self._pay, capacity)
        self._metrics = None if metrics is None else self._serve_metrics(metrics)
        self._journal = None if journal is None else self._open_journal(journal)
        self._engine.queue.journal = self._journal
        _LIVE.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings; rows do not travel."""
        return partial(type(self), **self._arguments), ()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __dir__(self) -> Iterator[str]:
        """Hide internals from completion."""
        return (name for name in super().__dir__() if not name.startswith("_"))

    @property
    def metrics_port(self) -> int | None:
        """The port at which metrics are served, if they are."""
        return None if self._metrics is None else self._metrics.port

    def put(self, key: K, row: "V | Row[V]", at: float | None = None) -> None:
        """Store a row that was read at the source elsewhere, `at` seconds since the epoch (default: now)."""
        when = self._now() if at is None else at * 1000
        copy = row.as_copy() if isinstance(row, Row) else Copy(row)
        self._engine.put(_checked(key), copy, when)

    def invalidate(self, key: K) -> None:
        """Take a row to be wrong: it is kept for emergencies, and its next read fetches it."""
        self._engine.invalidate(key)

    def may_have_changed(self, key: K, at: float | None = None) -> None:
        """Take in a hint that a row may have changed, from a change feed or a webhook.

        How often hints were right is learned from the fetches that follow, so a false alarm costs little. `at` is when
        the change may have happened, in seconds since the epoch (default: now).
        """
        self._engine.may_have_changed(key, self._now() if at is None else at * 1000)

    def forget(self, key: K) -> None:
        """Drop a row, and what was learned of it; its next read is a miss."""
        self._engine.forget(key)
        if self._expansions is not None:
            self._expansions.forget(key)

    def clear(self) -> None:
        """Drop all rows."""
        self._engine.clear()

    def stats(self) -> Stats:
        """Return what the enricher has done so far, and how the budget stands."""
        return self._engine.stats()

    def set_budget(self, budget: str, bank: Seconds | None = None) -> None:
        """Change the budget while the enricher runs."""
        self._arguments |= {"budget": budget, "bank": bank}
        settings = EnricherSettings(**{**vars(self.settings), "budget": budget, "bank": bank})
        self.settings = settings
        self._engine.set_budget(settings.rate.per_ms, settings.bucket_capacity)

    def _serve_metrics(self, address: str) -> "MetricsPort":
        from freshkeeper.maintenance.enricher.exposition import MetricsPort  # most enrichers have no port

        return MetricsPort.open(address, self)

    def _open_journal(self, journal: "str | Path | EnricherJournal") -> "JournalWriter":
        from freshkeeper.maintenance.enricher.enricher_journal import EnricherJournal, JournalWriter

        settings = journal if isinstance(journal, EnricherJournal) else EnricherJournal(journal)
        words = ("budget", "batch", "on_stale", "on_miss", "target", "audit", "capacity")
        facts = {word: getattr(self.settings, word) for word in words}
        facts |= {
            "rate": self.settings.rate.per_ms,
            "bank": self.settings.bucket_capacity,
            "interval_ms": milliseconds("interval", settings.interval),
        }
        writer = JournalWriter(settings, self.name, facts, weakref.ref(self._engine), self._now)
        writer.start(self._background)
        return writer

    def _open_store(self, store: "str | Path | RowStore | None", state: str | Path | None) -> "SharedState | None":
        """Open the store that was named: Redis, a file of SQLite, or a directory (`state`) with one."""
        if state is not None:
            if store is not None:
                raise ConfigError("store= and state= are two ways to say where rows are kept: give one of them")
            store = Path(state) / f"{self.name}.db"
        if store is None:
            return None
        from freshkeeper.maintenance.enricher.shared_state import SharedState

        if isinstance(store, str) and store.startswith(("redis://", "rediss://", "unix://")):
            from freshkeeper.maintenance.enricher.redis_store import RedisStore

            store = RedisStore(store, self.name)
        elif isinstance(store, str | Path):
            from freshkeeper.maintenance.enricher.sqlite_store import SqliteStore

            store = SqliteStore(store)
        return SharedState(store, self.name, self._now)

    @abstractmethod
    def _make_sender(self, lookup: "Lookup[K, V]", limiter: RateLimiter) -> LookupSender: ...

    def _admit(self, found: "CachedRow[V] | Flight", key: K) -> "CachedRow[V] | Flight":
        """Return the row, the flight to wait for, or what `on_miss` says of a key that is not there."""
        if isinstance(found, Flight) and found.is_miss and self.settings.on_miss != "wait":
            if self.settings.on_miss == "error":
                raise RowError(f"{key!r} is not in the cache; it is being fetched")
            return CachedRow.failed("not in the cache; it is being fetched")
        return found

    def _begin_many(
        self, keys: "Iterable[K] | Column", options: ReadOptions, reads: Sequence[int] | None = None
    ) -> "Iterable[tuple[K, CachedRow[V] | Flight]]":
        """Begin the reads of a batch; arrays of numpy and columns of pyarrow and pandas give their values."""
        convert = getattr(keys, "to_pylist", None) or getattr(keys, "tolist", None) or getattr(keys, "to_list", None)
        plain = list(cast("Iterable[K]", keys)) if convert is None else convert()
        if None in plain:
            _checked(None)
        if reads is not None and len(reads) != len(plain):
            raise InputError(f"reads has {len(reads)} numbers for {len(plain)} keys")
        found = self._engine.read_many(plain, options, reads)
        if self.settings.on_miss != "wait":
            found = [self._admit(row, key) for key, row in zip(plain, found, strict=True)]
        return zip(plain, found, strict=True)

    def _options(self, max_age: Seconds | None, min_freshness: float | None, max_wait: Seconds | None) -> ReadOptions:
        if min_freshness is not None and not 0 <= min_freshness <= 1:
            raise ConfigError(f"min_freshness={min_freshness!r}: write a probability from 0 to 1")
        age = None if max_age is None else milliseconds("max_age", max_age)
        waits = max_wait is None or milliseconds("max_wait", max_wait) > 0
        return ReadOptions(age, min_freshness, waits)

    def _wait_s(self, max_wait: Seconds | None) -> float:
        return (self._max_wait_ms if max_wait is None else milliseconds("max_wait", max_wait)) / 1000

    def _pay(self) -> bool:
        """Take one request out of the budget, for an expansion."""
        return self._engine.queue.pay(1.0)

    def _unanswered(self, flight: Flight, wait_s: float) -> "CachedRow[V]":
        """Return what is known of a key whose fetch takes longer than its reader waits."""
        return self._engine.queue.give_up(flight, wait_s)

    def _after_fork(self) -> None:
        """Begin anew in a forked child: rows stay, requests under way were the parent's."""
        self._engine.queue.after_fork()
        if self._journal is not None:
            self._journal.after_fork()

    def _stop(self) -> None:
        """Send nothing more, and write the rest of the journal."""
        self._closed = True
        self._engine.queue.close()
        if self._journal is not None:
            self._journal.close()
            self._engine.queue.journal = None
            self._journal = None


def _checked(key: Any) -> Any:
    if key is None:
        raise InputError("None is not a key: the event has none")
    return key


def _restart_in_child() -> None:
    for enricher in list(_LIVE):
        enricher._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart_in_child)
