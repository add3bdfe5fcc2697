"""Threads, coroutines and forks that read at once, the clock running, against a server that counts."""

import ast
import asyncio
import json
import os
import pickle
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

import pytest
from servers import HERE, eventually

from freshkeeper import AsyncEnricher, Enricher, cached


class Counting(ThreadingHTTPServer):
    """Answers /a,b,c with a version for each key, and notes when it was asked."""

    daemon_threads = True
    request_queue_size = 200

    def __init__(self) -> None:
        self.asked: list[float] = []
        super().__init__((HERE, 0), _Handler)

    def lookup(self, keys: list[str]) -> dict[str, int]:
        with urllib.request.urlopen(f"http://{HERE}:{self.server_port}/{','.join(keys)}", timeout=10) as answer:
            found: dict[str, int] = json.load(answer)
            return found


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
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[Counting]:
    found = Counting()
    thread = threading.Thread(target=found.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def within_budget(asked: list[float], began: float, per_second: float, bank: float) -> None:
    """At no instant had more requests arrived than the bucket held in the beginning and was paid since."""
    for n, at in enumerate(sorted(asked), 1):
        assert n <= bank + per_second * (at - began) + 1e-6, (n, at - began)


@pytest.mark.slow
@pytest.mark.parametrize("on_stale", ["wait", "serve"])
def test_sixty_four_threads_never_exceed_the_budget(server: Counting, on_stale: Any) -> None:
    began = time.monotonic()
    with (
        Enricher(server.lookup, "20/s", bank=0.5, batch=3, on_stale=on_stale, max_wait=1) as enricher,
        ThreadPoolExecutor(64) as threads,
    ):
        until = began + 3

        def work(number: int) -> int:
            for n in count():
                enricher.get(f"k{(number * 7 + n) % 150}")
                if time.monotonic() > until:
                    return n
            return 0

        assert sum(threads.map(work, range(64))) > 500
    within_budget(server.asked, began, 20, 10)
    assert eventually(lambda: len(server.asked) == enricher.stats().requests)  # the last one may be on its way
    assert len(server.asked) > 40


def test_a_herd_that_reads_one_key_makes_one_request() -> None:
    here, asked = threading.Barrier(100), []

    def lookup(keys: list[str]) -> dict[str, str]:
        asked.append(keys)
        time.sleep(0.2)
        return dict.fromkeys(keys, "row")

    with Enricher(lookup, "1000/s") as enricher, ThreadPoolExecutor(100) as threads:

        def work(_: int) -> object:
            here.wait()
            return enricher.get("k").value

        assert set(threads.map(work, range(100))) == {"row"}
    assert asked == [["k"]]


def test_slots_for_requests_come_back_however_threads_take_turns() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with Enricher(lambda keys: dict.fromkeys(keys, 1), "1000000/s") as enricher, ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda n: enricher.get(n), range(3000)))
            assert eventually(lambda: enricher._sender.running == 0)
    finally:
        sys.setswitchinterval(interval)


def test_ctrl_c_in_an_inline_lookup_leaves_nothing_under_way() -> None:
    errors = iter([KeyboardInterrupt()])

    def lookup(keys: list[str]) -> dict[str, int]:
        for error in errors:
            raise error
        return dict.fromkeys(keys, 1)

    clock = [0.0]
    enricher = Enricher(lookup, "100/s", background=False, clock=lambda: clock[0])
    with pytest.raises(KeyboardInterrupt):
        enricher.get("a")
    clock[0] += 10_000
    assert enricher.get("a").value == 1
    assert enricher.stats().in_flight == 0


def test_a_lookup_that_hangs_holds_up_its_own_readers_only() -> None:
    go = threading.Event()

    def lookup(keys: list[str]) -> dict[str, str]:
        if "slow" in keys:
            go.wait(60)
        return dict.fromkeys(keys, "row")

    with Enricher(lookup, "100/s", max_wait=0.3) as enricher:
        assert enricher.get("slow").error == "no answer within 0.3 s: the request is under way"
        began = time.monotonic()
        assert enricher.get("fast").value == "row"
        assert time.monotonic() - began < 5
        go.set()
        assert eventually(lambda: "slow" in enricher)


def test_keys_wanted_within_milliseconds_share_a_request() -> None:
    asked: list[list[int]] = []

    def lookup(keys: list[int]) -> dict[int, int]:
        asked.append(keys)
        return dict.fromkeys(keys, 1)

    with Enricher(lookup, "1000/s", batch=50) as enricher, ThreadPoolExecutor(20) as threads:
        list(threads.map(enricher.get, range(20)))
    assert len(asked) < 15


def test_a_process_ends_while_a_lookup_is_under_way() -> None:
    import subprocess

    program = (
        "import time\nfrom freshkeeper import Enricher\n"
        "e = Enricher(lambda keys: time.sleep(60), '5/s', max_wait=0.1)\nprint(e.get('a').error)\n"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert "no answer within 0.1 s" in done.stdout
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("held", [False, True])
def test_a_forked_child_reads_and_fetches(held: bool) -> None:
    """Also while a thread of the parent holds the lock, as under a server that forks its workers."""
    enricher: Enricher[str, int] = Enricher(lambda keys: dict.fromkeys(keys, os.getpid()), "1000/s", max_wait=5)
    assert enricher.get("a").value == os.getpid()
    release, locked = threading.Event(), threading.Event()

    def hold() -> None:
        with enricher._engine.queue.lock:
            locked.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    if held:
        thread.start()
        locked.wait(30)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            found = enricher.get("a").value, enricher.get("b").value, enricher.get("a", max_age=0).value, os.getpid()
            os.write(writer, pickle.dumps(found))
        finally:
            os._exit(0)
    release.set()
    os.waitpid(child, 0)
    old, new, refreshed, pid = pickle.loads(os.read(reader, 4096))
    os.close(reader)
    os.close(writer)
    if held:
        thread.join()
    assert (old, new, refreshed) == (os.getpid(), pid, pid)
    enricher.close()


@pytest.mark.slow
def test_coroutines_never_exceed_the_budget(server: Counting) -> None:
    async def lookup(keys: list[str]) -> dict[str, int]:
        reader, writer = await asyncio.open_connection(HERE, server.server_port)
        writer.write(f"GET /{','.join(keys)} HTTP/1.0\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        found: dict[str, int] = json.loads(answer.split(b"\r\n\r\n")[1])
        return found

    async def main() -> int:
        async with AsyncEnricher(lookup, "20/s", bank=0.5, batch=3, max_wait=1) as enricher:
            until = time.monotonic() + 3

            async def work(number: int) -> int:
                for n in count():
                    await enricher.get(f"k{(number * 7 + n) % 150}")
                    await asyncio.sleep(0.001)
                    if time.monotonic() > until:
                        return n
                return 0

            reads = await asyncio.gather(*[work(number) for number in range(64)])
            return sum(reads)

    began = time.monotonic()
    assert asyncio.run(main()) > 300
    within_budget(server.asked, began, 20, 10)


def test_a_blocking_lookup_never_blocks_the_loop() -> None:
    def lookup(keys: list[int]) -> dict[int, int]:
        time.sleep(0.3)
        return dict.fromkeys(keys, 1)

    async def main() -> float:
        async with AsyncEnricher(lookup, "50/s") as enricher:
            began, late = time.monotonic(), 0.0
            reading = asyncio.gather(*[enricher.get(n) for n in range(8)])
            while not reading.done():
                before = time.monotonic()
                await asyncio.sleep(0.01)
                late = max(late, time.monotonic() - before)
            assert [row.value for row in await reading] == [1] * 8
            assert time.monotonic() - began >= 0.3
            return late

    assert asyncio.run(main()) < 0.25


def test_a_reader_that_is_cancelled_leaves_the_others_waiting() -> None:
    async def lookup(keys: list[str]) -> dict[str, int]:
        await asyncio.sleep(0.1)
        return dict.fromkeys(keys, 1)

    async def main() -> None:
        async with AsyncEnricher(lookup, "50/s") as enricher:
            first, second = (asyncio.create_task(enricher.get("a")) for _ in range(2))
            await asyncio.sleep(0.02)
            first.cancel()
            assert (await second).value == 1
            rows = [row async for _, row in enricher.join(["a", "b"], key=str)]
            assert [row.value for row in rows] == [1, 1]
            assert (await enricher.get_many("ab"))[1].hit

    asyncio.run(main())


def test_an_enricher_moves_to_another_event_loop() -> None:
    async def lookup(keys: list[str]) -> dict[str, int]:
        return dict.fromkeys(keys, 1)

    enricher: AsyncEnricher[str, int] = AsyncEnricher(lookup, "50/s")
    for key in ("a", "b"):
        assert asyncio.run(enricher.get(key)).value == 1


def test_functions_of_one_key_are_cached() -> None:
    calls = []

    @cached(budget="50/s")
    def price(product: str) -> int:
        calls.append(product)
        return len(product)

    @cached(budget="50/s", max_wait=1)
    async def weight(product: str) -> int:
        return 2 * len(product)

    assert [price("pen"), price("pen")] == [3, 3]
    assert calls == ["pen"]
    assert price.__name__ == "price"
    assert asyncio.run(weight("pen")) == 6


def test_enrichers_share_a_port_for_metrics() -> None:
    with (
        Enricher(dict.fromkeys, "5/s", name="one", metrics="127.0.0.1:0") as one,
        Enricher(dict.fromkeys, "5/s", name='t"wo', metrics=f"127.0.0.1:{one.metrics_port}") as two,
    ):
        one.get("a")
        one.get("a")
        two.get("b")
        assert one.metrics_port == two.metrics_port
        with urllib.request.urlopen(f"http://127.0.0.1:{one.metrics_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        assert 'freshkeeper_enricher_hits_total{name="one"} 1' in text
        assert 'freshkeeper_enricher_misses_total{name="t\\"wo"} 1' in text


def test_an_enricher_needs_the_standard_library_alone() -> None:
    import subprocess

    program = (
        "import sys\nfrom freshkeeper import Enricher\n"
        "with Enricher(lambda keys: dict.fromkeys(keys, 1), '5/s') as enricher:\n"
        "    assert enricher.get('a').value == 1\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    foreign = set(ast.literal_eval(done.stdout)) - {
        "__main__",
        "freshkeeper",
        "_distutils_hack",
        "__editable___freshkeeper_finder",
    }
    assert not foreign
