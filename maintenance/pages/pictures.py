"""Figures outside a page: as PNG, as CSV, and as SVG for notebooks."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

import vl_convert

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.files import writing
from freshkeeper.maintenance.pages.charts import CONFIG, VEGA_LITE
from freshkeeper.maintenance.pages.figures import Figure, FigureView, Row
from freshkeeper.maintenance.pages.styles import COLOURS, LIGHT

WIDTH = 640
"""Pixels of a picture; on a page, figures are as wide as there is room."""
PADDING = {"left": 12, "top": 12, "bottom": 12, "right": 48}
"""On the right there is room for names that are wider in the font of a browser than in the one they are laid out in."""
HIDDEN_COLUMNS = ("mark", "size", "rank", "paint")
"""Columns of rows that say how they are drawn and not what they are."""


@dataclass(frozen=True)
class Picture:
    """A figure as a notebook shows it; printed, it is its words."""

    key: str
    choice: str
    words: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return self.words


def picture(figure: Figure, choice: str) -> Picture:
    """Return one choice of a figure as SVG, with the colours of a page's style sheet where it stands in one."""
    view = figure.views[choice]
    svg = vl_convert.vegalite_to_svg(_self_contained(figure, choice, view), vl_version=VEGA_LITE)
    for name, value in LIGHT.items():
        svg = svg.replace(f'"{value}"', f'"var(--{name}, {value})"')
    return Picture(figure.key, choice, view.words, svg)


def with_own_colours(svg: str) -> str:
    """Return an SVG that stands alone, with the colours of the light or of the dark."""
    head, mark, rest = svg.partition(">")
    return f"{head}{mark}<style>{COLOURS}</style>{rest}"


def write_pictures(figures: Mapping[str, Iterable[Figure]], png: Path | None, table: Path | None) -> None:
    """Write figures as PNG and as CSV, where a directory is given; the keys are prefixes of the files' names."""
    forms: list[tuple[Path | None, str, Callable[[Figure, str, FigureView], bytes]]] = [
        (png, ".png", as_png),
        (table, ".csv", as_csv),
    ]
    for directory, ending, make in forms:
        if directory is None:
            continue
        if directory.is_file():
            raise ConfigError(f"{directory} is a file; the plots need a directory")
        with writing(directory):
            directory.mkdir(parents=True, exist_ok=True)
        for prefix, group in figures.items():
            for figure in group:
                _write_choices(figure, directory / f"{prefix}{figure.key}", ending, make)


def _write_choices(figure: Figure, place: Path, ending: str, make: Callable[[Figure, str, FigureView], bytes]) -> None:
    for choice, view in figure.views.items():
        file = place.with_name(f"{place.name}{ending}")
        if figure.chooser:
            words = re.sub(r"[^\w.=]+", "-", choice).strip("-")
            file = place.with_name(f"{place.name}-{words}{ending}")
        with writing(file):
            file.write_bytes(make(figure, choice, view))


def as_csv(figure: Figure, choice: str, view: FigureView) -> bytes:
    """Return the rows that one choice of a figure draws, each with what it is of."""
    del figure, choice
    rows = [_visible(row) for row in view.rows["rows"]]
    text = StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(chain.from_iterable(rows))))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _visible(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in HIDDEN_COLUMNS}


def as_png(figure: Figure, choice: str, view: FigureView) -> bytes:
    """Return one choice of a figure as a picture."""
    return vl_convert.vegalite_to_png(_self_contained(figure, choice, view), vl_version=VEGA_LITE, scale=2)


def _self_contained(figure: Figure, choice: str, view: FigureView) -> str:
    """Return the specification with its rows, its title, and colours as values, as no style sheet stands beside it."""
    title = {"text": figure.title, "subtitle": choice if figure.chooser else "", "offset": 14}
    spec: dict[str, Any] = {
        **figure.spec,
        "width": WIDTH,
        "title": title,
        "datasets": view.rows,
        "config": {**CONFIG, "background": LIGHT["paper"], "font": "sans-serif", "padding": PADDING},
    }
    return re.sub(r"var\(--([a-z]+)\)", lambda name: LIGHT[name[1]], json.dumps(spec))
