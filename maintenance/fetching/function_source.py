"""Sources as people write them: a function, or an object with `fetch`, of which all else is optional.

`fetch(keys)` returns a mapping from keys to what they hold. Where there is more to say: `price` (what a request costs,
and how many keys it has), `expand(key)` (the cached entries of a lookup key, where it is not its own), and `room()`
(how much the source takes now). Both functions may be asynchronous. A source with `deliver(order)` does everything
itself.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeAlias, get_type_hints

from freshkeeper.maintenance.base.errors import ConfigError, EndpointError
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.fetching.backoff import KeyBackoff
from freshkeeper.maintenance.fetching.endpoint import Copy, Endpoint, Expanded, Fetched, Key, Price, Remote
from freshkeeper.maintenance.fetching.executors import InlineExecutor, SubmittingExecutor, submit_to_background_loop
from freshkeeper.maintenance.fetching.fetcher import Fetcher, RemoteFetcher
from freshkeeper.maintenance.fetching.key_fetcher import KeyFetcher
from freshkeeper.maintenance.fetching.requests import Executor, FetchReply, FetchRequest, Outcome

MAX_CONCURRENCY = 8
"""Requests of an asynchronous function under way at once, as with sources over a network."""


class Fetching(Protocol):
    """An object with `fetch`; all else is optional."""

    @property
    def fetch(self) -> Callable[..., Any]:
        """Return values by key, or copies; the function takes keys, and perhaps the instant."""
        ...


SourceLike: TypeAlias = Fetcher | Endpoint | Remote | Fetching | Callable[..., Mapping[Any, Any]]
"""A source as people write it."""


def fetcher_of(source: SourceLike) -> Fetcher:
    """Return what a manager fetches with: the source itself where it is a fetcher, or one around it."""
    if isinstance(source, Fetcher):
        return source
    if isinstance(source, Remote):
        return RemoteFetcher(source)
    fetch: Any = getattr(source, "fetch", source)
    if not callable(fetch):
        raise ConfigError(
            f"{_name(source)} is no source: it has no fetch(keys) that returns a mapping from keys to values"
        )
    price = getattr(source, "price", None)
    if price is not None and not isinstance(price, Price):
        raise ConfigError(f"the price of {_name(source)} is {price!r}; write Price(per_request=1, batch=20)")
    expand, room = getattr(source, "expand", None), getattr(source, "room", None)
    asynchronous = any(inspect.iscoroutinefunction(each) for each in (fetch, expand))
    price = price or Price()
    price_of_misses = None
    fetch = _with_instant(fetch, 2)
    if expand is not None:
        expand = _with_instant(expand, 2)
        price_of_misses = replace(price, batch=1)  # lookup keys that have entries of their own are expanded one by one
    if room is not None:
        room = _with_instant(room, 1)
    functions = FunctionSource(fetch, expand)
    executor: Executor = InlineExecutor()
    if asynchronous:
        functions = AsyncFunctionSource(fetch, expand)
        executor = SubmittingExecutor(submit_to_background_loop)
    return KeyFetcher(
        functions,
        price,
        executor,
        price_of_misses=price_of_misses,
        room=room,
        unlimited_batch=_states_cost(source),
        backoff=KeyBackoff(expects_outages=True),
    )


@dataclass(frozen=True, eq=False)
class FunctionSource:
    """Values by key from a function, which runs in the calling thread."""

    function: Callable[[Any, int], Any]
    expand: Callable[[Any, int], Any] | None = None

    def fetch(self, request: FetchRequest) -> FetchReply:
        return self._reply(request, self._call(request))

    def _call(self, request: FetchRequest) -> Any:
        if request.kind is Kind.MISS and self.expand is not None:
            return self.expand(request.keys[0], request.now)
        return self.function(list(request.keys), request.now)

    def _reply(self, request: FetchRequest, found: object) -> FetchReply:
        outcomes: Sequence[Outcome]
        if request.kind is not Kind.MISS:
            outcomes = copies_of(found, request.keys)
        elif self.expand is None:
            outcomes = []
            for key, copy in zip(request.keys, copies_of(found, request.keys), strict=True):
                outcomes.append(Expanded({key: copy}) if copy.error is None else Expanded(error=copy.error))
        else:
            outcomes = [expansion_of(found, request.keys[0])]
        if isinstance(found, Fetched | Expanded) and (found.requests or found.spent):
            return FetchReply(outcomes, sent=found.requests, spent=found.spent)
        return FetchReply(outcomes)


@dataclass(frozen=True, eq=False)
class AsyncFunctionSource(FunctionSource):
    """Values by key from functions of which at least one is asynchronous; for executors that await them."""

    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENCY))

    async def fetch(self, request: FetchRequest) -> FetchReply:  # type: ignore[override]
        async with self.free:
            found = self._call(request)
            if inspect.isawaitable(found):
                found = await found
            return self._reply(request, found)


def _states_cost(source: Any) -> bool:
    """Return whether a source states its costs: `fetch` returns `Fetched` and takes any number of keys."""
    if not all(hasattr(source, name) for name in ("price", "fetch", "expand")):
        return False
    try:
        return get_type_hints(source.fetch).get("return") is Fetched
    except (NameError, TypeError):  # somebody's annotations
        return False


def copies_of(found: object, keys: Sequence[Key]) -> list[Copy]:
    """Return a copy for each key from what a fetch returned: a mapping, or `Fetched`."""
    if isinstance(found, Mapping):
        return [_as_copy(found.get(key)) for key in keys]
    if not isinstance(found, Fetched):
        raise EndpointError(f"fetch returned {type(found).__name__}, not a mapping from keys to values")
    if len(found.copies) != len(keys):
        raise EndpointError(f"fetch returned {len(found.copies)} copies for {len(keys)} keys")
    return list(found.copies)


def expansion_of(found: object, key: Key) -> Expanded:
    """Return an expansion from what a function returned: one, or a mapping from the entries of a key to values."""
    if isinstance(found, Expanded):
        return found
    if not isinstance(found, Mapping):
        raise EndpointError(f"expand({key!r}) returned {type(found).__name__}, not a mapping from entries to values")
    return Expanded({entry: _as_copy(value) for entry, value in found.items()})


def _as_copy(value: object) -> Copy:
    if isinstance(value, Copy):
        return value
    return Copy(value)


def _with_instant(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """Return a function of something and the instant for one that may not take the instant."""
    without_instant = partial(_call_first, function, most)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not tell
        return without_instant
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) or len(positional) >= most:
        wanted = [p for p in positional if p.default is p.empty]
        if len(wanted) >= most or any(p.name == "now" for p in positional):
            return function
    return without_instant


def _call_first(function: Callable[..., Any], most: int, *arguments: object) -> Any:
    return function(*arguments[: most - 1])


def _name(source: object) -> str:
    return getattr(source, "__name__", None) or type(source).__name__
