"""A view that starts warm: the edges and copies that are known already, as tables."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import Tabular, here
from freshkeeper.policies.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, eq=False)
class Warm:
    """What the view holds at first: `edges` with the key columns and `sr`, `copies` with `sr` and `value`."""

    edges: Tabular
    copies: Tabular
    at: int
    """when the copies were fetched, in ms"""

    def pairs(self, on: Sequence[str]) -> list[tuple[Hashable, Hashable]]:
        """The edges on the driver, in the order of the table."""
        table = here(self.edges)
        _check(table.column_names, "edges", [*on, "sr"])
        columns = [table[name].to_pylist() for name in on]
        sns: list[Hashable] = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        return list(zip(sns, table["sr"].to_pylist(), strict=True))

    def values(self) -> dict[Hashable, object]:
        """The copies on the driver."""
        table = here(self.copies)
        _check(table.column_names, "copies", ["sr", "value"])
        return dict(zip(table["sr"].to_pylist(), table["value"].to_pylist(), strict=True))

    def frames(self, spark: "SparkSession", on: Sequence[str], needs: Sequence[str]) -> "tuple[DataFrame, DataFrame]":
        """Edges and copies on the cluster."""
        both = (self.edges, self.copies)
        edges, copies = (spark.createDataFrame(one) if isinstance(one, pa.Table) else one for one in both)
        _check(edges.columns, "edges", [*on, "sr"])
        _check(copies.columns, "copies", ["sr", "value", *needs])
        return edges.select(*on, "sr"), copies.select("sr", "value", *needs)


def _check(there: Sequence[str], name: str, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in there:
            raise InputError(f"the {name} of a warm start have no column {column!r}; they have {', '.join(there)}")
