"""The client of fragments over HTTP: requests counted, pages used again, hostile pages refused in words."""

import gzip
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from fragment_sites import FragmentSite, Pages, PageSaid
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, parse
from terms import text_of

from freshkeeper.maintenance.annotated.page_writer import PagePosition, write_page
from freshkeeper.maintenance.fetching.endpoint import Order
from freshkeeper.maintenance.fetching.fetch_errors import FetchError, NotSentError
from freshkeeper.maintenance.fetching.key_fetcher import KeyFetcher
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.sources.fragments.fragment_page import SearchForm
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern, address_text, read_term
from freshkeeper.maintenance.sources.source_config import config_of
from freshkeeper.maintenance.sources.sources import source_of
from freshkeeper.maintenance.sources.transport import GraphQuery, Solutions, WholeQuery

E = "http://e/"
ALL = "SELECT * { ?s <http://e/p> ?o }"
TRIG = {"Content-Type": "application/trig"}


def quads(n: int) -> list[Quad]:
    return [Quad(NamedNode(f"{E}s{k}"), NamedNode(f"{E}p"), Literal(f"{k}")) for k in range(n)]


class Asking:
    """A client whose clock is set by hand, and what it has sent."""

    def __init__(self, url: str, most: int = 1000, **more: Any) -> None:
        self.sent, self.most, self.time = 0, most, 1_000_000.0
        self.client = FragmentsOverHttp(url, wall=lambda: self.time, **more)

    def __call__(self, query: str = ALL) -> tuple[Solutions, int]:
        before, allowed = self.sent, self.most

        def counted() -> bool:
            if self.sent - before >= allowed:
                return False
            self.sent += 1
            return True

        reply = self.client.select(GraphQuery(query), 0, Deadline(may_send=counted))
        return reply, self.sent - before


@pytest.fixture
def ask() -> Iterator[Callable[..., Asking]]:
    """Makes clients, which are closed with the test."""
    made = []

    def make(url: str, **more: Any) -> Asking:
        made.append(Asking(url, **more))
        return made[-1]

    yield make
    for each in made:
        each.client.close()


def page(
    data: list[Quad],
    total: int | None = None,
    number: int = 1,
    per_page: int = 100,
    base: str = "http://127.0.0.1/data",
    pattern: QuadPattern | None = None,
) -> bytes:
    asked = pattern or QuadPattern(predicate=NamedNode(f"{E}p"))
    return write_page(
        data, PagePosition(base, asked, number, per_page, len(data) if total is None else total), "application/trig"
    )


def test_every_page_is_a_request_and_the_last_one_ends_it_also_where_it_is_full(
    sites: Callable[..., FragmentSite], ask: Callable[..., Asking]
) -> None:
    for n, pages in ((0, 1), (1, 1), (20, 2), (21, 3)):
        asking = ask(sites(quads(n), per_page=10).url, cached=False)
        asking()
        reply, sent = asking()
        assert (len(reply.rows), sent) == (n, pages)


def test_a_page_is_used_again_until_it_expires_and_then_asked_for_by_its_etag(
    sites: Callable[..., FragmentSite], ask: Callable[..., Asking]
) -> None:
    now = [1_000_000_000]
    site = sites(quads(5), clock=lambda: now[0])
    asking = ask(site.url)
    assert asking()[1] == 2
    assert asking()[1] == 0, "it may be kept for a day"
    asking.time += 90_000
    now[0] += 90_000_000
    assert asking()[1] == 1
    assert len(asking()[0].rows) == 5
    assert site.server.pages_built == 2, "the form and the fragment, which was said to be unchanged"


def test_pages_that_are_not_to_be_used_again_are_asked_for_every_time(
    sites: Callable[..., FragmentSite], ask: Callable[..., Asking]
) -> None:
    asking = ask(sites(quads(5)).url, cached=False)
    asking()
    assert asking()[1] == 1


def test_compressed_pages_are_read(pages: Callable[[PageSaid], Pages], ask: Callable[..., Asking]) -> None:
    server = pages(lambda target: (200, {**TRIG, "Content-Encoding": "gzip"}, gzip.compress(page(quads(3)))))
    with pytest.raises(FetchError, match="add the host"):
        ask(server.url)()
    body: list[bytes] = []
    server = pages(lambda target: (200, {**TRIG, "Content-Encoding": "gzip"}, body[0]))
    body.append(gzip.compress(page(quads(3), base=server.url)))
    assert len(ask(server.url)()[0].rows) == 3


def test_what_the_budget_does_not_pay_for_is_not_sent(
    sites: Callable[..., FragmentSite], ask: Callable[..., Asking]
) -> None:
    asking = ask(sites(quads(50), per_page=10).url, most=3)
    with pytest.raises(NotSentError):
        asking()
    assert asking.sent == 3


HOSTILE = {
    "not a fragment": (b"<http://e/a> <http://e/b> <http://e/c> .", "not a fragment"),
    "no RDF": (b"<html>", "not valid TriG"),
    "a form without a template": (
        b"<http://e/d> <http://www.w3.org/ns/hydra/core#search> [ <http://www.w3.org/ns/hydra/core#template> 1 ] .",
        "no usable template",
    ),
    "a form without roles": (
        b"<http://e/d> <http://www.w3.org/ns/hydra/core#search> "
        b"[ <http://www.w3.org/ns/hydra/core#template> 'http://e/{?s}' ] .",
        "no variable for the object",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_page_that_is_none_is_an_error_that_says_why(
    name: str, pages: Callable[[PageSaid], Pages], ask: Callable[..., Asking]
) -> None:
    body, said = HOSTILE[name]
    with pytest.raises(FetchError, match=said):
        ask(pages(lambda target: (200, TRIG, body)).url)()


def test_a_form_whose_template_is_in_another_graph_is_none(
    pages: Callable[[PageSaid], Pages], ask: Callable[..., Asking]
) -> None:
    text = page(quads(2)).replace(b"hydra/core#template", b"hydra/core#other") + (
        b"<urn:g> { <urn:d> <http://www.w3.org/ns/hydra/core#search> _:b . } "
        b"<urn:h> { <urn:d> <http://www.w3.org/ns/hydra/core#search> <urn:f> . } "
        b'<urn:i> { <urn:f> <http://www.w3.org/ns/hydra/core#template> "http://e/{?subject}" . }'
    )
    with pytest.raises(FetchError, match="no usable template"):
        ask(pages(lambda target: (200, TRIG, text)).url)()


def test_a_page_in_no_rdf_and_an_error_of_the_server_are_errors(
    pages: Callable[[PageSaid], Pages], ask: Callable[..., Asking]
) -> None:
    with pytest.raises(FetchError, match=r"not RDF .content type: text/html"):
        ask(pages(lambda target: (200, {"Content-Type": "text/html"}, b"")).url)()
    with pytest.raises(FetchError, match="503"):
        ask(pages(lambda target: (503, {}, b"")).url)()


def test_another_host_is_followed_only_where_it_is_allowed(
    sites: Callable[..., FragmentSite], pages: Callable[[PageSaid], Pages], ask: Callable[..., Asking]
) -> None:
    there = sites(quads(3))
    here = pages(lambda target: (200, TRIG, page([], base=there.url)))
    with pytest.raises(FetchError, match="add the host to `hosts`"):
        ask(here.url)()
    host = there.url.split("/")[2]
    assert len(ask(here.url, hosts=frozenset([host]))()[0].rows) == 3


def _paging(pages: Callable[..., Pages], count: int, body: Callable[..., Any]) -> Pages:
    """Pages that go on for ever."""
    made: list[Pages] = []

    def said(target: str) -> tuple[int, dict[str, str], bytes]:
        number = int(target.rpartition("page=")[2]) if "page=" in target else 1
        data = body(number)
        place = PagePosition(made[0].url, QuadPattern(predicate=NamedNode(f"{E}p")), number, 10, 10**12)
        text = write_page(data, place, "application/trig").decode().replace(str(10**12), str(count))
        return 200, TRIG, text.encode()

    made.append(pages(said))
    return made[0]


def test_paging_without_an_end_is_ended(pages: Callable[[PageSaid], Pages], ask: Callable[..., Asking]) -> None:
    server = _paging(pages, 30, lambda number: quads(400)[number:])
    with pytest.raises(FetchError, match="do not end"):
        ask(server.url)()
    assert len(server.targets) < 10


def test_pages_without_data_end_a_fragment_and_a_count_that_lies_is_counted(
    pages: Callable[[PageSaid], Pages], ask: Callable[..., Asking]
) -> None:
    asking = ask(_paging(pages, 7_000, lambda number: quads(10) if number == 1 else []).url)
    reply, _ = asking()
    assert len(reply.rows) == 10
    assert asking.client.counts.liars == 1
    assert "1 fragments had a wrong count" in asking.client.warnings()[0]


def test_a_page_that_comes_back_to_itself_is_an_error(
    pages: Callable[[PageSaid], Pages], ask: Callable[..., Asking]
) -> None:
    made: list[Pages] = []

    def said(target: str) -> tuple[int, dict[str, str], bytes]:
        text = write_page(
            quads(10),
            PagePosition(made[0].url, QuadPattern(predicate=NamedNode(f"{E}p")), 1, 10, 20),
            "application/trig",
        )
        return 200, TRIG, text

    made.append(pages(said))
    with pytest.raises(FetchError, match="return to"):
        ask(made[0].url)()


def test_quads_of_another_fragment_are_left_out_and_counted(
    pages: Callable[[PageSaid], Pages], ask: Callable[..., Asking]
) -> None:
    made: list[Pages] = []
    stray = Quad(NamedNode(f"{E}s"), NamedNode(f"{E}other"), Literal("x"))
    made.append(pages(lambda target: (200, TRIG, page([*quads(2), stray], base=made[0].url))))
    asking = ask(made[0].url)
    assert len(asking()[0].rows) == 2
    assert asking.client.counts.strays == 1
    assert any("1 triples did not belong to the fragment" in odd for odd in asking.client.warnings())


def test_blank_nodes_that_join_patterns_are_an_error_and_not_an_empty_answer(
    pages: Callable[[PageSaid], Pages], ask: Callable[..., Asking]
) -> None:
    made: list[Pages] = []

    def said(target: str) -> tuple[int, dict[str, str], bytes]:
        text = page([], base=made[0].url) + b"_:b <http://e/p> 1 ."
        return 200, TRIG, text

    made.append(pages(said))
    assert len(ask(made[0].url)()[0].rows) == 1
    with pytest.raises(FetchError, match="blank node"):
        ask(made[0].url)("SELECT * { ?x <http://e/p> ?y . ?z <http://e/p> ?y . ?x <http://e/p> ?n }")


def test_named_graphs_are_asked_for_by_name(sites: Callable[..., FragmentSite], ask: Callable[..., Asking]) -> None:
    data = list(parse("<a:g> { <a:s> <a:p> 1 } <a:h> { <a:s> <a:p> 2 } <a:g> <a:until> 5 .", format=RdfFormat.TRIG))
    asking = ask(sites(data).url)
    found, _ = asking("SELECT * { GRAPH ?g { ?s <a:p> ?n } ?g <a:until> ?t }")
    assert [text_of(row["n"]) for row in found.rows] == ["1"]
    assert len(asking("SELECT * { GRAPH <a:h> { ?s ?p ?n } }")[0].rows) == 1
    assert len(asking("SELECT * { ?s <a:p> ?n }")[0].rows) == 0, "the default graph is a graph of its own"


@pytest.mark.parametrize(
    "term", ["http://e/x", '"plain"', '"with "quotes""', '"Town"@en', '"1"^^http://www.w3.org/2001/XMLSchema#integer']
)
def test_terms_in_addresses_are_read_as_they_are_written(term: str) -> None:
    found = read_term(term)
    assert found is not None
    assert address_text(found) == term


def test_templates_are_filled_as_they_are_written() -> None:
    pattern = QuadPattern(NamedNode("a:é"), None, Literal("x y"))
    roles = {"subject": "s", "predicate": "p", "object": "o"}
    for template, address in {
        "http://e/{?s,p,o}": "http://e/?s=a%3A%C3%A9&o=%22x%20y%22",
        "http://e/?k=1{&s,p,o}": "http://e/?k=1&s=a%3A%C3%A9&o=%22x%20y%22",
        "http://e/{s}/{o}": "http://e/a%3A%C3%A9/%22x%20y%22",
    }.items():
        assert SearchForm(template, roles).address(pattern) == address


def test_a_source_of_fragments_is_one_line_of_yaml_and_knows_the_price_of_its_pages(
    sites: Callable[..., FragmentSite],
) -> None:
    source = source_of(config_of({"fragments": sites(quads(3)).url, "volatile": f"{E}p"}, "test"))
    fetcher = KeyFetcher(WholeQuery(source.transport.service, ALL), executor=source.transport.executor)
    delivery = fetcher.deliver(Order(0, [()], allowance=10))
    assert (len(cast("list[Any]", delivery.copies[0].value)), delivery.requests) == (3, 2)
    source.transport.close()
