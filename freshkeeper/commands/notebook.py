"""`freshkeeper notebook`."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.screen import Bar
from freshkeeper.maintenance.base.errors import ConfigError, InputError

PACKAGE = Path(__file__).parents[1]
PLACES = (PACKAGE / "notebooks", PACKAGE.parent / "notebooks")
"""The directories of notebooks: in an installed wheel, and in a checkout."""
REPORT = "02-freshness-report.py"
LONGEST_CELL_S = 3600


def report(
    run: Annotated[Path, Argument(help="a run directory or a journal")],
    out: Annotated[Path | None, Option(help="the page to write; default: notebook.html in the run")] = None,
    target: Annotated[float, Option(help="the share of answers that should be fresh")] = 0.9,
    setting: Annotated[str, Option(help="the setting to show; default: the first")] = "",
) -> None:
    """Write how fresh the answers were as one offline HTML file: pictures with a sentence each, and folded tables.

    Example: `freshkeeper notebook report runs/demo --target .9 --out report.html`
    """
    from freshkeeper.maintenance.pages.notebook_page import write_notebook
    from freshkeeper.simulator.experiment.run_directory import read_about

    if not 0 < target < 1:
        raise ConfigError(f"the target is {target:g}; it must be a share above 0 and below 1, as .95")
    about = read_about(run)
    title = (about and about.config.get("title")) or run.resolve().name
    place = out or run / "notebook.html"
    if place.is_dir():
        raise ConfigError(f"{place} is a directory; --out names the page")
    cells = executed(_notebook_path(REPORT), {"run": str(run.resolve()), "target": target, "setting": setting})
    write_notebook(cells, place, title, shlex.join(["freshkeeper", *sys.argv[1:]]))
    print(place)


def _notebook_path(name: str) -> Path:
    return next(place / name for place in PLACES if (place / name).exists())


def executed(notebook: Path, parameters: dict[str, object]) -> list[Any]:
    """Run a notebook with these parameters and return its cells."""
    import jupytext
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    read = jupytext.read(notebook)
    at = next(n for n, cell in enumerate(read.cells) if "parameters" in cell.metadata.get("tags", ()))
    read.cells[at]["source"] = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
    bar = Bar("running the notebook")

    def show_progress(cell_index: int, **_: object) -> None:
        bar.update(cell_index + 1, len(read.cells))

    read.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    quiet = ["--log-level=ERROR"]
    client = NotebookClient(read, timeout=LONGEST_CELL_S, on_cell_executed=show_progress, extra_arguments=quiet)
    try:
        with bar.running():
            client.execute()
    except CellExecutionError as error:
        raise InputError(f"the notebook stopped: {error.evalue or error.ename}") from None
    return list(read.cells)
