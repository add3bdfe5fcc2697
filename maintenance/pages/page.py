"""A page is one offline HTML file: a head, sections of tables, figures and text, and how to repeat it.

The style sheet, the script and the libraries are inlined; a content security policy forbids the page to load anything.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TypeAlias

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.pages.charts import VEGA_LITE, datasets_of
from freshkeeper.maintenance.pages.figures import Figure, FigureView, Row
from freshkeeper.maintenance.pages.styles import COLOURS, Style

PAGE_FILES = Path(__file__).parent


@dataclass(frozen=True)
class Heading:
    """A heading between parts of a section."""

    text: str


@dataclass(frozen=True)
class Caption:
    """A paragraph that explains the part before it."""

    text: str


@dataclass(frozen=True)
class Chooser:
    """A list to choose from: the key is what views are found by, the text what people read."""

    name: str
    label: str
    options: Mapping[str, str]
    sticky: bool = False


@dataclass(frozen=True)
class TableRow:
    """A row: its head with marks in words, and its cells."""

    head: str
    cells: Sequence[str]
    marks: Sequence[str] = ()
    style: Style | None = None
    best: bool = False
    bound: bool = False


@dataclass(frozen=True)
class PageTable:
    """A table; where there is a chooser, it is shown while `choice` is chosen."""

    title: str
    heads: Sequence[str]
    rows: Sequence[TableRow]
    chooser: str = ""
    choice: str = ""
    hidden: bool = False


Part: TypeAlias = Heading | Caption | Chooser | PageTable | Figure | Markup


@dataclass(frozen=True)
class Lift:
    """A number beside the lead: how much more than a baseline, and the range over settings."""

    label: str
    text: str
    detail: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a page with its own heading, lead, and parts from top to bottom."""

    id: str
    title: str
    parts: Sequence[Part]
    lead: str | Markup = ""
    lifts: Sequence[Lift] = ()
    sentences: Sequence[str | Markup] = ()

    @property
    def figures(self) -> list[Figure]:
        """The figures, from top to bottom."""
        return [part for part in self.parts if isinstance(part, Figure)]

    @property
    def choosers(self) -> dict[str, Chooser]:
        """The choosers by name."""
        return {part.name: part for part in self.parts if isinstance(part, Chooser)}

    @property
    def blocks(self) -> list[tuple[str, list[Part]]]:
        """The parts with the name of their kind; neighbouring figures are one block, which is laid out as a grid."""
        return [(kind, list(parts)) for kind, parts in groupby(self.parts, key=lambda part: type(part).__name__)]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: its head, its sections, and how to repeat it."""

    kind: str
    title: str
    sections: Sequence[Section]
    facts: Sequence[str] = ()
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """what the page cannot tell"""


def write_page(page: Page, file: Path) -> Path:
    """Write a page, whole or not at all."""
    text = rendered(page)
    with atomic_file(file) as unfinished:
        unfinished.write_text(text, "utf-8")
    return file


def rendered(page: Page) -> str:
    """Return a page as HTML."""
    environment = Environment(loader=FileSystemLoader(PAGE_FILES), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    plots: dict[str, dict[str, Any]] = {}
    for section in page.sections:
        plots |= {f"{section.id}-{figure.key}": _plot(section, figure) for figure in section.figures}
    return (
        environment.get_template("page.html")
        .render(
            page=page,
            css=Markup(COLOURS + (PAGE_FILES / "page.css").read_text("utf-8")),
            script=Markup((PAGE_FILES / "page.js").read_text("utf-8")),
            has_plots=bool(plots),
            plots=Markup(_as_json(plots)),
            libraries=_libraries,
        )
        .strip()
    )


@cache
def _libraries() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that does not end its element early."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return bundle.replace("</script", r"<\/script")


def _plot(section: Section, figure: Figure) -> dict[str, Any]:
    """Return what page.js draws at one place of the page."""
    views = {choice: _view(figure, view) for choice, view in figure.views.items()}
    chooser = ""
    if figure.chooser:
        chooser = f"{section.id}-{figure.chooser}"
    return {"spec": figure.spec, "chooser": chooser, "views": views}


def _view(figure: Figure, view: FigureView) -> dict[str, Any]:
    rows = {name: blocks(view.rows.get(name, [])) for name in datasets_of(figure.spec)}
    return {"words": view.words, "rows": rows}


def blocks(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as blocks, one per policy: `is` has what all its rows share, `columns` what they do not."""
    found = []
    for _, group in groupby(rows, key=lambda row: row.get("policy")):
        members = list(group)
        names = dict.fromkeys(chain.from_iterable(members))
        columns = {name: _column(members, name) for name in names}
        shared = {name: values[0] for name, values in columns.items() if values.count(values[0]) == len(values)}
        if len(shared) == len(columns) and len(members) > 1:
            shared.popitem()
        found.append({"is": shared, "columns": {name: columns[name] for name in names if name not in shared}})
    return found


def _column(rows: Sequence[Row], name: str) -> list[Any]:
    return [row.get(name) for row in rows]


def _as_json(plots: Mapping[str, Any]) -> str:
    return json.dumps(plots, separators=(",", ":"), ensure_ascii=False).replace("<", r"\u003c")
