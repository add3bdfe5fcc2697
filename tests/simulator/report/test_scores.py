"""Headlines by seed, groups that never mix, and who may be ranked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.experiment.scores import scores
from freshkeeper.simulator.experiment.summary import SummaryRow, write_summary
from freshkeeper.simulator.report.groups import groups

Make = Callable[..., Path]


def summary(path: Path, policy: str, **said: Any) -> None:
    """A summary.csv beside the tables."""
    nothing = dict.fromkeys(("freshness", "ci95", "pooled", "share_of_bound"))
    numbers = dict.fromkeys(("budget", "bank", "stale_answers", "answers", "spent", "requests_per_evaluation"), 0.0)
    whose = {"setting": "default", "policy": policy, "case": "bgp", "knowledge": "exact", "seeds": 1, "seconds": 0.0}
    write_summary(path / "summary.csv", [SummaryRow(**{**nothing, **numbers, **whose, "over_budget": False, **said})])


def test_the_headline_is_a_mean_over_evaluations_and_then_over_seeds(make_run: Make, write_table: Make) -> None:
    """Seed 0 has 1/2 and 1/10, so 0.3, and pooled 2/12; the warm-up and what has no answers are left out."""
    path = make_run({"ibm": [0.5]})
    answers = [(1, True, 5.0, 5.0), (2, False, 2.0, 1.0), (3, False, 0.0, 0.0), (4, False, 10.0, 1.0)]
    rows = [{"policy": "ibm", "k": k, "warmup": w, "results": r, "fresh": f, "spent": 3.0} for k, w, r, f in answers]
    write_table(path, "evaluations", rows)
    (score,) = scores(run_directory.read(path))
    assert score.freshness.mean == pytest.approx(0.3)
    assert score.pooled == pytest.approx(2 / 12)
    assert score.stale == 10
    assert score.evaluations == 2
    assert score.requests_per_evaluation == 3


def test_requests_are_counted_and_not_cost_units(make_run: Make, write_table: Make) -> None:
    """A key costs a quarter, four go in a request; where nobody counted requests the cost units stand in."""
    path = make_run({"ibm": [0.5]})
    row = {"policy": "ibm", "results": 1.0, "fresh": 1.0, "spent": 3.0}
    write_table(path, "evaluations", [{**row, "k": k, "requests": sent} for k, sent in ((1, 12), (2, 6))])
    (score,) = scores(run_directory.read(path))
    assert (score.requests_per_evaluation, score.spent_per_evaluation) == (9, 3)
    write_table(path, "evaluations", [{**row, "k": 1}])
    assert scores(run_directory.read(path))[0].requests_per_evaluation == 3


def test_a_share_of_the_bound_comes_from_its_rows(make_run: Make) -> None:
    found = scores(run_directory.read(make_run({"ibm": [0.4, 0.2], "clairvoyant": [0.5, 0.3]})))
    assert found[0].share_of_bound == pytest.approx(0.3 / 0.4)


def test_or_from_the_summary_which_then_tells_the_bound(make_run: Make) -> None:
    path = make_run({"ibm": [0.4]})
    summary(path, "ibm", share_of_bound=0.8)
    (group,) = groups(run_directory.read(path))
    assert group.scores["default", "ibm"].share_of_bound == pytest.approx(0.8)
    assert group.headline("default", "clairvoyant").mean == pytest.approx(0.5)
    assert np.isnan(group.headline("default", "unlimited").mean)


def test_cases_and_levels_of_knowledge_are_groups_of_their_own(make_run: Make) -> None:
    settings = {"c": {"case": "aggregate"}, "b": {"knowledge": "learned"}, "a": {"knowledge": "exact"}}
    found = groups(run_directory.read(make_run({name: {"ibm": [0.5]} for name in settings}, settings=settings)))
    assert [(g.case, g.knowledge, g.settings) for g in found] == [
        ("bgp", "exact", ["a"]),
        ("bgp", "learned", ["b"]),
        ("aggregate", "exact", ["c"]),
    ]


def test_bounds_and_those_over_the_budget_are_not_ranked(make_run: Make) -> None:
    fresh = {"lru": [0.3], "literal": [0.9], "ibm": [0.5], "liar": [0.8], "clairvoyant": [0.6]}
    path = make_run(fresh, spent={"literal": 21.0}, policies={"liar": {"keeps_budget": False}})
    (group,) = groups(run_directory.read(path))
    assert group.ranked == ["ibm", "lru"]
    assert group.overspent == ["literal", "liar"]
    assert group.policies[-1] == "clairvoyant"


def test_what_the_summary_calls_over_budget_is(make_run: Make) -> None:
    path = make_run({"ibm": [0.5], "odd": [0.9]})
    summary(path, "odd", over_budget=True)
    assert groups(run_directory.read(path))[0].ranked == ["ibm"]


def test_a_policy_that_was_not_run_everywhere_is_not_ranked(make_run: Make) -> None:
    path = make_run({"a": {"ibm": [0.5], "new": [0.9]}, "b": {"ibm": [0.6]}})
    (group,) = groups(run_directory.read(path))
    assert group.ranked == ["ibm"]
    assert group.overall("ibm").mean == pytest.approx(0.55)


def test_a_setting_without_answers_does_not_hide_the_others(make_run: Make) -> None:
    path = make_run({"a": {"ibm": [0.5], "lru": [0.2]}, "b": {"ibm": [None], "lru": [None]}})
    (group,) = groups(run_directory.read(path))
    assert group.ranked == ["ibm", "lru"]
    assert group.lead("ibm", "lru", "a").mean == pytest.approx(0.3)
    assert np.isnan(group.lead("ibm", "lru", "b").mean)


def test_settings_are_named_by_what_was_varied_and_not_by_what_tells_groups_apart(make_run: Make) -> None:
    varied = {"budget": 5, "workload.change_interval_ms": [100, 3000], "knowledge": "exact"}
    path = make_run({"x": {"ibm": [0.5]}}, settings={"x": {"varied": varied}})
    words = groups(run_directory.read(path))[0].text("x").replace("\N{NO-BREAK SPACE}", " ")
    assert words == "budget 5 · change interval 100 ms to 3 s"
