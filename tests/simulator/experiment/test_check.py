"""The check that cron runs: codes and lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tables import table_of

from freshkeeper.maintenance.journal import journal
from freshkeeper.simulator.experiment.check import check

Make = Callable[..., Path]
DAY = 1_700_000_000_000


@pytest.mark.parametrize(("freshness", "code", "word"), [(0.96, 0, "OK"), (0.93, 1, "WARN"), (0.89, 2, "ERROR")])
def test_the_mean_decides(make_run: Make, freshness: float, code: int, word: str) -> None:
    found, lines = check(make_run({"ibm": [freshness] * 3}))
    assert found == code
    assert lines[0].startswith(f"{word}: ibm: {100 * freshness:.2f}% of the answers fresh")


def test_a_threshold_itself_is_fresh_enough(make_run: Make) -> None:
    assert check(make_run({"ibm": [0.75]}), warn=0.75, error=0.5)[0] == 0


def test_the_warm_up_does_not_count(make_run: Make) -> None:
    assert check(make_run({"ibm": [0.0]}, warmup=9), warn=0.5, error=0.4)[0] == 2


def test_a_threshold_within_the_interval_is_said(make_run: Make) -> None:
    code, lines = check(make_run({"ibm": [0.92, 0.98]}), warn=0.94)
    assert code == 0
    assert "which may be on either side of 94.00% and 90.00%" in lines[0]


def test_a_production_journal_is_checked_by_what_is_expected(make_run: Make) -> None:
    path = make_run({"ibm": [0.97]}, expected=True, t0=DAY)
    (path / "run.json").unlink()
    code, lines = check(path)
    assert code == 0
    assert "97.00% of the answers expected fresh" in lines[0]
    assert "last evaluation 2023-11-14T22:13:30" in lines[0]


def test_the_worst_of_all_policies_decides_and_comes_first(make_run: Make) -> None:
    path = make_run({"ibm": [0.97], "lru": [0.5], "clairvoyant": [0.3]})
    code, lines = check(path)
    assert code == 2
    assert [line.split(":")[1].strip() for line in lines] == ["lru", "ibm"]
    assert check(path, policy="ibm")[0] == 0
    assert check(path, policy="clairvoyant")[0] == 2


def test_an_error_outweighs_what_cannot_be_told_and_that_a_warning(make_run: Make) -> None:
    assert check(make_run({"a": [None], "b": [0.5]}))[0] == 2
    assert check(make_run({"a": [None], "b": [0.93]}, name="other"))[0] == 3


def test_a_journal_in_which_nothing_was_answered_is_unknown(make_run: Make, write_table: Make) -> None:
    code, (line,) = check(make_run({"a": [None]}))
    assert (code, line.startswith("UNKNOWN: a: nothing was answered")) == (3, True)
    path = make_run({"a": [0.5]}, name="other")
    write_table(path, "evaluations", [])
    assert check(path) == (3, [f"UNKNOWN: {path} has no evaluations: nothing was answered"])


def test_settings_are_named_where_there_are_several(make_run: Make) -> None:
    path = make_run({"budget=5": {"ibm": [0.5]}, "budget=9": {"ibm": [0.97]}})
    assert [line.split(":")[1].strip() for line in check(path)[1]] == ["ibm (budget=5)", "ibm (budget=9)"]


def test_the_last_evaluations_alone_may_be_asked_for(make_run: Make, write_table: Make) -> None:
    path = make_run({"ibm": [0.9]})
    fresh = [1.0] * 50 + [0.0] * 2
    rows = [{"policy": "ibm", "k": k, "t_ms": k, "results": 1.0, "fresh": f} for k, f in enumerate(fresh)]
    write_table(path, "evaluations", rows)
    assert check(path)[0] == 0
    assert check(path, last=4)[0] == 2


def test_over_budget_and_failed_fetches_are_said(make_run: Make, write_table: Make) -> None:
    path = make_run({"ibm": [0.99]})
    row = {"policy": "ibm", "k": 1, "results": 1.0, "fresh": 1.0, "budget": 2.0, "spent": 3.0, "errors": 7}
    write_table(path, "evaluations", [row])
    line = check(path)[1][0]
    assert "over budget" in line
    assert "7 fetches failed" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"warn": 0.8, "error": 0.9}, "0 ≤ error ≤ warn ≤ 1"),
        ({"warn": 95}, "0 ≤ error ≤ warn ≤ 1"),
        ({"policy": "imb"}, "did you mean 'ibm'?"),
        ({"last": 0}, "1 or more"),
    ],
)
def test_a_question_that_makes_no_sense_could_not_be_told(
    make_run: Make, arguments: dict[str, Any], words: str
) -> None:
    code, lines = check(make_run({"ibm": [0.99]}), **arguments)
    assert code == 3
    assert lines[0].startswith("UNKNOWN")
    assert words in lines[0]


def test_a_directory_that_is_none_could_not_be_told(tmp_path: Path) -> None:
    code, lines = check(tmp_path)
    assert code == 3
    assert "not a run directory" in lines[0]


def test_bounds_alone_could_not_be_told(make_run: Make) -> None:
    assert check(make_run({"unlimited": [1.0]}))[0] == 3


@pytest.mark.parametrize(
    ("audits", "code", "first"),
    [(29, 0, "OK: ibm: 97.00% of the answers"), (40, 2, "ERROR: ibm: 50.00% of 40 audited")],
)
def test_audits_decide_where_nobody_knows_the_truth_and_there_are_enough(
    make_run: Make, audits: int, code: int, first: str
) -> None:
    path = make_run({"ibm": [0.97]}, expected=True, t0=DAY)
    (setting,) = set(table_of(path, "evaluations")["setting"].to_pylist())
    (last, *_) = sorted(table_of(path, "evaluations")["t_ms"].to_pylist(), reverse=True)
    fresh = [n % 2 == 0 for n in range(audits)] + [None]
    columns = {"setting": setting, "policy": "ibm", "seed": 0, "k": 0, "t_ms": last, "sn": "a"}
    rows = {name: [value] * len(fresh) for name, value in columns.items()} | {"fresh": fresh}
    journal.write(path, "audits", [journal.table("audits", rows)])
    found, lines = check(path)
    assert found == code
    assert lines[0].startswith(first)
    assert "audited answers fresh (" in lines[0]
    assert "97.00% of the answers expected fresh" in lines[0]
