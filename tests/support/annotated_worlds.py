"""A server of annotated data in this process, a clock that goes on by requests and sleeps, and what is true when."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from email.utils import formatdate
from typing import Protocol

from pyoxigraph import Quad, QuerySolutions, Store

from freshkeeper.maintenance.annotated.annotated_data import AnnotatedData
from freshkeeper.maintenance.annotated.annotated_query import AnnotatedQuery
from freshkeeper.maintenance.annotated.annotated_source import AnnotatedSource, PageRequests
from freshkeeper.maintenance.annotated.fragment_server import FragmentResponse, FragmentServer
from freshkeeper.maintenance.annotated.served_data import ServableData
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool, HttpResponse
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.sources.fragments.annotation_style import (
    AnnotationEncoding,
    AnnotationStyle,
    TimedTriple,
    TimeEncoding,
)
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.sources.transport import Bound

START = 1_000_000_000_000
STYLES = [AnnotationStyle(speaking, timing) for speaking in AnnotationEncoding for timing in TimeEncoding]
ADDRESS = "http://source/data"


class Answering(Protocol):
    """What answers requests."""

    def answer(self, method: str, target: str, headers: Mapping[str, str]) -> FragmentResponse:
        """One of them."""


class Time:
    """A clock that goes on by requests and sleeps; the source's may be ahead."""

    def __init__(self, per_request: int = 5, ahead: int = 0) -> None:
        self.ms, self.per_request, self.ahead = START, per_request, ahead

    def sleep(self, seconds: float) -> bool:
        """Go on."""
        self.ms += round(seconds * 1000)
        return True

    def pause(self, seconds: float) -> None:
        """Go on, where nobody asks whether it was interrupted."""
        self.sleep(seconds)


class InProcessPool(ConnectionPool):
    """Exchanges with a server in this process: each takes a while by the clock, and is counted."""

    def __init__(self, server: Answering, time: Time, ahead: int | None = None) -> None:
        super().__init__(clock=lambda: 0.0, max_bytes=32_000_000)
        self.server, self.time, self.ahead = server, time, ahead
        self.targets: list[str] = []

    def exchange(self, call: Call, deadline: Deadline) -> HttpResponse:
        """One request."""
        assert deadline.may_send()
        target = "/" + call.url.split("/", 3)[3]
        self.targets.append(target)
        headers = {name.lower(): value for name, value in call.headers.items()} | {"host": call.url.split("/")[2]}
        self.time.ms += self.time.per_request
        answer = self.server.answer("GET", target, headers)
        code, _, reason = answer.status.partition(" ")
        given = {name.lower(): value for name, value in answer.headers.items()}
        ahead = self.time.ahead if self.ahead is None else self.ahead
        given["date"] = formatdate((self.time.ms + ahead) // 1000, usegmt=True)
        return HttpResponse(int(code), reason, given, answer.body)


def source_of(
    data: ServableData, time: Time, style: AnnotationStyle | None = None, address: str = ADDRESS, per_page: int = 100
) -> AnnotatedSource:
    """A source that is served in this process; its requests are in `source.client.pool.targets`."""
    server = FragmentServer(data, lambda: time.ms + time.ahead, "/data", per_page)
    client = FragmentsOverHttp(address, pool=InProcessPool(server, time), wall=lambda: time.ms / 1000)
    limiter = RateLimiter(clock=lambda: time.ms / 1000, wall=lambda: time.ms / 1000)
    return AnnotatedSource(client, style, requests=PageRequests(limiter, pause=time.pause))


def annotated(
    static: Sequence[Quad], held: Sequence[TimedTriple], style: AnnotationStyle, history: bool = False
) -> AnnotatedData:
    """Data that say how long they hold."""
    return AnnotatedData(static, held, style, ADDRESS, history)


def evaluated(source: AnnotatedSource, query: str) -> list[Bound]:
    """The rows of a query by our client, now."""
    asked = AnnotatedQuery([source], query)
    moment = asked.evaluate(asked.parts())
    assert moment.since <= moment.at < moment.until
    assert not moment.odd
    return moment.rows


def bag(rows: Iterable[Bound]) -> Counter[tuple[tuple[str, str], ...]]:
    """Rows, however they are ordered."""
    return Counter(tuple(sorted((name, str(term)) for name, term in row.items())) for row in rows)


def true_rows(static: Iterable[Quad], held: Iterable[TimedTriple], at: int, query: str) -> list[Bound]:
    """The rows of a query by the snapshot evaluator: of what holds at an instant, without annotations."""
    store = Store()
    store.extend(static)
    store.extend(
        Quad(one.triple.subject, one.triple.predicate, one.triple.object) for one in held if one.since <= at < one.until
    )
    found = store.query(rewrite_for_pyoxigraph(query))
    assert isinstance(found, QuerySolutions)
    names = [variable.value for variable in found.variables]
    return [{n: term for n, term in zip(names, row, strict=True) if term is not None} for row in found]
