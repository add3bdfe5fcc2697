"""A function that looks rows up, as a source: keys in batches, several requests at once, failures of their keys alone.

`lookup(keys)` returns a mapping from keys to rows; a key that is not in it has no row (None). Who runs the function,
threads or an event loop, is the business of its `Caller`.
"""

import math
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any, ClassVar, Protocol, TypeAlias

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.asking import Waiting, finished
from freshkeeper.maintenance.fetching.endpoint import (
    PENDING,
    Asked,
    Copy,
    Delivery,
    Expanded,
    Key,
    Late,
    Order,
    Price,
    error_text,
)
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter
from freshkeeper.maintenance.fetching.refusals import Refusals

Rows: TypeAlias = Mapping[Any, Any]
Lookup: TypeAlias = Callable[[list[Any]], Rows] | Callable[[list[Any]], Awaitable[Rows]]
"""From keys to their rows; a row may be a `Copy`, which tells since when or until when it holds."""


class Answer(Protocol):
    """What a call comes to, now or later."""

    def done(self) -> bool:
        """Whether it is there."""
        ...

    def result(self) -> Any:
        """It; what the call raised is raised here."""
        ...


class Caller(Protocol):
    """Who runs lookups: some at once, and none longer awaited than till the deadline."""

    def begin(self, call: Lookup, keys: list[Any]) -> Answer:
        """Run it with these keys; comes back at once."""
        ...


@dataclass(frozen=True, eq=False)
class Sent:
    """A request on its way."""

    kind: Kind
    keys: list[Key]
    answer: Answer
    at: int


@dataclass(eq=False)
class LookupSource:
    """Rows by key from a function."""

    lookup: Lookup
    caller: Caller
    price: Price = field(default_factory=Price)
    parallel: int = 8
    identity: ClassVar[str] = "rows"
    differs: ClassVar[str] = "its name has changed"
    edges: dict[Any, Any] = field(default_factory=dict)
    """none: a key is its own entry"""
    limiter: RateLimiter = field(default_factory=RateLimiter)
    """the breaker: a source that fails and fails is left alone for a while"""
    under_way: list[Sent] = field(default_factory=list)
    """what rounds have asked for"""
    _asked: set[Asked] = field(default_factory=set)
    """what is on its way, misses between rounds included"""
    _refusals: Refusals = field(default_factory=Refusals)
    _lock: Lock = field(default_factory=Lock)
    """of these: misses are asked for from any thread"""

    @property
    def limits(self) -> RateLimiter:
        """What a state keeps."""
        return self.limiter

    def room(self, now: int) -> float:
        """Nothing while the breaker is open or every caller waits for an earlier round's; else any number."""
        del now
        waiting = sum(not sent.answer.done() for sent in self.under_way)
        requests = self.limiter.room() if waiting < self.parallel else 0.0
        return requests * self.price.batch * self.price.each if 0 < requests < math.inf else requests

    def resting(self) -> Iterable[Asked]:
        """What failed alone not long ago, and what is on its way."""
        with self._lock:
            return [*self._refusals.resting(), *self._asked]

    def book(self, cost: float) -> None:
        """No other view asks this source."""

    def deliver(self, order: Order) -> Delivery:
        """The whole of an order, of callers that need nobody to wait for them."""
        return finished(self.delivering(order))

    def delivering(self, order: Order) -> Waiting[Delivery]:
        """Send what the allowance pays for, pause once, and take what is there then; the rest comes late."""
        with self._lock:
            self._refusals.begin()
        late = self._late()
        wanted = [*((Kind.COPY, key) for key in order.keys), *((Kind.MISS, key) for key in order.sns)]
        sent, spent = self._send(wanted, order)
        self.under_way += sent
        if sent:
            yield None
        here = {one for one in sent if one.answer.done()}
        self.under_way = [one for one in self.under_way if one not in here]
        outcome: dict[Asked, Copy | Expanded] = {}
        share: dict[Asked, float] = {}
        for one in sent:
            share |= {(one.kind, key): 1 / len(one.keys) for key in one.keys}
            pending = {(one.kind, key): _failed(one.kind, PENDING) for key in one.keys}
            outcome |= self.outcome(one) if one in here else pending
        found = [outcome.get(one) or _failed(one[0], "not sent: the budget is spent") for one in wanted]
        copies = [one for one in found if isinstance(one, Copy)]
        expanded = [one for one in found if isinstance(one, Expanded)]
        return Delivery(copies, expanded, spent, len(sent), late, sent=[share.get(one, 0.0) for one in wanted])

    def send(self, kind: Kind, keys: list[Key], now: int, caller: Caller | None = None) -> Sent:
        """One request, now; by another caller than that of rounds, where there is one."""
        self.limiter.take()
        with self._lock:
            self._asked |= {(kind, key) for key in keys}
        return Sent(kind, keys, (caller or self.caller).begin(self.lookup, list(keys)), now)

    def outcome(self, sent: Sent) -> dict[Asked, Copy | Expanded]:
        """What came of a request, by key; what the function raised is the error of all its keys."""
        asked: list[Asked] = [(sent.kind, key) for key in sent.keys]
        try:
            found = _mapping(sent.answer.result())
            read = {one: _read(one, found) for one in asked}
        except (Exception, CancelledError) as error:  # whatever somebody's function raises costs its answers only
            self.limiter.failed()
            with self._lock:
                self._asked -= set(asked)
                self._refusals.refused(asked)
            return {one: _failed(one[0], error_text(error)) for one in asked}
        self.limiter.succeeded()
        with self._lock:
            self._asked -= set(asked)
            self._refusals.answered(asked)
        return read

    def _send(self, wanted: Sequence[Asked], order: Order) -> tuple[list[Sent], float]:
        sent, spent = [], 0.0
        for kind, keys in self._batches(wanted):
            cost = self.price.paid(1, len(keys))
            if spent + cost > order.allowance + 1e-9:
                break
            sent.append(self.send(kind, keys, order.now))
            spent = self.price.paid(len(sent), sum(len(one.keys) for one in sent))
        return sent, spent

    def _batches(self, wanted: Sequence[Asked]) -> Iterable[tuple[Kind, list[Key]]]:
        groups: dict[tuple[Kind, int], list[Key]] = {}
        for one in wanted:
            groups.setdefault((one[0], self._refusals.most(one, self.price.batch)), []).append(one[1])
        for (kind, most), keys in sorted(groups.items(), key=lambda group: -group[0][1]):
            yield from ((kind, keys[n : n + most]) for n in range(0, len(keys), most))

    def _late(self) -> list[Late]:
        """What earlier orders asked for, and is there now."""
        here = [sent for sent in self.under_way if sent.answer.done()]
        self.under_way = [sent for sent in self.under_way if sent not in here]
        return [Late(key, result, sent.at, kind) for sent in here for (kind, key), result in self.outcome(sent).items()]


def _read(asked: Asked, found: Rows) -> Copy | Expanded:
    kind, key = asked
    copy = copied(found.get(key))
    return copy if kind is not Kind.MISS else Expanded({key: copy})


def copied(row: object) -> Copy:
    """A row as a copy; one that is a `Copy` already may tell its times as datetimes."""
    if not isinstance(row, Copy):
        return Copy(row)
    return Copy(row.value, in_ms(row.modified), in_ms(row.expires), row.error)


def in_ms(time: int | datetime | None) -> int:
    """Milliseconds since the epoch; None is not known."""
    if isinstance(time, datetime):
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        return math.floor(aware.timestamp() * 1000)
    return UNKNOWN if time is None else int(time)


def _failed(kind: Kind, error: str) -> Copy | Expanded:
    return Expanded(error=error) if kind is Kind.MISS else Copy(error=error)


def _mapping(found: object) -> Rows:
    if not isinstance(found, Mapping):
        raise TypeError(f"a lookup returns a mapping from keys to rows, not {type(found).__name__}")
    return found
