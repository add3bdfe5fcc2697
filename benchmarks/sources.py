"""Requests to a real SPARQL server: how many a view saves, what batches bring, what one request costs.

python benchmarks/sources.py          about 20 s, with oxigraph on loopback
"""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3
from pyoxigraph import NamedNode, Quad
from SPARQLWrapper import JSON, SPARQLWrapper
from stopwatch import ratios, seconds, show

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.fetching.endpoint import Order
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.service_split import Split, split
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.sources.pattern_source import pattern_fetcher
from freshkeeper.maintenance.sources.source_config import config_of
from freshkeeper.maintenance.sources.sources import Source, source_of
from freshkeeper.maintenance.sources.sparql_over_http import SparqlOverHttp
from freshkeeper.maintenance.sources.transport import GraphQuery
from freshkeeper.maintenance.streams.batch import Elements
from freshkeeper.policies.registry import make

E = "http://example.org/"
ROWS, TOPICS, USERS, BATCH = 1_971, 50, 2_000, 200
QUERY = f"""PREFIX : <{E}> SELECT ?post ?user ?n FROM NAMED WINDOW :w ON :s [RANGE PT10S STEP PT10S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""


@contextmanager
def server() -> Iterator[str]:
    """An oxigraph in memory with the blog."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "oxigraph"), "serve", "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        edges = "".join(f"<{E}topic{n}> <{E}discussedBy> <{E}user{n}> .\n" for n in range(TOPICS))
        values = "".join(f"<{E}user{n}> <{E}followers> {n} .\n" for n in range(USERS))
        load = urllib.request.Request(
            f"http://127.0.0.1:{port}/store?default", (edges + values).encode(), method="POST"
        )
        load.add_header("Content-Type", "text/turtle")
        urllib.request.urlopen(load).close()
        yield f"http://127.0.0.1:{port}/query"
    finally:
        process.terminate()
        process.wait()


def wait_for(port: int) -> None:
    """Until somebody listens."""
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.01)
    raise SystemExit("oxigraph does not start")


def source(url: str, **more: object) -> Source:
    """The server as a source."""
    return source_of(config_of({"sparql": url, "volatile": f"{E}followers", **more}, "benchmark"))


def parts() -> Split:
    """The SERVICE pattern in its parts."""
    (service,) = parse(QUERY).services
    return split(service, [f"{E}followers"], ["post", "topic"])


def posts() -> Elements:
    """Two windows of posts, each with all topics."""

    def post(n: int) -> Quad:
        return Quad(NamedNode(f"{E}post{n}"), NamedNode(f"{E}topic"), NamedNode(f"{E}topic{n % TOPICS}"))

    return Elements([(10_000 * window + 1 + n * 9_990 // ROWS, post(n)) for window in (0, 1) for n in range(ROWS)])


def evaluated(url: str, fetch: str, budget: int, **more: object) -> tuple[list[int], float]:
    """The requests of two evaluations, and the seconds that both took."""
    asked, sent = source(url, **more), [0]
    assert asked.transport.dispatcher is not None
    limiter = asked.transport.dispatcher.limiter
    settings = MaintenanceSettings(lambda _: make("gain"), BudgetRule.of(budget), fetch=Fetch(fetch))
    query = build(parse(QUERY), sources={f"{E}blog": asked}, settings=settings)
    began = time.perf_counter()
    for result in run(query, {f"{E}s": posts()}, drain=True):
        if result.answers:
            assert len(result.answers) == ROWS or budget < TOPICS
            sent.append(limiter.sent)
    taken = time.perf_counter() - began
    asked.transport.close()
    return [after - before for before, after in pairwise(sent)], taken


def row_by_row(url: str) -> tuple[list[int], float]:
    """What an engine without a cache does: a request for every row of the window."""
    asked = source(url, concurrency=1)
    endpoint = pattern_fetcher(parts(), asked.transport)
    began = time.perf_counter()
    for n in range(ROWS):
        (found,) = endpoint.deliver(Order(0, [], [(NamedNode(f"{E}topic{n % TOPICS}"),)])).expanded
        assert len(found.copies) == 1
    taken = time.perf_counter() - began
    asked.transport.close()
    return [endpoint.requests], taken


def keys_per_second(url: str, batch: int, concurrency: int) -> float:
    """Refreshes of all users."""
    asked = source(url, batch=batch, concurrency=concurrency)
    endpoint = pattern_fetcher(parts(), asked.transport, asked.price)
    keys = [(NamedNode(f"{E}user{n}"),) for n in range(USERS)]

    def refresh() -> None:
        assert all(copy.value for copy in endpoint.deliver(Order(0, keys)).copies)

    taken = seconds(refresh, repeats=3)
    asked.transport.close()
    return USERS / taken


def again(run: Callable[[], object]) -> None:
    """Two hundred times."""
    for _ in range(200):
        run()


def microseconds(url: str) -> dict[str, float]:
    """What one request of one key takes."""
    text = parts().refresh_query([(NamedNode(f"{E}user7"),)])
    pool, ours = urllib3.PoolManager(), SparqlOverHttp(url)
    address, accept = f"{url}?query={quote(text)}", {"Accept": "application/sparql-results+json"}

    def wrapped() -> None:
        wrapper = SPARQLWrapper(url, returnFormat=JSON)
        wrapper.setQuery(text)
        found: Any = wrapper.queryAndConvert()
        assert found["results"]["bindings"]

    runs: dict[str, Callable[[], object]] = {
        "urllib3 alone, answer not parsed": lambda: pool.request("GET", address, headers=accept).data,
        "freshkeeper, SPARQLWrapper's request": lambda: ours.select(GraphQuery(text), 0, Deadline()).rows[0],
        "SPARQLWrapper as it comes": wrapped,
        "of it: SPARQLWrapper makes the request": lambda: ours.call(text),
    }
    found = {name: seconds(partial(again, run), repeats=5) / 200 for name, run in runs.items()}
    pool.clear()
    ours.close()
    return {name: taken * 1e6 for name, taken in found.items()}


def main() -> None:
    """Measure and print."""
    with server() as url:
        kinds = {
            "a request per row, as C-SPARQL sends them": row_by_row(url),
            "no cache, a request per SN (--fetch always)": evaluated(url, "always", 50),
            "view, budget 50": evaluated(url, "view", 50),
            "view, budget 10 after a cold start": evaluated(url, "view", 10),
            "view, budget 50, batches of 50": evaluated(url, "view", 50, batch=50),
        }
        speeds = {(b, c): keys_per_second(url, b, c) for b, c in ((1, 1), (1, 8), (BATCH, 1), (BATCH, 8))}
        single = microseconds(url)
    rows = [[name, *[str(n) for n in (*sent, "")[:2]], f"{taken:.2f} s"] for name, (sent, taken) in kinds.items()]
    show(f"Requests for {ROWS:,} window rows over {TOPICS} keys", ["", "1st window", "2nd window", "time"], rows)
    one = speeds[1, 1]
    rows = [[f"batch {b}, {c} at once", f"{rate:,.0f}", f"{rate / one:.1f}"] for (b, c), rate in speeds.items()]
    show(f"Refreshes of {USERS:,} keys", ["", "keys/s", "times"], rows)
    bare = single["urllib3 alone, answer not parsed"]
    rows = [[name, f"{taken:,.0f} µs", f"{taken / bare:.2f}"] for name, taken in single.items()]
    show("One request of one key", ["", "", "to urllib3"], rows)
    requests = {name: sent for name, (sent, _) in kinds.items()}
    ratios(
        {
            "rows_over_view_requests": requests["a request per row, as C-SPARQL sends them"][0]
            / requests["view, budget 50"][0],
            "batched_over_single_keys": speeds[BATCH, 1] / one,
            "ours_over_urllib3": single["freshkeeper, SPARQLWrapper's request"] / bare,
            "sparqlwrapper_over_urllib3": single["SPARQLWrapper as it comes"] / bare,
        }
    )


if __name__ == "__main__":
    main()
