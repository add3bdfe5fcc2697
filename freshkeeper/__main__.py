"""The `freshkeeper` command: subcommands, help, and errors as one line without a traceback."""

import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import freshkeeper
from freshkeeper.commands.command_line import HELP_NAMES, UsageError, call, columns, paragraphs
from freshkeeper.commands.interrupts import interruptible
from freshkeeper.commands.screen import complain
from freshkeeper.commands.standard_streams import prepare
from freshkeeper.maintenance.base.errors import FreshkeeperError, ReaderGoneError, UnknownNameError, naming_extra

ABOUT = "Keep the data that streams are joined with as fresh as a request budget allows."
STOPPED, STOPPED_TEXT = 130, "stopped; what is finished is kept"
"""The exit code after Ctrl-C, and its message."""


@dataclass(frozen=True)
class Subcommand:
    """A command: a function of a module of freshkeeper.commands, and the extra that it needs to do its work.

    A function with `**options` has the options that `options()` of its module returns.
    """

    module: str
    function: str
    extra: str = ""
    usage_error_code: int = 2
    """The exit code for a wrong command line."""

    def load(self) -> Callable[..., None]:
        """Import the function."""
        function: Callable[..., None] = getattr(self._import(), self.function)
        return function

    def call(self, name: str, words: Sequence[str]) -> None:
        """Call the function with the options and arguments of a command line."""
        options = getattr(self._import(), "options", tuple)
        call(self.load(), f"freshkeeper {name}", words, options())

    def _import(self) -> Any:
        return import_module(f"freshkeeper.commands.{self.module}")


COMMANDS = {
    "run": Subcommand("run", "run", "run"),
    "serve": Subcommand("serve", "serve", "serve"),
    "match": Subcommand("match", "match", "run"),
    "explain": Subcommand("explain", "explain", "run"),
    "simulate": Subcommand("simulate", "simulate", "report"),
    "replay": Subcommand("replay", "replay", "report"),
    "budget": Subcommand("budget", "budget", "report"),
    "analyse": Subcommand("analyse", "analyse", "analysis"),
    "report": Subcommand("reports", "report", "report"),
    "compare": Subcommand("reports", "compare", "analysis"),
    "check": Subcommand("reports", "check", "analysis", usage_error_code=3),  # its 2 is a verdict
    "follow": Subcommand("follow", "follow", "run"),
    "serve-fragments": Subcommand("serve_fragments", "serve_fragments", "run"),
    "policies": Subcommand("policies", "policies", "manager"),
    "sources": Subcommand("sources", "sources", "manager"),
    "demo": Subcommand("demo", "demo", "demo"),
    "trace generate": Subcommand("trace", "generate", "simulate"),
    "trace building": Subcommand("trace", "building", "simulate"),
    "trace conference": Subcommand("trace", "conference", "simulate"),
    "trace describe": Subcommand("trace", "describe", "simulate"),
    "trace convert": Subcommand("trace", "convert", "simulate"),
    "notebook list": Subcommand("notebook", "list_notebooks", "notebook"),
    "notebook report": Subcommand("notebook", "report", "notebook"),
    "notebook open": Subcommand("notebook", "open_notebook", "notebook"),
    "config init": Subcommand("config", "init", "simulate"),
    "config list": Subcommand("config", "list_names", "simulate"),
    "config show": Subcommand("config", "show", "simulate"),
    "config validate": Subcommand("config", "validate", "simulate"),
    "config schema": Subcommand("config", "schema", "simulate"),
}
GROUPS = {
    "trace": "Generate, convert and describe traces: arrivals, edges and changes.",
    "notebook": "Notebooks about runs and journals: list them, run one as a page, or open one in Jupyter.",
    "config": "Configs: write one, see those that come with freshkeeper, check one, print the schema.",
}
"""The first words of commands of two words."""


def run_command(words: Sequence[str]) -> None:
    """Run a command line without the name of the program; raise SystemExit with 2 for one that names no command."""
    first, *rest = words or [""]
    if first == "--version":
        print(f"freshkeeper {freshkeeper.__version__}")
    elif first in ("", *HELP_NAMES):
        print(overview(ABOUT, "freshkeeper", [*COMMANDS]))
        if not first:
            raise SystemExit(2)
    elif first in GROUPS and (not rest or rest[0] in HELP_NAMES):
        print(overview(GROUPS[first], f"freshkeeper {first}", [name for name in COMMANDS if name.split()[0] == first]))
        if not rest:
            raise SystemExit(2)
    else:
        name = first
        if first in GROUPS:
            second, *rest = rest
            name = f"{first} {second}"
        if name not in COMMANDS:
            raise UnknownNameError("command", name, COMMANDS)
        try:
            with naming_extra(f"freshkeeper {name}", COMMANDS[name].extra):
                COMMANDS[name].call(name, rest)
        except UsageError as error:
            complain(error)
            raise SystemExit(COMMANDS[name].usage_error_code) from None


def overview(about: str, program: str, names: Sequence[str]) -> str:
    """Return the help of several commands: the first paragraph of each; groups count as one command."""
    rows = {}
    for name in names:
        group = name.split()[0]
        if program == "freshkeeper" and group in GROUPS:
            rows[group] = GROUPS[group]
        else:
            rows[name.split()[-1]] = " ".join(paragraphs(COMMANDS[name].load())[0].split())
    options = [("-h, --help", "print this help and stop")]
    if program == "freshkeeper":
        options.insert(0, ("--version", "print the version and stop"))
    return "\n".join(
        [
            f"Usage: {program} COMMAND",
            "",
            about,
            "",
            "Commands:",
            *columns(rows.items()),
            "",
            "Options:",
            *columns(options),
        ]
    )


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
                run_command(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except ReaderGoneError as gone:
        sys.exit(gone.exit_code)
    except FreshkeeperError as error:
        complain(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        complain(STOPPED_TEXT)
        sys.exit(STOPPED)
    sys.exit(0)


if __name__ == "__main__":
    main()
