"""Every policy looks the same everywhere and unlike the others."""

import re
from collections.abc import Callable
from pathlib import Path

from freshkeeper.policies.registry import OURS
from freshkeeper.simulator import report
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.report.styles import LIGHT, styles

Make = Callable[..., Path]


def test_no_two_policies_of_ours_look_alike(make_run: Make) -> None:
    path = make_run({name: [0.5] for name in OURS})
    found = styles(run_directory.read(path), list(OURS))
    assert len(set(found.values())) == len(OURS)
    assert len({(style.colour, style.dash) for style in found.values()}) == len(OURS)


def test_settings_of_a_policy_keep_its_colour_and_strangers_take_what_is_left(make_run: Make) -> None:
    labels = ["fba", "fba literal", "ours", "theirs"]
    path = make_run({name: [0.5] for name in labels}, policies={"fba literal": {"name": "fba"}})
    found = styles(run_directory.read(path), labels)
    assert found["fba"].colour == found["fba literal"].colour == "sky"
    assert found["fba"].dash != found["fba literal"].dash
    assert len({style.colour for style in found.values()}) == 3


def test_more_policies_than_colours_still_differ(make_run: Make) -> None:
    labels = [f"p{i}" for i in range(14)]
    found = styles(run_directory.read(make_run({name: [0.5] for name in labels})), labels)
    assert len(set(found.values())) == 14


def test_pngs_have_the_colours_of_the_style_sheet_in_the_light() -> None:
    sheet = (Path(report.__file__).parent / "page.css").read_text("utf-8")
    light = re.search(r":root \{(.*?)\}", sheet, re.DOTALL)
    assert light
    assert dict(re.findall(r"--(\w+): (#\w+);", light[1])) == LIGHT
