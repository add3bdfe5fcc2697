"""Sources as people write them: what suffices, what may be said beside it, and what goes wrong."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from freshkeeper import (
    Copy,
    Delivery,
    Expanded,
    FreshkeeperError,
    InMemory,
    Learned,
    Manager,
    Order,
    Price,
    Published,
    Remote,
    WindowSpec,
    check_source,
)
from freshkeeper.maintenance.base.errors import BudgetError, ConfigError, EndpointError, InputError
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.fetching.endpoint import Key
from freshkeeper.maintenance.fetching.fetcher import RemoteFetcher
from freshkeeper.maintenance.fetching.function_source import FunctionSource, fetcher_of
from freshkeeper.maintenance.fetching.key_fetcher import KeyFetcher
from freshkeeper.policies.base import Results
from freshkeeper.policies.plan import Plan

WINDOW = WindowSpec("4s", "1s")


def managed(source: Any, budget: int = 10, **more: Any) -> Manager:
    return Manager(WINDOW, source, "plan", budget, more.pop("model", Learned()), **more)


def values(evaluation: Evaluation) -> dict[Key, object]:
    return {answer.key: answer.value for answer in evaluation.answers}


def test_a_function_from_keys_to_values_is_a_source() -> None:
    manager = managed(lambda keys: {key: key.upper() for key in keys})
    assert values(manager.evaluate(1000, [(900, "a"), (950, "b")])) == {"a": "A", "b": "B"}


def test_so_is_an_object_whose_fetch_wants_to_know_the_instant() -> None:
    class Clock:
        def fetch(self, keys: list[str], now: int) -> dict[str, int]:
            return dict.fromkeys(keys, now)

    assert values(managed(Clock()).evaluate(1000, [(900, "a")])) == {"a": 1000}


def test_an_asynchronous_function_is_a_source_whose_requests_are_under_way_together() -> None:
    met = []

    async def fetch(keys: list[str]) -> dict[str, str]:
        met.append(keys)
        while len(met) < 3:  # no request is answered before all three were sent
            await asyncio.sleep(0.001)
        return {key: key.upper() for key in keys}

    evaluation = managed(fetch).evaluate(1000, [(900, "a"), (950, "b"), (960, "c")])
    assert values(evaluation) == {"a": "A", "b": "B", "c": "C"}
    assert evaluation.record.requests == 3


def test_a_method_of_something_built_in_is_a_source_too() -> None:
    assert values(managed({"a": 1}.__class__.fromkeys).evaluate(1000, [(900, "a")])) == {"a": None}


def test_never_more_keys_than_a_request_has() -> None:
    asked = []

    class Batched:
        price = Price(per_request=2, per_key=0.5, batch=3)

        def fetch(self, keys: list[int]) -> dict[int, int]:
            asked.append(list(keys))
            return dict.fromkeys(keys, 1)

    evaluation = managed(Batched(), 100).evaluate(1000, [(900, n) for n in range(7)])
    assert sorted(map(len, asked)) == [1, 3, 3]
    assert evaluation.record.spent == 3 * 2 + 7 * 0.5
    assert evaluation.record.requests == 3


def test_entries_of_a_lookup_key_come_from_expand() -> None:
    class Tags:
        def fetch(self, keys: list[str]) -> dict[str, int]:
            return dict.fromkeys(keys, 2)

        def expand(self, post: str) -> dict[str, Copy | int]:
            return {"jazz": 1, "rock": Copy(1)}

    manager = managed(Tags())
    answers = manager.evaluate(1000, [(900, "post")]).answers
    assert sorted((answer.entry, answer.value) for answer in answers) == [("jazz", 1), ("rock", 1)]
    assert {answer.value for answer in manager.evaluate(2000, []).answers} == {2}


def test_what_a_source_publishes_is_told_by_copies() -> None:
    manager = managed(lambda keys: {key: Copy(1, modified=0, expires=10_000) for key in keys}, model=Published())
    manager.evaluate(1000, [(900, "a")])
    later = manager.evaluate(3000, [])
    assert later.record.spent == 0
    assert later.record.expected_freshness == 1.0


def test_room_is_what_the_source_takes() -> None:
    class Narrow:
        def fetch(self, keys: list[int]) -> dict[int, int]:
            return dict.fromkeys(keys, 1)

        def room(self) -> int:
            return 2

    assert managed(Narrow()).evaluate(1000, [(900, n) for n in range(7)]).record.spent == 2


def test_a_source_that_raises_fails_its_keys_and_not_the_evaluation(caplog: pytest.LogCaptureFixture) -> None:
    broken = [True]

    def fetch(keys: list[str]) -> dict[str, int]:
        if broken[0]:
            raise OSError("the table is gone")
        return dict.fromkeys(keys, 1)

    manager = managed(fetch, 1)
    evaluation = manager.evaluate(1000, [(900, "a")])
    assert evaluation.refreshes.errors == ["OSError: the table is gone"]
    assert evaluation.record.spent == 1
    assert "the table is gone" in caplog.text
    broken[0] = False
    assert manager.evaluate(2000, []).record.spent == 0, "a key that failed is left out of one evaluation"
    assert values(manager.evaluate(3000, [])) == {"a": 1}


@pytest.mark.parametrize("source", [lambda refuse: refuse, lambda refuse: Split(refuse)])
def test_that_the_input_is_wrong_is_no_failure_of_a_source(source: Callable[..., object]) -> None:
    def refuse(keys: list[str] | str, now: int = 0) -> None:
        raise InputError("page 3 is no page")

    with pytest.raises(InputError, match="page 3 is no page"):
        managed(source(refuse)).evaluate(1000, [(900, "a")])


class Split:
    """A source whose lookup keys have entries of their own, which asks the same function for both."""

    def __init__(self, fetch: Callable[..., None]) -> None:
        self.fetch = self.expand = fetch


def test_so_does_a_remote_source_that_raises_though_it_should_not() -> None:
    class Rude:
        price = Price()

        def room(self, now: int) -> float:
            return 5.0

        def deliver(self, order: Order) -> None:
            raise OSError("no route to host")

    manager = managed(Rude(), 3)
    for n in (1, 2):
        evaluation = manager.evaluate(1000 * n, [(1000 * n, "a")])
        assert evaluation.refreshes.errors == ["OSError: no route to host"]
        assert evaluation.record.spent == 1


def test_too_few_copies_are_an_error_that_counts_them() -> None:
    class Short:
        price = Price()

        def room(self, now: int) -> float:
            return 5.0

        def deliver(self, order: Order) -> Delivery:
            return Delivery([], [Expanded({"a": Copy(1)})], 1, 1)

    evaluation = managed(Short()).evaluate(1000, [(900, "a"), (900, "b")])
    said = "malformed: 0 copies for 0 keys and 1 expansions for 2 lookup keys"
    assert evaluation.refreshes.errors == [said, said]


def test_what_is_no_mapping_is_told() -> None:
    evaluation = managed(lambda keys: [1]).evaluate(1000, [(900, "a")])
    assert evaluation.refreshes.errors == ["EndpointError: fetch returned list, not a mapping from keys to values"]


def test_a_cold_start_with_batches_keeps_within_the_budget() -> None:
    """Ten lookup keys, a price for batches of twenty: a source that expands one by one takes a request for each."""
    source = InMemory({f"k{n}": [n] for n in range(10)}, {n: n for n in range(10)}, Price(1, 0, 20))
    manager = managed(source, 3)
    for n in range(1, 6):
        evaluation = manager.evaluate(1000 * n, [(1000 * n, f"k{m}") for m in range(10)])
        assert evaluation.record.spent <= 3
    manager.ledger.check()


def test_a_source_that_charges_more_than_it_says_is_stopped() -> None:
    class Dear(InMemory):
        def expand(self, sn: Key, now: int) -> Expanded:
            return Expanded({sn: Copy(1)}, spent=50, requests=1)

    with pytest.raises(BudgetError):
        managed(Dear({}, {})).evaluate(1000, [(900, "a")])


def test_threads_may_evaluate_one_manager() -> None:
    manager, clock, done = managed(lambda keys: dict.fromkeys(keys, 1)), iter(range(1000, 10_000_000, 1000)), []
    lock = threading.Lock()

    def work() -> None:
        for _ in range(20):
            with lock:
                now = next(clock)
                done.append(manager.evaluate(now, [(now, "a")]).record.k)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 160


def test_a_policy_learns_who_changed_by_their_keys() -> None:
    class Watching(Plan):
        seen: ClassVar[list[object]] = []

        def observe(self, results: Results) -> None:
            assert results.kinds is not None
            self.seen.append((results.keys, results.changed.tolist(), [int(kind) for kind in results.kinds]))

    count = iter(range(100))
    manager = Manager(WINDOW, lambda keys: dict.fromkeys(keys, next(count)), Watching(), 1, Learned())
    manager.evaluate(1000, [(900, "a")])
    manager.evaluate(2000, [])
    assert Watching.seen == [(("a",), [False], [0]), (("a",), [True], [0])]


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (lambda: WindowSpec(0, 1000), "a window's range must be positive, a whole number of milliseconds"),
        (
            lambda: WindowSpec(4.5, 1000),  # type: ignore[arg-type]
            "or text as 4s, not 4.5",
        ),
        (lambda: WindowSpec("4 parsecs", "1s"), "a window's range: 4 parsecs is no duration"),
        (lambda: managed(object()), "object is no source: it has no fetch(keys)"),
        (
            lambda: Manager(WINDOW, dict.fromkeys, "plam", 1, Learned()),
            "there is no policy 'plam'; did you mean 'plan'?",
        ),
        (
            lambda: Manager(WINDOW, dict.fromkeys, "plan", "2", Learned()),  # type: ignore[arg-type]
            "as BudgetRule.of(2) or 2, not '2'",
        ),
        (lambda: Manager(WINDOW, dict.fromkeys, "plan", -2, Learned()), "must be zero or more cost units, not -2"),
    ],
)
def test_misuse_is_said_at_once(window: Callable[..., object], said: str) -> None:
    with pytest.raises(FreshkeeperError) as error:
        window()
    assert said in str(error.value)


def test_text_is_milliseconds() -> None:
    assert WindowSpec("4s", "1s") == WindowSpec(4000, 1000)


class Everything:
    price = Price(batch=1000)

    def room(self, now: int) -> float:
        return 10.0

    def deliver(self, order: Order) -> Delivery:
        requests = bool(order.keys) + bool(order.sns)
        return Delivery(
            [Copy(1) for _ in order.keys], [Expanded({sn: Copy(1)}) for sn in order.sns], requests, requests
        )


def test_what_has_all_of_a_remote_source_is_taken_as_it_is() -> None:
    source = Everything()
    assert isinstance(source, Remote)
    fetcher = fetcher_of(source)
    assert isinstance(fetcher, RemoteFetcher)
    assert fetcher.remote is source
    made = fetcher_of(dict.fromkeys)
    assert isinstance(made, KeyFetcher)
    assert isinstance(made.source, FunctionSource)
    assert fetcher_of(made) is made


def test_the_contract_is_kept_by_ours() -> None:
    assert len(check_source(lambda keys: dict.fromkeys(keys, 1), ["a", "b"])) == 7
    source = InMemory({"jazz": ["ann", "bob"], "rock": ["bob"]}, {"ann": 1, "bob": 2}, Price(1, 0.1, 2))
    assert len(check_source(source, ["jazz", "rock"])) == 7


class Sloppy:
    def fetch(self, keys: list[str]) -> dict[str, tuple[str, int]]:
        return {key: (key, len(keys)) for key in keys}

    price = Price(batch=5)


class Strict:
    price = Price(batch=5)

    def fetch(self, keys: list[str]) -> dict[str, int]:
        return {key: {"pen": 1, "ink": 2}[key] for key in keys}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Everything(), "it spent 2 in 2 requests of an allowance of 0"),
        (Sloppy(), "'pen' is ('pen', 2) together with others, and ('pen', 1) alone"),
        (Strict(), "'pen' beside a key that nobody has: KeyError: 'a key that nobody has'"),
        (lambda keys: None, "fetch returned NoneType, not a mapping"),
        (InMemory({}, {}), "'pen' has no entries; name keys that it has"),
    ],
)
def test_the_contract_says_what_is_wrong(source: Any, said: str) -> None:
    with pytest.raises(EndpointError, match="does not keep the contract") as error:
        check_source(source, ["pen", "ink"])
    assert said in str(error.value)


def test_an_address_that_is_none_of_https_is_no_missing_file() -> None:
    from freshkeeper import load_source

    with pytest.raises(ConfigError, match=r"postgres://\S+: a source is an http or https address"):
        load_source("postgres://me:secret@db/prices")
