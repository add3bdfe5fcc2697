"""A source whose triples state how long they hold: its annotation style, its clock, and what was read before.

The style need not be configured: `found_style` looks at which predicates have times, and at what these times annotate.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from pyoxigraph import DefaultGraph, NamedNode, Quad, Triple

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.fetching.fetch_errors import FetchError, NotSentError
from freshkeeper.maintenance.fetching.http.validity_headers import Validity
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.sources.fragments.annotation_style import (
    ANNOTATING,
    EXPIRATION,
    FLAT_FINAL,
    INTERVAL,
    PREDICATE,
    REIFIES,
    SINGLETONS,
    AnnotationEncoding,
    AnnotationStyle,
    TimeEncoding,
    ended_annotations,
)
from freshkeeper.maintenance.sources.fragments.fragment_page import FragmentPage, SearchForm
from freshkeeper.maintenance.sources.fragments.fragment_reader import FragmentReader
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.sources.fragments.quad_pattern import PatternTerm, QuadPattern, read_term
from freshkeeper.maintenance.sources.source_config import SourceConfig, config_of, read_config
from freshkeeper.maintenance.sources.sources import FRAGMENTS, fragments_of, limiter_of

FIRST_RETRY_S = 0.2
"""Pause before the first retry of a page; doubles each time."""
MAX_RATE_WAIT_S = 5.0
"""Maximum wait for the rate limits; longer waits postpone the page to a later evaluation."""


@dataclass(eq=False)
class PageRequests:
    """The limits of a source, and the price of a request."""

    limiter: RateLimiter = field(default_factory=RateLimiter)
    retries: int = 2
    timeout: float = 10.0
    price: float = 1.0
    mask: Callable[[str], str] = str
    """masks credentials in error messages, which a source may echo"""
    pause: Callable[[float], None] = time.sleep
    sent: int = 0

    def reader(self, client: FragmentsOverHttp, pay: Callable[[float], bool]) -> FragmentReader:
        """Return a reader whose requests all pass through here; `pay` returns False if the budget is spent."""
        plain = client.reader(0, Deadline())

        def fetch_page(url: str, pattern: QuadPattern | None) -> tuple[FragmentPage, Validity]:
            return self._page(client, url, pattern, pay)

        return FragmentReader(plain.start, fetch_page, plain.counts, plain.most, plain.allowed)

    def _page(
        self, client: FragmentsOverHttp, url: str, pattern: QuadPattern | None, pay: Callable[[float], bool]
    ) -> tuple[FragmentPage, Validity]:
        for n in range(self.retries + 1):
            deadline = Deadline(client.pool.clock() + self.timeout, lambda: self._wait_and_pay(pay))
            before = self.sent
            try:
                found = client.page(url, pattern, 0, deadline)
            except FetchError as fault:
                if fault.refused:
                    self.limiter.succeeded()
                    raise FetchError(self.mask(str(fault)), refused=True) from None
                self.limiter.failed(fault.wait)
                if not fault.again or n == self.retries:
                    raise FetchError(self.mask(str(fault)), fault.again, fault.wait, keys=fault.keys) from None
                self.pause(FIRST_RETRY_S * 2**n)
            else:
                if self.sent > before:  # a cached page says nothing about the health of the source
                    self.limiter.succeeded()
                return found
        raise AssertionError("unreachable")

    def _wait_and_pay(self, pay: Callable[[float], bool]) -> bool:
        """Wait for the rate limits and pay; raise NotSentError if the request must not be sent."""
        while (wait := self.limiter.wait()) > 0:
            if wait > MAX_RATE_WAIT_S:
                raise NotSentError(f"not sent: {self.limiter.why()}")
            self.pause(max(wait, 0.001))
        if not pay(self.price):
            raise NotSentError("not sent: the budget of this evaluation is spent")
        self.sent += 1
        return self.limiter.take()


STYLE_ATTEMPTS = 3
"""Attempts to find the style: a sample may have ended by the time of the next request."""
TIMED_BY = {TimeEncoding.EXPIRATION: EXPIRATION, TimeEncoding.INTERVAL: INTERVAL, TimeEncoding.FLAT: FLAT_FINAL}
"""The predicate that identifies each time encoding."""


@dataclass(eq=False)
class AnnotatedSource:
    """A source with its annotations in one style."""

    client: FragmentsOverHttp
    style: AnnotationStyle | None = None
    """None: determined by requests"""
    keep: bool = True
    """fetch static fragments only once"""
    holding: bool = True
    """request only current data, if the source supports it"""
    requests: PageRequests = field(default_factory=PageRequests)
    _static: dict[QuadPattern, list[Quad]] = field(default_factory=dict)
    _ended: dict[PatternTerm, list[Quad]] = field(default_factory=dict)
    """annotations of marks that have ended, by mark"""
    _annotated: dict[NamedNode, tuple[bool, bool]] = field(default_factory=dict)
    """by predicate: whether it has triples with, and without, a time"""

    @property
    def ahead(self) -> int:
        """Return the least number of milliseconds by which the source's clock is ahead of ours."""
        return round(self.client.source_clock.ahead * 1000)

    @property
    def ahead_at_most(self) -> int:
        """Return the greatest number of milliseconds by which it may be ahead."""
        return round(self.client.source_clock.ahead_at_most * 1000)

    def reader(self, static: frozenset[NamedNode], pay: Callable[[float], bool]) -> "StaticFragments":
        """Return a reader of the current fragments that fetches fragments of `static` predicates only once."""
        plain = self.requests.reader(self.client, pay)
        given = (plain.start, plain.fetch_page, plain.counts, plain.most, plain.allowed)
        known = self._static if self.keep else {}
        unchanging = static if self.keep else frozenset[NamedNode]()
        return StaticFragments(*given, holding=self.holding, cached=known, static=unchanging, ended=self._ended)

    def keep_ended(self, found: Collection[Quad], at: int) -> None:
        """Keep the annotations of elements that have ended, so that they are not fetched again while they are found."""
        if self.keep and self.style is not None:
            self._ended = ended_annotations(found, self.style, at)

    def forget_ended(self) -> bool:
        """Discard these annotations; return True if there were any."""
        there = bool(self._ended)
        self._ended = {}
        return there

    def find_style(self, pay: Callable[[float], bool]) -> AnnotationStyle | None:
        """Return the annotation style; None as long as no triple has a time."""
        if self.style is not None and self.style.speaking is AnnotationEncoding.SINGLETON:
            reader = self.reader(frozenset(), pay)
            there = [name for name in SINGLETONS if reader.first(_of(name)).quads]
            self.style = replace(self.style, singleton=(*there, self.style.singleton)[0])
        for _ in range(STYLE_ATTEMPTS):
            if self.style is not None:
                break
            reader = self.reader(frozenset(), pay)
            said = {timing: reader.first(_of(predicate)).quads for timing, predicate in TIMED_BY.items()}
            sample = [(timing, quad) for timing, quads in said.items() for quad in {*quads[:1], *quads[-1:]}]
            ways = [_way(timing, quad, reader) for timing, quad in sample]
            found = {style for style in ways if style is not None}
            if len(found) > 1:
                both = " and ".join(sorted(f"--speaking {each.speaking} --timing {each.timing}" for each in found))
                raise ConfigError(f"{mask_secrets(self.client.url)} uses several annotation styles: {both}; choose one")
            if not sample:
                break
            self.style = next(iter(found), None)  # None if every sampled triple has ended meanwhile
        return self.style

    def annotates(self, predicate: NamedNode, reader: FragmentReader) -> tuple[bool, bool]:
        """Return whether triples of a predicate have times, and whether some have none; asked once it has triples."""
        if predicate not in self._annotated:
            timed, plain = self._probe(predicate, reader)
            if not (timed or plain):
                return False, False
            self._annotated[predicate] = timed, plain
        return self._annotated[predicate]

    def _probe(self, predicate: NamedNode, reader: FragmentReader) -> tuple[bool, bool]:
        plain = _of(predicate)
        if self.style is None:
            return False, bool(reader.first(plain).quads)
        if self.style.speaking is AnnotationEncoding.GRAPH:
            found = reader.read_all(QuadPattern(predicate=predicate))
            graphs = {isinstance(quad.graph_name, DefaultGraph) for quad in found}
            if self.keep and graphs == {True}:
                self._static[plain] = found
            return False in graphs, True in graphs
        if self.style.speaking in (AnnotationEncoding.SINGLETON, AnnotationEncoding.REIFICATION):
            if self.style.speaking is AnnotationEncoding.SINGLETON:
                says = self.style.singleton
            else:
                says = PREDICATE
            timed = reader.first(QuadPattern(predicate=says, object=predicate, graph=DefaultGraph())).quads
            return bool(timed), bool(reader.first(plain).quads)
        if self.style.speaking is AnnotationEncoding.STAR:
            spoken = reader.read_all(_of(REIFIES))
            timed_too = any(isinstance(q.object, Triple) and q.object.predicate == predicate for q in spoken)
            return timed_too, not timed_too and bool(reader.first(plain).quads)
        found = reader.read_all(plain)
        marks = (reader.form().address(QuadPattern(q.subject, q.predicate, q.object)) for q in found[:1])
        said = any(reader.first(QuadPattern(subject=NamedNode(m), graph=DefaultGraph())).quads for m in marks)
        return said, bool(found) and not said


def _of(predicate: NamedNode) -> QuadPattern:
    """Return the pattern of a predicate in the default graph."""
    return QuadPattern(predicate=predicate, graph=DefaultGraph())


def _way(timing: TimeEncoding, timed: Quad, reader: FragmentReader) -> AnnotationStyle | None:
    """Return how the subject of a time annotates a triple, or None if that cannot be determined."""
    said = {quad.predicate for quad in reader.first(QuadPattern(subject=timed.subject, graph=DefaultGraph())).quads}
    if singleton := said.intersection(SINGLETONS):
        return AnnotationStyle(AnnotationEncoding.SINGLETON, timing, min(singleton, key=str))
    for speaking, predicate in ((AnnotationEncoding.REIFICATION, PREDICATE), (AnnotationEncoding.STAR, REIFIES)):
        if predicate in said:
            return AnnotationStyle(speaking, timing)
    if reader.quads and reader.first(QuadPattern(graph=timed.subject)).quads:
        return AnnotationStyle(AnnotationEncoding.GRAPH, timing)
    is_address = isinstance(timed.subject, NamedNode) and _is_address(timed.subject.value, reader.form())
    if is_address:
        return AnnotationStyle(AnnotationEncoding.IMPLICIT, timing)
    return None


def _is_address(iri: str, form: SearchForm) -> bool:
    """Return True if an IRI is the address of the fragment of one triple."""
    given = dict(parse_qsl(urlsplit(iri).query))
    try:
        terms = {role: read_term(given[form.variables[role]]) for role in ("subject", "predicate", "object")}
    except (KeyError, ValueError):
        return False
    return form.address(QuadPattern(**terms)) == iri


@dataclass(eq=False)
class StaticFragments(FragmentReader):
    """A reader that fetches fragments of static predicates once for all evaluations."""

    cached: dict[QuadPattern, list[Quad]] = field(default_factory=dict)
    static: frozenset[NamedNode] = frozenset()
    ended: Mapping[PatternTerm, list[Quad]] = field(default_factory=dict)

    def pages(self, pattern: QuadPattern) -> float:
        """Return 0 for fragments that are kept."""
        return 0 if self.has(pattern) else super().pages(pattern)

    def read_all(self, pattern: QuadPattern) -> list[Quad]:
        if (mark := self._mark(pattern)) is not None:
            return [quad for quad in self.ended[mark] if pattern.matches(quad)]
        if pattern not in self.cached:
            found = super().read_all(pattern)
            if pattern.predicate not in self.static:
                return found
            self.cached[pattern] = found
        return self.cached[pattern]

    def has(self, pattern: QuadPattern) -> bool:
        return pattern in self.cached or self._mark(pattern) is not None or super().has(pattern)

    def _mark(self, pattern: QuadPattern) -> PatternTerm | None:
        """Return the ended mark that a pattern asks about, or None."""
        if pattern.predicate in ANNOTATING and pattern.subject in self.ended:
            return pattern.subject
        return pattern.predicate if pattern.predicate in self.ended else None


def read_source(written: str) -> SourceConfig:
    if not written.lower().endswith((".yaml", ".yml")):
        return config_of({"fragments": written}, "--source")
    config = read_config(Path(written))
    if config.kind != "fragments":
        raise ConfigError(f"{written} is a source of kind {config.kind}; only fragments can be followed")
    return config


def all_fragments(sources: Iterable[str | SourceConfig]) -> list[SourceConfig]:
    """Return the configurations of sources if all of them are fragments, otherwise an empty list."""
    found = []
    for written in sources:
        if isinstance(written, str) and written.lower().startswith(FRAGMENTS):
            found.append(config_of({"fragments": written[len(FRAGMENTS) :]}, "--source"))
        elif not isinstance(written, str):
            found.append(written)
        elif written.lower().endswith((".yaml", ".yml")):
            found.append(read_config(Path(written)))
        else:
            return []
    if all(config.kind == "fragments" for config in found):
        return found
    return []


def annotated_source_of(config: SourceConfig, style: AnnotationStyle | None, keep: bool) -> AnnotatedSource:
    credentials = config.auth.read().hiding(config.addresses)
    client = replace(fragments_of(config, credentials), cached=keep and config.reuse)
    limits = limiter_of(config), config.retries, config.timeout / 1000, config.per_request
    requests = PageRequests(*limits, credentials.mask)
    return AnnotatedSource(client, style, keep, requests=requests)


def declared_dynamic(configs: Sequence[SourceConfig]) -> frozenset[NamedNode] | None:
    if not all(config.volatile for config in configs):
        return None
    return frozenset(NamedNode(iri) for config in configs for iri in config.volatile)
