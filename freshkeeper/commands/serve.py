"""`freshkeeper serve`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshkeeper.commands.model_options import options_of, said
from freshkeeper.commands.screen import teller

if TYPE_CHECKING:
    from collections.abc import Iterator
    from inspect import Parameter


GIVEN = ("queries", "streams", "outputs", "graphs", "sources", "volatile")
"""Keys that are no options."""


def options() -> "Iterator[Parameter]":
    """Every key of a config but what is by name."""
    from freshkeeper.maintenance.serve.serve_config import ServeConfig

    return options_of(ServeConfig, [key for key in ServeConfig.model_fields if key not in GIVEN])


def serve(
    ctx: typer.Context,
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG", help="a YAML file, or a directory of them: streams, sources, queries, budgets"
        ),
    ],
    **options: Any,
) -> None:
    """Run a service: queries are registered, elements pushed and answers listened to over HTTP, and nothing is lost.

    Examples: `freshkeeper serve serve.yaml`, `freshkeeper serve serve.yaml --listen 8642 --state state`
    """
    from freshkeeper.maintenance.engine.native.compiling import tell_when_compiling
    from freshkeeper.maintenance.serve.serve_config import ServeConfig, read_config
    from freshkeeper.maintenance.serve.server import serve

    given = said(ctx, ServeConfig, options)
    found = read_config(config, given)
    tell = teller(found.log)
    tell_when_compiling(tell)
    serve(found, tell, config, given)
