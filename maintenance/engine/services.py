"""Where the solutions of a SERVICE pattern come from: the view, or the source itself (the baselines).

view     a local view, kept fresh within a budget by a policy: what freshkeeper is for
always   no cache: one request per SN and evaluation, as C-SPARQL does
once     one request per SN, ever
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from maintenance.engine.answers import Freshness
from maintenance.engine.content import NEVER
from maintenance.engine.evaluator import Evaluator, Function, Row
from maintenance.engine.mappings import WindowMapping, WindowPart
from maintenance.engine.rows import ServiceRows
from maintenance.evaluation import Evaluation
from maintenance.manager import Manager
from maintenance.query.services import ServicePattern, find_services
from maintenance.service.endpoint import Copy, Order
from maintenance.service.pattern import PatternEndpoint
from maintenance.service.transport import Request, Transport
from policies.base import Case
from policies.errors import EndpointError


class Fetch(StrEnum):
    """When sources are asked."""

    VIEW = "view"
    ALWAYS = "always"
    ONCE = "once"


class Service(Protocol):
    """One SERVICE pattern of one query."""

    errors: int

    def rows(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> ServiceRows:
        """Its solutions at an instant."""
        ...


@dataclass(eq=False)
class FromView:
    """SERVICE from the view: the manager keeps it fresh for the mappings that are in the windows."""

    part: WindowPart
    endpoint: PatternEndpoint
    manager: Manager
    observe: Callable[[Evaluation], None] = field(default=lambda _: None)
    errors: int = 0
    _fed: dict[Row, int] = field(default_factory=dict)
    _last: tuple[int, Evaluation] | None = None

    def rows(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> ServiceRows:
        """Move the window, refresh within the budget, join with what the view has then."""
        mappings = self.part.read(evaluator, functions)
        if self._last is None or self._last[0] < now:
            self._last = now, self._evaluate(now, mappings)
            self.observe(self._last[1])
        self.errors = self._last[1].record.errors
        return self._joined(self._last[1], now)

    def _evaluate(self, now: int, mappings: list[WindowMapping]) -> Evaluation:
        self.manager.content.remove(self._fed.keys() - {m.identity for m in mappings})
        span = self.manager.window.range
        until = [min(now, max(m.expiry - span, now - span + 1)) + span for m in mappings]
        new = [(m, end) for m, end in zip(mappings, until, strict=True) if self._fed.get(m.identity, NEVER) < end]
        self._fed = {m.identity: end for m, end in zip(mappings, until, strict=True)}
        slots = self.manager.view.sn_slots([m.sn for m, _ in new])
        self.endpoint.forget(self.manager.view.sns.numbers)
        at = np.array([end - span for _, end in new], dtype=np.int64)
        return self.manager.evaluate_slots(now, at, slots, [m.identity for m, _ in new])

    def _joined(self, evaluation: Evaluation, now: int) -> ServiceRows:
        """One copy per SR; of an aggregate, one per SN, because its inputs are fresh together or not."""
        rows: list[Row] = []
        copies: list[int] = []
        freshness: dict[object, tuple[int, Freshness]] = {}
        whole = self.manager.case is Case.AGGREGATE
        for answer in evaluation.answers or ():
            known = freshness.get(answer.sn if whole else answer.sr)
            age = now - answer.refreshed
            if known is None:
                known = len(freshness), Freshness(answer.fresh, age)
            elif known[1].age is not None and known[1].age < age:
                known = known[0], Freshness(answer.fresh, age)
            freshness[answer.sn if whole else answer.sr] = known
            found = self.endpoint.rows(answer.sn, answer.sr, answer.value)
            rows += found
            copies += [known[0]] * len(found)
        return ServiceRows(self.endpoint.variables, rows, copies, [fresh for _, fresh in freshness.values()])


@dataclass(eq=False)
class Directly:
    """The baselines: every SN is asked for at every evaluation, or once and never again."""

    part: WindowPart
    endpoint: PatternEndpoint
    keep: bool = False
    errors: int = 0
    _held: dict[Row, tuple[int, list[Row]]] = field(default_factory=dict)

    def rows(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> ServiceRows:
        """One request for each SN that is not held."""
        sns = dict.fromkeys(mapping.sn for mapping in self.part.read(evaluator, functions))
        held = self._held if self.keep else {}
        self.errors = 0
        wanted = [sn for sn in sns if sn not in held]
        for sn, expanded in zip(wanted, self.endpoint.deliver(Order(now, [], wanted)).expanded, strict=True):
            if expanded.error is None:
                held[sn] = now, list(self._rows(sn, expanded.copies))
            else:
                self.errors += 1
        pairs = [(number, row) for number, sn in enumerate(sns) for row in held.get(sn, (now, []))[1]]
        read = [held.get(sn, (now, []))[0] for sn in sns]
        freshness = [Freshness(float(at == now), now - at) for at in read]  # nothing vouches for what is older
        return ServiceRows(self.endpoint.variables, [row for _, row in pairs], [n for n, _ in pairs], freshness)

    def _rows(self, sn: Row, copies: Mapping[object, Copy]) -> Iterable[Row]:
        for key, copy in copies.items():
            assert isinstance(key, tuple)
            yield from self.endpoint.rows(sn, key, copy.value)


@dataclass(eq=False)
class Whole:
    """A pattern that is asked as it stands, at every evaluation: without a split there are no keys to ask for."""

    pattern: ServicePattern
    transports: Mapping[str, Transport]
    keep: bool = False
    errors: int = 0
    _kept: ServiceRows | None = None

    def rows(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> ServiceRows:
        """One request to each source that is meant; a SILENT failure is one solution that binds nothing."""
        del evaluator, functions
        if self._kept is not None:
            return self._kept
        found = self.ask_all(now)
        self._kept = found if self.keep else None
        return found

    def ask_all(self, now: int) -> ServiceRows:
        """The solutions of every source that is meant."""
        self.errors = 0
        asked = [self.pattern.endpoint] if self.pattern.endpoint is not None else list(self.transports)
        free = self.pattern.endpoint_variable
        names = tuple(dict.fromkeys((*self.pattern.variables, *([free] if free else []))))
        rows = [row for name in asked for row in self._ask(name, names, now)]
        return ServiceRows.asked_now(names, rows)

    def _ask(self, name: str, names: tuple[str, ...], now: int) -> list[Row]:
        free = self.pattern.endpoint_variable
        bind = f"VALUES ?{free} {{ <{name}> }}" if free else ""
        query = self._inlined(f"{self.pattern.prologue.text}SELECT * WHERE {{ {bind} {self.pattern.text} }}", now)
        try:
            if name not in self.transports:
                raise EndpointError(f"no source <{name}>")
            (reply,) = self.transports[name].send([Request(query)], now, 1).replies
            if reply.error is not None:
                raise EndpointError(reply.error)
            return [tuple(row.get(each) for each in names) for row in reply.rows]
        except EndpointError:
            self.errors += 1
            if not self.pattern.silent:
                raise
            return [(None,) * len(names)]

    def _inlined(self, query: str, now: int) -> str:
        """The query with the SERVICE blocks inside it answered first, so that one source need not know the others."""
        pieces, at = [], 0
        for number, inner in enumerate(find_services(query, self.pattern.prologue)):
            if inner.span[0] >= at:
                rows = Whole(inner, self.transports).ask_all(now)
                pieces += [query[at : inner.span[0]], rows.text(number)]
                at = inner.span[1]
        return "".join([*pieces, query[at:]])
