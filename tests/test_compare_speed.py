"""`scripts/compare-speed` on small stand-ins for checkouts, of which one computes longer when it starts."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "compare-speed"


def checkout(place: Path, work: int) -> Path:
    """Write a stand-in whose command sums so many numbers before it ends."""
    package = place / "freshkeeper"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(f"sum(range({work}))\n")
    return place


def compare(old: Path, new: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the script for three rounds of one benchmark."""
    command = [sys.executable, str(SCRIPT), "--python", sys.executable, "--rounds", "3", *options, str(old), str(new)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_checkout_that_takes_longer_is_found_and_its_rounds_are_repeated(tmp_path: Path) -> None:
    done = compare(checkout(tmp_path / "old", 1), checkout(tmp_path / "new", 4_000_000), "--only", "start")
    assert done.returncode == 1, done.stderr
    heading, row = done.stdout.splitlines()
    assert heading.split()[:5] == ["benchmark", "old", "(changed)", "new", "(changed)"]
    assert row.startswith("the command's start")
    assert row.endswith("6 rounds slower")


def test_a_checkout_within_the_limit_passes(tmp_path: Path) -> None:
    done = compare(checkout(tmp_path / "old", 4_000_000), checkout(tmp_path / "new", 1), "--only", "start")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].endswith("3 rounds")


def test_a_benchmark_that_one_checkout_does_not_have_is_named_with_the_reason(tmp_path: Path) -> None:
    done = compare(checkout(tmp_path / "old", 1), checkout(tmp_path / "new", 1), "--only", "^hit$")
    assert done.returncode == 0, done.stderr
    assert "an Enricher hit: not in OLD: ImportError: cannot import name 'Enricher'" in done.stdout


def test_a_pattern_that_matches_nothing_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    done = compare(checkout(tmp_path / "old", 1), checkout(tmp_path / "new", 1), "--only", "nothing")
    assert done.returncode == 2
    assert "no benchmark matches 'nothing'; they are product, arrivals-1M" in done.stderr
