"""The page itself: one HTML file with everything in it, and the same plots as PNG and as pictures for notebooks.

The style sheet, the script and the libraries are inlined once; a content security policy forbids the page to load
anything, so that offline is not a promise but a fact.
"""

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.files import writing
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.report import figures, report_tables
from freshkeeper.simulator.report.amounts import listed
from freshkeeper.simulator.report.charts import CONFIG, VEGA_LITE, datasets
from freshkeeper.simulator.report.costs import Costs, costs
from freshkeeper.simulator.report.drawing import SETTING, Drawn, Figure, View, expanded
from freshkeeper.simulator.report.groups import Group, groups
from freshkeeper.simulator.report.judgement import Judgement, judgement
from freshkeeper.simulator.report.judgement import figures as judged_figures
from freshkeeper.simulator.report.scores import BOUND
from freshkeeper.simulator.report.staleness import Staleness, staleness
from freshkeeper.simulator.report.styles import LIGHT, styles
from freshkeeper.simulator.report.verdict import Verdict, verdict

HERE = Path(__file__).parent
Made = Callable[[Figure, str, View], bytes]
WIDTH = 640
"""of a picture, where the page is as wide as its window"""


@dataclass(frozen=True)
class Choices:
    """A list to choose from: the key is what views are found by, the text what people read."""

    name: str
    label: str
    options: dict[str, str]


@dataclass(frozen=True)
class Section:
    """All that the page says about one group."""

    id: str
    group: Group
    drawn: Drawn
    verdict: Verdict
    along: list[Figure]
    single: list[Figure]
    judged: list[Figure]
    choices: dict[str, Choices]
    overview: report_tables.Table | None
    by_setting: list[report_tables.Table]
    budgets: list[report_tables.Table]
    baselines: list[report_tables.Table]

    @property
    def figures(self) -> list[Figure]:
        """All of them, in the order of the page."""
        return [*self.along, *self.single, *self.judged]


def write_report(run: Path, out: Path | None = None, png: Path | None = None, table: Path | None = None) -> Path:
    """Write the page of a run (report.html in it, or `out`), and its plots as PNG and as CSV into directories."""
    read = run_directory.read(run)
    sections, notes = _sections(read, judgement(run))
    page = out or run / "report.html"
    text = _html(read, sections, notes)
    with writing(page):
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, "utf-8")
    write_plots([(section.group, section.figures) for section in sections], png, table)
    return page


def write_plots(of: Sequence[tuple[Group, Sequence[Figure]]], png: Path | None, table: Path | None) -> None:
    """The figures of each group as PNG and as CSV, where a directory is given; of several groups with their names."""
    forms: list[tuple[Path | None, str, Made]] = [(png, ".png", as_png), (table, ".csv", as_csv)]
    for directory, ending, made in forms:
        for group, drawn in of if directory else []:
            prefix = f"{group.case}-{group.knowledge}-" if len(of) > 1 else ""
            _write_each(Path(str(directory)), prefix, ending, drawn, made)


def _sections(read: run_directory.Run, judged: Judgement) -> tuple[list[Section], list[str]]:
    """One per group, and what cannot be told of any."""
    paid, stale = costs(read), staleness(read)
    sections = [_section(f"g{i}", group, paid, stale, judged) for i, group in enumerate(groups(read))]
    return sections, [*read.notes, *paid.notes, *stale.notes, *(() if judged.whole else judged.notes)]


def _section(name: str, group: Group, paid: Costs, stale: Staleness, judged: Judgement) -> Section:
    lines = len(group.scores)
    implied = [BOUND] if any(group.headline(setting, BOUND).mean > 0 for setting in group.settings) else []
    looks = styles(group.run, list(dict.fromkeys([*group.policies, *implied])))
    drawn = Drawn(group, paid, stale, looks, figures.points_each(lines))
    along, single = figures.along_keys(drawn), figures.of_settings(drawn)
    overview, by_setting = report_tables.overview(drawn), report_tables.of_settings(drawn)
    budgets, choices = report_tables.budgets(drawn), _choices(group, along)
    tables = overview, by_setting, budgets, report_tables.of_baselines(group)
    return Section(name, group, drawn, verdict(group), along, single, judged_figures(drawn, judged), choices, *tables)


def _choices(group: Group, along: Sequence[Figure]) -> dict[str, Choices]:
    found = {
        f.chooser: Choices(f.chooser, "Others held at", {held: held for held in f.views}) for f in along if f.chooser
    }
    if len(group.settings) > 1:
        options = {setting: group.text(setting) for setting in group.settings}
        found[SETTING] = Choices(SETTING, "Setting", options)
    return found


def _html(run: run_directory.Run, sections: Sequence[Section], notes: Sequence[str]) -> str:
    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    policies = dict.fromkeys(series.policy for series in run.evaluations.series)
    page = environment.get_template("page.html").render(
        title=run.about.config.get("title") or run.path.resolve().name,
        run=run,
        about=run.about,
        sections=sections,
        levels=report_tables.of_knowledge([section.group for section in sections]),
        notes=notes,
        policies=policies,
        settings=_settings(run),
        plots=Markup(as_plots({f"{section.id}-{one.key}": one for section in sections for one in section.figures})),
        **inlined(),
    )
    return page.strip()


def inlined() -> dict[str, Markup]:
    """What every page has in it: the style sheet, the script and the libraries."""
    css, script = (Markup((HERE / name).read_text("utf-8")) for name in ("page.css", "page.js"))
    return {"css": css, "script": script, "libraries": Markup(libraries())}


def _settings(run: run_directory.Run) -> dict[str, str]:
    """The config as people read it; of a recorded trace without the keys of a workload, which nobody drew."""
    recorded = bool(run.about.config.get("trace"))
    shown = {k: part for k, part in run.about.flat_config.items() if not (recorded and k.startswith("workload."))}
    return {key: listed(part) or "–" for key, part in shown.items()}


@cache
def libraries() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that does not end its element early."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return bundle.replace("</script", r"<\/script")


def as_plots(figures: Mapping[str, Figure]) -> str:
    """What page.js draws, by the element that it draws into: PREFIX-KEY, whose chooser is PREFIX-CHOOSER."""
    plots = {
        place: {
            "spec": figure.spec,
            "chooser": place.removesuffix(figure.key) + figure.chooser if figure.chooser else "",
            "views": {  # without rows that the plot does not draw
                choice: {"words": view.words, "rows": {name: view.rows[name] for name in datasets(figure.spec)}}
                for choice, view in figure.views.items()
            },
        }
        for place, figure in figures.items()
    }
    return json.dumps(plots, separators=(",", ":"), ensure_ascii=False).replace("<", r"\u003c")


@dataclass(frozen=True)
class Picture:
    """A plot as a notebook shows it; printed, it is its words."""

    key: str
    choice: str
    words: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return self.words


def pictures(
    run: Path, *keys: str, choice: str = "", target: float | None = None, judged: Judgement | None = None
) -> list[Picture]:
    """The figures of a run with these keys, all of them without any; of some choice alone, as `budget=5`."""
    read = run_directory.read(run)
    if target is not None:
        read = replace(read, about=read.about.model_copy(update={"config": {**read.about.config, "target": target}}))
    return [
        picture(figure, named)
        for section in _sections(read, judged or Judgement())[0]
        for figure in section.figures
        if not keys or figure.key in keys
        for named in figure.views
        if not choice or named == choice
    ]


def picture(figure: Figure, choice: str) -> Picture:
    """One choice of a figure."""
    view = figure.views[choice]
    drawn = vl_convert.vegalite_to_svg(_titled(figure, choice, view), vl_version=VEGA_LITE)
    return Picture(figure.key, choice, view.words, _paintable(drawn))


def _paintable(svg: str) -> str:
    """Colours that a page with our style sheet shows as its own, and everything else as in the light."""
    for name, value in LIGHT.items():
        svg = svg.replace(f'"{value}"', f'"var(--{name}, {value})"')
    return svg


def with_own_colours(svg: str) -> str:
    """A picture that stands alone, light or dark as whoever looks at it has it."""
    variables, _, _ = (HERE / "page.css").read_text("utf-8").partition("* {")
    head, mark, rest = svg.partition(">")
    return f"{head}{mark}<style>{variables}</style>{rest}"


def _write_each(directory: Path, prefix: str, ending: str, figures: Sequence[Figure], made: Made) -> None:
    """One file per figure and choice."""
    if directory.is_file():
        raise ConfigError(f"{directory} is a file; the plots need a directory")
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    for figure, (choice, view) in ((each, one) for each in figures for one in each.views.items()):
        named = "-" + re.sub(r"[^\w.=]+", "-", choice).strip("-") if figure.chooser else ""
        with writing(file := directory / f"{prefix}{figure.key}{named}{ending}"):
            file.write_bytes(made(figure, choice, view))


def as_csv(figure: Figure, choice: str, view: View) -> bytes:
    """The rows that one choice of a figure draws, each with what it is of."""
    del figure, choice
    rows = expanded(view.rows["rows"])
    written = StringIO()
    writer = csv.DictWriter(written, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue().encode()


def as_png(figure: Figure, choice: str, view: View) -> bytes:
    """One choice of a figure as a picture."""
    return vl_convert.vegalite_to_png(_titled(figure, choice, view), vl_version=VEGA_LITE, scale=2)


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
