"""A receiver of webhooks, whose answers are what a test says."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Hook:
    """What came, and the statuses that are answered before 200."""

    url: str
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)


@contextmanager
def hook() -> Iterator[Hook]:
    """Until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.came.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(made.statuses.pop(0) if made.statuses else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Hook(f"http://127.0.0.1:{server.server_port}/hook")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
