"""The seam to a source: fetch SRs by key, or all that belongs to an SN; say what it cost and what failed.

An endpoint never raises for a key that fails: it says so in the result, and the request is paid for all the same.
A simple source has `fetch` and `expand`. A remote one takes everything an evaluation wants in one order, because it
sends at once what may be under way at once, has limits of its own, and may answer when the evaluation is over.
"""

import logging
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, runtime_checkable

from freshkeeper.maintenance.base.errors import ConfigError, EndpointError, InputError, StoppedError
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.asking import Waiting

LOGGER = logging.getLogger("freshkeeper")
LONGEST_ERROR = 240
NO_FAILURE = (InputError, StoppedError)
"""of a source: that the input is wrong, or that the run is to stop, passes through whoever asks one"""
PENDING = "pending: the answer is late"
"""The error of what was sent and is not there by the deadline: what comes of it is told later."""
Key = Hashable
Asked: TypeAlias = tuple[Kind, Key]
"""A lookup key that is missing, or a cached entry, or the edges of a lookup key: what a source is asked for."""


@dataclass(frozen=True)
class Price:
    """What a source charges, in cost units, and how many keys a request holds.

    >>> from freshkeeper import Price
    >>> Price(per_request=1, per_key=0.1, batch=10).of(25)
    5.5
    """

    per_request: float = 1.0
    per_key: float = 0.0
    batch: int = 1
    pages: int = 1
    """requests that an answer is gathered from, at least, where one is not enough"""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ConfigError(f"a request holds at least 1 key, so batch cannot be {self.batch}")
        if self.pages < 1:
            raise ConfigError(f"an answer takes at least 1 request, so pages cannot be {self.pages}")

    @property
    def each(self) -> float:
        """What a key costs where requests are full."""
        return self.pages * self.per_request / self.batch + self.per_key

    def of(self, keys: int) -> float:
        """What so many keys cost, in as few requests as hold them."""
        return self.paid(-(-keys // self.batch) * self.pages, keys)

    def paid(self, requests: int, keys: int) -> float:
        """What so many requests cost that hold so many keys together; 3 at 0.1 cost 0.3, as on paper."""
        return round(requests * self.per_request + keys * self.per_key, 9)


@dataclass(frozen=True)
class Copy:
    """One SR as the source has it now; a copy without an error is good.

    >>> from freshkeeper import Copy
    >>> Copy(10, modified=900).value, Copy(error="503 Service Unavailable").error
    (10, '503 Service Unavailable')
    """

    value: object = None
    modified: int = UNKNOWN
    expires: int = UNKNOWN
    error: str | None = None


@dataclass(frozen=True)
class Fetched:
    """What came of fetching some SRs: a copy for each key, in the order asked, and what it cost.

    >>> from freshkeeper import Copy, Fetched
    >>> Fetched([Copy(10), Copy(20)], spent=1.0, requests=1).copies[1].value
    20
    """

    copies: Sequence[Copy]
    spent: float
    requests: int


@dataclass(frozen=True)
class Expanded:
    """What came of fetching an SN: its SRs with their copies; `error` where that failed.

    >>> from freshkeeper import Copy, Expanded
    >>> list(Expanded({"ann": Copy(10), "bob": Copy(20)}, spent=1.0, requests=1).copies)
    ['ann', 'bob']
    """

    copies: dict[Key, Copy] = field(default_factory=dict)
    spent: float = 0.0
    requests: int = 0
    error: str | None = None
    edges: Copy | None = None
    """the edges themselves, where they are refreshed like an SR"""


@dataclass(frozen=True)
class Order:
    """What an evaluation wants of a source: SRs to refresh, SNs to expand, and what it may cost, retries included.

    >>> from freshkeeper import Order
    >>> Order(now=1000, keys=["ann", "bob"], allowance=2.0).sns
    ()
    """

    now: int
    keys: Sequence[Key]
    sns: Sequence[Key] = ()
    allowance: float = math.inf
    edges: Sequence[Key] = ()
    """SNs whose edges are to be refreshed, for sources that give them as copies"""


@dataclass(frozen=True)
class Late:
    """What an earlier evaluation had asked for, and had paid."""

    key: Key
    outcome: Copy | Expanded
    read_at: int
    kind: Kind = Kind.COPY


@dataclass(frozen=True)
class Delivery:
    """What came of an order: a copy for each key, an expansion for each SN, what it cost, and what came late.

    >>> from freshkeeper import Copy, Delivery
    >>> Delivery([Copy(10), Copy(20)], [], spent=1.0, requests=1).shares[0]
    [0.5, 0.5]
    """

    copies: Sequence[Copy]
    expanded: Sequence[Expanded]
    spent: float
    requests: int
    late: Sequence[Late] = ()
    edges: Sequence[Copy] = ()
    sent: Sequence[float] = ()
    """the requests that went for each key, SN and edge of the order, of one with several keys its share; left out: all
    alike"""

    @property
    def shares(self) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
        """`sent` by kind: of keys, SNs and edges."""
        plain, more = len(self.copies), len(self.copies) + len(self.expanded)
        every = more + len(self.edges)
        sent = self.sent or [self.requests / every for _ in range(every)]
        return sent[:plain], sent[plain:more], sent[more:]


class Endpoint(Protocol):
    """One source of background data."""

    price: Price

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        """The present copies of these SRs."""

    def expand(self, sn: Key, now: int) -> Expanded:
        """The SRs that belong to an SN, with their present copies."""


@runtime_checkable
class Remote(Protocol):
    """A source with limits of its own."""

    price: Price

    def room(self, now: int) -> float:
        """The cost units that it would take now: what rate limits leave, nothing while it is known to be down."""

    def deliver(self, order: Order) -> Delivery:
        """Do what can be done within the order's allowance and the evaluation's deadline."""


@runtime_checkable
class Choosy(Protocol):
    """A source that may refuse keys, which are then left alone for a while."""

    def resting(self) -> Iterable[Asked]:
        """What the next order would not ask for."""


@runtime_checkable
class Overlapping(Protocol):
    """A remote source that can be waited for together with others."""

    def delivering(self, order: Order) -> Waiting[Delivery]:
        """As `deliver`, pausing while requests are on their way."""
        ...

    def book(self, cost: float) -> None:
        """An order of at most this cost is decided upon and will come: others of this instant find less room."""
        ...


def delivering(endpoint: Endpoint | Remote, order: Order) -> Waiting[Delivery]:
    """An order to any source, pausing while it is on its way, where the source can do that.

    What a source raises all the same fails the whole order, which is paid as far as the allowance goes; that the
    input is wrong or the run is to stop is no failure of the source.
    """
    try:
        if isinstance(endpoint, Overlapping):
            delivery = yield from endpoint.delivering(order)
        else:
            delivery = deliver(endpoint, order)
    except NO_FAILURE:
        raise
    except Exception as error:
        return lost(endpoint, order, failure(error))
    given, wanted = (len(delivery.copies), len(delivery.expanded)), (len(order.keys), len(order.sns))
    if given != wanted:
        said = f"{given[0]} copies for {wanted[0]} keys and {given[1]} expansions for {wanted[1]} lookup keys"
        return replace(lost(endpoint, order, f"malformed: {said}"), spent=delivery.spent, requests=delivery.requests)
    return delivery


def failure(error: Exception) -> str:
    """An exception as the error of a key, for people; and with its traceback in the log, for who wrote the source."""
    where = None if isinstance(error, EndpointError) else error
    LOGGER.warning("a source raised %s: %s", type(error).__name__, error, exc_info=where)
    return error_text(error)


def error_text(error: BaseException) -> str:
    """An exception in one line that is not endless."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_ERROR]


def miss_price(endpoint: Endpoint | Remote) -> Price:
    """What fetching lookup keys costs: of a simple source each is a request of its own."""
    own = getattr(endpoint, "miss_price", None)
    if isinstance(own, Price):
        return own
    return endpoint.price if isinstance(endpoint, Remote) else replace(endpoint.price, batch=1)


def lost(endpoint: Endpoint | Remote, order: Order, error: str) -> Delivery:
    """An order of which nothing came: it is paid as far as the allowance goes."""
    cost = endpoint.price.of(len(order.keys)) + miss_price(endpoint).of(len(order.sns))
    copies, expanded = [Copy(error=error) for _ in order.keys], [Expanded(error=error) for _ in order.sns]
    return Delivery(copies, expanded, min(cost, order.allowance), 0, edges=[Copy(error=error) for _ in order.edges])


def deliver(endpoint: Endpoint | Remote, order: Order) -> Delivery:
    """An order to any source; a simple one is asked for SRs together and for SNs one by one."""
    if isinstance(endpoint, Remote):
        return endpoint.deliver(order)
    fetched = endpoint.fetch(order.keys, order.now) if order.keys else Fetched([], 0.0, 0)
    expanded = [endpoint.expand(sn, order.now) for sn in order.sns]
    spent = fetched.spent + sum(one.spent for one in expanded)
    sent = [fetched.requests / len(order.keys) for _ in order.keys] + [float(one.requests) for one in expanded]
    requests = fetched.requests + sum(one.requests for one in expanded)
    return Delivery(fetched.copies, expanded, spent, requests, sent=sent)
