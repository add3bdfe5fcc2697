"""Series over the evaluations, worked by hand."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.report.charts import HEIGHT, LABEL_PX, apart, frame
from freshkeeper.simulator.report.timeline import Measure, are_dates, line, warmup_ends

Make = Callable[..., Path]
DAY = 86_400_000


def test_freshness_is_the_mean_over_seeds_with_its_band(make_run: Make) -> None:
    evaluations = run_directory.read(make_run({"ibm": [0.4, 0.6]}, evaluations=3)).evaluations
    found = line(evaluations, 0, Measure.FRESHNESS, points=10)
    assert found.x.tolist() == [1, 2, 3]
    assert found.mean == pytest.approx([1, 0.5, 0.5])
    assert found.half == pytest.approx([0, 1.27062, 1.27062], rel=1e-4)


def test_stale_answers_accumulate_from_the_end_of_the_warm_up(make_run: Make) -> None:
    evaluations = run_directory.read(make_run({"ibm": [0.4]}, evaluations=4, warmup=2)).evaluations
    found = line(evaluations, 0, Measure.STALE, points=10)
    assert (found.x.tolist(), found.mean.tolist()) == ([3, 4], [60, 120])
    assert warmup_ends(evaluations, evaluations.rows(0), dates=False) == 2.5


def test_a_long_run_is_thinned_by_means(make_run: Make, write_table: Make) -> None:
    path = make_run({"ibm": [0.5]})
    rows = [{"policy": "ibm", "k": k, "results": 1.0, "fresh": float(k % 2), "spent": float(k)} for k in range(1, 8)]
    write_table(path, "evaluations", rows)
    evaluations = run_directory.read(path).evaluations
    assert line(evaluations, 0, Measure.SPENT, points=4).mean.tolist() == [1.5, 3.5, 5.5, 7]
    assert line(evaluations, 0, Measure.STALE, points=4).mean.tolist() == [1, 2, 3, 3]


def test_evaluations_without_answers_leave_a_gap(make_run: Make, write_table: Make) -> None:
    path = make_run({"ibm": [0.5]})
    rows = [{"policy": "ibm", "k": k, "results": float(k != 2), "fresh": 0.0} for k in (1, 2, 3)]
    write_table(path, "evaluations", rows)
    found = line(run_directory.read(path).evaluations, 0, Measure.FRESHNESS, points=9)
    assert found.x.tolist() == [1, 2, 3]
    assert np.isnan(found.mean).tolist() == [False, True, False]


def test_a_pause_between_evaluations_is_a_gap_as_well(make_run: Make, write_table: Make) -> None:
    path = make_run({"ibm": [0.5]})
    rows = [{"policy": "ibm", "k": k, "results": 1.0, "fresh": 1.0} for k in (1, 2, 3, 9, 10)]
    write_table(path, "evaluations", rows)
    found = line(run_directory.read(path).evaluations, 0, Measure.FRESHNESS, points=9)
    assert found.x.tolist() == [1, 2, 3, 6, 9, 10]
    assert np.flatnonzero(np.isnan(found.mean)).tolist() == [3]


def test_instants_are_dates_in_production_alone(make_run: Make) -> None:
    production = run_directory.read(make_run({"ibm": [0.5]}, t0=20_000 * DAY)).evaluations
    assert are_dates(production)
    assert line(production, 0, Measure.FRESHNESS, 50, dates=True).x[0] == 20_000 * DAY + 1000
    assert not are_dates(run_directory.read(make_run({"ibm": [0.5]}, "b")).evaluations)
    assert not are_dates(run_directory.read(make_run({"ibm": [0.5, 0.6]}, "c", t0=20_000 * DAY)).evaluations)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=25))
def test_names_are_a_line_apart_in_their_order_and_inside_the_axis(ends: list[float]) -> None:
    low, high = frame(ends, cap=1.0)
    found = apart(ends, low, high)
    slack = 1e-9 * (1 + abs(high))
    assert found.min() >= low - slack
    assert found.max() <= high + slack
    gap = min((high - low) * LABEL_PX / HEIGHT, (high - low) / max(len(ends) - 1, 1))
    assert (np.diff(np.sort(found)) >= gap - slack).all()
    assert (np.argsort(found, kind="stable") == np.argsort(ends, kind="stable")).all()


def test_names_with_room_stay_where_they_are() -> None:
    assert apart([0.2, 0.8], 0, 1).tolist() == pytest.approx([0.2, 0.8])


def test_an_axis_ends_at_round_numbers() -> None:
    assert list(frame([0.23, 0.58])) == pytest.approx([0.2, 0.6])
    assert frame([0.5, 0.99], cap=1.0)[1] == 1
    assert frame([7, 12], zero=True)[0] == 0
    assert frame([0.0])[1] > 0
