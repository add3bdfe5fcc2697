"""Keys that a source refuses: the bad ones are found, left alone, and cost the others nothing but a few requests."""

import math
from collections.abc import Callable, Iterator, Sequence

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import NamedNode
from servers import MakeProxy, Oxigraph, Proxy

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.engine.service_join.edge_refreshes import EdgeRefreshingEndpoint
from freshkeeper.maintenance.fetching.backoff import LONGEST_BACKOFF, KeyBackoff
from freshkeeper.maintenance.fetching.endpoint import Copy, Delivery, Expanded, Order, Price
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.exchange import HttpResponse
from freshkeeper.maintenance.fetching.http.response_status import check
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.service_split import split
from freshkeeper.maintenance.sources.pattern_source import PatternFetcher, pattern_fetcher
from freshkeeper.maintenance.sources.source_config import config_of
from freshkeeper.maintenance.sources.sources import source_of
from freshkeeper.maintenance.sources.transport import GraphQuery, Solutions, Transport
from freshkeeper.policies.base import Case
from freshkeeper.policies.registry import make

E = "http://example.org/"
QUERY = f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""
(SERVICE,) = parse(QUERY).services
PARTS = split(SERVICE, [f"{E}followers"], ["post", "topic"])
USERS = [f"user{n:02}" for n in range(12)]
DATA = "@prefix : <http://example.org/> .\n" + "".join(
    f":t_{u} :discussedBy :{u} . :{u} :followers 1 .\n" for u in USERS
)


def node(name: str) -> tuple[NamedNode]:
    return (NamedNode(E + name),)


@pytest.fixture(scope="module")
def oxigraph() -> Iterator[Oxigraph]:
    server = Oxigraph(DATA)
    yield server
    server.stop()


@pytest.fixture
def asking(proxied: MakeProxy) -> Iterator[Callable[..., tuple[PatternFetcher, Proxy]]]:
    """Makes an endpoint that refuses what names a poison, with the proxy before it."""
    made = []

    def make(
        *poison: str, batch: int = 12, status: bytes = b"400 Bad Request", **more: int
    ) -> tuple[PatternFetcher, Proxy]:
        proxy = proxied()
        proxy.poison, proxy.status = poison, status
        source = source_of(config_of({"sparql": proxy.url, "batch": batch, "retries": 0, **more}, "test"))
        made.append(source.transport)
        return pattern_fetcher(PARTS, source.transport, source.price), proxy

    yield make
    for transport in made:
        transport.close()


def fetch(endpoint: PatternFetcher, users: list[str] = USERS, allowance: float = math.inf) -> Delivery:
    return endpoint.deliver(Order(0, [node(user) for user in users], (), allowance))


def test_one_bad_key_of_a_batch_is_found_and_the_others_have_their_answers(
    asking: Callable[..., tuple[PatternFetcher, Proxy]],
) -> None:
    endpoint, proxy = asking("user07")
    delivery = fetch(endpoint)
    assert [user for user, copy in zip(USERS, delivery.copies, strict=True) if copy.error] == ["user07"]
    assert delivery.copies[7].error == "refused: 400 Bad Request: no such key"
    assert delivery.requests == delivery.spent == proxy.count <= 9
    again = fetch(endpoint)
    assert again.copies[7].error == "not sent: the source refused it, so it is asked for again after 1 evaluations"
    assert (again.requests, again.copies[0].error) == (1, None), "the others are together again"


def test_a_bad_key_is_asked_for_alone_and_ever_more_seldom(
    asking: Callable[..., tuple[PatternFetcher, Proxy]],
) -> None:
    endpoint, proxy = asking("user07")
    fetch(endpoint)
    asked = []
    for order in range(2, 70):
        before = proxy.count
        delivery = fetch(endpoint)
        assert sum(copy.error is None for copy in delivery.copies) == 11
        asked += [order] * (proxy.count - before - 1)
    assert asked == [3, 7, 15, 31, 63]
    proxy.poison = ()
    found = [fetch(endpoint).copies[7].error for _ in range(LONGEST_BACKOFF)]
    assert None in found
    assert found[-1] is None, "when the source takes it, it is a key like any other"
    assert fetch(endpoint).requests == 1


@pytest.mark.parametrize("status", [b"400 Bad Request", b"404 Not Found", b"414 URI Too Long", b"422 Unprocessable"])
def test_a_refused_key_does_not_open_the_breaker(
    status: bytes, asking: Callable[..., tuple[PatternFetcher, Proxy]]
) -> None:
    endpoint, proxy = asking("user07", batch=1, failures=1, status=status)
    delivery = fetch(endpoint)
    assert [copy.error is None for copy in delivery.copies].count(True) == 11
    assert endpoint.capacity(0) == math.inf
    assert proxy.count == 12


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"403 Forbidden", b"407 Proxy Authentication Required"])
def test_a_source_that_wants_no_request_at_all_opens_it_and_its_batches_stay_whole(
    status: bytes, asking: Callable[..., tuple[PatternFetcher, Proxy]]
) -> None:
    endpoint, proxy = asking("user", failures=1, status=status)
    delivery = fetch(endpoint)
    assert {copy.error for copy in delivery.copies} == {f"refused: {status.decode()}: no such key"}
    assert (proxy.count, endpoint.capacity(0)) == (1, 0)


@pytest.mark.parametrize("headers", [{}, {"retry-after": "7"}])
def test_what_a_status_says_of_key_and_source(headers: dict[str, str]) -> None:
    for status in range(400, 600):
        with pytest.raises(FetchError) as fault:
            check(HttpResponse(status, "No", headers, b""), lambda: 0.0)
        passing = status in (408, 425, 429, 500, 502, 503, 504)
        assert fault.value.again == passing
        assert fault.value.refused == (status < 500 and not passing and status not in (401, 403, 407))
        assert fault.value.wait == (7 if headers and (passing or status == 403) else None)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("allowance", range(1, 10))
def test_halves_are_paid_within_the_allowance_and_go_on_with_the_next_order(
    allowance: int, expanded: bool, asking: Callable[..., tuple[PatternFetcher, Proxy]]
) -> None:
    endpoint, proxy = asking("user07")
    answered: set[int] = set()
    for _ in range(14):
        before = proxy.count
        keys = [node(f"t_{user}" if expanded else user) for user in USERS]
        order = Order(0, () if expanded else keys, keys if expanded else (), allowance)
        delivery = endpoint.deliver(order)
        found: Sequence[Copy | Expanded] = delivery.expanded if expanded else delivery.copies
        answered |= {n for n, each in enumerate(found) if each.error is None}
        assert delivery.spent == delivery.requests == proxy.count - before <= allowance
    assert answered == set(range(12)) - {7}


@pytest.mark.parametrize(("policy", "case"), [("lru", Case.BGP), ("gain", Case.BGP), ("ibm", Case.AGGREGATE)])
@pytest.mark.parametrize("wrapped", [False, True])
def test_bad_keys_take_no_place_in_the_budget_of_good_ones(
    policy: str, case: Case, wrapped: bool, asking: Callable[..., tuple[PatternFetcher, Proxy]]
) -> None:
    bad = USERS[::2]
    endpoint, proxy = asking(*bad, batch=1, failures=5)
    asked = EdgeRefreshingEndpoint(endpoint) if wrapped else endpoint
    manager = Manager(WindowSpec(4000, 1000), asked, make(policy), BudgetRule.of(6), Learned(), case)
    for n in range(1, 20):
        manager.evaluate(1000 * n, [(1000 * n, node(f"t_{user}")) for user in USERS])
    assert manager.ledger.spent == proxy.count
    refused = sum(any(user in head for user in bad) for head in proxy.heads)
    assert refused <= 6 * 5, "each at 1, 3, 7, 15 and so on"
    assert proxy.count - refused >= 6 * 14
    assert all(any(user in head for head in proxy.heads) for user in USERS)


class Picky:
    """A service without a network that refuses requests with bad keys."""

    def __init__(self, bad: set[tuple[NamedNode]]) -> None:
        self.bad, self.sent, self.keys = bad, 0, 0

    def select(self, query: GraphQuery, now: int, deadline: Deadline) -> Solutions:
        self.sent, self.keys = self.sent + 1, self.keys + len(query.keys)
        if any(key in self.bad for key in query.keys):
            raise FetchError("refused: 400", refused=True)
        return Solutions()

    def close(self) -> None:
        pass


@settings(max_examples=examples(200))
@given(
    st.sets(st.integers(0, 29), max_size=30),
    st.integers(1, 12),
    st.sampled_from([(1.0, 0.0), (0.5, 0.25), (0.0, 0.1), (2.0, 1.0)]),
    st.lists(st.tuples(st.sets(st.integers(0, 29)), st.floats(0, 40)), min_size=1, max_size=30),
)
def test_whatever_is_refused_no_order_costs_more_than_it_may_and_good_keys_come_through(
    bad: set[int], batch: int, prices: tuple[float, float], orders: list[tuple[set[int], float]]
) -> None:
    service = Picky({node(str(n)) for n in bad})
    price = Price(*prices, batch)
    endpoint = pattern_fetcher(PARTS, Transport(service), price)
    for wanted, allowance in orders:
        sent, keys = service.sent, service.keys
        delivery = endpoint.deliver(Order(0, [node(str(n)) for n in sorted(wanted)], (), allowance))
        assert delivery.spent == price.paid(service.sent - sent, service.keys - keys) <= allowance
        for n, copy in zip(sorted(wanted), delivery.copies, strict=True):
            assert copy.error is not None or n not in bad
    final = endpoint.deliver(Order(0, [node(str(n)) for n in range(30)]))
    assert {n for n, copy in enumerate(final.copies) if copy.error is None} == set(range(30)) - bad


def test_what_is_asked_for_no_more_is_forgotten() -> None:
    backoff = KeyBackoff()
    for n in range(10 * LONGEST_BACKOFF):
        backoff.begin_order()
        backoff.request_failed([(Kind.MISS, n)])
    assert len(list(backoff.keys_in_backoff())) <= 2
    assert len(backoff._failures) < 4 * LONGEST_BACKOFF
