"""Kill -9 again and again while clients push, register and delete: what was acknowledged is there, and counts once."""

import contextlib
import json
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import service_lives
from forks import Forks
from servers import Oxigraph, Proxy, eventually
from serving import POSTS, REACH, TOPICS, Client, E

KILLS, SECONDS = int(os.environ.get("CHAOS_KILLS", "10")), float(os.environ.get("CHAOS_SECONDS", "4"))
"""So many kills, spread over so long."""
BUDGET, STEP, NAMES = 3, 400, 100
QUIET = 0.5
T = TypeVar("T")
OFTEN = 7
"""After so many pushes a query comes, goes, or is paused."""
GONE = (httpx.TransportError, ConnectionError)


class Lives:
    """One service after the other, on the same port and the same state."""

    def __init__(self, config: dict[str, Any]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.config = config | {"listen": f"127.0.0.1:{self.port}"}
        self.forks = Forks(service_lives)
        self.pid = 0

    def wait(self) -> None:
        """Until the service has ended."""
        self.forks.wait(self.pid)
        self.pid = 0

    def begin(self) -> None:
        self.pid = self.forks.ask({"config": self.config})

    def end(self) -> None:
        """Also where a test has failed, and its service is still there."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.forks.close()

    def client(self) -> Client:
        return Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[tuple[Lives, Proxy]]:
    server = Oxigraph(
        f"@prefix : <{E}> . " + "".join(f":t{n} :discussedBy :u{n} . :u{n} :followers {n} . " for n in range(9))
    )
    proxy = Proxy(server.port)
    blog = {"sparql": proxy.url, "volatile": f"{E}followers"}
    made = Lives(
        {
            "streams": [POSTS],
            "sources": {f"{E}blog": blog},
            "state": str(tmp_path / "state"),
            "budget": BUDGET,
            "shared": True,
        }
    )
    try:
        yield made, proxy
    finally:
        made.end()
        proxy.stop()
        server.stop()


def again_and_again(what: Any) -> Any:
    """Until it was acknowledged, one way or the other."""
    while True:
        with contextlib.suppress(*GONE):
            response = what()
            if response.status_code not in (429, 503):
                return response
        time.sleep(0.02)


def at_rest(ask: Callable[[], T]) -> T:
    """What it says when it has said the same for a while, as nothing is on its way any more."""
    said, since = ask(), time.monotonic()
    while time.monotonic() < since + QUIET:
        time.sleep(QUIET / 10)
        if (now := ask()) != said:
            said, since = now, time.monotonic()
    return said


class Producer(threading.Thread):
    """Pushes numbered batches, each until it is acknowledged, and has queries come and go."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client, self.stopping, self.pushed = client, threading.Event(), 0
        self.queries: dict[str, str] = {}
        """what each is: running or paused"""
        self.done = Counter[str]()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failed = error

    def work(self) -> None:
        rng = random.Random(1)
        while not self.stopping.is_set():
            text = element(self.pushed)
            sent = again_and_again(lambda: self.client.push(text, **{"Idempotency-Key": f"me/{self.pushed}"}))  # noqa: B023
            assert sent.status_code == 202, sent.text
            self.pushed += 1
            if self.pushed % OFTEN == 0:
                self.change(rng, f"q{rng.randrange(NAMES)}")

    def change(self, rng: random.Random, name: str) -> None:
        """Something happens to a query."""
        if name not in self.queries:
            text = rng.choice([TOPICS, REACH, REACH.replace("PT4S", "PT2S")])
            assert again_and_again(lambda: self.client.register(name, text)).status_code in (201, 409)
            self.queries[name], what = "running", "register"
        elif (what := rng.choice(["pause", "resume", "delete"])) == "delete":
            assert again_and_again(lambda: self.client.delete(f"/queries/{name}")).status_code in (204, 404)
            del self.queries[name]
        else:
            assert again_and_again(lambda: self.client.post(f"/queries/{name}/{what}")).status_code == 204
            self.queries[name] = "paused" if what == "pause" else "running"
        self.done[what] += 1


def element(number: int) -> str:
    at = number * STEP
    return f"{at}\t<{E}p{number}> <{E}topic> <{E}t{number % 9}> .\n"


@pytest.mark.slow
def test_what_was_acknowledged_is_there_and_counts_once(lives: tuple[Lives, Proxy], tmp_path: Path) -> None:
    made, proxy = lives
    rng = random.Random(2)
    made.begin()
    with made.client() as client:
        assert again_and_again(lambda: client.register("topics", TOPICS)).status_code in (201, 409)
        assert again_and_again(lambda: client.register("reach", REACH)).status_code in (201, 409)
        producer = Producer(client)
        producer.start()
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.05, 2 * SECONDS / KILLS))
            os.kill(made.pid, signal.SIGKILL)
            made.wait()
            made.begin()
        before = producer.pushed
        assert eventually(lambda: producer.pushed > before + 50, within=60)
        producer.stopping.set()
        producer.join()
        assert producer.failed is None
        last = (producer.pushed - 1) * STEP
        assert eventually(lambda: (client.answered("topics") or 0) >= (last - 1) // 1000 * 1000, within=60)
        there = {one["name"]: one["state"] for one in client.get("/queries").json()["queries"]}
        assert there == producer.queries | {"topics": "running", "reach": "running"}
        counted, shared = proxy.count, client.get("/status").json()["shared_budget"]
        assert counted <= shared["spent"] + shared["reserved"], "a request is on its way that nobody has paid"
        counted, shared = at_rest(lambda: (proxy.count, client.get("/status").json()["shared_budget"]))
    os.kill(made.pid, signal.SIGTERM)
    made.wait()
    for name, width in (("topics", 2000), ("reach", 4000)):
        lines = [
            json.loads(line) for line in (tmp_path / "state" / "answers" / f"{name}.ndjson").read_text().splitlines()
        ]
        instants = [line["t"] for line in lines]
        assert instants == sorted(set(instants))
        first = instants[0]
        assert instants == list(range(first, instants[-1] + 1, 1000))
        for line in lines:
            here = [n for n in range(producer.pushed) if line["t"] - width < n * STEP <= line["t"]]
            found = Counter(answer["bindings"]["topic"]["value"] for answer in line["answers"])
            expected = Counter(f"{E}t{n % 9}" for n in here)
            assert found == expected if name == "topics" else not found - expected
    assert shared["spent"] <= shared["paid"]
    assert 0 < counted <= shared["spent"] <= counted + BUDGET * KILLS
    print(
        f"{KILLS} kills, {producer.pushed} elements, {dict(producer.done)}, {len(there)} queries at the end, "
        f"{counted} requests counted outside, {shared['spent']:g} in the ledger"
    )


@pytest.mark.slow
def test_requests_under_way_are_reserved_and_after_a_kill_spent(lives: tuple[Lives, Proxy]) -> None:
    """What was counted outside is spent or reserved at any time; a killed evaluation spent all it might have."""
    made, proxy = lives
    proxy.fault = "stall"
    made.begin()
    with made.client() as client:
        assert again_and_again(lambda: client.register("reach", REACH)).status_code == 201
        for number in range(6):
            assert again_and_again(lambda: client.push(element(number))).status_code == 202  # noqa: B023
        assert eventually(lambda: proxy.count > 0)
        counted, money = proxy.count, _money(client)
        assert money["spent"] == 0
        assert 0 < counted <= money["reserved"] <= BUDGET
        os.kill(made.pid, signal.SIGKILL)
        made.wait()
        made.begin()
        again_and_again(lambda: client.get("/healthz"))
        counted, money = proxy.count, _money(client)
        assert money["spent"] >= BUDGET
        assert counted <= sum(money.values())
    os.kill(made.pid, signal.SIGTERM)
    made.wait()


def _money(client: Client) -> dict[str, float]:
    shared = client.get("/status").raise_for_status().json()["shared_budget"]
    return {name: shared[name] for name in ("spent", "reserved")}
