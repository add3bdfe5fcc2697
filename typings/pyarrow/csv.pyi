from collections.abc import Callable, Mapping, Sequence
from os import PathLike

from pyarrow import DataType, NativeFile, Table

class InvalidRow:
    expected_columns: int
    actual_columns: int
    number: int | None
    text: str

class ReadOptions:
    def __init__(self, *, use_threads: bool = True) -> None: ...

class ParseOptions:
    def __init__(
        self,
        *,
        delimiter: str = ",",
        newlines_in_values: bool = False,
        invalid_row_handler: Callable[[InvalidRow], str] | None = None,
    ) -> None: ...

class ConvertOptions:
    def __init__(
        self,
        *,
        column_types: Mapping[str, DataType] | None = None,
        null_values: Sequence[str] | None = None,
        strings_can_be_null: bool = False,
    ) -> None: ...

class WriteOptions:
    def __init__(self, *, include_header: bool = True, quoting_style: str = "needed") -> None: ...

def read_csv(
    source: str | PathLike[str],
    read_options: ReadOptions | None = None,
    parse_options: ParseOptions | None = None,
    convert_options: ConvertOptions | None = None,
) -> Table: ...
def write_csv(
    data: Table, output_file: str | PathLike[str] | NativeFile, write_options: WriteOptions | None = None
) -> None: ...
