"""One Spark session for all tests that need one: starting Java takes seconds."""

import pytest

SETTINGS = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}


@pytest.fixture(scope="module")
def spark() -> object:
    """A session on two cores, the running one where there is one; skipped without Java."""
    from maintenance.pipeline.session import LEAST_JAVA, java_version, spark_session

    if (java_version() or 0) < LEAST_JAVA:
        pytest.skip(f"no Java {LEAST_JAVA}: make java installs it")
    return spark_session("local[2]", SETTINGS)
