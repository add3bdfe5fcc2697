"""Which settings lie along a key, and what budget reaches a target."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.report.groups import groups
from freshkeeper.simulator.report.panels import Panel, Reach, panels, reach

Make = Callable[..., Path]


def along(make_run: Make, *varied: dict[str, Any]) -> dict[str, list[Panel]]:
    """The panels of settings that vary so."""
    settings = {str(i): {"varied": values} for i, values in enumerate(varied)}
    return panels(
        groups(run_directory.read(make_run({name: {"ibm": [0.5]} for name in settings}, settings=settings)))[0]
    )


def test_one_swept_key_is_one_panel_in_the_order_of_the_config(make_run: Make) -> None:
    found = along(make_run, {"edges": 900}, {"edges": 100}, {"edges": 500})
    assert found == {"edges": [Panel("edges", "", ((900, "0"), (100, "1"), (500, "2")))]}


def test_budgets_lie_along_a_scale(make_run: Make) -> None:
    found = along(make_run, {"budget": 9}, {"budget": 1}, {"budget": 5})
    assert found == {"budget": [Panel("budget", "", ((1, "1"), (5, "2"), (9, "0")))]}


def test_ranges_and_words_keep_the_order_of_the_run(make_run: Make) -> None:
    (panel,) = along(make_run, {"ms": [500, 2000]}, {"ms": [100, 3000]})["ms"]
    assert [what for what, _ in panel.at] == [[500, 2000], [100, 3000]]
    assert not panel.numeric


def test_a_grid_holds_the_other_key_still(make_run: Make) -> None:
    found = along(make_run, *({"budget": b, "w.edges": e} for b in (5, 10) for e in (100, 200)))
    assert [panel.others for panel in found["budget"]] == ["edges 100", "edges 200"]
    assert [panel.others for panel in found["w.edges"]] == ["budget 5", "budget 10"]


def test_a_key_with_one_value_is_no_panel(make_run: Make) -> None:
    assert along(make_run, {"budget": 5, "knowledge": "exact"}, {"budget": 9, "knowledge": "exact"}).keys() == {
        "budget"
    }


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (0.2, Reach(5, at_least=True)),
        (0.5, Reach(10, interpolated=True)),
        (0.8, Reach(20)),
        (0.9, Reach(None)),
    ],
)
def test_a_target_lies_on_the_line_between_budgets(target: float, wanted: Reach) -> None:
    found = reach([5, 15, 20], [0.3, 0.7, 0.8], target)
    assert (found.needed, found.interpolated, found.at_least) == (
        pytest.approx(wanted.needed) if wanted.needed else None,
        wanted.interpolated,
        wanted.at_least,
    )


def test_words_say_how_sure_a_budget_is() -> None:
    found = [Reach(5, at_least=True), Reach(12.34, interpolated=True), Reach(2.5), Reach(None)]
    assert [one.text for one in found] == ["at most 5", "about 12", "2.5", "not reached"]
