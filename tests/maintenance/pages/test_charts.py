"""Charts: names that do not overlap, axes with round ends, gaps in lines, and looks that tell policies apart."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.pages.amounts import MAX_LABEL_LENGTH, shortened
from freshkeeper.maintenance.pages.charts import HEIGHT, LABEL_PX, PERCENT, Axis, Chart, ChartForm, apart, frame
from freshkeeper.maintenance.pages.figures import ChartTable, figure
from freshkeeper.maintenance.pages.page import blocks
from freshkeeper.maintenance.pages.styles import COLOURS, LIGHT, looks
from freshkeeper.policies.registry import BUILTIN

LINES = Chart(form=ChartForm.LINES, x=Axis("evaluation"), marks=3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=25))
def test_names_are_a_line_apart_in_their_order_and_inside_the_axis(ends: list[float]) -> None:
    low, high = frame(ends, highest=1.0)
    found = apart(ends, low, high)
    slack = 1e-9 * (1 + abs(high))
    assert found.min() >= low - slack
    assert found.max() <= high + slack
    gap = min((high - low) * LABEL_PX / HEIGHT, (high - low) / max(len(ends) - 1, 1))
    assert (np.diff(np.sort(found)) >= gap - slack).all()
    assert (np.argsort(found, kind="stable") == np.argsort(ends, kind="stable")).all()


def test_names_with_room_stay_where_they_are() -> None:
    assert apart([0.2, 0.8], 0, 1).tolist() == pytest.approx([0.2, 0.8])


def test_an_axis_ends_at_round_numbers() -> None:
    assert list(frame([0.23, 0.58])) == pytest.approx([0.2, 0.6])
    assert frame([0.5, 0.99], highest=1.0)[1] == 1
    assert frame([7, 12], zero=True)[0] == 0
    assert frame([0.0]) == (0, 1)
    assert frame([1.0, 1.0], highest=1.0) == (0, 1)


def test_an_axis_that_does_not_begin_at_zero_says_where_it_begins() -> None:
    percents = Chart(form=ChartForm.LINES, x=Axis("evaluation"), y=Axis("fresh", PERCENT))
    for values, notice in (
        ((0.72, 0.9), "axis from 70\N{NO-BREAK SPACE}%"),
        ((0.976, 0.994), "axis from 97.5\N{NO-BREAK SPACE}%"),
        ((0.0, 0.9), ""),
    ):
        rows = [{"policy": "ibm", "x": x, "mid": value} for x, value in enumerate(values)]
        (view,) = figure(
            "key", "title", percents, {"": ChartTable(rows, "words")}, looks({"ibm": "ibm"})
        ).views.values()
        assert view.rows["frame"][0]["text"] == notice


def test_dots_near_zero_begin_there_and_others_say_that_they_do_not() -> None:
    dots = Chart(form=ChartForm.DOTS, x=Axis("seconds"))
    for values, begins in (((1, 9), True), ((8, 9), False)):
        rows = [{"policy": str(value), "mid": value, "text": ""} for value in values]
        spec = figure("key", "title", dots, {"": ChartTable(rows, "words")}, looks({"1": "1"})).spec
        x = spec["layer"][0]["encoding"]["x"]
        assert x["scale"]["zero"] == begins
        assert ("does not begin at 0" in x["title"]) != begins


LONG = "http://example.org/the-only-customer-of-the-shop-in-the-north/12345"


def test_long_names_are_shortened_in_the_middle_and_never_cut() -> None:
    assert shortened(LONG) == "http://example.or…-the-north/12345"
    assert len(shortened(LONG)) <= MAX_LABEL_LENGTH == len(shortened("x" * MAX_LABEL_LENGTH))
    bars = Chart(form=ChartForm.BARS, x=Axis("of answers", PERCENT))
    spec = figure("key", "title", bars, {"": ChartTable([{"policy": LONG, "mid": 1}], "words")}, {}).spec
    axis = spec["layer"][0]["encoding"]["y"]["axis"]
    assert axis["labelLimit"] == 0
    assert "'…'" in axis["labelExpr"]
    rows = [{"policy": LONG, "x": 1, "mid": 1.0}]
    (view,) = figure("key", "title", LINES, {"": ChartTable(rows, "words")}, looks({LONG: LONG})).views.values()
    assert [(row["policy"], row["text"]) for row in view.rows["names"]] == [(LONG, shortened(LONG))]


def test_a_pause_between_evaluations_is_a_gap_in_the_line() -> None:
    rows = [{"policy": "ibm", "x": x, "mid": 1.0} for x in (1, 2, 3, 9, 10)]
    (view,) = figure("key", "title", LINES, {"": ChartTable(rows, "words")}, looks({"ibm": "ibm"})).views.values()
    assert [(row["x"], row["mid"]) for row in view.rows["rows"]][2:5] == [(3, 1), (6, None), (9, 1)]


def test_a_chart_without_rows_has_no_views() -> None:
    assert figure("key", "title", LINES, {"": ChartTable([], "words"), "b": None}, {}).views == {}


def test_rows_become_blocks_that_say_once_what_they_share() -> None:
    rows = [{"policy": "ibm", "x": x, "mid": 0.5} for x in (1, 2)] + [{"policy": "lru", "x": 1, "mid": 0.25}]
    assert blocks(rows) == [
        {"is": {"policy": "ibm", "mid": 0.5}, "columns": {"x": [1, 2]}},
        {"is": {"policy": "lru", "x": 1, "mid": 0.25}, "columns": {}},
    ]


def test_no_two_builtin_policies_look_alike() -> None:
    found = looks({name: name for name in BUILTIN})
    assert len(set(found.values())) == len(BUILTIN)
    assert len({(style.colour, style.dash) for style in found.values()}) == len(BUILTIN)


def test_settings_of_a_policy_keep_its_colour_and_strangers_take_what_is_left() -> None:
    found = looks({"fba": "fba", "fba literal": "fba", "ours": "ours", "theirs": "theirs"})
    assert found["fba"].colour == found["fba literal"].colour == "sky"
    assert found["fba"].dash != found["fba literal"].dash
    assert len({style.colour for style in found.values()}) == 3


def test_more_policies_than_colours_still_differ() -> None:
    assert len(set(looks({f"p{i}": f"p{i}" for i in range(14)}).values())) == 14


def test_every_colour_has_a_value_in_the_light_and_in_the_dark() -> None:
    assert set(re.findall(r"--(\w+):", COLOURS.partition("@media")[2])) == set(LIGHT)
