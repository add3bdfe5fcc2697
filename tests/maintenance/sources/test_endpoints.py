"""One contract for every source: what is asked for comes back in order, is paid for, and a change shows."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest
from pyoxigraph import Literal, NamedNode, Quad
from servers import Documents, Oxigraph

from freshkeeper.maintenance.fetching.endpoint import Delivery, Order, Price
from freshkeeper.maintenance.fetching.fetcher import deliver
from freshkeeper.maintenance.fetching.function_source import fetcher_of
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.service_split import split
from freshkeeper.maintenance.sources.memory import InMemory
from freshkeeper.maintenance.sources.pattern_source import pattern_fetcher
from freshkeeper.maintenance.sources.source_config import config_of
from freshkeeper.maintenance.sources.sources import EmbeddedSource, source_of
from freshkeeper.maintenance.sources.transport import Transport

BASE = "http://example.org/"
FOLLOWERS = NamedNode(BASE + "followers")
STATIC = f"?topic <{BASE}discussedBy> ?user"
DYNAMIC = f"?user <{BASE}followers> ?n"
QUERY = f"""SELECT * FROM NAMED WINDOW <{BASE}w> ON <{BASE}s> [RANGE PT4S STEP PT1S]
WHERE {{ WINDOW <{BASE}w> {{ ?post <{BASE}topic> ?topic }} SERVICE <{BASE}blog> {{ {STATIC} . {DYNAMIC} }} }}"""
USERS = {"ann": 1, "bob": 2}
PRICE: dict[str, Any] = {"per_request": 2.0, "per_key": 0.5}


def node(name: str) -> NamedNode:
    return NamedNode(BASE + name)


def quads() -> Iterator[Quad]:
    for user, value in USERS.items():
        yield Quad(node("jazz"), node("discussedBy"), node(user))
        yield Quad(node(user), FOLLOWERS, Literal(value))


class Memory:
    """The fixture's source in memory."""

    def __init__(self, price: Price) -> None:
        self.endpoint = InMemory(
            {node("jazz"): [node("ann"), node("bob")]}, {node(u): n for u, n in USERS.items()}, price
        )

    key = staticmethod(node)

    def change(self, user: str, value: int) -> None:
        self.endpoint.values[node(user)] = value

    def close(self) -> None:
        pass


class Pattern:
    """The same as a SERVICE pattern over a store in this process."""

    def __init__(self, price: Price) -> None:
        (service,) = parse(QUERY).services
        parts = split(service, [FOLLOWERS.value], ["post", "topic"])
        self.endpoint = pattern_fetcher(parts, self.transport(), price)

    def key(self, name: str) -> tuple[NamedNode]:
        return (node(name),)

    def transport(self) -> Transport:
        self.source = EmbeddedSource(list(quads()))
        return Transport.in_process(self.source)

    def change(self, user: str, value: int) -> None:
        store = self.source.store
        for quad in list(store.quads_for_pattern(node(user), FOLLOWERS, None)):
            store.remove(quad)
        store.add(Quad(node(user), FOLLOWERS, Literal(value)))

    def close(self) -> None:
        self.endpoint.source.transport.close()


class OverHttp(Pattern):
    """The same over HTTP, from a SPARQL server."""

    method = "auto"

    def transport(self) -> Transport:
        self.server = Oxigraph(" ".join(f"{q.subject} {q.predicate} {q.object} ." for q in quads()))
        return source_of(config_of({"sparql": self.server.url, "method": self.method}, "test")).transport

    def change(self, user: str, value: int) -> None:
        self.server.update(
            f"DELETE WHERE {{ {node(user)} ?p ?o }} ; INSERT DATA {{ {node(user)} {FOLLOWERS} {value} }}"
        )

    def close(self) -> None:
        super().close()
        self.server.stop()


class OverPost(OverHttp):
    """The same by POST."""

    method = "post"


class OverJson(Pattern):
    """The same over HTTP, from documents in JSON."""

    def transport(self) -> Transport:
        found = {f"/users/{user}": {"name": user, "followers": {"count": value}} for user, value in USERS.items()}
        self.server = Documents({**found, "/topics/jazz": {"users": [{"id": "ann"}, {"id": "bob"}]}})
        user: dict[str, Any] = {"subject": f"{BASE}user/{{id}}", "url": f"{self.server.url}/users/{{id}}"}
        topic: dict[str, object] = {"subject": f"{BASE}topic/{{id}}", "url": f"{self.server.url}/topics/{{id}}"}
        user["predicates"] = {FOLLOWERS.value: "followers.count"}
        topic["predicates"] = {f"{BASE}discussedBy": {"path": "users.id", "iri": f"{BASE}user/{{id}}"}}
        return source_of(config_of({"resources": [user, topic]}, "test")).transport

    def key(self, name: str) -> tuple[NamedNode]:
        return (node(f"{'user' if name in ('ann', 'bob', 'nobody') else 'topic'}/{name}"),)

    def change(self, user: str, value: int) -> None:
        self.server.documents[f"/users/{user}"] = {"followers": {"count": value}}

    def close(self) -> None:
        super().close()
        self.server.stop()


Made: TypeAlias = Memory | Pattern


@pytest.fixture(params=[Memory, Pattern, OverHttp, OverPost, OverJson])
def source(request: pytest.FixtureRequest) -> Iterator[Made]:
    made = request.param(Price(**PRICE))
    yield made
    made.close()


def fetch(source: Made, *users: str, now: int = 0) -> Delivery:
    return deliver(fetcher_of(source.endpoint), Order(now, [source.key(user) for user in users]))


def expand(source: Made, topic: str, now: int = 0) -> Delivery:
    return deliver(fetcher_of(source.endpoint), Order(now, [], [source.key(topic)]))


def test_copies_come_in_the_order_asked(source: Made) -> None:
    both = fetch(source, "ann", "bob").copies
    turned = fetch(source, "bob", "ann").copies
    assert [copy.value for copy in both] == [copy.value for copy in reversed(turned)]
    assert both[0].value != both[1].value


def test_every_request_is_paid_for(source: Made) -> None:
    fetched = fetch(source, "ann", "bob")
    assert (fetched.requests, fetched.spent) == (2, 5.0)
    assert expand(source, "jazz").spent == 2.5
    assert source.endpoint.requests == 3


def test_a_change_shows_and_its_absence_too(source: Made) -> None:
    before = fetch(source, "ann").copies[0].value
    assert fetch(source, "ann", now=1).copies[0].value == before
    source.change("ann", 7)
    assert fetch(source, "ann", now=2).copies[0].value != before


def test_an_sn_expands_to_its_srs_with_the_values_that_fetching_gives_or_to_be_fetched(source: Made) -> None:
    copies = expand(source, "jazz").expanded[0].copies
    assert set(copies) == {source.key("ann"), source.key("bob")}
    assert copies[source.key("ann")].error or copies[source.key("ann")].value == fetch(source, "ann").copies[0].value


def test_what_the_source_does_not_have_is_an_answer_too(source: Made) -> None:
    (expanded,) = expand(source, "polka").expanded
    assert (expanded.copies, expanded.error) == ({}, None)
    (copy,) = fetch(source, "nobody").copies
    assert not copy.value
    assert copy.error is None


def test_batches_are_one_request_each() -> None:
    assert fetch(Pattern(Price(batch=10)), "ann", "bob").requests == 1


def test_a_batch_over_http_brings_what_single_requests_bring() -> None:
    source = OverHttp(Price(batch=10))
    try:
        both = fetch(source, "ann", "nobody", "bob")
        assert (both.requests, both.spent) == (1, 1.0)
        alone = [fetch(source, user).copies[0] for user in ("ann", "nobody", "bob")]
        assert list(both.copies) == alone
    finally:
        source.close()


def test_an_embedded_value_keeps_its_terms() -> None:
    assert fetch(Pattern(Price()), "bob").copies[0].value == ((Literal(2),),)


@pytest.mark.parametrize("key", ["x> } ?s ?p ?o . { <y", "a b", 'q"uote', "new\nline"])
def test_no_key_changes_what_a_query_means(key: str) -> None:
    source = Pattern(Price())
    (copy,) = deliver(fetcher_of(source.endpoint), Order(0, [(Literal(key),)])).copies
    assert (copy.value, copy.error) == ((), None)


def test_prices_add_up_as_on_paper() -> None:
    price = Price(per_request=0.1, per_key=0.01)
    assert [price.of(keys) for keys in (3, 7)] == [0.33, 0.77]
