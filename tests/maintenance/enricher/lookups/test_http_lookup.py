"""HttpLookup against a real server: conditional requests, limits, connections, and the same without threads."""

import asyncio
import gzip
import json
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from servers import HERE, eventually

from freshkeeper import AsyncEnricher, Enricher, HttpLookup

Fetch = Callable[[HttpLookup, list[Any]], Any]


class Shop(ThreadingHTTPServer):
    """Prices by key at /KEY; what it does beside that is set by tests."""

    daemon_threads = True
    request_queue_size = 200

    def __init__(self) -> None:
        super().__init__((HERE, 0), Answer)
        self.prices: dict[str, Any] = {f"p{n}": n for n in range(1000)}
        self.etags = True
        self.permitted = 10**9
        """requests a second, within any second"""
        self.retry_after: str | None = "2"
        self.latency = 0.0
        self.answered: deque[float] = deque()
        self.asked: list[tuple[str, int]] = []
        """paths and statuses"""
        self.connections = 0
        self.lock = threading.Lock()
        self.lookups: list[HttpLookup] = []

    def lookup(self, **more: Any) -> HttpLookup:
        self.lookups.append(HttpLookup(f"http://{HERE}:{self.server_port}/{{key}}", **more))
        return self.lookups[-1]

    def permits(self) -> bool:
        with self.lock:
            now = time.monotonic()
            while self.answered and self.answered[0] <= now - 1:
                self.answered.popleft()
            if len(self.answered) >= self.permitted:
                return False
            self.answered.append(now)
            return True


class Answer(BaseHTTPRequestHandler):
    server: Shop
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_GET(self) -> None:
        time.sleep(self.server.latency)
        key = self.path[1:]
        body, etag = json.dumps(self.server.prices.get(key)).encode(), f'"{self.server.prices.get(key)}"'
        if not self.server.permits():
            self.reply(key, 429, b"", *([("Retry-After", self.server.retry_after)] if self.server.retry_after else []))
        elif key not in self.server.prices:
            self.reply(key, 404, b"none")
        elif key == "gzip":
            self.reply(key, 200, gzip.compress(body), ("Content-Encoding", "gzip"))
        elif key == "chunked":
            middle = len(body) // 2
            parts = (f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in (body[:middle], body[middle:], b""))
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"".join(parts))
            self.server.asked.append((key, 200))
        elif self.server.etags and self.headers.get("If-None-Match") == etag:
            self.reply(key, 304, b"", ("ETag", etag))
        else:
            self.reply(key, 200, body, *([("ETag", etag)] if self.server.etags else []))

    def reply(self, key: str, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.server.asked.append((key, status))
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def shop() -> Iterator[Shop]:
    server = Shop()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    for lookup in server.lookups:
        lookup.close()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["in a thread", "on a loop"])
def fetch(request: pytest.FixtureRequest) -> Iterator[Fetch]:
    """Calls a lookup as `Enricher` or as `AsyncEnricher` does."""
    if request.param == "in a thread":
        yield lambda lookup, keys: lookup(keys)
        return
    used: set[HttpLookup] = set()
    with asyncio.Runner() as runner:

        def awaited(lookup: HttpLookup, keys: list[Any]) -> Any:
            used.add(lookup)
            return runner.run(lookup.fetch_async(keys))

        yield awaited
        for lookup in used:
            runner.run(lookup.aclose())


def values(rows: Any) -> dict[Any, Any]:
    return {key: row.value for key, row in rows.items()}


def test_documents_of_every_framing_are_read(shop: Shop, fetch: Fetch) -> None:
    shop.prices |= {"gzip": {"text": "x" * 100_000}, "chunked": [1] * 10_000}
    lookup = shop.lookup()
    for key in ("p1", "gzip", "chunked", "p1"):
        assert values(fetch(lookup, [key])) == {key: shop.prices[key]}
    assert fetch(lookup, ["unknown"]) == {}
    assert values(fetch(lookup, ["p2"])) == {"p2": 2}
    assert shop.connections == 1


def test_a_document_that_has_not_changed_is_not_sent_again(shop: Shop, fetch: Fetch) -> None:
    lookup = shop.lookup(unchanged_cost=0.1)
    assert values(fetch(lookup, ["p1"])) == {"p1": 1}
    again = fetch(lookup, ["p1"])
    assert (values(again), again.cost) == ({"p1": 1}, 0.1)
    shop.prices["p1"] = 5
    assert values(fetch(lookup, ["p1"])) == {"p1": 5}
    assert [status for _, status in shop.asked] == [200, 304, 200]


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", "connection: it broke"),
        (b"not http at all\r\n\r\n", "malformed: the answer is no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", "malformed: the answer ends"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{{{", "Expecting property name"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n", "encoded as 'br'"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 40000000\r\n\r\n" + b" " * 33_000_000, "too large"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "server: 503 Busy"),
        (b"HTTP/1.1 301 Moved\r\nLocation: http://b\r\nContent-Length: 0\r\n\r\n", "is at http://b now"),
        (None, "timeout: no answer in time"),
    ],
)  # fmt: skip
def test_whatever_a_server_does_is_an_error_that_names_it(fetch: Fetch, sent: bytes | None, error: str) -> None:
    with socket.create_server((HERE, 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            connection.recv(10_000)
            try:
                if sent is None:
                    time.sleep(0.5)
                else:
                    connection.sendall(sent)
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        lookup = HttpLookup(f"http://{HERE}:{listening.getsockname()[1]}/{{key}}", timeout=0.2 if sent is None else 20)
        with pytest.raises(Exception, match=error):
            fetch(lookup, ["a"])
        lookup.close()
        thread.join()


def test_nobody_there_is_said(fetch: Fetch) -> None:
    with pytest.raises(Exception, match=f"connection: no way to {HERE}"):
        fetch(HttpLookup(f"http://{HERE}:1/{{key}}"), ["a"])


def test_what_has_not_changed_costs_what_the_user_says(shop: Shop) -> None:
    with Enricher(shop.lookup(unchanged_cost=0.1), "50/s") as enricher:
        assert enricher.get("p1").value == 1
        for _ in range(10):
            enricher.invalidate("p1")
            assert enricher.get("p1").value == 1
        stats = enricher.stats()
    assert (stats.requests, stats.unchanged, stats.changed) == (11, 10, 0)
    assert stats.spent == pytest.approx(2.0)


def test_an_error_names_the_refusal_and_not_the_budget(shop: Shop) -> None:
    shop.permitted = 1
    with Enricher(shop.lookup(), "50/s") as enricher:
        assert enricher.get("p1").value == 1
        enricher.invalidate("p1")
        old = enricher.get("p1")
        assert old.value == 1
        assert "429 Too Many Requests" in str(old.error)
        row = enricher.get("p2", max_wait=0.2)
        assert "429 Too Many Requests; paused for 2 s" in str(row.error)
        assert "budget" not in str(row.error)
        assert "429" in str(enricher.stats().paused)


def test_a_miss_that_was_refused_is_fetched_after_the_pause(shop: Shop) -> None:
    shop.permitted, shop.retry_after = 2, "1"
    with Enricher(shop.lookup(), "50/s") as enricher:
        assert [row.value for row in enricher.get_many(["p1", "p2", "p3"])] == [1, 2, 3]
        assert enricher.stats().failed == 0


@pytest.mark.slow
def test_a_source_that_refuses_beyond_its_limit_gives_nearly_all_that_it_permits(shop: Shop) -> None:
    """10 requests a second are permitted, more are answered with 429 and Retry-After: 2."""
    shop.permitted = 10
    seconds, found = 25, []
    with Enricher(shop.lookup(), "10/s", max_wait=1) as enricher, ThreadPoolExecutor(8) as readers:
        until = time.monotonic() + seconds

        def read(first: int) -> None:
            for n in range(first, 1000, 8):
                if time.monotonic() > until:
                    return
                if enricher.get(f"p{n}").error is None:
                    found.append(n)

        list(readers.map(read, range(8)))
    assert len(found) >= 0.8 * 10 * seconds, (len(found), [status for _, status in shop.asked].count(429))


def test_connections_are_reused(shop: Shop) -> None:
    with Enricher(shop.lookup(), "500/s", parallel=4) as enricher:
        for n in range(100):
            assert enricher.get(f"p{n}").value == n
    assert shop.connections <= 4


def test_a_loop_awaits_many_documents_at_once_without_a_thread(shop: Shop) -> None:
    shop.latency = 0.1
    before = set(threading.enumerate())

    async def main() -> tuple[float, set[threading.Thread]]:
        async with AsyncEnricher(shop.lookup(), "500/s", parallel=50) as enricher:
            began = time.monotonic()
            rows = await enricher.get_many([f"p{n}" for n in range(50)])
            assert [row.value for row in rows] == list(range(50))
            took = time.monotonic() - began
            handlers = {thread for thread in threading.enumerate() if "process_request" in thread.name}
            return took, set(threading.enumerate()) - handlers - before

    took, started = asyncio.run(main())
    assert started == set()
    assert took < 2


def test_a_forked_child_opens_connections_of_its_own(shop: Shop) -> None:
    lookup = shop.lookup()
    lookup(["p1"])
    child = os.fork()
    if child == 0:
        os._exit(0 if values(lookup(["p2"])) == {"p2": 2} else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert values(lookup(["p3"])) == {"p3": 3}
    assert eventually(lambda: shop.connections == 2)
