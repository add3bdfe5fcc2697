"""The seam to a source: fetch SRs by key, or all that belongs to an SN; say what it cost and what failed.

An endpoint never raises for a key that fails: it says so in the result, and the request is paid for all the same.
A simple source has `fetch` and `expand`. A remote one takes everything an evaluation wants in one order, because it
sends at once what may be under way at once, has limits of its own, and may answer when the evaluation is over.
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
"""of a source: that the input is wrong, or that the run is to stop, passes through whoever asks one"""
PENDING = "pending: the answer is late"
"""The error of what was sent and is not there by the deadline: what comes of it is told later."""
Key = Hashable
EntryId: TypeAlias = tuple[Kind, Key]
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


def failure(error: Exception) -> str:
    """An exception as the error of a key, for people; and with its traceback in the log, for who wrote the source."""
    where = None if isinstance(error, EndpointError) else error
    LOGGER.warning("a source raised %s: %s", type(error).__name__, error, exc_info=where)
    return error_text(error)


def error_text(error: BaseException) -> str:
    """An exception in one line that is not endless."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_ERROR]
