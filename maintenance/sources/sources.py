"""Sources as a run names them: RDF in this process; SPARQL, fragments or JSON over HTTP; with what is known of them.

`changes` is a stream of timestamped statements: at its time a statement takes the place of those with the same subject
and predicate. It makes a source that changes in event time, for tests, demonstrations and replays.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from pyoxigraph import DefaultGraph, Quad, RdfFormat, Store, parse

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.credentials import Credentials
from freshkeeper.maintenance.base.durations import LONGEST_MS
from freshkeeper.maintenance.base.errors import ConfigError, EndpointError
from freshkeeper.maintenance.base.rdf_files import load_graph
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.published import Published
from freshkeeper.maintenance.cache.view.survival import Survival
from freshkeeper.maintenance.fetching.dispatcher import Dispatcher, RequestOptions
from freshkeeper.maintenance.fetching.endpoint import Price
from freshkeeper.maintenance.fetching.http.exchange import ConnectionPool
from freshkeeper.maintenance.fetching.rate_limiter import Breaker, Limit, Rate, RateLimiter
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.query.service_split import Split
from freshkeeper.maintenance.sources.annotations import Annotation, ValidityAnnotations
from freshkeeper.maintenance.sources.bounds import bounded
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.sources.fragments.needed_fragments import count_patterns
from freshkeeper.maintenance.sources.json_over_http import JsonOverHttp
from freshkeeper.maintenance.sources.source_config import SourceConfig, config_of, read_config
from freshkeeper.maintenance.sources.sparql_over_http import SparqlOverHttp
from freshkeeper.maintenance.sources.transport import Bound, GraphService, Transport
from freshkeeper.maintenance.streams.gap_limit import GapLimit
from freshkeeper.maintenance.streams.timed_lines import TimedLines

FRAGMENTS = "fragments:"
"""Before the address of a source of fragments, which else is that of a SPARQL endpoint."""


@dataclass(eq=False)
class EmbeddedSource:
    """A source inside the process: its data, and the changes that come; threads may share it.

    >>> from pyoxigraph import Literal, NamedNode, Quad
    >>> from freshkeeper import EmbeddedSource
    >>> source = EmbeddedSource([Quad(NamedNode("urn:ann"), NamedNode("urn:followers"), Literal(10))])
    >>> [row["n"].value for row in source("SELECT ?n { ?user <urn:followers> ?n }", now=0)]
    ['10']
    """

    data: list[Quad]
    changes: list[tuple[int, Quad]] = field(default_factory=list)
    requests: int = 0
    _next: int = 0
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.store = Store()
        self.store.extend(self.data)
        self.changes.sort(key=lambda change: change[0])

    def __call__(self, query: str, now: int) -> list[Bound]:
        with self._lock:
            self.requests += 1
            self._catch_up(now)
        try:
            return bounded(lambda: self.store.query(rewrite_for_pyoxigraph(query)))
        except (SyntaxError, OSError, RuntimeError) as error:
            raise EndpointError(f"refused: the query cannot be asked: {error}") from None

    def _catch_up(self, now: int) -> None:
        while self._next < len(self.changes) and self.changes[self._next][0] <= now:
            _, quad = self.changes[self._next]
            for old in list(self.store.quads_for_pattern(quad.subject, quad.predicate, None, DefaultGraph())):
                self.store.remove(old)
            self.store.add(quad)
            self._next += 1


@dataclass(frozen=True, eq=False)
class Source:
    """A source with what the operator says of it.

    >>> from freshkeeper import Source
    >>> blog = Source.embedded("PREFIX : <urn:> :ann :followers 10 .", volatile=["urn:followers"])
    >>> blog.volatile, blog.price.per_request
    (('urn:followers',), 1.0)
    """

    transport: Transport
    volatile: tuple[str, ...] = ()
    price: Price = field(default_factory=Price)
    model: Callable[[], ChangeModel] | None = None
    """what is known of its changes; None: what the run says of all sources"""
    validity: ValidityAnnotations = field(default_factory=ValidityAnnotations)
    static: bool = False
    """whether nothing in it changes, unless predicates are said to be volatile"""
    documents: bool = False
    """whether it is read document by document, each about one key"""
    pages: bool = False
    """whether an answer is gathered from pages, one request each"""

    @property
    def changing(self) -> tuple[str, ...] | None:
        """The predicates that change; None where it is known that nothing does."""
        if self.static and not self.volatile:
            return None
        return self.volatile

    def prices(self, split: Split) -> tuple[Price, Price]:
        """Return the prices of a refresh and of a miss; fragments take at least a page per triple pattern."""
        if not self.pages:
            return self.price, self.price
        refresh, miss = (max(1, count_patterns(query([]))) for query in (split.refresh_query, split.expand_query))
        return replace(self.price, pages=refresh), replace(self.price, pages=miss)

    @classmethod
    def embedded(
        cls, data: str | Iterable[Quad], volatile: Sequence[str] = (), changes: Iterable[tuple[int, Quad]] = ()
    ) -> "Source":
        """Make a source inside the process, from Turtle or from quads."""
        quads = list(parse(data, format=RdfFormat.TURTLE)) if isinstance(data, str) else list(data)
        coming = list(changes)
        return cls(Transport.in_process(EmbeddedSource(quads, coming)), tuple(volatile), static=not coming)


def load_source(written: str) -> Source:
    """Load a source from a file or directory of RDF, an address, or a YAML file that says more.

    An address is that of a SPARQL endpoint, or behind `fragments:` that of fragments.

    >>> from freshkeeper import load_source
    >>> load_source("https://example.org/sparql").price
    Price(per_request=1.0, per_key=0.0, batch=1, pages=1)
    """
    if written.lower().startswith(("http://", "https://")):
        return source_of(config_of({"sparql": written}, "the source"))
    if written.lower().startswith(FRAGMENTS):
        return source_of(config_of({"fragments": written[len(FRAGMENTS) :]}, "the source"))
    if "://" in written:
        raise ConfigError(
            f"{mask_secrets(written)}: a source is an http or https address of a SPARQL endpoint, a file of RDF, "
            "or a YAML file; tables and other services are for Enricher (docs/enricher.md) or a source of your own "
            "(docs/writing-a-source.md)"
        )
    path = Path(written)
    if path.suffix.lower() not in (".yaml", ".yml"):
        return Source(Transport.in_process(EmbeddedSource(load_graph(path))), static=True)
    return source_of(read_config(path))


def source_of(config: SourceConfig) -> Source:
    """Make a source that is ready for use; its threads and connections start with the first request."""
    model: Callable[[], ChangeModel] = Survival if config.survival else Published
    return Source(
        _transport(config),
        tuple(config.volatile),
        Price(config.per_request, config.per_key, config.batch),
        model=model if config.knowledge == "published" else None,
        validity=ValidityAnnotations(config.modified, config.annotations),
        static=config.unchanging,
        documents=config.kind == "resources",
        pages=config.kind == "fragments",
    )


def _transport(config: SourceConfig) -> Transport:
    if config.data is not None:
        changes = _changes(config.changes) if config.changes else []
        named = config.annotations is Annotation.GRAPH
        return Transport.in_process(EmbeddedSource(load_graph(config.data, named), changes))
    credentials = config.auth.read().hiding(config.addresses)
    pool, dated = ConnectionPool(config.max_size), config.knowledge == "published"
    service: GraphService
    if config.sparql is not None:
        service = SparqlOverHttp(config.sparql, credentials, config.method, pool, dated)
    elif config.fragments is not None:
        service = fragments_of(config, credentials)
    else:
        service = JsonOverHttp([each.documents() for each in config.resources], credentials, pool, dated)
    deadline = math.inf if config.deadline is None else config.deadline / 1000
    options = RequestOptions(config.concurrency, config.timeout / 1000, deadline, config.retries)
    dispatcher = Dispatcher(limiter_of(config), options, credentials.mask, abort=service.close)
    return Transport(service, dispatcher)


def fragments_of(config: SourceConfig, credentials: Credentials) -> FragmentsOverHttp:
    return FragmentsOverHttp(
        config.fragments or "",
        credentials,
        ConnectionPool(config.max_size),
        dated=config.knowledge == "published",
        hosts=frozenset(config.hosts),
        cached=config.reuse,
    )


def limiter_of(config: SourceConfig) -> RateLimiter:
    breaker = Breaker(config.failures, config.cool_down / 1000)
    return RateLimiter([Limit(Rate.of(written)) for written in config.limits], breaker)


def _changes(path: Path) -> list[tuple[int, Quad]]:
    batches = TimedLines.file(path, steps=GapLimit(LONGEST_MS)).batches()  # what changes may do so once in a year
    return [pair for batch in batches for pair in zip(batch.times, batch.quads, strict=True)]
