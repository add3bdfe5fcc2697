"""A cluster of processes, some of them killed: what is simulated, analysed, enriched and shown is as it is here."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import enriched
import pytest
import spark_cluster
from pyarrow import dataset, parquet

from freshkeeper.maintenance.analysis.analysis import analyse
from freshkeeper.maintenance.analysis.judging import DuckDB
from freshkeeper.maintenance.analysis.spark_session import LEAST_JAVA, java_version
from freshkeeper.maintenance.spark.enrich import read_journal
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif((java_version() or 0) < LEAST_JAVA, reason=f"no Java {LEAST_JAVA}: make java installs it"),
]
TIMINGS = {"decide_us", "fetch_ms", "latency_ms"}
LAST = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[spark_cluster.Cluster]:
    made = spark_cluster.Cluster.started(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def place(cluster: spark_cluster.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two drivers did, the first of which was killed, and four workers."""
    place = tmp_path_factory.mktemp("there")
    dropped(place)
    shutil.copytree(place, place / "killed", copy_function=shutil.copy2)
    for life, ends in (("first", -signal.SIGKILL), ("second", 0)):
        command = [sys.executable, spark_cluster.__file__, life, str(place), cluster.master, str(cluster.place)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240, cwd=place)
        assert done.returncode == ends, f"{life}: {done.stderr}"
    assert len(cluster.workers()) == 2
    return place


def dropped(place: Path) -> None:
    """The events of the first seconds, in two micro-batches."""
    enriched.drop(place, 12)
    for path in sorted((place / "events").iterdir())[2:]:
        path.unlink()


def test_what_is_simulated_and_analysed_there_is_what_it_is_here(place: Path, tmp_path: Path) -> None:
    simulate(resolve(spark_cluster.EXPERIMENT), tmp_path / "run")
    for name in ("evaluations", "refreshes", "answers", "changes"):
        both = [parquet.read_table(each / "run" / f"{name}.parquet") for each in (tmp_path, place)]
        one, other = (table.select([c for c in table.column_names if c not in TIMINGS]) for table in both)
        assert one == other
    told = analyse(DuckDB(), str(place / "run"), str(tmp_path / "told"))
    for name in ("freshness", "missed", "by_degree", "staleness", "wasted", "top_stale"):
        rows = parquet.read_table(place / "told" / f"{name}.parquet", partitioning=None).to_pylist()
        assert rows == [pytest.approx(row) for row in told[name]]


@pytest.mark.parametrize("killed", ["worker", "driver"])
def test_what_is_enriched_there_is_what_one_manager_answers(place: Path, tmp_path: Path, killed: str) -> None:
    """The same answers, and as many requests as the ledger paid for, the same ones."""
    there = place / "killed" if killed == "driver" else place
    rows, evaluations = enriched.single_process(tmp_path / "requests", spark_cluster.POLICY)
    table = dataset.dataset(there / "answers", partitioning=None).to_table()
    found = sorted((*list(row.values())[:-1], round(row["fresh"], 9)) for row in table.to_pylist())
    last = max(row[0] for row in found)
    assert last >= LAST
    assert found == [row for row in rows if row[0] <= last]
    asked = enriched.asked(there)
    spent = read_journal(there / "state", "evaluations")["spent"].to_pylist()
    assert sum(map(len, asked.values())) == sum(spent) == sum(len(e.refreshes.keys) for e in evaluations[:last])


def test_a_notebook_shows_there_what_was_kept_of_it_here(place: Path) -> None:
    cells = json.loads(spark_cluster.NOTEBOOK.with_suffix(".ipynb").read_text())["cells"]
    kept = [out["text"] for cell in cells for out in cell.get("outputs", []) if out.get("name") == "stdout"]
    assert (place / "said").read_text() == "".join("".join(lines) for lines in kept)
