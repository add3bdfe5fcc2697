"""`freshkeeper serve`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from freshkeeper.commands.command_line import Argument
from freshkeeper.commands.model_options import given_keys, options_of
from freshkeeper.commands.screen import teller

if TYPE_CHECKING:
    from collections.abc import Iterator
    from inspect import Parameter


KEYS_WITHOUT_OPTION = ("queries", "streams", "outputs", "rows", "graphs", "sources", "volatile")
"""Keys of the config without an option: they hold several things by name."""


def options() -> "Iterator[Parameter]":
    """Yield an option for every other key of the config."""
    from freshkeeper.maintenance.base.reference import keys_of
    from freshkeeper.maintenance.serve.serve_config import ServeConfig

    return options_of(ServeConfig, [key for key in keys_of(ServeConfig) if key not in KEYS_WITHOUT_OPTION])


def serve(
    config: Annotated[
        Path,
        Argument(metavar="CONFIG", help="a YAML file, or a directory of them: streams, sources, queries, budgets"),
    ],
    **options: Any,
) -> None:
    """Run a service: register queries, push elements and receive answers over HTTP; acknowledged data survives a crash.

    Examples: `freshkeeper serve serve.yaml`, `freshkeeper serve serve.yaml --listen 8642 --state state`
    """
    from freshkeeper.maintenance.engine.native.compiling import tell_when_compiling
    from freshkeeper.maintenance.serve.serve_config import ServeConfig, read_config
    from freshkeeper.maintenance.serve.server import serve

    given = given_keys(ServeConfig, options)
    found = read_config(config, given)
    tell = teller(found.log)
    tell_when_compiling(tell)
    serve(found, tell, config, given)
