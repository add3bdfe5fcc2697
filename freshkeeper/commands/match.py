"""`freshkeeper match`."""

import sys
from typing import TYPE_CHECKING, Annotated

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.options import duration, pairs
from freshkeeper.commands.screen import say
from freshkeeper.maintenance.base.durations import to_delay
from freshkeeper.maintenance.base.errors import ConfigError, InputError, nearest

if TYPE_CHECKING:
    from freshkeeper.maintenance.engine.automaton.pattern_set import PatternSet
    from freshkeeper.maintenance.query.model import Query
    from freshkeeper.maintenance.streams.inputs import Inputs


def match(
    queries: Annotated[list[str], Argument(help="files of queries, or directories of files")],
    stream: Annotated[list[str], Option(metavar="IRI=FILE", help="the input of a stream; may be repeated")],
    most: Annotated[
        int, Option(min=1, help="drop a query if one triple makes more than this number of solutions")
    ] = 1_000_000,
    delay: Annotated[str, Option(help="how late elements may arrive, as 500ms")] = "0",
    on_error: Annotated[str, Option(help="an element that cannot be read: fail or skip")] = "fail",
) -> None:
    """Match many conjunctive queries together, and print every new solution with the name of its query.

    The queries are triple patterns over one window that moves with every element, as
    `SELECT * { STREAM <http://example.org/s> [TRIPLES 100] { ?reading a :Hot ; :in ?room } }` in CQELS-QL, or with
    ISTREAM and a window of ELEMENTS 100, or of RANGE PT10S without STEP, in RSP-QL. `freshkeeper run` runs all others.

    Example: `freshkeeper match queries/ --stream http://example.org/building/readings=readings.nq > found.ndjson`
    """
    from freshkeeper.maintenance.engine.automaton.pattern_set import PatternSet
    from freshkeeper.maintenance.outputs.result_sink import ResultSink
    from freshkeeper.maintenance.runtime.run_config import names_of

    files = pairs("stream", stream)
    read = {name: _parsed(file, list(files)) for name, file in names_of(queries).items()}
    patterns = PatternSet.of(read, most=most)
    inputs = _inputs(patterns, files, duration("delay", delay, to_delay) or 0, on_error)
    out, found, told = ResultSink.begin(sys.stdout, "ndjson"), 0, set[str]()
    for matches in patterns.over(inputs):
        found += len(matches)
        for name in set(patterns.cut) - told:
            say(f"{name} is left out from here on: one triple makes more than {most:,} solutions; --most says how many")
            told.add(name)
        for result in matches.results():
            out.put(result)
    late = f"; {inputs.late:,} elements came too late" if inputs.late else ""
    say(f"{sum(patterns.arrived.values()):,} triples, {len(read):,} queries, {found:,} solutions{late}")


def _parsed(file: str, streams: list[str]) -> "Query":
    from freshkeeper.maintenance.query.parser import parse
    from freshkeeper.maintenance.runtime.run_config import read_text

    try:
        return parse(read_text(file), streams=streams)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _inputs(patterns: "PatternSet", files: dict[str, str], delay: int, on_error: str) -> "Inputs":
    """Open the streams that the queries read."""
    from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines
    from freshkeeper.maintenance.streams.inputs import Inputs
    from freshkeeper.maintenance.streams.opening import open_stream
    from freshkeeper.maintenance.streams.read_errors import OnError, ReadErrors
    from freshkeeper.maintenance.streams.timed_lines import TimedLines

    if on_error not in [each.value for each in OnError]:
        raise ConfigError(f"--on-error {on_error}: {nearest(on_error, [each.value for each in OnError])}")
    read_errors = ReadErrors(OnError(on_error), notify=say)
    inputs = Inputs(read_errors=read_errors)
    for name in patterns.streams:
        if name not in files:
            near = f"; {nearest(name, list(files))}" if files else ""
            raise ConfigError(f"nothing feeds the stream <{name}>: give it as --stream '{name}=FILE'{near}")
        opened = open_stream(files[name], read_errors)
        inputs.add(name, ColumnLines(opened, patterns.dictionary) if isinstance(opened, TimedLines) else opened, delay)
    for name in files.keys() - set(patterns.streams):
        say(f"no query reads the stream <{name}>")
    return inputs
