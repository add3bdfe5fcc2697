"""What notebooks show."""

from pathlib import Path

import pytest
from calls import Call, caller

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.notebook import figure, folded, freshness, judged_run
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("notebook") / "run"
    keys = {
        "workload": {"edges": 200},
        "evaluations": 12,
        "seeds": 2,
        "sweep": {"budget": [3, 5]},
        "policies": "lru,ibm",
    }
    simulate(resolve(keys), place)
    return place


def test_a_figure_is_a_picture_with_words_and_the_first_choice_unless_one_is_named(run: Path) -> None:
    first, other = figure(run, "over-time"), figure(run, "over-time", "budget=5")
    assert first.choice == "budget=3"
    assert first._repr_svg_().startswith("<svg")
    assert first._repr_svg_() != other._repr_svg_()
    assert "ibm" in repr(first)


@pytest.mark.parametrize(
    ("named", "words"), [(("over-tim",), "did you mean 'over-time'"), (("stale", "budget=4"), "did you mean 'budget=")]
)
def test_a_figure_that_is_not_there_is_one_line_with_a_near_match(
    run: Path, named: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        figure(run, *named)


def test_freshness_is_printed_as_a_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    freshness(run)
    assert "budget=5" in capsys.readouterr().out


def test_a_run_is_told_in_sentences_and_folded_tables_of_one_setting(run: Path) -> None:
    told = judged_run(run, 0.8, "budget=5")
    assert "ibm kept" in told.lead().words
    assert "80 % or more in" in told.lead().words
    assert "<details>" in told.table("budget", "policy", "spent").html
    assert "top stale: nothing is known" in told.table("top_stale", "policy").words
    assert "answers.parquet is not there" in told.limits().words


def test_what_has_no_picture_says_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged_run(run).figure("calibrations")
    assert "nothing is known of it" in capsys.readouterr().out


def test_a_setting_that_is_not_there_is_one_line(run: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'budget="):
        judged_run(run, setting="budget=6")


def test_what_is_folded_is_escaped() -> None:
    assert "&lt;b&gt;" in folded("t", ["head"], [["<b>"]]).html


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(tmp_path)
    return caller(monkeypatch, capsys, "notebook", "report")


@pytest.mark.filterwarnings("default")
def test_a_notebook_is_run_and_kept_as_one_page_that_loads_nothing(run: Path, call: Call, tmp_path: Path) -> None:
    code, out, err = call(str(run), "--setting", "budget=5", "--out", "page.html")
    assert (code, out) == (0, "page.html\n"), err
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page
    assert "<details>" in page
    assert "How fresh were the answers?" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "running the notebook" in err


@pytest.mark.filterwarnings("default")
def test_a_notebook_that_stops_says_why_in_one_line(run: Path, call: Call, tmp_path: Path) -> None:
    code, _, err = call(str(run), "--setting", "budget=6", "--out", "page.html")
    assert code == 2
    assert err.splitlines()[-1].startswith("freshkeeper: the notebook stopped: ")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [(("nowhere",), "nowhere is not a run directory: it does not exist"), ((".", "--target", "9"), "the target is 9")],
)
def test_what_cannot_be_reported_is_said_before_anything_runs(call: Call, words: tuple[str, ...], said: str) -> None:
    code, _, err = call(*words)
    assert code == 2
    assert said in err
