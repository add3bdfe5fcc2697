"""Many threads and many coroutines at once, the clock running, against a server that counts."""

import asyncio
import gc
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest
from servers import HERE, eventually

from freshkeeper import AsyncEnricher, Enricher
from freshkeeper.maintenance.enricher.enrichment import wall_clock


class Counting(ThreadingHTTPServer):
    """Answers /a,b,c with a version for each key, and notes when it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[float] = []
        super().__init__((HERE, 0), _Handler)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{HERE}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: Counting

    def do_GET(self) -> None:
        self.server.asked.append(time.monotonic())
        body = json.dumps({key: len(self.server.asked) for key in self.path[1:].split(",")}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Counting]:
    """A server that is up."""
    found = Counting()
    thread = threading.Thread(target=found.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def within(asked: list[float], began: float, per_step: int, step: float) -> None:
    """At no instant had more been asked than was paid by then."""
    for n, at in enumerate(sorted(asked), 1):
        assert n <= per_step * (int((at - began) / step) + 1), (n, at - began)


@pytest.mark.slow
def test_sixty_four_threads_never_ask_for_more_than_the_budget(server: Counting) -> None:
    def lookup(keys: list[str]) -> dict[str, int]:
        with urllib.request.urlopen(server.url + ",".join(keys), timeout=10) as answer:
            found: dict[str, int] = json.load(answer)
            return found

    enricher = Enricher(lookup, "10/s", step="100ms", batch=3, reserve=0.5)
    began = time.monotonic()
    with enricher, ThreadPoolExecutor(64) as threads:
        until = time.monotonic() + 3

        def work(number: int) -> int:
            for n in count():
                enricher.get(f"k{(number * 7 + n) % 150}")
                if time.monotonic() > until:
                    return n
            return 0

        assert sum(threads.map(work, range(64))) > 1000
    within(server.asked, began, 1, 0.1)
    assert len(server.asked) == enricher.counts.requests > 10
    enricher.cache.ledger.check()


def test_threads_that_ask_for_the_same_key_share_a_request(server: Counting) -> None:
    here = threading.Barrier(16)

    def lookup(keys: list[str]) -> dict[str, str]:
        time.sleep(0.05)
        server.asked.append(0.0)
        return dict.fromkeys(keys, "row")

    with Enricher(lookup, "1000/s") as enricher, ThreadPoolExecutor(16) as threads:

        def work(_: int) -> object:
            here.wait()
            return enricher.get("k").value

        assert set(threads.map(work, range(16))) == {"row"}
    assert len(server.asked) <= 2  # and one by a round that came meanwhile


@pytest.mark.slow
def test_coroutines_never_ask_for_more_than_the_budget(server: Counting) -> None:
    async def lookup(keys: list[str]) -> dict[str, int]:
        reader, writer = await asyncio.open_connection(HERE, server.server_port)
        writer.write(f"GET /{','.join(keys)} HTTP/1.0\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        found: dict[str, int] = json.loads(answer.split(b"\r\n\r\n")[1])
        return found

    async def main() -> AsyncEnricher:
        async with AsyncEnricher(lookup, "20/s", step="100ms", batch=5) as enricher:
            until = time.monotonic() + 3

            async def work(number: int) -> int:
                for n in count():
                    await enricher.get(f"k{(number * 7 + n) % 150}")
                    await asyncio.sleep(0.001)
                    if time.monotonic() > until:
                        return n
                return 0

            assert sum(await asyncio.gather(*map(work, range(200)))) > 200
            enricher.cache.ledger.check()
            return enricher

    began = time.monotonic()
    enricher = asyncio.run(main())
    within(server.asked, began, 2, 0.1)
    assert len(server.asked) == enricher.counts.requests > 20


def test_keys_missed_in_one_turn_of_the_loop_go_in_one_request() -> None:
    asked = []

    async def lookup(keys: list[str]) -> dict[str, int]:
        asked.append(keys)
        return dict.fromkeys(keys, 1)

    async def main() -> list[int]:
        async with AsyncEnricher(lookup, "5/s", batch=10, background=False) as enricher:
            await enricher.tick(1000)
            return [row.value for row in await enricher.get_many("abcdefgh")]

    assert asyncio.run(main()) == [1] * 8
    assert len(asked) <= 2


def test_a_lookup_that_blocks_runs_in_threads_beside_the_loop() -> None:
    def lookup(keys: list[str]) -> dict[str, int]:
        assert threading.current_thread() is not threading.main_thread()
        return dict.fromkeys(keys, 1)

    async def main() -> object:
        async with AsyncEnricher(lookup, "5/s") as enricher:
            return (await enricher.get("a")).value

    assert asyncio.run(main()) == 1


def test_who_waits_has_the_row_of_a_round_when_the_reserve_is_spent() -> None:
    with Enricher(lambda keys: dict.fromkeys(keys, 1), "20/s", step="10ms", missing="wait") as enricher:
        assert [enricher.get(key).value for key in "abcdef"] == [1] * 6


def test_who_waits_too_long_goes_without() -> None:
    gone = threading.Event()

    def late(keys: list[str]) -> dict[str, int]:
        gone.wait(20)
        return {}

    with Enricher(late, "5/s", timeout="50ms") as enricher:
        assert enricher.get("a").error == "no answer within 50ms"
        gone.set()


def test_a_slow_source_holds_no_round_up_and_its_rows_come_late() -> None:
    slow, told = threading.Event(), []

    def lookup(keys: list[str]) -> dict[str, int]:
        told.append(keys)
        if len(told) > 1:
            slow.wait(20)
        return dict.fromkeys(keys, len(told))

    with Enricher(lookup, "50/s", step="20ms", missing="without") as enricher:
        enricher.get("a")
        assert eventually(lambda: enricher.get("a").value == 1)
        assert eventually(lambda: len(told) == 2)
        rounds = enricher.counts.rounds
        assert eventually(lambda: enricher.counts.rounds > rounds + 5)
        assert len(told) == 2  # nothing is asked for twice
        slow.set()
        assert eventually(lambda: enricher.get("a").value >= 2)


def test_a_round_that_fails_is_told_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Enricher(lambda keys: dict.fromkeys(keys, 1), "50/s", step="20ms") as enricher:
        monkeypatch.setattr(enricher.cache.manager.rounds, "build", None)
        assert eventually(lambda: "a round of maintenance failed" in caplog.text)
        monkeypatch.undo()
        rounds = enricher.counts.rounds
        assert eventually(lambda: enricher.counts.rounds > rounds)


def test_an_enricher_that_nobody_has_any_more_ends_its_thread() -> None:
    enricher = Enricher(lambda keys: dict.fromkeys(keys, 1), "50/s", step="20ms")
    enricher.get("a")
    thread = enricher._thread
    del enricher
    assert thread is not None
    assert eventually(lambda: gc.collect() >= 0 and not thread.is_alive())


def test_metrics_tell_hits_misses_and_rounds() -> None:
    with Enricher(lambda keys: dict.fromkeys(keys, 1), "50/s", step="20ms", metrics=":0", name="prices") as enricher:
        enricher.get("a")
        enricher.get("a")
        assert eventually(lambda: enricher.counts.rounds > 2)
        assert enricher._metrics is not None
        metrics = enricher._metrics.registry
        hits = {"source": "prices", "outcome": "hit"}
        assert eventually(lambda: metrics.get_sample_value("freshkeeper_lookups", hits) == 1)
        evaluations = metrics.get_sample_value("freshkeeper_evaluations_total", {"source": "prices"})
        assert evaluations is not None
        assert evaluations > 1


def test_the_clock_never_goes_back() -> None:
    clock = wall_clock()
    seen = [clock() for _ in range(1000)]
    assert seen == sorted(seen)
    assert abs(seen[0] / 1000 - time.time()) < 10
