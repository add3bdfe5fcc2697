"""A source as people write one: a function or an object with `fetch`, of which all else is optional.

`fetch(keys)` returns a mapping from keys to what they hold. Where there is more to say: `price` (what a request costs,
and how many keys it has), `expand(key)` (the cached entries of a lookup key, where it is not its own), `room()` (how
much the source takes now), and `deliver(order)`, which a source has that does everything itself.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias, cast, get_type_hints

from freshkeeper.maintenance.base.errors import ConfigError, EndpointError
from freshkeeper.maintenance.fetching.endpoint import (
    NO_FAILURE,
    Copy,
    Delivery,
    Endpoint,
    Expanded,
    Fetched,
    Key,
    Order,
    Price,
    Remote,
    failure,
)


class Fetching(Protocol):
    """What has `fetch`; all else is optional."""

    @property
    def fetch(self) -> Callable[..., Any]:
        """From keys, and perhaps the instant, to a mapping or to copies."""
        ...


SourceLike: TypeAlias = Endpoint | Remote | Fetching | Callable[..., Mapping[Any, Any]]
"""A source as people write it."""


def source_of(source: SourceLike) -> Endpoint | Remote:
    """What a manager asks: the thing itself where it has all of it, or a `FunctionSource` around it."""
    if isinstance(source, Remote) or _counts(source):
        found: Any = source
        return cast("Endpoint | Remote", found)
    fetch: Any = source if callable(source) and not hasattr(source, "fetch") else getattr(source, "fetch", None)
    if not callable(fetch):
        raise ConfigError(
            f"{_named(source)} is no source: it has no fetch(keys) that returns a mapping from keys to values"
        )
    price = getattr(source, "price", None)
    if price is not None and not isinstance(price, Price):
        raise ConfigError(f"the price of {_named(source)} is {price!r}; write Price(per_request=1, batch=20)")
    expand, room = getattr(source, "expand", None), getattr(source, "room", None)
    return FunctionSource(
        _timed(fetch, 2), price or Price(), None if expand is None else _timed(expand, 2), room and _timed(room, 1)
    )


@dataclass(eq=False)
class FunctionSource:
    """A remote source made of functions; what one of them raises is the error of its keys, and is paid."""

    fetch: Callable[[Any, int], Any]
    price: Price = field(default_factory=Price)
    expand: Callable[[Any, int], Any] | None = None
    takes: Callable[..., float] | None = None

    @property
    def miss_price(self) -> Price:
        """Lookup keys with entries of their own are expanded one by one; others are fetched like any."""
        return self.price if self.expand is None else Price(self.price.per_request, self.price.per_key)

    def room(self, now: int) -> float:
        """What the source takes."""
        return math.inf if self.takes is None else float(self.takes(now))

    def deliver(self, order: Order) -> Delivery:
        """In batches, within the allowance."""
        bill = _Bill(order.allowance)
        copies = self._fetched(order.keys, order.now, bill)
        if self.expand is None:
            missed = self._fetched(order.sns, order.now, bill)
            expanded = [_itself(key, copy) for key, copy in zip(order.sns, missed, strict=True)]
        else:
            expanded = [self._expanded(self.expand, key, order.now, bill) for key in order.sns]
        return Delivery(copies, expanded, round(bill.spent, 9), bill.requests, sent=bill.sent)

    def _fetched(self, keys: Sequence[Key], now: int, bill: "_Bill") -> list[Copy]:
        copies: list[Copy] = []
        for n in range(0, len(keys), self.price.batch):
            part = list(keys[n : n + self.price.batch])
            if not bill.pay(self.price.paid(1, len(part)), len(part)):
                copies += [Copy(error="not sent: the budget is spent") for _ in part]
                continue
            try:
                found = self.fetch(part, now)
                bill.correct(self.price.paid(1, len(part)), found)
                copies += copies_of(found, part)
            except NO_FAILURE:
                raise
            except Exception as error:
                copies += [Copy(error=failure(error)) for _ in part]
        return copies

    def _expanded(self, expand: Callable[[Any, int], Any], key: Key, now: int, bill: "_Bill") -> Expanded:
        if not bill.pay(self.miss_price.of(1), 1):
            return Expanded(error="not sent: the budget is spent")
        try:
            found = expand(key, now)
            bill.correct(self.miss_price.of(1), found)
            return expansion_of(found, key)
        except NO_FAILURE:
            raise
        except Exception as error:
            return Expanded(error=failure(error))


@dataclass(eq=False)
class _Bill:
    """What was sent so far, of an allowance."""

    allowance: float
    spent: float = 0.0
    requests: int = 0
    sent: list[float] = field(default_factory=list)

    def correct(self, cost: float, found: object) -> None:
        """What a request cost after all, where the source says so itself."""
        if isinstance(found, Fetched | Expanded) and (found.requests or found.spent):
            self.spent += found.spent - cost
            self.requests += found.requests - 1

    def pay(self, cost: float, keys: int) -> bool:
        """A request for so many keys, if it can be paid."""
        paid = self.spent + cost <= self.allowance + 1e-9
        self.spent += cost * paid
        self.requests += paid
        self.sent += [paid / keys] * keys
        return paid


def _counts(source: Any) -> bool:
    """Whether it says what its requests cost: those that return `Fetched` take any number of keys at once."""
    if not all(hasattr(source, name) for name in ("price", "fetch", "expand")):
        return False
    try:
        return get_type_hints(source.fetch).get("return") is Fetched
    except (NameError, TypeError):  # somebody's annotations
        return False


def copies_of(found: object, keys: Sequence[Key]) -> list[Copy]:
    """What a fetch returned, a copy to each key: of a mapping, of `Fetched`, or an error that says what it was."""
    if isinstance(found, Mapping):
        return [each if isinstance(each := found.get(key), Copy) else Copy(each) for key in keys]
    copies = found.copies if isinstance(found, Fetched) else None
    if copies is None:
        raise EndpointError(f"fetch returned {type(found).__name__}, not a mapping from keys to values")
    if len(copies) != len(keys):
        raise EndpointError(f"fetch returned {len(copies)} copies for {len(keys)} keys")
    return list(copies)


def expansion_of(found: object, key: Key) -> Expanded:
    """What an expansion returned: a mapping from the entries of a key to their values, or `Expanded`."""
    if isinstance(found, Expanded):
        return found
    if not isinstance(found, Mapping):
        raise EndpointError(f"expand({key!r}) returned {type(found).__name__}, not a mapping from entries to values")
    return Expanded({entry: each if isinstance(each, Copy) else Copy(each) for entry, each in found.items()})


def _itself(key: Key, copy: Copy) -> Expanded:
    return Expanded(error=copy.error) if copy.error is not None else Expanded({key: copy})


def _timed(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """A function of something and the instant, of one that may not want to know the instant."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not tell
        return _without_now(function, most)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) or len(positional) >= most:
        wanted = [p for p in positional if p.default is p.empty]
        if len(wanted) >= most or any(p.name == "now" for p in positional):
            return function
    return _without_now(function, most)


def _without_now(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    return partial(_called, function, most)


def _called(function: Callable[..., Any], most: int, *arguments: object) -> Any:
    return function(*arguments[: most - 1])


def _named(source: object) -> str:
    return getattr(source, "__name__", None) or type(source).__name__
