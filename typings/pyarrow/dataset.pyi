from os import PathLike

from pyarrow import Table

class Dataset:
    def to_table(self) -> Table: ...

def dataset(source: str | PathLike[str], *, partitioning: str | None = None) -> Dataset: ...
