"""The graph laid out once as shards of entries: columns of numbers in files that executors map into memory.

Whatever an entry needs is in its shard: all its edges, and every key that they come from. So demand is summed where an
entry is scored, a key with ever so many edges is spread over all shards, and nothing is shuffled by an evaluation.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from freshkeeper.maintenance.base.arrays import Bools, Ids, Ints
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.spark.enrichment.batch_arrivals import HASH
from freshkeeper.maintenance.spark.enrichment.on_driver import Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARD = "_shard"
NAMES = ("entries", "keys", "start", "edges")


@dataclass(frozen=True, eq=False)
class ShardFiles:
    """The parts of a shard that stay the same, and its initial copies."""

    entries: pa.Table
    """sr, value, and what the knowledge needs"""
    keys: pa.Table
    """the keys of windows in the order of their hashes: _hash, and the columns that they came from"""
    start: Ints
    """where the edges of each key begin, and where the last ones end"""
    neighbours: Ids

    @classmethod
    def read(cls, place: Path) -> "ShardFiles":
        """Map the files of a shard into memory."""
        entries, keys, start, edges = (read_arrow(place / f"{name}.arrow") for name in NAMES)
        return cls(entries, keys, numbers(start, "start"), numbers(edges, "sr").astype(np.int32, copy=False))

    def write(self, place: Path) -> None:
        """Write the tables under the names that `read` looks for."""
        start, edges = pa.table({"start": self.start}), pa.table({"sr": self.neighbours})
        for name, table in zip(NAMES, (self.entries, self.keys, start, edges), strict=True):
            write_arrow(table, place / f"{name}.arrow")

    @cached_property
    def named(self) -> dict[str, pa.Array]:
        """The columns that answers have of keys, and of entries as text."""
        keys = {name: column(self.keys, name) for name in self.keys.column_names if name != HASH}
        return keys | {"sr": column(self.entries, "sr").cast(pa.string())}


def lay(edges: "DataFrame", copies: "DataFrame", shape: Shape, shards: int, place: Path) -> tuple[int, int]:
    """Write all shards and the hashes of all keys in one job; return the numbers of edges and keys.

    An edge to what has no copy is none.
    """
    from pyspark.sql import functions as F  # noqa: N812

    shard = F.pmod(F.xxhash64("sr"), F.lit(shards)).cast("int").alias(SHARD)
    both = edges.select(shard, F.xxhash64(*shape.on).alias(HASH), *shape.on, "sr"), copies.select(shard, "*")
    left, right = (table.groupBy(SHARD) for table in both)
    parts = left.cogroup(right).applyInArrow(partial(_write, shape, place), "edges bigint").collect()
    for number in range(shards):
        if not (place / str(number)).exists():  # nothing fell to it
            _part(both[0].limit(0).toArrow(), both[1].limit(0).toArrow(), shape).write(place / str(number))
    (keys,) = edges.sparkSession.sparkContext.parallelize([shards], 1).map(partial(_write_known, place)).collect()
    return sum(part.edges for part in parts), keys


def found(wanted: Ints | Ids, there: Ints) -> tuple[Ints, Bools]:
    """Return the position of each value among ascending numbers, and whether it is there."""
    if not there.size:
        return np.zeros(wanted.size, np.int64), np.zeros(wanted.size, bool)
    place = np.minimum(np.searchsorted(there, wanted), there.size - 1)
    return place, there[place] == wanted


def column(table: pa.Table, name: str) -> pa.Array:
    """Return a column in one chunk."""
    return table[name].combine_chunks() if table[name].num_chunks != 1 else table[name].chunk(0)


def numbers(table: pa.Table, name: str) -> Ints:
    """Numbers, as they lie in the file where they can."""
    return column(table, name).to_numpy(zero_copy_only=False)


def write_arrow(table: pa.Table, path: Path, durable: bool = False) -> None:
    """Write a table atomically; processes that write the same file do not collide."""
    with atomic_file(path, mark=uuid4().hex, durable=durable) as file, ipc.new_file(str(file), table.schema) as out:
        out.write_table(table.combine_chunks())


def read_arrow(path: Path) -> pa.Table:
    """Map a table into memory."""
    return ipc.open_file(pa.memory_map(str(path))).read_all()


def _write_known(place: Path, shards: int) -> int:
    hashes = np.unique(
        np.concatenate([numbers(ShardFiles.read(place / str(number)).keys, HASH) for number in range(shards)])
    )
    write_arrow(pa.table({HASH: hashes}), place / "known.arrow")
    return hashes.size


def _write(shape: Shape, place: Path, shard: tuple[pa.Scalar], edges: pa.Table, copies: pa.Table) -> pa.Table:
    part = _part(edges, copies, shape)
    part.write(place / str(shard[0].as_py()))
    return pa.table({"edges": [part.neighbours.size]})


def _part(edges: pa.Table, copies: pa.Table, shape: Shape) -> ShardFiles:
    values = shape.written(copies["value"].to_pylist())
    entries = copies.drop_columns([SHARD, "value"]).append_column("value", values).sort_by([("sr", "ascending")])
    places = pc.index_in(column(edges, "sr"), column(entries, "sr"))
    known, entry = edges.filter(pc.is_valid(places)), places.drop_null().to_numpy()
    hashes, first, key = np.unique(numbers(known, HASH), return_index=True, return_inverse=True)
    keys = known.select([HASH, *shape.on]).take(first)
    for name in shape.on:
        if pc.any(pc.not_equal(column(known, name), column(keys, name).take(key))).as_py():
            raise InputError("two lookup keys of the edges have the same 64-bit hash: rename one of them")
    width = max(1, entries.num_rows)
    owner, neighbours = np.divmod(np.unique(key.astype(np.int64) * width + entry), width)  # an edge named twice is one
    start = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=hashes.size))]).astype(np.int64)
    return ShardFiles(entries.combine_chunks(), keys, start, neighbours.astype(np.int32))
