"""Rows by key over HTTP: each table or address of the config is an Enricher that all clients of the service share."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, Field, model_validator

from freshkeeper.maintenance.base.errors import ConfigError, naming_extra
from freshkeeper.maintenance.enricher.async_enricher import AsyncEnricher
from freshkeeper.maintenance.enricher.lookups.http_lookup import HttpLookup
from freshkeeper.maintenance.enricher.lookups.redis_lookup import RedisLookup
from freshkeeper.maintenance.enricher.lookups.sql_lookup import SqlLookup
from freshkeeper.maintenance.enricher.settings import OnMiss, OnStale
from freshkeeper.maintenance.enricher.statistics import Stats

RowCache: TypeAlias = AsyncEnricher[Any, Any]
SOURCES = ("http", "sql", "redis")
KEYS: Mapping[str, Callable[[str], Any]] = {"text": str, "integer": int}
SETTINGS = ("batch", "bank", "rate_limit", "on_stale", "on_miss", "max_wait", "target", "capacity", "parallel", "audit")
"""Keys that are settings of the Enricher under the same name."""


class RowsConfig(BaseModel):
    """A table or an address whose rows are served by key, and the budget that they are kept fresh with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    http: str = Field(default="", description="an address with {key} in it, as https://api.example.org/products/{key}")
    headers: dict[str, str] = Field(default={}, description="http: headers of requests")
    sql: str = Field(
        default="", description="the address of a database, as SQLAlchemy writes it: postgresql+psycopg://…"
    )
    query: str = Field(default="", description="sql: SELECT id, name FROM products WHERE id IN {keys}")
    redis: str = Field(default="", description="the address of a Redis, as redis://host:6379/0")
    name: str = Field(default="{key}", description="redis: the name under which the value of a key is kept")
    key: Literal["text", "integer"] = Field(default="text", description="the type of keys")
    budget: str = Field(description="requests in a period: 5/s, 300/min, 20000/day")
    batch: Annotated[int, Field(ge=1)] = Field(default=1, description="how many keys a request may hold")
    bank: str | float | None = Field(default=None, description="how long unspent budget keeps; default: its own unit")
    rate_limit: str | None = Field(default=None, description="a limit of the source beside the budget, as 10/s")
    on_stale: OnStale = Field(default="wait", description="serve: reads of old rows do not wait for the fetch")
    on_miss: OnMiss = Field(default="wait", description="null: reads of unknown keys do not wait for the fetch")
    max_wait: str | float = Field(default=10.0, description="how long a read waits at most, in seconds or as 500ms")
    target: float | None = Field(default=None, description="the share of reads that is to be right, as 0.95")
    capacity: Annotated[int, Field(ge=1)] = Field(default=100_000, description="how many rows are kept")
    parallel: Annotated[int, Field(ge=1)] = Field(default=8, description="how many requests may be under way")
    audit: float = Field(default=0.0, description="the share of the budget that measures how right the answers are")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        given = [name for name in SOURCES if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(SOURCES)}: where the rows are")
        if bool(self.sql) != bool(self.query):
            raise ValueError("sql and query are given together")
        self.opened("check", None)
        return self

    def opened(self, name: str, state: Path | None) -> RowCache:
        """Return the cache of these rows; with a directory it begins with the rows of the process before."""
        settings = {key: getattr(self, key) for key in SETTINGS}
        store = None if state is None else state / "rows" / f"{name}.db"
        if store is not None:
            store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return AsyncEnricher(self._lookup(), self.budget, name=name, store=store, **settings)

    def key_of(self, written: str) -> Any:
        """Return the key that a part of an address means."""
        try:
            return KEYS[self.key](written)
        except ValueError:
            raise ConfigError(f"{written!r:.100} is no key: keys are whole numbers") from None

    def _lookup(self) -> Any:
        if self.http:
            return HttpLookup(self.http, headers=self.headers)
        if self.redis:
            with naming_extra("redis"):
                from redis.asyncio import Redis
            return RedisLookup(Redis.from_url(self.redis), self.name)
        with naming_extra("sql"):
            from sqlalchemy import create_engine
        return SqlLookup(create_engine(self.sql), self.query)


class RowNumbers(Collector):
    """Collects the metrics of row caches when Prometheus asks."""

    def __init__(self, caches: Mapping[str, RowCache]) -> None:
        self._caches = caches

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all caches, by name."""
        counts = {name: cache.stats() for name, cache in self._caches.items()}
        for name, help_text in (
            ("hits", "reads of rows that were in the cache"),
            ("misses", "reads of rows that were not"),
            ("requests", "requests to the source"),
            ("failed", "keys that could not be fetched, each time"),
        ):
            yield _family(CounterMetricFamily(f"freshkeeper_rows_{name}", help_text, labels=["rows"]), counts, name)
        for name, help_text in (
            ("rows", "rows in the cache"),
            ("available", "cost units that may be spent now"),
            ("expected_freshness", "the share of reads that is believed to have been right"),
        ):
            yield _family(GaugeMetricFamily(f"freshkeeper_rows_{name}", help_text, labels=["rows"]), counts, name)


def _family(
    family: CounterMetricFamily | GaugeMetricFamily, counts: Mapping[str, Stats], name: str
) -> CounterMetricFamily | GaugeMetricFamily:
    for cache, stats in counts.items():
        family.add_metric([cache], getattr(stats, name))
    return family
