from os import PathLike

from pyarrow import Schema, Table

class ParseOptions:
    def __init__(self, *, explicit_schema: Schema | None = None, unexpected_field_behavior: str = "infer") -> None: ...

def read_json(source: str | PathLike[str], parse_options: ParseOptions | None = None) -> Table: ...
