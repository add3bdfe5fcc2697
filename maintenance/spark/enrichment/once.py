"""A source that is asked once for every evaluation, whatever is killed when.

Before anything is sent, the order is in the log, on the disk; what came of it follows, and is on the disk with the next
order at the latest. After a restart an order with a delivery is answered from the log, and one without was sent, or may
have been: it counts as paid and failed. So the budget of an evaluation is spent at most once, and what a kill, or the
end of the machine, costs is the refreshes that were under way.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.fetching import endpoint
from freshkeeper.maintenance.fetching.asking import finished
from freshkeeper.maintenance.fetching.endpoint import Delivery, Endpoint, Order, Price, Remote
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


@dataclass(eq=False)
class Once:
    """The source as the manager sees it; `begin` names the log of the micro-batch that follows."""

    source: Endpoint | Remote
    reached: Callable[[str], None]
    price: Price = field(init=False)
    _log: BatchLog | None = None
    _intents: dict[int, Intent] = field(default_factory=dict)
    _deliveries: dict[int, Delivery] = field(default_factory=dict)
    _room: float = math.inf
    _selection: Selection | None = None
    _replay: bool = False

    def __post_init__(self) -> None:
        self.price = self.source.price

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Snapshots hold nothing of the world outside."""
        return type(None), ()

    @property
    def miss_price(self) -> Price:
        """Of lookup keys, where those have entries of their own."""
        return endpoint.miss_price(self.source)

    def begin(self, log: BatchLog, replay: bool = False) -> None:
        """A micro-batch begins, perhaps not for the first time; a `replay` is of one that is done."""
        self._log, self._replay = log, replay
        self._intents, self._deliveries = {}, {}
        now = 0
        for record in log.read():
            if isinstance(record, Intent):
                now = record.order.now
                self._intents[now] = record
            elif isinstance(record, Delivery):
                self._deliveries[now] = record

    def room(self, now: int) -> float:
        """What the source takes now; at a repetition what it took then."""
        if now in self._intents:
            return self._intents[now].room
        self._room = self.source.room(now) if isinstance(self.source, Remote) else math.inf
        return self._room

    def decided(self, now: int, selection: Selection) -> Selection:
        """What is chosen at an instant; in a replay what was chosen then, by whatever version of the policy."""
        known = self._intents.get(now) if self._replay else None
        self._selection = selection if known is None or known.selection is None else known.selection
        return self._selection

    def deliver(self, order: Order) -> Delivery:
        """Ask the source, or answer from the log."""
        order = replace(order, keys=list(order.keys), sns=list(order.sns))
        if order.now in self._intents:
            return self._repeated(self._intents[order.now].order, order)
        assert self._log is not None
        if not order.keys and not order.sns and not isinstance(self.source, Remote):
            return Delivery([], [], 0.0, 0)
        self._log.append(Intent(order, self._room, self._selection))
        self.reached("intended")
        delivery = finished(endpoint.delivering(self.source, order))
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
        # A remote source may have been asked again, up to the allowance; a simple one costs what was asked for.
        delivery, tried_again = endpoint.lost(self.source, order, LOST), isinstance(self.source, Remote)
        return replace(delivery, spent=order.allowance) if tried_again and math.isfinite(order.allowance) else delivery
