"""The server of fragments: what a page says, for how long, in which RDF; what is no request."""

import gzip
import http.client
import socket
from collections.abc import Callable
from contextlib import closing

import pytest
from fragment_sites import FragmentSite
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Triple, parse

from freshkeeper.maintenance.annotated.fragment_server import FragmentResponse, FragmentServer, negotiated
from freshkeeper.maintenance.annotated.http_listener import MAX_HEAD_BYTES
from freshkeeper.maintenance.annotated.served_data import StaticData
from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.sources.fragments.fragment_page import FragmentPage, read_page
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern

E = "http://e/"


def quads(n: int) -> list[Quad]:
    return [Quad(NamedNode(f"{E}s{k}"), NamedNode(f"{E}p"), Literal(f"{k}")) for k in range(n)]


def server(n: int = 25, per_page: int = 10) -> FragmentServer:
    return FragmentServer(StaticData(quads(n)), lambda: 1_000_000, "/data", per_page)


def got(
    target: str, served: FragmentServer | None = None, accept: str = "", coding: str = "", known: str = ""
) -> FragmentResponse:
    headers = {"host": "e.org", "accept": accept, "accept-encoding": coding} | (
        {"if-none-match": known} if known else {}
    )
    return (served or server()).answer("GET", target, headers)


def read(target: str, served: FragmentServer | None = None) -> FragmentPage:
    return read_page(got(target, served).body, "application/trig", f"http://e.org{target}", None)


def test_a_fragment_has_its_count_and_pages_that_end_where_the_data_do() -> None:
    for n, last in ((0, 1), (10, 1), (20, 2), (21, 3)):
        served = server(n)
        for number in range(1, last + 1):
            page = read(f"/data?predicate=http://e/p&page={number}", served)
            assert page.count == n
            assert (page.next is None) == (number == last)
        assert got(f"/data?page={last + 1}", served).status.startswith("404")


def test_all_pages_together_are_the_fragment_and_none_comes_twice() -> None:
    served = server()
    found = [quad for number in (1, 2, 3) for quad in read(f"/data?page={number}", served).quads]
    assert len(found) == 25
    assert set(found) == set(quads(25))


def test_patterns_ask_for_literals_and_variables_as_people_write_them() -> None:
    assert read('/data?object="7"').count == 1
    assert read("/data?subject=<http://e/s7>&predicate=?p").count == 1
    assert read("/data?graph=@default").count == 25
    assert read("/data?graph=http://e/g").count == 0


def test_caching_says_how_long_a_page_holds() -> None:
    assert "max-age=86400" in got("/data").headers["Cache-Control"]

    class Changing(StaticData):
        until_: int | None = 1_007_900

        def until(self, pattern: QuadPattern, now: int) -> int | None:
            return self.until_

    data = Changing(quads(3))
    served = FragmentServer(data, lambda: 1_000_000, "/data")
    found = got("/data", served)
    assert found.headers["Cache-Control"] == "public, max-age=7"
    assert found.headers["Expires"].endswith("00:16:47 GMT")
    data.until_ = None
    assert got("/data?page=1", served).headers["Cache-Control"] == "no-cache"


def test_a_page_that_is_known_is_not_sent_again() -> None:
    tag = got("/data").headers["ETag"]
    again = got("/data", known=tag)
    assert again.status.startswith("304")
    assert not again.body
    assert again.headers["ETag"] == tag
    assert got("/data", known='"other"').status.startswith("200")


def test_held_pages_are_not_made_again() -> None:
    served = server()
    for _ in range(5):
        got("/data", served)
    assert (served.requests, served.pages_built) == (5, 1)


def test_formats_are_negotiated() -> None:
    assert negotiated("") == negotiated("*/*") == "application/trig"
    assert negotiated("text/turtle;q=0.5, application/n-quads;q=0.9") == "application/n-quads"
    assert negotiated("text/*") == "text/turtle"
    assert negotiated("text/html") is None
    assert got("/data", accept="text/html").status.startswith("406")
    for kind in ("application/n-quads", "application/ld+json", "text/turtle", "application/n-triples"):
        page = read_page(got("/data", accept=kind).body, kind, "http://e.org/data", None)
        assert (len(page.quads), page.count) == (10, 25), kind


def test_pages_are_compressed_for_who_can_read_it() -> None:
    plain, packed = got("/data"), got("/data", coding="br, gzip")
    assert gzip.decompress(packed.body) == plain.body
    assert packed.headers["ETag"] != plain.headers["ETag"]
    assert "Content-Encoding" not in got("/data", coding="gzip;q=0").headers


@pytest.mark.parametrize(
    "target", ["/data?page=0", "/data?page=x", "/data?subject=x y", "/data?nonsense=1", '/data?object="x']
)
def test_what_is_no_fragment_is_said_to_be_none(target: str) -> None:
    found = got(target)
    assert found.status.startswith("400")
    assert found.body


def test_other_methods_and_hosts_are_refused_and_anybody_may_ask_from_a_browser() -> None:
    assert server().answer("POST", "/data", {}).status.startswith("405")
    assert server().answer("OPTIONS", "/data", {}).headers["Access-Control-Allow-Origin"] == "*"
    assert server().answer("GET", "/data", {"host": "<script>"}).status.startswith("400")
    assert got("/").status.startswith("404")


@given(st.text(), st.text(), st.text())
def test_no_target_or_header_makes_it_fail(target: str, accept: str, host: str) -> None:
    found = server(3).answer("GET", "/data?" + target, {"host": host, "accept": accept})
    assert found.status[:3] in ("200", "400", "404", "406")


def test_requests_on_one_connection_are_answered_in_their_order(sites: Callable[..., FragmentSite]) -> None:
    site = sites(quads(3))
    with closing(http.client.HTTPConnection("127.0.0.1", site.port)) as connection:
        for _ in range(3):
            connection.request("GET", "/data", headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200
            assert len(list(parse(gzip.decompress(body), format=RdfFormat.TRIG))) > 3


def said(site: FragmentSite, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as connection:
        connection.sendall(data)
        found = b""
        while chunk := connection.recv(65_536):
            found += chunk
        return found


def test_two_requests_at_once_have_two_answers(sites: Callable[..., FragmentSite]) -> None:
    get = b"GET /data HTTP/1.1\r\nHost: e.org\r\n"
    assert said(sites(quads(3)), get + b"\r\n" + get + b"Connection: close\r\n\r\n").count(b"200 OK") == 2


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET http://e.org/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"413"),
        (b"GET /" + b"x" * MAX_HEAD_BYTES, b"431"),
    ],
)
def test_what_is_no_request_ends_its_connection(sent: bytes, status: bytes, sites: Callable[..., FragmentSite]) -> None:
    assert said(sites(quads(3)), sent).startswith(b"HTTP/1.1 " + status)


def test_data_that_does_not_change_never_ends() -> None:
    assert StaticData(quads(1)).until(QuadPattern(), 0) == DISTANT_FUTURE


def test_a_format_that_cannot_say_it_is_not_acceptable() -> None:
    triple = Triple(NamedNode(f"{E}s"), NamedNode(f"{E}p"), Literal("o"))
    data = StaticData([Quad(NamedNode(f"{E}r"), NamedNode(f"{E}reifies"), triple)])
    served = FragmentServer(data, lambda: 0, "/data")
    assert got("/data", served, accept="application/ld+json").status.startswith("406")
    assert got("/data", served).status.startswith("200")


def test_a_fault_of_ours_costs_its_request_alone(
    sites: Callable[..., FragmentSite], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = sites(quads(3))
    monkeypatch.setattr(site.server, "answer", lambda *_: 1 / 0)
    get = b"GET /data HTTP/1.1\r\nConnection: close\r\n\r\n"
    assert b"500 Internal Server Error" in said(site, get)
    assert b"ZeroDivisionError" in said(site, get)
