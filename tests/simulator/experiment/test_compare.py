"""Comparing two runs: paired by seed, never across cases or knowledge."""

from collections.abc import Callable
from json import dumps
from pathlib import Path

import pytest

from freshkeeper.maintenance.journal.run_json import RunError
from freshkeeper.simulator.experiment.compare import HEADS, Changed, compare
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve

Make = Callable[..., Path]


def test_differences_are_paired_by_seed(make_run: Make) -> None:
    """+0.1 in every seed, though the seeds lie far apart: of two seeds, t is 12.706 and the differences do not vary."""
    found = compare(make_run({"ibm": [0.2, 0.8]}, "a"), make_run({"ibm": [0.3, 0.9]}, "b"))
    (difference,) = found.differences
    assert difference.paired
    assert difference.difference == pytest.approx(0.1)
    assert difference.ci95 == pytest.approx(0, abs=1e-12)
    assert difference.verdict == "better"
    assert len(difference.row) == len(HEADS)


def test_only_the_seeds_that_both_have_are_compared(make_run: Make) -> None:
    (difference,) = compare(make_run({"ibm": [0.2, 0.4, 0.9]}, "a"), make_run({"ibm": [0.1, 0.3]}, "b")).differences
    assert difference.first == pytest.approx(0.3)
    assert difference.second == pytest.approx(0.2)
    assert difference.seeds == 2
    assert difference.verdict == "worse"


def test_without_shared_seeds_the_interval_is_welchs(make_run: Make, write_table: Make) -> None:
    """Both variances are 0.02: half = t(2) · sqrt(0.02/2 + 0.02/2) = 4.303 · 0.1414."""
    a, b = make_run({"ibm": [0.4, 0.6]}, "a"), make_run({"ibm": [0.5]}, "b")
    rows = [
        {"setting": "default", "policy": "ibm", "case": "bgp", "knowledge": "exact", "k": 1, "results": 1.0}
        for _ in "ab"
    ]
    seeds = [{"seed": 10, "fresh": 0.5}, {"seed": 11, "fresh": 0.7}]
    write_table(b, "evaluations", [row | seed for row, seed in zip(rows, seeds, strict=True)])
    (difference,) = compare(a, b).differences
    assert not difference.paired
    assert difference.ci95 == pytest.approx(4.3027 * 0.02**0.5, rel=1e-4)
    assert difference.verdict == "no difference seen"


def test_one_seed_tells_nothing_from_chance(make_run: Make) -> None:
    (difference,) = compare(make_run({"ibm": [0.2]}, "a"), make_run({"ibm": [0.3]}, "b")).differences
    assert difference.ci95 is None
    assert "chance" in difference.verdict


def test_what_is_in_one_alone_is_listed(make_run: Make) -> None:
    found = compare(make_run({"ibm": [0.2], "lru": [0.1]}, "a"), make_run({"ibm": [0.3], "sbm": [0.2]}, "b"))
    assert found.only_first == ("default / lru / bgp / exact",)
    assert found.only_second == ("default / sbm / bgp / exact",)


def test_settings_that_differ_are_listed_by_key(make_run: Make) -> None:
    a = make_run({"ibm": [0.2]}, "a", config={"workload": {"edges": 500, "sns": 50}, "step": "1s"})
    b = make_run({"ibm": [0.2]}, "b", config={"workload": {"edges": 900, "sns": 50}, "window": "4s"})
    found = compare(a, b)
    assert found.changed == (
        Changed("workload.edges", 500, 900),
        Changed("step", "1s", None),
        Changed("window", None, "4s"),
    )
    assert "window: not set in the first, 4s in the second" in found.lines


def test_levels_of_knowledge_are_never_compared(make_run: Make) -> None:
    b = make_run({"ibm": [0.3]}, "b", settings={"default": {"knowledge": "learned"}})
    with pytest.raises(RunError, match="different cases or levels of knowledge"):
        compare(make_run({"ibm": [0.2]}, "a"), b)


def test_runs_with_nothing_in_common_say_what_each_has(make_run: Make) -> None:
    with pytest.raises(RunError, match=r"no setting × policy is in both; .*lru.*sbm"):
        compare(make_run({"lru": [0.2]}, "a"), make_run({"sbm": [0.2]}, "b"))
    with pytest.raises(RunError, match="no evaluation that counts"):
        compare(make_run({"lru": [None]}, "c"), make_run({"sbm": [0.2]}, "d"))


def test_an_expected_freshness_is_marked(make_run: Make) -> None:
    (difference,) = compare(make_run({"ibm": [0.2]}, "a"), make_run({"ibm": [0.3]}, "b", expected=True)).differences
    assert difference.expected
    assert difference.row[-1].endswith("(expected)")


def test_a_comparison_is_plain_data_too(make_run: Make) -> None:
    found = compare(make_run({"ibm": [0.2, 0.3]}, "a"), make_run({"ibm": [0.3, 0.2]}, "b")).as_json()
    assert dumps(found)
    assert found["differences"][0]["verdict"] == "no difference seen"


def simulated(place: Path, **keys: object) -> Path:
    small = {"workload": {"sns": 12, "srs": 10, "edges": 40}, "evaluations": 10, "seeds": 3, "bound": "never"}
    simulate(resolve({**small, "policies": "lru,plan"}, keys), place)
    return place


def test_a_point_of_a_grid_is_compared_with_the_run_of_the_same_values_whatever_it_is_called(tmp_path: Path) -> None:
    alone = simulated(tmp_path / "alone", budget=2, window="4s")
    grid = simulated(tmp_path / "grid", sweep={"budget": [1, 2.0], "window": [4000, "8s"]})
    found = compare(alone, grid)
    assert [(one.setting, one.policy) for one in found.differences] == [
        ("budget=2,window=4000", policy) for policy in ("lru", "plan")
    ]
    assert [one.difference for one in found.differences] == pytest.approx([0, 0], abs=1e-12)
    assert (len(found.only_first), len(found.only_second), found.changed) == (0, 6, ())
    assert [one.setting for one in compare(grid, alone).differences] == ["budget=2,window=4000"] * 2


def test_what_neither_run_sweeps_is_what_is_compared(tmp_path: Path) -> None:
    few, many = (
        simulated(tmp_path / str(edges), workload={"sns": 12, "srs": 10, "edges": edges}) for edges in (30, 60)
    )
    found = compare(few, many)
    assert [one.setting for one in found.differences] == ["default", "default"]
    assert found.changed == (Changed("workload.edges", 30, 60),)


def test_a_policy_is_paired_by_its_settings_and_not_by_its_label(tmp_path: Path) -> None:
    first = simulated(tmp_path / "a", policies=[{"name": "gain", "windows": 2, "label": "mine"}, "lru"])
    second = simulated(tmp_path / "b", policies=["gain(windows=2)", {"name": "plan", "label": "lru"}])
    found = compare(first, second)
    assert [(one.policy, one.difference) for one in found.differences] == [("mine / gain(windows=2)", 0.0)]
    assert (found.only_first, found.only_second) == (("default / lru / bgp / exact",),) * 2


def test_a_budget_that_no_point_of_the_grid_has_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="nothing can be compared"):
        compare(simulated(tmp_path / "a", budget=7), simulated(tmp_path / "b", sweep={"budget": [1, 2]}))
