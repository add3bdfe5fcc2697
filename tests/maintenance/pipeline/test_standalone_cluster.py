"""A cluster of processes, some of them killed: what is simulated, analysed and enriched there is what it is here."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import enriched
import pytest
import spark_cluster
from pyarrow import parquet
from pyarrow.dataset import dataset
from spark_cluster import Cluster

from freshkeeper.maintenance.pipeline.analysis import analyse
from freshkeeper.maintenance.pipeline.analysis.duckdb_engine import DuckDB
from freshkeeper.maintenance.pipeline.enrichment.batch_journal import read_journal
from freshkeeper.maintenance.pipeline.spark_session import LEAST_JAVA, java_version
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif((java_version() or 0) < LEAST_JAVA, reason=f"no Java {LEAST_JAVA}: make java installs it"),
]
TIMINGS = {"decide_us", "fetch_ms", "latency_ms"}
LAST = 4


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = spark_cluster.Cluster.started(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()


@pytest.fixture
def drive(cluster: Cluster, tmp_path: Path) -> Callable[..., Any]:
    """A driver of its own: its exit code, and what it said on standard error."""

    def run(what: str, *more: object) -> tuple[int, str]:
        command = [sys.executable, spark_cluster.__file__, what, str(tmp_path), cluster.master, *map(str, more)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240, cwd=tmp_path)
        return done.returncode, done.stderr

    return run


@pytest.fixture
def dropped(tmp_path: Path) -> Path:
    """The events of the first seconds, in two micro-batches."""
    enriched.drop(tmp_path, 12)
    for path in sorted((tmp_path / "events").iterdir())[2:]:
        path.unlink()
    return tmp_path


def test_workers_are_killed_while_it_simulates_analyses_and_enriches(
    cluster: Cluster, drive: Callable[..., Any], dropped: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    code, said = drive("jobs", cluster.place)
    assert code == 0, said
    assert len(cluster.workers()) == 2
    here = tmp_path_factory.mktemp("here")
    simulate(resolve(spark_cluster.EXPERIMENT), here / "run")
    for name in ("evaluations", "refreshes", "answers", "changes"):
        both = [parquet.read_table(place / "run" / f"{name}.parquet") for place in (here, dropped)]
        one, other = (table.select([c for c in table.column_names if c not in TIMINGS]) for table in both)
        assert one == other
    told = analyse(DuckDB(), str(dropped / "run"), str(here / "told"))
    for name in ("freshness", "missed", "by_degree", "staleness", "wasted", "top_stale"):
        rows = parquet.read_table(dropped / "told" / f"{name}.parquet", partitioning=None).to_pylist()
        assert rows == [pytest.approx(row) for row in told[name]]
    enriched_as_by_one_manager(dropped, here / "requests")


def test_the_driver_is_killed_while_it_enriches_and_goes_on(
    drive: Callable[..., Any], dropped: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    code, said = drive("enrich", "recorded", 3)
    assert code == -signal.SIGKILL, said
    code, said = drive("enrich", "", 0)
    assert code == 0, said
    enriched_as_by_one_manager(dropped, tmp_path_factory.mktemp("here") / "requests")


def enriched_as_by_one_manager(place: Path, requests: Path) -> None:
    """The same answers, and as many requests as the ledger paid for, the same ones."""
    rows, evaluations = enriched.single_process(requests, spark_cluster.POLICY)
    table = dataset(place / "answers", partitioning=None).to_table()
    found = sorted((*list(row.values())[:-1], round(row["fresh"], 9)) for row in table.to_pylist())
    last = max(row[0] for row in found)
    assert last >= LAST
    assert found == [row for row in rows if row[0] <= last]
    asked = enriched.asked(place)
    spent = read_journal(place / "state", "evaluations")["spent"].to_pylist()
    assert sum(map(len, asked.values())) == sum(spent) == sum(len(e.refreshes.keys) for e in evaluations[:last])
