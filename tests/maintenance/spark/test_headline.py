"""The headline alone says what the whole analysis says of freshness, on every kind of journal."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshkeeper.__main__ import main
from freshkeeper.maintenance.analysis import judging
from freshkeeper.maintenance.analysis.analysis import analyse, headline_alone
from freshkeeper.maintenance.analysis.judging import DuckDB
from freshkeeper.maintenance.journal import journal
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
SIMULATED = {
    "workload": {"sns": 12, "srs": 10, "edges": 40},
    "policies": ["lru", "gain"],
    "sweep": {
        "start": ["warm", "cold"],
        "remote.latency_ms": [0, 300],
        "case": ["bgp", "aggregate"],
        "knowledge": ["exact", "learned"],
    },
    "budget": 3,
    "evaluations": 12,
    "seeds": 2,
    "bound": "never",
    "answers": True,
}
"""Both cases, known and unknown changes, views with misses, refreshes that come late."""
WHOSE = {"setting": "s", "policy": "p", "case": "bgp", "knowledge": "learned", "seed": 0}
EVALUATIONS = [
    {**WHOSE, "k": k, "t_ms": k * 1000, "warmup": k == 1, "results": 4.0, "fresh": 1.0, "expected_fresh": 2.5}
    for k in range(1, 5)
]
ANSWERS = [
    {**WHOSE, "k": k, "t_ms": k * 1000, "sn": sn, "sr": sr, "weight": 1 + k % 2, "refreshed_ms": None if k == 3 else 0}
    for k in range(1, 5)
    for sn in "mn"
    for sr in "ab"
]
CHANGES = [{**WHOSE, "sr": "a", "t_ms": 2500}, {**WHOSE, "sr": "b", "t_ms": 4000}]
AUDITS = [{**WHOSE, "k": k, "t_ms": k * 1000, "sn": "n", "fresh": k % 2 == 0} for k in range(1, 5)]
Rows = Sequence[Mapping[str, object]]
KINDS: Mapping[str, Mapping[str, Rows]] = {
    "production, audited": {"evaluations": EVALUATIONS, "answers": ANSWERS, "audits": AUDITS},
    "production, neither changes nor audits": {"evaluations": EVALUATIONS, "answers": ANSWERS},
    "truth and audits": {"evaluations": EVALUATIONS, "answers": ANSWERS, "changes": CHANGES, "audits": AUDITS},
    "no evaluations": {"answers": ANSWERS, "changes": CHANGES},
    "aggregates": {"answers": [{**row, "case": "aggregate"} for row in ANSWERS], "changes": CHANGES},
}


def told(digest: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What both ways tell."""
    return {name: [pytest.approx(row, abs=1e-12) for row in digest.get(name, ())] for name in ("freshness", "audits")}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    simulate(resolve(SIMULATED), run)
    return run


@pytest.mark.parametrize("most", [judging.SLICE, 3_000])
def test_it_is_that_of_the_whole_analysis_in_any_number_of_slices_and_writes_nothing(
    engine: Callable[[], DuckDB], simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    before = sorted(simulated.rglob("*"))
    whole = analyse(engine(), str(simulated), str(tmp_path / "told"))
    monkeypatch.setattr(judging, "SLICE", most)
    alone = headline_alone(engine(), str(simulated))
    assert alone["freshness"] == told(whole)["freshness"]
    assert len(alone["freshness"]) == 24
    assert sorted(simulated.rglob("*")) == before


@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_that_of_the_whole_analysis_whatever_there_is(
    engine: Callable[[], DuckDB], tmp_path: Path, kind: str
) -> None:
    for name, rows in KINDS[kind].items():
        columns = {part.name: [row.get(part.name) for row in rows] for part in journal.SCHEMAS[name]}
        journal.write(tmp_path, name, [journal.table(name, columns)])
    alone = headline_alone(engine(), str(tmp_path))
    whole = analyse(engine(), str(tmp_path))
    assert {name: alone.get(name, []) for name in ("freshness", "audits")} == told(whole)
    assert len(alone["freshness"]) == 1
    assert set(alone["cannot_tell"]) <= set(whole["cannot_tell"])


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[object, str, str]]:
    """Call the command on a journal with the truth; its exit code, output and errors."""
    for name, rows in {"evaluations": EVALUATIONS, "answers": ANSWERS, "changes": CHANGES}.items():
        columns = {part.name: [row.get(part.name) for row in rows] for part in journal.SCHEMAS[name]}
        journal.write(tmp_path, name, [journal.table(name, columns)])

    def run(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["freshkeeper", "analyse", str(tmp_path), "--headline", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return run


def test_the_command_tells_it_as_json_or_as_a_table(
    call: Callable[..., tuple[object, str, str]], tmp_path: Path
) -> None:
    code, out, _ = call("--json", "--target", "0.6")
    found = json.loads(out)
    assert (code, found["target"], found["freshness"]) == (
        0, 0.6, told(analyse(DuckDB(), str(tmp_path), target=0.6))["freshness"],
    )  # fmt: skip
    code, out, err = call()
    assert code == 0
    assert "truth" in out
    assert "analysis:" not in err


@pytest.mark.parametrize("words", [("--daily",), ("--out", "told")])
def test_what_is_not_written_needs_no_place(call: Callable[..., tuple[object, str, str]], words: Sequence[str]) -> None:
    code, _, err = call(*words)
    assert code == 2
    assert f"--headline writes nothing: leave out {words[0]}" in err


def test_on_a_cluster_s_file_system_answers_that_are_missing_or_no_parquet_are_told_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    from freshkeeper.maintenance.analysis.spark_engine import Spark

    columns = {part.name: [row.get(part.name) for row in EVALUATIONS] for part in journal.SCHEMAS["evaluations"]}
    journal.write(tmp_path, "evaluations", [journal.table("evaluations", columns)])
    digest = headline_alone(Spark(spark), f"file://{tmp_path}")
    assert digest["freshness"][0]["basis"] == "reported"
    assert any("answers.parquet is not there" in note for note in digest["cannot_tell"])
    (tmp_path / "answers.parquet").write_text("not at all")
    digest = headline_alone(Spark(spark), f"file://{tmp_path}")
    assert any("answers.parquet is not readable as Parquet" in note for note in digest["cannot_tell"])
