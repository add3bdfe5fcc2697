"""What an analysis runs on: every test of it on both engines."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from freshkeeper.maintenance.pipeline.analysis.duckdb_engine import DuckDB


@dataclass(frozen=True)
class Made:
    """Makes an engine, a new one for each analysis."""

    name: str
    make: Callable[[], DuckDB]

    def __call__(self):
        return self.make()


@pytest.fixture(scope="module", params=["duckdb", "spark"])
def engine(request):
    if request.param == "duckdb":
        return Made("duckdb", DuckDB)
    spark = request.getfixturevalue("spark")
    from freshkeeper.maintenance.pipeline.analysis.spark_engine import Spark

    return Made("spark", lambda: Spark(spark))
