"""A source that fails: evaluations keep their step, freshness is honest, every request is paid, and it recovers."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from pyoxigraph import NamedNode
from servers import MakeProxy, Oxigraph, Proxy, eventually, numbered
from terms import text_of

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.fetching.dispatcher import LIMITER_PATIENCE_S, Dispatcher, RequestOptions
from freshkeeper.maintenance.fetching.endpoint import PENDING, Copy, Order, Price
from freshkeeper.maintenance.fetching.fetch_errors import kind_of
from freshkeeper.maintenance.fetching.http.exchange import ConnectionPool
from freshkeeper.maintenance.fetching.rate_limiter import Breaker, Limit, Rate, RateLimiter
from freshkeeper.maintenance.fetching.requests import NO_TIME, FetchReply, FetchRequest, SentRequest
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.service_split import Split, split
from freshkeeper.maintenance.sources.pattern_source import pattern_fetcher
from freshkeeper.maintenance.sources.sparql_over_http import SparqlOverHttp
from freshkeeper.maintenance.sources.transport import Transport, WholeQuery
from freshkeeper.policies.registry import make

E = "http://example.org/"
QUERY = f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""
DEADLINE, TIMEOUT, MARGIN = 0.2, 0.6, 0.5
"""Seconds: what an evaluation waits, what a request may take, what the machine may add."""


def parts() -> Split:
    (service,) = parse(QUERY).services
    return split(service, [f"{E}followers"], ["post", "topic"])


def dispatcher_to(
    url: str,
    retries: int = 0,
    breaker: Breaker | None = None,
    limits: list[Limit] | tuple[()] = (),
    timeout: float = TIMEOUT,
    **more: Any,
) -> Transport:
    service = SparqlOverHttp(url, pool=ConnectionPool(max_bytes=more.pop("max_bytes", 300_000)))
    limiter = RateLimiter(limits, breaker or Breaker(failures=10**6))
    options = RequestOptions(8, timeout, more.pop("deadline", DEADLINE), retries)
    return Transport(service, Dispatcher(limiter, options, abort=service.close, **more))


class FedView:
    """A view of the blog, fed over HTTP."""

    def __init__(
        self,
        transport: Transport,
        budget: BudgetRule | Ledger | int = 3,
        price: Price | None = None,
        audit: float = 0,
    ) -> None:
        assert transport.dispatcher is not None
        self.dispatcher = transport.dispatcher
        self.endpoint = pattern_fetcher(parts(), transport, price or Price())
        window, rule = WindowSpec(4000, 1000), BudgetRule.of(budget) if isinstance(budget, int) else budget
        self.manager = Manager(window, self.endpoint, make("lru"), rule, Learned(), capacity=100, audit=audit)
        self.now = 0

    def evaluate(self, *topics: str) -> tuple[Evaluation, float]:
        """The next evaluation, and the seconds that it took."""
        self.now += 1000
        sns = [(self.now, (node(topic),)) for topic in topics]
        began = time.monotonic()
        found = self.manager.evaluate(self.now, sns)
        return found, time.monotonic() - began

    @property
    def spent(self) -> float:
        return float(self.manager.ledger.spent)


def node(name: str) -> NamedNode:
    return NamedNode(E + name)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("source")]


@pytest.fixture
def keep() -> Iterator[Callable[..., FedView]]:
    made: list[Transport] = []

    def make(transport: Transport, *arguments: Any, **options: Any) -> FedView:
        made.append(transport)
        return FedView(transport, *arguments, **options)

    yield make
    for transport in made:
        transport.close()


"""Faults, and what is said of them."""
FAULTS = {
    "slow": "pending: the answer is late",
    "stall": "pending: the answer is late",
    "busy": "limited: 429 Too Many Requests: busy",
    "busy-date": "limited: 503 Service Unavailable: busy",
    "broken": "server: 500 Internal Server Error: out of memory",
    "reset": "connection: it broke: Connection reset by peer",
    "cut": "malformed: the answer ends 9 bytes before its end",
    "truncated": "malformed: the answer is no SPARQL result: Parser error",
    "kind": "malformed: the source answered with text/plain, not with SPARQL results in JSON",
    "html": "malformed: the source answered with text/html, not with SPARQL results in JSON",
    "endless": "too large: the answer is longer than 0.3 MB, the source's max_size",
}
WAITING = ("pending: ", "not sent: ")


@pytest.mark.parametrize("fault", FAULTS)
def test_evaluations_keep_their_step_and_stay_honest_while_the_source_fails(
    fault: str, oxigraph: Oxigraph, proxied: MakeProxy, keep: Callable[..., FedView]
) -> None:
    proxy = proxied()
    fed = keep(dispatcher_to(proxy.url), budget=5)
    assert eventually(lambda: all_fresh(fed)), "a busy machine may take longer than a deadline to begin"
    proxy.fault, proxy.delay = fault, 0.5
    errors = set()
    waited = []
    for _ in range(3):
        found, taken = fed.evaluate()
        waited.append(taken)
        assert len(found.answers) == 4, "the view answers whatever the source does"
        for answer in found.answers:
            assert answer.refreshed == fed.now or answer.freshness < 1.0, "what was not read now is not surely fresh"
            assert answer.refreshed < fed.now
        errors |= {error for error in found.refreshes.errors if error}
    assert min(waited) < DEADLINE + MARGIN
    assert any(error.startswith(FAULTS[fault]) for error in errors), errors
    assert all(error.startswith((FAULTS[fault], *WAITING)) for error in errors), errors
    assert all(kind_of(error) != "other" for error in errors)
    proxy.fault = ""
    assert eventually(lambda: fresh_again(fed), 8), "it recovers when the source does"
    assert eventually(lambda: fed.spent == proxy.count), (fed.spent, proxy.count)


def all_fresh(fed: FedView) -> bool:
    found, _ = fed.evaluate("jazz", "rock")
    return [(answer.refreshed, answer.freshness) for answer in found.answers] == [(fed.now, 1.0)] * 4


def fresh_again(fed: FedView) -> bool:
    found, _ = fed.evaluate("jazz", "rock")
    time.sleep(0.02)
    return all(answer.refreshed == fed.now for answer in found.answers)


class Asking:
    """A source that requests are sent to one by one."""

    def __init__(self, transport: Transport) -> None:
        assert transport.dispatcher is not None
        self.transport, self.dispatcher = transport, transport.dispatcher
        self.source = pattern_fetcher(parts(), transport).source
        self.sent: Sequence[SentRequest] = []

    def close(self) -> None:
        self.transport.close()


def ask(
    asking: Asking, *names: str, allowance: int | None = None, within: float = 5.0, query: str = ""
) -> list[FetchReply]:
    """Send a refresh query for each name, in one send; the replies when all are there or time is up."""
    dispatcher, until = asking.dispatcher, asking.dispatcher.clock() + within
    requests = [FetchRequest(Kind.COPY, [(node(name),)], 1000) for name in names]
    fetch = WholeQuery(asking.transport.service, query).fetch if query else asking.source.fetch
    sent = dispatcher.send(fetch, requests, len(requests) if allowance is None else allowance, until)
    dispatcher.wait(sent, until)
    asking.sent = sent
    return [reply_of(one) for one in sent]


def reply_of(sent: SentRequest) -> FetchReply:
    times = sent.stop()
    if sent.done():
        return sent.reply()
    return FetchReply(error=PENDING, pending=True, sent=times) if times else NO_TIME


@pytest.fixture
def dispatcher(proxied: MakeProxy) -> Iterator[Callable[..., tuple[Asking, Proxy]]]:
    """Makes a dispatcher to a proxy; closed after the test."""
    made = []

    def make(fault: Callable[..., Any] | str = "", **options: Any) -> tuple[Asking, Proxy]:
        proxy = proxied(fault)
        made.append(Asking(dispatcher_to(proxy.url, **{"deadline": 5.0, "timeout": 5.0, **options})))
        return made[-1], proxy

    yield make
    for each in made:
        each.close()


def test_a_second_try_is_paid_and_brings_what_the_first_did_not(
    dispatcher: Callable[..., tuple[Asking, Proxy]],
) -> None:
    asking, proxy = dispatcher(numbered(["broken"]), retries=2)
    (reply,) = ask(asking, "ann", allowance=3)
    assert (reply.error, reply.sent, proxy.count) == (None, 2, 2)
    (copy,) = cast("Callable[[], list[Copy]]", reply.outcomes)()
    assert [text_of(row[0]) for row in cast("Any", copy.value)] == ["10"]


def test_tries_end_with_the_allowance(dispatcher: Callable[..., tuple[Asking, Proxy]]) -> None:
    asking, proxy = dispatcher("broken", retries=9)
    sent = [reply.sent for reply in ask(asking, "ann", "bob", allowance=5)]
    assert sum(sent) == proxy.count == 5
    assert min(sent) >= 1, "every request has one try before any has a second that it would need"


def test_what_the_allowance_does_not_pay_for_is_not_sent(dispatcher: Callable[..., tuple[Asking, Proxy]]) -> None:
    asking, proxy = dispatcher()
    replies = ask(asking, "ann", "bob", "cyd", allowance=2)
    assert [reply.sent for reply in replies] == [1, 1, 0]
    assert "the budget is spent" in str(replies[2].error)
    assert proxy.count == 2


@pytest.mark.parametrize("fault", ["kind", "html", "moved", "endless"])
def test_what_cannot_succeed_is_not_tried_again(fault: str, dispatcher: Callable[..., tuple[Asking, Proxy]]) -> None:
    asking, proxy = dispatcher(fault, retries=5)
    (reply,) = ask(asking, "ann", allowance=6)
    assert reply.error is not None
    assert (reply.sent, proxy.count) == (1, 1)


def test_a_query_that_the_source_refuses_is_not_sent_again(dispatcher: Callable[..., tuple[Asking, Proxy]]) -> None:
    asking, proxy = dispatcher(retries=5)
    (reply,) = ask(asking, "ann", allowance=6, query="SELECT nonsense")
    assert str(reply.error).startswith("refused: 400 Bad Request: error at")
    assert proxy.count == 1


def test_a_reply_after_the_deadline_comes_with_a_later_order_of_the_same_fetcher(
    dispatcher: Callable[..., tuple[Asking, Proxy]],
) -> None:
    asking, proxy = dispatcher("slow")
    proxy.delay = 0.5
    mine, other = (pattern_fetcher(parts(), asking.transport, within=0.1) for _ in range(2))
    began = time.monotonic()
    delivery = mine.deliver(Order(1000, [(node("ann"),)], allowance=1))
    assert time.monotonic() - began < 0.1 + MARGIN
    assert (delivery.requests, delivery.copies[0].error) == (1, "pending: the answer is late")
    assert mine.is_fetching((Kind.COPY, (node("ann"),)))
    assert eventually(lambda: asking.dispatcher.busy == 0)
    assert not other.deliver(Order(2000, [])).late
    (late,) = mine.deliver(Order(2000, [])).late
    assert isinstance(late.outcome, Copy)
    assert (late.read_at, late.outcome.error, late.key) == (1000, None, (node("ann"),))
    assert not mine.deliver(Order(3000, [])).late
    assert proxy.count == 1


def test_after_the_deadline_nothing_more_is_sent_for_a_request(
    dispatcher: Callable[..., tuple[Asking, Proxy]],
) -> None:
    asking, proxy = dispatcher("stall", retries=5, timeout=0.5)
    (reply,) = ask(asking, "ann", allowance=9, within=0.2)
    assert reply.pending
    assert eventually(lambda: asking.dispatcher.busy == 0)
    late = asking.sent[0].reply()
    assert (late.error, late.sent, proxy.count) == ("timeout: no answer in time", 1, 1)


def test_requests_that_wait_for_a_thread_when_time_is_up_are_not_sent_and_cost_nothing(
    dispatcher: Callable[..., tuple[Asking, Proxy]],
) -> None:
    asking, proxy = dispatcher("stall", timeout=0.8)
    replies = ask(asking, *["ann"] * 12, within=0.3)
    assert [reply.sent for reply in replies] == [1] * 8 + [0] * 4
    assert replies[-1].error == "not sent: there was no time left"
    assert asking.dispatcher.capacity() == 0, "every thread waits"
    assert eventually(lambda: asking.dispatcher.busy == 0)
    assert asking.dispatcher.capacity() > 0
    assert eventually(lambda: proxy.count == 8)


def test_no_more_requests_are_under_way_at_once_than_the_source_bears(
    dispatcher: Callable[..., tuple[Asking, Proxy]],
) -> None:
    asking, proxy = dispatcher("slow")
    proxy.delay = 0.05
    began = time.monotonic()
    assert all(reply.error is None for reply in ask(asking, *["ann"] * 16))
    assert time.monotonic() - began >= 0.1, "two rounds of eight"


def test_connections_are_used_again(dispatcher: Callable[..., tuple[Asking, Proxy]], oxigraph: Oxigraph) -> None:
    asking, proxy = dispatcher()
    for _ in range(20):
        assert ask(asking, "ann")[0].error is None
    assert len(proxy.connections) == 1


def test_a_source_that_is_not_there_is_asked_for_nothing_and_costs_nothing(
    dispatcher: Callable[..., tuple[Asking, Proxy]],
) -> None:
    asking, proxy = dispatcher(retries=1)
    proxy.stop()
    (reply,) = ask(asking, "ann", allowance=2)
    assert str(reply.error).startswith("connection: no way to 127.0.0.1: Connection refused")
    assert reply.sent == 0


@pytest.fixture
def deaf() -> Iterator[str]:
    """A port where connections are waited for without end."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = []
        for _ in range(3):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        for each in waiting:
            each.close()


def test_a_source_that_accepts_no_connection_costs_nothing_and_holds_nobody_up(deaf: str) -> None:
    asking = Asking(dispatcher_to(deaf, timeout=60.0))
    began = time.monotonic()
    replies = ask(asking, *["ann"] * 12, within=0.2)
    assert {(reply.sent, reply.error) for reply in replies} == {(0, "not sent: there was no time left")}
    assert asking.dispatcher.capacity() == 0, "every thread is still waiting for a connection"
    asking.close()
    assert time.monotonic() - began < 0.2 + 2 * MARGIN


def test_the_breaker_keeps_a_dead_source_from_being_paid(dispatcher: Callable[..., tuple[Asking, Proxy]]) -> None:
    asking, proxy = dispatcher("broken", breaker=Breaker(3, 0.5))
    for _ in range(10):
        ask(asking, "ann")
    assert proxy.count == 3
    assert asking.dispatcher.capacity() == 0
    proxy.fault = ""
    assert eventually(lambda: asking.dispatcher.capacity() == 1)
    assert ask(asking, "ann")[0].error is None
    assert asking.dispatcher.capacity() > 1


def test_retry_after_is_remembered_over_a_restart(
    dispatcher: Callable[..., tuple[Asking, Proxy]], proxied: MakeProxy, keep: Callable[..., FedView]
) -> None:
    asking, proxy = dispatcher("busy")
    ask(asking, "ann")
    fed = keep(dispatcher_to(proxy.url))
    fed.dispatcher.restore(json.loads(json.dumps(asking.dispatcher.state())))
    found, _ = fed.evaluate("jazz")
    assert (found.record.spent, proxy.count) == (0, 1)


@pytest.mark.parametrize("fault", ["busy", "busy-date", "broken"])
def test_a_request_that_the_rate_limiter_stops_gives_its_connection_back(
    fault: str, dispatcher: Callable[..., tuple[Asking, Proxy]]
) -> None:
    asking, proxy = dispatcher(fault, breaker=Breaker(1, 60.0))
    proxy.retry_after = 60
    ask(asking, *["ann"] * 8)
    files, threads = held()
    for _ in range(20):
        assert all("not sent" in str(reply.error) for reply in ask(asking, *["ann"] * 8))
    assert len(proxy.connections) <= 8
    assert held()[0] <= files + 8 * 3, "a connection for each of eight threads: its two ends, and what the proxy opens"
    assert held()[1] <= threads + 8 * 2, (
        "a thread for each of eight requests, and what the proxy has for its connection"
    )


def held() -> tuple[int, int]:
    """Open file descriptors, and threads."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def test_a_limit_per_step_lets_every_evaluation_through(proxied: MakeProxy, keep: Callable[..., FedView]) -> None:
    proxy = proxied()
    fed = keep(dispatcher_to(proxy.url, limits=[Limit(Rate.of("3/250ms"))]))
    fed.evaluate("jazz", "rock", "folk")
    began, waited = time.monotonic(), []
    for _ in range(3):
        time.sleep(max(0.0, began + 0.245 - time.monotonic()))
        began = time.monotonic()
        found, taken = fed.evaluate("jazz", "rock", "folk")
        assert found.record.spent == 3
        waited.append(taken)
    assert min(waited) < LIMITER_PATIENCE_S + MARGIN
    assert proxy.count == 12


def test_closing_ends_what_is_under_way_at_once(dispatcher: Callable[..., tuple[Asking, Proxy]]) -> None:
    asking, _ = dispatcher("stall", timeout=60.0)
    ask(asking, "ann", "bob", within=0.05)
    began = time.monotonic()
    asking.close()
    assert time.monotonic() - began < 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("source")]


def test_a_copy_that_comes_late_is_as_fresh_as_when_it_was_asked_for(
    proxied: MakeProxy, keep: Callable[..., FedView]
) -> None:
    proxy = proxied()
    fed = keep(dispatcher_to(proxy.url))
    fed.evaluate("jazz")
    proxy.fault, proxy.delay = "slow", 0.3
    fed.evaluate()
    proxy.fault = ""
    assert eventually(lambda: fed.dispatcher.busy == 0)
    fed.manager.ledger.rule = BudgetRule.of(0)
    found, _ = fed.evaluate()
    assert {answer.refreshed for answer in found.answers} == {2000}
    assert all(0 < answer.freshness < 1 for answer in found.answers)
    assert eventually(lambda: fed.spent == proxy.count)


def test_keys_are_paid_with_every_request_that_holds_them(proxied: MakeProxy, keep: Callable[..., FedView]) -> None:
    random = Random(3)
    proxy = proxied(lambda _: random.choice(["broken", "reset", "truncated", ""]))
    price = Price(per_request=2.0, per_key=0.25, batch=2)
    fed = keep(dispatcher_to(proxy.url, retries=3, deadline=1.0), budget=12, price=price)
    for _ in range(8):
        fed.evaluate("jazz", "rock", "folk")
    queries = [parse_qs(urlsplit(head.split()[1]).query)["query"][0] for head in proxy.heads]
    keys = [len(re.findall(r"VALUES \?\w+ \{(.*?)\}", query)[0].split()) for query in queries]
    assert {1, 2} <= set(keys)
    assert fed.spent == sum(2.0 + 0.25 * count for count in keys)
    fed.manager.ledger.check()


@pytest.mark.parametrize("shared", [False, True])
def test_threads_that_share_a_source_and_a_budget_pay_for_every_request(
    shared: bool, proxied: MakeProxy, keep: Callable[..., FedView]
) -> None:
    random = Random(5)
    proxy = proxied(lambda _: random.choice(["", "", "slow", "broken", "reset"]))
    proxy.delay = 0.03
    asking, budget = (
        dispatcher_to(proxy.url, retries=1, deadline=0.02, timeout=0.5),
        SharedBudget(BudgetRule.of(9), 1000),
    )
    rules = [budget.member(str(n)) if shared else BudgetRule.of(3) for n in range(6)]
    views = [keep(asking, rule) for rule in rules]

    def evaluate(fed: FedView) -> None:
        for n in range(40):
            fed.evaluate(("jazz", "rock", "folk")[n % 3])

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(evaluate, views))
    assert eventually(lambda: not views[0].dispatcher.busy)
    assert eventually(lambda: sum(fed.spent for fed in views) == proxy.count), proxy.count
    assert all(fed.endpoint.requests == fed.spent for fed in views)
    budget.check()


SLOW = ("slow", "stall", "busy", "busy-date", "drip")


@pytest.mark.slow
def test_a_soak_with_random_faults_is_paid_to_the_unit_and_leaves_nothing_behind(
    oxigraph: Oxigraph, proxied: MakeProxy, keep: Callable[..., FedView]
) -> None:
    random = Random(7)
    kinds = [*FAULTS, "drip", "bomb", "refused", "moved"]
    faults = [fault for fault in kinds for _ in range(1 if fault in SLOW else 10)]
    proxy = proxied(lambda _: random.choice(faults) if random.random() < 0.1 else "")
    proxy.delay, proxy.retry_after, proxy.hang_up = 0.02, 0, lambda: random.random() < 0.05
    proxy.remember(9)
    options: dict[str, Any] = {"deadline": 0.02, "timeout": 0.05, "retries": 1}
    fed = keep(dispatcher_to(proxy.url, breaker=Breaker(3, 0.01), **options), budget=2, audit=0.2)
    seen = []
    for n in range(1_200):
        found, _ = fed.evaluate(("jazz", "rock", "folk")[n % 3])
        assert found.answers or n < 100, "what was read once is there, whatever comes later"
        if n % 40 == 0:
            seen.append((*held(), memory()))
    assert eventually(lambda: not fed.dispatcher.busy)
    assert eventually(lambda: proxy.count <= fed.spent <= proxy.count + proxy.cut), (fed.spent, proxy.count)
    assert 600 < proxy.count <= 2_400
    fed.manager.ledger.check()
    files, threads, used = (list(each) for each in zip(*seen, strict=True))
    assert max(files) <= files[0] + 3 * 2 * 8, "at both ends and behind the proxy, as many again that are being closed"
    assert max(threads) <= threads[0] + 2 * 8 + 8
    assert max(used[20:]) <= 1.1 * used[20]


def memory() -> int:
    """Pages that the process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1])
