"""Clients that hold connections, memory or disk: limits end what they do, and others do not notice."""

import json
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from stat import S_IMODE

import pytest
from servers import eventually
from serving import POSTS, TOPICS, Client, configured, empty_result, posts, served

from freshkeeper.maintenance.serve.answer_log import AnswerLog
from freshkeeper.maintenance.serve.connections import ConnectionLimits
from freshkeeper.maintenance.serve.log_summary import MAX_PRODUCERS, History

HALF_A_REQUEST = b"POST /streams/x HTTP/1.1\r\nHost: localhost\r\n"


def connections(client: Client, count: int, sending: bytes, stack: ExitStack) -> list[socket.socket]:
    """Connections of raw sockets that send some bytes and no more."""
    found = []
    for _ in range(count):
        one = stack.enter_context(socket.create_connection((client.base_url.host, client.base_url.port or 0)))
        one.sendall(sending)
        found.append(one)
    return found


def is_closed(one: socket.socket) -> bool:
    one.settimeout(5)
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", HALF_A_REQUEST])
def test_a_connection_without_a_whole_request_is_closed(tmp_path: Path, sent: bytes) -> None:
    with served(configured(tmp_path), limits=ConnectionLimits(50, 50, request_timeout_s=0.3)) as client:
        with ExitStack() as stack:
            began = time.monotonic()
            assert all(is_closed(one) for one in connections(client, 3, sent, stack))
            assert time.monotonic() - began >= 0.3
        assert client.get("/healthz").status_code == 200


def test_five_hundred_idle_connections_do_not_keep_a_push_out(tmp_path: Path) -> None:
    limits = ConnectionLimits(100, 100)
    with served(configured(tmp_path), limits=limits) as client, ExitStack() as stack:
        idle = connections(client, 300, b"", stack) + connections(client, 200, HALF_A_REQUEST, stack)
        client.register("topics", TOPICS)
        assert client.push(posts(500, 1500)).json() == {"elements": 2}
        assert len(limits.open) <= 100
        assert is_closed(idle[0])


def test_where_all_connections_are_busy_one_more_is_refused(tmp_path: Path) -> None:
    with served(configured(tmp_path), limits=ConnectionLimits(3, 2)) as client, ExitStack() as stack:
        client.register("topics", TOPICS)
        listening = b"GET /queries/topics/answers HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for one in connections(client, 1, listening, stack):
            assert one.recv(12) == b"HTTP/1.1 200"
        client.close()
        (second,) = connections(client, 1, listening, stack)
        assert second.recv(12) == b"HTTP/1.1 200"
        (third,) = connections(client, 1, b"", stack)
        assert b"503" in third.recv(100)
        assert third.recv(100).endswith(b"") or is_closed(third)


def test_listeners_are_counted_when_they_ask(tmp_path: Path) -> None:
    with served(configured(tmp_path, most_listeners=20)) as client, ExitStack() as stack:
        client.register("topics", TOPICS)
        listening = b"GET /queries/topics/answers?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        found = [one.recv(12) for one in connections(client, 60, listening, stack)]
        assert found.count(b"HTTP/1.1 200") == 20
        assert found.count(b"HTTP/1.1 429") == 40
    with served(configured(tmp_path, most_listeners=20)) as client:  # all have left
        assert client.get("/streams").json()["listeners"] == 0


def test_a_listener_who_has_left_makes_room(tmp_path: Path) -> None:
    with served(configured(tmp_path, most_listeners=1)) as client:
        client.register("topics", TOPICS)
        for _ in range(3):
            with client.stream("GET", "/queries/topics/answers") as response:
                assert response.status_code == 200
            assert eventually(lambda: client.get("/streams").json()["listeners"] == 0)


def test_the_number_and_names_of_producers_have_a_limit(tmp_path: Path) -> None:
    with served(configured(tmp_path)) as client:
        assert client.push(posts(500), **{"Idempotency-Key": f"{'a' * 128}/1"}).status_code == 202
        refused = client.push(posts(500), **{"Idempotency-Key": f"{'a' * 129}/1"})
        assert refused.status_code == 400
        assert "at most 128 characters" in refused.json()["detail"]
    history = History()
    for n in range(MAX_PRODUCERS + 2):
        history.pushed({"stream": POSTS, "producer": "first" if n % 2 else f"p{n}", "number": n}, 1)
    for n in range(MAX_PRODUCERS):
        history.pushed({"stream": POSTS, "producer": f"q{n}", "number": n}, 1)
    assert len(history.producers) == MAX_PRODUCERS
    assert "first" not in history.producers


@pytest.mark.parametrize("name", ["a" * 65, "a" * 300, "größe", ".hidden", "a/b", ""])
def test_a_query_has_a_name_of_64_safe_characters(tmp_path: Path, name: str) -> None:
    with served(configured(tmp_path)) as client:
        refused = client.register(name, TOPICS)
        assert refused.status_code == 400
        assert "64 at most" in refused.json()["detail"]
        assert client.register("a" * 64, TOPICS).status_code == 201


def test_queries_called_a_and_a_before_have_files_of_their_own(tmp_path: Path) -> None:
    answers = AnswerLog(tmp_path, max_bytes=1)
    names = ["a", "a.before", "a.ndjson", "a.ndjson.1"]
    for t in (1, 2):
        for name in names:
            answers.put(empty_result(name, t))
    for name in names:
        tail = answers.tail(name, 0)
        assert [t for t, _ in tail.read(9)] == [1, 2]
        tail.close()
    answers.close()


def test_files_of_a_service_are_for_its_owner_alone(tmp_path: Path) -> None:
    with served(configured(tmp_path)) as client:
        client.register("topics", TOPICS)
        client.push(posts(500, 1500))
        assert eventually(lambda: client.answered("topics") == 1000)
    files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".log", ".ndjson", ".sqlite"}
    assert {S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_who_catches_up_gets_every_line_once_while_new_ones_come(tmp_path: Path) -> None:
    with served(configured(tmp_path)) as client:
        client.register("topics", TOPICS)
        client.push(posts(*range(500, 1_500_500, 1000)))
        assert eventually(lambda: client.answered("topics") == 1_499_000)
        with client.stream("GET", "/queries/topics/answers?after=2000") as response:
            lines = response.iter_lines()
            found = [json.loads(next(lines))["t"] for _ in range(10)]
            client.push(posts(1_500_500, 1_501_500))
            found += [json.loads(next(lines))["t"] for _ in range(1_489)]
        assert found == list(range(3000, 1_502_000, 1000))


def test_a_tail_begins_close_to_the_instant_that_it_is_asked_for(tmp_path: Path) -> None:
    answers = AnswerLog(tmp_path)
    for t in range(1, 40_001):
        answers.put(empty_result("q", t))
    answers.close()
    for after in (0, 1, 17, 20_000, 39_998, 39_999, 40_000, 50_000):
        tail = answers.tail("q", after)
        assert [t for t, _ in tail.read(2)] == list(range(after + 1, 40_001))[:2]
        tail.close()


def test_a_page_of_another_site_may_not_write(tmp_path: Path) -> None:
    with served(configured(tmp_path)) as client:
        client.register("topics", TOPICS)
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 202), ("none", 202)):
            assert client.push(posts(500), **{"Sec-Fetch-Site": site}).status_code == status
        assert client.get("/queries", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200
        assert client.get("/views/x/y?fetch=2s").status_code == 400
