"""The command line: data on standard output, all else on standard error, and mistakes as one line with an exit code."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from calls import Call, Said, caller
from commands import freshkeeper as freshkeeper_in

from freshkeeper.__main__ import COMMANDS

PROJECT = Path(__file__).parents[2]
CASES: dict[str, Any] = yaml.safe_load((PROJECT / "tests" / "cases" / "traces" / "errors.yaml").read_text())
SMALL = ["--set", "workload.edges=200", "--evaluations", "15", "--no-report", "--jobs", "1"]


@pytest.fixture
def freshkeeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return caller(monkeypatch, capsys)


def process(directory: Path, *arguments: str) -> Said:
    """Run the command in a process of its own."""
    done = freshkeeper_in(directory, *arguments)
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(freshkeeper: Call, command: str) -> None:
    said = freshkeeper(*command.split(), "--help")
    assert (said.code, said.err) == (0, "")
    assert "Example" in said.out
    assert f"freshkeeper {command}" in " ".join(said.out.split())


def test_help_lists_every_command_with_its_first_sentence(freshkeeper: Call) -> None:
    said = freshkeeper("--help")
    assert (said.code, said.err) == (0, "")
    assert {name.split()[0] for name in COMMANDS} <= {line.split()[0] for line in said.out.splitlines() if line}
    assert "check Check freshness: exit 0 if it is enough" in " ".join(said.out.split())
    assert "convert Turn foreign CSV" in " ".join(freshkeeper("trace", "--help").out.split())


@pytest.mark.parametrize(
    "arguments", [["simulat"], ["simulate", "--budgt", "5"], ["simulate", "--seeds", "many"], ["report"], ["trace"], []]
)
def test_what_cannot_be_understood_ends_with_2_and_no_traceback(freshkeeper: Call, arguments: list[str]) -> None:
    said = freshkeeper(*arguments)
    assert said.code == 2
    assert "Traceback" not in said.err


def test_check_tells_by_3_that_it_cannot_be_understood(freshkeeper: Call) -> None:
    said = freshkeeper("check")  # whose 2 is an answer
    assert (said.code, "Traceback" in said.err) == (3, False)


ROW = {
    "setting": dict, "policy": str, "case": str, "knowledge": str, "budget": float, "bank": float, "seeds": int,
    "freshness": float, "ci95": float, "pooled": float, "stale_answers": float, "answers": float, "spent": float,
    "requests_per_evaluation": float, "share_of_bound": float, "over_budget": bool, "seconds": float,
}  # fmt: skip


@pytest.mark.slow
def test_simulate_prints_its_rows_as_json_and_nothing_else(tmp_path: Path) -> None:
    """In a process of its own, as people and programs run it."""
    said = process(
        tmp_path, "simulate", *SMALL, "--policy", "ibm,unlimited", "--budget", "3,5", "--seeds", "2", "--json",
        "--out", "here",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert said.out.count("\n") == 1
    printed = json.loads(said.out)
    assert list(printed) == ["run", "rows", "baselines"]
    assert printed["run"] == "here"
    assert [(row["setting"], row["policy"]) for row in printed["rows"]] == [
        ({"budget": budget}, policy) for budget in (3.0, 5.0) for policy in ("ibm", "unlimited")
    ]
    for row in printed["rows"]:
        assert {key: type(value) for key, value in row.items()} == ROW
    assert [line for line in said.err.splitlines() if not line.startswith("simulating: ")] == []


def test_numbers_that_are_not_known_are_null(freshkeeper: Call) -> None:
    said = freshkeeper("simulate", *SMALL, "--policy", "lru", "--seeds", "1", "--json", "--set", "bound=never")
    (row,) = json.loads(said.out)["rows"]
    assert (row["setting"], row["ci95"], row["share_of_bound"]) == ({}, None, None)


def test_a_table_is_data_and_the_rest_is_not(freshkeeper: Call, tmp_path: Path) -> None:
    said = freshkeeper("simulate", *SMALL, "--policy", "ibm,unlimited", "--seeds", "2", "--out", "runs/[bold]mine")
    assert said.code == 0
    assert "case bgp, knowledge exact, γ 10, bank 0" in said.out
    assert [word for word in ("freshness", "of bound", "requests", "over budget") if word not in said.out] == []
    assert said.err == "run directory: runs/[bold]mine\n"
    assert (tmp_path / "runs" / "[bold]mine" / "summary.csv").exists()


def test_a_table_says_once_what_is_the_same_everywhere_and_leaves_out_what_is_empty(freshkeeper: Call) -> None:
    said = freshkeeper(
        "simulate", *SMALL, "--policy", "ibm", "--budget", "3,5", "--seeds", "1", "--case", "bgp,aggregate"
    )
    head = said.out.splitlines()[3]
    assert head.replace("┃", " ").split() == ["policy", "γ", "freshness", "of", "bound", "requests"]
    assert [line.strip() for line in said.out.splitlines() if line.strip().startswith("case")] == [
        "case bgp, knowledge exact, bank 0",
        "case aggregate, knowledge exact, bank 0",
    ]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--set", "bound=never"], "the clairvoyant bound is left out: it was not asked for"),
        (
            ["--start", "cold"],
            "the clairvoyant bound is left out: it holds only for a view that starts warm, "
            "as a miss brings several SRs for one request",
        ),
        (
            ["--set", "remote.failure_rate=.1"],
            "the clairvoyant bound is left out: it holds only for a source that answers at once and never fails",
        ),
        (
            ["--set", "sweep={start: [warm, cold]}"],
            "the clairvoyant bound is left out in 1 of 2 settings: it holds only for a view that starts warm, "
            "as a miss brings several SRs for one request",
        ),
        (["--set", "remote={latency_ms: 900}"], "150 of 150 refreshes came after their deadline"),
    ],
)
def test_what_is_left_out_or_late_is_said_in_one_line(freshkeeper: Call, options: list[str], line: str) -> None:
    said = freshkeeper("simulate", *SMALL, "--policy", "ibm", "--seeds", "1", *options)
    assert said.code == 0
    assert said.err.splitlines().count(line) == 1


@pytest.mark.slow
def test_the_command_of_a_run_repeats_it_from_the_beginning_in_another_place(freshkeeper: Call, tmp_path: Path) -> None:
    options = ["--policy", "lru", "--seeds", "2", "--answers"]
    assert freshkeeper("simulate", *SMALL, *options, "--out", "mine", "--resume").code == 0
    file = tmp_path / "mine" / "run.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps(about | {"complete": False}))  # as a kill leaves it
    assert freshkeeper("simulate", *SMALL, *options, "--out=mine", "--jobs", "2", "--resume").code == 0
    again = json.loads(file.read_text())["command"]
    assert again == "freshkeeper " + " ".join(["simulate", *SMALL, *options])
    assert freshkeeper(*again.split()[1:]).code == 0
    assert (tmp_path / "runs" / "simulation" / "answers.parquet").exists()


def test_a_finished_run_says_again_what_was_left_out(freshkeeper: Call) -> None:
    options = ["simulate", *SMALL, "--policy", "lru", "--seeds", "1", "--set", "bound=never", "--out", "run"]
    first, again = freshkeeper(*options), freshkeeper(*options, "--resume")
    said = ["the clairvoyant bound is left out: it was not asked for", "run directory: run"]
    assert first.err.splitlines() == again.err.splitlines() == said


def test_runs_get_names_of_their_own(freshkeeper: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("policies: [lru]\nevaluations: 5\nseeds: 1\n")
    for expected in ("runs/mine", "runs/mine-2"):
        assert json.loads(freshkeeper("simulate", "mine.yaml", "--no-report", "--json").out)["run"] == expected
    assert json.loads((tmp_path / "runs/mine-2/run.json").read_text())["command"] == (
        "freshkeeper simulate mine.yaml --no-report --json"
    )


MISTAKES = {
    "a typo in a key": (["--set", "workload.edgse=5"], "there is no key 'workload.edgse'; did you mean 'edges'?"),
    "a policy that does not exist": (["--policy", "lru,imb"], "there is no policy 'imb'; did you mean 'ibm'?"),
    "a plug-in that does not exist": (["--policy", "nowhere:Policy"], "the policy 'nowhere:Policy' did not load: "),
    "a budget in words": (["--budget", "five"], "budget: it must be a valid number, not 'five'"),
    "a negative budget": (["--budget", "-5"], "budget: it must be greater than or equal to 0, not '-5'"),
    "a budget twice": (
        ["--budget", "5", "--set", "budget=6"],
        "budget is given twice, by an option and by --set; leave one of them out",
    ),
    "a budget that is swept": (
        ["--budget", "1", "--sweep", "budget=5,10"],
        "budget and sweep.budget are both given; leave one of them out",
    ),
    "a budget that is swept twice": (
        ["--budget", "1,2", "--sweep", "budget=5,10"],
        "budget is given twice, by an option and by --sweep; leave one of them out",
    ),
    "a list that is no grid": (
        ["--set", "budget=[1, 2]"],
        "budget: it takes one value; a grid is declared as sweep: {budget: [1, 2]}",
    ),
    "a sweep without a key": (["--sweep", "5,10"], "--sweep 5,10: write it as key=value"),
    "no rate limit": (
        ["--set", "remote.requests_per_second=.inf"],
        "remote.requests_per_second: it must be a finite number, not inf",
    ),
    "no assignment": (["--set", "budget"], "--set budget: write it as key=value"),
    "no value": (["--set", "budget=[5"], "--set budget=[5: '[5' is no value"),
    "no duration": (["--window", "4q"], "window: q in 4q is no unit of time"),
    "no case": (["--case", "bgq"], "case: it must be 'bgp' or 'aggregate', not 'bgq'"),
    "no config": (["nowhere.yaml"], "there is no config nowhere.yaml; `freshkeeper config list` names those"),
    "no trace": (["--trace", "nowhere"], "nowhere is no directory; a trace is one with the tables"),
    "a policy for another case": (
        ["--policy", "bundle"],
        "the policy 'bundle' handles aggregate with exact or learned",
    ),
    "no directory": (["--out", "/dev/null/here", "--policy", "lru"], "/dev/null/here cannot be made: "),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line(freshkeeper: Call, tmp_path: Path, name: str) -> None:
    options, message = MISTAKES[name]
    said = freshkeeper("simulate", *options)
    assert said.complaint.startswith(message)
    assert said.code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", CASES["cases"])
def test_so_is_whatever_is_wrong_with_a_trace(freshkeeper: Call, tmp_path: Path, name: str) -> None:
    """Unsorted tables, edges to nothing, negative times, empty files."""
    (tmp_path / "trace").mkdir()
    for file, content in (CASES["good"] | CASES["cases"][name]["files"]).items():
        if content is not None:
            (tmp_path / "trace" / file).write_text(content)
    for verb in (["simulate", "--trace", "trace"], ["trace", "describe", "trace"]):
        said = freshkeeper(*verb)
        assert said.complaint
        assert said.code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


@pytest.mark.slow
def test_an_error_in_a_process_of_its_own_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("polices: lru\n")
    said = process(tmp_path, "simulate", "wrong.yaml")
    assert said.complaint == "wrong.yaml: there is no key 'polices'; did you mean 'policies'?"
    assert said.code == 2


NEWEST = '''
"""newest: the wrong way round."""
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper import BasePolicy, Selection
from freshkeeper.policies.base import Trait


@dataclass(frozen=True)
class Newest(BasePolicy):
    name: ClassVar[str] = "newest"
    most: int = 2

    def select(self, round, budget, rng):
        stale = np.flatnonzero(round.stale_candidates)
        newest = stale[np.argsort(-round.last_refresh[stale], kind="stable")][: self.most]
        chosen = newest[np.cumsum(round.cost[newest]) <= budget.available]
        return Selection(chosen.astype(np.int32), np.ones(chosen.size))


class Meant(Newest):
    name: ClassVar[str] = "meant"
    waives = frozenset({Trait.STALER_FIRST})


class Greedy(Newest):
    name: ClassVar[str] = "greedy"

    def select(self, round, budget, rng):
        chosen = np.flatnonzero(round.stale_candidates)
        return Selection(chosen.astype(np.int32), np.ones(chosen.size))
'''


@pytest.mark.slow
def test_a_policy_of_ones_own_is_found_where_the_command_is_run(tmp_path: Path) -> None:
    """By processes of the pool as well."""
    (tmp_path / "mine.py").write_text(NEWEST)
    config = {"policies": [{"name": "mine:Newest", "most": 1, "label": "mine"}], "evaluations": 5, "seeds": 2}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    said = process(tmp_path, "simulate", "mine.yaml", "--jobs", "2", "--no-report", "--json")
    assert said.code == 0, said.err
    (row,) = json.loads(said.out)["rows"]
    assert (row["policy"], row["requests_per_evaluation"]) == ("mine", 1)


def test_a_policy_of_ones_own_is_checked_against_the_contract(freshkeeper: Call, tmp_path: Path) -> None:
    (tmp_path / "checked.py").write_text(NEWEST)
    youngest = freshkeeper("policies", "--check", "checked:Newest")
    assert youngest.code == 1
    assert youngest.complaint.startswith(
        "the policy 'newest' fails the check 'staler first': it left out a staler entry"
    )
    assert "; one that is meant to says waives = frozenset({Trait.STALER_FIRST})" in youngest.complaint
    good = freshkeeper("policies", "--check", "checked:Meant")
    assert (good.code, good.out) == (0, "")
    assert good.err.startswith("checked:Meant keeps the contract on ")
    assert "\n  of entries that are alike the staler go first: not checked, since the policy waives it" in good.err
    assert "\n  multiplying all demands changes nothing\n" in good.err
    broken = freshkeeper("policies", "--check", "checked:Greedy")
    assert broken.code == 1
    assert broken.complaint.startswith("the policy 'greedy' fails the check 'within the budget': chose ")
    assert "'lrv'; did you mean 'lru'?" in freshkeeper("policies", "--check", "lrv").complaint
    assert "it lacks " in freshkeeper("policies", "--check", "checked:BasePolicy").complaint


def test_policies_are_listed(freshkeeper: Call) -> None:
    listed = json.loads(freshkeeper("policies", "--json").out)
    assert {
        "name": "lru",
        "cases": "aggregate, bgp",
        "knowledge": "exact, learned, published, rates",
        "settings": "",
    }.items() <= (next(entry for entry in listed if entry["name"] == "lru").items())
    assert next(entry for entry in listed if entry["name"] == "fba")["settings"] == "literal=false"
    said = freshkeeper("policies")
    assert (said.code, said.err) == (0, "")
    assert all(entry["name"] in said.out and entry["about"][:20] in said.out for entry in listed)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two policies with seven evaluations, and another one."""
    from freshkeeper.simulator.experiment.experiment import simulate
    from freshkeeper.simulator.experiment.experiment_config import resolve

    there = tmp_path_factory.mktemp("runs")
    for name, budget in (("one", 10), ("two", 14)):
        keys = {"policies": "lru,ibm", "evaluations": 7, "seeds": 3, "budget": budget, "bound": "never"}
        simulate(resolve(keys), there / name)
    return there / "one"


def test_check_says_by_its_exit_code_whether_it_is_fresh_enough(freshkeeper: Call, run: Path) -> None:
    for warn, error, code, word in ((0.0, 0.0, 0, "OK"), (0.99, 0.0, 1, "WARN"), (0.99, 0.98, 2, "ERROR")):
        said = freshkeeper("check", run, "--warn", warn, "--error", error)
        assert (said.code, said.err) == (code, "")
        assert len(said.out.splitlines()) == 2
        assert all(line.startswith(word) for line in said.out.splitlines())
    unknown = freshkeeper("check", run.parent)
    assert unknown.code == 3
    assert unknown.out.startswith("UNKNOWN: ")
    found = json.loads(freshkeeper("check", run, "--json", "--policy", "ibm").out)
    assert (found["exit"], len(found["lines"])) == (2, 1)
    assert freshkeeper("check", run, "--policy", "imb").code == 3


def test_compare_tells_two_runs_apart(freshkeeper: Call, run: Path) -> None:
    said = freshkeeper("compare", run, run.parent / "two")
    assert said.code == 0
    assert "10 → 14" in said.out
    assert said.err == "budget: 10 in the first, 14 in the second\n"
    found = json.loads(freshkeeper("compare", run, run.parent / "two", "--json").out)
    assert [row["policy"] for row in found["differences"]] == ["lru", "ibm"]
    assert all(row["difference"] > 0 and row["paired"] for row in found["differences"])
    lost = freshkeeper("compare", run, "nowhere")
    assert (lost.code, lost.complaint) == (2, "nowhere is not a run directory: it does not exist")


@pytest.mark.slow
def test_report_writes_a_page_and_its_plots(freshkeeper: Call, run: Path, tmp_path: Path) -> None:
    said = freshkeeper("report", run, "--out", "page.html", "--png", "plots")
    assert (said.code, said.out, said.err) == (0, "page.html\n", "")
    assert "<html" in (tmp_path / "page.html").read_text()[:200]
    plots = list((tmp_path / "plots").glob("*.png"))
    assert plots
    assert all(plot.read_bytes()[:4] == b"\x89PNG" for plot in plots)
    lost = freshkeeper("report", "nowhere")
    assert (lost.code, lost.complaint) == (2, "nowhere is not a run directory: it does not exist")


@pytest.mark.slow
def test_a_place_that_cannot_be_written_is_one_clear_line(freshkeeper: Call, run: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    for arguments, message in (
        (["report", run, "--out", "there"], "there cannot be written: Is a directory"),
        (["report", run, "--out", "file/page.html"], "file/page.html cannot be written: File exists"),
        (["report", run, "--out", "page.html", "--png", "file"], "file is a file; the plots need a directory"),
        (["config", "init", "nowhere/x.yaml"], "nowhere/x.yaml cannot be written: No such file or directory"),
        (["config", "init", "there", "--overwrite"], "there cannot be written: Is a directory"),
    ):
        said = freshkeeper(*arguments)
        assert (said.code, said.complaint) == (2, message)


def test_caches_that_set_no_budget_stand_beside_the_policies_unless_left_out(freshkeeper: Call) -> None:
    grid = ["--budget", "3,5", "--set", "sweep.start=[warm,cold]"]
    options = ["simulate", *SMALL, "--policy", "lru", "--seeds", 2, *grid]
    said = freshkeeper(*options)
    policies, _, caches = said.out.partition("Caches beside them, which set no budget")
    assert "fetch-once" in caches
    assert "fetch-once" not in policies
    assert max(len(line) for line in caches.splitlines()) <= 80
    assert "Caches" not in freshkeeper(*options, "--no-baselines").out
    slow = ["simulate", *SMALL, "--policy", "lru", "--seeds", 1, "--set", "remote.latency_ms=100"]
    assert "the caches beside the policies are left out: they are worked out only for" in freshkeeper(*slow).err


@pytest.mark.slow
def test_simulate_writes_the_page_unless_told_not_to(freshkeeper: Call, tmp_path: Path) -> None:
    options = [option for option in SMALL if option != "--no-report"]
    said = freshkeeper("simulate", *options, "--seeds", 1, "--policy", "lru", "--out", "run")
    assert said.err.splitlines()[-1] == "page: run/report.html"
    assert (tmp_path / "run" / "report.html").exists()


def test_a_trace_is_generated_described_simulated_and_converted(freshkeeper: Call, tmp_path: Path) -> None:
    said = freshkeeper(
        "trace", "generate", "drawn", "--config", PROJECT / "configs" / "fig2a.yaml", "--set", "workload.edges=90",
        "--seed", "3", "--format", "csv.gz",
    )  # fmt: skip
    assert (said.code, said.out) == (0, "")
    assert said.err.startswith("drawn: 1,")
    assert " 90 edges, " in said.err
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == [
        f"{name}.csv.gz" for name in ("arrivals", "changes", "edges", "schedule")
    ]
    again = freshkeeper("trace", "generate", "drawn")
    assert (again.code, again.complaint) == (
        2,
        "drawn/arrivals.csv.gz is there already; name an empty directory, or --overwrite it",
    )
    described = json.loads(freshkeeper("trace", "describe", "drawn", "--json").out)
    assert described["edges"] == 90
    assert "edges per lookup key" in freshkeeper("trace", "describe", "drawn", "--window", "4s", "--step", "1s").out
    said = freshkeeper("simulate", "--trace", "drawn", "--policy", "ibm", "--no-report", "--json")
    (row,) = json.loads(said.out)["rows"]
    assert (row["seeds"], row["seconds"] > 0) == (1, True)
    assert freshkeeper("trace", "generate", "other", "--seed", "-1").code == 2
    fig5 = PROJECT / "configs" / "fig5.yaml"
    said = freshkeeper(
        "simulate", fig5, "--trace", "drawn", "--policy", "lru", "--seeds", 1, "--no-report", "--jobs", 1
    )
    assert said.code == 0, said.err


def test_a_trace_that_no_run_would_end_with_is_refused(freshkeeper: Call, tmp_path: Path) -> None:
    """A million and one evaluations of a second; of minutes there are fewer, and as few as one likes may be had."""
    tables = {"arrivals": "t_ms,sn\n0,a\n1000001000,a\n", "edges": "sn,sr\na,x\n", "changes": "t_ms,sr\n"}
    (tmp_path / "long").mkdir()
    for name, text in tables.items():
        (tmp_path / "long" / f"{name}.csv").write_text(text)
    said = freshkeeper("simulate", "--trace", "long", "--policy", "lru", "--window", "4s", "--step", "1s")
    assert (said.code, said.complaint) == (
        2,
        "long has 1,000,001 evaluations with a step of 1s, more than 1,000,000; "
        "its arrivals suggest --window 2d --step 12h, or say how many with --evaluations",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["long"]
    for enough in ([], ["--window", "2d", "--step", "12h"], ["--window", "4s", "--step", "1s", "--evaluations", 20]):
        assert freshkeeper("simulate", "--trace", "long", "--policy", "lru", "--no-report", *enough).code == 0


def test_a_foreign_file_becomes_a_trace(freshkeeper: Call, tmp_path: Path) -> None:
    (tmp_path / "posts.csv").write_text("at,topic\n2024-01-01T00:00:00Z,jazz\n2024-01-01T00:00:05Z,rock\n")
    (tmp_path / "members.csv").write_text("topic,user\njazz,ann\nrock,bob\n")
    (tmp_path / "polls.csv").write_text("at,user,n\n2024-01-01T00:00:01Z,ann,1\n2024-01-01T00:00:03Z,ann,2\n")
    (tmp_path / "mapping.yaml").write_text(
        "arrivals: {file: posts.csv, time: at, unit: iso, sn: topic}\n"
        "edges: {file: members.csv, sn: topic, sr: user}\n"
        "changes: {file: polls.csv, time: at, unit: iso, sr: user, value: n, observations: true}\n"
    )
    said = freshkeeper("trace", "convert", "mapping.yaml", "out")
    assert (said.code, said.out, said.err) == (0, "", "out: 2 arrivals, 2 edges, 1 changes\n")
    (tmp_path / "wrong.yaml").write_text("arrivals: [\n")
    assert freshkeeper("trace", "convert", "wrong.yaml", "other").complaint.startswith("wrong.yaml is no YAML: ")
    assert freshkeeper("trace", "convert", "nowhere.yaml", "other").complaint.startswith(
        "nowhere.yaml cannot be read: "
    )
    (tmp_path / "wrong.yaml").write_text("arrivals: {file: posts.csv}\n")
    assert freshkeeper("trace", "convert", "wrong.yaml", "other").complaint.startswith("wrong.yaml: ")


def test_a_config_is_written_checked_and_described(freshkeeper: Call, tmp_path: Path) -> None:
    assert freshkeeper("config", "init").err.startswith("experiment.yaml: every key with its default")
    assert "is there already; say --overwrite" in freshkeeper("config", "init").complaint
    assert freshkeeper("config", "init", "--overwrite").code == 0
    said = freshkeeper("config", "validate", "experiment.yaml")
    assert (said.code, said.err) == (0, "experiment.yaml is good: 1 setting, 5 seeds, 20 runs\n")
    (tmp_path / "wrong.yaml").write_text("budget: -1\n")
    said = freshkeeper("config", "validate", "wrong.yaml")
    assert (said.code, said.complaint) == (2, "wrong.yaml: budget: it must be greater than or equal to 0, not -1")
    (tmp_path / "wrong.yaml").write_text("sweep: {trace: [nowhere]}\n")
    assert freshkeeper("config", "validate", "wrong.yaml").complaint.startswith("nowhere is no directory; a trace is")
    schema = json.loads(freshkeeper("config", "schema").out)
    assert {"workload", "trace", "policies", "sweep"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_the_configs_that_come_along_are_listed_with_what_each_is_of(freshkeeper: Call) -> None:
    listed = {line.split()[0]: line.split(maxsplit=2)[1:] for line in freshkeeper("config", "list").out.splitlines()}
    assert set(listed) == {file.stem for file in (PROJECT / "configs").glob("*.yaml")}
    assert listed["fig2a"] == ["experiment", "Figure 2(a): density of the graph"]
    assert listed["demo"][0] == listed["run-reference"][0] == "run"
    assert listed["reference"][1].startswith("Every key of an experiment")
    for name in (name for name, (kind, _) in listed.items() if kind == "experiment"):
        assert freshkeeper("config", "validate", name).code == 0
    assert freshkeeper("simulate", "demo").complaint.startswith("there is no config demo; `freshkeeper config list`")
    said = freshkeeper("config", "validate", PROJECT / "configs" / "source-sparql.yaml")
    assert said.err.endswith("source-sparql.yaml is good: a source with sparql, 1 volatile predicate\n")


@pytest.mark.slow
def test_the_demo_prints_standings(freshkeeper: Call) -> None:
    demo = freshkeeper("demo", "--json", "--budget", 3, "--out", "demo", "--serve")
    assert demo.err.endswith("run freshkeeper demo --serve in one\n")
    standings = json.loads(demo.out)
    assert [standing["policy"] for standing in standings] == ["lru", "ibm", "plan"]
    assert all(0 < standing["freshness"] <= 1 and standing["requests"] <= 3 for standing in standings)
    verdict = freshkeeper("check", "demo", "--policy", "plan", "--warn", "0.5", "--error", "0.4")
    assert verdict.code == 0, "the journal of a demonstration knows the truth"
    replayed = freshkeeper(
        "replay", "demo", "--policy", "lru", "--budget", 4, "--out", "what-if", "--no-report", "--json"
    )
    (row,) = json.loads(replayed.out)["rows"]
    assert row["freshness"] > standings[0]["freshness"], "with more budget, from the journal alone"


def test_a_dry_run_tells_settings_runs_and_about_how_long_and_writes_nothing(freshkeeper: Call, tmp_path: Path) -> None:
    options = ["simulate", *SMALL, "--policy", "lru", "--budget", "3,5", "--seeds", 2, "--dry-run"]
    said = freshkeeper(*options)
    assert [word for word in ("budget=3", "budget=5", "evaluations", "lru") if word not in said.out] == []
    assert re.search(r"2 settings × 2 seeds = 4 runs; about \d+ s in one process, judged by 2 short runs", said.err)
    plan = json.loads(freshkeeper(*options, "--json").out)
    assert ([one["varied"] for one in plan["settings"]], plan["runs"]) == ([{"budget": 3}, {"budget": 5}], 4)
    assert plan["seconds"] > 0
    assert list(tmp_path.iterdir()) == []
