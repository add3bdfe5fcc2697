"""A source that is asked once for every evaluation, whatever is killed when.

Before anything is sent, the order is in the log, on the disk; what came of it follows, and is on the disk with the next
order at the latest. After a restart an order with a delivery is answered from the log, and one without was sent, or may
have been: it counts as paid and failed. So the budget of an evaluation is spent at most once, and what a kill, or the
end of the machine, costs is the refreshes that were under way.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.fetching.endpoint import Delivery, EntryId, Order, Price
from freshkeeper.maintenance.fetching.fetch_jobs import Pending, run_until_complete
from freshkeeper.maintenance.fetching.fetcher import Fetcher, RemoteFetcher, failed_delivery
from freshkeeper.maintenance.fetching.function_source import SourceLike, fetcher_of
from freshkeeper.maintenance.spark.enrichment.batch_store import BatchLog
from freshkeeper.policies.base import Selection

LOST = "the query was stopped before the answer was recorded"


@dataclass(frozen=True)
class Intent:
    """An order that is about to be sent, and the room that the source had when it was decided on."""

    order: Order
    room: float
    selection: Selection | None
    """what the order was made of"""
    backoff: tuple[EntryId, ...] = ()
    """the keys that were left out because they failed not long before"""


@dataclass(eq=False)
class RecordingFetcher:
    """The source as the manager sees it; `begin` names the log of the micro-batch that follows."""

    source: SourceLike
    reached: Callable[[str], None]
    fetcher: Fetcher = field(init=False)
    _log: BatchLog | None = None
    _intents: dict[int, Intent] = field(default_factory=dict)
    _deliveries: dict[int, Delivery] = field(default_factory=dict)
    _now: int = 0
    """the instant that is decided on"""
    _room: float = math.inf
    _backoff: tuple[EntryId, ...] = ()
    _selection: Selection | None = None
    _replay: bool = False

    def __post_init__(self) -> None:
        self.fetcher = fetcher_of(self.source)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Snapshots hold nothing of the world outside."""
        return type(None), ()

    @property
    def price(self) -> Price:
        return self.fetcher.price

    @property
    def miss_price(self) -> Price:
        return self.fetcher.miss_price

    def begin(self, log: BatchLog, replay: bool = False) -> None:
        """Begin a micro-batch, perhaps not for the first time; a `replay` repeats one that is committed."""
        self._log, self._replay = log, replay
        self._intents, self._deliveries = {}, {}
        now = 0
        for record in log.read():
            if isinstance(record, Intent):
                now = record.order.now
                self._intents[now] = record
            elif isinstance(record, Delivery):
                self._deliveries[now] = record

    def capacity(self, now: int) -> float:
        """Return what the source takes now; at a repetition what it took then."""
        self._now = now
        if now in self._intents:
            return self._intents[now].room
        self._room, self._backoff = self.fetcher.capacity(now), tuple(self.fetcher.keys_in_backoff())
        return self._room

    def keys_in_backoff(self) -> Iterable[EntryId]:
        """Return the keys that failed not long ago; at a repetition those of that time."""
        intent = self._intents.get(self._now)
        return self._backoff if intent is None else intent.backoff

    def reserve_capacity(self, cost: float) -> None:
        self.fetcher.reserve_capacity(cost)

    def cost_at_most(self, order: Order) -> float:
        return self.fetcher.cost_at_most(order)

    def decided(self, now: int, selection: Selection) -> Selection:
        """Return the selection of an instant; in a replay the recorded one, whatever the policy would choose now."""
        known = self._intents.get(now) if self._replay else None
        self._selection = selection if known is None or known.selection is None else known.selection
        return self._selection

    def carry_out(self, order: Order) -> Pending[Delivery]:
        """Carry out an order, or answer it from the log."""
        yield from ()  # a micro-batch waits for its source
        order = replace(order, keys=list(order.keys), sns=list(order.sns))
        if order.now in self._intents:
            return self._repeated(self._intents[order.now].order, order)
        assert self._log is not None
        is_empty = not order.keys and not order.sns
        if is_empty and not isinstance(self.fetcher, RemoteFetcher):
            delivery = run_until_complete(self.fetcher.carry_out(order))
            if not delivery.late:
                return delivery
            self._log.append(Intent(order, self._room, self._selection, self._backoff))
        else:
            self._log.append(Intent(order, self._room, self._selection, self._backoff))
            self.reached("intended")
            delivery = run_until_complete(self.fetcher.carry_out(order))
        self.reached("fetched")
        self._log.append(delivery, sync=False)
        self.reached("recorded")
        return delivery

    def _repeated(self, recorded: Order, order: Order) -> Delivery:
        if recorded != order:
            raise InputError(
                f"the evaluation at {order.now} wants other entries than before the restart: a source of events must "
                "give the same micro-batch again"
            )
        if order.now in self._deliveries:
            return self._deliveries[order.now]
        return replace(failed_delivery(self.fetcher, order, LOST), spent=self.fetcher.cost_at_most(order))
