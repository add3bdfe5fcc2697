"""Comparing two runs: paired by seed, never across cases or knowledge."""

from collections.abc import Callable
from json import dumps
from pathlib import Path

import pytest

from freshkeeper.maintenance.journal.run_json import RunError
from freshkeeper.simulator.experiment.compare import HEADS, Changed, compare

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
