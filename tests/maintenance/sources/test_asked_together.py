"""Sources that one instant needs are asked at the same time, and together they spend what there is and no more."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from fractions import Fraction
from threading import Barrier, Event

import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyoxigraph import NamedNode, Triple
from servers import MakeProxy, Proxy

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget, SharedIncome
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.asynchronous import run_async
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.sources.source_config import config_of
from freshkeeper.maintenance.sources.sources import Source, source_of
from freshkeeper.policies.registry import make

E = "http://example.org/"
BLOCK = "SERVICE :%s { ?topic :discussedBy ?user . ?user :followers ?n }"
NAMES = ("one", "two", "three")


def text(*names: str) -> str:
    """A query that joins a window with some sources."""
    blocks = [(BLOCK % name).replace("?user", f"?{name}User").replace("?n ", f"?{name} ") for name in names]
    return f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
    WHERE {{ WINDOW :w {{ ?post :topic ?topic }} {" ".join(blocks)} }}"""


def remote(proxy: Proxy, **more: int) -> Source:
    return source_of(config_of({"sparql": proxy.url, "volatile": f"{E}followers", "retries": 0, **more}, "test"))


def posts(count: int) -> list[tuple[int, Triple]]:
    """An element a second."""
    return [
        (1000 * k, Triple(NamedNode(f"{E}p{k}"), NamedNode(f"{E}topic"), NamedNode(f"{E}jazz")))
        for k in range(1, count)
    ]


def query(
    asked: list[str] | tuple[str, str, str],
    sources: dict[str, Source],
    fetch: str = "view",
    budget: SharedBudget | int = 10,
) -> ContinuousQuery:
    settings = MaintenanceSettings(
        lambda _: make("lru"), budget if isinstance(budget, SharedBudget) else BudgetRule.of(budget), fetch=Fetch(fetch)
    )
    return build(parse(text(*asked)), sources=sources, settings=settings, name="+".join(asked))


@pytest.fixture
def meeting(proxied: MakeProxy) -> Iterator[dict[str, Source]]:
    """Three sources, none of which answers before all three were asked."""
    all_asked = Barrier(len(NAMES))

    def meet(_: int) -> str:
        all_asked.wait(20)
        return ""

    sources = {f"{E}{name}": remote(proxied(meet)) for name in NAMES}
    yield sources
    for source in sources.values():
        source.transport.close()


@pytest.mark.parametrize("fetch", ["view", "always"])
def test_one_query_asks_all_its_sources_before_it_waits_for_any(meeting: dict[str, Source], fetch: str) -> None:
    found = list(run(query(NAMES, meeting, fetch), {f"{E}s": posts(4)}))
    assert [(result.errors, len(result.answers)) for result in found] == [(0, 8), (0, 16), (0, 24)]


def test_the_loop_goes_on_while_sources_are_asked_and_all_of_one_instant_are_asked_together(proxied: MakeProxy) -> None:
    """No source answers before all were asked and the loop has gone on ten times."""
    ticks, asked = [0], Barrier(len(NAMES))

    def meet(_: int) -> str:
        asked.wait(20)
        began, until = ticks[0], time.monotonic() + 20
        while ticks[0] < began + 10 and time.monotonic() < until:
            time.sleep(0.001)
        return ""

    sources = {f"{E}{name}": remote(proxied(meet)) for name in NAMES}

    async def tick() -> None:
        while True:
            ticks[0] += 1
            await asyncio.sleep(0.001)

    async def coming() -> AsyncIterator[tuple[int, ox.Triple]]:
        for element in posts(4):
            yield element

    async def collect() -> list[tuple[int, int]]:
        ticking = asyncio.create_task(tick())
        results = run_async(query(NAMES, sources), {f"{E}s": coming()})
        found = [(result.errors, len(result.answers)) async for result in results]
        ticking.cancel()
        return found

    began = time.monotonic()
    assert asyncio.run(collect()) == [(0, 8), (0, 16), (0, 24)]
    assert time.monotonic() - began < 15  # nobody has waited in vain
    for source in sources.values():
        source.transport.close()


def test_an_async_run_that_is_left_finishes_its_evaluation_beside_the_loop(proxied: MakeProxy) -> None:
    came, go = Event(), Event()

    def wait(_: int) -> str:
        came.set()
        go.wait(20)
        return ""

    source = remote(proxied(wait))

    async def coming() -> AsyncIterator[tuple[int, ox.Triple]]:
        for element in posts(3):
            yield element

    async def collect() -> bool:
        results = run_async(query(["one"], {f"{E}one": source}), {f"{E}s": coming()})
        first = asyncio.ensure_future(anext(results))
        while not came.is_set():
            await asyncio.sleep(0.001)
        first.cancel()
        asyncio.get_running_loop().call_later(0.05, go.set)
        with pytest.raises(asyncio.CancelledError):
            await first
        return go.is_set()

    assert asyncio.run(collect())
    source.transport.close()


def test_queries_that_are_due_at_one_instant_ask_their_sources_before_any_is_waited_for(
    meeting: dict[str, Source],
) -> None:
    queries = [query([name], meeting) for name in NAMES]
    found = list(run(queries, {f"{E}s": posts(4)}))
    assert [(result.t, result.query, result.errors) for result in found] == [
        (t, name, 0) for t in (1000, 2000, 3000) for name in NAMES
    ]


@pytest.mark.parametrize("budget", [1, 2, 5, 20])
def test_what_all_spend_together_is_what_the_servers_count_and_no_more_than_was_paid(
    proxied: MakeProxy, budget: int
) -> None:
    proxies = [proxied(lambda n: "broken" if n % 3 == 0 else "") for _ in NAMES]
    sources = {f"{E}{name}": remote(proxy, retries=3) for name, proxy in zip(NAMES, proxies, strict=True)}
    shared = SharedBudget(BudgetRule.of(budget), 1000)
    queries = [query([name], sources, budget=shared) for name in NAMES]
    for _ in run(queries, {f"{E}s": posts(8)}):
        pass
    for source in sources.values():
        source.transport.close()
    counted = sum(proxy.count for proxy in proxies)
    assert 0 < counted == shared.ledger.spent <= budget * 7
    shared.check()


wishes: st.SearchStrategy[tuple[int, int, list[float] | None]] = st.tuples(
    st.integers(0, 9), st.integers(0, 9), st.none() | st.lists(st.floats(0, 9), max_size=9)
)
"""what is chosen, what second tries would take, and what was bid for, if anything was"""


NOBODY = [(0, 0, None)] * 5


@example(12, 0, [(1, 2), (1, 2), (3, 2), (3, 2), (3, 2)], [NOBODY, NOBODY, [(0, 0, [0.0, 0.0]), *NOBODY[1:]]])
@given(
    st.integers(0, 12),
    st.integers(0, 6),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=5),
    st.lists(st.lists(wishes, min_size=5, max_size=5), max_size=12),
)
def test_members_that_decide_before_any_of_them_spends_share_all_there_is(
    gamma: int,
    bank: int,
    shapes: list[tuple[int, int]],
    instants: Sequence[Sequence[tuple[int, int, list[float] | None]]],
) -> None:
    shared = SharedBudget(BudgetRule.of(gamma, bank), 1000)
    members = [shared.member(str(n), weight, Fraction(low, 12)) for n, (weight, low) in enumerate(shapes)]
    for k, row in enumerate(instants):
        pairs = list(zip(members, row, strict=False))
        for member, (_, _, bid) in pairs:
            if bid is not None:
                income = member.income
                assert isinstance(income, SharedIncome)
                assert gamma <= income.most_available(1000 * k).available <= gamma + bank
                income.bid(np.sort(bid)[::-1], np.ones(len(bid)))
        chosen: list[int] = []
        for (member, (wish, _, bid)), (_, low) in zip(pairs, shapes, strict=False):
            available = member.open(1000 * k).available
            assert available >= min(len(bid or ()), int(Fraction(low, 12) * gamma))
            chosen.append(min(wish, int(available)))
            member.keep(chosen[-1])
        for member, _ in pairs:
            member.extend()
        assert sum(member.available for member in members) <= gamma + bank
        if gamma + bank and len(members) == 1:
            assert members[0].available >= gamma, "what nobody else wants is there for second tries"
        for (member, (_, retries, _)), cost in zip(pairs, chosen, strict=True):
            assert member.available >= cost
            member.spend(min(Fraction(cost + retries), member.available))
        assert sum(member.spent for member in members) <= (k + 1) * gamma
    shared.check()
