"""All runs of a directory on one page."""

import csv
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.simulator.report.history import runs_in, write_history


@pytest.fixture
def two(make_run: Callable[..., Path], tmp_path: Path) -> Path:
    """Two runs, the one that comes first by name being the newer."""
    old, new = make_run({"lru": [0.4, 0.5], "plan": [0.6, 0.7]}, "z"), make_run({"plan": [0.8, 0.9]}, "a")
    os.utime(old / "run.json", (1000, 1000))
    os.utime(new / "run.json", (2000, 2000))
    return old.parent


def test_the_oldest_run_comes_first(two: Path) -> None:
    assert [place.name for place in runs_in(two)] == ["z", "a"]


def test_a_directory_may_lie_in_one_that_is_called_as_parts_of_a_run_are(
    two: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copied = shutil.copytree(two, tmp_path_factory.mktemp("around") / "parts" / "runs")
    assert len(runs_in(copied)) == 2


def test_every_policy_of_every_run_has_a_row_and_the_last_is_told_in_words(two: Path) -> None:
    page = write_history(two).read_text()
    rows = [line for line in page.splitlines() if line.startswith('<tr><th scope="row">')]
    assert [row.split(">")[2].split("<")[0] for row in rows] == ["z", "z", "a"]
    assert "In the last runs: lru, γ 10 45.0" in page
    assert "plan, γ 10 85.0" in page


def test_its_plot_is_there_as_png_and_as_csv(two: Path, tmp_path: Path) -> None:
    write_history(two, png=tmp_path / "plots", table=tmp_path / "plots")
    assert (tmp_path / "plots" / "history.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "plots" / "history.csv").open() as file:
        told = {(row["policy"], row["x"]): float(row["mid"]) for row in csv.DictReader(file)}
    assert told == {("lru, γ 10", "z"): 0.45, ("plan, γ 10", "z"): 0.65, ("plan, γ 10", "a"): 0.85}


def test_what_is_no_run_is_told_and_a_directory_without_runs_is_an_error(two: Path, tmp_path: Path) -> None:
    broken = two / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{}")
    assert "has no evaluations" in write_history(two).read_text()
    empty = tmp_path / "nothing"
    empty.mkdir()
    with pytest.raises(InputError, match="has no runs"):
        write_history(empty)
