"""What people meet first: sources of their own on the command line, exit codes, what is said beside a log."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from freshkeeper import Budget, Knowledge, round_of
from freshkeeper.policies.base import Case
from freshkeeper.policies.contract_rounds import examples

QUERY = """PREFIX : <http://example.org/>
SELECT ?post FROM NAMED WINDOW :w ON :s [RANGE 2s STEP 1s] { WINDOW :w { ?post :about ?topic } }"""
COMMAND = Path(sys.executable).parent / "freshkeeper"


def said(place: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """What the command says in a process of its own."""
    return subprocess.run([COMMAND, *arguments], cwd=place, capture_output=True, text=True, timeout=120, check=False)


def test_rounds_of_the_contract_have_keys() -> None:
    for round in examples(Case.BGP, Knowledge.LEARNED, 5):
        assert len(round.keys) == round.srs
        assert round.kinds is not None
        assert round.kinds.size == round.srs
    assert round_of([(0, 0)], [[1]], [1]).keys[0] == "entry 0"
    assert Budget(1, 1).available == 1


@pytest.mark.slow
def test_a_source_of_ones_own_is_checked_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def rows(keys):\n    return {key: 1 for key in keys}\n\n\nclass Bad:\n    pass\n"
    )
    kept = said(tmp_path, "sources", "--check", "mine:rows", "--keys", "a,b")
    assert kept.returncode == 0
    assert kept.stderr.count("kept: ") == 7
    bad = said(tmp_path, "sources", "--check", "mine:Bad", "--keys", "a")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "freshkeeper: Bad is no source: it has no fetch(keys)" in bad.stderr
    assert "--keys is needed" in said(tmp_path, "sources", "--check", "mine:rows").stderr
    assert "did not load: ModuleNotFoundError" in said(tmp_path, "sources", "--check", "no:rows", "--keys", "a").stderr
    assert "docs/writing-a-source.md" in said(tmp_path, "sources").stdout


@pytest.mark.slow
def test_a_line_that_check_cannot_read_is_no_answer(tmp_path: Path) -> None:
    assert said(tmp_path, "check", "--bogus").returncode == 3
    assert said(tmp_path, "check", "nowhere").returncode == 3


@pytest.mark.slow
def test_beside_a_log_standard_error_is_json_throughout(tmp_path: Path) -> None:
    (tmp_path / "posts.nt").write_text("500\t<urn:p> <http://example.org/about> <urn:jazz> .\n")
    done = said(tmp_path, "run", QUERY, "--stream", "http://example.org/s=posts.nt", "--log", "info")
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 0
    assert any("no result" in line.get("said", "") for line in told)


def test_a_demonstration_writes_the_budget_that_it_was_given(tmp_path: Path) -> None:
    from freshkeeper.simulator.demo import write_scene

    write_scene(tmp_path, seed=0, budget=6)
    config = yaml.safe_load((tmp_path / "demo.yaml").read_text())
    assert (config["budget"], config["bank"]) == (6, 24)
