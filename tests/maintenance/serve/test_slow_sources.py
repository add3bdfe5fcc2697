"""A source that takes its time holds back its own query alone, and what pauses or deletes that one."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from servers import Documents, eventually
from serving import REACH, TOPICS, Client, E, configured, posts, served

from freshkeeper.maintenance.query.service_split import SR_EXISTS

ROWS = [{"topic": "jazz", "user": "ann", "n": "10", SR_EXISTS: "true"}]


class Slow(ThreadingHTTPServer):
    """A SPARQL endpoint that answers when it is let."""

    def __init__(self) -> None:
        self.may, self.asked = threading.Event(), 0
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Slow

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        self.server.may.wait(30)
        bindings = [{name: term(value) for name, value in row.items()} for row in ROWS]
        body = json.dumps({"head": {"vars": [*ROWS[0]]}, "results": {"bindings": bindings}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/sparql-results+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def term(value: str) -> dict[str, str]:
    return {"type": "uri", "value": E + value} if value in ("jazz", "ann") else {"type": "literal", "value": value}


@pytest.fixture
def slow() -> Iterator[Slow]:
    server = Slow()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.may.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def client(tmp_path: Path, slow: Slow) -> Iterator[Client]:
    blog = {"sparql": slow.url, "volatile": f"{E}followers", "method": "post"}
    with served(configured(tmp_path, sources={f"{E}blog": blog})) as client:
        client.register("reach", REACH.replace("STEP PT1S", "STEP PT20S").replace("PT4S", "PT20S"))
        client.register("topics", TOPICS)
        yield client
        slow.may.set()


def test_others_go_on_while_a_query_waits_for_its_source(client: Client, slow: Slow) -> None:
    client.push(posts(500, 20_500))
    assert eventually(lambda: slow.asked == 1)
    for t in (21_500, 22_500, 23_500):
        client.push(posts(t))
        assert eventually(lambda: client.answered("topics") == t - 500)  # noqa: B023  it is called at once
    assert client.answered("reach") is None
    assert client.get("/queries").status_code == 200
    slow.may.set()
    assert eventually(lambda: client.answered("reach") == 20_000)


def test_what_came_meanwhile_is_answered_afterwards(client: Client, slow: Slow) -> None:
    client.push(posts(500, 20_500))
    assert eventually(lambda: slow.asked == 1)
    client.push(posts(40_500, 60_500))
    slow.may.set()
    with client.stream("GET", "/queries/reach/answers?after=0") as response:
        lines = response.iter_lines()
        found = [json.loads(next(lines)) for _ in range(3)]
    assert [(line["t"], len(line["answers"])) for line in found] == [(20_000, 1), (40_000, 1), (60_000, 1)]


def test_who_pauses_it_waits_and_others_do_not(client: Client, slow: Slow) -> None:
    client.push(posts(500, 20_500))
    assert eventually(lambda: slow.asked == 1)
    paused = threading.Thread(target=client.post, args=("/queries/reach/pause",))
    paused.start()
    assert client.register("more", TOPICS).status_code == 201
    assert client.delete("/queries/topics").status_code == 204
    time.sleep(0.05)
    assert paused.is_alive()
    slow.may.set()
    paused.join(10)
    assert client.get("/queries/reach").json()["state"] == "paused"


def test_queries_share_a_budget_and_it_outlives_the_service(tmp_path: Path) -> None:
    config = configured(tmp_path, shared=True, budget=1, period="1s")
    with served(config) as client:
        for name in ("one", "two"):
            client.register(name, REACH if name == "one" else REACH.replace("PT4S", "PT3S"))
        client.push(posts(500, 1500, 2500, 3500))
        assert eventually(lambda: client.answered("one") == client.answered("two") == 3000)
        first = spent(client)
        assert 0 < first <= 3
        client.delete("/queries/two")
        client.push(posts(4500))
        assert eventually(lambda: client.answered("one") == 4000)
        assert client.post("/queries/one/pause").status_code == 204
        assert client.post("/queries/one/resume").status_code == 204
    with served(config) as client:
        client.push(posts(5500, 6500))
        assert eventually(lambda: client.answered("one") == 6000)
        assert spent(client) <= 6


def spent(client: Client) -> float:
    return float(sum(view["ledger"]["spent"] for view in client.get("/status").json()["views"]))


def test_audits_of_documents_that_answer_after_an_evaluation_do_not_stop_it(tmp_path: Path) -> None:
    """Responses to audits fill copies between the evaluation and its answers: those count from the next one on."""
    users = {f"/users/u{n}": {"stats": {"followers": n}} for n in range(40)}
    topics = {f"/topics/t{n}": {"users": [{"id": f"u{n + k}"} for k in range(5)]} for n in range(30)}
    site = Documents({**users, **topics})
    of_user = {f"{E}followers": "stats.followers"}
    of_topic = {f"{E}discussedBy": {"path": "users.id", "iri": f"{E}user/{{id}}"}}
    resources = [
        {"subject": f"{E}user/{{id}}", "url": f"{site.url}/users/{{id}}", "predicates": of_user},
        {"subject": f"{E}topic/{{id}}", "url": f"{site.url}/topics/{{id}}", "predicates": of_topic},
    ]
    blog = {"resources": resources, "volatile": [f"{E}followers"], "retries": 0}
    try:
        with served(configured(tmp_path, sources={f"{E}blog": blog}, audit=0.3, budget=3)) as client:
            client.register("reach", REACH)
            for t in range(40):
                client.push("".join(posts(500 + 1000 * t, topic=f"topic/t{(3 * t + n) % 30}") for n in range(4)))
                assert eventually(lambda t=t: client.answered("reach") == 1000 * t or t == 0)  # type: ignore[misc]
            assert client.get("/queries/reach").json()["state"] == "running"
            assert client.get("/audits").json()["audits"]
    finally:
        site.stop()
