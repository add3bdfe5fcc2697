"""What is installed: every package locked by check sums, and listed."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[1]
LOCK = (PROJECT / "constraints.txt").read_text()
RUN_LOCK = (PROJECT / "constraints-run.txt").read_text()
LOCKED = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^(\S+?)==(\S+)[^\n]* \\\n    --hash=sha256:[0-9a-f]{64}\b", LOCK, re.MULTILINE)
}


def test_every_line_is_a_version_or_a_check_sum_and_tells_of_no_index() -> None:
    lines = LOCK.splitlines()
    wrong = [
        line for line in lines if not re.fullmatch(r"\S+==\S+( ; .*)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line)
    ]
    assert wrong == []
    assert len(LOCKED) == sum("==" in line for line in lines if not line.startswith(" "))


def test_whatever_the_project_and_its_build_ask_for_is_locked() -> None:
    about = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    extras = about["project"]["optional-dependencies"].values()
    texts = [
        *about["build-system"]["requires"],
        *about["project"]["dependencies"],
        *(each for one in extras for each in one),
    ]
    asked = [Requirement(text) for text in texts if not text.startswith("freshkeeper")]
    assert [str(one) for one in asked if LOCKED.get(canonicalize_name(one.name), "0") not in one.specifier] == []


def test_what_make_run_installs_is_a_small_part_of_the_lock_without_spark_and_tools() -> None:
    entries = re.compile(r"^\S.* \\\n(?:    --hash=.*\n)+", re.MULTILINE)
    locked, to_run = set(entries.findall(LOCK)), set(entries.findall(RUN_LOCK))
    assert "".join(sorted(to_run, key=str.lower)) == RUN_LOCK
    assert to_run < locked
    names = {canonicalize_name(text.partition("==")[0]) for text in to_run}
    assert names >= {"numpy", "altair", "starlette", "hatchling"}
    assert not names & {"pyspark", "pandas", "pytest", "mypy", "ipykernel", "typer", "rich"}


def test_the_list_of_what_is_installed_is_whole() -> None:
    command = [sys.executable, str(PROJECT / "scripts" / "write-sbom")]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout)
    names = {one["bom-ref"] for one in listed["components"]} | {listed["metadata"]["component"]["bom-ref"]}
    assert {one["ref"] for one in listed["dependencies"]} == names
    needs = {one["ref"]: one["dependsOn"] for one in listed["dependencies"]}
    assert set().union(*needs.values()) <= names
    (ours,) = [each for ref, each in needs.items() if ref.startswith("pkg:pypi/freshkeeper@")]
    assert {ref.split("@")[0] for ref in ours} >= {"pkg:pypi/numpy", "pkg:pypi/pyspark", "pkg:pypi/hypothesis"}
    assert len(next(one for one in listed["components"] if one["name"] == "numpy")["properties"]) > 10


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ({"python3.11": "exit 127", "python3.12": "exec {python}", "python3": "exec {python}"}, "python3.12"),
        ({"python3.13": "exit 1", "python": "exec {python}"}, "python"),
        ({"python3": "exit 1"}, ""),
    ],
)
def test_make_takes_the_first_python_that_works(there: dict[str, str], taken: str, tmp_path: Path) -> None:
    """A name may be there and not work, as the shims of pyenv."""
    for name, does in there.items():
        (tmp_path / name).write_text(f'#!/bin/sh\n{does.format(python=sys.executable)} "$@"\n')
        (tmp_path / name).chmod(0o755)
    make = [shutil.which("make") or "make", "--silent", "--eval", "shown: ; @: $(info $(PYTHON))", "shown"]
    done = subprocess.run(make, cwd=PROJECT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == taken
