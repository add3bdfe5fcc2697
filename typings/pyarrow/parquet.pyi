from collections.abc import Iterator
from os import PathLike
from types import TracebackType
from typing import IO, Any

from pyarrow import RecordBatch, Schema, Table

def read_table(
    source: str | PathLike[str] | IO[bytes], *, columns: list[str] | None = None, partitioning: None = None
) -> Table: ...
def write_table(
    table: Table,
    where: str | PathLike[str] | IO[bytes],
    *,
    compression: str = "snappy",
    use_dictionary: bool | list[str] = True,
    row_group_size: int | None = None,
) -> None: ...
def read_metadata(where: str | PathLike[str]) -> FileMetaData: ...
def read_schema(where: str | PathLike[str]) -> Schema: ...

class Statistics:
    has_min_max: bool
    null_count: int | None
    min: Any
    max: Any

class ColumnChunkMetaData:
    path_in_schema: str
    statistics: Statistics | None

class RowGroupMetaData:
    num_rows: int
    num_columns: int
    def column(self, i: int) -> ColumnChunkMetaData: ...

class FileMetaData:
    num_rows: int
    num_row_groups: int
    def row_group(self, i: int) -> RowGroupMetaData: ...

class ParquetFile:
    schema_arrow: Schema
    metadata: FileMetaData
    def __init__(
        self,
        source: str | PathLike[str],
        *,
        metadata: FileMetaData | None = None,
        read_dictionary: list[str] | None = None,
    ) -> None: ...
    def read_row_group(self, i: int, columns: list[str] | None = None, use_threads: bool = True) -> Table: ...
    def iter_batches(self, batch_size: int = 65536, *, columns: list[str] | None = None) -> Iterator[RecordBatch]: ...

class ParquetWriter:
    def __init__(self, where: str | PathLike[str], schema: Schema, *, compression: str = "snappy") -> None: ...
    def __enter__(self) -> ParquetWriter: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def write_table(self, table: Table) -> None: ...
    def write_batch(self, batch: RecordBatch) -> None: ...
    def close(self) -> None: ...
