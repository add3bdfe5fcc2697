"""Events enriched by key, from any thread: rows out of a cache, which a thread of its own keeps fresh."""

from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Self, TypeVar

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.enricher.cached_row import CachedRow, nothing
from freshkeeper.maintenance.enricher.callers import Threads, in_this_thread
from freshkeeper.maintenance.enricher.enrichment import Enrichment
from freshkeeper.maintenance.enricher.joining import KeyOf, key_reader, no_key
from freshkeeper.maintenance.enricher.settings import is_asynchronous
from freshkeeper.maintenance.enricher.shared_entries import EntryRows, together
from freshkeeper.maintenance.fetching.executors import Submit

T = TypeVar("T")


@dataclass(eq=False)
class Enricher(Enrichment):
    """Rows of somebody else's table or service by key, kept as fresh as a budget of requests allows.

    Any number of threads may ask. Rounds of maintenance come by the clock from the first key on that is not there, or
    when `with` is entered; `close`, or the end of `with`, ends them.

    >>> from freshkeeper import Enricher
    >>> prices = {"pen": 2, "ink": 7}
    >>> with Enricher(lambda keys: {key: prices[key] for key in keys}, budget="5/s") as enricher:
    ...     for event, row in enricher.join([{"product": "pen"}, {"product": "pen"}], key="product"):
    ...         print(event["product"], row.value, row.hit)
    pen 2 False
    pen 2 True
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_asynchronous(self.lookup):
            raise ConfigError("lookup is to be awaited: AsyncEnricher does that")

    def get(self, key: Hashable) -> CachedRow:
        """The row of a key, as far as it is known."""
        row = self.cache.row(key, self._now())
        return self._missing(key) if row is None else row

    def get_many(self, keys: Iterable[Hashable]) -> list[CachedRow]:
        """The rows of many keys; those that are not there are fetched together."""
        if not self._started:
            self._start()
        asked = list(keys)
        rows = [self.cache.row(key, self._now()) for key in asked]
        missing = dict.fromkeys(key for key, row in zip(asked, rows, strict=True) if row is None)
        futures = {key: self._ask(key) for key in missing}
        self._send()
        found = {key: self._wait(future) for key, future in futures.items()}
        return [found[key] if row is None else row for key, row in zip(asked, rows, strict=True)]

    def get_entries(self, key: Hashable) -> EntryRows:
        """The rows of all entries that a key has, as `expand` says; that is asked once and kept until `forget(key)`."""
        if not self._started:
            self._start()
        entries = self._entries.of(key, self._patience)
        return together(entries, () if isinstance(entries, str) else self.get_many(entries))

    def join(self, events: Iterable[T], key: KeyOf) -> Iterator[tuple[T, CachedRow]]:
        """Every event with the row of its key, which is a field of it or what a function says."""
        key_of, row_of, now = key_reader(key), self.cache.row, self._now
        for event in events:
            try:
                name = key_of(event)
            except Exception as error:
                raise no_key(event, error) from error
            row = row_of(name, now())
            yield event, self._missing(name) if row is None else row

    def tick(self, now: int | None = None) -> Evaluation | None:
        """A round of maintenance, if one is due: every step is paid once."""
        return self._tick(now)

    def close(self) -> None:
        """No more rounds and requests; what is held can still be asked for."""
        self._close()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _submitters(self) -> tuple[Submit, Submit]:
        return Threads(self._threads).submit, in_this_thread

    def _missing(self, key: Hashable) -> CachedRow:
        if not self._started:
            self._start()
        future = self._ask(key)
        self._send()
        return self._wait(future)

    def _wait(self, future: "Future[CachedRow]") -> CachedRow:
        try:
            return future.result(self._patience)
        except TimeoutError:
            return nothing(f"no answer within {self.timeout}")
