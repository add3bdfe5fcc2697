"""A newcomer's first hour in minutes: a policy in fifteen lines, beside lru and plan, on a CSV of one's own."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

POLICY = '''\
import numpy as np
from dataclasses import dataclass
from freshkeeper import Ranked

@dataclass(frozen=True)
class Eager(Ranked):
    """Refresh what many answers need, and forget the rest."""

    name = "eager"
    power: float = 1.0

    def score(self, round):
        need = round.demand[:, 0] ** self.power
        return np.where(round.stale_candidates, need * round.staleness, -np.inf)
'''
SCRIPT = """\
from freshkeeper import simulate
from eager import Eager

result = simulate(
    ["lru", "plan", Eager(power=0.5)], arrivals="orders.csv:when,shop", changes="stock.csv:when,shop,pieces",
    budget=1, knowledge="learned", out="runs/mine",
)
print(*result.notes, sep="\\n")
frame = result.summary().to_pandas()
print(frame[["policy", "freshness", "requests_per_evaluation"]].to_string())
assert type(frame).__module__.startswith("pandas") and len(frame) == 3 and frame["freshness"].between(0.05, 0.999).all()
print(result.report())
"""
DATA = """\
import random
from datetime import datetime, timedelta

random.seed(3)
begin = datetime(2026, 3, 2, 8)
with open("orders.csv", "w") as file:
    print("order,when,shop,amount", file=file)
    for n in range(4000):
        print(f"{n},{begin + timedelta(seconds=90 * n)},shop {random.randrange(30)},{random.randrange(9)}", file=file)
with open("stock.csv", "w") as file:
    print("when,shop,pieces", file=file)
    for n in range(2000):
        print(f"{begin + timedelta(seconds=180 * n)},shop {random.randrange(30)},{random.randrange(50)}", file=file)
"""
LIMIT_S = 300


@pytest.mark.slow
def test_a_policy_of_fifteen_lines_is_compared_on_a_csv_in_minutes(tmp_path: Path) -> None:
    """In an empty directory, with no more than README and docs/simulate.md tell."""
    assert len([line for line in POLICY.splitlines() if line]) <= 15
    (tmp_path / "eager.py").write_text(POLICY)
    (tmp_path / "compare.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "-c", DATA], cwd=tmp_path, check=True)
    began = time.monotonic()
    script = run([sys.executable, "compare.py"], tmp_path)
    assert "Window " in script, "the window is fitted to the data, and said so"
    assert "eager(power=0.5)" in script
    page = (tmp_path / "runs/mine/report.html").read_text("utf-8")
    assert "eager(power=0.5)" in page
    files = ["--arrivals", "orders.csv:when,shop", "--changes", "stock.csv:when,shop,pieces"]
    command = [sys.executable, "-m", "freshkeeper", "simulate", *files, "--policy", "lru,plan,eager:Eager(power=0.5)"]
    run([*command, "--budget", "1", "--knowledge", "learned", "--out", "runs/again"], tmp_path)
    run([sys.executable, "-m", "freshkeeper", "report", "runs/again", "--latex", "table.tex"], tmp_path)
    assert (tmp_path / "table.tex").read_text().count(r"\pm") == 0  # one seed of a recorded trace has no interval
    same = run([sys.executable, "-m", "freshkeeper", "compare", "runs/mine", "runs/again"], tmp_path)
    assert same.count("+0.00") == 3
    assert time.monotonic() - began < LIMIT_S


def run(command: list[str], place: Path) -> str:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout
