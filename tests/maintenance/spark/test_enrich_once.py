"""A source behind the log: asked once, repeated word for word, and lost orders paid for."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from freshkeeper.maintenance.fetching.endpoint import (
    Copy,
    Delivery,
    Endpoint,
    Expanded,
    Fetched,
    Key,
    Late,
    Order,
    Price,
)
from freshkeeper.maintenance.fetching.fetcher import deliver
from freshkeeper.maintenance.spark.enrichment.batch_store import BatchLog
from freshkeeper.maintenance.spark.enrichment.once import LOST, RecordingFetcher


class Remote:
    """Takes fewer requests every time, and is slow with one key."""

    price = Price()

    def __init__(self, fails: bool = False) -> None:
        self.rooms, self.fails = iter((5.0, 3.0, 1.0)), fails
        self.orders: list[Order] = []

    def room(self, now: int) -> float:
        return next(self.rooms)

    def deliver(self, order: Order) -> Delivery:
        self.orders.append(order)
        if self.fails:
            raise SystemExit  # as a kill would, and no failure of the source
        late = [Late("slow", Copy(7), order.now - 1)]
        return Delivery([Copy(1) for _ in order.keys], [Expanded(spent=1.0) for _ in order.sns], 2.0, 2, late)


def started(source: Remote | Endpoint, path: Path) -> RecordingFetcher:
    once = RecordingFetcher(source, lambda _: None)
    once.begin(BatchLog(path))
    return once


def test_a_delivery_is_repeated_with_all_that_came_and_the_room_of_that_time(tmp_path: Path) -> None:
    order = Order(1000, ["a"], ["x"], 4.0)
    first = started(Remote(), tmp_path / "log")
    assert first.capacity(1000) == 5.0
    delivery = deliver(first, order)
    source = Remote()
    again = started(source, tmp_path / "log")
    assert again.capacity(1000) == 5.0
    assert deliver(again, order) == delivery
    assert source.orders == []
    assert again.capacity(2000) == 5.0
    deliver(again, Order(2000, ["b"], (), 4.0))
    assert len(source.orders) == 1


@pytest.mark.parametrize(("allowance", "spent"), [(4.0, 4.0), (math.inf, 2.0)])
def test_an_order_that_was_lost_counts_as_all_that_it_might_have_cost(
    tmp_path: Path, allowance: float, spent: float
) -> None:
    order = Order(1000, ["a"], ["x"], allowance)
    first = started(Remote(fails=True), tmp_path / "log")
    first.capacity(1000)
    with pytest.raises(SystemExit):
        deliver(first, order)
    source = Remote()
    lost = deliver(started(source, tmp_path / "log"), order)
    assert source.orders == []
    assert lost.spent == spent
    assert [one.error for one in lost.copies] == [LOST]
    assert [one.error for one in lost.expanded] == [LOST]


def test_nothing_is_logged_where_nothing_is_asked(tmp_path: Path) -> None:
    class Simple(Endpoint):
        price = Price()

        def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
            raise AssertionError

        def expand(self, sn: Key, now: int) -> Expanded:
            raise AssertionError

    delivery = deliver(started(Simple(), tmp_path / "log"), Order(1000, []))
    assert (delivery.spent, delivery.requests) == (0.0, 0)
    assert not (tmp_path / "log").exists()


def test_a_source_that_raises_is_paid_for_and_the_same_after_a_restart(tmp_path: Path) -> None:
    class Broken(Remote):
        def deliver(self, order: Order) -> Delivery:
            raise ConnectionError("gone")

    order, source = Order(1000, ["a"], ["x"], 4.0), Broken()
    first = started(source, tmp_path / "log")
    first.capacity(1000)
    delivery = deliver(first, order)
    assert delivery.copies[0].error == delivery.expanded[0].error == "ConnectionError: gone"
    assert deliver(started(source, tmp_path / "log"), order) == delivery
