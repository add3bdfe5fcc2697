"""The package that `freshkeeper policies new` writes: it installs, keeps the contract, and runs beside ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import freshkeeper

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.policies.plug_in_template import write_package

DOCS = Path(__file__).parents[2] / "docs" / "writing-a-policy.md"


@pytest.mark.slow
def test_the_package_installs_and_its_tests_pass_and_it_runs_beside_ours(tmp_path: Path) -> None:
    done = freshkeeper(tmp_path, "policies", "new", "often-changed")
    assert done.returncode == 0, done.stderr
    assert "Next: cd often-changed && pip install -e '.[test]' && pytest" in done.stderr
    site = tmp_path / "site"
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(site), "./often-changed"]
    subprocess.run([sys.executable, "-m", "pip", *install], cwd=tmp_path, check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "."]
    done = subprocess.run(tests, cwd=tmp_path / "often-changed", env=environment, capture_output=True, text=True)
    assert (done.returncode, "3 passed" in done.stdout) == (0, True), done.stdout
    done = freshkeeper(tmp_path, "policies", "often-changed", environment=environment)
    assert "decay   │ a number │ 0.95    │ the part of what was learned" in done.stdout
    done = freshkeeper(tmp_path, "policies", "--check", "often-changed(bonus=2)", environment=environment)
    assert done.stderr.startswith("often-changed(bonus=2) keeps the contract on "), done.stderr
    simulated = ["simulate", "--policy", "lru,plan,often-changed(bonus=2)", "--seeds", "1", "--evaluations", "20"]
    done = freshkeeper(tmp_path, *simulated, "--out", "runs/own", "--no-report", environment=environment)
    assert done.returncode == 0, done.stderr
    assert "often-changed(bonus=2)" in (tmp_path / "runs" / "own" / "summary.csv").read_text()


def test_the_policy_of_the_package_is_that_of_the_docs(tmp_path: Path) -> None:
    write_package("bandit", tmp_path / "bandit")
    shown = DOCS.read_text(encoding="utf-8").split("```python file=bandit_policy.py\n")[1].split("```")[0]
    assert (tmp_path / "bandit" / "bandit_policy.py").read_text(encoding="utf-8") == shown


def test_the_package_has_an_entry_point_tests_and_a_file_for_ci(tmp_path: Path) -> None:
    files = {str(path.relative_to(tmp_path)) for path in write_package("my-own", tmp_path / "own")}
    assert files == {
        "own/my_own_policy.py", "own/test_my_own_policy.py", "own/pyproject.toml", "own/README.md",
        "own/.github/workflows/test.yml",
    }  # fmt: skip
    assert 'my-own = "my_own_policy:MyOwn"' in (tmp_path / "own" / "pyproject.toml").read_text()
    for file in files:
        text = (tmp_path / file).read_text()
        assert not any(word in text for word in ("NAME", "CLASS", "MODULE", "VERSION"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Mine", "'Mine' is no name of a policy: use small letters, digits and single dashes, as my-policy"),
        ("class", "'class' is no name of a policy"),
        ("lru", "there is a policy 'lru' already"),
        ("mine", "is there already: name another directory with --out"),
    ],
)
def test_a_package_that_cannot_be_written_is_an_error_that_says_why(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(ConfigError, match=message):
        write_package(name, tmp_path / name)
