"""The table `timeline` of an analysis and the figures that are made of it, worked by hand."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from freshkeeper.simulator.experiment.run_directory import read_whole
from freshkeeper.simulator.report.figures import figures_of_settings
from freshkeeper.simulator.report.groups import groups

Make = Callable[..., Path]
DAY = 86_400_000


def timeline(path: Path) -> Sequence[Mapping[str, Any]]:
    """The only line of a run."""
    return read_whole(path).analysis.tables["timeline"]


def column(path: Path, name: str) -> list[Any]:
    return [row[name] for row in timeline(path)]


def figures(path: Path) -> set[str]:
    """The keys of the figures that a run has."""
    (group,) = groups(read_whole(path))
    return {figure.key for figure in figures_of_settings(group)}


def test_freshness_is_the_mean_over_seeds_with_its_band(make_run: Make) -> None:
    path = make_run({"ibm": [0.4, 0.6]}, evaluations=3)
    assert column(path, "x") == [1, 2, 3]
    assert column(path, "freshness") == pytest.approx([1, 0.5, 0.5])
    assert column(path, "freshness_ci95") == pytest.approx([0, 1.27062, 1.27062], rel=1e-4)


def test_stale_answers_accumulate_from_the_end_of_the_warm_up(make_run: Make) -> None:
    path = make_run({"ibm": [0.4]}, evaluations=4, warmup=2)
    assert column(path, "stale") == [None, None, 60, 120]
    assert set(column(path, "warmup_ends")) == {2.5}


def test_a_long_run_is_thinned_by_means(make_run: Make, write_table: Make) -> None:
    """Of 400 evaluations two make a point: 200 points are as many as a screen shows."""
    path = make_run({"ibm": [0.5]})
    rows = [{"policy": "ibm", "k": k, "results": 1.0, "fresh": float(k % 2), "spent": float(k)} for k in range(1, 401)]
    write_table(path, "evaluations", rows)
    assert column(path, "spent")[:3] == [1.5, 3.5, 5.5]
    assert column(path, "stale")[:3] == [1, 2, 3]
    assert column(path, "x")[-1] == 400
    assert set(column(path, "evaluations")) == {2}


def test_evaluations_without_answers_leave_a_gap(make_run: Make, write_table: Make) -> None:
    path = make_run({"ibm": [0.5]})
    rows = [{"policy": "ibm", "k": k, "results": float(k != 2), "fresh": 0.0} for k in (1, 2, 3)]
    write_table(path, "evaluations", rows)
    assert column(path, "freshness") == [0, None, 0]


def test_instants_are_dates_where_there_are_any_and_offsets_elsewhere(make_run: Make) -> None:
    assert column(make_run({"ibm": [0.5]}, t0=20_000 * DAY), "x")[0] == 20_000 * DAY + 1000
    assert column(make_run({"ibm": [0.5]}, "b"), "x")[0] == 1
    assert column(make_run({"ibm": [0.5, 0.6]}, "c", t0=20_000 * DAY), "x")[0] == 20_000 * DAY + 1000


def test_fetches_that_touched_no_network_are_no_latency(make_run: Make) -> None:
    assert "fetch" not in figures(make_run({"ibm": [0.5]}))


def test_lines_are_there_without_answers_and_staleness_is_not(make_run: Make) -> None:
    assert figures(make_run({"ibm": [0.5], "lru": [0.4]})) == {"freshness", "over-time", "stale", "spent", "decide"}
