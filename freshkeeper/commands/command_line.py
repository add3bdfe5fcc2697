"""The command line of a function: its options and arguments are read from its annotated parameters.

    def check(
        run: Annotated[Path, Argument(help="a run directory")],
        warn: Annotated[float, Option(help="freshness below this exits with 1")] = 0.95,
    ) -> None:
        '''Check freshness.'''

    call(check, "freshkeeper check", ["runs/fig2a", "--warn", ".9"])

It needs the standard library alone, so that the command starts where nothing but the core is installed. Unlike
argparse it takes options and several arguments in any order, and says of a mistake what to do.
"""

import inspect
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill, wrap
from types import NoneType
from typing import Any, get_args, get_origin

from freshkeeper.maintenance.base.errors import ConfigError, nearest

HELP_NAMES = ("-h", "--help")
TYPE_NAMES = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH"}
TYPE_DESCRIPTIONS = {int: "a whole number", float: "a number"}
HELP_COLUMN = 26
"""The column of a screen at which the help of an option begins."""


class UsageError(ConfigError):
    """A command line that cannot be understood."""


@dataclass(frozen=True)
class Argument:
    """A parameter that is given by its place; a list takes all words that are no options."""

    help: str = ""
    metavar: str | None = None


class Option:
    """A parameter that is given by name: `--name VALUE`, or `--name` and `--no-name` for a bool.

    `names` replace the name of the parameter, as "--set" or "--cache/--no-cache"; an option whose parameter is a list
    may be given several times. `shown_default` is printed in the help if the parameter's default is not what counts.
    """

    def __init__(
        self,
        *names: str,
        help: str = "",
        metavar: str | None = None,
        min: float | None = None,
        max: float | None = None,
        shown_default: object = None,
    ) -> None:
        self.names, self.help, self.metavar = names, help, metavar
        self.min, self.max, self.shown_default = min, max, shown_default


@dataclass(frozen=True)
class Parameter:
    """A parameter of a command, as it is read, converted and explained."""

    name: str
    type: type
    is_list: bool
    default: object
    about: Option | Argument

    @classmethod
    def of(cls, parameter: inspect.Parameter) -> "Parameter":
        """Read a parameter annotated as `Annotated[type, Option(...)]`, or `Argument(...)`."""
        annotation, about = get_args(parameter.annotation)
        (kind,) = [each for each in get_args(annotation) if each is not NoneType] or [annotation]
        if get_origin(annotation) is list:
            kind = annotation
        is_list = get_origin(kind) is list
        if is_list:
            (kind,) = get_args(kind)
        return cls(parameter.name, kind, is_list, parameter.default, about)

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def flags(self) -> list[str]:
        """The names of an option that set it, or of a bool that set it to True."""
        assert isinstance(self.about, Option)
        names = [name.partition("/")[0] for name in self.about.names]
        return names or [f"--{self.name.replace('_', '-')}"]

    @property
    def off_flags(self) -> list[str]:
        """The names that set a bool to False."""
        assert isinstance(self.about, Option)
        if self.type is not bool:
            return []
        if not self.about.names:
            return [f"--no-{self.name.replace('_', '-')}"]
        return [name.partition("/")[2] for name in self.about.names if "/" in name]

    @property
    def metavar(self) -> str:
        if isinstance(self.about, Argument):
            return self.about.metavar or self.name.upper()
        return self.about.metavar or TYPE_NAMES.get(self.type, "")

    def convert(self, written: str, name: str) -> Any:
        """Return the value that a word stands for; raise UsageError if it stands for none."""
        try:
            value = self.type(written)
        except ValueError:
            raise UsageError(f"{name} {written}: it must be {TYPE_DESCRIPTIONS[self.type]}") from None
        if isinstance(self.about, Option):
            if self.about.min is not None and value < self.about.min:
                raise UsageError(f"{name} {written}: it must be {self.about.min:g} or more")
            if self.about.max is not None and value > self.about.max:
                raise UsageError(f"{name} {written}: it must be {self.about.max:g} or less")
        return value


def call(
    function: Callable[..., None], name: str, words: Sequence[str], more: Iterable[inspect.Parameter] = ()
) -> None:
    """Call a command with the values that words give it; `--help` prints its help instead.

    `more` are the parameters that `**options` of the function stands for.
    """
    own = [each for each in inspect.signature(function).parameters.values() if each.kind is not each.VAR_KEYWORD]
    parameters = [Parameter.of(each) for each in (*own, *more)]
    try:
        values = parse(parameters, words)
    except UsageError as error:
        raise UsageError(f"{error}; see {name} --help") from None
    if values is None:
        print(command_help(function, name, parameters))
        return
    function(**values)


def parse(parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any] | None:
    """Return the value of every parameter, or None if help is wanted; raise UsageError for a wrong word."""
    options = [each for each in parameters if isinstance(each.about, Option)]
    by_flag = {flag: (each, True) for each in options for flag in each.flags}
    by_flag |= {flag: (each, False) for each in options for flag in each.off_flags}
    values: dict[str, Any] = {}
    by_place: list[str] = []
    rest = iter(words)
    for word in rest:
        flag, equals, written = word.partition("=")
        if word == "--":
            by_place += rest
        elif not word.startswith("-") or word == "-":
            by_place.append(word)
        elif word in HELP_NAMES:
            return None
        elif flag not in by_flag:
            raise UsageError(f"there is no option {flag}; {nearest(flag, [*by_flag, '--help'])}")
        else:
            parameter, is_on = by_flag[flag]
            if parameter.type is bool:
                if equals:
                    raise UsageError(f"{flag} takes no value, but {written!r} is given")
                values[parameter.name] = is_on
            else:
                _add_value(values, parameter, flag, written if equals else next(rest, None))
    values |= _place([each for each in parameters if isinstance(each.about, Argument)], by_place)
    for each in options:
        if each.is_required and each.name not in values:
            raise UsageError(f"{each.flags[0]} {each.metavar} is missing")
    return {each.name: values.get(each.name, each.default) for each in parameters}


def _add_value(values: dict[str, Any], parameter: Parameter, flag: str, written: str | None) -> None:
    """Add the value of an option to those given before it; the last one counts unless they are a list."""
    if written is None:
        raise UsageError(f"{flag} needs a value: {flag} {parameter.metavar}")
    value = parameter.convert(written, flag)
    if parameter.is_list:
        values.setdefault(parameter.name, []).append(value)
    else:
        values[parameter.name] = value


def _place(arguments: Sequence[Parameter], words: list[str]) -> dict[str, Any]:
    """Return the values of arguments by their places; a list takes all that is left."""
    values: dict[str, Any] = {}
    for argument in arguments:
        if not words:
            if argument.is_required:
                raise UsageError(f"{argument.metavar} is missing: {argument.about.help}")
        elif argument.is_list:
            values[argument.name] = [argument.convert(word, argument.metavar) for word in words]
            words = []
        else:
            word, *words = words
            values[argument.name] = argument.convert(word, argument.metavar)
    if words:
        raise UsageError(f"{words[0]!r} is one argument too many")
    return values


def command_help(function: Callable[..., None], name: str, parameters: Sequence[Parameter]) -> str:
    """Return the help of a command: usage, description, arguments and options."""
    arguments = [each for each in parameters if isinstance(each.about, Argument)]
    words = [name, "[OPTIONS]"]
    for each in arguments:
        words.append(each.metavar if each.is_required else f"[{each.metavar}]")
    parts = [f"Usage: {' '.join(words)}", *paragraphs(function)]
    if arguments:
        parts.append("\n".join(["Arguments:", *columns((each.metavar, each.about.help) for each in arguments)]))
    rows = [_option_row(each) for each in parameters if isinstance(each.about, Option)]
    parts.append("\n".join(["Options:", *columns([*rows, ("-h, --help", "print this help and stop")])]))
    return "\n\n".join(parts)


def paragraphs(function: Callable[..., None]) -> list[str]:
    """Return the paragraphs of a function's docstring, as wide as the screen."""
    return [
        fill(each, screen_width(), break_on_hyphens=False) for each in (inspect.getdoc(function) or "").split("\n\n")
    ]


def columns(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield lines with a name each, and its help in a column of its own."""
    for name, text in rows:
        lines = wrap(text, max(screen_width() - HELP_COLUMN, 20), break_on_hyphens=False, break_long_words=False) or [
            ""
        ]
        if len(name) + 4 > HELP_COLUMN:
            yield f"  {name}"
        else:
            yield f"  {name:<{HELP_COLUMN - 4}}  {lines.pop(0)}"
        for line in lines:
            yield f"{'':{HELP_COLUMN}}{line}"


def screen_width() -> int:
    """Return the number of columns that help may take."""
    return min(shutil.get_terminal_size().columns, 100)


def _option_row(parameter: Parameter) -> tuple[str, str]:
    about = parameter.about
    assert isinstance(about, Option)
    names = ", ".join([*parameter.flags, *parameter.off_flags])
    remarks = []
    if parameter.is_list:
        remarks.append("may be repeated")
    if parameter.is_required:
        remarks.append("required")
    default = about.shown_default
    if default is None and not parameter.is_required:
        default = parameter.default
    if default is True and parameter.off_flags:
        remarks.append(f"default: {parameter.flags[0]}")
    elif default not in (None, "", False):
        remarks.append(f"default: {default}")
    remark = f" ({', '.join(remarks)})" if remarks else ""
    return f"{names} {parameter.metavar}".strip(), about.help + remark
