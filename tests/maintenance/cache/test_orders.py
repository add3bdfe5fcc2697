"""Remote sources: whole requests are paid, limits are respected, and what comes late is still of use."""

import numpy as np
import pytest

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.budget.selection import preferring, whole_requests
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.fetching.endpoint import Copy, Delivery, Expanded, Key, Late, Order, Price
from freshkeeper.policies.base import Selection
from freshkeeper.policies.registry import make


class Slow:
    """A remote source whose answers are late by one evaluation where it is told so, and that may be full."""

    def __init__(self, price: Price | None = None, room: float = float("inf")) -> None:
        self.price, self.limit = price or Price(), room
        self.values: dict[Key, int] = {f"u{n}": 0 for n in range(40)}
        self.late = False
        self.waiting: list[Late] = []
        self.orders: list[Order] = []

    def room(self, now: int) -> float:
        return self.limit

    def deliver(self, order: Order) -> Delivery:
        self.orders.append(order)
        came, self.waiting = self.waiting, []
        users = [str(sn).replace("t", "u") for sn in order.sns]
        expanded = [Expanded({user: Copy(self.values[user])}) for user in users]
        copies = [Copy(self.values[key]) for key in order.keys]
        if self.late:
            self.waiting = [Late(key, copy, order.now) for key, copy in zip(order.keys, copies, strict=True)]
            copies = [Copy(error="still on its way") for _ in copies]
        spent = self.price.of(len(order.keys)) + self.price.of(len(order.sns))
        return Delivery(copies, expanded, spent, len(order.keys), came)


def make_manager(source: Slow, budget: int, policy: str = "lru") -> Manager:
    return Manager(WindowSpec(4000, 1000), source, make(policy), BudgetRule.of(budget), Learned())


def topics(now: int, count: int) -> list[tuple[int, str]]:
    return [(now, f"t{n}") for n in range(count)]


def test_a_batch_makes_keys_cheaper_and_the_budget_is_kept_in_whole_requests() -> None:
    source = Slow(Price(per_request=1, batch=5))
    manager = make_manager(source, 2)
    manager.evaluate(1000, topics(1000, 8))
    assert len(source.orders[0].sns) == 8
    manager.evaluate(2000, topics(2000, 20))
    order = source.orders[1]
    assert source.price.of(len(order.keys)) + source.price.of(len(order.sns)) <= 2
    assert len(order.keys) + len(order.sns) >= 6, "two requests of five keys were paid for"
    manager.ledger.check()


def test_an_evaluation_chooses_no_more_than_the_source_takes() -> None:
    source = Slow(room=1)
    manager = make_manager(source, 5)
    manager.evaluate(1000, topics(1000, 8))
    assert len(source.orders[0].sns) == 1
    source.limit = 0
    assert manager.evaluate(2000, []).record.spent == 0


def test_a_copy_that_comes_late_is_taken_as_of_the_time_it_was_asked_for() -> None:
    source = Slow()
    manager = make_manager(source, 3)
    manager.evaluate(1000, topics(1000, 3))
    source.values["u1"], source.late = 7, True
    assert all(answer.refreshed == 1000 for answer in manager.evaluate(2000, []).answers)
    source.late = False
    evaluation = manager.evaluate(3000, [])
    late = [n for n, at in enumerate(evaluation.refreshes.read_at.tolist()) if at == 2000]
    assert {evaluation.refreshes.keys[n] for n in late if evaluation.refreshes.changed[n]} == {"u1"}
    assert evaluation.record.spent == 3, "what came late was paid when it was sent"


def test_a_late_copy_of_what_the_view_has_let_go_is_dropped() -> None:
    source = Slow()
    manager = make_manager(source, 3)
    manager.evaluate(1000, topics(1000, 1))
    source.waiting = [Late("u9", Copy(1), 1000)]
    assert not {"u9"} & set(manager.evaluate(2000, []).refreshes.keys)


def test_a_batch_without_keys_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="at least 1 key"):
        Price(batch=0)


def test_what_somebody_wants_comes_before_what_the_policy_chose() -> None:
    chosen = Selection(np.array([4, 7], np.int32), np.array([2.0, 1.0]), "")
    first = preferring(np.array([7, 9], np.int32), chosen)
    assert first.chosen.tolist() == [7, 9, 4]
    paid = whole_requests(first, np.zeros(3, bool), Price(), 2.0, fits=False)
    assert paid.chosen.tolist() == [7, 9]
