"""What may be pushed in which form, and listening over a WebSocket."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import POSTS, TOPICS, Client, E, configured, posts, served
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError
from freshkeeper.maintenance.serve.push_formats import as_lines
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.serve_config import StreamConfig

ROWS: dict[str, Any] = {
    "time": "at",
    "prefixes": {"ex": E},
    "triples": [{"subject": "ex:p{id}", "predicate": "ex:topic", "iri": "ex:{topic}"}],
}
LINE = f"1500\t<{E}p1> <{E}topic> <{E}jazz> .\n".encode()
PROV = '<http://www.w3.org/ns/prov#generatedAtTime> "1970-01-01T00:00:01.5Z"'
BARE = f"<{E}p1> <{E}topic> <{E}jazz> .\n"


@pytest.mark.parametrize(
    ("kind", "body", "at"),
    [
        ("application/n-quads", LINE.decode(), None),
        ("application/n-quads", f"{BARE}", 1500),
        ("text/turtle", f"@prefix : <{E}> . :p1 :topic :jazz .", 1500),
        ("application/trig", f"<{E}g> {PROV} . <{E}g> {{ {BARE} }}", None),
        ("application/trig", f"<{E}g> {{ {BARE} }}", 1500),
        (
            "application/ld+json",
            json.dumps({
                "@id": f"{E}g", "http://www.w3.org/ns/prov#generatedAtTime": "1970-01-01T00:00:01.5Z",
                "@graph": [{"@id": f"{E}p1", f"{E}topic": {"@id": f"{E}jazz"}}],
            }),
            None,
        ),
        ("application/x-ndjson", '{"at": 1500, "id": 1, "topic": "jazz"}\n', None),
        ("text/csv", "id,at,topic\n1,1500,jazz\n", None),
    ],
)  # fmt: skip
def test_every_form_says_the_same(kind: str, body: str, at: int | None) -> None:
    assert as_lines(kind, body.encode(), at, POSTS, StreamConfig(**ROWS)) == LINE


@pytest.mark.parametrize(
    ("kind", "body", "at", "said"),
    [
        ("text/turtle", "", None, "give ?at="),
        ("text/turtle", "nonsense", 1, "the body cannot be read, line 1"),
        ("application/trig", f"<{E}g> {{ {BARE} }}", None, "it has no prov:generatedAtTime"),
        ("application/ld+json", "{", None, "the body"),
        ("application/ld+json", "[" * 1000, 1, "nested deeper than 100 levels"),
        ("application/x-ndjson", '{"at": "soon"}\n', None, "soon is no instant"),
        ("application/x-ndjson", "1\n", None, "line 1: 1 is no JSON object"),
        ("text/csv", "id,at,topic\n1,1500,jazz,4\n", None, "the row has 4 columns, and the header has 3"),
        ("text/csv", "id,at\n", 5, "rows have their time in at"),
    ],
)
def test_what_is_wrong_with_a_body_is_said(kind: str, body: str, at: int | None, said: str) -> None:
    with pytest.raises(FreshkeeperError, match=said.replace("?", r"\?")):
        as_lines(kind, body.encode(), at, POSTS, StreamConfig(**ROWS))


def test_rows_without_a_mapping_are_refused() -> None:
    with pytest.raises(ConfigError, match="rows need a mapping"):
        as_lines("text/csv", b"", None, POSTS, StreamConfig())


@pytest.mark.parametrize("wrong", [{"time": "at"}, {**ROWS, "triples": [{"subject": "a"}]}, {**ROWS, "unit": "h"}])
def test_a_mapping_that_is_none_is_told_at_the_start(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        configured(tmp_path, streams={POSTS: wrong})


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with served(configured(tmp_path, streams={POSTS: ROWS})) as client:
        client.register("topics", TOPICS)
        yield client


def test_rows_are_pushed_and_answered(client: Client) -> None:
    kind = {"Content-Type": "application/x-ndjson"}
    rows = "".join(json.dumps({"at": t, "id": t, "topic": "jazz"}) + "\n" for t in (500, 1500))
    assert client.post(f"/streams/{POSTS}", content=rows, headers=kind).json() == {"elements": 2}
    with client.stream("GET", "/queries/topics/answers?after=0") as response:
        line = json.loads(next(filter(None, response.iter_lines())))  # an empty line is a sign of life
    assert (line["t"], line["answers"][0]["bindings"]["post"]["value"]) == (1000, f"{E}p500")


def test_a_time_may_stand_in_the_address(client: Client) -> None:
    kind = {"Content-Type": "text/turtle"}
    sent = client.post(f"/streams/{POSTS}?at=1970-01-01T00:00:00.5Z", content=BARE, headers=kind)
    assert sent.json() == {"elements": 1}
    wrong = client.post(f"/streams/{POSTS}?at=soon", content=BARE, headers=kind)
    assert (wrong.status_code, wrong.json()["detail"][:21]) == (400, "at: soon is no instan")


def socket_of(client: httpx.Client) -> str:
    return str(client.base_url).replace("http", "ws")


def test_answers_come_over_a_websocket(client: Client) -> None:
    client.push(posts(500, 1500, 2500))
    with connect(f"{socket_of(client)}/queries/topics/answers?after=1000") as socket:
        assert json.loads(socket.recv(timeout=10))["t"] == 2000
        client.push(posts(3500))
        assert json.loads(socket.recv(timeout=10))["t"] == 3000


@pytest.mark.parametrize(("path", "status"), [("topic", 404), ("topics/x", 403), ("topics/answers?after=x", 400)])
def test_a_socket_that_cannot_be_is_refused(
    client: Client, path: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = path if "/" in path else f"{path}/answers"
    with pytest.raises(InvalidStatus) as refused, connect(f"{socket_of(client)}/queries/{path}"):
        pass
    assert refused.value.response.status_code == status
    assert [record.getMessage() for record in caplog.records if record.name.startswith("uvicorn")] == []


WORD, READER = b"w" * 15 + b"\xff\xfe", b"r/+" * 6


def bearer(word: bytes) -> Subprotocol:
    return Subprotocol("bearer." + urlsafe_b64encode(word).decode().rstrip("="))


def test_a_socket_brings_the_word_as_browsers_can(tmp_path: Path) -> None:
    known = {"Authorization": f"Bearer {READER.decode()}"}
    with served(configured(tmp_path, queries={"topics": TOPICS}), Guard(WORD, READER)) as client:
        address = f"{socket_of(client)}/queries/topics/answers"
        for word in (WORD, READER):
            with connect(address, subprotocols=[Subprotocol("freshkeeper"), bearer(word)]) as socket:
                assert socket.subprotocol == "freshkeeper"
        with connect(address, additional_headers=known) as socket:
            assert socket.subprotocol is None
        for offered in (None, [bearer(b"x" * 17)], [Subprotocol("bearer.a")], [Subprotocol("freshkeeper")]):
            with pytest.raises(InvalidStatus) as refused, connect(address, subprotocols=offered):
                pass
            assert refused.value.response.status_code == 401
        kept = {"Sec-WebSocket-Protocol": bearer(WORD)}
        assert client.get("/queries", headers=kept).status_code == 401, "a request brings it as a header"


def test_pages_of_others_may_not_ask(client: Client) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Origin": "http://["}):
        refused = client.get("/queries", headers=headers)
        assert refused.status_code == 403
    assert client.get("/queries", headers={"Origin": str(client.base_url).rstrip("/")}).status_code == 200
    assert client.get("/queries", headers={"Host": "localhost:1"}).status_code == 200
