"""What the analysis of a run tells, as figures: each has a sentence, and what it draws is what the tables say."""

import json
from pathlib import Path

import pytest

from freshkeeper.maintenance.analysis.analysis import analyse
from freshkeeper.maintenance.analysis.engine_choice import chosen
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.run_directory import Run, read_whole
from freshkeeper.simulator.report.page import pictures, write_report

pytestmark = pytest.mark.slow

FIGURES = {"calibration", "stale-for", "by-change-rate", "by-degree", "stalest", "requests"}
SMALL = {"workload": {"sns": 12, "srs": 10, "edges": 40, "change_interval_ms": [1000, 9000]}, "evaluations": 30,
         "seeds": 2, "budget": 2, "knowledge": "learned", "bound": "never", "answers": True}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("judged") / "run"
    simulate(resolve(SMALL | {"policies": "lru,gain"}), place)
    return place


@pytest.fixture(scope="module")
def judged(run: Path) -> Run:
    return read_whole(run)


def test_a_small_run_is_judged_on_the_way_and_leaves_nothing_behind(run: Path, judged: Run) -> None:
    assert {"freshness", "calibration", "staleness", "top_stale", "wasted"} <= set(judged.analysis.tables)
    assert not (run / "analysis").exists()


def test_every_figure_is_there_with_a_sentence_that_names_the_policies(run: Path, judged: Run) -> None:
    found = {picture.key: picture for picture in pictures(judged)}
    assert set(found) >= FIGURES
    for key in FIGURES - {"stalest"}:
        assert "lru" in found[key].words, key
        assert "gain" in found[key].words, key
    assert "var(--blue" in found["stale-for"].svg or "var(--orange" in found["stale-for"].svg


def test_the_sentence_of_the_requests_says_what_the_table_says(run: Path, judged: Run) -> None:
    (picture,) = pictures(judged, "requests")
    for row in judged.analysis.tables["wasted"]:
        useful = row["refreshes"] - row["failed"] - row["misses"] - row["wasted"]
        assert (
            f"{100 * useful / row['refreshes']:.0f}\N{NO-BREAK SPACE}% of {row['policy']}'s found a change"
            in picture.words
        )


def test_what_analyse_left_is_read_unless_it_is_of_another_target_or_older_than_the_tables(
    run: Path, tmp_path: Path, judged: Run
) -> None:
    there = run / "analysis" / "analysis.json"
    analyse(chosen(str(run), "duckdb")[0], str(run), target=0.5)
    left = json.loads(there.read_text())
    there.write_text(json.dumps(left | {"freshness": [], "target": 0.5, "format": 1}))
    assert read_whole(run, 0.5).analysis.tables["freshness"]
    there.write_text(json.dumps(left | {"freshness": [], "target": 0.5}))
    assert read_whole(run, 0.5).analysis.tables["freshness"] == []
    assert read_whole(run, 0.8).analysis.tables["freshness"]
    (run / "answers.parquet").touch()
    assert read_whole(run).analysis.tables["freshness"] == judged.analysis.tables["freshness"]


def test_of_a_large_run_the_freshness_is_judged_on_the_way_and_the_page_says_so(
    run: Path, judged: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_directory, "MOST_ANSWERS_ANALYSED", 10)
    found = read_whole(run)
    assert not {"staleness", "by_degree", "top_stale", "missed"} & set(found.analysis.tables)
    assert found.analysis.tables["freshness"] == judged.analysis.tables["freshness"]
    assert {picture.key for picture in pictures(found)} & FIGURES == {"calibration", "requests"}
    page = write_report(run, tmp_path / "page.html").read_text()
    assert f"answers the freshness was judged; freshkeeper analyse {run} tells where stale ones come from." in page


def test_a_run_that_takes_long_is_not_judged_on_the_way(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_directory, "MOST_ANSWERS_JUDGED", 10)
    found = read_whole(run)
    assert "answers were not judged one by one: freshkeeper analyse" in found.notes[0]
    assert {row["basis"] for row in found.analysis.tables["freshness"]} == {"reported"}


def test_the_report_of_one_policy_has_its_own_charts_and_none_that_compares_it_with_itself(tmp_path: Path) -> None:
    simulate(resolve(SMALL | {"policies": "gain"}), tmp_path / "run")
    page = write_report(tmp_path / "run", png=tmp_path / "png", table=tmp_path / "csv").read_text()
    assert "Answer by answer" in page
    assert {f"{key}.png" for key in FIGURES} <= {file.name for file in (tmp_path / "png").iterdir()}
    assert {f"{key}.csv" for key in FIGURES} <= {file.name for file in (tmp_path / "csv").iterdir()}
    assert not (tmp_path / "png" / "freshness.png").exists()


def test_a_run_without_answers_has_a_report_all_the_same(tmp_path: Path) -> None:
    simulate(resolve(SMALL | {"policies": "gain", "answers": False}), tmp_path / "run")
    page = write_report(tmp_path / "run").read_text()
    assert "answers.parquet is not there" in page
    assert "stalest" not in page.split("<script")[0]
