"""Streams from real servers: server-sent events, WebSockets, Redis."""

import re
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from databases import redis_server
from servers import eventually
from websockets.sync.server import ServerConnection

from freshkeeper.maintenance.base.errors import ConfigError, InputLostError
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session
from freshkeeper.maintenance.streams.live.feed import Feed, FeedLines, OnLoss
from freshkeeper.maintenance.streams.opening import Reception, open_stream
from freshkeeper.maintenance.streams.read_errors import ReadErrors


def line(at: int) -> str:
    return f"{at}\t<urn:a> <urn:b> <urn:{at}> ."


def reading(address: str, told: list[Any] | None = None, **more: Any) -> tuple[FeedLines, Iterator[Any]]:
    """Elements of an address whose connections may come and go."""
    stream = open_stream(
        address, ReadErrors(), reception=Reception(OnLoss.RECONNECT, ([] if told is None else told).append, **more)
    )
    assert isinstance(stream, FeedLines)
    stream.feed.backoff.first = 0.01
    return stream, (at for batch in stream.batches() for at in batch.times)


@pytest.fixture
def site() -> Iterator[tuple[str, list[Any], list[Any]]]:
    """An address whose answers are what a test says, one after the other, and what it was asked."""
    asked = []
    bodies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Last-Event-ID"))
            self.send_response(200 if bodies else 503)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            if bodies:
                self.wfile.write(bodies.pop(0).encode())

        def log_message(self, *_: str) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", bodies, asked
        server.shutdown()
        thread.join()


def test_events_are_asked_for_after_the_last_one_that_was_whole(site: tuple[str, list[Any], list[Any]]) -> None:
    address, bodies, asked = site
    bodies += [
        f"id: 1\ndata: {line(1)}\n\nid: 2\ndata: {line(2)}\ndata: {line(2)}\n\nid: 3\ndata: {line(3)}\n",
        f"id: 3\ndata: {line(3)}\n\n",
    ]
    told: list[str] = []
    stream, found = reading(address, told)
    assert [next(found) for _ in range(4)] == [1, 2, 2, 3]
    assert asked == [None, "2"]
    assert stream.feed.status.gaps == 0
    assert told[-1].endswith("nothing was missed")


def test_events_without_ids_leave_a_gap(site: tuple[str, list[Any], list[Any]]) -> None:
    address, bodies, asked = site
    bodies += [f"data: {line(1)}\n\n", f"data: {line(2)}\n\n"]
    stream, found = reading(address)
    assert [next(found), next(found)] == [1, 2]
    assert (asked, stream.feed.status.gaps) == ([None, None], 1)
    with pytest.raises(InputLostError, match="cannot be reached: HTTP 503"):
        list(open_stream(address, ReadErrors()).batches())


def test_a_redirect_is_followed_without_the_credentials() -> None:
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            moved = self.path == "/old"
            self.send_response(307 if moved else 200)
            self.send_header("Location" if moved else "Content-Type", "/new" if moved else "text/event-stream")
            self.end_headers()
            if not moved:
                self.wfile.write(f"data: {line(1)}\n\n".encode())

        def log_message(self, *_: str) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"http://me:pw@127.0.0.1:{server.server_port}/old"
        _, found = reading(address)
        assert next(found) == 1
        server.shutdown()
        thread.join()
    assert asked[:2] == [("/old", f"Basic {b64encode(b'me:pw').decode()}"), ("/new", None)]


@contextmanager
def sockets(*scripts: Sequence[bytes | str]) -> Iterator[str]:
    """A WebSocket server that sends each connection what stands for it, and hangs up."""
    from websockets.sync.server import serve

    waiting = list(scripts)

    def answer(connection: ServerConnection) -> None:
        for message in waiting.pop(0):
            connection.send(message)

    with serve(answer, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"
        server.shutdown()
        thread.join()


def test_messages_of_a_websocket_are_lines_over_connections() -> None:
    with sockets([line(1), f"{line(2)}\n{line(3)}\n".encode()], [line(4)]) as address:
        stream, found = reading(address)
        assert [next(found) for _ in range(4)] == [1, 2, 3, 4]
        assert stream.feed.status.gaps == 1
    with pytest.raises(InputLostError, match=r"the stream ws://127.* cannot be reached"):
        list(open_stream(address, ReadErrors()).batches())


HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize("kind", ["tcp", "http", "ws"])
def test_a_stream_that_is_stopped_ends_though_nothing_comes(kind: str) -> None:
    def answer() -> None:
        connection, _ = server.accept()
        asked = connection.recv(1 << 16) if kind != "tcp" else b""
        key = re.search(rb"Sec-WebSocket-Key: (\S+)", asked)
        if key is not None:
            mark = b64encode(sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            upgrade = b"HTTP/1.1 101 .\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
            connection.sendall(upgrade + mark + b"\r\n\r\n")
        elif kind == "http":
            connection.sendall(HELLO)
        held.append(connection)

    held: list[Any] = []
    taken: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream, found = reading(f"{kind}://127.0.0.1:{server.getsockname()[1]}/")
        waiting = threading.Thread(target=lambda: taken.extend(found))
        waiting.start()
        answer()
        assert eventually(lambda: stream.feed.status.connected)
        stopping = threading.Thread(target=stream.feed.stop)
        stopping.start()
        if kind == "ws":
            held[0].close()  # who says goodbye waits for an answer
        stopping.join(10)
        waiting.join(10)
        assert [waiting.is_alive(), stopping.is_alive()] == [False, False]
        held[0].close()


def test_entries_of_redis_come_once_and_go_on_where_one_was(tmp_path: Path) -> None:
    import redis

    with redis_server(tmp_path) as port:
        client, address = redis.Redis(port=port), f"redis://127.0.0.1:{port}/0?stream=cars"
        for at in (1, 2):
            client.xadd("cars", {"element": line(at)}, id=f"{at}-0")
        client.xadd("cars", {"element": "<urn:a> <urn:b> <urn:c> ."}, id="3000-0")
        stream, found = reading(address)
        assert [next(found) for _ in range(3)] == [1, 2, 3000]
        place = stream.feed.position
        assert place == {"cars": "3000-0"}
        client.xadd("cars", {"element": line(3001)}, id="3001-0")
        told: list[str] = []
        again, later = reading(address, told, position=place)
        assert next(later) == 3001
        assert (told, again.feed.status.gaps) == ([], 0)
        client.xtrim("cars", maxlen=1, approximate=False)
        stream, later = reading(address, told, position=place)
        assert next(later) == 3001
        assert stream.feed.status.gaps == 1
        assert "was trimmed, and entries after it may have been, too" in told[0]
        client.set("name", "x")
        with pytest.raises(ConfigError, match="WRONGTYPE"):
            next(reading(address.replace("cars", "name"))[1])
    feed = Feed(stream.feed.address)
    with pytest.raises(InputLostError, match="cannot be reached"):
        next(feed.received())


COUNT = "SELECT ?n FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S] { WINDOW <urn:w> { ?a <urn:b> ?n } }"


def test_a_run_whose_input_is_lost_answers_what_came_and_ends_with_a_status_that_means_again() -> None:
    def send() -> None:
        connection, _ = server.accept()
        connection.sendall("".join(f"{line(at)}\n" for at in (500, 1500, 2000)).encode())
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=send)
        sender.start()
        streams = {"urn:s": f"tcp://127.0.0.1:{server.getsockname()[1]}"}
        session = Session(config_of({"query": COUNT, "streams": streams}), parse(COUNT))
        found: list[tuple[int, int]] = []
        with pytest.raises(InputLostError, match="has ended") as lost:
            found += ((result.t, len(result.answers)) for result in session.results())
        assert (found, lost.value.exit_code) == ([(1000, 1), (2000, 3)], 75)
        sender.join()
