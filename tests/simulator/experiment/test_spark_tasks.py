"""Sweeps on Spark: the same tables as on this machine, whatever fails in between."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from freshkeeper.maintenance.analysis.ship import packed
from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.run_parts import RunPart, read_parts
from freshkeeper.simulator.trace.trace import write_trace
from freshkeeper.simulator.trace.workload import Workload, generate

if TYPE_CHECKING:
    from freshkeeper.simulator.experiment.spark_tasks import SparkRuns

pytestmark = pytest.mark.filterwarnings("default")
TIMINGS = ("decide_us", "fetch_ms", "latency_ms")
SMALL: dict[str, Any] = {"sns": 10, "srs": 10, "edges": 40}
PLUGIN = """
import numpy as np
from freshkeeper.policies.base import BasePolicy, Selection

class First(BasePolicy):
    name = "first"
    def select(self, round, budget, rng):
        picked = np.flatnonzero(round.candidates)[: int(budget.available)]
        return Selection(picked, np.ones(picked.size))
"""


def content(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    found = {}
    for file in sorted(set(run.glob("*.parquet")) - {run / "parts.parquet"}):
        table = parquet.read_table(file)
        found[file.name] = table.select([name for name in table.column_names if name not in TIMINGS])
    about = json.loads((run / "run.json").read_text())
    return found, {key: value for key, value in about.items() if key not in ("command", "started", "written")}


@pytest.fixture(scope="module")
def on_spark(spark: SparkSession) -> "SparkRuns":
    from freshkeeper.simulator.experiment.spark_tasks import SparkRuns

    return SparkRuns(spark)


def test_a_sweep_on_spark_equals_the_local_one_row_for_row(on_spark: "SparkRuns", tmp_path: Path) -> None:
    experiment = resolve(
        {"workload": SMALL, "policies": "random,gain", "evaluations": 12, "seeds": 2, "answers": True,
         "sweep": {"workload.edges": [20, 40], "knowledge": ["exact", "learned"], "budget": [2, 3]}}
    )  # fmt: skip
    seen = []
    here = simulate(experiment, tmp_path / "here")
    there = simulate(experiment, tmp_path / "there", performed=on_spark, progress=lambda *part: seen.append(part[1:]))
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert [vars(row) | {"seconds": 0} for row in there] == [vars(row) | {"seconds": 0} for row in here]
    assert seen == [(n, 16) for n in range(1, 17)]
    assert not list((tmp_path / "there").glob(".*"))


def test_a_task_hands_back_what_it_did_not_come_to(on_spark: "SparkRuns", tmp_path: Path) -> None:
    experiment = resolve(
        {"workload": SMALL, "sweep": {"budget": [2, 3, 4]}, "policies": "lru", "evaluations": 5, "seeds": 6}
    )
    simulate(experiment, tmp_path / "here")
    simulate(experiment, tmp_path / "one-by-one", performed=replace(on_spark, task_s=0.0))
    assert content(tmp_path / "one-by-one") == content(tmp_path / "here")


def test_what_a_task_finished_before_a_mistake_is_kept(
    on_spark: "SparkRuns", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picky = PLUGIN.replace("picked =", "assert budget.available < 4, 'too rich'; picked =")
    (tmp_path / "picky.py").write_text(picky)
    monkeypatch.syspath_prepend(tmp_path)
    experiment = resolve(
        {"workload": SMALL, "policies": "picky:First", "sweep": {"budget": [2, 3, 4]}, "seeds": 4, "evaluations": 3}
    )
    with pytest.raises(FreshkeeperError, match=r"raised AssertionError in select\(\) at picky.py:8: too rich"):
        simulate(experiment, tmp_path / "there", performed=on_spark)
    files = (tmp_path / "there" / "parts").glob("*.arrow")
    finished = {(part.setting, part.seed) for file in files for part in read_parts(file)}
    assert {("budget=2", 0), ("budget=3", 0)} <= finished
    assert not any(setting == "budget=4" for setting, _ in finished)


def test_a_recorded_trace_is_sent_along_and_policies_of_ones_own_too(
    on_spark: "SparkRuns", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    write_trace(generate(Workload(**SMALL, duration_ms=10_000), 0), tmp_path / "trace")
    experiment = resolve({"trace": str(tmp_path / "trace"), "policies": "mine:First,ibm", "budget": 2, "seeds": 2})
    simulate(experiment, tmp_path / "here")
    simulate(experiment, tmp_path / "there", performed=on_spark)
    assert content(tmp_path / "there") == content(tmp_path / "here")


def test_what_an_earlier_run_finished_is_not_done_again(on_spark: "SparkRuns", tmp_path: Path) -> None:
    experiment = resolve({"workload": SMALL, "evaluations": 12, "seeds": 3, "policies": "ibm"})

    def stop(part: object, done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(experiment, tmp_path / "there", progress=stop)
    (finished,) = (tmp_path / "there" / "parts").glob("*.arrow")
    before = finished.stat().st_mtime_ns
    simulate(experiment, tmp_path / "there", resume=True, performed=lambda todo: kept(finished, before, on_spark(todo)))
    simulate(experiment, tmp_path / "here")
    assert content(tmp_path / "there") == content(tmp_path / "here")


def kept(finished: Path, before: int, parts: Iterator[RunPart]) -> Iterator[RunPart]:
    yield from parts
    assert finished.stat().st_mtime_ns == before


def test_what_is_wrong_with_a_task_is_said_in_one_line(
    on_spark: "SparkRuns", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text(PLUGIN.replace("picked.size)", "picked.size, 7)"))
    monkeypatch.syspath_prepend(tmp_path)
    experiment = resolve({"workload": SMALL, "policies": "broken:First", "seeds": 1, "evaluations": 3})
    with pytest.raises(FreshkeeperError, match=r"raised TypeError in select\(\) at broken.py:9") as failed:
        simulate(experiment, tmp_path / "there", performed=on_spark)
    assert "\n" not in str(failed.value)


@pytest.mark.slow
def test_the_same_code_is_the_same_zip_and_runs_from_it(tmp_path: Path) -> None:
    names = ("freshkeeper",)
    archive = packed(names, tmp_path)
    assert packed(names, tmp_path) == archive
    program = (
        f"import sys; sys.path.insert(0, {str(archive)!r});"
        "import freshkeeper.simulator.experiment.experiment as e; print(e.__file__);"
        "from freshkeeper.simulator.experiment.experiment_config import resolve; from pathlib import Path;"
        f"e.simulate(resolve({{'evaluations': 3, 'seeds': 1}}), Path({str(tmp_path / 'run')!r}))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert Path(said.stdout.strip()).is_relative_to(archive)


def test_a_module_that_is_not_there_cannot_be_sent(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'nothing_of_the_kind' cannot be sent to Spark"):
        packed(["nothing_of_the_kind"], tmp_path)
