"""One Spark session for all tests that need one, as starting Java takes seconds; and what counts as slow."""

import gc
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from quick_java import QUICK
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from freshkeeper.maintenance.analysis.spark_session import LEAST_JAVA, java_version, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

gc.disable()  # until all is collected: whatever tests import stays
settings.register_profile("busy", deadline=None)  # the machine may have other things to do
settings.register_profile("quick", deadline=None, max_examples=20)
settings.load_profile("busy")

SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.daemon.module": "warm_daemon",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent / "support"),
}
"""For tables of some hundred rows: nothing to split."""


def pytest_configure(config: pytest.Config) -> None:
    """Who starts Spark has a quick Java. The loop of work draws a fifth of the examples; all are for `make test`."""
    os.environ["SPARK_SUBMIT_OPTS"] = QUICK
    if config.getoption("markexpr") == "not slow":
        settings.load_profile("quick")


ALONE = ("test_standalone_cluster.py", "test_enrich_kills.py")
"""They start Spark in processes of their own, and need no session."""


class Together(LoadScopeScheduling):
    """In several processes the tests of a file share one, and with it their fixtures; all on Spark share a session."""

    def _split_scope(self, nodeid: str) -> str:
        return _process_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    """For all that are run in several processes."""
    return Together(config, log)


def _process_of(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    if file.endswith("test_documents.py"):
        return nodeid  # they share nothing
    return "spark" if ("spark" in nodeid) and not file.endswith(ALONE) else file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever needs Spark is slow; what else is says so itself. In several processes what takes longest goes first."""
    for item in items:
        if _on_spark(item):
            item.add_marker("slow")
    if hasattr(config, "workerinput"):
        slow = {_process_of(item.nodeid) for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: _turn(_process_of(item.nodeid), slow))


def pytest_collection_finish() -> None:
    """What all tests have imported, a million objects, is not looked at again by every collection of garbage."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """At the end it is, or libraries complain of what was never let go."""
    gc.unfreeze()


def _turn(process: str, slow: set[str]) -> int:
    """Before whom: a session and a cluster of Spark, documents and notebooks, files with slow tests, all others."""
    turns = (process == "spark", process.endswith(ALONE), "test_documents.py::" in process)
    return turns.index(True) if any(turns) else 3 + (process not in slow)


def pytest_runtest_teardown() -> None:
    """A command that was called in this process has made an interrupt of SIGTERM: what is forked later must not."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _on_spark(item: pytest.Item) -> bool:
    engine = item.callspec.params.get("engine") if hasattr(item, "callspec") else None
    return "spark" in getattr(item, "fixturenames", ()) or engine == "spark"


@pytest.fixture(scope="module")
def spark() -> "SparkSession":
    """A session on two cores, the running one where there is one; skipped without Java."""
    if (java_version() or 0) < LEAST_JAVA:
        pytest.skip(f"no Java {LEAST_JAVA}: make java installs it")
    return spark_session("local[2]", SMALL)
