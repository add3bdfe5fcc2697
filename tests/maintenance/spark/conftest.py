"""What an analysis runs on: every test of it on both engines."""

import pytest
from made_engines import MadeEngine

from freshkeeper.maintenance.analysis.judging import DuckDB


@pytest.fixture(scope="module", params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> MadeEngine:
    if request.param == "duckdb":
        return MadeEngine("duckdb", DuckDB)
    spark = request.getfixturevalue("spark")
    from freshkeeper.maintenance.analysis.spark_engine import Spark

    return MadeEngine("spark", lambda: Spark(spark))
