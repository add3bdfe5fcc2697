"""Orders to sources and their deliveries: keys, copies, prices, errors.

A key that fails has its error in the delivery and is paid for; nothing is raised. Simple sources have `fetch` and
`expand` (`Endpoint`). A `Remote` source carries out whole orders itself, because it sends several requests at once, has
limits of its own, and may answer when the evaluation is over.
"""

import logging
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from freshkeeper.maintenance.base.errors import ConfigError, EndpointError, InputError, StoppedError
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.times import UNKNOWN

LOGGER = logging.getLogger("freshkeeper")
LONGEST_ERROR = 240
NO_FAILURE = (InputError, StoppedError)
"""Exceptions that are raised through every caller: the input is wrong, or the run is to stop."""
PENDING = "pending: the answer is late"
"""The error of a request that was sent and has no reply by the deadline; the reply is delivered late."""
Key = Hashable
EntryId: TypeAlias = tuple[Kind, Key]
"""What a source is asked for: a cached entry, a lookup key that is missing, or the edges of a lookup key."""


@dataclass(frozen=True)
class Price:
    """The price of requests to a source, in cost units, and the keys that a request may hold.

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
    def key_price(self) -> float:
        """The price of a key in a full request."""
        return self.pages * self.per_request / self.batch + self.per_key

    def of(self, keys: int) -> float:
        """Return the price of some keys, in as few requests as hold them."""
        return self.paid(-(-keys // self.batch) * self.pages, keys)

    def paid(self, requests: int, keys: int) -> float:
        """Return the price of some requests that hold some keys together, rounded so that 3 at 0.1 are 0.3."""
        return round(requests * self.per_request + keys * self.per_key, 9)


@dataclass(frozen=True)
class Copy:
    """A cached entry as the source has it now; a copy without an error is good.

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
    """The result of fetching some cached entries: a copy for each key in their order, and the cost.

    >>> from freshkeeper import Copy, Fetched
    >>> Fetched([Copy(10), Copy(20)], spent=1.0, requests=1).copies[1].value
    20
    """

    copies: Sequence[Copy]
    spent: float
    requests: int


@dataclass(frozen=True)
class Expanded:
    """The result of fetching a lookup key: its cached entries with their copies, or an error.

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
    """The keys that an evaluation wants of a source: cached entries to refresh, lookup keys to expand; and an
    allowance.

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
    """A reply to an earlier evaluation, which paid for it."""

    key: Key
    outcome: Copy | Expanded
    read_at: int
    kind: Kind = Kind.COPY


@dataclass(frozen=True)
class Delivery:
    """The result of an order: a copy for each key, an expansion for each lookup key, the cost, and late replies.

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
    """A source of background data."""

    price: Price

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        """Return the present copies of these cached entries."""

    def expand(self, sn: Key, now: int) -> Expanded:
        """Return the cached entries of a lookup key with their present copies."""


@runtime_checkable
class Remote(Protocol):
    """A source with limits of its own."""

    price: Price

    def room(self, now: int) -> float:
        """Return the cost units that the source takes now: what rate limits leave, nothing while it is down."""

    def deliver(self, order: Order) -> Delivery:
        """Carry out an order within its allowance and the evaluation's deadline."""


def failure(error: Exception) -> str:
    """Return an exception as the error of a key, and log it with its traceback for the author of the source."""
    where = None if isinstance(error, EndpointError) else error
    LOGGER.warning("a source raised %s: %s", type(error).__name__, error, exc_info=where)
    return error_text(error)


def error_text(error: BaseException) -> str:
    """Return an exception as one line of limited length."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_ERROR]
