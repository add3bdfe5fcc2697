"""The window as files that the whole cluster sees: the counts of each micro-batch, for as long as they are needed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import COUNT, EARLIEST, FIRST, LAST, LATEST, Arrivals
from freshkeeper.policies.arrays import Ints


@dataclass(frozen=True, eq=False)
class Span:
    """How many mappings of a micro-batch have which first and last evaluation."""

    first: Ints
    last: Ints
    count: Ints

    @property
    def until(self) -> int:
        """The last evaluation that needs any of them."""
        return int(self.last.max(initial=-(2**62)))

    def mappings(self, k: int) -> int:
        """How many are in the window at evaluation k."""
        return int(self.count[(self.first <= k) & (k <= self.last)].sum())


@dataclass(frozen=True)
class WindowParts:
    """`place`/N for micro-batch N; `place` is a path of the driver and of all executors."""

    spark: SparkSession
    place: str

    def write(self, counts: DataFrame, batch: int) -> tuple[Arrivals, Span]:
        """Keep the counts of a micro-batch; only their sums over all keys come back."""
        counts.write.mode("overwrite").parquet(self._path(batch))
        sums = [F.min(EARLIEST).alias(EARLIEST), F.max(LATEST).alias(LATEST), F.sum(COUNT).alias(COUNT)]
        table = self.read([batch]).groupBy(FIRST, LAST).agg(*sums).toArrow().sort_by([(FIRST, "ascending")])
        first, last, earliest, latest, count = (
            np.asarray(table[name].to_numpy(), np.int64) for name in (FIRST, LAST, EARLIEST, LATEST, COUNT)
        )
        return Arrivals([None] * first.size, first, earliest, latest, count), Span(first, last, count)

    def read(self, batches: Sequence[int]) -> DataFrame:
        """The counts of some micro-batches."""
        return self.spark.read.parquet(*(self._path(batch) for batch in batches))

    def remove(self, batches: Sequence[int]) -> None:
        """What no window needs any more; wherever the files lie, by Hadoop's file system."""
        context = self.spark.sparkContext
        assert context._jvm is not None
        for batch in batches:
            path = context._jvm.org.apache.hadoop.fs.Path(self._path(batch))
            path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)

    def _path(self, batch: int) -> str:
        return f"{self.place}/{batch}"
