"""Real servers for tests: oxigraph on a free port, and a proxy before it that counts requests and makes faults."""

import contextlib
import gzip
import http.client
import itertools
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableSequence
from http.client import HTTPConnection as Upstream
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO, ParamSpec, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote_plus

HERE = "127.0.0.1"
Fault: TypeAlias = str | Callable[[int], str]
"""What a proxy does, or what makes that of the number of a request."""
Said: TypeAlias = Callable[[str], tuple[str, bytes]]
"""A content type and bytes, by path and query."""
OXIGRAPH = Path(sys.executable).parent / "oxigraph"
PAGE = b"<!DOCTYPE html><html><body><h1>Something went wrong</h1></body></html>"
JSON = b"application/sparql-results+json"
BOMB = gzip.compress(b" " * 20_000_000)

BLOG = """
@prefix : <http://example.org/> .
:jazz :discussedBy :ann, :bob . :rock :discussedBy :bob, :cyd . :folk :discussedBy :dan .
:ann :followers 10 . :bob :followers 20 . :cyd :followers 30 .
"""


def eventually(holds: Callable[[], object], within: float = 10.0) -> bool:
    """Wait until something holds; tells whether it came to that."""
    until = time.monotonic() + within
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True


class Oxigraph:
    """`oxigraph serve` in memory."""

    def __init__(self, turtle: str = "") -> None:
        """Start it, wait until it answers, load something."""
        with socket.create_server((HERE, 0)) as free:
            self.port = free.getsockname()[1]
        command = [str(OXIGRAPH), "serve", "--bind", f"{HERE}:{self.port}"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://{HERE}:{self.port}/query"
        assert eventually(self._is_up), "oxigraph does not start"
        if turtle:
            self.post("/store?default", turtle, "text/turtle")

    def update(self, text: str) -> None:
        """Change what it has, by SPARQL Update."""
        self.post("/update", text, "application/sparql-update")

    def post(self, path: str, body: str, kind: str) -> None:
        """object other request."""
        connection = http.client.HTTPConnection(HERE, self.port)
        with contextlib.closing(connection):
            connection.request("POST", path, body.encode(), {"Content-Type": kind})
            answer = connection.getresponse()
            assert answer.status in (200, 201, 204), answer.read()

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait()

    def _is_up(self) -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection((HERE, self.port)).close()
            return True
        return False


class Proxy:
    """Before a server: every request is counted, written down, and treated as `fault` says.

    `fault` is a name, or is called for each request with its number and gives one; "" forwards. Faults: slow, stall
    (after the headers), busy (429), busy-date (503), broken (500), reset, cut, truncated, kind, html, endless, drip (a
    byte now and then), echo (the request, in a 500), moved (302, to an address with the credentials), bomb (what
    unpacks to much) and refused (with `status`, as all that names one of `poison` is). Connections that `hang_up` says
    so of are cut before anything is read, and are counted in `cut`.
    """

    def __init__(self, port: int, fault: Fault = "") -> None:
        """Listen on a free port."""
        self.fault, self.delay, self.retry_after = fault, 0.2, 1
        self.hang_up: Callable[[], bool] = lambda: False
        self.count = self.cut = 0
        self.poison: tuple[str, ...] = ()
        self.status = b"400 Bad Request"
        self.heads: MutableSequence[str] = []
        self.connections: MutableSequence[object] = []
        self._upstream = port
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((HERE, 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://{HERE}:{self.port}/query"
        self._start(self._accept)

    def remember(self, most: int) -> None:
        """Forget all but the last requests and connections, of thousands."""
        self.heads, self.connections = deque(self.heads, most), deque(self.connections, most)

    def stop(self) -> None:
        """End all connections and threads."""
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments)
        self._threads = [*(each for each in self._threads if each.is_alive()), thread]
        thread.start()

    def _accept(self) -> None:
        while not self._ending.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.hang_up():
                self.cut += 1
                self._reset(client)
                client.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections.append(client.getpeername())
            with self._lock:
                self._open.add(client)
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        upstream = Upstream(HERE, self._upstream)
        upstream.connect()
        upstream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with client.makefile("rb") as reading:
                while (request := self._read(reading)) is not None and self._answer(client, upstream, *request):
                    pass
        except OSError:
            pass
        finally:
            with self._lock:
                self._open.discard(client)
            client.close()
            upstream.close()

    def _read(self, reading: BinaryIO) -> tuple[str, bytes] | None:
        head = b"".join(iter(lambda: reading.readline().rstrip(b"\r\n") + b"\n", b"\n"))
        if not head.endswith(b"\n") or b" " not in head:
            return None
        length = next((int(x.split(b":")[1]) for x in head.split(b"\n") if x.lower().startswith(b"content-length")), 0)
        body = reading.read(length)
        with self._lock:
            self.count += 1
            self.heads.append(head.decode())
        return head.decode(), body

    def _answer(self, client: socket.socket, upstream: Upstream, head: str, body: bytes) -> bool:
        """Answer one request; tells whether the connection goes on."""
        fault = self.fault if isinstance(self.fault, str) else self.fault(self.count)
        if any(word in unquote_plus(f"{head}{body.decode()}") for word in self.poison):
            fault = "refused"
        return bool(getattr(self, "_" + (fault or "forward").replace("-", "_"))(client, upstream, head, body))

    def _forward(self, client: socket.socket, upstream: Upstream, head: str, body: bytes) -> bool:
        status, kind, found = self._asked(upstream, head, body)
        client.sendall(_response(found, status.encode(), kind.encode()))
        return True

    def _found(self, upstream: Upstream, head: str, body: bytes) -> bytes:
        return self._asked(upstream, head, body)[2]

    def _asked(self, upstream: Upstream, head: str, body: bytes) -> tuple[str, str, bytes]:
        first, *lines = head.strip().split("\n")
        method, path, _ = first.split(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        upstream.request(method, path, body or None, {k: v for k, v in headers.items() if k.lower() != "host"})
        answer = upstream.getresponse()
        return f"{answer.status} {answer.reason}", answer.headers["content-type"], answer.read()

    def _slow(self, client: socket.socket, upstream: Upstream, head: str, body: bytes) -> bool:
        self._ending.wait(self.delay)
        return self._forward(client, upstream, head, body)

    def _stall(self, client: socket.socket, *_: object) -> bool:
        client.sendall(_response(b"x" * 99, kind=JSON)[:-99])
        self._wait_for(client)
        return False

    def _busy(self, client: socket.socket, *_: object) -> bool:
        client.sendall(_response(b"busy", b"429 Too Many Requests", extra=b"Retry-After: %d\r\n" % self.retry_after))
        return True

    def _busy_date(self, client: socket.socket, *_: object) -> bool:
        at = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + self.retry_after)).encode()
        client.sendall(_response(b"busy", b"503 Service Unavailable", extra=b"Retry-After: %s\r\n" % at))
        return True

    def _refused(self, client: socket.socket, *_: object) -> bool:
        client.sendall(_response(b"no such key", self.status))
        return True

    def _broken(self, client: socket.socket, *_: object) -> bool:
        client.sendall(_response(b"out of memory", b"500 Internal Server Error"))
        return True

    def _echo(self, client: socket.socket, upstream: Upstream, head: str, body: bytes) -> bool:
        lines = sorted(head.split("\n"), key=lambda line: not line.startswith("Authorization"))
        client.sendall(_response(f"you sent {lines}".encode(), b"500 Internal Server Error"))
        return True

    def _moved(self, client: socket.socket, upstream: Upstream, head: str, body: bytes) -> bool:
        sent = next((line.split(" ")[-1] for line in head.split("\n") if line.startswith("Authorization")), "")
        client.sendall(_response(b"", b"302 Found", extra=f"Location: http://other/?key={sent}\r\n".encode()))
        return True

    def _reset(self, client: socket.socket, *_: object) -> bool:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def _cut(self, client: socket.socket, upstream: Upstream, head: str, body: bytes) -> bool:
        client.sendall(_response(self._found(upstream, head, body), kind=JSON)[:-9])
        return False

    def _truncated(self, client: socket.socket, upstream: Upstream, head: str, body: bytes) -> bool:
        client.sendall(_response(self._found(upstream, head, body)[:-9], kind=JSON))
        return True

    def _kind(self, client: socket.socket, upstream: Upstream, head: str, body: bytes) -> bool:
        client.sendall(_response(self._found(upstream, head, body), kind=b"text/plain"))
        return True

    def _html(self, client: socket.socket, *_: object) -> bool:
        client.sendall(_response(PAGE, kind=b"text/html; charset=utf-8"))
        return True

    def _endless(self, client: socket.socket, *_: object) -> bool:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n" % JSON)
        while not self._ending.is_set():
            client.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        return False

    def _drip(self, client: socket.socket, *_: object) -> bool:
        client.sendall(_response(b" " * 100_000, kind=JSON)[:-99_999])
        while not self._ending.wait(0.02):
            client.sendall(b" ")
        return False

    def _bomb(self, client: socket.socket, *_: object) -> bool:
        client.sendall(_response(BOMB, kind=JSON, extra=b"Content-Encoding: gzip\r\n"))
        return True

    def _wait_for(self, client: socket.socket) -> None:
        """Until the other side has had enough."""
        with contextlib.suppress(OSError):
            client.recv(1)


def _response(body: bytes, status: bytes = b"200 OK", kind: bytes = b"text/plain", extra: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n" % (status, kind, len(body), extra)
    return head + body


class MakeProxy(Protocol):
    """Makes a proxy before a server that is there."""

    def __call__(self, fault: Fault = "") -> Proxy:
        """It is stopped with the test."""
        ...


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections, and prints nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Site:
    """A server on a free port, in threads of its own."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        """Begin to listen."""
        self._server = ThreadingHTTPServer((HERE, 0), handler)
        self._server.daemon_threads = False
        self.url = f"http://{HERE}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        """End the threads."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Documents(Site):
    """JSON documents over HTTP, by path; `headers` go with each, `asked` are the requests so far."""

    def __init__(self, documents: Mapping[str, object]) -> None:
        """Listen on a free port."""
        self.documents = dict(documents)
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.bytes = 0
        server = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                server.asked.append((self.path, dict(self.headers)))
                found = server.documents.get(self.path)
                body = b"" if found is None else json.dumps(found).encode()
                etag = f'"{hash(body)}"'
                same = found is not None and self.headers.get("If-None-Match") == etag
                self.send_response(404 if found is None else 304 if same else 200)
                body = b"" if same else body
                headers = {"Content-Type": "application/json", "ETag": etag, "Content-Length": str(len(body))}
                for name, value in {**headers, **server.headers}.items():
                    self.send_header(name, value)
                server.bytes += len(body)
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)


class Saying(Site):
    """Answers whatever `said` gives for each request, by its path and query: a content type and bytes."""

    def __init__(self, said: Said) -> None:
        """Listen on a free port."""

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                kind, body = said(self.path)
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):  # who has read enough goes away
                    self.wfile.write(body)

            def do_POST(self) -> None:
                asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.path += asked.decode()
                self.do_GET()

        super().__init__(Handler)


class Stopped(Protocol):
    """What runs until it is stopped."""

    def stop(self) -> None:
        """End it."""
        ...


Server = TypeVar("Server", bound=Stopped)
Given = ParamSpec("Given")


@contextlib.contextmanager
def making(make: Callable[Given, Server]) -> Iterator[Callable[Given, Server]]:
    """Makes servers, all of which are stopped at the end."""
    made: list[Server] = []

    def one(*given: Given.args, **more: Given.kwargs) -> Server:
        made.append(make(*given, **more))
        return made[-1]

    try:
        yield one
    finally:
        for server in made:
            server.stop()


def numbered(faults: list[str]) -> Callable[[int], str]:
    """Faults in this order, and none after them."""
    coming: Iterator[str] = itertools.chain(faults, itertools.repeat(""))
    return lambda _: next(coming)
