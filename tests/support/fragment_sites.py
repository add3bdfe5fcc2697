"""Servers of fragments for tests: ours, on a free port or without a network, and one that says what it is told."""

import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import TypeAlias
from urllib.parse import urlsplit

from pyoxigraph import Quad
from servers import HERE, QuietHandler, Site
from serving_thread import ServingThread

from freshkeeper.maintenance.annotated.fragment_server import FragmentResponse, FragmentServer
from freshkeeper.maintenance.annotated.served_data import ServableData, StaticData
from freshkeeper.maintenance.fetching.http.validity_headers import Validity
from freshkeeper.maintenance.sources.fragments.fragment_page import FragmentPage, read_page
from freshkeeper.maintenance.sources.fragments.fragment_reader import FragmentCounts, FragmentReader
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern

PageSaid: TypeAlias = Callable[[str], tuple[int, dict[str, str], bytes]]
"""A status, headers and a body, by target."""


class FragmentSite:
    """Our server of some data, at http://127.0.0.1:PORT/data, in a thread of its own."""

    def __init__(
        self, data: Sequence[Quad] | ServableData, per_page: int = 100, clock: Callable[[], int] | None = None
    ) -> None:
        """Begin to listen."""
        serving = StaticData(data) if isinstance(data, Sequence) else data
        self.clock = clock or (lambda: int(time.time() * 1000))
        self.server = FragmentServer(serving, self.clock, "/data", per_page)
        self.targets: list[str] = []
        self._thread = ServingThread(self._answer, HERE, 0, lambda: self.clock() / 1000)
        self.url = f"{self._thread.address}data"
        self.port = int(self.url.split(":")[2].split("/")[0])

    def _answer(self, method: str, target: str, headers: Mapping[str, str]) -> FragmentResponse:
        self.targets.append(target)
        return self.server.answer(method, target, headers)

    def stop(self) -> None:
        """End it, with its connections."""
        self._thread.close()


class Pages(Site):
    """A server that says what a function makes of a target: a status, headers and a body."""

    def __init__(self, said: PageSaid) -> None:
        """Begin to listen."""
        self.targets: list[str] = []
        site = self

        class Handler(QuietHandler, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self) -> None:
                site.targets.append(self.path)
                status, headers, body = said(self.path)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)
        self.url += "/data"


def reader_of(
    server: FragmentServer, asked: list[str] | None = None, media: str = "application/trig"
) -> FragmentReader:
    """A reader that asks a server without a network, and lists what it asks for."""

    def fetch_page(url: str, pattern: QuadPattern | None) -> tuple[FragmentPage, Validity]:
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        if asked is not None:
            asked.append(target)
        response = server.answer("GET", target, {"host": parts.netloc, "accept": media})
        assert response.status == "200 OK", response.body
        return read_page(response.body, media, url, pattern), Validity()

    return FragmentReader("http://here/data", fetch_page, FragmentCounts(), 1_000_000)
