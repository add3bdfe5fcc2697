"""Experiments: the same tables whoever does the work, runs that survive a kill, summaries that can be done again."""

import csv
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyarrow import parquet

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.simulator.experiment import experiment as experiment_module
from freshkeeper.simulator.experiment import run_parts
from freshkeeper.simulator.experiment.experiment import InterimResults, runnable, simulate
from freshkeeper.simulator.experiment.experiment_config import Experiment, GridSetting, resolve, settings_of
from freshkeeper.simulator.experiment.run_parts import RunPart
from freshkeeper.simulator.experiment.summary import SummaryRow, read_summary
from freshkeeper.simulator.report.page import write_report

TIMINGS = {"decide_us", "fetch_ms", "latency_ms"}
SMALL = {"sns": 20, "srs": 20, "edges": 120}
STUDENT = {2: 12.706204736, 3: 4.30265272975, 4: 3.18244630528}
"""The 97.5 % quantiles of Student's t, by number of seeds."""


def experiment(**keys: object) -> Experiment:
    return resolve({"workload": SMALL, "evaluations": 20, "seeds": 3, "budget": 3, "policies": "lru,ibm"}, keys)


def content(run: Path) -> dict[str, object]:
    """All that a run directory says, timings left out."""
    found: dict[str, object] = {}
    for file in sorted(run.glob("*.parquet")):
        if file.name == "parts.parquet":  # summaries of the runs, with their seconds
            continue
        table = parquet.read_table(file)
        found[file.name] = (str(table.schema), table.select([n for n in table.column_names if n not in TIMINGS]))
    with (run / "summary.csv").open() as rows:
        found["summary"] = [
            {key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(rows)
        ]
    if (caches := run / "baselines.csv").exists():
        found["baselines"] = caches.read_text()
    about = json.loads((run / "run.json").read_text())
    return found | {"run": {key: value for key, value in about.items() if key not in ("command", "started", "written")}}


def rows_of(run: Path, name: str = "evaluations") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = parquet.read_table(run / f"{name}.parquet").to_pylist()
    return rows


ROUGH = {"latency_ms": 700, "latency_law": "lognormal", "failure_rate": 0.1, "deadline_ms": 1500}
VARIED = experiment(
    policies=["random", "gain", {"name": "fba", "literal": True}],
    sweep={"workload.edges": [60, 120], "remote.latency_ms": [0, 700], "knowledge": ["exact", "learned"]},
    remote=ROUGH,
    answers=True,
    seeds=[3, 1],
)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_tables_whatever_the_number_of_processes(tmp_path: Path) -> None:
    for name, jobs in (("one", 1), ("two", 2)):
        simulate(VARIED, tmp_path / name, jobs=jobs)
    first = content(tmp_path / "one")
    assert set(first) == {
        *(f"{n}.parquet" for n in ("evaluations", "refreshes", "answers", "changes")),
        "summary",
        "run",
    }
    assert content(tmp_path / "two") == first
    assert not list((tmp_path / "two").glob(".*"))
    assert not (tmp_path / "two" / "parts").exists()


@pytest.mark.slow
def test_while_it_goes_on_tables_and_page_are_of_what_is_finished_and_say_so(tmp_path: Path) -> None:
    told = []

    def look(run: Path) -> None:
        page = write_report(run).read_text()
        summary = read_summary(run / "summary.csv")
        told.append((len(rows_of(run)), sum(row.seeds for row in summary), " runs so far" in page))
        assert f"{len(told)} of 4 runs so far" in page
        assert f"These are {len(told)} of 4 runs" in page

    swept = experiment(sweep={"budget": [2, 3]}, seeds=2, policies="lru")
    rows = simulate(swept, tmp_path / "run", interim=InterimResults(look, first_s=0, times=0))
    assert told == [(20 * n, n, True) for n in (1, 2, 3)]
    assert "so far" not in write_report(tmp_path / "run").read_text()
    assert rows == read_summary(tmp_path / "run" / "summary.csv")
    simulate(swept, tmp_path / "quiet")
    assert content(tmp_path / "run") == content(tmp_path / "quiet")


def test_what_there_is_so_far_is_put_together_in_a_twentieth_of_the_time() -> None:
    now, written = [0.0], []

    def write() -> None:
        written.append(now[0])
        now[0] += 2

    so_far = InterimResults(clock=lambda: now[0])
    while now[0] < 200:
        so_far.write_if_due(Path("run"), write)
        now[0] += 1
    assert written == [10, 52, 94, 136, 178]


def test_every_setting_gets_its_first_seed_before_any_gets_its_second(tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []
    swept = experiment(sweep={"budget": [2, 3]}, seeds=[7, 1], policies="lru")
    simulate(swept, tmp_path / "run", progress=lambda part, done, of: seen.append((part.seed, part.setting)))
    assert seen == [(seed, f"budget={budget}") for seed in (7, 1) for budget in (2, 3)]
    assert [(row["setting"], row["seed"]) for row in rows_of(tmp_path / "run")[::20]] == [
        (setting, seed) for setting in ("budget=2", "budget=3") for seed in (7, 1)
    ]


def test_a_grid_is_laid_out_once_and_not_for_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swept = experiment(sweep={"budget": "1..10"}, seeds=3, policies="lru", evaluations=2, baselines=False)
    asked: list[Experiment] = []

    def counted(of: Experiment) -> list[GridSetting]:
        asked.append(of)
        return settings_of(of)

    for module in (run_parts, experiment_module):
        monkeypatch.setattr(module, "settings_of", counted)
    simulate(swept, tmp_path / "run")
    assert len(asked) == 1


def test_another_seed_gives_other_tables(tmp_path: Path) -> None:
    for seed in (0, 1):
        simulate(experiment(seeds=[seed]), tmp_path / str(seed))
    fresh = [[row["fresh"] for row in rows_of(tmp_path / str(seed))] for seed in (0, 1)]
    assert fresh[0] != fresh[1]


LONG: dict[str, Any] = {
    "workload": {"edges": 800},
    "evaluations": 60,
    "policies": "random,gain,plan",
    "seeds": 8,
    "knowledge": "learned",
    "bound": "never",
}


BLOCKING_POLICY = """
import time
from pathlib import Path

import numpy as np

from freshkeeper import Ranked


class Blocking(Ranked):
    name = "blocking"

    def score(self, round):
        while any(Path("run", "parts").glob("*.arrow")):
            time.sleep(0.01)
        return np.zeros(len(round.keys))
"""
"""A policy that never comes to an end once the first run of the experiment is finished."""


class Command:
    """A `freshkeeper simulate` of the long experiment in a process group of its own; one job needs no other process."""

    def __init__(self, directory: Path, *options: str, jobs: int = 2, policies: str = LONG["policies"]) -> None:
        self.out = directory / "run"
        config = directory / "long.yaml"
        config.write_text(yaml.safe_dump(LONG | {"policies": policies}))
        arguments = ["simulate", str(config), "--out", str(self.out), "--jobs", str(jobs), "--no-report", *options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "freshkeeper", *arguments],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def parts(self) -> int:
        return len(list(self.out.glob("parts/*.arrow")))

    def wait_for(self, parts: int) -> bool:
        """Until so many parts are there; False where it ended before."""
        return until(lambda: self.parts() >= parts or self.process.poll() is not None) and self.process.poll() is None

    def children(self) -> list[int]:
        """The processes that do its work."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def workers(self) -> list[int]:
        """Those of them that run Python code of the pool, and not its resource tracker."""
        return [pid for pid in self.children() if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=240)
        return self.process.returncode, out, err


def until(happened: Callable[[], bool], seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("whole") / "run"
    simulate(resolve(LONG), out)
    return content(out)


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc to see processes")


@pytest.mark.slow
@needs_proc
def test_a_run_killed_again_and_again_and_resumed_equals_an_uninterrupted_one(
    tmp_path: Path, uninterrupted: dict[str, object]
) -> None:
    kept = []
    finished: dict[Path, int] = {}
    for moment, options, jobs in ((0, [], 1), (1, ["--resume"], 2), (4, ["--resume"], 1)):
        command = Command(tmp_path, *options, jobs=jobs)
        assert until((command.out / "run.json").exists)
        assert command.wait_for(moment)
        workers = command.children()
        command.process.kill()
        command.process.communicate()
        kept.append(command.parts())
        now = {part: part.stat().st_mtime_ns for part in command.out.glob("parts/*.arrow")}
        assert finished.items() <= now.items(), "what was finished is done again, or lost"
        finished = now
        assert until(lambda: not any(map(alive, workers)))  # noqa: B023  it is called at once
        assert not json.loads((command.out / "run.json").read_text())["complete"]
    assert kept == sorted(kept)
    assert 4 <= kept[-1] < 8
    code, _, err = Command(tmp_path, "--resume", jobs=1).end()
    assert code == 0, err
    assert content(tmp_path / "run") == uninterrupted
    assert not (tmp_path / "run" / "parts").exists()


@pytest.mark.slow
@needs_proc
def test_a_worker_that_is_killed_is_said_in_one_line_and_the_run_goes_on_from_there(
    tmp_path: Path, uninterrupted: dict[str, object]
) -> None:
    command = Command(tmp_path)
    assert command.wait_for(1)
    os.kill(command.workers()[0], signal.SIGKILL)
    code, out, err = command.end()
    assert (code, out) == (1, "")
    assert [line for line in err.splitlines() if not line.startswith("simulating")] == [
        "freshkeeper: a process of the run was killed, perhaps for want of memory; "
        "what is finished is kept: go on with --resume, with fewer --jobs"
    ]
    simulate(resolve(LONG), tmp_path / "run", resume=True)
    assert content(tmp_path / "run") == uninterrupted


@pytest.mark.slow
@needs_proc
def test_an_interrupt_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "blocking.py").write_text(BLOCKING_POLICY)
    command = Command(tmp_path, policies="blocking:Blocking")
    assert command.wait_for(1)
    os.killpg(command.process.pid, signal.SIGINT)
    code, out, err = command.end()
    assert (code, out) == (130, "")
    said = [line for line in err.splitlines() if not line.startswith("simulating")]
    assert said == [f"freshkeeper: stopped; what is finished is kept: go on with --out {command.out} --resume"]


def test_a_finished_run_is_not_done_again(tmp_path: Path) -> None:
    rows = simulate(experiment(), tmp_path / "run")
    before = (tmp_path / "run" / "evaluations.parquet").stat().st_mtime_ns
    assert simulate(experiment(), tmp_path / "run", resume=True) == rows
    assert (tmp_path / "run" / "evaluations.parquet").stat().st_mtime_ns == before


def test_a_run_is_not_resumed_with_another_config_nor_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "run"
    simulate(experiment(), out)
    before = content(out)
    with pytest.raises(
        ConfigError, match=r"run holds a run of another config \(budget was 3 and is 4\); name another directory"
    ):
        simulate(experiment(budget=4), out, resume=True)
    with pytest.raises(ConfigError, match=r"run holds a run already; go on with it \(--resume\)"):
        simulate(experiment(), out)
    assert content(out) == before


def test_a_finished_run_grows_by_seeds_settings_and_policies_and_only_missing_runs_are_done(tmp_path: Path) -> None:
    grown = experiment(sweep={"budget": [2, 3, 4]}, seeds=[0, 1, 5], policies="lru,ibm,gain", start="cold")
    simulate(grown, tmp_path / "whole")
    out, done = tmp_path / "run", list[tuple[str, int, list[str]]]()

    def note(part: RunPart, _done: int, _of: int) -> None:
        if not part.reused:
            done.append((part.setting, part.seed, list(part.numbers)))

    steps: list[tuple[dict[str, object], set[tuple[str, int, str]]]] = [
        ({"budget": 3, "seeds": 2}, {("default", seed, "lru ibm") for seed in (0, 1)}),
        ({"budget": 3, "seeds": [0, 1, 5]}, {("default", 5, "lru ibm")}),
        (
            {"sweep": {"budget": [2, 3, 4]}, "seeds": [0, 1, 5]},
            {(f"budget={budget}", seed, "lru ibm") for budget in (2, 4) for seed in (0, 1, 5)},
        ),
        (
            {"sweep": {"budget": [2, 3, 4]}, "seeds": [0, 1, 5], "policies": "lru,ibm,gain"},
            {(f"budget={budget}", seed, "gain") for budget in (2, 3, 4) for seed in (0, 1, 5)},
        ),
        ({"sweep": {"budget": [2, 3, 4]}, "seeds": [0, 1, 5], "policies": "lru,ibm,gain"}, set()),
    ]
    for keys, expected in steps:
        done.clear()
        rows = simulate(experiment(start="cold", **keys), out, resume=True, progress=note)
        assert {(setting, seed, " ".join(policies)) for setting, seed, policies in done} == expected
        assert rows == read_summary(out / "summary.csv")
    whole, mine = content(tmp_path / "whole"), content(out)
    assert mine["summary"] == whole["summary"]
    assert mine["run"] == whole["run"]
    assert mine["baselines"] == whole["baselines"]
    for name in ("evaluations", "refreshes", "changes"):
        # Policies that came later are behind those of the same run, so rows are compared as a whole is here: in order.
        assert rows_of(out, name) != []
        assert [timeless(row) for row in rows_of(out, name)] == [
            timeless(row) for row in rows_of(tmp_path / "whole", name)
        ]


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in TIMINGS}


@pytest.mark.parametrize(
    ("keys", "difference"),
    [
        ({"seeds": 2}, r"seeds was 3 and is 2"),
        ({"policies": "lru"}, r"policies was lru, ibm and is lru"),
        ({"policies": [{"name": "gain", "label": "lru"}, "ibm"]}, r"policies was lru, ibm and is"),
        ({"workload": {**SMALL, "edges": 100}}, r"workload.edges was 120 and is 100"),
    ],
)
def test_a_run_that_lacks_what_is_there_is_refused_by_the_key_that_differs(
    tmp_path: Path, keys: dict[str, object], difference: str
) -> None:
    simulate(experiment(evaluations=3), tmp_path / "run")
    with pytest.raises(ConfigError, match=rf"holds a run of another config \({difference}"):
        simulate(experiment(evaluations=3, **keys), tmp_path / "run", resume=True)


def test_run_json_says_when_where_and_from_which_commit(tmp_path: Path) -> None:
    simulate(experiment(evaluations=3, seeds=1), tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    started, written = (datetime.fromisoformat(about[name]) for name in ("started", "written"))
    assert timedelta() <= written - started < timedelta(minutes=5)
    assert (started.utcoffset(), about["host"]["name"]) == (timedelta(), platform.node())
    root = Path(__file__).parents[3]
    if (root / ".git").exists():
        head = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        assert about["commit"] == head.stdout.strip()


def test_every_swept_key_is_a_column_of_the_summary(tmp_path: Path) -> None:
    grid = {"workload.change_interval_ms": [[100, 3000]], "window": ["4s", "8s"], "budget": [2.5]}
    rows = simulate(experiment(sweep=grid, evaluations=3, seeds=1, policies="lru"), tmp_path / "run")
    with (tmp_path / "run" / "summary.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0])[:5] == ["setting", "workload.change_interval_ms", "window", "policy", "case"]
    assert [(line["workload.change_interval_ms"], line["window"], line["budget"]) for line in lines] == [
        ("[100, 3000]", window, "2.5") for window in ("4s", "8s")
    ]
    assert read_summary(tmp_path / "run" / "summary.csv") == rows


@pytest.mark.parametrize("resume", [True, False])
def test_a_directory_that_is_no_run_is_left_alone(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "holiday.jpg").write_text("sun")
    with pytest.raises(ConfigError, match="is not empty and holds no run; name another directory"):
        simulate(experiment(), tmp_path, resume=resume)
    with pytest.raises(ConfigError, match=r"holiday\.jpg is a file; name another directory"):
        simulate(experiment(), tmp_path / "holiday.jpg", resume=resume)
    (tmp_path / "run.json").write_text('{"name": "somebody else\'s"}')
    with pytest.raises(
        ConfigError, match=r"run\.json is not of a run of freshkeeper" if resume else "holds a run already"
    ):
        simulate(experiment(), tmp_path, resume=resume)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["holiday.jpg", "run.json"]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize("case", ["bgp", "aggregate"])
def test_the_summary_is_what_anybody_would_compute_from_the_evaluations(tmp_path: Path, case: str) -> None:
    made = experiment(case=case, sweep={"budget": [2, 5]}, policies="random,ibm,unlimited", warm_up=0.25)
    rows = simulate(made, tmp_path / "run")
    assert read_summary(tmp_path / "run" / "summary.csv") == rows
    assert [(row.setting, row.policy) for row in rows] == [
        (f"budget={budget}", policy) for budget in (2, 5) for policy in ("random", "ibm", "unlimited")
    ]
    evaluations, refreshes = rows_of(tmp_path / "run"), rows_of(tmp_path / "run", "refreshes")
    assert {row["k"] for row in evaluations if row["warmup"]} == {1, 2, 3, 4, 5}
    for row in rows:
        mine = [e for e in evaluations if (e["setting"], e["policy"]) == (row.setting, row.policy)]
        counted = [e for e in mine if not e["warmup"] and e["results"]]
        by_seed = [mean([e["fresh"] / e["results"] for e in counted if e["seed"] == seed]) for seed in range(3)]
        spread = (sum((value - mean(by_seed)) ** 2 for value in by_seed) / 2) ** 0.5
        fresh, answers = (sum(e[name] for e in counted) for name in ("fresh", "results"))
        assert row.freshness == pytest.approx(mean(by_seed))
        assert row.ci95 == pytest.approx(STUDENT[3] * spread / 3**0.5)
        assert row.pooled == pytest.approx(fresh / answers)
        assert (row.stale_answers, row.answers) == (answers - fresh, answers)
        assert row.spent == sum(e["spent"] for e in mine)
        sent = [r for r in refreshes if (r["setting"], r["policy"]) == (row.setting, row.policy)]
        assert row.requests_per_evaluation == len(sent) / len(mine)
        assert (row.seeds, row.case, row.knowledge, row.bank) == (3, case, "exact", 0)
        assert row.over_budget == (row.spent > row.budget * len(mine))


@pytest.mark.slow
def test_policies_and_settings_are_compared_in_pairs(tmp_path: Path) -> None:
    """The same seed means the same stream and the same changes for every policy, budget and level of knowledge."""
    made = experiment(sweep={"knowledge": ["exact", "learned"], "budget": [2, 5]}, policies="lru,ibm,unlimited")
    simulate(made, tmp_path / "run")
    seen: dict[tuple[int, int], set[tuple[float, int, int]]] = {}
    for row in rows_of(tmp_path / "run"):
        key = (row["seed"], row["k"])
        seen.setdefault(key, set()).add((row["results"], row["window_mappings"], row["t_ms"]))
    assert len(seen) == 3 * 20
    assert all(len(same) == 1 for same in seen.values())
    assert len({tuple(same) for same in seen.values()}) > 50
    changes: dict[str, list[tuple[object, ...]]] = {}
    for row in rows_of(tmp_path / "run", "changes"):
        changes.setdefault(row["setting"], []).append((row["seed"], row["sr"], row["t_ms"]))
    assert len(changes) == 4
    assert all(mine == theirs for mine, theirs in pairwise(changes.values()))


HONEST: dict[str, list[object]] = {
    "bgp": ["random", "lru", "sbm", "ibm", "fba", "gain", "plan", "oracle", "clairvoyant"],
    "aggregate": ["random", "lru", "sbm", {"name": "ibm", "weighted": True}, "bundle"],
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["bgp", "aggregate"])
@pytest.mark.parametrize("interval", [[100, 3000], [1000, 9000]])
def test_no_honest_policy_is_fresher_than_the_bound(tmp_path: Path, case: str, interval: list[int]) -> None:
    workload = {**SMALL, "change_interval_ms": interval, "edges": 60}
    grid = {"budget": [1, 2.5], "bank": [0, "window"]}
    made = experiment(workload=workload, case=case, policies=HONEST[case], sweep=grid, seeds=2)
    rows = simulate(made, tmp_path / "run")
    shares = {(row.setting, row.policy): row.share_of_bound for row in rows}
    assert len(rows) == 4 * len(HONEST[case])
    assert all(share is not None and 0 < share <= 1 + 1e-9 for share in shares.values())
    assert not any(row.over_budget for row in rows)
    for (_, policy), share in shares.items():
        assert policy != "clairvoyant" or share == pytest.approx(1)


def test_exactly_those_that_break_the_budget_are_marked(tmp_path: Path) -> None:
    policies = [*HONEST["bgp"], {"name": "fba", "literal": True}, "unlimited"]
    rows = simulate(experiment(policies=policies, bank="window", seeds=2), tmp_path / "run")
    marked = {row.policy for row in rows if row.over_budget}
    assert marked == {"fba(literal=true)", "unlimited"}
    assert all((row.requests_per_evaluation > 3) == (row.policy in marked) for row in rows)
    assert {row.policy: row.freshness for row in rows}["unlimited"] == 1


def test_the_bound_is_left_out_with_a_reason(tmp_path: Path) -> None:
    for name, keys, reason in (
        ("never", {"bound": "never"}, "not asked for"),
        ("slow", {"remote": {"latency_ms": 5}}, "a source that answers at once"),
        ("cold", {"start": "cold"}, "a view that starts warm"),
        ("there", {}, ""),
    ):
        rows = simulate(experiment(seeds=1, **keys), tmp_path / name)
        about = json.loads((tmp_path / name / "run.json").read_text())["bound"]
        assert about["included"] == (name == "there")
        assert reason in about["reason"]
        assert all((row.share_of_bound is not None) == (name == "there") for row in rows)


def test_a_policy_runs_in_the_settings_that_it_handles(tmp_path: Path) -> None:
    made = experiment(
        sweep={"case": ["bgp", "aggregate"], "knowledge": ["exact", "learned"]},
        policies="gain,bundle,oracle,lru",
        seeds=1,
    )
    rows = simulate(made, tmp_path / "run")
    found: dict[tuple[str, str], list[str]] = {(row.case, row.knowledge): [] for row in rows}
    for row in rows:
        found[row.case, row.knowledge].append(row.policy)
    assert found == {
        ("bgp", "exact"): ["gain", "oracle", "lru"],
        ("bgp", "learned"): ["gain", "lru"],
        ("aggregate", "exact"): ["bundle", "oracle", "lru"],
        ("aggregate", "learned"): ["bundle", "lru"],
    }


def test_a_policy_that_no_setting_can_run_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'bundle' handles aggregate with exact or learned or published"):
        simulate(experiment(policies="lru,bundle"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_any_key_can_be_swept_policies_included(tmp_path: Path) -> None:
    sweep = {"policies": [["lru"], ["ibm", "random"]], "case": ["bgp", "aggregate"], "start": ["warm", "cold"]}
    made = experiment(sweep=sweep, seeds=1)
    rows = simulate(made, tmp_path / "run")
    assert [(row.setting, row.policy) for row in rows][:3] == [
        ("policies=lru,case=bgp,start=warm", "lru"),
        ("policies=lru,case=bgp,start=cold", "lru"),
        ("policies=lru,case=aggregate,start=warm", "lru"),
    ]
    assert list(runnable(settings_of(made))) == list(dict.fromkeys(row.setting for row in rows))
    assert set(json.loads((tmp_path / "run" / "run.json").read_text())["policies"]) == {"lru", "ibm", "random"}


def test_a_duration_says_how_many_evaluations_there_are(tmp_path: Path) -> None:
    for keys, count in (
        ({"evaluations": None, "workload": {**SMALL, "duration_ms": 7900}}, 7),
        ({"evaluations": None}, 50),
        ({"evaluations": 3, "workload": {**SMALL, "duration_ms": 7900}}, 3),
    ):
        out = tmp_path / str(count)
        simulate(experiment(seeds=1, policies="lru", **keys), out)
        assert len(rows_of(out)) == count


def test_summaries_with_nothing_to_say_are_read_again(tmp_path: Path) -> None:
    rows = simulate(experiment(seeds=1, bound="never", policies="lru"), tmp_path / "run")
    assert (rows[0].ci95, rows[0].share_of_bound) == (None, None)
    assert read_summary(tmp_path / "run" / "summary.csv") == rows
    assert isinstance(replace(rows[0]), SummaryRow)
