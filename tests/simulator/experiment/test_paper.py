"""Runs by the name of their config, their freshness as a table, and gains of one policy over another."""

from pathlib import Path

import pytest

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.paper import Runs, freshness_table, headline_rows, latex_table, lifts
from freshkeeper.simulator.experiment.summary import read_summary

KEYS = {"workload": {"edges": 200}, "evaluations": 12, "seeds": 1, "sweep": {"budget": [3, 5]}, "bank": "window"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("paper") / "small"
    simulate(resolve({**KEYS, "policies": ["sbm", "ibm", {"name": "fba", "literal": True}]}), place)
    return place


def test_the_table_has_percents_the_bound_and_an_asterisk_for_those_over_budget(run: Path) -> None:
    head, *rows = freshness_table(run)
    assert head == ["setting", "sbm", "ibm", "fba(literal=true)", "bound"]
    assert [row[0] for row in rows] == ["budget=3", "budget=5"]
    ibm = next(row for row in read_summary(run / "summary.csv") if (row.setting, row.policy) == ("budget=3", "ibm"))
    assert ibm.freshness is not None
    assert ibm.share_of_bound is not None
    assert rows[0][2] == f"{100 * ibm.freshness:.1f}"
    assert float(rows[0][4]) == pytest.approx(100 * ibm.freshness / ibm.share_of_bound, abs=0.05)
    assert "* (" in rows[0][3]


def test_a_lift_is_relative_to_the_baseline_setting_by_setting(run: Path) -> None:
    of = {(row.setting, row.policy): row.freshness or 0 for row in read_summary(run / "summary.csv")}
    expected = {name: of[name, "ibm"] / of[name, "sbm"] - 1 for name in ("budget=3", "budget=5")}
    assert lifts(run, "ibm", "sbm") == pytest.approx(expected)


def test_a_run_that_is_there_is_taken_and_another_is_made_once(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny").write_text("workload: {edges: 60}\nevaluations: 5\npolicies: [lru]\n")
    monkeypatch.chdir(tmp_path)
    runs = Runs(tmp_path / "made", seeds=1, ready=run.parent)
    assert runs.of("small") == run
    made = runs.of("tiny")
    assert made == tmp_path / "made" / "tiny"
    before = (made / "run.json").stat().st_mtime_ns
    assert (runs.of("tiny") / "run.json").stat().st_mtime_ns == before


def test_a_config_that_does_not_come_along_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="there is no config fig9z; `freshkeeper config list` names those"):
        Runs(Path("made")).of("fig9z")


def test_a_latex_table_has_settings_by_policies_in_percent(run: Path) -> None:
    lines = latex_table(run).splitlines()
    assert lines[1:4] == [r"\begin{tabular}{lrrr}", r"\toprule", r"budget & sbm & ibm & fba(literal=true) \\"]
    rows = {(row.setting, row.policy): row for row in read_summary(run / "summary.csv")}
    for line, budget in zip(lines[5:7], (3, 5), strict=True):
        cells = [cell.strip() for cell in line.removesuffix(r" \\").split(" & ")]
        assert cells[0] == str(budget)
        for cell, policy in zip(cells[1:], ("sbm", "ibm", "fba(literal=true)"), strict=True):
            row = rows[f"budget={budget}", policy]
            assert row.freshness is not None
            assert f"{100 * row.freshness:.1f}" in cell
            assert cell.endswith("*") == row.over_budget
        assert line.count("textbf") == 1
    assert lines[7:] == [r"\bottomrule", r"\end{tabular}"]


def test_headline_rows_have_a_cell_for_every_swept_key(run: Path) -> None:
    rows = headline_rows(run)
    assert list(rows[0]) == [
        *("case", "knowledge", "budget", "policy", "seeds", "freshness", "ci95"),
        *("requests_per_evaluation", "over_budget"),
    ]
    summary = read_summary(run / "summary.csv")
    assert [(row["budget"], row["policy"]) for row in rows] == [(row.budget, row.policy) for row in summary]
    assert [row["freshness"] for row in rows] == pytest.approx([row.freshness for row in summary])
