"""Annotations of triples with validity times: five annotation encodings, and three time encodings.

graph           the triple is in a named graph, and the graph has the time
reification     a statement has the triple's subject, predicate and object, and the time
singleton       the triple has a property of its own, which is a singleton property of the real one
star            a node rdf:reifies the triple as a term; the triple is asserted as well
implicit        the address of the triple's own fragment has the time

expiration      tmp:expiration: valid until then; the begin is not stated
interval        tmp:interval with tmp:initial (inclusive) and tmp:final (exclusive)
flat            tmp:intervalInitial (exclusive) and tmp:intervalFinal (inclusive) on the mark itself, as the client of
                paper 004 writes them
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TypeAlias

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Triple

from freshkeeper.maintenance.base.times import DISTANT_FUTURE, DISTANT_PAST
from freshkeeper.maintenance.sources.annotations import TMP, instant_of
from freshkeeper.maintenance.sources.fragments.quad_pattern import PatternTerm, QuadPattern
from freshkeeper.maintenance.sources.fragments.vocabulary import RDF, XSD

EXPIRATION, INTERVAL = NamedNode(f"{TMP}expiration"), NamedNode(f"{TMP}interval")
INITIAL, FINAL = NamedNode(f"{TMP}initial"), NamedNode(f"{TMP}final")
FLAT_INITIAL, FLAT_FINAL = NamedNode(f"{TMP}intervalInitial"), NamedNode(f"{TMP}intervalFinal")
SUBJECT, PREDICATE, OBJECT = (NamedNode(f"{RDF}{name}") for name in ("subject", "predicate", "object"))
TYPE, STATEMENT = NamedNode(f"{RDF}type"), NamedNode(f"{RDF}Statement")
REIFIES = NamedNode(f"{RDF}reifies")
SINGLETON = NamedNode("http://example.org/singletonproperties#singletonPropertyOf")
SINGLETONS = (SINGLETON, NamedNode(f"{RDF}singletonPropertyOf"))
_DATETIME = NamedNode(f"{XSD}dateTime")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AnnotationEncoding(StrEnum):
    """The link between a triple and its annotation."""

    GRAPH = "graph"
    REIFICATION = "reification"
    SINGLETON = "singleton"
    STAR = "star"
    IMPLICIT = "implicit"


class TimeEncoding(StrEnum):
    """The form in which the validity of a triple is written."""

    EXPIRATION = "expiration"
    INTERVAL = "interval"
    FLAT = "flat"


@dataclass(frozen=True)
class TimedTriple:
    """A triple that holds from `since` until before `until`, in milliseconds since 1970."""

    triple: Triple
    since: int = DISTANT_PAST
    until: int = DISTANT_FUTURE


@dataclass(frozen=True)
class AnnotationStyle:
    """An annotation encoding and a time encoding."""

    speaking: AnnotationEncoding = AnnotationEncoding.GRAPH
    timing: TimeEncoding = TimeEncoding.EXPIRATION
    singleton: NamedNode = SINGLETON
    """the predicate that links a singleton property with the real property"""

    def quads(self, held: TimedTriple, name: str, address: Callable[[QuadPattern], str]) -> Iterator[Quad]:
        """Yield the quads of an element. `name` identifies the element, `address` returns that of a fragment."""
        s, p, o = held.triple.subject, held.triple.predicate, held.triple.object
        mark = self.mark(held.triple, name, address)
        if self.speaking is AnnotationEncoding.GRAPH:
            yield Quad(s, p, o, mark)
        elif self.speaking is AnnotationEncoding.SINGLETON:
            yield from (Quad(s, mark, o), Quad(mark, self.singleton, p))
        elif self.speaking is AnnotationEncoding.REIFICATION:
            yield from (Quad(mark, SUBJECT, s), Quad(mark, PREDICATE, p), Quad(mark, OBJECT, o))
        else:
            yield Quad(s, p, o)
        if self.speaking is AnnotationEncoding.STAR:
            yield Quad(mark, REIFIES, held.triple)
        yield from self._timed(mark, held, NamedNode(f"{name}/interval"))

    def mark(self, triple: Triple, name: str, address: Callable[[QuadPattern], str]) -> NamedNode:
        if self.speaking is AnnotationEncoding.IMPLICIT:
            return NamedNode(address(QuadPattern(triple.subject, triple.predicate, triple.object)))
        return NamedNode(name)

    def _timed(self, mark: NamedNode, held: TimedTriple, interval: NamedNode) -> Iterator[Quad]:
        if self.timing is TimeEncoding.EXPIRATION:
            yield Quad(mark, EXPIRATION, date_literal(held.until))
        elif self.timing is TimeEncoding.FLAT:
            yield from (
                Quad(mark, FLAT_INITIAL, date_literal(held.since - 1)),
                Quad(mark, FLAT_FINAL, date_literal(held.until - 1)),
            )
        else:
            yield Quad(mark, INTERVAL, interval)
            yield from (
                Quad(interval, INITIAL, date_literal(held.since)),
                Quad(interval, FINAL, date_literal(held.until)),
            )

    def pattern(self, subject: str, predicate: str, value: str, number: object, mixed: bool) -> str:
        """Return SPARQL that matches a triple pattern with its times; with `mixed` also triples without any."""
        mark, triple = f"?freshkeeper_mark_{number}", f"{subject} {predicate} {value} ."
        if self.speaking in (AnnotationEncoding.STAR, AnnotationEncoding.IMPLICIT):
            return triple  # times are read by an extra query, see unreached_times
        if self.speaking is AnnotationEncoding.GRAPH:
            found = f"GRAPH {mark} {{ {triple} }}"
        elif self.speaking is AnnotationEncoding.REIFICATION:
            found = f"{mark} {PREDICATE} {predicate} ; {SUBJECT} {subject} ; {OBJECT} {value} ."
        else:
            found = f"{mark} {self.singleton} {predicate} . {subject} {mark} {value} ."
        timed = f"{found} {{ {self._times(mark, number)} }}"
        if mixed:
            either = f"{{ {{ {triple} }} UNION {{ {timed} }} }}"
        else:
            either = timed
        # A variable predicate also matches singleton properties: fetch what tells which of them are.
        if self.speaking is AnnotationEncoding.SINGLETON and predicate.startswith("?"):
            return f"{either} OPTIONAL {{ {predicate} {self.singleton} ?freshkeeper_of_{number} }}"
        return either

    def unreached_times(self) -> str:
        """Return SPARQL for the times that no pattern leads to; "" if there are none."""
        mark = "?freshkeeper_mark"
        if self.speaking is AnnotationEncoding.STAR:
            return f"{mark} {REIFIES} ?freshkeeper_triple . {{ {self._times(mark, 'beside')} }}"
        if self.speaking is AnnotationEncoding.IMPLICIT:
            return self._times(mark, "beside")
        return ""

    def _times(self, mark: str, n: object) -> str:
        if self.timing is TimeEncoding.EXPIRATION:
            return f"{mark} {EXPIRATION} ?freshkeeper_until_{n} ."
        if self.timing is TimeEncoding.FLAT:
            return f"{mark} {FLAT_INITIAL} ?freshkeeper_since_{n} ; {FLAT_FINAL} ?freshkeeper_until_{n} ."
        interval = f"?freshkeeper_interval_{n}"
        return (
            f"{mark} {INTERVAL} {interval} . {interval} {INITIAL} ?freshkeeper_since_{n} ; "
            f"{FINAL} ?freshkeeper_until_{n} ."
        )


@dataclass(frozen=True)
class ReadElements:
    """The content of quads: triples with times, triples without, and annotations that are inconsistent."""

    elements: list[TimedTriple]
    plain: list[Quad]
    odd: list[str]


def read_elements(quads: Iterable[Quad], style: AnnotationStyle, address: Callable[[QuadPattern], str]) -> ReadElements:
    """Return the annotated triples among quads; one that ends before it begins never holds and is reported as odd.

    The remaining quads are plain triples, except for annotations, which are not data, and for triples whose times are
    stated elsewhere. Quads in graphs that are not annotations keep their graph.
    """
    every = list(quads)
    if style.speaking is AnnotationEncoding.GRAPH:
        ours = every
    else:
        ours = [q for q in every if isinstance(q.graph_name, DefaultGraph)]
    spans, odd = _spans(ours)
    spoken = list(_annotated_triples(ours, style.speaking, address))
    held, timed = list[TimedTriple](), {triple for mark, triple in spoken if mark in spans}
    for mark, triple in spoken:
        for since, until in spans.get(mark, ()):
            if since >= until:
                odd.append(f"{triple} ends at {until}, not after its begin at {since}")
            else:
                held.append(TimedTriple(triple, since, until))
        if mark not in spans and style.speaking is AnnotationEncoding.GRAPH:
            odd.append(f"{triple} is in the graph {mark}, which has no time")
    annotates = _annotations(style, ours)
    left = (quad for quad in every if not (isinstance(quad.graph_name, DefaultGraph) and annotates(quad)))
    if style.speaking is AnnotationEncoding.GRAPH:
        left = (quad for quad in left if isinstance(quad.graph_name, DefaultGraph))
    plain = [q for q in left if not (isinstance(q.graph_name, DefaultGraph) and q.triple in timed)]
    return ReadElements(held, plain, odd)


ANNOTATING = frozenset(
    {INTERVAL, INITIAL, FINAL, FLAT_INITIAL, FLAT_FINAL, SUBJECT, PREDICATE, OBJECT, REIFIES, *SINGLETONS}
)
"""Predicates of the annotations of a mark or its interval."""
_TIME_PREDICATES = {EXPIRATION, INTERVAL, INITIAL, FINAL, FLAT_INITIAL, FLAT_FINAL}


def _annotations(style: AnnotationStyle, quads: Sequence[Quad]) -> Callable[[Quad], bool]:
    """Return a function that tells annotations from data."""
    own = set[object](_TIME_PREDICATES)
    if style.speaking is AnnotationEncoding.REIFICATION:
        own |= {SUBJECT, PREDICATE, OBJECT}
    elif style.speaking is AnnotationEncoding.SINGLETON:
        own |= {*SINGLETONS, *(quad.subject for quad in quads if quad.predicate in SINGLETONS)}

    def annotates(quad: Quad) -> bool:
        if quad.predicate in own:
            return True
        if style.speaking is AnnotationEncoding.STAR:
            return quad.predicate == REIFIES and isinstance(quad.object, Triple)
        return style.speaking is AnnotationEncoding.REIFICATION and quad.predicate == TYPE and quad.object == STATEMENT

    return annotates


_AnnotatedTriples: TypeAlias = Iterator[tuple[object, Triple]]


def _annotated_triples(
    quads: list[Quad], speaking: AnnotationEncoding, address: Callable[[QuadPattern], str]
) -> _AnnotatedTriples:
    """Return each mark with the triple that it annotates."""
    found: dict[AnnotationEncoding, Callable[[list[Quad]], _AnnotatedTriples]] = {
        AnnotationEncoding.GRAPH: _in_graphs,
        AnnotationEncoding.STAR: _reified,
        AnnotationEncoding.SINGLETON: _singletons,
        AnnotationEncoding.REIFICATION: _statements,
        AnnotationEncoding.IMPLICIT: partial(_addressed, address),
    }
    return found[speaking](quads)


def _in_graphs(quads: list[Quad]) -> _AnnotatedTriples:
    return ((quad.graph_name, quad.triple) for quad in quads if not isinstance(quad.graph_name, DefaultGraph))


def _reified(quads: list[Quad]) -> _AnnotatedTriples:
    for quad in quads:
        if quad.predicate == REIFIES and isinstance(quad.object, Triple):
            yield quad.subject, quad.object


def _addressed(address: Callable[[QuadPattern], str], quads: list[Quad]) -> _AnnotatedTriples:
    marks = {q.subject.value for q in quads if q.predicate in _TIME_PREDICATES and isinstance(q.subject, NamedNode)}
    for quad in quads:
        where = address(QuadPattern(quad.subject, quad.predicate, quad.object))
        if where in marks:
            yield NamedNode(where), quad.triple


def _singletons(quads: list[Quad]) -> _AnnotatedTriples:
    of = {q.subject: q.object for q in quads if q.predicate in SINGLETONS and isinstance(q.object, NamedNode)}
    for quad in quads:
        if quad.predicate in of:
            yield quad.predicate, Triple(quad.subject, of[quad.predicate], quad.object)


def _statements(quads: list[Quad]) -> _AnnotatedTriples:
    said: dict[object, dict[NamedNode, Quad]] = {}
    for quad in quads:
        if quad.predicate in (SUBJECT, PREDICATE, OBJECT):
            said.setdefault(quad.subject, {})[quad.predicate] = quad
    for mark, of in said.items():
        if len(of) == 3:
            subject, predicate = of[SUBJECT].object, of[PREDICATE].object
            if isinstance(predicate, NamedNode) and not isinstance(subject, Literal | Triple):
                yield mark, Triple(subject, predicate, of[OBJECT].object)


def ended_annotations(quads: Iterable[Quad], style: AnnotationStyle, at: int) -> dict[PatternTerm, list[Quad]]:
    """Return the annotations of marks whose intervals have all ended, by mark and by interval.

    The mark of an element belongs to it alone and ends with it for good. Encodings whose marks may become valid again
    are excluded: expirations, which may be extended, and addresses, which belong to a value.
    """
    if style.timing is TimeEncoding.EXPIRATION or style.speaking is AnnotationEncoding.IMPLICIT:
        return {}
    every = list(quads)
    spans, _ = _spans(every)
    over = set()
    for mark, intervals in spans.items():
        if all(until <= at for _, until in intervals):
            over.add(mark)
    over |= {quad.object for quad in every if quad.predicate == INTERVAL and quad.subject in over}
    found: dict[PatternTerm, list[Quad]] = {}
    for quad in every:
        for term in over.intersection((quad.subject, quad.predicate)):
            found.setdefault(term, []).append(quad)  # type: ignore[arg-type]
    return found


def _spans(quads: list[Quad]) -> tuple[Mapping[object, list[tuple[int, int]]], list[str]]:
    """Return the validity intervals of each mark, and the malformed annotations.

    A mark has several intervals if it belongs to a value that becomes valid again. An interval is a node of its own or
    is flat; flat begins and ends are paired in order, because intervals of one fact do not overlap. An expiration
    limits all of them.
    """
    times, odd = dict[tuple[object, NamedNode], list[int]](), list[str]()
    for quad in quads:
        if quad.predicate in _TIME_PREDICATES and quad.predicate != INTERVAL:
            if isinstance(quad.object, Literal):
                at = instant_of(quad.object.value)
            else:
                at = None
            if at is None:
                odd.append(f"{quad.object} is not a date and time")
            flat = quad.predicate in (FLAT_INITIAL, FLAT_FINAL)
            never = DISTANT_FUTURE if quad.predicate in (INITIAL, FLAT_INITIAL) else DISTANT_PAST
            times.setdefault((quad.subject, quad.predicate), []).append(never if at is None else at + flat)
    found = dict[object, list[tuple[int, int]]]()
    for quad in quads:
        begins, ends = (times.get((quad.object, each)) for each in (INITIAL, FINAL))
        if quad.predicate == INTERVAL and (begins or ends):
            found.setdefault(quad.subject, []).append((max(begins or [DISTANT_PAST]), min(ends or [DISTANT_FUTURE])))
    for mark in dict.fromkeys(mark for mark, each in times if each in (FLAT_INITIAL, FLAT_FINAL)):
        begins, ends = (sorted(times.get((mark, each), [])) for each in (FLAT_INITIAL, FLAT_FINAL))
        intervals = found.setdefault(mark, [])
        if len(begins) == len(ends):
            intervals += zip(begins, ends, strict=True)
        else:
            intervals.append(_common(begins, ends))
    for mark, until in ((mark, min(ats)) for (mark, each), ats in times.items() if each == EXPIRATION):
        found[mark] = [(since, min(until, end)) for since, end in found.get(mark, [(DISTANT_PAST, DISTANT_FUTURE)])]
    return found, odd


def _common(begins: Sequence[int], ends: Sequence[int]) -> tuple[int, int]:
    return max(begins, default=DISTANT_PAST), min(ends, default=DISTANT_FUTURE)


def date_literal(at: int) -> Literal:
    """Return an instant in milliseconds as xsd:dateTime."""
    when = _EPOCH + timedelta(milliseconds=at)
    return Literal(when.isoformat(timespec="milliseconds").replace("+00:00", "Z"), datatype=_DATETIME)
