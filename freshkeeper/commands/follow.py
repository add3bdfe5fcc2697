"""`freshkeeper follow`."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshkeeper.commands.options import SpeakingOption, TimingOption
from freshkeeper.commands.run import read_query
from freshkeeper.commands.screen import complain, print_json
from freshkeeper.policies.errors import ConfigError

if TYPE_CHECKING:
    from freshkeeper.maintenance.fragments.annotated_source import AnnotatedSource, Parts
    from freshkeeper.maintenance.fragments.following import Delivered, Following


def follow(
    query: Annotated[str, typer.Argument(help="a SELECT query without windows, or a file with one")],
    source: Annotated[str, typer.Option(metavar="ADDRESS", help="fragments whose triples say how long they hold")],
    speaking: SpeakingOption = "graph",
    timing: TimingOption = "expiration",
    dynamic: Annotated[
        str, typer.Option(metavar="IRI,IRI", help="the predicates that change; without it the source is asked")
    ] = "",
    operator: Annotated[str, typer.Option(help="RSTREAM, ISTREAM or DSTREAM")] = "RSTREAM",
    skew: Annotated[str, typer.Option(help="how long after an expiry it is asked again")] = "100ms",
    jitter: Annotated[
        str, typer.Option(help="up to so much later, drawn, so that not all clients come at once")
    ] = "0s",
    gap: Annotated[
        str, typer.Option(help="how long to wait while nothing holds, twice as long each time; twice: as 004's client")
    ] = "1s",
    longest: Annotated[str, typer.Option(help="the longest wait, and where no end is said")] = "60s",
    times: Annotated[int, typer.Option(help="end after so many evaluations; 0: never", min=0)] = 0,
    cached: Annotated[bool, typer.Option("--cache/--no-cache", help="keep the static part, and pages")] = True,
    explain: Annotated[bool, typer.Option("--explain", help="show the split, and what is asked for, and stop")] = False,
) -> None:
    """Answer a query over time-annotated data, and ask again exactly when the answer expires; lines of JSON.

    Example: `freshkeeper follow delays.rq --source http://localhost:3000/trains`
    """
    from freshkeeper.maintenance.fragments.annotated_source import AnnotatedSource
    from freshkeeper.maintenance.fragments.annotation_style import Speaking, Style, Timing
    from freshkeeper.maintenance.fragments.following import Following, Pauses
    from freshkeeper.maintenance.fragments.fragments_over_http import FragmentsOverHttp
    from freshkeeper.maintenance.query.model import Operator
    from freshkeeper.maintenance.service.source_config import config_of
    from freshkeeper.maintenance.settings.durations import to_delay

    config = config_of({"fragments": source}, "--source")
    style = Style(one_of(Speaking, "--speaking", speaking), one_of(Timing, "--timing", timing))
    waits = Pauses(
        _milliseconds(to_delay, "--skew", skew),
        _milliseconds(to_delay, "--jitter", jitter),
        longest=_milliseconds(to_delay, "--longest", longest),
    )
    pauses = replace(waits, twice=True) if gap == "twice" else replace(waits, gap=_milliseconds(to_delay, "--gap", gap))
    client = FragmentsOverHttp(config.fragments or "", cached=cached)
    over = AnnotatedSource(client, style, _predicates(dynamic), cached)
    try:
        following = Following(over, read_query(query), one_of(Operator, "--operator", operator.upper()), pauses)
        if explain:
            return _explained(over, following.query, following.parts)
        _deliver(following, times)
    finally:
        client.close()
    return None


def _deliver(following: "Following", times: int) -> None:
    def sleep(seconds: float) -> bool:
        if times and following.evaluations >= times:
            return False
        time.sleep(seconds)
        return True

    for delivered in following.run(sleep):
        print_json(_line(delivered, following.operator))
        for odd in delivered.moment.odd:
            complain(odd)
    late, torn, failed = following.late, following.source.torn, following.failed
    if late or torn or failed:
        complain(f"{late} answers had expired when they came, {torn} were read again, {failed} times no answer came")


def _line(delivered: "Delivered", operator: str) -> dict[str, Any]:
    from freshkeeper.maintenance.rdf.terms import term_json

    moment = delivered.moment
    known = {"since": moment.since, "until": moment.until}
    times = {name: at for name, at in known.items() if abs(at) < 2**53}
    answers = [{name: term_json(term) for name, term in row.items()} for row in delivered.rows]
    return {"t": moment.at, **times, "op": str(operator), "requests": moment.requests, "answers": answers}


def _explained(source: "AnnotatedSource", query: str, parts: "Parts") -> None:
    changing = ", ".join(sorted(str(p) for p in parts.dynamic)) or "nothing: it is answered once"
    print(f"dynamic, asked again when they expire: {changing}")
    print(f"static, asked for once: {', '.join(sorted(str(p) for p in parts.static)) or 'nothing'}")
    if parts.mixed:
        print(f"with and without a time: {', '.join(sorted(str(p) for p in parts.mixed))}")
    print("fragments are asked for what this needs:")
    print(source.asked(query, parts))


def _predicates(written: str) -> frozenset[Any] | None:
    from pyoxigraph import NamedNode

    try:
        return frozenset(NamedNode(each.strip()) for each in written.split(",")) if written else None
    except ValueError as error:
        raise ConfigError(f"--dynamic {written}: {error}; write IRIs in full, with commas between") from None


def one_of(kinds: Any, option: str, written: str) -> Any:
    """The member of an enumeration that an option names."""
    try:
        return kinds(written)
    except ValueError:
        raise ConfigError(f"{option} {written}: there is {', '.join(kinds)}") from None


def _milliseconds(read: Any, option: str, written: str) -> int:
    try:
        return int(read(written))
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None
