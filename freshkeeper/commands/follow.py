"""`freshkeeper follow`."""

import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.options import SPEAKING, TIMING
from freshkeeper.commands.run import read_query
from freshkeeper.commands.screen import complain, print_json
from freshkeeper.maintenance.base.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from freshkeeper.maintenance.annotated.annotated_query import AnnotatedQuery
    from freshkeeper.maintenance.annotated.following import DeliveredAnswers, FollowedQuery, Pauses
    from freshkeeper.maintenance.query.model import Operator
    from freshkeeper.maintenance.sources.fragments.annotation_style import AnnotationStyle
    from freshkeeper.maintenance.sources.source_config import SourceConfig


def follow(
    query: Annotated[str, Argument(help="a SELECT query without windows, or a file with one")],
    source: Annotated[
        list[str],
        Option(
            metavar="ADDRESS|FILE",
            help="fragments with annotated triples, or the YAML file of such a source; several are queried as one",
        ),
    ],
    speaking: Annotated[str, Option(help=f"{SPEAKING}; default: detected from the source")] = "",
    timing: Annotated[str, Option(help=f"{TIMING}; default: detected from the source")] = "",
    dynamic: Annotated[
        str, Option(metavar="IRI,IRI", help="the predicates that change; default: detected from the source")
    ] = "",
    operator: Annotated[str, Option(help="RSTREAM, ISTREAM or DSTREAM")] = "RSTREAM",
    budget: Annotated[
        float | None, Option(help="cost units per evaluation (a request costs 1); default: no limit")
    ] = None,
    bank: Annotated[float, Option(help="how much unspent budget is carried over")] = 0,
    skew: Annotated[str, Option(help="how long after an expiry the query is evaluated again")] = "100ms",
    jitter: Annotated[str, Option(help="random delay added to that, so that clients do not all come at once")] = "0s",
    gap: Annotated[
        str, Option(help="how long to wait while no answer holds, doubled each time; twice: as 004's client")
    ] = "1s",
    longest: Annotated[str, Option(help="the longest wait, also used if an answer has no expiry")] = "60s",
    times: Annotated[int, Option(help="stop after this many evaluations; 0: never", min=0)] = 0,
    cached: Annotated[bool, Option("--cache/--no-cache", help="cache the static part and pages")] = True,
    explain: Annotated[
        bool, Option("--explain", help="print the split and the fragments that would be requested, and stop")
    ] = False,
) -> None:
    """Answer a query over time-annotated data, and again whenever the answer expires, as lines of JSON.

    Examples: `freshkeeper follow delays.rq --source http://localhost:3000/trains`,
    `freshkeeper follow delays.rq --source trains.yaml --source http://localhost:3001/platforms --budget 12`
    """
    from freshkeeper.maintenance.annotated.annotated_source import read_source
    from freshkeeper.maintenance.annotated.following import Pauses
    from freshkeeper.maintenance.query.model import Operator
    from freshkeeper.maintenance.sources.fragments.annotation_style import (
        AnnotationEncoding,
        AnnotationStyle,
        TimeEncoding,
    )

    configs = [read_source(each) for each in source]
    style = None
    if speaking or timing:
        way = one_of(AnnotationEncoding, "--speaking", speaking or "graph")
        style = AnnotationStyle(way, one_of(TimeEncoding, "--timing", timing or "expiration"))
    waits = Pauses(
        milliseconds("--skew", skew),
        milliseconds("--jitter", jitter),
        longest=milliseconds("--longest", longest),
    )
    pauses = replace(waits, twice=True) if gap == "twice" else replace(waits, gap=milliseconds("--gap", gap))
    wanted = one_of(Operator, "--operator", operator.upper())
    with opened(
        configs=configs,
        text=read_query(query),
        budget=budget,
        bank=bank,
        style=style,
        cached=cached,
        dynamic=_predicates(dynamic),
    ) as asked:
        if explain:
            _explained(asked)
            return
        deliver(asked, times, wanted, pauses)


@contextmanager
def opened(
    configs: "Sequence[SourceConfig]", text: str, budget: float | None = None, bank: float = 0,
    style: "AnnotationStyle | None" = None, cached: bool = True, dynamic: frozenset[Any] | None = None,
) -> "Iterator[AnnotatedQuery]":  # fmt: skip
    """Open a query over sources, and close the sources with it."""
    from freshkeeper.maintenance.annotated.annotated_query import AnnotatedQuery
    from freshkeeper.maintenance.annotated.annotated_source import annotated_source_of, declared_dynamic
    from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger

    ledger = None if budget is None else Ledger(BudgetRule.of(budget, bank))
    over = [annotated_source_of(config, style, cached) for config in configs]
    try:
        yield AnnotatedQuery(over, text, dynamic or declared_dynamic(configs), ledger)
    finally:
        for each in over:
            each.client.close()


def deliver(
    query: "AnnotatedQuery", times: int = 0, operator: "Operator | None" = None, pauses: "Pauses | None" = None
) -> None:
    """Print every evaluation as a line, and a summary at the end."""
    from freshkeeper.maintenance.annotated.following import FollowedQuery, Pauses
    from freshkeeper.maintenance.query.model import Operator

    _deliver(FollowedQuery(query, operator or Operator.RSTREAM, pauses or Pauses(), report=complain), times)


def _deliver(following: "FollowedQuery", times: int) -> None:
    def sleep(seconds: float) -> bool:
        if times and following.evaluations >= times:
            return False
        time.sleep(seconds)
        return True

    try:
        for delivered in following.run(sleep):
            print_json(_line(delivered, following.operator))
            for odd in delivered.moment.odd:
                complain(odd)
    finally:  # Ctrl-C is how most end
        for line in _summary_lines(following):
            complain(line)


def _summary_lines(following: "FollowedQuery") -> "Iterator[str]":
    """Yield the sentences to print at the end."""
    late, torn, failed = following.late, following.query.repeated_reads, following.failed
    if late or torn or failed:
        yield f"{late} answers had expired on arrival, {torn} were read again, {failed} evaluations failed"
    for source in following.query.sources:
        yield from source.client.warnings()
    ledger = following.query.ledger
    if ledger is not None:
        ledger.check()
        yield f"{float(ledger.spent):g} cost units in {ledger.evaluations} evaluations"


def _line(delivered: "DeliveredAnswers", operator: str) -> dict[str, Any]:
    from freshkeeper.maintenance.base.terms import term_json

    moment = delivered.moment
    known = {"since": moment.since, "until": moment.until}
    times = {name: at for name, at in known.items() if abs(at) < 2**53}
    answers = []
    for row in delivered.rows:
        answers.append({name: term_json(term) for name, term in row.items()})
    told = {"op": str(operator), "fresh": 1.0, "requests": moment.requests}  # true by the sources' own word
    return {"t": moment.at, **times, **told, "answers": answers}


def _explained(query: "AnnotatedQuery") -> None:
    if query.ledger is not None:
        query.ledger.open()
    parts = query.parts()
    nothing = "no predicate that is named" if parts.open else "nothing: it is answered once"
    changing = ", ".join(sorted(str(p) for p in parts.dynamic)) or nothing
    print(f"dynamic, asked again when they expire: {changing}")
    print(f"static, asked for once: {', '.join(sorted(str(p) for p in parts.static)) or 'nothing'}")
    for each in parts.open:
        print(f"may match anything, asked again with what is dynamic: {each}")
    if parts.mixed:
        print(f"with and without a time: {', '.join(sorted(str(p) for p in parts.mixed))}")
    for style in parts.styles:
        print(f"how long triples hold is said by --speaking {style.speaking} --timing {style.timing}")
    print("fragments are asked for what this needs:")
    first, *extra = query.queries(parts)
    print(first)
    for each in extra:
        print(f"and beside it, wherever it is: {each}")
    print(f"{query.requests} requests told so much")


def _predicates(written: str) -> frozenset[Any] | None:
    from pyoxigraph import NamedNode

    try:
        return frozenset(NamedNode(each.strip()) for each in written.split(",")) if written else None
    except ValueError as error:
        raise ConfigError(f"--dynamic {written}: {error}; write IRIs in full, with commas between") from None


def one_of(kinds: Any, option: str, written: str) -> Any:
    """Return the member of an enumeration that an option names."""
    try:
        return kinds(written)
    except ValueError:
        raise ConfigError(f"{option} {written}: choose one of {', '.join(kinds)}") from None


def milliseconds(option: str, written: str) -> int:
    """Return the milliseconds of a duration given as an option."""
    from freshkeeper.maintenance.base.durations import to_delay

    try:
        return int(to_delay(written))
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None
