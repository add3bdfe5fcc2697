"""The answer for a log of reads by key: the Enricher that keeps the target, and plain caches at equal requests."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from freshkeeper.maintenance.enricher.settings import OnStale
from freshkeeper.simulator.budget.enricher_runs import EnricherRun, EnricherRuns
from freshkeeper.simulator.budget.plain_caches import CacheKind, CacheRun, PlainCaches
from freshkeeper.simulator.budget.read_log import ReadLog
from freshkeeper.simulator.budget.sheet import (
    PERIODS,
    FrontierPoint,
    Sheet,
    SheetRow,
    as_percent,
    check_question,
    target_percent,
    three_digits,
)

FIRST_GUESS = 0.7
"""An Enricher needs about this part of the requests of a TTL cache."""
STYLES = {
    CacheKind.TTL: "ttl",
    CacheKind.TTL_STALE: "lru",
    CacheKind.REFRESH_AHEAD: "refresh-ahead",
    CacheKind.NONE: "no-cache",
}
NAMES: dict[OnStale, str] = {"wait": "Enricher", "serve": "Enricher, serves stale"}
ENRICHER_STYLES: dict[OnStale, str] = {"wait": "plan", "serve": "gain"}
RIVALS: dict[OnStale, CacheKind] = {"wait": CacheKind.TTL, "serve": CacheKind.TTL_STALE}
NOTES = (
    "All reads count, from the first on: the cache starts empty, and filling it is paid for. The bucket of the budget "
    "begins as full as it ends.",
    "Nothing is known of changes but what fetches reveal; the history of changes only judges the answers.",
    "The source answers at once and never fails here, and a request is for one key. A read whose key is not there when "
    "the budget is spent counts as wrong; in production it waits.",
    "TTL caches have the best time to live in hindsight. They set no budget, so they ask as often as a minute needs.",
)


@dataclass(frozen=True)
class LogQuestion:
    """A question about a log of reads."""

    log: ReadLog
    target: float = 0.95
    price: float = 0.0
    per: str = "day"
    on_stale: OnStale = "wait"

    def __post_init__(self) -> None:
        check_question(self.target, self.price, self.per)

    def in_period(self, requests: float) -> float:
        """Return requests of the whole log as requests in a period."""
        return requests / self.log.span * PERIODS[self.per]


def answer_log(question: LogQuestion, progress: Callable[[int, float], None] | None = None) -> Sheet:
    """Find the least budget; `progress` is called with finished runs and the share of the one under way."""
    log, caches = question.log, PlainCaches(question.log)
    ttl = caches.for_target(CacheKind.TTL, question.target)
    guess = FIRST_GUESS * (ttl or caches.run(CacheKind.NONE, 0.0)).requests / log.span
    runs = EnricherRuns(log, question.per, question.on_stale, progress)
    best = runs.least(question.target, guess)
    chosen = best or max(runs.all_runs(), key=lambda run: run.fresh)
    other: OnStale = "serve" if question.on_stale == "wait" else "wait"
    others = EnricherRuns(log, question.per, other, progress, runs.finished)
    others.run(chosen.budget, chosen.level)
    return _Writing(question, caches, runs=runs, others=others, best=best, chosen=chosen).sheet()


@dataclass(eq=False)
class _Writing:
    """Puts an answer into words and rows."""

    question: LogQuestion
    caches: PlainCaches
    runs: EnricherRuns
    others: EnricherRuns
    best: EnricherRun | None
    chosen: EnricherRun
    """the best run, or the freshest one"""

    def sheet(self) -> Sheet:
        """Return the sheet."""
        question, log = self.question, self.question.log
        line = self.runs.line(self.chosen) if self.best else ""
        rows, data = [], []
        for runs in (self.runs, self.others):
            run = runs.run(self.chosen.budget)
            setting = f"budget {runs.rate(run.budget)}"
            enough = self.best if runs is self.runs else None
            row, plain = self._row(NAMES[runs.on_stale], setting, run, enough, ENRICHER_STYLES[runs.on_stale])
            rows.append(row if runs is self.others else _as_best(row, self.best is not None))
            data.append({**plain, "budget": runs.rate(run.budget), "ttl_ms": None})
        for kind in CacheKind:
            found = self.caches.for_requests(kind, self.chosen.requests)
            setting = "" if kind is CacheKind.NONE else f"TTL {_duration(found.ttl)}"
            needs = self.caches.for_target(kind, question.target)
            row, plain = self._row(kind.value, setting, found, needs, STYLES[kind])
            rows.append(row)
            data.append({**plain, "budget": None, "ttl_ms": found.ttl or None})
        needs_head = f"requests a {question.per} for {target_percent(question.target)}"
        heads = ["", "setting", f"requests a {question.per}", "fresh", "reads that wait", needs_head]
        if question.price:
            heads.append("for")
        return Sheet(
            target=question.target,
            per=question.per,
            price=question.price,
            lead=self._lead(),
            heads=heads,
            rows=rows,
            title=f"With {self._number(self.chosen.requests)} requests a {question.per}",
            frontier=self._frontier(),
            sentences=list(self._sentences()),
            notes=[*log.notes, *NOTES],
            facts=[
                f"target {target_percent(question.target)}",
                f"{len(log.times):,} reads of {len(set(log.keys)):,} keys in {_duration(log.span)}",
                f"{sum(map(len, log.changes.values())):,} changes",
            ],
            code=line,
            data={"enricher": line, "rows": data},
        )

    def _row(
        self, name: str, setting: str, run: EnricherRun | CacheRun, needs: EnricherRun | CacheRun | None, style: str
    ) -> tuple[SheetRow, dict[str, Any]]:
        question = self.question
        needed = "" if needs is None else self._number(needs.requests)
        cells = [setting, self._number(run.requests), as_percent(run.fresh), as_percent(run.waited / run.reads), needed]
        if question.price:
            cells.append("" if needs is None else self._money(needs))
        plain = {
            "name": name, "requests": question.in_period(run.requests), "fresh": run.fresh,
            "wait": run.waited / run.reads, "requests_for_target": needs and question.in_period(needs.requests),
        }  # fmt: skip
        return SheetRow(name, cells, style=style), plain

    def _lead(self) -> str:
        question, target = self.question, target_percent(self.question.target)
        name = 'An Enricher(on_stale="serve")' if question.on_stale == "serve" else "An Enricher"
        if self.best is None:
            return (
                f"{name} keeps at most {as_percent(self.chosen.fresh)} of the reads fresh, whatever the budget: "
                f"{target} cannot be kept"
                + (", as stale rows are served while they are fetched." if question.on_stale == "serve" else ".")
            )
        said = f"{name} keeps {target} of the reads fresh with {self._per_period(self.best)}"
        rival = self.caches.for_target(RIVALS[question.on_stale], question.target)
        if rival is None:
            return f"{said}; a TTL cache does not get there."
        needs = (
            "a TTL cache needs" if rival.requests >= self.best.requests else "here a TTL cache is cheaper, and needs"
        )
        return f"{said}; {needs} {self._number(rival.requests)}{self._paid(rival)}."

    def _sentences(self) -> "list[str]":
        question, run = self.question, self.chosen
        at_equal = self.caches.for_requests(RIVALS[question.on_stale], run.requests)
        found = []
        if at_equal.requests <= 1.03 * run.requests:
            difference = 100 * (at_equal.fresh - run.fresh)
            best = f"the best TTL cache in hindsight keeps {as_percent(at_equal.fresh)} fresh"
            found.append(f"With as many requests {best}: {difference:+.1f} points.")
        else:
            fill = self._number(at_equal.requests)
            found.append(f"No TTL cache makes as few requests: the keys that it lacks alone take {fill}.")
        if self.best is not None and question.in_period(run.requests) < 0.95 * run.budget * PERIODS[question.per]:
            granted = three_digits(run.budget * PERIODS[question.per])
            found.append(
                f"The budget allows {granted} a {question.per}, for the times when much is read; not all is spent."
            )
        if run.missing:
            found.append(f"{run.missing:,} of {run.reads:,} reads found no row and no budget for one.")
        return found

    def _frontier(self) -> dict[str, list[FrontierPoint]]:
        found = {}
        for runs in (self.runs, self.others):
            points = [self._point(run, run.budget * PERIODS[self.question.per], self.chosen) for run in runs.all_runs()]
            found[NAMES[runs.on_stale]] = points
        for kind in CacheKind:
            shown = self.caches.for_requests(kind, self.chosen.requests)
            found[kind.value] = [self._point(run, run.ttl, shown) for run in self.caches.runs(kind)]
        return found

    def _point(self, run: EnricherRun | CacheRun, knob: float, shown: EnricherRun | CacheRun) -> FrontierPoint:
        requests = self.question.in_period(run.requests)
        return FrontierPoint(requests, run.fresh, run.fresh, run.fresh, knob, in_table=run is shown)

    def _number(self, requests: float) -> str:
        return three_digits(self.question.in_period(requests))

    def _money(self, run: EnricherRun | CacheRun) -> str:
        return f"{self.question.in_period(run.requests) * self.question.price:,.2f}"

    def _paid(self, run: EnricherRun | CacheRun) -> str:
        return f" for {self._money(run)}" if self.question.price else ""

    def _per_period(self, run: EnricherRun | CacheRun) -> str:
        article = "an" if self.question.per == "hour" else "a"
        return f"{self._number(run.requests)} requests {article} {self.question.per}{self._paid(run)}"


def _as_best(row: SheetRow, reaches: bool) -> SheetRow:
    return SheetRow(row.name, row.cells, () if reaches else ("below target",), best=reaches, style=row.style)


def _duration(ms: float) -> str:
    """Format a duration with three digits, in the largest unit of which there are two."""
    sizes = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000}
    unit, size = next(((unit, size) for unit, size in sizes.items() if ms >= 2 * size), ("ms", 1))
    return f"{ms / size:.3g} {unit}"
