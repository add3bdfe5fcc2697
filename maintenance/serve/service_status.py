"""The status of a service for a person on call: every query, view, source and stream, now and in the last evaluations.

The last evaluations of queries and views are kept in arrays of fixed size. The engine's thread writes them; /status,
/metrics and the live page read the same numbers.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.budget.audit import Measured
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget, SharedIncome
from freshkeeper.maintenance.cache.budget.target_income import TargetIncome
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.serve.look_up import key_text
from freshkeeper.maintenance.serve.registrations import evaluator_of
from freshkeeper.maintenance.serve.service import QueryService
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.policies.base import NEVER
from freshkeeper.policies.registry import title_of

HISTORY_SIZE = 720
"""The number of evaluations that are kept of each query and view."""
RECENT = 60
"""The number of evaluations that rates and shares are taken over."""
MAX_STALEST = 10
"""The number of cached entries that the status names, the most likely stale first."""
STALEST_INTERVAL_S = 1.0
"""How often the stalest entries of a view are determined."""
MAX_GAPS = 100
MAX_AUDITS = 1_000
"""The number of audited answers that are kept."""
QUERY_COLUMNS = ("wall_ms", "t", "answers", "errors", "took_ms")
VIEW_COLUMNS = (
    "wall_ms", "t", "results", "expected_fresh", "checked", "checked_fresh", "budget", "spent", "carried", "candidates",
    "missed", "errors", "requests", "fetch_ms",
)  # fmt: skip
COMPUTED = ("wall_ms", "checked", "checked_fresh")
"""The columns of a view that do not come from the record of its evaluation."""
RECORD_NAMES = {"t": "t_ms"}
"""What columns are called in that record, where their names differ."""
Columns = Mapping[str, list[float | None]]


@dataclass(eq=False)
class Track:
    """The last evaluations of a query or view, a column for each number."""

    names: Sequence[str]
    capacity: int = HISTORY_SIZE
    count: int = 0
    """the number of all evaluations so far"""

    def __post_init__(self) -> None:
        self._rows = np.full((self.capacity, len(self.names)), np.nan)

    def add(self, row: Mapping[str, float]) -> None:
        """Add an evaluation with a number for every column."""
        self._rows[self.count % self.capacity] = [row[name] for name in self.names]
        self.count += 1

    def last(self, count: int, name: str) -> Floats:
        """Return the last values of one column, oldest first."""
        many = min(count, self.count, self.capacity)
        rows = np.arange(self.count - many, self.count) % self.capacity
        values: Floats = self._rows[rows, self.names.index(name)]
        return values

    @property
    def latest(self) -> dict[str, float | None] | None:
        """The numbers of the last evaluation; None before the first."""
        if not self.count:
            return None
        return {name: column[-1] for name, column in self.columns(1).items()}

    def history(self, count: int) -> Columns | None:
        """Return the last values of all columns; None if a client requests no history."""
        return self.columns(count) if count else None

    def columns(self, count: int) -> Columns:
        """Return the last values of all columns, oldest first; None for NaN."""
        return {name: list(map(_number, self.last(count, name).tolist())) for name in self.names}


@dataclass(eq=False)
class ViewTrack:
    """The last evaluations of a view, its stalest entries and its last error."""

    track: Track = field(default_factory=lambda: Track(VIEW_COLUMNS))
    stalest: list[dict[str, Any]] = field(default_factory=list)
    stalest_updated: float = -math.inf
    last_error: str | None = None


@dataclass(eq=False)
class Status:
    """The status of a service; `version` grows with every evaluation."""

    version: int = 0
    clock: Callable[[], float] = time.time
    gaps: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_GAPS))
    """stretches of streams whose elements may be missing, as while a connection was lost"""
    audits: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_AUDITS))
    """the last audited answers"""
    _queries: dict[str, Track] = field(default_factory=dict)
    _views: WeakKeyDictionary[Manager, ViewTrack] = field(default_factory=WeakKeyDictionary)

    def observe(self, source: str, manager: Manager, evaluation: Evaluation) -> None:
        """Keep an evaluation of a view; the engine's thread calls this."""
        known = self._views.get(manager)
        if known is None:
            known = self._views[manager] = ViewTrack()
        record = evaluation.record
        verdicts = [audit.fresh for audit in evaluation.audits if audit.fresh is not None]
        numbers = {name: getattr(record, RECORD_NAMES.get(name, name)) for name in VIEW_COLUMNS if name not in COMPUTED}
        known.track.add(
            numbers | {"wall_ms": self.clock() * 1000, "checked": len(verdicts), "checked_fresh": sum(verdicts)}
        )
        errors = [error for error in evaluation.refreshes.errors if error is not None]
        if manager.runner.error:
            errors.insert(0, manager.runner.error)
        if errors:
            known.last_error = mask_secrets(errors[0])
        for audit in evaluation.audits:
            self.audits.append(
                {
                    "t": record.t_ms,
                    "view": source,
                    "key": key_text(audit.sn),
                    "entries": [key_text(sr) for sr in audit.srs],
                    "fetched_ms": list(audit.refreshed),
                    "fresh": audit.fresh,
                }
            )
        now = time.monotonic()
        if now >= known.stalest_updated + STALEST_INTERVAL_S:
            known.stalest_updated = now
            known.stalest = _stalest(manager, evaluation)
        self.version += 1

    def answered(self, result: Result, took: float) -> None:
        """Keep an evaluation of a query, and the seconds that it took."""
        track = self._queries.get(result.query)
        if track is None:
            track = self._queries[result.query] = Track(QUERY_COLUMNS)
        track.add(
            {
                "wall_ms": self.clock() * 1000,
                "t": result.t,
                "answers": len(result.answers),
                "errors": result.errors,
                "took_ms": took * 1000,
            }
        )
        self.version += 1

    def forget(self, query: str) -> None:
        """Drop the evaluations of a deleted query."""
        self._queries.pop(query, None)

    def gap(self, stream: str, since: int | None, until: int | None, why: str) -> None:
        """Keep that elements of a stream between two instants may be missing."""
        self.gaps.append({"stream": stream, "since": since, "until": until, "why": why, "wall_ms": self.clock() * 1000})
        self.version += 1

    def as_json(self, service: QueryService, history: int = 0) -> dict[str, Any]:
        """Return the whole status as JSON values, with the last `history` evaluations."""
        views = self._by_view(service)
        numbers = {manager: number for number, manager in enumerate(views)}
        queries = [self._query(service, one, numbers, history) for one in list(service.queries.all.values())]
        view_states = [self._view(manager, *views[manager], history) for manager in views]
        sources = [self.source(service, name) for name in service.queries.sources]
        streams = [self._stream(service, name) for name in service.streams]
        return {
            "version": self.version,
            "wall_ms": int(self.clock() * 1000),
            "watermark": service.watermark,
            "late": service.late,
            "waiting_bytes": service.waiting,
            "queries": queries,
            "shared_budget": _shared(service),
            "views": view_states,
            "sources": sources,
            "streams": streams,
            "gaps": list(self.gaps),
        }

    def state(self, service: QueryService, name: str) -> str:
        """Return whether a query is running, paused or failed."""
        if name in service.failures:
            return "failed"
        return "running" if name in service.queries.running else "paused"

    def source(self, service: QueryService, name: str) -> dict[str, Any]:
        """Return a source: its price, its limits, what it cost, its errors."""
        source = service.queries.sources[name]
        managers = [manager for manager, (of, _) in self._by_view(service).items() if of == name]
        views = [self._views[manager] for manager in managers if manager in self._views]
        price = source.price
        return {
            "name": name,
            "volatile": list(source.volatile),
            "price": {"per_request": price.per_request, "per_key": price.per_key, "batch": price.batch},
            **_limits(source),
            "spent": sum(float(manager.ledger.spent) for manager in managers),
            "requests": _sum(views, "requests"),
            "errors": _sum(views, "errors"),
            "last_error": next((view.last_error for view in reversed(views) if view.last_error), None),
        }

    def left_alone(self, service: QueryService) -> dict[str, str]:
        """Return the sources of running queries whose circuit breaker is open, with the reason.

        A source that the next evaluation would try is not among them: without evaluations it would stay there for ever.
        """
        needed = dict.fromkeys(name for name, _ in self._by_view(service).values())
        limits = {name: _limits(service.queries.sources[name])["breaker"] for name in needed}
        return {
            name: f"failed {breaker['failures']} times in a row"
            for name, breaker in limits.items()
            if breaker is not None and breaker["tried_again_in_s"] > 0
        }

    def _by_view(self, service: QueryService) -> dict[Manager, tuple[str, list[str]]]:
        """Return the views of running queries, with their sources and the names of their queries."""
        found: dict[Manager, tuple[str, list[str]]] = {}
        for query in list(service.queries.running):
            for source, view in service.queries.views_of(query):
                found.setdefault(view.manager, (source, []))[1].append(query)
        return found

    def _query(
        self, service: QueryService, one: RegisteredQuery, numbers: Mapping[Manager, int], history: int
    ) -> dict[str, Any]:
        name = one.name
        track = self._queries.get(name, Track(QUERY_COLUMNS, 1))
        running = service.queries.running.get(name)
        evaluator = answered = lag = behind_clock = None
        streams: list[str] = []
        if running is not None:
            evaluator = evaluator_of(running).value
            streams = list(running.streams)
            answered = service.queries.progress(name).answered
        if answered is not None:
            lag = max(0, (service.watermark or 0) - answered)
            behind_clock = int(self.clock() * 1000) - answered
        wall = track.last(RECENT, "wall_ms")
        seconds = float(np.ptp(wall)) / 1000 if wall.size else 0.0
        views = [numbers[view.manager] for _, view in service.queries.views_of(name) if view.manager in numbers]
        return {
            "name": name,
            "state": self.state(service, name),
            "failure": service.failures.get(name),
            "evaluator": evaluator,
            "streams": streams,
            "views": views,
            "answered": answered,
            "lag_ms": lag,
            "behind_clock_ms": behind_clock,
            "evaluations": track.count,
            "evaluations_per_s": _ratio(wall.size - 1, seconds),
            "answers_per_s": _ratio(float(track.last(RECENT, "answers")[1:].sum()), seconds),
            "last": track.latest,
            "history": track.history(history),
        }

    def _view(self, manager: Manager, source: str, queries: list[str], history: int) -> dict[str, Any]:
        known, ledger = self._views.get(manager, ViewTrack()), manager.ledger
        track, rule = known.track, manager.ledger.rule
        results, expected, checked, fresh = (
            float(track.last(RECENT, name).sum()) for name in ("results", "expected_fresh", "checked", "checked_fresh")
        )
        measured = Measured(int(fresh), int(checked))
        target = paid = interval = None
        if isinstance(ledger.income, TargetIncome):
            target = ledger.income.controller.target
        shared = isinstance(ledger.income, SharedIncome)
        if not shared:
            paid = float(rule.paid(ledger.evaluations))
        if measured.checked:
            interval = list(measured.interval)
        return {
            "source": source,
            "queries": queries,
            "policy": title_of(manager.policy),
            "case": manager.case.value,
            "freshness": {
                "over": min(RECENT, track.count),
                "believed": _ratio(expected, results),
                "audited": measured.share,
                "interval": interval,
                "checked": measured.checked,
                "target": target,
            },
            "budget": {"per_evaluation": float(rule.per_evaluation), "bank": float(rule.bank), "shared": shared},
            "ledger": {
                "evaluations": ledger.evaluations, "spent": float(ledger.spent), "left": float(ledger.available),
                "paid": paid,
            },
            "entries": len(manager.view.srs) - len(manager.view.misses),
            "missing": len(manager.view.misses),
            "errors": float(track.last(RECENT, "errors").sum()),
            "failed_rounds": manager.runner.failed_rounds,
            "policy_metrics": manager.runner.metrics(),
            "last_error": known.last_error,
            "stalest": known.stalest,
            "last": track.latest,
            "history": track.history(history),
        }  # fmt: skip

    def _stream(self, service: QueryService, name: str) -> dict[str, Any]:
        return {"name": name, **service.stream(name), "gaps": [gap for gap in self.gaps if gap["stream"] == name]}


def _shared(service: QueryService) -> dict[str, Any] | None:
    """Return the budget that all queries share, with what deleted queries have spent."""
    budget = service.queries.settings.budget
    if not isinstance(budget, SharedBudget):
        return None
    ledger = budget.ledger
    return {
        "per_period": float(budget.rule.per_evaluation), "period_ms": budget.period, "periods": ledger.evaluations,
        "paid": float(budget.rule.paid(ledger.evaluations)), **budget.summary(),
        "members": len(budget.members),
    }  # fmt: skip


def _limits(source: Source) -> dict[str, Any]:
    """Return the limits of a source; a source inside the process has none."""
    dispatcher = source.transport.dispatcher
    if dispatcher is None:
        return {"kind": "embedded", "limits": [], "breaker": None, "room": None, "under_way": 0, "sent": None}
    limiter, breaker = dispatcher.limiter, dispatcher.limiter.breaker
    now = limiter.clock()
    state = "closed"
    if breaker.opened is not None:
        state = "open" if breaker.probing is None else "probing"
    return {
        "kind": "remote",
        "limits": [{"limit": one.rate.written, "free": one.free(now)} for one in limiter.limits],
        "breaker": {"state": state, "failures": breaker.failed, "tried_again_in_s": round(breaker.wait(now), 1)},
        "room": _number(limiter.room()),
        "under_way": dispatcher.busy,
        "sent": limiter.sent,
    }


def _stalest(manager: Manager, evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the entries in the windows that are most likely stale, each with the cost of fetching it."""
    join = evaluation.join
    _, srs = join.rows
    here = np.unique(srs)
    here = here[here < join.copies.size]
    worst = here[np.argsort(join.copies[here], kind="stable")[:MAX_STALEST]]
    view, now = manager.view, join.now
    found = []
    for slot in worst.tolist():
        key, read = view.srs.keys[slot], int(view.last_refresh[slot])
        if key is not None:
            found.append({
                "key": key_text(key), "freshness": round(float(join.copies[slot]), 6),
                "age_ms": None if read == NEVER else now - read, "missing": int(view.kinds[slot]) == Kind.MISS,
                "weight": int(manager.graph.tallies.total[slot]), "cost": manager.endpoint.price.of(1),
            })  # fmt: skip
    return found


def _sum(views: Sequence[ViewTrack], column: str) -> float:
    """Return the sum of a column over the recent evaluations of some views."""
    return sum(float(np.nansum(view.track.last(RECENT, column))) for view in views)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
