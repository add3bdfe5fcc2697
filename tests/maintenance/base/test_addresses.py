"""What addresses have of secrets is shown nowhere, and reaches those whom it is for."""

import base64
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from commands import freshkeeper
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from freshkeeper.maintenance.base.addresses import MASK, mask_secrets, secrets_in
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.streams.live.feed import OnLoss
from freshkeeper.maintenance.streams.opening import Reception, open_stream
from freshkeeper.maintenance.streams.read_errors import ReadErrors

E = "http://example.org/"
LINES = [f"{1000 * n}\t<{E}p{n}> <{E}topic> <{E}jazz> ." for n in range(1, 4)]
QUERY = f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://ann:pw@h/x?apikey=abc&b=2", "http://h/x?apikey=***&b=2"),
        (
            "--source http://e/b=http://u:p@ss@h/q?b=1&api%5Fkey=a'b#x",
            "--source http://e/b=http://h/q?b=1&api%5Fkey=***#x",
        ),
        ("'http://h/?access_token=xy' is no address", "'http://h/?access_token=***' is no address"),
        ("http://h/?keyword=jazz&page=2 http://h/?key=x", "http://h/?keyword=jazz&page=2 http://h/?key=***"),
        ("SELECT <http://e/?token=5> { ?token=3 }", "SELECT <http://e/?token=***> { ?token=3 }"),
        ("tcp://me:pw@h:99 and https://x/?X-Amz-Signature=ab%2F", "tcp://h:99 and https://x/?X-Amz-Signature=***"),
        ("http://h/users/@ann?page=2, mail a@b.c", "http://h/users/@ann?page=2, mail a@b.c"),
    ],
)
def test_what_is_secret_in_an_address_is_masked_and_all_else_is_as_it_was(text: str, said: str) -> None:
    assert mask_secrets(text) == said
    assert mask_secrets(said) == said


@given(st.text(min_size=4).map(lambda text: quote(f"Q{text}Z", safe="")), st.sampled_from(["apikey", "key", "sig"]))
def test_whatever_a_key_is_it_is_not_shown(secret: str, name: str) -> None:
    address = f"https://example.org/sparql?a=1&{name}={secret}&b=2"
    assert mask_secrets(f"at {address}: no") == f"at https://example.org/sparql?a=1&{name}={MASK}&b=2: no"
    assert secret in secrets_in(address)


@pytest.fixture
def site() -> Iterator[Callable[..., tuple[str, list[object]]]]:
    """Makes servers that answer by path, and write down what they were asked."""
    made = []

    def make(answers: Callable[..., Any | tuple[int, dict[str, str], bytes]]) -> tuple[str, list[Any]]:
        asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, self.headers))
                status, headers, body = answers(self.path, self.headers)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: str) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = False
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        made.append((server, thread))
        return f"127.0.0.1:{server.server_address[1]}", asked

    yield make
    for server, thread in made:
        server.shutdown()
        server.server_close()
        thread.join()


def events(_: str, headers: HTTPMessage) -> tuple[int, dict[str, str], bytes]:
    if headers["Authorization"] != f"Basic {base64.b64encode(b'ann:p@ss').decode()}":
        return 401, {}, b""
    return 200, {"Content-Type": "text/event-stream"}, "".join(f"data: {line}\n\n" for line in LINES).encode()


@pytest.mark.slow
def test_a_run_shows_no_key_of_its_addresses(site: Callable[..., tuple[str, list[Any]]], tmp_path: Path) -> None:
    def tell(path: str, _: object) -> tuple[int, dict[str, str], bytes]:
        return 500, {"Content-Type": "text/plain"}, f"you asked for {path}".encode()

    stream, _ = site(events)
    source, asked = site(tell)
    (tmp_path / "q.rspql").write_text(QUERY)
    blog = f"{E}blog=http://{source}/query?apikey=S3CRET-k&x=1"
    words = ["--volatile", f"{E}blog={E}followers", "--source", blog]
    words += ["--stream", f"{E}s=http://ann:p%40ss@{stream}/s?token=S3CRET-t", "--on-loss", "end"]
    words += ["--journal", "journal", "--state", "state", "--log", "debug"]
    ran = freshkeeper(tmp_path, "run", "q.rspql", *words)
    assert ran.returncode == 0, ran.stderr
    told = freshkeeper(tmp_path, "report", "journal")
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "journal" / "report.html").exists()
    assert asked
    assert all("apikey=S3CRET-k" in path for path, _ in asked)
    written = [ran.stdout.encode(), ran.stderr.encode(), told.stdout.encode(), told.stderr.encode()]
    written += [_content(file) for file in tmp_path.rglob("*") if file.is_file()]
    for secret in (b"S3CRET", b"p%40ss", b"p@ss"):
        assert not [text for text in written if secret in text]
    assert b"apikey=***&x=1" in (tmp_path / "journal" / "run.json").read_bytes()
    assert [text for text in written if b"you asked for /query" in text], "errors are there, without it"


def _content(file: Path) -> bytes:
    return str(parquet.read_table(file).to_pylist()).encode() if file.suffix == ".parquet" else file.read_bytes()


def test_a_stream_gets_user_and_password_of_its_address_and_nobody_else_does(
    site: Callable[..., tuple[str, list[Any]]],
) -> None:
    other, asked = site(lambda *_: (200, {"Content-Type": "text/event-stream"}, b""))
    first, _ = site(events)
    ends = Reception(OnLoss.END)
    (batch,) = open_stream(f"http://ann:p%40ss@{first}/s", ReadErrors(), reception=ends).batches()
    assert batch.times == [1000, 2000, 3000]
    moving, moved = site(lambda *_: (302, {"Location": f"http://{other}/s"}, b""))
    assert list(open_stream(f"http://ann:p%40ss@{moving}/s", ReadErrors(), reception=ends).batches()) == []
    assert moved[0][1]["Authorization"]
    assert asked[0][1]["Authorization"] is None


@pytest.mark.parametrize(
    "address", ["http://ann:s3cret@127.0.0.1:1/?token=s3cret", "http://ann:s3cret@h:x/?key=s3cret"]
)
def test_a_stream_that_cannot_be_reached_is_an_error_without_its_password(address: str) -> None:
    with pytest.raises(InputError, match=r"the stream http://.* cannot be reached") as refused:
        list(open_stream(address, ReadErrors()).batches())
    assert "s3cret" not in str(refused.value)
    with pytest.raises(ConfigError, match="no port") as wrong:
        list(open_stream("tcp://ann:s3cret@host", ReadErrors()).batches())
    assert "s3cret" not in str(wrong.value)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--source", "--stream"])
def test_a_mistake_on_the_command_line_shows_no_password(option: str, tmp_path: Path) -> None:
    wrong = f"{E}blog=http://ann:s3cret@host:x/?apikey=s3cret"
    ran = freshkeeper(tmp_path, "run", QUERY, option, wrong)
    assert ran.returncode == 2
    assert "s3cret" not in ran.stdout + ran.stderr
