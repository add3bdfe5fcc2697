"""The plots as pictures, in the light, with their titles: PNG files, and SVG for notebooks."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import vl_convert

from freshkeeper.maintenance.files import writing
from freshkeeper.policies.errors import ConfigError
from freshkeeper.simulator.report.charts import CONFIG, VEGA_LITE
from freshkeeper.simulator.report.drawing import Figure, View, expanded
from freshkeeper.simulator.report.styles import LIGHT

WIDTH = 640


def write_pngs(directory: Path, prefix: str, figures: Sequence[Figure]) -> list[Path]:
    """One file per figure and choice."""
    if directory.is_file():
        raise ConfigError(f"{directory} is a file; the plots need a directory")
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    return [
        _write(directory / f"{prefix}{figure.key}{_suffix(choice, figure)}.png", figure, choice, view)
        for figure in figures
        for choice, view in figure.views.items()
    ]


def _write(file: Path, figure: Figure, choice: str, view: View) -> Path:
    picture = vl_convert.vegalite_to_png(_titled(figure, choice, view), vl_version=VEGA_LITE, scale=2)
    with writing(file):
        file.write_bytes(picture)
    return file


def svg(figure: Figure, choice: str, view: View) -> str:
    """One choice of a figure, in a quarter of a PNG's bytes."""
    return vl_convert.vegalite_to_svg(_titled(figure, choice, view), vl_version=VEGA_LITE)


def _titled(figure: Figure, choice: str, view: View) -> str:
    title = {"text": figure.title, "subtitle": choice if figure.chooser else "", "offset": 14}
    spec: dict[str, Any] = {
        **figure.spec,
        "width": WIDTH,
        "title": title,
        "datasets": {name: expanded(blocks) for name, blocks in view.rows.items()},
        "config": {**CONFIG, "background": LIGHT["paper"], "font": "sans-serif", "padding": 12},
    }
    # There is no style sheet in a PNG: colours become values.
    return re.sub(r"var\(--([a-z]+)\)", lambda name: LIGHT[name[1]], json.dumps(spec))


def _suffix(choice: str, figure: Figure) -> str:
    return "-" + re.sub(r"[^\w.=]+", "-", choice).strip("-") if figure.chooser else ""
