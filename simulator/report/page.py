"""The page of a run: a section per case and level of knowledge, with its verdict, tables and figures."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from freshkeeper.maintenance.pages.amounts import config_value
from freshkeeper.maintenance.pages.figures import Figure
from freshkeeper.maintenance.pages.page import Caption, Chooser, Heading, Page, Part, Section, write_page
from freshkeeper.maintenance.pages.pictures import Picture, picture, write_pictures
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.experiment.run_directory import Run
from freshkeeper.simulator.report.figures import figures_by_answer, figures_of_settings
from freshkeeper.simulator.report.groups import SETTING, Group, groups
from freshkeeper.simulator.report.panels import BUDGET, chooser_of, panels, sweep
from freshkeeper.simulator.report.report_tables import (
    overview,
    tables_of_baselines,
    tables_of_budgets,
    tables_of_knowledge,
    tables_of_settings,
)
from freshkeeper.simulator.report.verdict import verdict

ABOUT_BASELINES = (
    "Worked out on the same traces and in no ranking: entries of ttl and refresh-ahead live as long as makes as many "
    "requests as the budget pays for (the mean over seeds), or as few as possible, no-cache sends a request every "
    "time, and fetch-once never again. Requests are of the evaluations that count."
)
ABOUT_LEVELS = (
    "Fresh answers as above; requests are per evaluation, the warm-up included. The difference between two levels is "
    "what knowing more is worth."
)


def write_report(path: Path, out: Path | None = None, png: Path | None = None, table: Path | None = None) -> Path:
    """Write the page of a run (report.html in it, or `out`), and its plots as PNG and as CSV into directories."""
    run = run_directory.read_whole(path)
    by_group = groups(run)
    sections = [_section(f"g{place}", group) for place, group in enumerate(by_group)]
    if not sections:
        sections.append(Section("empty", "", [], lead="Nothing was answered: there is no evaluation."))
    levels = list(tables_of_knowledge(by_group))
    if levels:
        sections.append(Section("levels", "Levels of knowledge side by side", [*levels, Caption(ABOUT_LEVELS)]))
    page = Page(
        kind="Freshness report",
        title=_title(run),
        sections=sections,
        facts=list(_facts(run, by_group)),
        command=run.about.command,
        versions=run.about.versions,
        settings=_settings(run),
        notes=[*run.notes, *run.analysis.missing],
    )
    file = write_page(page, out or path / "report.html")
    prefixes = [f"{group.case}-{group.knowledge}-" for group in by_group]
    if len(by_group) == 1:
        prefixes = [""]
    write_pictures({prefix: section.figures for prefix, section in zip(prefixes, sections, strict=False)}, png, table)
    return file


def pictures(run: Run, *keys: str, choice: str = "") -> list[Picture]:
    """Return the figures of a run with these keys, all of them without any; of one choice alone, such as `budget=5`."""
    return [
        picture(figure, name)
        for figure in _figures(run)
        if not keys or figure.key in keys
        for name in figure.views
        if not choice or name == choice
    ]


def with_target(run: Run, target: float) -> Run:
    """Return a run as if its config had this target."""
    config = {**run.about.config, "target": target}
    return replace(run, about=run.about.model_copy(update={"config": config}))


def _figures(run: Run) -> Iterator[Figure]:
    for place, group in enumerate(groups(run)):
        yield from _section(f"g{place}", group).figures


def _section(name: str, group: Group) -> Section:
    told = verdict(group)
    title = group.name[:1].upper() + group.name[1:]
    parts = [*_across_settings(group), *_of_one_setting(group)]
    return Section(name, title, parts, lead=told.lead, lifts=told.lifts, sentences=told.sentences)


def _across_settings(group: Group) -> Iterator[Part]:
    if len(group.settings) < 2:
        return
    yield Heading("Across settings")
    yield overview(group)
    swept = panels(group)
    for key in sorted(swept, key=lambda key: key != BUDGET):
        chooser = chooser_of(key, swept[key])
        if chooser:
            yield Chooser(chooser, "Others held at", {panel.others: panel.others for panel in swept[key]})
        yield sweep(group, key, swept[key])
        if key == BUDGET:
            yield from tables_of_budgets(group)


def _of_one_setting(group: Group) -> Iterator[Part]:
    if group.chooser:
        yield Heading("One setting")
        yield Chooser(SETTING, "Setting", {setting: group.text(setting) for setting in group.settings}, sticky=True)
    else:
        yield Heading("In detail")
    yield from tables_of_settings(group)
    yield Caption(_about_columns(group))
    baselines = tables_of_baselines(group)
    if baselines:
        yield from baselines
        yield Caption(ABOUT_BASELINES)
    yield from figures_of_settings(group)
    by_answer = figures_by_answer(group)
    if by_answer:
        yield Heading("Answer by answer")
        yield from by_answer


def _about_columns(group: Group) -> str:
    interval = ", with a 95 % interval" if group.seeds.size > 1 else ""
    words = (
        f"Fresh answers: mean over the evaluations that count, then over seeds{interval}. Pooled: all fresh answers "
    )
    if group.pooled:
        words = f"Fresh answers: of each seed{interval}, all fresh answers of the evaluations that count "
    words += (
        "over all answers. Stale answers and answers are per run; requests are per evaluation, the warm-up included."
    )
    if group.expected:
        words += " Where marked, freshness is expected and not counted, as nobody recorded the truth."
    return words


def _title(run: Run) -> str:
    return str(run.about.config.get("title") or run.path.resolve().name)


def _facts(run: Run, by_group: Sequence[Group]) -> Iterator[str]:
    about = run.about
    policies = {policy for group in by_group for policy in group.policies}
    yield _counted(len(policies), "policy", "policies")
    if len(about.settings) > 1:
        yield f"{len(about.settings)} settings"
    if about.seeds:
        yield _counted(len(about.seeds), "seed", "seeds")
    if about.runs and not about.complete:
        yield f"{about.finished:,} of {about.runs:,} runs so far"
    if about.freshkeeper:
        yield f"freshkeeper {about.freshkeeper}"


def _counted(number: int, one: str, several: str) -> str:
    if number == 1:
        return f"1 {one}"
    return f"{number} {several}"


def _settings(run: Run) -> dict[str, str]:
    """Return the config as people read it; of a recorded trace without the keys of a workload, which was not drawn."""
    recorded = bool(run.about.config.get("trace"))
    config = run.about.flat_config
    shown = {key: value for key, value in config.items() if not (recorded and key.startswith("workload."))}
    return {key: config_value(value) or "–" for key, value in shown.items()}
