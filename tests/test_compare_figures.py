"""`scripts/compare-figures` on small stand-ins for checkouts, whose one experiment reads its figures from a file."""

import os
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
STAND_IN = """
import sys
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet


def main():
    out = Path(sys.argv[sys.argv.index("--out") + 1])
    out.mkdir()
    freshness, column = Path(__file__).with_name("figures.txt").read_text().split()
    (out / "summary.csv").write_text(f"setting,policy,freshness,seconds\\nedges=5,ibm,{freshness},{id(out)}\\n")
    parquet.write_table(pa.table({column: [1, 2], "decide_us": [id(out), 0]}), out / "evaluations.parquet")
    if freshness == "fails":
        print("no such policy", file=sys.stderr)
        sys.exit(2)
"""


def checkout(place: Path, freshness: str = "0.5", column: str = "spent") -> Path:
    """Write a stand-in whose experiment has this freshness, and a table with a column of this name."""
    package = place / "freshkeeper"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(STAND_IN)
    (package / "figures.txt").write_text(f"{freshness} {column}")
    (place / "configs").mkdir()
    (place / "configs" / "fig1.yaml").touch()
    return place


def compare(old: Path, new: Path, *options: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script on the experiments of the paper alone."""
    command = [
        sys.executable,
        str(SCRIPTS / "compare-figures"),
        "--python",
        sys.executable,
        "--only",
        "paper",
        *options,
    ]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache or old.parent / "cache")}
    return subprocess.run([*command, str(old), str(new)], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def figures() -> ModuleType:
    loader = SourceFileLoader("figures", str(SCRIPTS / "figures.py"))
    spec = spec_from_loader("figures", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_equal_figures_are_one_line_whatever_the_clock_says(tmp_path: Path) -> None:
    done = compare(checkout(tmp_path / "old"), checkout(tmp_path / "new"))
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1), done.stderr
    assert done.stdout.startswith("nothing differs: 3 figures")


def test_a_planted_difference_is_printed_with_both_values(tmp_path: Path) -> None:
    done = compare(checkout(tmp_path / "old"), checkout(tmp_path / "new", "0.6"))
    assert done.returncode == 1
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["paper/fig1:", "edges=5", "ibm:", "freshness", "0.5", "0.6"]
    ]


def test_a_column_with_another_name_and_the_same_values_is_called_renamed(tmp_path: Path) -> None:
    done = compare(checkout(tmp_path / "old"), checkout(tmp_path / "new", column="cost"))
    assert done.returncode == 1
    assert "named 'evaluations: column cost', same values" in done.stdout


def test_an_experiment_that_fails_in_one_checkout_is_a_difference(tmp_path: Path) -> None:
    done = compare(checkout(tmp_path / "old"), checkout(tmp_path / "new", "fails"))
    assert done.returncode == 1
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == ["edges=5", "exit"]
    assert "no such policy" in done.stderr


def test_figures_that_match_skip_are_left_out(tmp_path: Path) -> None:
    done = compare(checkout(tmp_path / "old"), checkout(tmp_path / "new", "0.6"), "--skip", "freshness$")
    assert (done.returncode, done.stdout.startswith("nothing differs: 2 figures")) == (0, True)


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    done = compare(tmp_path, checkout(tmp_path / "new"))
    assert done.returncode == 2
    assert "is no checkout of freshkeeper" in done.stderr


def test_figures_of_a_commit_are_kept_unless_its_tree_is_changed(tmp_path: Path) -> None:
    old, new = checkout(tmp_path / "old"), checkout(tmp_path / "new")
    (old / ".gitignore").write_text("__pycache__/\n")  # as the project has it: compiled files change no checkout
    git = ["git", "-C", str(old), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "stand-in"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    compare(old, new)
    assert "kept from an earlier comparison" in compare(old, new).stderr
    (old / "freshkeeper" / "figures.txt").write_text("0.7 spent")
    again = compare(old, new)
    assert "kept from an earlier comparison" not in again.stderr
    assert again.returncode == 1


def test_the_content_of_a_case_becomes_that_of_a_window(figures: ModuleType) -> None:
    window = "FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE 1s STEP 1s]"
    asked = figures.over_window('SELECT ?s WHERE { ?s ?p "}" FILTER(?s < 1) }')
    assert " ".join(asked.split()) == f'SELECT ?s {window} WHERE {{ WINDOW <urn:w> {{ ?s ?p "}}" FILTER(?s < 1) }} }}'
    merged = figures.over_window("ASK { GRAPH ?g { ?s ?p ?o } }")
    assert merged.split() == f"ASK {window.replace('NAMED ', '')} {{ GRAPH ?g {{ ?s ?p ?o }} }}".split()


def test_answers_are_compared_as_bags_without_labels_of_blank_nodes(figures: ModuleType) -> None:
    first = '{"t": 1, "answers": [{"type": "bnode", "value": "a", "fresh": 1.0}, {"value": "x", "fresh": 0.5}]}'
    second = '{"t": 1, "answers": [{"value": "x", "fresh": 0.5}, {"type": "bnode", "value": "b", "fresh": 1.0}]}'
    assert figures.of_answers(first) == figures.of_answers(second)
    assert figures.of_answers(first)["believed fresh"] == 1.5
    triples = [f'{{"t": 1, "answers": [{{"triple": "_:{label} <urn:p> <urn:o> ."}}]}}' for label in "ab"]
    assert figures.of_answers(triples[0]) == figures.of_answers(triples[1])
    assert figures.of_answers(first.replace('"x"', '"y"'))["hash"] != figures.of_answers(first)["hash"]
