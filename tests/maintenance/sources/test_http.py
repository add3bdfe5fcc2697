"""What everybody expects of HTTP, within bounds: compressed answers, proxies of the environment, keys in headers."""

import base64
import gzip
import json
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_connection, socket
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from pyoxigraph import NamedNode

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.fetching.fetch_errors import FetchError, NotSentError
from freshkeeper.maintenance.fetching.http import connection
from freshkeeper.maintenance.fetching.http.compression import Unpacker
from freshkeeper.maintenance.fetching.http.connection import Proxy
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool, HttpResponse
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.sources.source_config import config_of
from freshkeeper.maintenance.sources.sources import source_of
from freshkeeper.maintenance.sources.transport import GraphQuery

HERE = "127.0.0.1"
CERTIFICATE = Path(__file__).with_name("loopback.pem")
TEXT = b'{"head": {"vars": ["n"]}, "results": {"bindings": []}}' * 40


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    "identity": lambda data: data,
    "gzip": gzip.compress,
    "GZIP ": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:]),
    "deflate": zlib.compress,
    "deflate (raw)": raw_deflate,
}


class QuietServer(ThreadingHTTPServer):
    """Prints nothing of connections that break."""

    def handle_error(self, *_: object) -> None:
        pass


class Web:
    """A server that says `body`, and a proxy: it goes on to addresses that are whole, and tunnels."""

    def __init__(self, tls: bool = False) -> None:
        self.body, self.coding, self.status, self.refuses = b"", "", 200, False
        self.asked: list[tuple[str, dict[str, str]]] = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                web.asked.append((self.requestline, dict(self.headers)))
                self.send_response(407 if web.refuses else web.status)
                if web.coding:
                    self.send_header("Content-Encoding", web.coding.removesuffix(" (raw)"))
                self.send_header("Content-Type", "application/sparql-results+json")
                self.send_header("Content-Length", str(len(web.body)))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(web.body)

            def do_CONNECT(self) -> None:
                web.asked.append((self.requestline, dict(self.headers)))
                if web.refuses:
                    self.send_error(407)
                    return
                host, _, port = self.path.rpartition(":")
                with closing(create_connection((host, int(port)))) as further:
                    self.send_response(200)
                    self.end_headers()
                    back = threading.Thread(target=_pass_on, args=(further, self.connection))
                    back.start()
                    _pass_on(self.connection, further)
                    back.join()
                self.close_connection = True

            def log_message(self, *_: int | str) -> None:
                pass

        self.server = QuietServer((HERE, 0), Handler)
        self.server.daemon_threads = False
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.place = f"{HERE}:{self.server.server_address[1]}"
        self.url = f"{'https' if tls else 'http'}://{self.place}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def _pass_on(one: socket, other: socket) -> None:
    with suppress(OSError):
        while data := one.recv(65_536):
            other.sendall(data)
        other.shutdown(1)


class Webs:
    """Makes servers, and pools of connections to them."""

    def __init__(self) -> None:
        self.made: list[Web] = []
        self.pools: list[ConnectionPool] = []

    def __call__(self, tls: bool = False) -> Web:
        self.made.append(Web(tls))
        return self.made[-1]

    def pool(self, **options: Any) -> ConnectionPool:
        self.pools.append(ConnectionPool(**options))
        return self.pools[-1]


@pytest.fixture
def webs() -> Iterator[Webs]:
    """The servers are stopped when the pools are closed."""
    webs = Webs()
    yield webs
    for pool in webs.pools:
        pool.close()
    for web in webs.made:
        web.stop()


def get(pool: ConnectionPool, url: str, **more: Any) -> HttpResponse:
    return pool.exchange(Call("GET", url, **more), Deadline(time.monotonic() + 5))


@pytest.mark.parametrize("coding", PACKED)
def test_an_answer_is_the_same_however_it_is_packed(coding: str, webs: Webs) -> None:
    web, pool = webs(), webs.pool()
    web.body, web.coding = PACKED[coding](TEXT), coding
    assert get(pool, web.url).body == TEXT
    assert get(pool, web.url).body == TEXT
    assert web.asked[0][1]["Accept-Encoding"] == "gzip, deflate"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "deflate (raw)"])
def test_an_answer_that_unpacks_without_end_is_too_large(coding: str, webs: Webs) -> None:
    web, pool = webs(), webs.pool(max_bytes=100_000)
    web.body, web.coding = PACKED[coding](bytes(50_000_000)), coding
    began = time.monotonic()
    with pytest.raises(FetchError, match=r"^too large: the answer is longer than 0.1 MB, the source's max_size"):
        get(pool, web.url)
    assert time.monotonic() - began < 2
    web.status = 500
    assert len(get(pool, web.url).body) == 64_000, "of an error the beginning will do"


def test_packed_answers_that_hold_nothing_have_an_end_too(webs: Webs) -> None:
    web, pool = webs(), webs.pool(max_bytes=10_000)
    web.body, web.coding = gzip.compress(b"") * 10_000, "gzip"
    with pytest.raises(FetchError, match=r"^too large"):
        get(pool, web.url)


@pytest.mark.parametrize(
    ("coding", "body", "said"),
    [
        ("br", b"x", "malformed: the answer is encoded as 'br', not as gzip, deflate"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x")), "malformed: the answer is encoded as 'gzip, gzip'"),
        ("gzip", b"no such thing", "malformed: the answer is no gzip"),
        ("gzip", gzip.compress(TEXT)[:-9], "malformed: the answer ends before its gzip does"),
        ("deflate", zlib.compress(TEXT)[:-9], "malformed: the answer ends before its deflate does"),
        ("gzip", gzip.compress(TEXT) + b"more", "malformed: the answer is no gzip"),
    ],
    ids=["another", "twice", "no gzip", "cut gzip", "cut deflate", "more behind it"],  # gzip holds the time
)
def test_a_packed_answer_that_is_none_is_malformed(coding: str, body: bytes, said: str, webs: Webs) -> None:
    web, pool = webs(), webs.pool()
    web.body, web.coding = body, coding
    with pytest.raises(FetchError) as refused:
        get(pool, web.url)
    assert str(refused.value).startswith(said)


@settings(max_examples=examples(300))
@given(st.binary(max_size=3000), st.sampled_from([c for c in PACKED if c]), st.lists(st.integers(1, 999)), st.data())
def test_whatever_comes_is_unpacked_in_pieces_or_refused_and_never_beyond_what_is_wanted(
    data: bytes, coding: str, cuts: list[int], draw: DataObject
) -> None:
    packed = PACKED[coding](data)
    changed = draw.draw(st.one_of(st.just(packed), st.binary(max_size=400)))
    most, unpacker = draw.draw(st.integers(1, 4000)), Unpacker(coding.removesuffix(" (raw)"))
    found, whole = _in_pieces(unpacker, changed, cuts, most)
    assert len(found) <= most or coding == "identity"
    if changed == packed:
        assert (found, whole) == (data, True) if len(data) < most else found[:most] == data[:most]


def _in_pieces(unpacker: Unpacker, packed: bytes, cuts: list[int], most: int) -> tuple[bytes, bool]:
    """What comes out, and whether it is whole; what is refused is malformed."""
    found = b""
    try:
        for cut in [*cuts, len(packed)]:
            if len(found) < most:
                found += unpacker.unpack(packed[:cut], most - len(found))
                packed = packed[cut:]
    except FetchError as error:
        return found, not str(error).startswith("malformed: ")
    return found, unpacker.is_complete


def test_a_proxy_of_the_environment_is_asked_for_what_it_is_named_for(
    webs: Webs, monkeypatch: pytest.MonkeyPatch
) -> None:
    web, proxy = webs(), webs()
    proxy.body = b"by the proxy"
    monkeypatch.setenv("http_proxy", f"http://ann:p%40ss@{proxy.place}")
    pool = webs.pool()
    assert get(pool, f"{web.url}/a?b=1").body == b"by the proxy"
    assert get(pool, f"{web.url}/a?b=1").body == b"by the proxy"
    assert not web.asked
    line, headers = proxy.asked[0]
    assert line == f"GET {web.url}/a?b=1 HTTP/1.1"
    assert headers["Host"] == web.place
    assert headers["Proxy-Authorization"] == f"Basic {base64.b64encode(b'ann:p@ss').decode()}"
    monkeypatch.setenv("no_proxy", f"example.org,{HERE}")
    assert get(pool, web.url).body == b""
    assert len(web.asked) == 1
    assert "Proxy-Authorization" not in web.asked[0][1]


def test_what_is_encrypted_goes_through_a_tunnel_that_the_proxy_opens(
    webs: Webs, monkeypatch: pytest.MonkeyPatch
) -> None:
    web, proxy = webs(tls=True), webs()
    web.body = b"hello"
    monkeypatch.setattr(connection, "trusted_certificates", lambda: ssl.create_default_context(cafile=CERTIFICATE))
    monkeypatch.setenv("HTTPS_PROXY", f"ann:pw@{proxy.place}")
    pool = webs.pool()
    assert get(pool, web.url, headers={"Authorization": "Bearer t0ken"}).body == b"hello"
    assert get(pool, web.url).body == b"hello"
    ((line, headers),) = proxy.asked
    assert line == f"CONNECT {web.place} HTTP/1.1"
    assert headers == {"Host": web.place, "Proxy-Authorization": f"Basic {base64.b64encode(b'ann:pw').decode()}"}
    assert web.asked[0][1]["Authorization"] == "Bearer t0ken"
    assert "Proxy-Authorization" not in web.asked[0][1]


def test_a_proxy_that_opens_no_tunnel_costs_nothing_and_says_why(webs: Webs, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = webs()
    proxy.refuses = True
    monkeypatch.setenv("https_proxy", f"http://ann:secret@{proxy.place}")
    sent: list[int] = []

    def go() -> bool:
        sent.append(1)
        return True

    with pytest.raises(FetchError) as refused:
        webs.pool().exchange(Call("GET", "https://example.org/"), Deadline(time.monotonic() + 5, go))
    assert str(refused.value).startswith(f"connection: no way to example.org by the proxy {proxy.place}: 407 Proxy")
    assert not sent


def test_a_proxy_that_is_none_of_http_is_said_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    for written in ("socks5://ann:secret@host:1080", "http://ann:secret@:99", "http://ann:secret@host:port"):
        with pytest.raises(FetchError, match=r"^connection: the proxy .* is not http://host:port") as refused:
            Proxy.of(written)
        assert "secret" not in str(refused.value)


def test_a_connection_that_is_not_used_is_kept_whoever_refuses(webs: Webs) -> None:
    web, pool = webs(), webs.pool()

    def never() -> bool:
        raise NotSentError("not sent: no")

    for go in (never, lambda: False):
        with pytest.raises(NotSentError):
            pool.exchange(Call("GET", web.url), Deadline(time.monotonic() + 5, go))
    assert len(pool._open) == 1


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("kind", ["sparql", "resources"])
def test_keys_in_headers_reach_the_source_from_the_environment(
    kind: str, more: bool, webs: Webs, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = webs()
    web.body = TEXT[:54]
    monkeypatch.setenv("BLOG_KEY", "k3y-abcd")
    monkeypatch.setenv("BLOG_TOKEN", "t0ken")
    auth = {"headers": {"X-API-Key": "BLOG_KEY"}} | ({"bearer": "BLOG_TOKEN"} if more else {})
    where: dict[str, Any] = {"sparql": web.url}
    if kind == "resources":
        predicates = {"http://e/n": "n"}
        where = {"resources": [{"subject": "http://e/{id}", "url": f"{web.url}/{{id}}", "predicates": predicates}]}
    source = source_of(config_of({**where, "auth": auth}, "test"))
    with closing(source.transport):
        key = (NamedNode("http://e/x"),)
        query = GraphQuery("SELECT * { ?s ?p ?n }", ("s",), (key,))
        source.transport.service.select(query, 0, Deadline(time.monotonic() + 5))
    assert web.asked[0][1]["X-API-Key"] == "k3y-abcd"
    assert web.asked[0][1].get("Authorization") == ("Bearer t0ken" if more else None)
    assert source.transport.dispatcher is not None
    assert source.transport.dispatcher.mask("you sent k3y-abcd") == "you sent ***"


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ({"headers": {"X-API-Key": "s3cret-1"}}, "it must be the name of an environment variable"),
        ({"headers": {"X API": "KEY"}}, "X-API-Key is a name for a header"),
        ({"headers": {"Host": "KEY"}}, "X-API-Key is a name for a header"),
        ({"headers": {"authorization": "KEY"}, "bearer": "T"}, "the header Authorization is given twice"),
        ({"headers": ["s3cret"]}, "auth.headers"),
    ],
)
def test_headers_that_cannot_be_are_one_line_without_what_they_hold(auth: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match="auth") as refused:
        config_of({"sparql": "http://h/", "auth": auth}, "blog.yaml")
    assert said in str(refused.value)
    assert "s3cret" not in json.dumps(str(refused.value))
