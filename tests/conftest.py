"""One Spark session for all tests that need one, as starting Java takes seconds; and what counts as slow."""

import pytest
from hypothesis import settings

from freshkeeper.maintenance.pipeline.spark_session import LEAST_JAVA, SETTINGS, java_version, spark_session

settings.register_profile("busy", deadline=None)  # the machine may have other things to do
settings.load_profile("busy")

SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": f"{SETTINGS['spark.driver.extraJavaOptions']} -XX:TieredStopAtLevel=1",
}
"""For tables of some hundred rows: nothing to split, and nothing worth the time of the optimising compiler."""


settings.register_profile("quick", max_examples=20)


def pytest_configure(config: pytest.Config) -> None:
    """The loop of work draws a fifth of the examples; all of them are for `make test`."""
    if config.getoption("markexpr") == "not slow":
        settings.load_profile("quick")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs Spark is slow; what else is says so itself."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.fixture(scope="module")
def spark() -> object:
    """A session on two cores, the running one where there is one; skipped without Java."""
    if (java_version() or 0) < LEAST_JAVA:
        pytest.skip(f"no Java {LEAST_JAVA}: make java installs it")
    return spark_session("local[2]", SMALL)
