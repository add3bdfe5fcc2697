"""Validity that is said in the data: a date per key, or tmp:expiration and tmp:interval of volatile triples.

004 marks triples with the time in which they hold: the triple sits in a named graph of its own, or is reified, or has
a singleton property; the graph, the statement or the property has a tmp:expiration, or a tmp:interval with tmp:initial
and tmp:final. The dynamic part of a split is rewritten so that it finds the triples there, with what is said of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from pyoxigraph import Literal

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.times import DISTANT_FUTURE, UNKNOWN
from freshkeeper.maintenance.fetching.http.validity_headers import Validity
from freshkeeper.maintenance.query.service_split import Split, body_of, is_open
from freshkeeper.maintenance.query.syntax.tree import Bind, Filter, Minus, Optional, Select, TriplePattern
from freshkeeper.maintenance.sources.transport import Bound

TMP = "http://example.org/temporal#"
SINGLETON_OF = (
    "<http://example.org/singletonproperties#singletonPropertyOf>"
    "|<http://www.w3.org/1999/02/22-rdf-syntax-ns#singletonPropertyOf>"
)
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
NAME_PREFIX = "freshkeeper"
TIMELESS = (Minus, Filter, Bind, Select)
"""Blocks whose own variables are not seen outside, so that a history in them would be taken as a whole."""
OPTIONAL_MARK = f"{NAME_PREFIX}_maybe"
"""Asked for, and never bound, where an OPTIONAL has annotated triples."""


class Annotation(StrEnum):
    """The ways in which volatile triples are annotated."""

    NONE = "none"
    GRAPH = "graph"
    REIFICATION = "reification"
    SINGLETON = "singleton"


@dataclass(frozen=True)
class ValidityAnnotations:
    """The annotations of validity in the data of a source."""

    modified: str | None = None
    """the predicate of a key that says when it last changed"""
    annotation: Annotation = Annotation.NONE


def with_validity(parts: Split, volatile: Iterable[str], told: ValidityAnnotations) -> Split:
    """Return a split whose queries ask for the annotations."""
    dated = [f"{NAME_PREFIX}_modified_{name}" for name in parts.key] if told.modified else []
    dynamic, names = parts.dynamic, list[str]()
    if told.annotation is not Annotation.NONE:
        dynamic, names = _rewritten(parts, frozenset(volatile), told.annotation)
    return replace(parts, dynamic=dynamic, validity_variables=(*dated, *names), modified=told.modified)


def valid(rows: Sequence[Bound], told: Sequence[str], now: int) -> tuple[list[Bound], Validity]:
    """Return the rows of one key that hold now, and since and until when they do.

    Of values with a time, those whose time has not begun are left out, and those whose time is over where there is
    one whose time is not: a source may keep its history, and one that is late with a new value still has the old one.
    """
    if not told:
        return list(rows), Validity()
    spans = [_span(row, told, now) for row in rows]
    latest = max((until for since, until in spans if since <= now), default=now)
    kept = [n for n, (since, until) in enumerate(spans) if since <= now and (until > now or until == latest <= now)]
    if OPTIONAL_MARK in told and len(kept) < len(rows):
        return [rows[n] for n in kept], Validity(expires=now)  # what an OPTIONAL no longer finds leaves a row behind
    return [rows[n] for n in kept], _validity(spans, kept, now)


def _validity(spans: Sequence[tuple[int, int]], kept: Sequence[int], now: int) -> Validity:
    """Return the time since the last value came or went, until the next one does; unknown if any is unknown."""
    begins = [spans[n][0] for n in kept]
    ends = [spans[n][1] for n in kept]
    since_known, until_known = UNKNOWN not in begins, DISTANT_FUTURE not in ends
    for n, (begin, end) in enumerate(spans):
        if n not in kept and end <= now:
            begins.append(end)
        if n not in kept and begin > now:
            ends.append(begin)
    since = until = UNKNOWN
    if since_known:
        since = max(begins, default=UNKNOWN)
    if until_known:
        until = min(ends, default=UNKNOWN)
    return Validity(since, until)


def _span(row: Bound, told: Sequence[str], now: int) -> tuple[int, int]:
    """Return since when and until when a row holds, where it says so; a future change is no beginning."""
    since, until = UNKNOWN, DISTANT_FUTURE
    for name in told:
        term = row.get(name)
        at = instant_of(term.value) if isinstance(term, Literal) else None
        if at is not None and name.startswith(f"{NAME_PREFIX}_modified"):
            since = max(since, at) if at <= now else since
        elif at is not None and name.startswith(f"{NAME_PREFIX}_begins"):
            since = max(since, at)
        elif at is not None:
            until = min(until, at)
    return since, until


def instant_of(written: str) -> int | None:
    """Milliseconds since 1970 of a date and time, in UTC unless it says otherwise; nothing where it is none."""
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _rewritten(parts: Split, volatile: frozenset[str], how: Annotation) -> tuple[str, list[str]]:
    """Return the dynamic part with every volatile triple under its annotation, and the variables of the annotations."""
    every = [e for top in parts.changing for e in top.walk() if e.predicates & volatile or is_open(e)]
    triples = [e for e in every if isinstance(e, TriplePattern)]
    for block in every:
        if isinstance(block, TIMELESS):
            raise ConfigError(
                f"annotations: {how}: {block.flat} shows no time in which its triples hold; put it behind the SERVICE "
                "block"
            )
    for triple in triples:
        if is_open(triple):
            raise ConfigError(f"annotations: {how}: name the predicate of {triple.flat}")
        if triple.plain is None or not (triple.alone or triple in parts.changing):
            raise ConfigError(f"annotations: {how}: write {triple.flat} ... as triples of three terms each")
    names = [f"{NAME_PREFIX}_{what}_{n}" for n in range(len(triples)) for what in ("expires", "begins", "ends")]
    maybe = any(isinstance(e, Optional) for e in every)
    text = body_of(parts.changing, {e: _annotated(e, n, how) for n, e in enumerate(triples)})
    return text, [*names, *[OPTIONAL_MARK] * maybe]


def _annotated(triple: TriplePattern, number: int, how: Annotation) -> str:
    subject, _, value = (triple.source.text(*span) for span in triple.spans)
    predicate, mark = f"<{next(iter(triple.predicates))}>", f"?{NAME_PREFIX}_mark_{number}"
    found = {
        Annotation.GRAPH: f"GRAPH {mark} {{ {subject} {predicate} {value} }}",
        Annotation.REIFICATION: f"{mark} <{RDF}subject> {subject} ; <{RDF}predicate> {predicate} ; "
        f"<{RDF}object> {value} .",
        Annotation.SINGLETON: f"{subject} {mark} {value} . {mark} {SINGLETON_OF} {predicate} .",
    }[how]
    return (
        f"{found} OPTIONAL {{ {mark} <{TMP}expiration> ?{NAME_PREFIX}_expires_{number} }} OPTIONAL {{ {mark} "
        f"<{TMP}interval> ?{NAME_PREFIX}_interval_{number} . ?{NAME_PREFIX}_interval_{number} <{TMP}initial> "
        f"?{NAME_PREFIX}_begins_{number} ; <{TMP}final> ?{NAME_PREFIX}_ends_{number} }}"
    )
