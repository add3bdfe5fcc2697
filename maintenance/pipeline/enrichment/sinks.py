"""Where answers go: files that a micro-batch replaces as a whole, or anything that takes a DataFrame and a number."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from freshkeeper.policies.errors import ConfigError, nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Sink: TypeAlias = Callable[["DataFrame", int], None]
"""May be called again with the same number and the same rows, after a kill; the second time replaces the first."""
FORMATS = ["parquet", "json", "csv", "orc"]


@dataclass(frozen=True)
class Files:
    """`path`/batch_id=N for micro-batch N, which is replaced when it comes again; Spark reads `path` as one table."""

    path: str
    format: str = "parquet"

    def __post_init__(self) -> None:
        """Refuse a format that cannot be written so."""
        if self.format not in FORMATS:
            raise ConfigError(f"answers cannot be written as {self.format!r}: {nearest(self.format, FORMATS)}")

    def __call__(self, answers: "DataFrame", batch: int) -> None:
        """Write one micro-batch."""
        answers.write.format(self.format).mode("overwrite").save(f"{self.path}/batch_id={batch}")
