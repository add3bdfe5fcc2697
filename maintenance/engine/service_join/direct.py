"""SERVICE without a view: the source is queried for every lookup key, at every evaluation or only once."""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from freshkeeper.maintenance.engine.evaluator import TermRow
from freshkeeper.maintenance.engine.r2s import CERTAIN, Freshness
from freshkeeper.maintenance.engine.service_join.service_rows import ServiceRows
from freshkeeper.maintenance.engine.service_join.window_mappings import WindowMappings, WindowPart
from freshkeeper.maintenance.fetching.endpoint import Copy, Key, Order
from freshkeeper.maintenance.fetching.fetch_jobs import Pending
from freshkeeper.maintenance.query.service_patterns import ServicePattern, outermost, services_in
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.sources.pattern_source import PatternFetcher
from freshkeeper.maintenance.sources.transport import Bound, Transport

NOT_FRESH = Freshness(0.0)
"""The freshness of a solution whose request failed."""
LOGGER = logging.getLogger("freshkeeper")


@dataclass(eq=False)
class UncachedService:
    """A pattern with a split: one request per lookup key, plus one per dynamic entry that its answer only refers to."""

    part: WindowPart
    fetcher: PatternFetcher
    silent: bool = False
    keep: bool = False
    """what was fetched once is never requested again"""
    errors: int = 0
    failure: Exception | None = None
    failed: int = 0
    """number of failed fetches so far"""
    _results: dict[TermRow, tuple[int, list[TermRow]]] = field(default_factory=dict)
    _mappings: WindowMappings = field(default_factory=lambda: WindowMappings([]))

    def prepare(self, now: int) -> "UncachedService":
        """Read the lookup keys from the windows."""
        self._mappings = self.part.read(now)
        return self

    def prepare_round(self, now: int) -> None:
        """Do nothing: there is no budget to bid for."""

    def decide(self, now: int) -> None:
        """Do nothing: every key without a result is requested."""

    def run(self, now: int) -> Pending[None]:
        """Request every lookup key without a result."""
        self._results = self._results if self.keep else {}
        wanted = [sn for sn in self._sns if sn not in self._results]
        found = yield from self._read(now, wanted)
        self._results |= {sn: (now, list(self._rows(sn, copies))) for sn, copies in found.items()}
        self.errors = len(wanted) - len(found)
        self.failed += self.errors

    def rows(self, now: int) -> ServiceRows:
        if self.failure is not None:
            raise self.failure
        held, sns = self._results, self._sns
        found = [(n, row) for n, sn in enumerate(sns) for row in (held[sn][1] if sn in held else self._failed(sn))]
        freshness = [_freshness_at(held[sn][0], now) if sn in held else NOT_FRESH for sn in sns]
        rows = [row for _, row in found]
        return ServiceRows(
            self.fetcher.source.variables,
            rows,
            copies=[n for n, _ in found],
            freshness=freshness,
            sn=self.fetcher.source.split.sn,
            complete=dict(zip(sns, freshness, strict=True)) | self._mappings.lacking,
        )

    def rebuild(self, _now: int, _done: int) -> None:
        """Do nothing: results are not kept across a restart."""

    def leave(self) -> None:
        """Do nothing: results belong to this query alone."""

    @property
    def _sns(self) -> list[TermRow]:
        return list(dict.fromkeys(mapping.sn for mapping in self._mappings.joined))

    def _read(self, now: int, sns: list[TermRow]) -> Pending[dict[TermRow, dict[Key, Copy]]]:
        """Return the entries of the lookup keys for which all entries could be read."""
        delivery = yield from self.fetcher.carry_out(Order(now, [], sns))
        for sn, one in zip(sns, delivery.expanded, strict=True):
            if one.error is not None:
                LOGGER.info(
                    "SERVICE <%s> was not answered for %s: %s", self.fetcher.source.split.endpoint, sn, one.error
                )
        pairs = zip(sns, delivery.expanded, strict=True)
        found: dict[TermRow, dict[Key, Copy]] = {sn: {**one.copies} for sn, one in pairs if one.error is None}
        # The answer for a lookup key may name entries without their values; fetch these in a second round.
        unread = {key: None for copies in found.values() for key, copy in copies.items() if copy.error is not None}
        if unread:
            more = yield from self.fetcher.carry_out(Order(now, list(unread)))
            read = dict(zip(unread, more.copies, strict=True))
            for copies in found.values():
                copies.update((key, read[key]) for key in copies.keys() & read.keys())
        complete = {}
        for sn, copies in found.items():
            if all(copy.error is None for copy in copies.values()):
                complete[sn] = copies
        return complete

    def _rows(self, sn: TermRow, copies: Mapping[Key, Copy]) -> Iterable[TermRow]:
        for key, copy in copies.items():
            assert isinstance(key, tuple)
            yield from self.fetcher.source.rows(sn, key, copy.value)

    def _failed(self, sn: TermRow) -> list[TermRow]:
        """Return the solution of a failed SERVICE SILENT, which binds only the lookup key; none without SILENT."""
        if self.silent:
            return [(*sn, *[None] * (len(self.fetcher.source.variables) - len(sn)))]
        return []


@dataclass(eq=False)
class UnsplitService:
    """A pattern that is sent as a whole at every evaluation, because it has no split and so no lookup keys."""

    pattern: ServicePattern
    transports: Mapping[str, Transport]
    keep: bool = False
    within: float = math.inf
    """how many seconds an evaluation waits for the source"""
    errors: int = 0
    failure: Exception | None = None
    failed: int = 0
    """number of failed fetches so far"""
    _answer: tuple[int, ServiceRows] | None = None

    def prepare(self, _: int) -> "UnsplitService":
        """Return itself: no window part is needed."""
        return self

    def prepare_round(self, now: int) -> None:
        """Do nothing: an uncached pattern bids for no budget."""

    def decide(self, now: int) -> None:
        """Do nothing: the pattern is requested unless its answer is kept."""

    def run(self, now: int) -> Pending[None]:
        """Query every source that the pattern refers to, unless its answer is kept."""
        if self._answer is None or not self.keep or self.errors:
            self._answer = now, (yield from self.read_all(now))
            self.failed += self.errors

    def rows(self, now: int) -> ServiceRows:
        if self.failure is not None:
            raise self.failure
        assert self._answer is not None
        at, found = self._answer
        if at == now:
            return found
        old = _freshness_at(at, now)
        return ServiceRows(found.variables, found.rows, found.copies, [old], complete={(): old})

    def rebuild(self, _now: int, _done: int) -> None:
        """Do nothing: the next evaluation sends the pattern again."""

    def leave(self) -> None:
        """Do nothing: the answer belongs to this query alone."""

    def read_all(self, now: int) -> Pending[ServiceRows]:
        """Return the solutions of every source; a failed SERVICE SILENT counts as one solution that binds nothing."""
        self.errors = 0
        if self.pattern.endpoint is not None:
            asked = [self.pattern.endpoint]
        else:
            asked = list(self.transports)
        free = self.pattern.endpoint_variable
        names = tuple(dict.fromkeys((*self.pattern.bound, *([free] if free else []))))
        rows: list[TermRow] = []
        failed = 0
        for name in asked:
            found = yield from self._query_source(name, names, now)
            rows += found or ()
            failed += found is None and self.pattern.silent
        copies = [0] * len(rows) + [1] * failed
        rows += [(None,) * len(names)] * failed
        freshness = [Freshness(1.0, 0), *([NOT_FRESH] if failed else ())]
        return ServiceRows(names, rows, copies, freshness, complete={(): NOT_FRESH if self.errors else CERTAIN})

    def _query_source(self, name: str, names: tuple[str, ...], now: int) -> Pending[list[TermRow] | None]:
        """Return the solutions of one source, or None if the request failed."""
        free = self.pattern.endpoint_variable
        bind = f"VALUES ?{free} {{ <{name}> }}" if free else ""
        inlined = yield from self._inlined(now)
        query = f"{self.pattern.prologue.text}SELECT * WHERE {{ {bind} {inlined} }}"
        if name in self.transports:
            found = yield from self.transports[name].query(query, now, self.within)
            if found.error is None:
                rows = cast("Sequence[Bound]", found.value)
                return [tuple(map(row.get, names)) for row in rows]
            LOGGER.info("SERVICE <%s> was not answered: %s", name, found.error)
        self.errors += 1
        return None

    def _inlined(self, now: int) -> Pending[str]:
        """Return the pattern with nested SERVICE blocks replaced by their solutions.

        The source that receives it need not know the other sources.
        """
        block, edits = self.pattern.block, []
        for number, inner in enumerate(outermost(s for e in block.inner for s in services_in(e))):
            asking = UnsplitService(inner, self.transports, within=self.within)
            found = yield from asking.read_all(now)
            edits.append(Edit(*inner.span, found.text(number)))
            self.errors += asking.errors
        return block.group.edited(edits)


def _freshness_at(read: int, now: int) -> Freshness:
    """Return the freshness of a result: certain if read at this evaluation, otherwise 0, with its age."""
    return Freshness(float(read == now), now - read)
