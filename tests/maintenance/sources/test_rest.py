"""SERVICE patterns on JSON documents over HTTP."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad
from servers import Documents, eventually
from terms import rows_of, text_of

from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.endpoint import Copy, Delivery, Expanded, Order
from freshkeeper.maintenance.fetching.fetch_jobs import run_until_complete
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.service_split import split
from freshkeeper.maintenance.query.syntax.query_errors import SplitError
from freshkeeper.maintenance.runtime.embedded_query import continuous_query, run
from freshkeeper.maintenance.sources.json_documents import Template
from freshkeeper.maintenance.sources.pattern_source import pattern_fetcher
from freshkeeper.maintenance.sources.source_config import config_of
from freshkeeper.maintenance.sources.sources import source_of
from freshkeeper.maintenance.streams.batch import Elements

E = "http://example.org/"
TOPIC_AND_USER = "?topic :discussedBy ?user . ?user :followers ?n"
USERS = {
    "/users/ann": {"name": "Ann", "stats": {"followers": 10}, "tags": ["a", "b"], "ok": True, "score": 0.5},
    "/users/bob": {"name": "Bob", "stats": {"followers": 20}, "boss": "ann", "nothing": None},
}
TOPICS = {"/topics/jazz": {"users": [{"id": "ann"}, {"id": "bob"}]}, "/topics/folk": {"users": []}}


class Site:
    """A site of documents and a SERVICE pattern over it."""

    def __init__(self, server: Documents, pattern: str = TOPIC_AND_USER, gives: str = "topic", **more: str) -> None:
        predicates = {
            f"{E}name": "name",
            f"{E}followers": "stats.followers",
            f"{E}tag": "tags",
            f"{E}ok": "ok",
            f"{E}score": "score",
            f"{E}boss": {"path": "boss", "iri": f"{E}user/{{id}}"},
        }
        user = {"subject": f"{E}user/{{id}}", "url": f"{server.url}/users/{{id}}", "predicates": predicates}
        users = {f"{E}discussedBy": {"path": "users.id", "iri": f"{E}user/{{id}}"}}
        topic = {"subject": f"{E}topic/{{id}}", "url": f"{server.url}/topics/{{id}}", "predicates": users}
        self.server = server
        self.source = source = source_of(config_of({"resources": [user, topic], "retries": 0, **more}, "test"))
        text = f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
            WHERE {{ WINDOW :w {{ ?post :about ?{gives} }} SERVICE :site {{ {pattern} }} }}"""
        self.text = text
        (service,) = parse(text).services
        volatile = [f"{E}{name}" for name in ("followers", "tag", "score")]
        self.endpoint = pattern_fetcher(split(service, volatile, ["post", gives]), source.transport, source.price)

    def user(self, name: str) -> tuple[NamedNode]:
        return (NamedNode(f"{E}user/{name}"),)

    def fetch(self, *keys: tuple[Literal | NamedNode], now: int = 0) -> Delivery:
        return self.endpoint.deliver(Order(now, keys))

    def expand(self, topic: str, allowance: float = math.inf) -> tuple[Expanded, float]:
        order = Order(0, [], [(NamedNode(f"{E}topic/{topic}"),)], allowance)
        delivery = self.endpoint.deliver(order)
        return delivery.expanded[0], delivery.spent


@pytest.fixture
def site(documents: Callable[[Mapping[str, object]], Documents]) -> Iterator[Callable[..., Site]]:
    made = []

    def make(*arguments: str, **more: str) -> Site:
        made.append(Site(documents({**USERS, **TOPICS}), *arguments, **more))
        return made[-1]

    yield make
    for each in made:
        each.endpoint.source.transport.close()


def values(copy: Copy) -> list[str]:
    rows: Any = copy.value
    return sorted(term.value for row in rows for term in row)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("?user :followers ?n", [Literal(10)]),
        ("?user :tag ?n", [Literal("a"), Literal("b")]),
        ("?user :score ?n . ?user :ok true", [Literal(0.5)]),
        ("?user :score ?n FILTER(?n > 1)", []),
    ],
)
def test_values_have_the_types_that_json_gives_them(
    pattern: str, found: list[Literal], site: Callable[..., Site]
) -> None:
    blog = site(pattern, gives="user")
    (copy,) = blog.fetch(blog.user("ann")).copies
    rows: Any = copy.value
    assert [row[0] for row in rows] == found


def test_an_expansion_reads_one_document_and_leaves_the_others_for_later(site: Callable[..., Site]) -> None:
    blog = site()
    expanded, spent = blog.expand("jazz")
    assert (set(expanded.copies), spent) == ({blog.user("ann"), blog.user("bob")}, 1.0)
    assert all("was not read" in str(copy.error) for copy in expanded.copies.values())
    assert [path for path, _ in blog.server.asked] == ["/topics/jazz"]
    (copy,) = blog.fetch(blog.user("bob")).copies
    assert values(copy) == ["20"]


def test_where_the_edges_need_the_linked_documents_they_are_read_and_paid(site: Callable[..., Site]) -> None:
    blog = site("?topic :discussedBy ?user . ?user :name ?name . ?user :followers ?n")
    expanded, spent = blog.expand("jazz")
    assert {values(copy)[0] for copy in expanded.copies.values()} == {"10", "20"}
    assert spent == len(blog.server.asked) == 3


def test_linked_documents_that_the_allowance_does_not_pay_for_are_an_error_that_says_so(
    site: Callable[..., Site],
) -> None:
    blog = site("?topic :discussedBy ?user . ?user :name ?name . ?user :followers ?n")
    expanded, spent = blog.expand("jazz", allowance=2)
    assert "it takes 2 documents more to find its edges" in str(expanded.error)
    assert spent == len(blog.server.asked) == 2


def test_a_key_of_no_kind_has_no_data_and_costs_nothing(site: Callable[..., Site]) -> None:
    blog = site("?user :followers ?n", gives="user")
    delivery = blog.fetch((Literal("ann"),), (NamedNode("http://other/ann"),), (NamedNode(f"{E}user/a/b"),))
    assert [copy.value for copy in delivery.copies] == [(), (), ()]
    assert [copy.error for copy in delivery.copies] == [None] * 3
    assert (delivery.spent, blog.server.asked) == (0.0, [])


def test_what_is_not_there_is_an_answer(site: Callable[..., Site]) -> None:
    blog = site("?user :followers ?n", gives="user")
    (copy,) = blog.fetch(blog.user("nobody")).copies
    assert (copy.value, copy.error) == ((), None)


def test_an_unchanged_document_is_not_sent_twice(site: Callable[..., Site]) -> None:
    blog = site("?user :followers ?n", gives="user")
    first = blog.fetch(blog.user("ann")).copies[0]
    sent = blog.server.bytes
    assert blog.fetch(blog.user("ann"), now=1).copies[0].value == first.value
    assert (blog.server.bytes, len(blog.server.asked)) == (sent, 2)
    blog.server.documents["/users/ann"] = {"stats": {"followers": 11}}
    assert values(blog.fetch(blog.user("ann"), now=2).copies[0]) == ["11"]


def test_headers_say_when_a_document_changed_and_until_when_it_holds(site: Callable[..., Site]) -> None:
    blog, other = (site("?user :followers ?n", gives="user", knowledge=k) for k in ("published", "learned"))
    blog.server.headers = other.server.headers = {
        "Date": "Wed, 01 Jul 2015 12:00:00 GMT",
        "Last-Modified": "Wed, 01 Jul 2015 11:59:00 GMT",
        "Cache-Control": "public, max-age=90",
        "Age": "30",
    }
    (copy,) = blog.fetch(blog.user("ann"), now=100_000).copies
    assert (copy.modified, copy.expires) == (40_000, 160_000)
    (copy,) = other.fetch(other.user("ann"), now=100_000).copies
    assert (copy.modified, copy.expires) == (UNKNOWN, UNKNOWN), "where rates are learned, headers are not believed"


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Content-Type": "text/html"}, "the source answered with text/html, not with JSON"),
        ({"Content-Length": "5"}, "the answer is no JSON"),
    ],
)
def test_what_is_no_json_is_an_error(headers: dict[str, str], said: str, site: Callable[..., Site]) -> None:
    blog = site("?user :followers ?n", gives="user")
    blog.server.headers = headers
    (copy,) = blog.fetch(blog.user("ann")).copies
    assert said in str(copy.error)
    assert eventually(lambda: len(blog.server.asked) == 1)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_no_id_leads_to_another_place(identity: str) -> None:
    url = Template.of("http://host/users/{id}?full=1").fill(identity)
    assert url.startswith("http://host/users/")
    assert url.endswith("?full=1")
    assert not set(url[len("http://host/users/") : -len("?full=1")]) & set("/?#&= \r\n")
    assert Template.of("http://host/users/{id}?full=1").match(url) == identity
    assert NamedNode(Template.of("http://e/{id}").fill(identity))


@pytest.mark.parametrize("identity", ["..", ".", ""])
def test_an_id_that_is_a_step_in_a_path_is_no_document(identity: str, site: Callable[..., Site]) -> None:
    blog = site("?user :followers ?n", gives="user")
    assert blog.fetch((NamedNode(f"{E}user/{identity}"),)).spent == 0
    assert blog.server.asked == []


def test_a_pattern_without_keys_cannot_be_asked_of_documents(site: Callable[..., Site]) -> None:
    blog = site("?user :followers ?n", gives="user")
    reply = run_until_complete(blog.endpoint.source.transport.query("SELECT * { ?s ?p ?o }", 0))
    assert "documents are asked for by key" in str(reply.error)


def test_a_pattern_that_no_key_parts_is_refused_where_documents_are_about_one_key_each() -> None:
    user = {"subject": f"{E}user/{{id}}", "url": "http://127.0.0.1:9/{id}", "predicates": {f"{E}name": "name"}}
    source = source_of(config_of({"resources": [user], "volatile": f"{E}name"}, "test"))
    text = f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
        WHERE {{ WINDOW :w {{ ?post :about ?t }} SERVICE :site {{ ?t :boss ?u . ?u ?p ?n . ?t ?q ?m }} }}"""
    with pytest.raises(SplitError, match="its documents are about one key each"):
        continuous_query(text, {f"{E}site": source})
    source.transport.close()


@pytest.mark.parametrize(("bob", "answers"), [(USERS["/users/bob"], ["10", "20"]), ({"boss": "\ud83d"}, [])])
def test_asked_always_documents_that_others_lead_to_are_read_too_and_a_bad_one_fails_its_topic(
    bob: dict[str, object], answers: list[str], site: Callable[..., Site]
) -> None:
    blog = site(volatile=f"{E}followers")
    blog.server.documents["/users/bob"] = bob
    query = continuous_query(blog.text, {f"{E}site": blog.source}, fetch="always")
    post = Quad(*(NamedNode(E + name) for name in ("post", "about", "topic/jazz")))
    _, result, *_ = run(query, {f"{E}s": Elements([(1000, post), (3000, post)])})
    assert sorted(text_of(row[result.variables.index("n")]) for row in rows_of(result)) == answers
    assert result.errors == (not answers)
