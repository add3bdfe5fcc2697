"""`freshkeeper analyse` as it is called: a table, JSON, and errors as one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from calls import Call, caller
from pyspark.sql import SparkSession

from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve

pytestmark = pytest.mark.filterwarnings("default")
SMALL: dict[str, Any] = {
    "workload": {"sns": 5, "srs": 4, "edges": 10},
    "evaluations": 10,
    "seeds": 1,
    "policies": "ibm",
}


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the command in a directory; gives its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    return caller(monkeypatch, capsys, "analyse")


def test_json_goes_to_standard_output_and_the_analysis_into_its_directory(
    spark: SparkSession, call: Call, tmp_path: Path
) -> None:
    simulate(resolve(SMALL | {"answers": True, "bound": "never"}), tmp_path / "run")
    code, out, err = call("run", "--out", "told", "--target", "0.5", "--json", "--set", "spark.sql.ansi.enabled=true")
    assert code == 0
    assert "on Spark, as --master or --set is given" in err
    assert json.loads(out) == json.loads((tmp_path / "told" / "analysis.json").read_text())
    assert json.loads(out)["target"] == 0.5
    assert not (tmp_path / "run" / "analysis").exists()


def test_a_table_is_printed_and_what_cannot_be_told_is_said_beside_it(call: Call, tmp_path: Path) -> None:
    simulate(resolve(SMALL | {"bound": "never"}), tmp_path / "run")
    code, out, err = call("run")
    assert code == 0
    assert "freshness" in out
    assert "ibm" in out
    assert "on DuckDB, as 0 answers are few enough for one machine" in err
    assert "answers.parquet is not there" in err
    assert "analysis: run/analysis" in err


def test_a_column_of_which_nothing_is_known_is_left_out(call: Call, tmp_path: Path) -> None:
    stale = {"workload": SMALL["workload"] | {"edges": 20, "change_interval_ms": [1000, 3000]}, "budget": 1}
    simulate(resolve(SMALL | stale | {"answers": True, "bound": "never"}), tmp_path / "run")
    whole, headline = (call("run", *words)[1] for words in ((), ("--headline",)))
    assert all(word in whole for word in ("ibm", "pooled", "in target", "wasted", "missed"))
    assert all(word in headline for word in ("ibm", "pooled", "in target"))
    assert not any(word in headline for word in ("wasted", "missed", "± 95"))


def test_a_run_that_is_not_there_is_one_line_and_not_a_trace(call: Call, tmp_path: Path) -> None:
    code, _, err = call("nowhere")
    assert (code, err) == (2, "freshkeeper: there is no directory nowhere: name a run directory or a journal\n")
    (tmp_path / "empty").mkdir()
    code, _, err = call("empty")
    assert code == 2
    assert "freshkeeper: empty cannot be analysed: it has neither" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine", "duck"), "there is no engine 'duck'; did you mean 'duckdb'"),
        (("--engine", "duckdb", "--master", "yarn"), "--master and --set are Spark's; leave them out"),
    ],
)
def test_an_engine_that_cannot_be_meant_is_one_line(call: Call, words: tuple[str, ...], said: str) -> None:
    code, _, err = call(".", *words)
    assert code == 2
    assert said in err


def test_what_is_on_a_cluster_is_not_for_this_process(call: Call) -> None:
    code, _, err = call("hdfs:///journals/today", "--engine", "duckdb")
    assert code == 2
    assert "DuckDB reads what is on this machine" in err


def test_more_answers_than_fit_one_machine_are_for_spark_and_without_java_for_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from freshkeeper.maintenance.analysis import engine_choice

    monkeypatch.setattr(engine_choice, "SMALL", 10)
    simulate(resolve(SMALL | {"answers": True, "bound": "never"}), tmp_path / "run")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    taken, why = engine_choice.chosen(str(tmp_path / "run"))
    assert taken.name == "duckdb"
    assert "lacks Java 17" in why
    taken.close()


def test_a_setting_that_is_not_of_spark_is_refused_before_java_is_asked_for(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, _, err = call("nowhere", "--set", "memory=4g")
    assert code == 2
    assert "--set memory: settings of Spark begin with spark." in err


def test_without_java_one_sentence_says_how_to_get_it(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, _, err = call(".", "--engine", "spark")
    assert code == 2
    assert err.startswith("freshkeeper: Spark needs Java 17 or newer: install it")
