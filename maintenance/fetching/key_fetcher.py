"""Fetch keys from one source within an allowance: batches, back-off per key, requests in flight, late replies.

    order (keys, allowance) ─▶ KeyFetcher ─▶ requests ─▶ executor ─▶ source.fetch ─▶ outcomes ─▶ delivery

Every key of an order has an outcome, and no outcome is an exception: a key that failed has its error in words. At most
one request for a key is in flight. An order never costs more than its allowance, retries included. A reply that comes
after the deadline is delivered with a later order and costs nothing then.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Generic, TypeVar, cast

from freshkeeper.maintenance.base.errors import EndpointError
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.fetching.backoff import KeyBackoff
from freshkeeper.maintenance.fetching.endpoint import (
    NO_FAILURE,
    PENDING,
    Copy,
    Delivery,
    EntryId,
    Expanded,
    Key,
    Late,
    Order,
    Price,
)
from freshkeeper.maintenance.fetching.executors import InlineExecutor
from freshkeeper.maintenance.fetching.fetch_errors import unreadable
from freshkeeper.maintenance.fetching.fetch_jobs import Pending, run_until_complete
from freshkeeper.maintenance.fetching.fetcher import planned_cost
from freshkeeper.maintenance.fetching.requests import (
    NO_TIME,
    Executor,
    FetchReply,
    FetchRequest,
    KeySource,
    Outcome,
    SentRequest,
)

IN_FLIGHT = "pending: it was asked for already and is still on its way"
S = TypeVar("S", bound=KeySource)


@dataclass(eq=False)
class KeyFetcher(Generic[S]):
    """Sends the keys of orders to one source; several fetchers of one source share its executor."""

    source: S
    price: Price = field(default_factory=Price)
    executor: Executor = field(default_factory=InlineExecutor)
    price_of_misses: Price | None = None
    """where lookup keys cost something else"""
    within: float = math.inf
    """how many seconds an order waits for the source"""
    room: Callable[[int], float] | None = None
    """how many cost units the source says that it takes at an instant"""
    problem: Callable[[Key], str | None] | None = None
    """why a key cannot be asked for, if it cannot"""
    unlimited_batch: bool = False
    """whether one fetch takes all keys to refresh, because the source makes requests of them itself"""
    learns_pages: bool = False
    """whether a reply is gathered from pages; how many it takes is then learned"""
    clock: Callable[[], float] = time.monotonic
    requests: int = 0
    """requests sent by orders so far"""
    backoff: KeyBackoff = field(default_factory=KeyBackoff)
    _in_flight: set[EntryId] = field(default_factory=set)
    _late: list[SentRequest] = field(default_factory=list)
    """requests of earlier orders whose replies were not there in time"""
    _reserved: int = 0
    _lock: Lock = field(default_factory=Lock)
    """guards back-off and what is in flight: single requests are sent from any thread"""

    def __getstate__(self) -> dict[str, object]:
        """Leave out the lock, which belongs to this process."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state, _lock=Lock())

    @property
    def miss_price(self) -> Price:
        return self.price_of_misses or self.price

    def capacity(self, now: int) -> float:
        """Return the cost units of full requests that the source takes now."""
        units = requests = self.executor.capacity()
        if requests < math.inf:
            units = requests // self.price.pages * self.price.batch * self.price.key_price
        if self.room is None:
            return units
        return min(units, float(self.room(now)))

    def reserve_capacity(self, cost: float) -> None:
        """Keep room for an order of at most this cost: until it comes, other fetchers of the source find less."""
        full = self.price.batch * self.price.key_price
        if full > 0:
            self._reserved = math.ceil(cost / full) * self.price.pages
            self.executor.reserve(self._reserved)

    def keys_in_backoff(self) -> Iterable[EntryId]:
        if not self.backoff:
            return ()
        with self._lock:
            return list(self.backoff.keys_in_backoff())

    def cost_at_most(self, order: Order) -> float:
        # Retries, and smaller requests for what was refused, may take all of the allowance.
        may_retry = self.price.batch > 1 or not isinstance(self.executor, InlineExecutor)
        if may_retry and not self.unlimited_batch and order.allowance < math.inf:
            return order.allowance
        return min(planned_cost(self, order), order.allowance)

    def is_fetching(self, entry: EntryId) -> bool:
        """Return whether a request for a key is in flight."""
        return entry in self._in_flight

    def deliver(self, order: Order) -> Delivery:
        """Carry out an order, waiting for its requests."""
        return run_until_complete(self.carry_out(order))

    def carry_out(self, order: Order) -> Pending[Delivery]:
        """Carry out an order, pausing while its requests are on their way.

        Requests that are refused are sent again in halves, as far as allowance and time reach.
        """
        if self._reserved:
            self.executor.reserve(-self._reserved)
            self._reserved = 0
        with self._lock:
            self.backoff.begin_order()
        bill = Bill(self.price, order.allowance, self.unlimited_batch)
        until = self.clock() + self.within
        wanted: list[EntryId] = [(Kind.COPY, key) for key in order.keys]
        wanted += [(Kind.MISS, key) for key in order.sns]
        outcomes: dict[EntryId, Outcome] = {}
        late: list[Late] = []
        requests = self.plan(wanted, order.now, outcomes)
        # Each turn sends what was refused before in smaller requests. It ends: back-off halves the batch of refused
        # keys, and a key that is refused alone is not sent again.
        while True:
            overdue = min(until, self.clock() + self.executor.deadline)
            sent = self._send(requests, bill.affordable_tries(requests), overdue)
            if not all(one.done() for one in sent):
                yield Arrival(sent, overdue, self.clock)
                self.executor.wait(sent, overdue)
            replies = [self._reply(one) for one in sent]
            late += self._late_outcomes()
            failed: list[EntryId] = []
            for one, reply in zip(sent, replies, strict=True):
                request = one.request
                bill.add(request, reply)
                if reply.pending:
                    # The reply may still come. A later order takes it, and asks for none of these keys until then.
                    self._late.append(one)
                    outcomes.update(zip(request.entries, request.failed(PENDING), strict=True))
                    continue
                results, refused = self.settle(request, reply)
                outcomes.update(zip(request.entries, results, strict=True))
                if refused and len(request.keys) > 1:
                    failed += request.entries
            self._learn_pages(sent, replies)
            requests = self.plan(failed, order.now, outcomes) if failed else []
            if not requests or bill.affordable_tries(requests) < 1 or self.clock() >= until:
                break
        self.requests += bill.requests
        copies = cast("list[Copy]", [outcomes[Kind.COPY, key] for key in order.keys])
        expanded = cast("list[Expanded]", [outcomes[Kind.MISS, key] for key in order.sns])
        shares = [bill.shares.get(entry, 0.0) for entry in wanted]
        return Delivery(copies, expanded, bill.spent, bill.requests, late, sent=shares)

    def plan(self, wanted: Sequence[EntryId], now: int, outcomes: dict[EntryId, Outcome]) -> list[FetchRequest]:
        """Return the requests for these keys.

        A key that cannot be sent now gets its outcome at once. Small requests come first, because they hold keys of
        requests that failed: where the allowance does not pay for all, the keys of full requests were answered before.
        """
        groups: dict[tuple[Kind, int], list[EntryId]] = {}
        batches = {Kind.COPY: self._refresh_batch, Kind.MISS: self.miss_price.batch}
        with self._lock:
            # Most orders come while nothing has failed and nothing is in flight: then no key needs a look of its own.
            checks = self.backoff or self._in_flight or self.problem is not None
            for entry in dict.fromkeys(wanted):
                kind = entry[0]
                limit = batches[kind]
                if checks:
                    why = self._why_held_back(entry)
                    if why is not None:
                        outcomes[entry] = Expanded(error=why) if kind is Kind.MISS else Copy(error=why)
                        continue
                    limit = self.backoff.limit(entry, limit)
                groups.setdefault((kind, limit), []).append(entry)
        requests = []
        for (kind, limit), entries in sorted(groups.items(), key=lambda group: min(group[0][1], self.price.batch)):
            for start in range(0, len(entries), limit):
                part = entries[start : start + limit]
                requests.append(FetchRequest(kind, [key for _, key in part], now, entries=part))
        return requests

    def note_sent(self, requests: Iterable[FetchRequest]) -> None:
        """Note that these requests are in flight until `settle` takes their replies."""
        with self._lock:
            for request in requests:
                self._in_flight.update(request.entries)

    def settle(self, request: FetchRequest, reply: FetchReply) -> tuple[Sequence[Outcome], bool]:
        """Take a reply: return an outcome for each key, and whether a request for fewer keys may do better."""
        entries = request.entries
        try:
            error, refused, results = reply.error, reply.refused, self._read(request, reply)
        except NO_FAILURE:
            self._release([request])
            raise
        except Exception as fault:  # whatever a source answers fails its own keys, and nothing else
            error, refused = unreadable(fault), True
            results = request.failed(error)
        with self._lock:
            self._in_flight.difference_update(entries)
            if refused:
                self.backoff.request_failed(entries)
            elif error is None:
                self._note_answers(entries, results)
        return results, refused

    def _note_answers(self, entries: Sequence[EntryId], results: Sequence[Outcome]) -> None:
        if not self.backoff:
            for one in results:
                if one.error is not None:
                    break
            else:
                return  # the usual case: nothing has failed, now or before
        for entry, one in zip(entries, results, strict=True):
            if one.error is None:
                self.backoff.answered([entry])
            else:
                self.backoff.key_failed(entry)

    def _why_held_back(self, entry: EntryId) -> str | None:
        """Return why a key is not sent now, though it is wanted."""
        if entry in self._in_flight:
            return IN_FLIGHT
        orders = self.backoff.orders_left(entry)
        if orders:
            return f"not sent: the source refused it, so it is asked for again after {orders} evaluations"
        if self.problem is None:
            return None
        return self.problem(entry[1])

    @property
    def _refresh_batch(self) -> int:
        if self.unlimited_batch:
            return 1 << 62
        return self.price.batch

    def _send(self, requests: Sequence[FetchRequest], tries: float, until: float) -> Sequence[SentRequest]:
        self.note_sent(requests)
        try:
            return self.executor.send(self.source.fetch, requests, tries, until)
        except BaseException:
            self._release(requests)
            raise

    def _release(self, requests: Iterable[FetchRequest]) -> None:
        """Note that nothing of these requests is in flight."""
        with self._lock:
            for request in requests:
                self._in_flight.difference_update(request.entries)

    def _reply(self, sent: SentRequest) -> FetchReply:
        """Return the reply of a request when time is up, or what is known of it."""
        if sent.done():
            return sent.reply()
        times = sent.stop()
        if sent.done():  # it came in between, or was taken back before it began
            return sent.reply()
        if times:
            return FetchReply(error=PENDING, sent=times, pending=True)
        return NO_TIME

    def _late_outcomes(self) -> list[Late]:
        """Return the replies of earlier orders that have come since."""
        arrived = [one for one in self._late if one.done()]
        if not arrived:
            return []
        self._late = [one for one in self._late if one not in arrived]
        late = []
        for one in arrived:
            request = one.request
            results, _ = self.settle(request, one.reply())
            late += [
                Late(key, found, request.now, request.kind) for key, found in zip(request.keys, results, strict=True)
            ]
        return late

    def _read(self, request: FetchRequest, reply: FetchReply) -> Sequence[Outcome]:
        if reply.error is not None:
            return request.failed(reply.error)
        found = reply.outcomes() if callable(reply.outcomes) else reply.outcomes
        if len(found) != len(request.keys):
            raise EndpointError(f"malformed: {len(found)} outcomes for {len(request.keys)} keys")
        return found

    def _learn_pages(self, sent: Sequence[SentRequest], replies: Sequence[FetchReply]) -> None:
        """Expect of the next replies as many pages as the largest of the last ones had."""
        if not self.learns_pages:
            return
        pages: dict[Kind, int] = {}
        for one, reply in zip(sent, replies, strict=True):
            if reply.sent and not reply.pending:
                kind = one.request.kind
                pages[kind] = max(reply.sent, pages.get(kind, 0))
        if Kind.MISS in pages:
            self.price_of_misses = replace(self.price, pages=pages[Kind.MISS])
        if Kind.COPY in pages:
            self.price = replace(self.price, pages=pages[Kind.COPY])


@dataclass(frozen=True, eq=False)
class Arrival:
    """Tells whether the requests of an order need no more waiting."""

    sent: Sequence[SentRequest]
    until: float
    clock: Callable[[], float]

    def __call__(self) -> bool:
        return self.clock() >= self.until or all(one.done() for one in self.sent)


@dataclass(eq=False)
class Bill:
    """The cost of an order so far, and the requests that its allowance still pays for."""

    price: Price
    allowance: float
    unlimited_batch: bool = False
    requests: int = 0
    shares: dict[EntryId, float] = field(default_factory=dict)
    """the requests that went for each key, of a request with several keys its share"""
    _priced_requests: int = 0
    _priced_keys: int = 0
    _stated: float = 0.0
    """what the source itself said that requests cost"""

    @property
    def spent(self) -> float:
        """Return the cost of everything that was sent, in cost units."""
        return self._cost(self._priced_requests, self._priced_keys)

    def add(self, request: FetchRequest, reply: FetchReply) -> None:
        """Charge everything that was sent of a request."""
        self.requests += reply.sent
        if reply.spent is None:
            self._priced_requests += reply.sent
            self._priced_keys += reply.sent * len(request.keys)
        else:
            self._stated += reply.spent
        entries, shares = request.entries, self.shares
        share = reply.sent / len(entries)
        if entries[0] in shares:  # a half of a request that was refused: all its keys were sent before
            for entry in entries:
                shares[entry] += share
        else:
            shares.update(dict.fromkeys(entries, share))

    def affordable_tries(self, requests: Sequence[FetchRequest]) -> float:
        """Return how many tries the allowance pays for: the first of these requests, and retries of full ones."""
        if self.allowance == math.inf:
            return math.inf
        sizes = [len(request.keys) for request in requests]
        counts = [-(-size // self.price.batch) for size in sizes] if self.unlimited_batch else [1] * len(sizes)
        count, keys = self._priced_requests + sum(counts), self._priced_keys + sum(sizes)
        if self._cost(count, keys) > self.allowance:
            return self._affordable_requests(counts, sizes)
        full = self.price.per_request + self.price.batch * self.price.per_key
        if full <= 0:
            return math.inf
        return len(requests) + (self.allowance - self._cost(count, keys)) // full

    def _affordable_requests(self, counts: Sequence[int], sizes: Sequence[int]) -> int:
        """Return how many of the first requests the allowance pays for, where it does not pay for all."""
        requests, keys = self._priced_requests, self._priced_keys
        for number, (count, size) in enumerate(zip(counts, sizes, strict=True)):
            requests, keys = requests + count, keys + size
            if self._cost(requests, keys) > self.allowance:
                return number
        return len(sizes)

    def _cost(self, requests: int, keys: int) -> float:
        return round(self.price.paid(requests, keys) + self._stated, 9)
