"""A SERVICE pattern as a remote source: keys are tuples of terms, requests are the queries of its split.

How a request reaches the source is the business of its transport.
"""

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.asking import Waiting, finished
from freshkeeper.maintenance.fetching.endpoint import Asked, Copy, Delivery, Expanded, Key, Late, Order, Price
from freshkeeper.maintenance.fetching.fetch_errors import FetchError, unreadable
from freshkeeper.maintenance.fetching.refusals import Refusals
from freshkeeper.maintenance.query.service_split import EDGE_COUNT, SR_EXISTS, Split
from freshkeeper.maintenance.sources.annotations import valid
from freshkeeper.maintenance.sources.transport import (
    Bound,
    LateReply,
    Overlapping,
    Reply,
    Request,
    Term,
    Terms,
    Transport,
    sending,
)

UNDER_WAY = "pending: it was asked for already and is still on its way"
NO_IRI = re.compile(r"[\x00-\x20<>\"{}|^`\\]")
"""What would end an IRI in a query, or change what follows it."""
MOST_EDGES = 1_000_000
"""of one answer"""
UNREAD = Copy(error="not sent: its document was not read with those that lead to it")


@dataclass(eq=False)
class PatternEndpoint:
    """One SERVICE pattern of one source; it remembers the edges of every SN that was fetched, with all they bind."""

    split: Split
    transport: Transport
    price: Price = field(default_factory=Price)
    within: float = math.inf
    """how many seconds an evaluation waits for the source"""
    miss_price: Price | None = None
    """of a lookup key, where it is another one"""
    paged: bool = False
    """whether an answer is gathered from pages; how many it takes is then learned"""
    requests: int = 0
    differs: ClassVar[str] = "--volatile or the source has changed"
    edges: dict[Key, dict[Terms, list[Terms]]] = field(default_factory=dict)
    """per SN and key, the rows of the static part"""
    clock: Callable[[], float] = time.monotonic
    _refusals: Refusals = field(default_factory=Refusals)
    _under_way: set[Asked] = field(default_factory=set)
    _asking: frozenset[Asked] = frozenset()
    """what the order that is being delivered asks for"""
    _booked: int = 0

    @property
    def identity(self) -> str:
        """The queries: with others a view is another one."""
        return json.dumps([self.split.expand_query(), self.split.refresh_query()])

    @property
    def limits(self) -> object:
        """The transport knows them."""
        return self.transport

    @property
    def edge(self) -> tuple[str, ...]:
        """The variables of an edge."""
        return self.split.edge or self.split.sn

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of a whole row: edge, key, values."""
        return tuple(dict.fromkeys((*self.edge, *self.split.key, *self.split.values)))

    def room(self, now: int) -> float:
        """The cost units of full requests that the source takes."""
        requests = self.transport.room(now)
        full = self.price.batch * self.price.each
        return requests // self.price.pages * full if requests < math.inf else requests

    def book(self, cost: float) -> None:
        """Others that ask the same source at this instant find so much less room, until the order comes."""
        full = self.price.batch * self.price.each
        if isinstance(self.transport, Overlapping) and full > 0:
            self._booked = math.ceil(cost / full) * self.price.pages
            self.transport.book(self._booked)

    def deliver(self, order: Order) -> Delivery:
        """The whole of an order."""
        return finished(self.delivering(order))

    def delivering(self, order: Order) -> Waiting[Delivery]:
        """Refresh queries and expansions, `batch` keys in each, all at once; a value is the rows of an SR.

        What is refused is asked for again in halves, as far as allowance and time reach.
        """
        self._refusals.begin()
        if isinstance(self.transport, Overlapping):
            self.transport.book(-self._booked)
            self._booked = 0
        until, bill = self.clock() + self.within, _Bill(self.price, order.allowance)
        outcome: dict[Asked, Copy | Expanded] = {}
        late: list[Late] = []
        wanted = [*((Kind.COPY, key) for key in order.keys), *((Kind.MISS, sn) for sn in order.sns)]
        asked = self._asked(wanted, outcome)
        self._asking = frozenset(wanted)
        while True:
            left = max(0.0, until - self.clock())
            sent = yield from sending(self.transport, asked, order.now, bill.tries(asked), self, left)
            bill.add(asked, sent.replies)
            self._see_pages(asked, sent.replies)
            late += [late for one in sent.late for late in self._late(one)]
            halves: list[Asked] = []
            for request, reply in zip(asked, sent.replies, strict=True):
                results, refused = self._outcome(request, reply, order.now)
                outcome |= results
                if reply.pending:
                    self._under_way |= results.keys()
                if refused and len(request.keys) > 1:
                    halves += _asked_in(request)
            asked = self._asked(halves, outcome)
            if not asked or bill.tries(asked) < 1 or self.clock() >= until:
                break
        self._asking = frozenset()
        self.requests += bill.requests
        copies = [cast(Copy, outcome[Kind.COPY, key]) for key in order.keys]
        expanded = [cast(Expanded, outcome[Kind.MISS, sn]) for sn in order.sns]
        sent_for = [bill.sent.get(one, 0.0) for one in wanted]
        return Delivery(copies, expanded, bill.spent, bill.requests, late, sent=sent_for)

    def is_asking(self, asked: Asked) -> bool:
        """Whether a request for it is on its way."""
        return asked in self._asking or asked in self._under_way

    def resting(self) -> Iterable[Asked]:
        """What the source refused not long ago."""
        return self._refusals.resting()

    def rows(self, sn: Key, key: Key, value: object) -> list[Terms]:
        """The SERVICE pattern's solutions for one edge and one copy, over `variables`."""
        assert isinstance(key, tuple)
        assert isinstance(value, tuple)
        known = dict(zip(self.split.key, key, strict=True))
        found = []
        for edge in self.edges.get(sn, {}).get(key, ()):
            bound = known | dict(zip(self.edge, edge, strict=True))
            start = tuple(bound[name] for name in self.variables[: len(bound)])
            found += [(*start, *row) for row in value]
        return found

    def forget(self, sns: Mapping[Key, int]) -> None:
        """Keep the edges of these SNs alone."""
        if len(self.edges) > 2 * len(sns) + 1_000:
            self.edges = {sn: edges for sn, edges in self.edges.items() if sn in sns}

    def _asked(self, wanted: Iterable[Asked], outcome: dict[Asked, Copy | Expanded]) -> list[Request]:
        """The requests for these keys, small ones first; what cannot be asked, or was already, has its outcome at once.

        Where the allowance does not pay for all, the full requests can wait: what they hold was answered before.
        """
        groups: dict[tuple[bool, int], list[Terms]] = {}
        for one in wanted:
            expands, key = one[0] is Kind.MISS, one[1]
            assert isinstance(key, tuple)
            problem = self._why_held_back(one) or _problem(key)
            if problem is None:
                groups.setdefault((expands, self._refusals.most(one, self.price.batch)), []).append(key)
            else:
                outcome[one] = Expanded(error=problem) if expands else Copy(error=problem)
        return [
            self._request(expands, tuple(group[n : n + most]))
            for (expands, most), group in sorted(groups.items(), key=lambda each: each[0][1])
            for n in range(0, len(group), most)
        ]

    def _request(self, expands: bool, keys: tuple[Terms, ...]) -> Request:
        split = self.split
        query = split.expand_query if expands else split.refresh_query
        return Request(query(keys), split.sn if expands else split.key, keys, expands)

    def _why_held_back(self, asked: Asked) -> str | None:
        """Why a key is not asked for now, though it could be."""
        if asked in self._under_way:
            return UNDER_WAY
        rests = self._refusals.rests(asked)
        return f"not sent: the source refused it, so it is asked for again after {rests} evaluations" if rests else None

    def _see_pages(self, asked: Sequence[Request], replies: Sequence[Reply]) -> None:
        """Requests cost what the last ones did."""
        for expands in (True, False) if self.paged else ():
            each = [reply for one, reply in zip(asked, replies, strict=True) if one.expands is expands]
            seen = [reply.sent for reply in each if reply.sent and not reply.pending]
            if seen and expands:
                self.miss_price = replace(self.price, pages=max(seen))
            elif seen:
                self.price = replace(self.price, pages=max(seen))

    def _late(self, late: LateReply) -> list[Late]:
        results, _ = self._outcome(late.request, late.reply, late.asked_at)
        self._under_way -= results.keys()
        return [Late(key, result, late.asked_at, kind) for (kind, key), result in results.items()]

    def _outcome(self, request: Request, reply: Reply, now: int) -> tuple[dict[Asked, Copy | Expanded], bool]:
        """What a reply says of each key of its request, and whether it would say more of fewer keys."""
        try:
            found = self._read(request, reply, now)
        except Exception as error:  # whatever a source answers costs its answers, and nothing else
            reply = replace(reply, rows=(), error=unreadable(error), refused=True)
            found = self._read(request, reply, now)
        if reply.refused:
            self._refusals.refused(_asked_in(request))
        elif reply.error is None:
            self._refusals.answered(_asked_in(request))
        return found, reply.refused

    def _read(self, request: Request, reply: Reply, now: int) -> dict[Asked, Copy | Expanded]:
        if request.expands:
            _check_times(reply)
            return {(Kind.MISS, sn): self._learn(sn, request, reply, now) for sn in request.keys}
        names = self.split.key
        if reply.error is not None:
            return {(Kind.COPY, key): Copy(error=reply.error) for key in request.keys}
        found: dict[Terms, list[Bound]] = {key: [] for key in request.keys}
        for row in reply.rows:
            key = _over(row, names)
            if key in found:
                found[key].append(row)
        return {(Kind.COPY, key): self._copy(rows, reply, now) for key, rows in found.items()}

    def _learn(self, sn: Terms, request: Request, reply: Reply, now: int) -> Expanded:
        if reply.error is not None:
            return Expanded(error=reply.error)
        edges: dict[Terms, list[Terms]] = {}
        values: dict[Terms, list[Bound]] = {}
        for row in reply.rows:
            if len(request.keys) > 1 and _over(row, self.split.sn) != sn:
                continue
            key, edge = _over(row, self.split.key), _over(row, self.edge)
            known = edges.setdefault(key, [])
            if edge not in known:
                known += [edge] * _times(row)
            if SR_EXISTS in row and edge == known[0]:  # with every edge of a key come all its values again
                values.setdefault(key, []).append(row)
        if self.split.one_to_one and not edges:
            edges = {tuple(sn[self.split.sn.index(name)] for name in self.split.key): [sn]}
        self.edges[sn] = edges
        copies: dict[Key, Copy] = {key: self._copy(values.get(key, ()), reply, now) for key in edges}
        if reply.known is not None:
            copies |= {key: UNREAD for key in edges if key not in values and not reply.known.intersection(key)}
        return Expanded(copies)

    def _copy(self, rows: Sequence[Bound], reply: Reply, now: int) -> Copy:
        """The order in which a source gives rows means nothing, so it must not look like a change."""
        kept, told = valid(rows, self.split.validity_variables, now)
        modified = reply.modified if told.modified == UNKNOWN else told.modified
        expires = reply.expires if told.expires == UNKNOWN else told.expires
        return Copy(tuple(sorted((_over(row, self.split.values) for row in kept), key=str)), modified, expires)


@dataclass(eq=False)
class _Bill:
    """What an order has cost so far, and how much more its allowance pays for."""

    price: Price
    allowance: float
    requests: int = 0
    keys: int = 0
    sent: dict[Asked, float] = field(default_factory=dict)
    """the requests that went for each key, shared by those that went together"""

    @property
    def spent(self) -> float:
        """What it costs, in cost units."""
        return self.price.paid(self.requests, self.keys)

    def add(self, asked: Sequence[Request], replies: Sequence[Reply]) -> None:
        """What was sent, every try."""
        for request, reply in zip(asked, replies, strict=True):
            self.requests += reply.sent
            self.keys += reply.sent * len(request.keys)
            for one in _asked_in(request):
                self.sent[one] = self.sent.get(one, 0.0) + reply.sent / len(request.keys)

    def tries(self, asked: Sequence[Request]) -> float:
        """How many tries the allowance pays for: the first of these requests, and when it is for all, full ones."""
        keys = self.keys
        for n, request in enumerate(asked):
            keys += len(request.keys)
            if self.price.paid(self.requests + n + 1, keys) > self.allowance:
                return n
        full = self.price.per_request + self.price.batch * self.price.per_key
        if not 0 < full < math.inf or self.allowance == math.inf:
            return len(asked) + self.allowance
        return len(asked) + (self.allowance - self.price.paid(self.requests + len(asked), keys)) // full


def _asked_in(request: Request) -> list[Asked]:
    kind = Kind.MISS if request.expands else Kind.COPY
    return [(kind, key) for key in request.keys]


def _problem(terms: Iterable[Term | None]) -> str | None:
    for term in terms:
        if isinstance(term, BlankNode):
            return f"not sent: {term} is a blank node: it means nothing to another source, and cannot be a key"
        if isinstance(term, Triple) and (problem := _problem((term.subject, term.predicate, term.object))):
            return problem
        iri = term.value if isinstance(term, NamedNode) else term.datatype.value if isinstance(term, Literal) else ""
        if NO_IRI.search(iri):
            return f"not sent: {iri!r} is no IRI, and cannot be a key"  # lenient parsers let them through
    return None


def _check_times(reply: Reply) -> None:
    """A number is quickly written, and its edges are not quickly held."""
    if (edges := sum(map(_times, reply.rows))) > MOST_EDGES:
        raise FetchError(f"too large: the answer stands for {edges} edges, and {MOST_EDGES} are read")


def _times(row: Bound) -> int:
    """How often the static part has an edge."""
    found = row.get(EDGE_COUNT)
    return int(found.value) if isinstance(found, Literal) else 1


def _over(row: Bound, names: Sequence[str]) -> Terms:
    return tuple(row.get(name) for name in names)
