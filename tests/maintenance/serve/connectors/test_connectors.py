"""Streams that a service reads by itself, and answers that go out by themselves, over real connections."""

import json
from pathlib import Path

import pytest
import redis
from databases import redis_server
from hooks import hook
from redis.client import Redis
from servers import eventually
from serving import POSTS, TOPICS, configured, posts, served

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.serve.answer_tail import AnswerTail
from freshkeeper.maintenance.serve.connectors.connectors import Connectors
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.server import opened


def add(client: Redis, *times: int) -> None:
    for line in posts(*times).splitlines():
        client.xadd("posts", {"element": line}, id=f"{line.partition(chr(9))[0]}-0")


def test_a_stream_is_read_and_answers_go_out_and_both_go_on_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "secret")
    with redis_server(tmp_path) as port, hook() as receiver:
        client = redis.Redis(port=port)
        config = configured(
            tmp_path,
            streams={POSTS: f"redis://127.0.0.1:{port}/0?stream=posts"},
            outputs={
                "hook": {"to": receiver.url, "queries": ["topics"], "secret": "HOOK_SECRET"},
                "file": str(tmp_path / "out.ndjson"),
            },
            queries={"topics": TOPICS},
        )
        add(client, 500, 1500, 2500)
        client.xadd("posts", {"element": "no element"}, id="2600-0")
        with served(config) as service:
            assert eventually(lambda: service.answered("topics") == 2000)
            assert service.get("/readyz").json()["ready"] is True
            told = service.get("/metrics").text
            assert f'freshkeeper_stream_connected{{stream="{POSTS}"}} 1.0' in told
            assert eventually(
                lambda: 'freshkeeper_output_answers_total{output="hook"} 2.0' in service.get("/metrics").text
            )
        add(client, 3500, 4500)
        with served(config) as service:
            assert eventually(lambda: service.answered("topics") == 4000)
            connection = service.get("/status").json()["streams"][0]["connection"]
            assert (connection["connected"], connection["gaps"]) == (True, 0)
    sent = [json.loads(body) for _, body in receiver.came]
    assert [one["t"] for one in sent] == [1000, 2000, 3000, 4000]
    assert [len(one["answers"]) for one in sent] == [1, 2, 2, 2]
    assert [json.loads(line) for line in (tmp_path / "out.ndjson").read_text().splitlines()] == sent
    assert receiver.came[0][0]["webhook-id"] == "topics/1000"


def test_a_service_is_not_ready_while_a_stream_that_it_reads_is_away(tmp_path: Path) -> None:
    config = configured(tmp_path, streams={POSTS: {"reads": "tcp://127.0.0.1:1"}})
    with served(config) as service:
        assert eventually(lambda: "refused" in service.get("/readyz").text)
        assert service.get("/readyz").status_code == 503
        assert service.get("/healthz").status_code == 200
        assert service.push(posts(500)).status_code == 202  # pushing goes on


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"streams": {POSTS: "kafka://broker:9092"}}, "no topic: write kafka://broker:9092/TOPIC"),
        ({"streams": {POSTS: {"reads": "posts.nq"}}}, "posts.nq"),
        ({"outputs": {"a": "gopher://x"}}, "is no output"),
        ({"outputs": {"a": {"to": "x", "query": "b"}}}, "there is no key 'outputs.a.query'"),
    ],
)
def test_what_is_mistyped_in_a_config_is_said(tmp_path: Path, more: dict[str, dict[str, object]], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        configured(tmp_path, **more)


def test_an_output_for_a_query_that_is_not_there_is_told_as_one_may_come(tmp_path: Path) -> None:
    outputs = {"a": {"to": str(tmp_path / "out.ndjson"), "queries": "topic"}}
    config = configured(tmp_path, queries={"topics": TOPICS}, outputs=outputs)
    told: list[str] = []
    context = opened(config, Guard(None, None))
    Connectors.of(config, context, told.append)
    context.service.close()
    assert told == ["there is no query for outputs.a yet: 'topic'; did you mean 'topics'?"]
    with served(config) as service:
        service.register("topic", TOPICS)
        service.push(posts(500, 1500))
        assert eventually(lambda: (tmp_path / "out.ndjson").exists())
    assert [json.loads(line)["t"] for line in (tmp_path / "out.ndjson").read_text().splitlines()] == [1000]


def test_answers_are_followed_over_files_that_are_begun_anew(tmp_path: Path) -> None:
    path, before = tmp_path / "q.ndjson", tmp_path / "q.ndjson.1"

    def write(*times: int, end: str = "\n") -> None:
        with path.open("a") as file:
            file.write("".join(f'{{"t": {t}, "answers": []}}{end}' for t in times))

    tail = AnswerTail(path, before, 2)
    assert tail.read(9) == []
    write(1, 2, 3)
    assert [t for t, _ in tail.read(9)] == [3]
    write(4, end="")
    assert tail.read(9) == []
    write(end="")
    with path.open("a") as file:
        file.write("\n")
    write(5)
    path.replace(before)
    write(6, 7)
    assert [t for t, _ in tail.read(2)] == [4, 5]
    path.replace(before)
    write(8)
    assert [t for t, _ in tail.read(9)] == [6, 7, 8]
    tail.close()
