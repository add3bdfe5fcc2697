"""What notebooks show."""

import pytest

from freshkeeper.notebook import figure, freshness, told
from freshkeeper.policies.errors import ConfigError
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("notebook") / "run"
    keys = {"workload": {"edges": 200}, "evaluations": 12, "seeds": 2, "budget": [3, 5], "policies": "lru,ibm"}
    simulate(resolve(keys), place)
    return place


def test_a_figure_is_a_picture_with_words_and_the_first_choice_unless_one_is_named(run):
    first, other = figure(run, "over-time"), figure(run, "over-time", "budget=5")
    assert first.choice == "budget=3"
    assert first._repr_svg_().startswith("<svg")
    assert first._repr_svg_() != other._repr_svg_()
    assert "ibm" in repr(first)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "words"), [(("over-tim",), "did you mean 'over-time'"), (("stale", "budget=4"), "did you mean 'budget=")]
)
def test_a_figure_that_is_not_there_is_one_line_with_a_near_match(run, named, words):
    with pytest.raises(ConfigError, match=words):
        figure(run, *named)


def test_tables_are_printed_and_what_is_not_known_is_said(run, capsys):
    freshness(run)
    told(
        {"wasted": [{"policy": "lru", "wasted": 3, "share": 0.25, "late": None}]}, "wasted", "policy", "wasted", "share"
    )
    told({}, "missed", "policy")
    said = capsys.readouterr().out
    assert "budget=5" in said
    assert "0.250" in said
    assert "missed: nothing is known" in said
