"""A table enriched at once: pandas, pyarrow and polars in, the same out."""

from collections.abc import Mapping
from typing import Any, TypeVar

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.enricher.enricher import Enricher
from freshkeeper.maintenance.enricher.row import CachedRow

T = TypeVar("T")


def enrich_table(enricher: Enricher[Any, Any], table: T, key: str, freshness: str = "freshness") -> T:
    """Return the table with the columns of the rows of its keys, and one with their freshness.

    Rows are dicts; what has none, or lacks a column, is null there. Keys that are missing are fetched together, within
    the enricher's reserve. A column that the table has already is refused.

    >>> import pyarrow
    >>> from freshkeeper import Enricher, enrich_table
    >>> sales = pyarrow.table({"product": ["pen", "ink"], "n": [3, 1]})
    >>> with Enricher(lambda keys: {key: {"price": len(key)} for key in keys}, "5/s") as enricher:
    ...     enriched = enrich_table(enricher, sales, "product").to_pydict()
    >>> enriched["price"], [round(freshness, 2) for freshness in enriched["freshness"]]
    ([3, 3], [1.0, 1.0])
    """
    columns = _names(table)
    if key not in columns:
        raise InputError(f"the table has no column {key!r}; it has {', '.join(columns)}")
    keys = _column(table, key)
    distinct = [each for each in dict.fromkeys(keys) if each is not None]
    known = dict(zip(distinct, enricher.get_many(distinct), strict=True))
    rows = [known.get(each) for each in keys]
    added = _added(rows, freshness)
    if taken := [name for name in added if name in columns]:
        raise InputError(f"the table has a column {taken[0]!r} already; name it otherwise, or in the lookup")
    enriched: T = _with(table, added)
    return enriched


def _added(rows: "list[CachedRow[Any] | None]", freshness: str) -> dict[str, list[Any]]:
    values = [row.value if row is not None and isinstance(row.value, Mapping) else {} for row in rows]
    for row in rows:
        if row is not None and row.value is not None and not isinstance(row.value, Mapping):
            raise InputError(f"rows of a table are dicts of columns, and the lookup returned {row.value!r}")
    names = dict.fromkeys(name for value in values for name in value)
    chances = [0.0 if row is None else row.freshness for row in rows]
    return {name: [value.get(name) for value in values] for name in names} | {freshness: chances}


def _kind(table: Any) -> str:
    kind = type(table).__module__.partition(".")[0]
    if kind not in ("pandas", "pyarrow", "polars"):
        raise InputError(f"{type(table).__name__} is no table of pandas, pyarrow or polars")
    return kind


def _names(table: Any) -> list[str]:
    return list(table.column_names if _kind(table) == "pyarrow" else table.columns)


def _column(table: Any, name: str) -> list[Any]:
    column = table[name]
    found: list[Any] = column.to_pylist() if _kind(table) == "pyarrow" else column.to_list()
    return [None if each != each else each for each in found]  # pandas says NaN where there is none


def _with(table: Any, added: dict[str, list[Any]]) -> Any:
    kind = _kind(table)
    if kind == "pandas":
        return table.assign(**added)
    if kind == "polars":
        import polars

        return table.with_columns([polars.Series(name, values) for name, values in added.items()])
    import pyarrow

    for name, values in added.items():
        table = table.append_column(name, pyarrow.array(values))
    return table
