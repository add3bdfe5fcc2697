"""Ways to annotate compared: one client and a server in this process, by a clock that sleeping sets.

What an evaluation takes is processor time of the client and of the server apart, requests, and bytes of pages.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate

from freshkeeper.maintenance.annotated.annotated_data import AnnotatedData
from freshkeeper.maintenance.annotated.annotated_query import AnnotatedQuery
from freshkeeper.maintenance.annotated.annotated_source import AnnotatedSource
from freshkeeper.maintenance.annotated.following import FollowedQuery, Pauses
from freshkeeper.maintenance.annotated.fragment_server import FragmentServer
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool, HttpResponse
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.sources.fragments.annotation_style import AnnotationStyle, TimeEncoding
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.simulator.following.following_config import FollowingExperiment, History
from freshkeeper.simulator.trace.trains import DEPARTURES, trains

START = 1_000_000_000_000
ADDRESS = "http://source/trains"


@dataclass(frozen=True)
class Way:
    """A way to annotate and to read."""

    style: AnnotationStyle
    history: History
    cached: bool


@dataclass(frozen=True)
class EvaluationCost:
    """The cost of one evaluation."""

    way: Way
    evaluation: int
    rows: int
    requests: int
    kilobytes: float
    client_ms: float
    server_ms: float


@dataclass(eq=False)
class InProcessExchange(ConnectionPool):
    """Exchanges with a server that is called."""

    server: FragmentServer | None = None
    ms: int = START
    bytes: int = 0
    requests: int = 0
    served: float = 0.0
    """seconds of processor time at the server"""

    def exchange(self, call: Call, deadline: Deadline) -> HttpResponse:
        """HttpResponse a request in this process; nothing is sent."""
        assert deadline.may_send()
        assert self.server is not None
        headers = {name.lower(): value for name, value in call.headers.items()} | {"host": "source"}
        began = time.process_time()
        answer = self.server.answer(call.method, "/" + call.url.split("/", 3)[3], headers)
        self.served += time.process_time() - began
        self.requests, self.bytes = self.requests + 1, self.bytes + len(answer.body)
        given = {name.lower(): value for name, value in answer.headers.items()} | {"date": formatdate(self.ms // 1000)}
        return HttpResponse(int(answer.status[:3]), "", given, answer.body)

    def sleep(self, seconds: float) -> bool:
        """Let simulated time pass, and return True: nothing interrupts it."""
        self.ms += round(seconds * 1000)
        return True


def ways(experiment: FollowingExperiment) -> Iterator[Way]:
    """Yield every requested way; expirations have no history, and histories are read with the first cache setting."""
    for timing in experiment.timing:
        for history in experiment.history if timing is not TimeEncoding.EXPIRATION else ("dropped",):
            for speaking in experiment.speaking:
                for cached in experiment.cache if history == "dropped" else experiment.cache[:1]:
                    yield Way(AnnotationStyle(speaking, timing), history, cached)  # type: ignore[arg-type]


def measured(experiment: FollowingExperiment, way: Way) -> list[EvaluationCost]:
    """Every evaluation of one way."""
    end = START + (experiment.changes + 2) * experiment.lasts
    static, elements = trains(experiment.trains, experiment.lasts, end, START)
    pool = InProcessExchange()
    data = AnnotatedData(static, elements, way.style, ADDRESS, way.history != "dropped")
    pool.server = FragmentServer(data, lambda: pool.ms, "/trains")
    client = FragmentsOverHttp(ADDRESS, pool=pool, wall=lambda: pool.ms / 1000, cached=way.cached)
    source = AnnotatedSource(client, way.style, keep=way.cached, holding=way.history == "now")
    following = FollowedQuery(AnnotatedQuery([source], DEPARTURES), pauses=Pauses(skew=10))
    found, before = list[EvaluationCost](), (0, 0, 0.0, time.process_time())
    for delivered in following.run(pool.sleep):
        now = pool.requests, pool.bytes, pool.served, time.process_time()
        requests, sent, served, used = (a - b for a, b in zip(now, before, strict=True))
        pages = int(requests), sent / 1000
        spent = (used - served) * 1000, served * 1000
        found.append(EvaluationCost(way, following.evaluations, len(delivered.rows), *pages, *spent))
        before = now
        if following.evaluations == experiment.changes:
            break
    return found
