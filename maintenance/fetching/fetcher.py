"""The seam between the cache and its source, and the adapter for sources that carry out whole orders."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from freshkeeper.maintenance.fetching.endpoint import (
    NO_FAILURE,
    Copy,
    Delivery,
    EntryId,
    Expanded,
    Order,
    Price,
    Remote,
    failure,
)
from freshkeeper.maintenance.fetching.fetch_jobs import Pending, run_until_complete


@runtime_checkable
class Fetcher(Protocol):
    """Carries out orders: `KeyFetcher` for sources of keys, `RemoteFetcher` for sources of whole orders."""

    @property
    def price(self) -> Price:
        """Return the price of cached entries."""
        ...

    @property
    def miss_price(self) -> Price:
        """Return the price of lookup keys."""
        ...

    def capacity(self, now: int) -> float:
        """Return the cost units that the source takes now."""
        ...

    def reserve_capacity(self, cost: float) -> None:
        """Keep room for an order of at most this cost, which was decided on and will come."""
        ...

    def keys_in_backoff(self) -> Iterable[EntryId]:
        """Return the keys that the next order would leave out because they failed not long ago."""
        ...

    def cost_at_most(self, order: Order) -> float:
        """Return the most that an order may have cost of which nobody knows what came."""
        ...

    def carry_out(self, order: Order) -> Pending[Delivery]:
        """Carry out an order, pausing while its requests are on their way."""
        ...


@dataclass(frozen=True, eq=False)
class RemoteFetcher:
    """A source that carries out whole orders itself. What it raises fails the order, which is paid nevertheless."""

    remote: Remote

    @property
    def price(self) -> Price:
        return self.remote.price

    @property
    def miss_price(self) -> Price:
        price = getattr(self.remote, "miss_price", None)
        if isinstance(price, Price):
            return price
        return self.remote.price

    def capacity(self, now: int) -> float:
        return self.remote.room(now)

    def reserve_capacity(self, cost: float) -> None:
        """Do nothing: the source learns of an order when it comes."""

    def keys_in_backoff(self) -> Iterable[EntryId]:
        """Return what the source says in a method of this name, which it need not have."""
        keys: Callable[[], Iterable[EntryId]] = getattr(self.remote, "keys_in_backoff", tuple)
        return keys()

    def cost_at_most(self, order: Order) -> float:
        """Return the whole allowance: the source may have tried again."""
        if math.isfinite(order.allowance):
            return order.allowance
        return planned_cost(self, order)

    def carry_out(self, order: Order) -> Pending[Delivery]:
        yield from ()
        try:
            delivery = self.remote.deliver(order)
        except NO_FAILURE:
            raise
        except Exception as error:
            return failed_delivery(self, order, failure(error))
        given = len(delivery.copies), len(delivery.expanded)
        wanted = len(order.keys), len(order.sns)
        if given != wanted:
            said = (
                f"malformed: {given[0]} copies for {wanted[0]} keys and "
                f"{given[1]} expansions for {wanted[1]} lookup keys"
            )
            spent, requests = delivery.spent, delivery.requests
            return replace(failed_delivery(self, order, said), spent=spent, requests=requests)
        return delivery


def deliver(fetcher: Fetcher, order: Order) -> Delivery:
    """Carry out an order and wait for it."""
    return run_until_complete(fetcher.carry_out(order))


def planned_cost(fetcher: Fetcher, order: Order) -> float:
    """Return what an order costs in as few requests as hold its keys."""
    return fetcher.price.of(len(order.keys)) + fetcher.miss_price.of(len(order.sns))


def failed_delivery(fetcher: Fetcher, order: Order, error: str) -> Delivery:
    """Return the delivery of an order that failed as a whole; it is paid as far as the allowance goes."""
    copy = Copy(error=error)
    cost = min(planned_cost(fetcher, order), order.allowance)
    expanded = [Expanded(error=error)] * len(order.sns)
    return Delivery([copy] * len(order.keys), expanded, cost, 0, edges=[copy] * len(order.edges))
