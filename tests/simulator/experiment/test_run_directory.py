"""Reading a run directory: what is there is read, what is wrong is said in one line, what is missing is noted."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from freshkeeper.maintenance.base.errors import FreshkeeperError, InputError
from freshkeeper.maintenance.journal.run_json import RunError
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.experiment.run_directory import Run, Series
from freshkeeper.simulator.experiment.scores import scores

Make = Callable[..., Path]


def series(run: Run) -> list[Series]:
    return [score.series for score in scores(run)]


def test_scores_come_in_the_order_of_run_json(make_run: Make) -> None:
    run = run_directory.read(make_run({"sbm": [0.4, 0.5], "ibm": [0.6, 0.7]}, evaluations=3))
    assert series(run) == [Series("bgp", "exact", "default", "sbm"), Series("bgp", "exact", "default", "ibm")]
    assert run.notes == []


def test_a_production_journal_has_neither_run_json_nor_the_truth(make_run: Make) -> None:
    path = make_run({"ibm": [0.9]}, expected=True)
    (path / "run.json").unlink()
    run = run_directory.read(path)
    (score,) = scores(run)
    assert score.expected
    assert score.freshness.mean == pytest.approx(0.9)
    assert "run.json" in run.notes[0]
    assert "expected by the engine" in run.analysis.remarks[0]


def test_bounds_are_known_by_name_where_run_json_does_not_say(make_run: Make) -> None:
    path = make_run({"ibm": [0.9], "clairvoyant": [0.95]})
    (path / "run.json").unlink()
    run = run_directory.read(path)
    assert run.contender("clairvoyant").is_bound
    assert not run.contender("ibm").is_bound


@pytest.mark.parametrize("column", ["policy", "seed", "warmup", "requests"])
def test_evaluations_of_another_version_are_refused_in_one_line(make_run: Make, column: str) -> None:
    path = make_run({"ibm": [0.9]}, without=[column])
    with pytest.raises(InputError, match=f"no column '{column}': another version of freshkeeper wrote it") as refused:
        run_directory.read(path)
    assert "\n" not in str(refused.value)


def test_what_is_no_run_directory_is_said_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path, words in ((tmp_path / "nowhere", "does not exist"), (file, "is a file"), (tmp_path, "neither")):
        with pytest.raises(RunError, match=words) as caught:
            run_directory.read(path)
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, FreshkeeperError)


def test_a_run_without_evaluations_did_not_finish(make_run: Make) -> None:
    path = make_run({"ibm": [0.9]})
    (path / "evaluations.parquet").unlink()
    with pytest.raises(RunError, match="no evaluations: nothing was answered, or the run did not finish"):
        run_directory.read(path)


def test_a_broken_table_is_named(make_run: Make) -> None:
    path = make_run({"ibm": [0.9]})
    (path / "evaluations.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(InputError, match=r"cannot be analysed: it has neither evaluations\.parquet") as caught:
        run_directory.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "it must have keys of its own, not"),
        ('{"settings": {"a": {"budget": "ten"}}}', "settings.a.budget: it must be a valid number, not 'ten'"),
    ],
)
def test_a_broken_run_json_is_named(make_run: Make, text: str, words: str) -> None:
    path = make_run({"ibm": [0.9]})
    (path / "run.json").write_text(text)
    with pytest.raises(RunError, match=words) as caught:
        run_directory.read(path)
    assert "\n" not in str(caught.value)


def test_unknown_keys_of_a_newer_version_do_no_harm(make_run: Make) -> None:
    path = make_run({"ibm": [0.9]})
    about = json.loads((path / "run.json").read_text()) | {"weather": "fine"}
    (path / "run.json").write_text(json.dumps(about))
    assert run_directory.read(path).about.freshkeeper == "0.2.0"


def test_nulls_are_not_a_number(make_run: Make, write_table: Make) -> None:
    path = make_run({"ibm": [0.9]})
    write_table(path, "evaluations", [{"policy": "ibm", "k": 1, "results": None, "fresh": None, "warmup": None}])
    (score,) = scores(run_directory.read(path))
    assert score.evaluations == 0
    assert np.isnan(score.freshness.mean)
