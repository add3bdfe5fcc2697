"""One contract for every source: what is asked for comes back in order, is paid for, and a change shows."""

import pytest
from pyoxigraph import Literal, NamedNode, Quad, Store

from maintenance.service.embedded import Embedded
from maintenance.service.endpoint import Price
from maintenance.service.memory import InMemory
from policies.errors import ConfigError, EndpointError

BASE = "http://example.org/"
FOLLOWERS = NamedNode(BASE + "followers")
STATIC = f"?topic <{BASE}discussedBy> ?user"
DYNAMIC = f"?user <{BASE}followers> ?n"


def node(name):
    return NamedNode(BASE + name)


class Memory:
    """The fixture's source in memory."""

    def __init__(self, price):
        self.endpoint = InMemory({node("jazz"): [node("ann"), node("bob")]}, {node("ann"): 1, node("bob"): 2}, price)

    def change(self, user, value):
        self.endpoint.values[node(user)] = value


class Oxigraph:
    """The same in a pyoxigraph store."""

    def __init__(self, price):
        self.store = Store()
        for user, value in (("ann", 1), ("bob", 2)):
            self.store.add(Quad(node("jazz"), node("discussedBy"), node(user)))
            self.store.add(Quad(node(user), FOLLOWERS, Literal(value)))
        self.endpoint = Embedded(self.store, STATIC, DYNAMIC, sn="topic", sr="user", price=price)

    def change(self, user, value):
        for quad in list(self.store.quads_for_pattern(node(user), FOLLOWERS, None)):
            self.store.remove(quad)
        self.store.add(Quad(node(user), FOLLOWERS, Literal(value)))


@pytest.fixture(params=[Memory, Oxigraph])
def source(request):
    return request.param(Price(per_request=2.0, per_key=0.5))


def test_copies_come_in_the_order_asked(source):
    both = source.endpoint.fetch([node("ann"), node("bob")], 0).copies
    turned = source.endpoint.fetch([node("bob"), node("ann")], 0).copies
    assert [copy.value for copy in both] == [copy.value for copy in reversed(turned)]
    assert both[0].value != both[1].value


def test_every_request_is_paid_for(source):
    fetched = source.endpoint.fetch([node("ann"), node("bob")], 0)
    assert (fetched.requests, fetched.spent) == (2, 5.0)
    assert source.endpoint.expand(node("jazz"), 0).spent == 2.5
    assert source.endpoint.requests == 3


def test_a_change_shows_and_its_absence_too(source):
    before = source.endpoint.fetch([node("ann")], 0).copies[0].value
    assert source.endpoint.fetch([node("ann")], 1).copies[0].value == before
    source.change("ann", 7)
    assert source.endpoint.fetch([node("ann")], 2).copies[0].value != before


def test_an_sn_expands_to_its_srs_with_the_values_that_fetching_gives(source):
    copies = source.endpoint.expand(node("jazz"), 0).copies
    assert set(copies) == {node("ann"), node("bob")}
    assert copies[node("ann")].value == source.endpoint.fetch([node("ann")], 0).copies[0].value


def test_what_the_source_does_not_have_is_an_answer_too(source):
    assert source.endpoint.expand(node("polka"), 0).copies == {}
    assert not source.endpoint.fetch([node("nobody")], 0).copies[0].value


def test_batches_are_one_request_each():
    source = Oxigraph(Price(batch=10)).endpoint
    assert source.fetch([node("ann"), node("bob")], 0).requests == 1


def test_an_embedded_value_keeps_its_terms():
    assert Oxigraph(Price()).endpoint.fetch([node("bob")], 0).copies[0].value == ((("n", Literal(2)),),)


@pytest.mark.parametrize("key", ["x> } ?s ?p ?o . { <y", "a b", 'q"uote', "new\nline"])
def test_no_key_changes_what_a_query_means(key):
    store = Store()
    store.add(Quad(node("ann"), FOLLOWERS, Literal(1)))
    endpoint = Embedded(store, "?user ?any ?user", DYNAMIC, sn="user", sr="user")
    assert endpoint.fetch([Literal(key)], 0).copies[0].value == ()


def test_a_pattern_that_is_no_sparql_is_refused_at_once():
    with pytest.raises(ConfigError, match="SERVICE pattern is no SPARQL"):
        Embedded(Store(), "?a ?b", DYNAMIC, sn="a", sr="b")


def test_a_key_that_is_no_term_is_refused():
    with pytest.raises(EndpointError, match="must be an IRI or a literal"):
        Oxigraph(Price()).endpoint.fetch(["ann"], 0)
