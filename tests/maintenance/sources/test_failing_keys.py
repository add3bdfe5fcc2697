"""Keys that always fail leave the requests to the others, whatever the kind of source."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
from fragment_sites import FragmentSite
from pyoxigraph import Literal, NamedNode, Quad
from servers import Documents, Oxigraph, Proxy

from freshkeeper import Enricher, Fetched, InMemory, Learned, Manager, Source, WindowSpec
from freshkeeper.maintenance.annotated.fragment_server import FragmentResponse
from freshkeeper.maintenance.base.errors import EndpointError
from freshkeeper.maintenance.cache.view.schedule import FixedSchedule
from freshkeeper.maintenance.fetching.endpoint import Key, Price
from freshkeeper.maintenance.fetching.function_source import fetcher_of
from freshkeeper.maintenance.fetching.key_fetcher import KeyFetcher
from freshkeeper.maintenance.fetching.requests import FetchRequest
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.service_split import split
from freshkeeper.maintenance.sources.pattern_source import pattern_fetcher
from freshkeeper.maintenance.sources.source_config import config_of
from freshkeeper.maintenance.sources.sources import EmbeddedSource, source_of
from freshkeeper.maintenance.sources.transport import Bound, Transport
from freshkeeper.policies.base import Graph
from freshkeeper.simulator.world.simulated_remote import RequestPace, SimulatedRemote, paced_fetcher

E = "http://example.org/"
FOLLOWERS = f"{E}followers"
QUERY = f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :by ?user }} SERVICE :blog {{ ?user :followers ?n }} }}"""
NAMES = [f"good{n}" for n in range(8)] + [f"bad{n}" for n in range(3)]


@dataclass
class Counting:
    """A source of keys that counts the requests for each key before it passes them on."""

    source: Any
    counts: Counter[Key] = field(default_factory=Counter)

    def fetch(self, request: FetchRequest) -> Any:
        self.counts.update(request.keys)
        return self.source.fetch(request)


def check(keys: list[str]) -> dict[str, int]:
    """Return values, unless there is a bad key."""
    if any(key.startswith("bad") for key in keys):
        raise OSError("no such row")
    return dict.fromkeys(keys, 1)


async def check_later(keys: list[str]) -> dict[str, int]:
    return check(keys)


class Refusing(EmbeddedSource):
    """Data in this process that refuses queries with bad keys."""

    def __call__(self, query: str, now: int) -> list[Bound]:
        if "bad" in query:
            raise EndpointError("refused: no such row")
        return super().__call__(query, now)


class RefusingSite(FragmentSite):
    """A server of fragments that refuses those of bad keys."""

    def _answer(self, method: str, target: str, headers: Mapping[str, str]) -> FragmentResponse:
        if "bad" in target:
            return FragmentResponse("400 Bad Request", {"Content-Type": "text/plain"}, b"no such row")
        return super()._answer(method, target, headers)


class FailingRemote(SimulatedRemote):
    """The simulated source with entries that always fail: 8, 9 and 10."""

    def fetch(self, keys: Any, now: int) -> Fetched:
        if max(keys) >= 8:
            raise EndpointError("no such row")
        return super().fetch(keys, now)

    def expand(self, sn: Key, now: int) -> Any:
        if isinstance(sn, int) and sn >= 8:
            raise EndpointError("no such row")
        return super().expand(sn, now)


def quads() -> list[Quad]:
    return [Quad(NamedNode(E + name), NamedNode(FOLLOWERS), Literal(1)) for name in NAMES]


def node(name: str) -> tuple[NamedNode]:
    return (NamedNode(E + name),)


def pattern(transport: Transport, price: Price | None = None) -> KeyFetcher[Any]:
    (service,) = parse(QUERY).services
    return pattern_fetcher(split(service, [FOLLOWERS], ["post", "user"]), transport, price)


def over_http(open_until: ExitStack, **written: object) -> KeyFetcher[Any]:
    source: Source = source_of(config_of({"retries": 0, "volatile": FOLLOWERS, **written}, "test"))
    open_until.callback(source.transport.close)
    return pattern(source.transport, source.price)


def sparql(open_until: ExitStack) -> KeyFetcher[Any]:
    server = Oxigraph(" ".join(f"<{E}{name}> <{FOLLOWERS}> 1 ." for name in NAMES))
    open_until.callback(server.stop)
    proxy = Proxy(server.port)
    open_until.callback(proxy.stop)
    proxy.poison = ("bad",)
    return over_http(open_until, sparql=proxy.url)


def json_documents(open_until: ExitStack) -> KeyFetcher[Any]:
    server = Documents({f"/{name}": {"followers": 1} for name in NAMES})
    open_until.callback(server.stop)
    proxy = Proxy(int(server.url.rpartition(":")[2]))
    open_until.callback(proxy.stop)
    proxy.poison = ("bad",)
    address = proxy.url.partition("/query")[0].rstrip("/")
    user = {"subject": f"{E}{{id}}", "url": f"{address}/{{id}}", "predicates": {FOLLOWERS: "followers"}}
    return over_http(open_until, resources=[user])


def fragments(open_until: ExitStack) -> KeyFetcher[Any]:
    site = RefusingSite(quads())
    open_until.callback(site.stop)
    return over_http(open_until, fragments=site.url)


def simulated(open_until: ExitStack) -> KeyFetcher[Any]:
    numbers = np.arange(len(NAMES), dtype=np.int32)
    schedule = FixedSchedule(np.full(numbers.size, 5000), np.zeros(numbers.size, np.int64))
    graph = Graph.from_edges(numbers, numbers, numbers.size, numbers.size)
    return paced_fetcher(FailingRemote(schedule, graph), RequestPace())


def function(asked: Callable[..., Any], open_until: ExitStack) -> KeyFetcher[Any]:
    fetcher = fetcher_of(asked)
    assert isinstance(fetcher, KeyFetcher)
    return fetcher


KINDS: dict[str, tuple[Callable[[ExitStack], KeyFetcher[Any]], Callable[[str], Key]]] = {
    "function": (partial(function, check), str),
    "async function": (partial(function, check_later), str),
    "sparql": (sparql, node),
    "json": (json_documents, node),
    "embedded": (lambda _: pattern(Transport.in_process(Refusing(quads()))), node),
    "fragments": (fragments, node),
    "simulated": (simulated, NAMES.index),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[tuple[KeyFetcher[Any], Callable[[str], Key]]]:
    make, key = KINDS[request.param]
    with ExitStack() as open_until:
        yield make(open_until), key


@pytest.mark.parametrize(("names", "budget", "evaluations"), [(["bad0", "good0"], 1, 60), (NAMES, 2, 60)])
def test_failing_keys_do_not_take_the_requests_of_good_ones(
    kind: tuple[KeyFetcher[Any], Callable[[str], Key]], names: list[str], budget: int, evaluations: int
) -> None:
    """Each is asked for by the evaluations 1, 3, 7, 15 and 31 at most, as a lookup key that is missing."""
    fetcher, key = kind
    counting = fetcher.source = Counting(fetcher.source)
    manager = Manager(WindowSpec("4s", "1s"), fetcher, "lru", budget, Learned())
    bad = [key(name) for name in names if name.startswith("bad")]
    good = [key(name) for name in names if name.startswith("good")]
    for now in range(1000, 1000 * evaluations + 1, 1000):
        manager.evaluate(now, [(now, one) for one in (*bad, *good)])
    wasted = sum(counting.counts[one] for one in bad)
    assert len(bad) <= wasted <= 6 * len(bad)
    assert sum(counting.counts[one] for one in good) >= budget * (evaluations - 6 * len(bad))
    manager.ledger.check()


@pytest.mark.parametrize("policy", ["plan", "gain", "ibm", "lru", "sbm", "random"])
def test_a_function_behind_a_manager_backs_off(policy: str) -> None:
    """One failing key of two took 59 of 60 requests, three of eleven 192 of 200, with every policy but `random`."""
    for names, budget, evaluations, most in ((["bad0", "good0"], 1, 60, 6), (NAMES, 2, 100, 21)):
        asked: Counter[str] = Counter()

        def fetch(keys: list[str], asked: Counter[str] = asked) -> dict[str, int]:
            asked.update(keys)
            return check(keys)

        manager = Manager(WindowSpec("4s", "1s"), fetch, policy, budget, Learned())
        for now in range(1000, 1000 * evaluations + 1, 1000):
            manager.evaluate(now, [(now, name) for name in names])
        assert asked.total() == budget * evaluations
        assert sum(asked[name] for name in names if name.startswith("bad")) <= most


def test_a_lookup_behind_an_enricher_backs_off() -> None:
    """The enricher has an engine of its own, with back-off by its clock."""
    asked: Counter[str] = Counter()
    now = [0]

    def lookup(keys: list[str]) -> dict[str, int]:
        asked.update(keys)
        return check(keys)

    with Enricher(lookup, "1/s", background=False, clock=lambda: now[0]) as enricher:
        for second in range(60):
            now[0] = 1000 * second
            assert enricher.get("bad0").error
            assert enricher.get("good0").value == 1
    assert asked["bad0"] <= 8


def test_after_an_outage_all_keys_are_soon_asked_for_again() -> None:
    """Twelve keys, four requests an evaluation, and nothing is answered from the 20th to the 90th."""
    down = [False]

    def fetch(keys: list[str]) -> dict[str, int]:
        if down[0]:
            raise OSError("the table is gone")
        return dict.fromkeys(keys, 1)

    names = [f"key{n}" for n in range(12)]
    manager = Manager(WindowSpec("4s", "1s"), fetch, "lru", 4, Learned())

    def evaluate(k: int) -> int:
        evaluation = manager.evaluate(1000 * k, [(1000 * k, name) for name in names])
        return min(answer.refreshed for answer in evaluation.answers)

    for k in range(1, 105):
        down[0] = 20 <= k < 90
        oldest = evaluate(k)
    assert oldest > 90_000, "else the back-off of some would last 40 evaluations more"


def test_a_source_that_counts_its_requests_backs_off_too() -> None:
    """`InMemory` and others that return `Fetched` say in a copy that its key failed."""

    class Broken(InMemory):
        def fetch(self, keys: Any, now: int) -> Fetched:
            found = super().fetch(keys, now)
            return Fetched([_failed(key, copy) for key, copy in zip(keys, found.copies, strict=True)], found.spent, 1)

    source = Broken({"a": ["x"], "b": ["y"]}, {"x": 1, "y": 2}, Price())
    manager = Manager(WindowSpec("4s", "1s"), source, "lru", 1, Learned())
    refreshed: Counter[object] = Counter()
    for now in range(1000, 41_000, 1000):
        evaluation = manager.evaluate(now, [(now, "a"), (now, "b")])
        refreshed.update(evaluation.refreshes.keys)
    assert refreshed["x"] <= 7
    assert refreshed["y"] >= 30


def _failed(key: object, copy: Any) -> Any:
    return type(copy)(error="no such row") if key == "x" else copy
