"""`freshkeeper replay`, and Spark as the place where experiments run, as they are called."""

import json
from pathlib import Path

import pytest
from calls import Call
from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("default")
SMALL = ["--set", "workload.edges=50", "--set", "workload.sns=10", "--set", "workload.srs=10", "--evaluations", "10",
         "--seeds", "2", "--no-report"]  # fmt: skip


def rows(out: str) -> list[dict[str, object]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in json.loads(out)["rows"]]


def test_a_run_is_replayed_with_other_policies_and_budgets_and_the_cheapest_is_named(
    call: Call, tmp_path: Path
) -> None:
    assert call("simulate", *SMALL, "--policy", "lru", "--budget", "2", "--out", "run")[0] == 0
    options = ["--policy", "lru,gain", "--budget", "1,2,9", "--no-report", "--target", ".5"]
    code, _, err = call("replay", "run", *options)
    assert code == 0
    assert "gain reaches 0.5 with γ = " in err
    assert "run directory: runs/run-replay" in err
    assert json.loads((tmp_path / "runs" / "run-replay" / "run.json").read_text())["seeds"] == [0, 1]


def test_a_journal_says_what_it_cannot_tell(call: Call, tmp_path: Path) -> None:
    call("simulate", *SMALL, "--policy", "lru", "--budget", "2", "--out", "run", "--set", "answers=true")
    (tmp_path / "run" / "run.json").unlink()
    assert "give it with --window" in call("replay", "run", "--no-report")[2]
    code, out, err = call(
        "replay", "run", "--window", "4s", "--policy", "ibm", "--no-report", "--json", "--out", "again"
    )
    assert code == 0
    assert "What was never answered is not known" in err
    assert (tmp_path / "again-trace" / "arrivals.parquet").exists()
    assert json.loads(out)["run"] == "again"


def test_on_spark_the_rows_are_those_of_a_local_run(call: Call, spark: SparkSession) -> None:
    options = [*SMALL, "--policy", "lru,ibm", "--budget", "1,2", "--json", "--set", "spark.sql.ansi.enabled=true"]
    here = call("simulate", *options, "--out", "here")[1]
    code, there, _ = call("simulate", *options, "--out", "there", "--on", "spark")
    assert code == 0
    assert rows(there) == rows(here)
    code, replayed, _ = call("replay", "here", "--budget", "2", "--on", "spark", "--no-report", "--json")
    assert [row | {"setting": {}} for row in rows(replayed)] == [
        row | {"setting": {}} for row in rows(here) if row["budget"] == 2
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["simulate", "--on", "moon"], "--on moon: choose local or spark"),
        (["simulate", "--master", "yarn"], "--master yarn is the master of Spark: add --on spark"),
        (["replay", "nowhere"], "there is no directory nowhere: name a run, a journal or a trace"),
        (["replay", "nowhere", "--target", "95"], "--target 95: it must be a freshness above 0 and below 1"),
    ],
)
def test_what_is_wrong_is_one_line(call: Call, options: list[str], words: str, tmp_path: Path) -> None:
    code, _, err = call(*options)
    assert code == 2
    assert words in err
    assert not (tmp_path / "runs").exists()
