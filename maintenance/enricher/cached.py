"""A decorator for functions of one key."""

import functools
import inspect
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from freshkeeper.maintenance.enricher.async_enricher import AsyncEnricher
from freshkeeper.maintenance.enricher.enricher import Enricher

F = TypeVar("F", bound=Callable[..., Any])


def cached(budget: str, **settings: Any) -> Callable[[F], F]:
    """Cache a function of one key, within a budget of calls; settings are those of `Enricher`.

    The decorated function returns the value, and raises RowError if nothing is known of a key. Its attribute `enricher`
    has the rest: `price.enricher.get(key)`, `price.enricher.stats()`. A coroutine function stays one.

    >>> from freshkeeper import cached
    >>> @cached(budget="5/s")
    ... def price(product):
    ...     return len(product)
    >>> price("pen"), price("pen"), price.enricher.stats().requests
    (3, 3, 1)
    """

    def decorate(function: F) -> F:
        made = _asynchronous if inspect.iscoroutinefunction(function) else _synchronous
        wrapper: Any = functools.wraps(function)(made(function, budget, settings))
        return wrapper  # type: ignore[no-any-return]

    return decorate


def _synchronous(function: Callable[..., Any], budget: str, settings: dict[str, Any]) -> Callable[..., Any]:
    enricher: Enricher[Hashable, Any] = Enricher(
        lambda keys: {key: function(key) for key in keys}, budget, **{"name": function.__name__, **settings}
    )

    def read(key: Hashable) -> Any:
        return enricher.get(key).require()

    read.enricher = enricher  # type: ignore[attr-defined]
    return read


def _asynchronous(function: Callable[..., Any], budget: str, settings: dict[str, Any]) -> Callable[..., Any]:
    async def lookup(keys: list[Any]) -> dict[Any, Any]:
        return {key: await function(key) for key in keys}

    enricher: AsyncEnricher[Hashable, Any] = AsyncEnricher(lookup, budget, **{"name": function.__name__, **settings})

    async def read(key: Hashable) -> Any:
        return (await enricher.get(key)).require()

    read.enricher = enricher  # type: ignore[attr-defined]
    return read
