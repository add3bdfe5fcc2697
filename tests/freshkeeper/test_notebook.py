"""What notebooks show."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from calls import Call, caller
from run_files import RunFiles

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.pages.notebook_page import write_notebook
from freshkeeper.notebook import figure, folded, freshness, judged_run
from freshkeeper.simulator.experiment.baselines import read_baselines
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.report.recorded_round import share_fresh, stalest_round

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


def test_a_notebook_as_a_page_has_tables_and_sentences_and_nothing_that_libraries_complain_of(tmp_path: Path) -> None:
    """What a kernel prints in pieces is one block."""
    printed = [{"output_type": "stream", "name": "stdout", "text": text} for text in ("one ", "block")]
    warning = {"output_type": "stream", "name": "stderr", "text": "WARNING: incubator"}
    cells = [{"cell_type": "code", "source": "", "outputs": [printed[0], warning, printed[1]]}]
    write_notebook(cells, tmp_path / "page.html", "title", "")
    page = (tmp_path / "page.html").read_text()
    assert "<pre>one block</pre>" in page
    assert "WARNING" not in page


def test_what_is_folded_is_escaped() -> None:
    assert "&lt;b&gt;" in folded("t", ["head"], [["<b>"]]).html


def test_a_policy_is_compared_with_a_ttl_cache_of_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged_run(run, setting="budget=5").beside_ttl()
    (cache,) = [one for one in read_baselines(run) if one.setting == "budget=5" and one.policy == "ttl"]
    assert cache.freshness is not None
    printed = capsys.readouterr().out.replace("\N{NO-BREAK SPACE}", " ")
    assert f"keeps {100 * cache.freshness:.1f} % fresh; ibm is " in printed


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a run over files, with a year's instants and the truth."""
    place = tmp_path_factory.mktemp("recorded")
    for _ in RunFiles(place).lines(journal=str(place / "journal")):
        pass
    return place / "journal"


def test_a_journal_is_compared_with_a_replayed_ttl_cache(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged = judged_run(recorded)
    assert "(mean over evaluations)" not in judged.lead().words
    judged.beside_ttl()
    assert re.search(r"whose entries live .* keeps \d+\.\d.% fresh; gain is .*points", capsys.readouterr().out)


def test_a_journal_in_which_nothing_was_answered_says_so(recorded: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    shutil.copytree(recorded, empty)
    for name in ("evaluations", "refreshes", "answers", "changes"):
        shutil.rmtree(empty / f"{name}.parquet", ignore_errors=True)
        (empty / f"{name}.parquet").unlink(missing_ok=True)
        journal.write(empty, name, [journal.table(name, {})])
    judged = judged_run(empty)
    assert judged.lead().words.endswith("nothing was answered.")
    with pytest.raises(InputError, match="has no answers, so no round can be made of it"):
        stalest_round(empty)


def test_a_round_of_a_journal_has_its_stalest_evaluation(tmp_path: Path) -> None:
    """At 2000 a is stale and b is not; a changes again within two steps, b within one."""
    rows = [("key 1", "a", 3, 0), ("key 1", "b", 3, 1500), ("key 2", "a", 2, 0)]
    columns: dict[str, list[Any]] = {
        "setting": [""] * 6, "policy": ["p"] * 6, "seed": [0] * 6, "k": [1] * 3 + [2] * 3,
        "t_ms": [2000] * 3 + [3000] * 3, "sn": [row[0] for row in rows] * 2, "sr": [row[1] for row in rows] * 2,
        "weight": [row[2] for row in rows] + [1, 1, 1], "refreshed_ms": [row[3] for row in rows] + [2500] * 3,
    }  # fmt: skip
    journal.write(tmp_path, "answers", [journal.table("answers", columns)])
    changes: dict[str, list[Any]] = {
        "setting": [""] * 3,
        "seed": [0] * 3,
        "sr": ["a", "a", "b"],
        "t_ms": [1000, 3500, 2600],
    }
    journal.write(tmp_path, "changes", [journal.table("changes", changes)])
    found = stalest_round(tmp_path)
    assert (found.keys, found.entries) == (["key 1", "key 2"], ["a", "b"])
    assert found.round.demand.tolist() == [[5, 2], [3, 1]]
    assert found.round.stale.tolist() == [True, False]
    assert found.round.fresh_if_refreshed.tolist() == [[1, 1], [1, 0]]
    assert share_fresh(found.round, [0]) == pytest.approx((5 + 2 + 3) / 11)


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(tmp_path)
    return caller(monkeypatch, capsys, "notebook")


def test_the_notebooks_are_listed_with_their_parameters(call: Call) -> None:
    code, out, _ = call("list")
    assert code == 0
    for name in ("00-one-round", "01-paper-figures", "02-freshness-report", "03-spark-enrichment", "04-what-budget"):
        assert name in out
    assert "target=0.9" in out


def test_a_notebook_is_copied_with_its_parameters_and_never_over_a_file(call: Call, run: Path, tmp_path: Path) -> None:
    code, out, _ = call("open", "02", str(run), "--set", "target=.8", "--no-start")
    assert (code, out) == (0, "02-freshness-report.ipynb\n")
    cells = json.loads((tmp_path / "02-freshness-report.ipynb").read_text())["cells"]
    (at,) = [n for n, cell in enumerate(cells) if "parameters" in cell["metadata"].get("tags", ())]
    assert cells[at + 1]["metadata"]["tags"] == ["injected-parameters"]
    assert "".join(cells[at + 1]["source"]) == f"target = 0.8\nrun = {str(run)!r}"
    code, _, err = call("open", "02", "--no-start")
    assert (code, err) == (2, "freshkeeper: 02-freshness-report.ipynb exists; --out names another file\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report", "--notebook", "09"), "there is no notebook '09'; "),
        (("report", "--set", "targe=1"), "02-freshness-report has no parameter 'targe'; did you mean 'target'?"),
    ],
)
def test_a_notebook_or_parameter_that_is_not_there_is_one_line(call: Call, words: tuple[str, ...], said: str) -> None:
    code, _, err = call(*words)
    assert code == 2
    assert said in err


@pytest.mark.filterwarnings("default")
def test_any_notebook_is_run_on_a_journal(call: Call, recorded: Path, tmp_path: Path) -> None:
    code, out, err = call("report", str(recorded), "--notebook", "00", "--set", "requests=1", "--out", "round.html")
    assert (code, out) == (0, "round.html\n"), err
    page = (tmp_path / "round.html").read_text()
    assert "With 1 request a TTL cache keeps" in page
    assert "lookup keys need" in page
    assert "<svg" in page


@pytest.mark.filterwarnings("default")
def test_a_notebook_is_run_and_kept_as_one_page_that_loads_nothing(run: Path, call: Call, tmp_path: Path) -> None:
    code, out, err = call("report", str(run), "--setting", "budget=5", "--out", "page.html")
    assert (code, out) == (0, "page.html\n"), err
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page
    assert "<details>" in page
    assert "How fresh were the answers?" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.filterwarnings("default")
def test_a_notebook_that_stops_says_why_in_one_line(run: Path, call: Call, tmp_path: Path) -> None:
    code, _, err = call("report", str(run), "--setting", "budget=6", "--out", "page.html")
    assert code == 2
    assert err.splitlines()[-1].startswith("freshkeeper: the notebook stopped: ")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report", "nowhere"), "nowhere is not a run directory: it does not exist"),
        (("report", ".", "--target", "9"), "the target is 9"),
    ],
)
def test_what_cannot_be_reported_is_said_before_anything_runs(call: Call, words: tuple[str, ...], said: str) -> None:
    code, _, err = call(*words)
    assert code == 2
    assert said in err
