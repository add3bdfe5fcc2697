"""`freshkeeper notebook`."""

import ast
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.options import assignments
from freshkeeper.commands.screen import Bar, TextTable, say, show
from freshkeeper.maintenance.base.errors import ConfigError, InputError, nearest
from freshkeeper.maintenance.base.files import atomic_file

PACKAGE = Path(__file__).parents[1]
PLACES = (PACKAGE / "notebooks", PACKAGE.parent / "notebooks")
"""The directories of notebooks: in an installed wheel, and in a checkout."""
REPORT = "02-freshness-report"
PARAMETERS = "parameters"
"""The tag of the cell that has the parameters, as papermill wants it."""
LONGEST_CELL_S = 3600
SET = Option("--set", metavar="NAME=VALUE", help="any parameter of the notebook; `notebook list` has them")
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def list_notebooks() -> None:
    """List the notebooks, with what they are about and their parameters.

    Example: `freshkeeper notebook list`
    """
    rows = []
    for name in _names():
        notebook = _read(name)
        title = notebook.cells[0].source.splitlines()[0].lstrip("# ")
        parameters = [f"{key}={value!r}" for key, value in defaults(notebook).items()]
        rows.append([name, title, ", ".join(parameters)])
    show(TextTable("", ["notebook", "about", "parameters"], rows, words=3))


def report(
    run: Annotated[Path | None, Argument(help="a run directory or a journal; default: the notebook's example")] = None,
    notebook: Annotated[str, Option(help="the notebook to run, by its name or number")] = REPORT,
    out: Annotated[Path | None, Option(help="the page to write; default: notebook.html in the run")] = None,
    target: Annotated[float | None, Option(help="the share of answers that should be fresh")] = None,
    setting: Annotated[str, Option(help="the setting to show; default: the first")] = "",
    change: Annotated[list[str] | None, SET] = None,
) -> None:
    """Run a notebook and write it as one offline HTML file: how fresh the answers were, in pictures and sentences.

    Examples: `freshkeeper notebook report runs/demo --target .9 --out report.html`,
    `freshkeeper notebook report runs/demo --notebook 04 --set price=.0004`
    """
    from freshkeeper.maintenance.pages.notebook_page import write_notebook
    from freshkeeper.simulator.experiment.run_directory import read_about

    if target is not None and not 0 < target < 1:
        raise ConfigError(f"the target is {target:g}; it must be a share above 0 and below 1, as .95")
    name = _full_name(notebook)
    title, place = name, out or Path(f"{name}.html")
    if run is not None:
        about = read_about(run)
        title, place = (about and about.config.get("title")) or run.resolve().name, out or run / "notebook.html"
    if place.is_dir():
        raise ConfigError(f"{place} is a directory; --out names the page")
    cells = executed(name, _parameters(name, run, {"target": target, "setting": setting or None}, change))
    write_notebook(cells, place, title, shlex.join(["freshkeeper", *sys.argv[1:]]))
    print(place)


def open_notebook(
    notebook: Annotated[str, Argument(help="the notebook, by its name or number")],
    run: Annotated[Path | None, Argument(help="a run directory or a journal; default: the notebook's example")] = None,
    out: Annotated[Path | None, Option(help="the copy to write; default: its name, here")] = None,
    change: Annotated[list[str] | None, SET] = None,
    start: Annotated[bool, Option(help="open the copy in Jupyter")] = True,
) -> None:
    """Copy a notebook, with its parameters set, and open the copy in Jupyter.

    Examples: `freshkeeper notebook open 02 runs/demo`, `freshkeeper notebook open 04 --no-start`
    """
    import jupytext

    name = _full_name(notebook)
    place = out or Path(f"{name}.ipynb")
    if place.exists():
        raise ConfigError(f"{place} exists; --out names another file")
    copy = _with_parameters(_read(name), _parameters(name, run, {}, change))
    copy.metadata["kernelspec"] = KERNEL
    with atomic_file(place) as unfinished:
        unfinished.write_text(jupytext.writes(copy, fmt="ipynb"), "utf-8")
    print(place)
    jupyter = shutil.which("jupyter-lab") or shutil.which("jupyter-notebook")
    if start and jupyter:
        os.execv(jupyter, [jupyter, str(place)])
    elif start:
        say(f"Jupyter is missing: pip install jupyterlab, then jupyter lab {place}")


def executed(name: str, parameters: Mapping[str, object]) -> list[Any]:
    """Run a notebook with these parameters and return its cells."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = _with_parameters(_read(name), parameters)
    bar = Bar("running the notebook")

    def show_progress(cell_index: int, **_: object) -> None:
        bar.update(cell_index + 1, len(notebook.cells))

    notebook.metadata["kernelspec"] = KERNEL
    quiet = ["--log-level=ERROR"]
    client = NotebookClient(notebook, timeout=LONGEST_CELL_S, on_cell_executed=show_progress, extra_arguments=quiet)
    try:
        with bar.running():
            client.execute()
    except CellExecutionError as error:
        raise InputError(f"the notebook stopped: {error.evalue or error.ename}") from None
    return list(notebook.cells)


def defaults(notebook: Any) -> dict[str, object]:
    """Return the parameters of a notebook with their default values."""
    assigned = ast.parse(notebook.cells[_parameters_cell(notebook)].source).body
    return {ast.unparse(one.targets[0]): ast.literal_eval(one.value) for one in assigned if isinstance(one, ast.Assign)}


def _parameters(
    name: str, run: Path | None, options: Mapping[str, object], change: list[str] | None
) -> dict[str, object]:
    """Return the parameters that were set; raise ConfigError for one that the notebook does not have."""
    given = {key: value for key, value in options.items() if value is not None} | assignments(change)
    if run is not None:
        given["run"] = str(run.resolve())
    known = defaults(_read(name))
    for key in given:
        if key not in known:
            raise ConfigError(f"{name} has no parameter {key!r}; {nearest(key, [*known])}")
    return given


def _with_parameters(notebook: Any, parameters: Mapping[str, object]) -> Any:
    """Insert a cell that sets the parameters after the cell with the defaults, as papermill does."""
    from nbformat.v4 import new_code_cell

    if parameters:
        source = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
        cell = new_code_cell(source, metadata={"tags": ["injected-parameters"]})  # type: ignore[no-untyped-call]
        notebook.cells.insert(_parameters_cell(notebook) + 1, cell)
    return notebook


def _parameters_cell(notebook: Any) -> int:
    return next(n for n, cell in enumerate(notebook.cells) if PARAMETERS in cell.metadata.get("tags", ()))


def _names() -> list[str]:
    place = next(place for place in PLACES if place.is_dir())
    return sorted(file.stem for file in place.glob("*.py"))


def _full_name(word: str) -> str:
    """Return the notebook whose name begins so: 02 is enough."""
    found = [name for name in _names() if name.startswith(word.removesuffix(".py").removesuffix(".ipynb"))]
    if len(found) != 1:
        raise ConfigError(f"there is no notebook {word!r}; {nearest(word, _names())}")
    return found[0]


def _read(name: str) -> Any:
    import jupytext

    return jupytext.read(next(place / f"{name}.py" for place in PLACES if place.is_dir()))
