"""`freshkeeper report`, `compare` and `check`."""

from pathlib import Path
from typing import Annotated

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.screen import TextTable, print_json, say, show
from freshkeeper.maintenance.base.errors import ConfigError


def report(
    run: Annotated[Path | None, Argument(help="a run directory")] = None,
    out: Annotated[Path | None, Option(help="the page to write; default: report.html in the run")] = None,
    png: Annotated[Path | None, Option(help="also write every plot as PNG into this directory")] = None,
    csv: Annotated[
        Path | None, Option(help="also write freshness.csv and the rows of every plot as CSV into this directory")
    ] = None,
    latex: Annotated[Path | None, Option(help="also write freshness as a LaTeX table to this file")] = None,
    history: Annotated[Path | None, Option(help="report on all runs below this directory instead of one run")] = None,
) -> None:
    """Write the report of a run, or of all runs of a directory, as one offline HTML file.

    Examples: `freshkeeper report runs/fig2a --png plots --csv plots --latex fig2a.tex`,
    `freshkeeper report --history runs`
    """
    from freshkeeper.maintenance.base.files import writing
    from freshkeeper.simulator.experiment.paper import headline_rows, latex_table
    from freshkeeper.simulator.experiment.summary import write_csv
    from freshkeeper.simulator.report.history import write_history
    from freshkeeper.simulator.report.page import write_report

    if history is not None:
        if run or latex:
            raise ConfigError(f"--history is a page of its own: leave out {run or '--latex'}")
        print(write_history(history, out, png, csv))
        return
    if run is None:
        raise ConfigError("name a run directory, or a directory of runs with --history")
    print(write_report(run, out, png, csv))
    if csv is not None:
        write_csv(csv / "freshness.csv", headline_rows(run))
    if latex is not None:
        with writing(latex):
            latex.parent.mkdir(parents=True, exist_ok=True)
            latex.write_text(latex_table(run), "utf-8")


def compare(
    first: Annotated[Path, Argument(help="a run directory")],
    second: Annotated[Path, Argument(help="another run directory")],
    as_json: Annotated[bool, Option("--json", help="print the differences as JSON")] = False,
) -> None:
    """Compare two runs: difference (second − first), paired by seed where they share seeds.

    Settings are paired by the values of what either run sweeps, policies by name and settings, not by what they are
    called.

    Example: `freshkeeper compare runs/a runs/b`
    """
    from freshkeeper.simulator.experiment.compare import HEADS
    from freshkeeper.simulator.experiment.compare import compare as differences

    found = differences(first, second)
    if as_json:
        print_json(found.as_json())
        return
    show(TextTable(f"{second} less {first}", HEADS, [difference.row for difference in found.differences], words=4))
    for line in found.lines:
        say(line)


def check(
    run: Annotated[Path, Argument(help="a run directory or a journal")],
    warn: Annotated[float, Option(help="freshness below this exits with 1")] = 0.95,
    error: Annotated[float, Option(help="freshness below this exits with 2")] = 0.90,
    policy: Annotated[str, Option(help="check this policy only")] = "",
    last: Annotated[int | None, Option(min=1, help="check only the last evaluations of this number")] = None,
    as_json: Annotated[bool, Option("--json", help="print the verdict as JSON")] = False,
) -> None:
    """Check freshness: exit 0 if it is enough, 1 below --warn, 2 below --error, 3 if unknown.

    Example: `freshkeeper check runs/fig2a --warn .95 --error .90`
    """
    from freshkeeper.simulator.experiment.check import check as verdict

    code, lines = verdict(run, warn, error, policy, last)
    if as_json:
        print_json({"exit": code, "lines": lines})
    else:
        print("\n".join(lines))
    raise SystemExit(code)
