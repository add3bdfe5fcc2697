"""`freshkeeper sources`."""

from importlib import import_module
from typing import Annotated, Any

from freshkeeper.commands.command_line import Option
from freshkeeper.commands.screen import TextTable, say, show
from freshkeeper.maintenance.base.errors import ConfigError

SOURCE_GUIDE = "docs/writing-a-source.md"
KINDS = [
    ["function", "from keys to a mapping of values", SOURCE_GUIDE],
    ["object with fetch", "and optionally price, expand, room, deliver", SOURCE_GUIDE],
    ["file of RDF", "kept in this process", "docs/sources.md"],
    ["http(s)://...", "a SPARQL endpoint", "docs/sources.md"],
    [
        "YAML file",
        "a SPARQL endpoint, fragments, JSON documents, RDF: with limits, credentials, knowledge",
        "docs/sources.md",
    ],
]


def sources(
    check: Annotated[
        str, Option(metavar="MODULE:NAME", help="run the contract on a source: a class, an object or a function")
    ] = "",
    keys: Annotated[str, Option(metavar="A,B", help="lookup keys that the source has")] = "",
) -> None:
    """List the kinds of sources, or check your own source against the contract.

    Example: `freshkeeper sources --check mine:Prices --keys pen,ink`
    """
    if not check:
        show(TextTable("", ["source", "what it is", "where to read on"], KINDS, words=3))
        return
    from freshkeeper.maintenance.sources.source_contract import check_source

    asked = [each for each in keys.split(",") if each]
    if not asked:
        raise ConfigError("--keys is needed with --check: lookup keys that the source has, as --keys pen,ink")
    for line in check_source(_loaded(check), asked):
        say(f"kept: {line}")


def _loaded(path: str) -> Any:
    """Import module:Name; a class is instantiated without arguments."""
    module, colon, name = path.partition(":")
    if not colon or not name:
        raise ConfigError(f"--check {path}: write it as module:Name, for example mine:Prices")
    try:
        found: Any = getattr(import_module(module), name)
        return found() if isinstance(found, type) else found
    except Exception as error:  # importing somebody's module may fail in any way
        said = " ".join(str(error).split())
        raise ConfigError(f"the source {path!r} did not load: {type(error).__name__}: {said}") from error
