"""One fetcher for every source: it pays no more than it may, asks once at a time, and leaves failing keys alone."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.fetching.endpoint import PENDING, Copy, Expanded, Order, Price
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.key_fetcher import IN_FLIGHT, KeyFetcher
from freshkeeper.maintenance.fetching.requests import NOT_PAID, FetchReply, FetchRequest, Outcome, Replied


@dataclass
class Table:
    """A source in this process that refuses requests with bad keys and counts what it is asked."""

    bad: set[object] = field(default_factory=set)
    """a request that holds one of these fails"""
    broken: set[object] = field(default_factory=set)
    """these fail alone, in replies that have the others"""
    asked: list[list[object]] = field(default_factory=list)

    def fetch(self, request: FetchRequest) -> FetchReply:
        self.asked.append(list(request.keys))
        if self.bad.intersection(request.keys):
            raise FetchError("refused: no such key", refused=True)
        return FetchReply([self.outcome(request.kind, key) for key in request.keys])

    def outcome(self, kind: Kind, key: object) -> Outcome:
        if key in self.broken:
            return Expanded(error="broken") if kind is Kind.MISS else Copy(error="broken")
        return Expanded({key: Copy(key)}) if kind is Kind.MISS else Copy(key)


@dataclass
class Post:
    """An executor whose replies come when the test says so."""

    deadline: float = math.inf
    sent: list["Letter"] = field(default_factory=list)

    def capacity(self) -> float:
        return math.inf

    def reserve(self, requests: int) -> None:
        pass

    def send(
        self,
        fetch: Callable[[FetchRequest], FetchReply],
        requests: Sequence[FetchRequest],
        tries: float,
        until: float,
    ) -> list["Letter | Replied"]:
        sent: list[Letter | Replied] = []
        for number, request in enumerate(requests):
            if number >= tries:
                sent.append(Replied(request, NOT_PAID))
                continue
            letter = Letter(request, fetch)
            self.sent.append(letter)
            sent.append(letter)
        return sent

    def wait(self, sent: Sequence[object], until: float) -> None:
        pass


@dataclass(eq=False)
class Letter:
    """A request under way."""

    request: FetchRequest
    fetch: Callable[[FetchRequest], FetchReply]
    arrived: FetchReply | None = None

    def arrive(self) -> None:
        self.arrived = self.fetch(self.request)

    def done(self) -> bool:
        return self.arrived is not None

    def stop(self) -> int:
        return 1

    def reply(self) -> FetchReply:
        assert self.arrived is not None
        return self.arrived


def test_keys_go_in_batches_and_each_has_its_outcome() -> None:
    """Seven keys in threes, and two lookup keys in one request: four requests at 1 and nine keys at 0.1."""
    source = Table()
    delivery = KeyFetcher(source, Price(1, 0.1, 3)).deliver(Order(0, list(range(7)), ["x", "y"]))
    assert [copy.value for copy in delivery.copies] == list(range(7))
    assert [list(one.copies) for one in delivery.expanded] == [["x"], ["y"]]
    assert source.asked == [[0, 1, 2], [3, 4, 5], [6], ["x", "y"]]
    assert (delivery.requests, delivery.spent) == (4, 4.9)
    assert delivery.shares[0] == [1 / 3] * 6 + [1.0]


def test_a_key_that_is_ordered_twice_is_sent_once() -> None:
    source = Table()
    delivery = KeyFetcher(source).deliver(Order(0, ["a", "a"]))
    assert (len(delivery.copies), source.asked) == (2, [["a"]])


def test_what_the_allowance_does_not_pay_for_is_not_sent() -> None:
    source = Table()
    delivery = KeyFetcher(source, Price(batch=2)).deliver(Order(0, list(range(5)), allowance=2))
    assert [copy.error for copy in delivery.copies] == [None] * 4 + ["not sent: the budget is spent"]
    assert (source.asked, delivery.spent) == ([[0, 1], [2, 3]], 2.0)


def test_a_request_that_fails_is_halved_until_the_bad_key_is_alone() -> None:
    """Of eight keys the seventh is bad: 8, then 4 and 4, then 2 and 2, then 1 and 1: seven requests."""
    source = Table(bad={6})
    delivery = KeyFetcher(source, Price(batch=8)).deliver(Order(0, list(range(8))))
    assert [n for n, copy in enumerate(delivery.copies) if copy.error] == [6]
    assert (len(source.asked), delivery.requests) == (7, 7)


def test_halves_that_are_not_paid_for_come_with_the_next_order_and_first() -> None:
    source = Table(bad={3})
    fetcher = KeyFetcher(source, Price(batch=4))
    assert fetcher.deliver(Order(0, [0, 1, 2, 3], allowance=1)).spent == 1
    source.asked.clear()
    delivery = fetcher.deliver(Order(1, [4, 5, 6, 7, 0, 1, 2, 3], allowance=2))
    assert source.asked == [[0, 1], [2, 3]], "the requests with fewer keys come first"
    assert [copy.error for copy in delivery.copies[4:6]] == [None, None]


def test_a_key_that_fails_alone_is_left_out_of_1_3_7_orders() -> None:
    source = Table(bad={"bad"})
    fetcher = KeyFetcher(source)
    asked = []
    for order in range(1, 70):
        before = len(source.asked)
        delivery = fetcher.deliver(Order(order, ["bad"]))
        if len(source.asked) > before:
            asked.append(order)
        elif order == 2:
            said = "not sent: the source refused it, so it is asked for again after 1 evaluations"
            assert delivery.copies[0].error == said
    assert asked == [1, 3, 7, 15, 31, 63]
    source.bad.clear()
    errors = [fetcher.deliver(Order(n, ["bad"])).copies[0].error for n in range(70, 140)]
    assert errors[-1] is None
    assert not fetcher.keys_in_backoff()


def test_a_key_that_fails_in_a_reply_with_others_is_in_back_off_and_not_alone() -> None:
    source = Table(broken={2})
    fetcher = KeyFetcher(source, Price(batch=4))
    first = fetcher.deliver(Order(0, [1, 2, 3, 4]))
    assert [copy.error for copy in first.copies] == [None, "broken", None, None]
    assert list(fetcher.keys_in_backoff()) == [(Kind.COPY, 2)]
    fetcher.deliver(Order(1, [1, 2, 3, 4]))
    fetcher.deliver(Order(2, [1, 2, 3, 4]))
    assert source.asked == [[1, 2, 3, 4], [1, 3, 4], [1, 2, 3, 4]]


def test_a_reply_that_is_late_is_delivered_with_a_later_order_and_paid_once() -> None:
    post = Post()
    fetcher = KeyFetcher(Table(), executor=post)
    first = fetcher.deliver(Order(1000, ["a", "b"]))
    assert [copy.error for copy in first.copies] == [PENDING, PENDING]
    assert first.spent == 2
    post.sent[0].arrive()
    second = fetcher.deliver(Order(2000, ["a", "b"]))
    assert [copy.error for copy in second.copies] == [IN_FLIGHT, IN_FLIGHT], "one request in flight per key"
    assert [(late.key, late.outcome, late.read_at) for late in second.late] == [("a", Copy("a"), 1000)]
    assert (second.spent, len(post.sent)) == (0, 2)
    assert fetcher.is_fetching((Kind.COPY, "b"))
    assert not fetcher.is_fetching((Kind.COPY, "a"))


def test_a_reply_that_cannot_be_read_fails_its_keys_and_no_other() -> None:
    class Odd(Table):
        def fetch(self, request: FetchRequest) -> FetchReply:
            if "odd" in request.keys:
                return FetchReply(lambda: [Copy(1 // 0)])
            return super().fetch(request)

    delivery = KeyFetcher(Odd()).deliver(Order(0, ["odd", "even"]))
    said = "malformed: the answer cannot be read: ZeroDivisionError: integer division or modulo by zero"
    assert [copy.error for copy in delivery.copies] == [said, None]


def test_too_few_outcomes_are_an_error_that_counts_them() -> None:
    class Short(Table):
        def fetch(self, request: FetchRequest) -> FetchReply:
            return FetchReply([])

    delivery = KeyFetcher(Short()).deliver(Order(0, ["a"]))
    assert delivery.copies[0].error == "malformed: 0 outcomes for 1 keys"


def test_that_the_input_is_wrong_passes_through_and_leaves_nothing_in_flight() -> None:
    class Wrong(Table):
        def fetch(self, request: FetchRequest) -> FetchReply:
            raise InputError("page 3 is no page")

    fetcher = KeyFetcher(Wrong())
    with pytest.raises(InputError):
        fetcher.deliver(Order(0, ["a"]))
    assert not fetcher.is_fetching((Kind.COPY, "a"))


def test_the_package_needs_nothing_but_the_standard_library() -> None:
    """The cache for plain keys stands on it."""
    names = ("key_fetcher", "dispatcher", "function_source", "http.client", "http.exchange", "http.validators")
    text = "; ".join(f"import freshkeeper.maintenance.fetching.{name}" for name in names if name != "http.client")
    heavy = "{'numpy', 'scipy', 'numba', 'pydantic', 'pyoxigraph', 'pandas', 'pyarrow'}"
    code = f"import sys; {text}; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


KEYS = st.integers(0, 19)
PRICES = st.sampled_from([(1.0, 0.0), (0.5, 0.25), (0.0, 0.1), (2.0, 1.0)])
ORDERS = st.lists(
    st.tuples(st.sets(KEYS), st.sets(KEYS, max_size=4), st.floats(0, 30), st.sets(st.integers(0, 30))),
    min_size=1,
    max_size=25,
)


@settings(max_examples=examples(200))
@given(st.sets(KEYS), st.sets(KEYS), st.integers(1, 8), PRICES, ORDERS)
def test_whatever_fails_and_whenever_it_comes(
    bad: set[int],
    broken: set[int],
    batch: int,
    prices: tuple[float, float],
    orders: list[tuple[set[int], set[int], float, set[int]]],
) -> None:
    """No order costs more than its allowance, one request is in flight per key, and every key has an outcome."""
    post, source = Post(), Table(set(bad), set(broken))
    price = Price(*prices, batch)
    fetcher = KeyFetcher(source, price, post)
    delivered: Counter[tuple[int, object]] = Counter()
    for now, (keys, lookups, allowance, arriving) in enumerate(orders):
        before = len(post.sent)
        delivery = fetcher.deliver(Order(now, sorted(keys), sorted(lookups), allowance))
        new = post.sent[before:]
        assert delivery.spent == price.paid(len(new), sum(len(one.request.keys) for one in new)) <= allowance
        assert (len(delivery.copies), len(delivery.expanded)) == (len(keys), len(lookups))
        assert all(copy.error for copy in delivery.copies), "nothing has come yet"
        delivered.update((late.read_at, late.key) for late in delivery.late)
        under_way = [entry for one in post.sent if not one.done() for entry in one.request.entries]
        assert len(under_way) == len(set(under_way)), "one request in flight per key"
        for number in arriving:
            if number < len(post.sent) and not post.sent[number].done():
                try_to_arrive(post.sent[number])
    assert max(delivered.values(), default=1) <= 2, "late replies are delivered once for each kind"


def try_to_arrive(letter: Letter) -> None:
    try:
        letter.arrive()
    except FetchError as error:
        letter.arrived = FetchReply(error=str(error), refused=error.keys)


@settings(max_examples=examples(100))
@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 5), st.booleans())
def test_failing_keys_do_not_starve_good_ones(bad: int, good: int, batch: int, raises: bool) -> None:
    """A caller that always wants all keys with a small allowance, and failing keys first, has good keys answered."""
    failing: set[object] = {f"bad{n}" for n in range(bad)}
    source = Table(bad=failing) if raises else Table(broken=failing)
    fetcher = KeyFetcher(source, Price(batch=batch))
    wanted: list[object] = [*failing, *(f"good{n}" for n in range(good))]
    answered: Counter[object] = Counter()
    for now in range(200):
        resting = {key for _, key in fetcher.keys_in_backoff()}
        delivery = fetcher.deliver(Order(now, [key for key in wanted if key not in resting], allowance=2))
        ordered = [key for key in wanted if key not in resting]
        answered.update(key for key, copy in zip(ordered, delivery.copies, strict=True) if copy.error is None)
    wasted = sum(1 for keys in source.asked if failing.issuperset(keys))
    assert wasted <= 8 * bad, "after 1, 3, 7, ... orders each"
    assert sum(answered.values()) >= 100
