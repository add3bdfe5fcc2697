"""A service as its clients see it: a real server, real connections."""

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from servers import eventually
from serving import POSTS, REACH, TOPICS, Client, E, configured, posts, served

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.server import serve
from freshkeeper.maintenance.serve.warm_up import warm_up

PLAIN, JSON = {"Content-Type": "text/plain"}, {"Content-Type": "application/json"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with served(configured(tmp_path)) as client:
        yield client


def lines(client: Client, name: str, count: int, after: int = -1) -> list[dict[str, Any]]:
    """The first lines after an instant."""
    with client.stream("GET", f"/queries/{name}/answers", params={"after": after}) as response:
        found = (json.loads(line) for line in response.iter_lines() if line)
        return [next(found) for _ in range(count)]


def test_a_query_is_registered_elements_are_pushed_and_answers_come(client: Client) -> None:
    assert client.register("reach", REACH).status_code == 201
    assert client.push(posts(500, 1500, 2500)).json() == {"elements": 3}
    (first, second) = lines(client, "reach", 2)
    assert (first["t"], second["t"]) == (1000, 2000)
    (answer,) = first["answers"]
    assert answer["bindings"]["n"]["value"] == "10"
    assert answer["fresh"] == 1.0
    assert eventually(lambda: client.answered("reach") == 2000)


def test_a_query_sees_what_comes_after_it_was_registered(client: Client) -> None:
    client.register("early", TOPICS)
    client.push(posts(500, 1500))
    client.register("late", TOPICS)
    client.push(posts(2500, 3500))
    early, late = lines(client, "early", 3), lines(client, "late", 2)
    assert [line["t"] for line in early] == [1000, 2000, 3000]
    assert [line["t"] for line in late] == [2000, 3000]
    assert [len(line["answers"]) for line in early] == [1, 2, 2]
    assert [len(line["answers"]) for line in late] == [0, 1]


def test_who_is_ahead_of_the_answers_gets_none_that_it_says_it_has(client: Client) -> None:
    client.register("topics", TOPICS)
    with client.stream("GET", "/queries/topics/answers?after=2000") as response:
        assert eventually(lambda: client.get("/streams").json()["listeners"] == 1)
        client.push(posts(500, 1500, 2500, 3500))
        assert json.loads(next(response.iter_lines()))["t"] == 3000


def test_events_have_the_instant_as_their_id_and_go_on_after_it(client: Client) -> None:
    client.register("topics", TOPICS)
    client.push(posts(500, 1500, 2500, 3500))
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "1000"}
    with client.stream("GET", "/queries/topics/answers", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found = response.iter_lines()
        events = [next(found) for _ in range(7)]
    assert events[0] == "retry: 1000"
    assert [line for line in events if line.startswith("id: ")] == ["id: 2000", "id: 3000"]
    assert json.loads(events[3].removeprefix("data: "))["t"] == 2000


def test_what_listens_is_told_of_new_answers(client: Client) -> None:
    client.register("topics", TOPICS)
    with client.stream("GET", "/queries/topics/answers") as response:
        eventually(lambda: client.get("/streams").json()["listeners"] == 1)
        client.push(posts(500, 1500))
        assert json.loads(next(line for line in response.iter_lines() if line))["t"] == 1000


def test_a_paused_query_sees_nothing_and_goes_on_with_empty_windows(client: Client) -> None:
    client.register("topics", TOPICS)
    client.push(posts(500, 1500))
    assert client.post("/queries/topics/pause").status_code == 204
    client.push(posts(2500, 3500))
    assert client.get("/queries/topics").json()["state"] == "paused"
    assert client.post("/queries/topics/resume").status_code == 204
    client.push(posts(4500, 5500))
    found = lines(client, "topics", 3)
    assert [(line["t"], len(line["answers"])) for line in found] == [(1000, 1), (4000, 0), (5000, 1)]


def test_a_deleted_query_is_no_more(client: Client) -> None:
    client.register("topics", TOPICS)
    client.push(posts(500, 1500))
    assert client.delete("/queries/topics").status_code == 204
    assert client.get("/queries/topics").status_code == 404
    client.register("topics", TOPICS)
    client.push(posts(2500, 3500))
    assert [line["t"] for line in lines(client, "topics", 2)] == [2000, 3000]


def test_what_a_producer_sends_again_counts_once(client: Client) -> None:
    client.register("topics", TOPICS)
    key = {"Idempotency-Key": "loader/1"}
    assert client.push(posts(500), **key).json() == {"elements": 1}
    assert client.push(posts(500), **key).json() == {"elements": 0}
    client.push(posts(1500))
    assert len(lines(client, "topics", 1)[0]["answers"]) == 1


def test_a_service_that_begins_again_goes_on(tmp_path: Path) -> None:
    config = configured(tmp_path)
    with served(config) as client:
        client.register("reach", REACH)
        client.register("topics", TOPICS)
        client.push(posts(500, 1500, 2500))
        assert eventually(lambda: client.answered("reach") == 2000)
    with served(config) as client:
        assert {one["name"] for one in client.get("/queries").json()["queries"]} == {"reach", "topics"}
        client.push(posts(3500))
        assert [(x["t"], len(x["answers"])) for x in lines(client, "reach", 3)] == [(1000, 1), (2000, 2), (3000, 3)]


@pytest.mark.slow
def test_segments_that_no_window_needs_go_and_answers_stay_the_same(tmp_path: Path) -> None:
    whole, cut = configured(tmp_path), configured(tmp_path, state=str(tmp_path / "cut"))
    for config, segment in ((whole, None), (cut, 1)):
        for n in range(4):
            with served(config, segment=segment) as client:
                if n == 0:
                    client.register("reach", REACH)
                    client.register("topics", TOPICS)
                client.push(posts(*range(n * 5000, n * 5000 + 5000, 700)))
                assert eventually(lambda: client.get("/streams").json()["waiting_bytes"] == 0)
    for query in ("reach", "topics"):
        found = [(place / "answers" / f"{query}.ndjson").read_text() for place in (whole.state, cut.state)]
        assert found[0] == found[1]
    assert len(list((whole.state / "log").iterdir())) == 1
    assert 1 <= len(list((cut.state / "log").iterdir())) <= 3


@pytest.mark.parametrize(
    ("method", "path", "more", "status", "said"),
    [
        ("POST", "/queries", {"json": {"name": "a b", "query": TOPICS}}, 400, "a query is called 'a b': take letters"),
        ("POST", "/queries", {"json": {"name": "topics", "query": TOPICS}}, 409, "there is a query topics already"),
        ("POST", "/queries", {"json": {"name": "x", "query": "", "dialekt": ""}}, 400, "did you mean"),
        ("POST", "/queries", {"content": b"{", "headers": JSON}, 400, "this is no JSON"),
        ("POST", "/queries?name=x", {"content": b"SELECT * { ?s"}, 400, "line 1, column 10: this { is never closed"),
        ("POST", "/queries?name=x", {"content": b"SELECT * { ?s ?p ?o }"}, 400, "needs a window"),
        (
            "POST", "/queries?name=x", {"content": REACH.replace(":blog", "<http://elsewhere/>").encode()}, 400,
            "http://elsewhere/",
        ),
        ("POST", "/queries?name=x", {"content": TOPICS.replace(":posts", ":pots").encode()}, 400, f"{E}pots"),
        ("GET", "/queries/topic", {}, 404, "there is no query 'topic'; did you mean 'topics'?"),
        ("DELETE", "/queries/topic", {}, 404, "did you mean 'topics'?"),
        ("GET", "/queries/topics/answers?after=soon", {}, 400, "after: it must be a valid integer"),
        ("POST", "/streams/http://example.org/post", {"content": b"x", "headers": PLAIN}, 404,
         "did you mean 'http://example.org/posts'?"),
        ("POST", f"/streams/{POSTS}", {"content": b"x"}, 415, "no Content-Type is not taken"),
        ("POST", f"/streams/{POSTS}", {"content": b"1\tx", "headers": PLAIN}, 400, "line 1"),
        ("POST", f"/streams/{POSTS}", {"content": b"\xff", "headers": PLAIN}, 400, "line 1"),
        ("POST", f"/streams/{POSTS}", {"headers": PLAIN | {"Idempotency-Key": "x"}}, 400, "is no NAME/NUMBER"),
        ("POST", f"/streams/{POSTS}", {"content": b"x" * 2000, "headers": PLAIN}, 413,
         "at most 1,000 bytes"),
        ("PUT", "/queries", {}, 405, "Method Not Allowed"),
        ("GET", "/nothing", {}, 404, "Not Found"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_problem_that_says_so(
    small: Client, method: str, path: str, more: Mapping[str, Any], status: int, said: str
) -> None:
    response = small.request(method, path, **more)
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.status_code, response.json()["status"]) == (status, status)
    assert said in response.json()["detail"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with served(configured(tmp_path_factory.mktemp("small"), largest_body=1000)) as client:
        client.register("topics", TOPICS)
        yield client


def test_a_wrong_line_leaves_nothing_of_its_request(client: Client) -> None:
    client.register("topics", TOPICS)
    assert client.push(posts(500) + "nonsense\n").status_code == 400
    client.push(posts(600, 1500))
    assert len(lines(client, "topics", 1)[0]["answers"]) == 1


def test_words_say_who_may_do_what(tmp_path: Path) -> None:
    with served(configured(tmp_path), Guard(b"w" * 16, b"r" * 16)) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/queries").status_code == 401
        assert client.get("/queries", headers={"Authorization": "Bearer " + "r" * 16}).status_code == 200
        reader = client.post("/queries", json={}, headers={"Authorization": "Bearer " + "r" * 16})
        assert (reader.status_code, reader.json()["detail"]) == (403, "this token may only read")
        client.headers["Authorization"] = "Bearer " + "w" * 16
        assert client.register("topics", TOPICS).status_code == 201


@pytest.mark.parametrize(
    ("mode", "word", "host", "said"),
    [
        (0o644, "w" * 32, "127.0.0.1", "others can read the token file"),
        (0o600, "short", "127.0.0.1", "has 5 bytes: give at least 16"),
        (0o600, None, "0.0.0.0", "other machines may reach 0.0.0.0: give token"),
    ],
)
def test_doors_that_stand_open_are_refused(tmp_path: Path, mode: int, word: str | None, host: str, said: str) -> None:
    token = tmp_path / "token"
    token.write_text(word or "")
    token.chmod(mode)
    with pytest.raises(ConfigError, match=said):
        Guard.of(host, None if word is None else token, None)


def test_metrics_are_those_of_a_run(client: Client) -> None:
    client.register("reach", REACH)
    client.push(posts(500, 1500))
    lines(client, "reach", 1)
    assert 'freshkeeper_evaluations_total{source="reach http://example.org/blog"} 1.0' in client.get("/metrics").text


def test_a_service_that_cannot_write_ends_and_takes_no_more(tmp_path: Path) -> None:
    config = configured(tmp_path)
    with served(config) as client:
        client.register("topics", TOPICS)
        (config.state / "answers" / "topics.ndjson").mkdir()
        client.push(posts(500, 1500))
        assert eventually(lambda: client.get("/healthz").status_code == 503)
        refused = client.push(posts(2500))
        assert (refused.status_code, refused.json()["detail"]) == (503, "the service is closed")
        assert refused.headers["retry-after"] == "1"
    (config.state / "answers" / "topics.ndjson").rmdir()
    with served(config) as client:
        assert [line["t"] for line in lines(client, "topics", 1)] == [1000]


def test_it_stops_with_what_stopped_it(tmp_path: Path) -> None:
    config = configured(tmp_path, listen="127.0.0.1:0")
    failed = []
    told: list[str] = []

    def run() -> None:
        try:
            serve(config, told.append)
        except ConfigError as error:
            failed.append(str(error))

    warm_up()  # it collects garbage: what SPARQL gave other tests can be let go by the thread that asked alone
    thread = threading.Thread(target=run)
    thread.start()
    assert eventually(lambda: told)
    with Client(base_url=told[0].split()[2], timeout=60) as client:
        client.register("topics", TOPICS)
        (config.state / "answers" / "topics.ndjson").mkdir()
        client.push(posts(500, 1500))
    thread.join()
    assert failed == [f"{config.state}/answers/topics.ndjson cannot be written: Is a directory"]


def test_a_stream_that_is_silent_holds_the_others_back_no_longer(tmp_path: Path) -> None:
    config = configured(tmp_path, streams=[POSTS, f"{E}others"], idle="100ms")
    with served(config) as client:
        client.register("topics", TOPICS)
        client.push(posts(500, 1500))
        assert eventually(lambda: client.answered("topics") == 1000)
    with served(config) as client:
        assert client.answered("topics") == 1000
        client.push(posts(2500))
        assert eventually(lambda: client.answered("topics") == 2000)


def test_so_many_may_listen_those_who_follow_the_status_included(tmp_path: Path) -> None:
    with served(configured(tmp_path, most_listeners=1)) as client:
        client.register("topics", TOPICS)
        with client.stream("GET", "/status", headers={"Accept": "text/event-stream"}) as response:
            lines = response.iter_lines()
            next(lines)
            refused = client.get("/queries/topics/answers")
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
