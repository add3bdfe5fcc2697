"""The contract of sources, as checks that their authors can run: `check_source(source, keys)`.

A source is asked what it will be asked: keys together and one by one, a key that nobody has, an order that nothing is
left to pay, and a manager's first evaluations with half the money that they would need.
"""

from collections.abc import Callable, Sequence

from freshkeeper.maintenance.base.errors import EndpointError
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.fetching.endpoint import Copy, Key, Order, Price
from freshkeeper.maintenance.fetching.fetcher import Fetcher, deliver
from freshkeeper.maintenance.fetching.function_source import SourceLike, fetcher_of
from freshkeeper.policies.registry import make

MISSING_KEY = "a key that nobody has"
NOW = 1_000


def check_source(source: SourceLike, keys: Sequence[Key]) -> list[str]:
    """Run every check with lookup keys that the source has; the first that fails is an error that says what is wrong.

    Returns what was checked, in words.

    >>> from freshkeeper import InMemory, check_source
    >>> check_source(InMemory({"jazz": ["ann"]}, {"ann": 10}), ["jazz"])[0]
    'it has a price, and room to be asked'
    """
    fetcher = fetcher_of(source)
    checks: tuple[tuple[str, Callable[[Fetcher, Sequence[Key]], None]], ...] = (
        ("it has a price, and room to be asked", _price),
        ("every lookup key that was named has entries, each with a value", _expands),
        ("entries fetched again have as many copies, and the same values as one by one", _fetches),
        ("a key that nobody has is no failure of the others", _unknown_key),
        ("what it says it spent is what its price says of its requests", _spends),
        ("with nothing to pay with, nothing is sent", _allowance),
        ("an evaluation with half the money it would need spends no more than that", _evaluates),
    )
    for name, check in checks:
        try:
            check(fetcher, list(keys))
        except EndpointError as error:
            raise EndpointError(f"{type(fetcher).__name__} does not keep the contract ({name}): {error}") from error
    return [name for name, _ in checks]


def _entries(source: Fetcher, keys: Sequence[Key]) -> dict[Key, Copy]:
    expanded = deliver(source, Order(NOW, [], keys)).expanded
    for key, one in zip(keys, expanded, strict=True):
        if one.error is not None:
            raise EndpointError(f"{key!r}: {one.error}")
        if not one.copies:
            raise EndpointError(f"{key!r} has no entries; name keys that it has")
    return {entry: copy for one in expanded for entry, copy in one.copies.items()}


def _price(source: Fetcher, keys: Sequence[Key]) -> None:
    del keys
    if not isinstance(source.price, Price) or source.price.of(1) < 0:
        raise EndpointError(f"its price is {source.price!r}; write Price(per_request=1)")
    capacity = source.capacity(NOW)
    if not capacity > 0:
        raise EndpointError(f"room({NOW}) is {capacity!r}: it takes no requests")


def _expands(source: Fetcher, keys: Sequence[Key]) -> None:
    for entry, copy in _entries(source, keys).items():
        if copy.error is not None:
            raise EndpointError(f"{entry!r}: {copy.error}")


def _fetches(source: Fetcher, keys: Sequence[Key]) -> None:
    entries = list(_entries(source, keys))
    together = deliver(source, Order(NOW + 1, entries)).copies
    for entry, copy in zip(entries, together, strict=True):
        (alone,) = deliver(source, Order(NOW + 2, [entry])).copies
        if copy.error is not None or alone.error is not None:
            raise EndpointError(f"{entry!r}: {copy.error or alone.error}")
        if copy.value != alone.value:
            raise EndpointError(f"{entry!r} is {copy.value!r} together with others, and {alone.value!r} alone")


def _unknown_key(source: Fetcher, keys: Sequence[Key]) -> None:
    entries = list(_entries(source, keys))
    delivery = deliver(source, Order(NOW + 3, [*entries, MISSING_KEY]))
    for entry, copy in zip(entries, delivery.copies, strict=False):
        if copy.error is not None:
            raise EndpointError(f"{entry!r} beside a key that nobody has: {copy.error}")
    unknown = delivery.copies[-1].error
    if unknown is not None and delivery.spent > source.price.of(len(delivery.copies)) + 1e-9:
        # Halves of the failed request brought the others, at the price of more requests.
        raise EndpointError(f"{entries[0]!r} beside a key that nobody has: {unknown}")


def _spends(source: Fetcher, keys: Sequence[Key]) -> None:
    entries = list(_entries(source, keys))
    delivery = deliver(source, Order(NOW + 4, entries))
    least, most = source.price.of(len(entries)), source.price.paid(len(entries), len(entries))
    if not least - 1e-9 <= delivery.spent <= most + 1e-9:
        raise EndpointError(
            f"{len(entries)} entries cost {delivery.spent:g} in {delivery.requests} requests; by its price "
            f"{source.price} they cost {least:g} in full requests"
        )


def _allowance(source: Fetcher, keys: Sequence[Key]) -> None:
    if source.price.of(1) > 0:
        entries = list(_entries(source, keys))
        delivery = deliver(source, Order(NOW + 5, entries, keys, allowance=0.0))
        if delivery.spent or delivery.requests:
            raise EndpointError(f"it spent {delivery.spent:g} in {delivery.requests} requests of an allowance of 0")


def _evaluates(source: Fetcher, keys: Sequence[Key]) -> None:
    half = max(source.miss_price.of(1), source.miss_price.of(len(keys)) / 2)
    manager = Manager(WindowSpec(4 * NOW, NOW), source, make("plan"), BudgetRule.of(half, unit=half), Learned())
    for n in (1, 2, 3):
        evaluation = manager.evaluate(10 * NOW * n, [(10 * NOW * n, key) for key in keys])
        for error in filter(None, evaluation.refreshes.errors):
            raise EndpointError(error)
    manager.ledger.check()
