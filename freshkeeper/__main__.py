"""The `freshkeeper` command: subcommands, help, and errors as one line without a traceback."""

import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import freshkeeper
from freshkeeper.commands import (
    analyse,
    budget,
    config,
    demo,
    explain,
    follow,
    match,
    notebook,
    policies,
    replay,
    reports,
    run,
    serve,
    serve_fragments,
    simulate,
    sources,
    trace,
)
from freshkeeper.commands.experiments import experiment_options
from freshkeeper.commands.interrupts import interruptible
from freshkeeper.commands.model_options import with_options
from freshkeeper.commands.screen import complain
from freshkeeper.commands.standard_streams import prepare
from freshkeeper.maintenance.base.errors import FreshkeeperError, MissingExtraError, ReaderGoneError, extra_for

STOPPED, STOPPED_TEXT = 130, "stopped; what is finished is kept"
"""The exit code after Ctrl-C, and its message: typer prints none."""


COMMANDS_WITH_MODEL_OPTIONS: dict[str, tuple[Callable[..., None], Callable[[], Iterator[Parameter]]]] = {
    "run": (run.run, run.options),
    "serve": (serve.serve, serve.options),
    "simulate": (simulate.simulate, partial(experiment_options, simulate.KEYS)),
    "budget": (budget.budget, budget.options),
    "replay": (replay.replay, partial(experiment_options, replay.KEYS)),
}
"""Commands whose options are built from a model."""


class Commands(TyperGroup):
    """The commands; options that come from a model are built when their command is called, not for the list."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was called, and the rest of the line."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS_WITH_MODEL_OPTIONS:
            command = _command_with_options(name)
        return name, command, rest


class CheckCommand(TyperCommand):
    """A command whose exit code 2 is a result, so that a wrong command line exits with 3."""

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Parse the command line; a mistake in it exits with 3 instead of 2."""
        try:
            return super().make_context(*given, **more)
        except Exception as error:  # typer does not say what its errors are called
            if getattr(error, "exit_code", None) == 2:
                vars(error)["exit_code"] = 3
            raise


def _command_with_options(name: str) -> Any:
    function, options = COMMANDS_WITH_MODEL_OPTIONS[name]
    alone = typer.Typer(rich_markup_mode="markdown", add_completion=False)
    alone.command(name)(with_options(function, options()))
    return typer.main.get_command(alone)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", help=run.run.__doc__)(lambda: None)
app.command("serve", help=serve.serve.__doc__)(lambda: None)
app.command("match")(match.match)
app.command("explain")(explain.explain)
app.command("simulate", help=simulate.simulate.__doc__)(lambda: None)
app.command("replay", help=replay.replay.__doc__)(lambda: None)
app.command("budget", help=budget.budget.__doc__)(lambda: None)
app.command("analyse")(analyse.analyse)
app.command("report")(reports.report)
app.command("compare")(reports.compare)
app.command("check", cls=CheckCommand)(reports.check)
app.command("follow")(follow.follow)
app.command("serve-fragments")(serve_fragments.serve_fragments)
app.command("policies")(policies.policies)
app.command("sources")(sources.sources)
app.command("demo")(demo.demo)
app.add_typer(trace.app, name="trace")
app.add_typer(notebook.app, name="notebook")
app.add_typer(config.app, name="config")


EXTRA_BY_COMMAND = {
    "analyse": "analysis",
    "budget": "report",
    "check": "analysis",
    "compare": "analysis",
    "demo": "report",
    "notebook": "notebook",
    "replay": "report",
    "report": "report",
    "simulate": "report",
}
"""The extra that a command needs; for other commands the missing library tells."""


def _extra_error(error: ModuleNotFoundError) -> ImportError:
    """Return an error that names the extra to install for this command; raise what no extra provides."""
    verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    found = extra_for(error, f"freshkeeper {verb}", EXTRA_BY_COMMAND.get(verb, ""))
    if found is error:
        raise error
    return found


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"freshkeeper {freshkeeper.__version__}")
        raise typer.Exit


@app.callback()
def overall(
    version: Annotated[
        bool, typer.Option("--version", help="print the version and stop", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Keep the background data that streams are joined with as fresh as a request budget allows."""


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning without the place in the code that raised it."""
    complain(str(message))


def main() -> None:
    """Run the command; a FreshkeeperError becomes one line on standard error and an exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a service manager stops a run as Ctrl-C does
    warnings.showwarning = _show_warning
    sys.path.append(str(Path.cwd()))  # so that --policy module:Class finds modules where the command is run
    try:
        prepare()
        try:
            with interruptible():
                app()
        finally:
            sys.stdout.flush()
    except ReaderGoneError as gone:
        sys.exit(gone.exit_code)
    except FreshkeeperError as error:
        complain(error)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        complain(_extra_error(error))
        sys.exit(MissingExtraError.exit_code)
    except KeyboardInterrupt:
        complain(STOPPED_TEXT)
        sys.exit(STOPPED)
    except SystemExit as end:
        if end.code == STOPPED:
            complain(STOPPED_TEXT)
        raise


if __name__ == "__main__":
    main()
