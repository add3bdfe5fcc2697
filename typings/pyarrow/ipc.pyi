from pathlib import Path
from types import TracebackType

from pyarrow import Buffer, NativeFile, Schema, Table

class IpcWriteOptions:
    def __init__(self, *, compression: str | None = None, use_threads: bool = True) -> None: ...

class IpcReadOptions:
    def __init__(self, *, use_threads: bool = True) -> None: ...

class RecordBatchFileReader:
    def read_all(self) -> Table: ...

class RecordBatchFileWriter:
    def __enter__(self) -> RecordBatchFileWriter: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def write_table(self, table: Table) -> None: ...

def new_file(
    sink: NativeFile | str | Path, schema: Schema, *, options: IpcWriteOptions | None = None
) -> RecordBatchFileWriter: ...
def open_file(
    source: NativeFile | Buffer | bytes, *, options: IpcReadOptions | None = None
) -> RecordBatchFileReader: ...
