"""What is installed: every package locked by check sums, and listed."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[1]
LOCK = (PROJECT / "constraints.txt").read_text()
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
