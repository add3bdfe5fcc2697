"""One Spark session for all tests that need one, as starting Java takes seconds; and what counts as slow."""

import pytest
from hypothesis import settings

from freshkeeper.maintenance.pipeline.spark_session import LEAST_JAVA, SETTINGS, java_version, spark_session

settings.register_profile("busy", deadline=None)  # the machine may have other things to do
settings.register_profile("quick", deadline=None, max_examples=20)
settings.load_profile("busy")

SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": f"{SETTINGS['spark.driver.extraJavaOptions']} -XX:TieredStopAtLevel=1",
}
"""For tables of some hundred rows: nothing to split, and nothing worth the time of the optimising compiler."""


def pytest_configure(config: pytest.Config) -> None:
    """The loop of work draws a fifth of the examples; all of them are for `make test`."""
    if config.getoption("markexpr") == "not slow":
        settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever needs Spark is slow; what else is says so itself. In several processes files with slow ones go first."""
    for item in items:
        if _together(item) == "spark":
            item.add_marker("slow")
    if config.getoption("loadgroup", False):
        slow = {_together(item) for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: (_together(item) != "spark", _together(item) not in slow))
        for item in items:
            item.add_marker(pytest.mark.xdist_group(_together(item)))


def _together(item: pytest.Item) -> str:
    """Which tests share a process: all on Spark their session, the rest of a file its fixtures."""
    engine = item.callspec.params.get("engine") if hasattr(item, "callspec") else None
    needs = "spark" in getattr(item, "fixturenames", ()) or engine == "spark"
    return "spark" if needs else item.nodeid.partition("::")[0]


@pytest.fixture(scope="module")
def spark() -> object:
    """A session on two cores, the running one where there is one; skipped without Java."""
    if (java_version() or 0) < LEAST_JAVA:
        pytest.skip(f"no Java {LEAST_JAVA}: make java installs it")
    return spark_session("local[2]", SMALL)
