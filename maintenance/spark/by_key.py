"""Enrichment by key: a DataFrame, streaming or not, with the row of each event's key and how right it is.

    events ─▶ repartition by key ─▶ Arrow batches ─▶ distinct keys ─▶ Enricher.get_many ─▶ take ─▶ two more columns

Each Python worker has an Enricher of its own, which outlives tasks and micro-batches. What it caches is no state of the
query: losing it costs requests, never an answer. With a store, all workers share rows and one budget.
"""

import atexit
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

import numpy as np
import pyarrow as pa
from pyarrow.types import is_nested

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.errors import ConfigError, InputError, naming_extra, nearest
from freshkeeper.maintenance.enricher.enricher import Enricher
from freshkeeper.maintenance.enricher.row import CachedRow
from freshkeeper.maintenance.enricher.settings import EnricherSettings, OnMiss, OnStale, Seconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

MakeLookup: TypeAlias = Callable[[], Callable[[list[Any]], Any]]
"""Is called once in each worker, and makes a function from a list of keys to a mapping of rows."""
KEY = "freshkeeper_key"
META_SUFFIX = "_meta"
META_FIELDS = "freshness DOUBLE, age_ms BIGINT, hit BOOLEAN, error STRING"
MAX_ENRICHERS = 4
"""Enrichers that a worker keeps: those of queries that have ended go when others come."""


class Options(TypedDict, total=False):
    """Settings of the Enricher in each worker, as it documents them."""

    batch: int
    bank: Seconds
    rate_limit: str
    on_stale: OnStale
    on_miss: OnMiss
    max_wait: Seconds
    stale_if_error: bool
    target: float
    capacity: int
    parallel: int
    store: str
    name: str


def enrich(
    on: str | Sequence[str],
    into: str,
    lookup: MakeLookup,
    schema: "str | StructType",
    budget: str,
    tasks: int | None = None,
    **options: Unpack[Options],
) -> "Callable[[DataFrame], DataFrame]":
    """Return a function for `DataFrame.transform` that appends the row of each event's key.

    Every event comes out once, with its columns as they were and two more: `into`, a struct of `schema`, null where the
    key is null or has no row; and `into`_meta with `freshness` (the probability that the row is still right),
    `age_ms`, `hit` and `error`.

    on
        the key column, or several; nested ones as "order.product"
    into
        the name of the new column
    lookup
        a function without arguments that is called once in each worker and makes the lookup: a function from a list of
        keys to a mapping of rows. A row is a dict by field, a tuple or list in the order of the schema, or the bare
        value where the schema has one field. Several key columns make keys that are tuples
    schema
        the fields of a row: "name STRING, price DECIMAL(10,2)", or a StructType
    budget
        requests in a period: "500/s"
    tasks
        without a store: how many tasks run at once, among which the budget is divided (default: the cores of Spark)
    options
        settings of `Enricher`: batch, bank, rate_limit, on_stale, on_miss, max_wait, stale_if_error, target, capacity,
        parallel, store, name

    With `store="redis://host:6379/0"` all workers share rows and one budget by the wall clock: capacity + rate · t is
    never exceeded, whatever is retried or caught up on. Without it, each of `tasks` has its part of the budget, which
    is weaker: more worker processes than tasks spend more.
    """

    def apply(events: "DataFrame") -> "DataFrame":
        columns = [on] if isinstance(on, str) else list(on)
        key = _key_column(events, columns, into)
        fields = _fields_of(events, schema)
        _check_pickles(lookup)
        settings: dict[str, Any] = {"name": into, **options, "budget": budget}
        if "store" not in settings:
            settings |= _part_of_budget(events, tasks, settings)
        _check_settings(settings)
        worker = Worker(
            query=uuid.uuid4().hex,
            columns=tuple(events.columns),
            has_tuples=len(columns) > 1,
            lookup=lookup,
            settings=settings,
            rows=RowArrays.of(fields),
        )
        meta = _fields_of(events, META_FIELDS)
        output = StructType([*events.schema.fields]).add(into, fields).add(f"{into}{META_SUFFIX}", meta)
        return events.withColumn(KEY, key).repartition(KEY).mapInArrow(worker, output)

    with naming_extra("Spark"):
        from pyspark.sql.types import StructType
    return apply


def metrics(into: str) -> "list[Column]":
    """Return columns for `DataFrame.observe`: events, rows, hits, stale rows, errors, and freshness as believed.

    `enriched.observe("enrichment", *metrics("product"))` reports them with every micro-batch.
    """
    from pyspark.sql import functions as f

    meta = f"{into}{META_SUFFIX}"
    return [
        f.count(f.lit(1)).alias("events"),
        f.count(f.col(into)).alias("rows"),
        f.count_if(f.col(f"{meta}.hit")).alias("hits"),
        f.count_if(f.col(into).isNotNull() & f.col(f"{meta}.error").isNotNull()).alias("stale"),
        f.count_if(f.col(f"{meta}.error").isNotNull()).alias("errors"),
        f.avg(f"{meta}.freshness").alias("freshness"),
    ]


@dataclass(frozen=True, eq=False)
class RowArrays:
    """Turns rows of lookups into one Arrow array of structs."""

    type: pa.DataType
    """a struct"""
    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    converters: tuple[Callable[[Any], Any] | None, ...]
    """of the fields whose values Arrow does not take as they are"""

    @classmethod
    def of(cls, fields: "StructType") -> "RowArrays":
        """Return the arrays of rows with these fields."""
        from pyspark.sql.pandas.types import to_arrow_type

        row_type = to_arrow_type(fields, timezone="UTC")
        types = tuple(to_arrow_type(one.dataType, timezone="UTC") for one in fields)
        return cls(row_type, tuple(fields.names), types, tuple(_converter(one.dataType) for one in fields))

    def array(self, keys: Sequence[Any], rows: Sequence[CachedRow[Any]]) -> pa.Array:
        """Return the values of rows; null where there is none."""
        values = [None if row.value is None else self._fields_of(row.value) for row in rows]
        try:
            return pa.array(values, self.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            for key, value in zip(keys, values, strict=True):
                self._check(key, value)
            raise

    def _fields_of(self, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            row = value
        elif isinstance(value, tuple | list) and len(value) == len(self.names):
            row = dict(zip(self.names, value, strict=True))
        elif len(self.names) == 1:
            row = {self.names[0]: value}
        else:
            raise InputError(f"a row is {value!r:.100}: give a dict with {', '.join(self.names)}")
        if any(self.converters):
            row = {**row}
            for name, convert in zip(self.names, self.converters, strict=True):
                if convert is not None and row.get(name) is not None:
                    row[name] = convert(row[name])
        return row

    def _check(self, key: Any, value: dict[str, Any] | None) -> None:
        """Raise an error that names the key and the field of a row that does not fit."""
        for name, kind in zip(self.names, self.types, strict=True) if value is not None else ():
            try:
                pa.array([(value or {}).get(name)], kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                why = str(error).splitlines()[0]
                raise InputError(f"the row of the key {key!r} does not fit the schema: {name}: {why}") from None


@dataclass(frozen=True, eq=False, kw_only=True)
class Worker:
    """Enriches Arrow batches; Spark pickles it with the query and calls it in every task."""

    query: str
    """tells the enrichers of several queries in one process apart"""
    columns: tuple[str, ...]
    has_tuples: bool
    lookup: MakeLookup
    settings: dict[str, Any]
    rows: RowArrays

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield every batch with rows and their meta data instead of the key."""
        enricher = enricher_of(self)
        for batch in batches:
            keys, places, reads = self._distinct(batch.column(KEY))
            found = enricher.get_many(keys, reads=reads)
            arrays = [self.rows.array(keys, found).take(places), _meta(found).take(places)]
            columns = [batch.column(name) for name in self.columns]
            yield pa.RecordBatch.from_arrays([*columns, *arrays], [*self.columns, "row", "meta"])

    def _distinct(self, column: pa.Array) -> tuple[list[Any], pa.Array, list[int]]:
        """Return the distinct keys, the place of each event's key (null for null), and how often each key occurs."""
        if is_nested(column.type):
            return _distinct_objects(column.to_pylist(), as_tuples=self.has_tuples)
        encoded = column.dictionary_encode()
        places = encoded.indices
        counts: Ints = np.bincount(places.drop_null().to_numpy(), minlength=len(encoded.dictionary))
        return encoded.dictionary.to_pylist(), places, counts.tolist()


def _distinct_objects(keys: Sequence[Any], as_tuples: bool) -> tuple[list[Any], pa.Array, list[int]]:
    """Return the distinct keys among structs and lists, which become tuples."""
    place_of: dict[Any, int] = {}
    counts: list[int] = []
    places: list[int | None] = []
    for key in keys:
        hashable = _hashable(key)
        if hashable is None or (as_tuples and None in hashable):
            places.append(None)
            continue
        place = place_of.setdefault(hashable, len(counts))
        if place == len(counts):
            counts.append(0)
        counts[place] += 1
        places.append(place)
    return list(place_of), pa.array(places, pa.int64()), counts


def _hashable(key: Any) -> Any:
    """Return a key whose structs and lists are tuples."""
    if isinstance(key, dict):
        return tuple(_hashable(part) for part in key.values())
    if isinstance(key, list):
        return tuple(_hashable(part) for part in key)
    return key


_ENRICHERS: dict[str, Enricher[Any, Any]] = {}
"""The enrichers of this process by query, the one that was used last at the end."""


def enricher_of(worker: Worker) -> Enricher[Any, Any]:
    """Return the enricher of a query in this process; it outlives tasks and micro-batches."""
    found = _ENRICHERS.pop(worker.query, None)
    if found is None:
        found = Enricher(worker.lookup(), **worker.settings)
    _ENRICHERS[worker.query] = found
    while len(_ENRICHERS) > MAX_ENRICHERS:
        _ENRICHERS.pop(next(iter(_ENRICHERS))).close()
    return found


@atexit.register
def _close_all() -> None:
    for enricher in _ENRICHERS.values():
        enricher.close()


def _meta(rows: Sequence[CachedRow[Any]]) -> pa.Array:
    """Return freshness, age, hit and error of rows; freshness and age are null where nothing is known."""
    known = [row.age is not None for row in rows]
    fresh = [row.freshness if is_known else None for row, is_known in zip(rows, known, strict=True)]
    ages = [None if row.age is None else int(row.age * 1000) for row in rows]
    hits = [row.hit for row in rows]
    errors = [row.error for row in rows]
    columns = [
        pa.array(fresh, pa.float64()),
        pa.array(ages, pa.int64()),
        pa.array(hits, pa.bool_()),
        pa.array(errors, pa.string()),
    ]
    return pa.StructArray.from_arrays(columns, ["freshness", "age_ms", "hit", "error"])


def _key_column(events: "DataFrame", columns: Sequence[str], into: str) -> "Column":
    """Return the key of an event; raise ConfigError for columns that are not there, or that would be there twice."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    names = [name.lower() for name in events.columns]
    for new in (into, f"{into}{META_SUFFIX}"):
        if new.lower() in names:
            raise ConfigError(f"into={into!r}: the events have a column {new} already; take another name")
    if not columns:
        raise ConfigError("on=[]: name the key column")
    for column in columns:
        try:
            found = events.select(f.col(column)).schema[0].dataType
        except AnalysisException:
            near = nearest(column, list(events.columns))
            raise ConfigError(f"on={column!r}: the events have no such column; {near}") from None
        if "map<" in found.simpleString():
            raise ConfigError(f"on={column!r} is a {found.simpleString()}: Spark cannot group by maps")
    if len(columns) == 1:
        return f.col(columns[0])
    return f.struct(*(f.col(column).alias(f"key{n}") for n, column in enumerate(columns)))


def _fields_of(events: "DataFrame", schema: "str | StructType") -> "StructType":
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        fields = schema
    else:
        try:
            fields = events.sparkSession.createDataFrame([], schema).schema
        except PySparkException as error:
            why = str(error).strip().splitlines()[0]
            raise ConfigError(f'schema={schema!r}: {why}; write it as "name STRING, price DOUBLE"') from None
    if not fields.fields:
        raise ConfigError("schema has no fields: name those of a row")
    return fields


def _check_pickles(lookup: MakeLookup) -> None:
    from pyspark.cloudpickle import dumps

    if not callable(lookup):
        raise ConfigError(f"lookup={lookup!r:.100}: pass a function that makes the lookup")
    try:
        dumps(lookup)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise ConfigError(
            f"lookup cannot be sent to the workers: {error}; open connections inside the function that makes the lookup"
        ) from None


def _part_of_budget(events: "DataFrame", tasks: int | None, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of one of so many tasks, which together spend the budget."""
    count = _cores(events) if tasks is None else tasks
    if not isinstance(count, int) or count < 1:
        raise ConfigError(f"tasks={tasks!r}: write how many tasks run at once")
    whole = _check_settings(settings)
    bank_ms = whole.bucket_capacity / whole.rate.per_ms
    return {"budget": f"{whole.rate.per_ms * 1000 / count:.9f}/s", "bank": bank_ms / 1000}


def _cores(events: "DataFrame") -> int:
    """Return how many tasks run at once."""
    context = getattr(events.sparkSession, "_sc", None)  # sessions of Spark Connect have none
    if context is None:
        raise ConfigError("over Spark Connect nobody tells the number of cores: give store=... or tasks=...")
    return int(context.defaultParallelism)


def _check_settings(settings: dict[str, Any]) -> EnricherSettings:
    """Raise ConfigError if an enricher cannot be made with these settings."""
    defaults = {name: one.default for name, one in signature(Enricher).parameters.items()}
    unknown = [name for name in settings if name not in defaults]
    if unknown:
        near = nearest(unknown[0], [*Options.__annotations__])
        raise ConfigError(f"{unknown[0]}: enrich has no such setting; {near}")
    names = [one.name for one in dataclass_fields(EnricherSettings)]
    return EnricherSettings(**{name: settings.get(name, defaults[name]) for name in names})


def _converter(kind: "DataType") -> Callable[[Any], Any] | None:
    """Return a function that turns dicts into the pairs that Arrow takes for maps; None where there are no maps."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, MapType):
        inner = _converter(kind.valueType)
        return lambda value: [(key, one if inner is None else inner(one)) for key, one in value.items()]
    if isinstance(kind, ArrayType):
        element = _converter(kind.elementType)
        return None if element is None else lambda value: [element(one) for one in value]
    if isinstance(kind, StructType):
        parts = {one.name: _converter(one.dataType) for one in kind}
        if any(parts.values()):
            return lambda value: {name: _converted(parts.get(name), one) for name, one in value.items()}
    return None


def _converted(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)
