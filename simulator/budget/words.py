"""The answer of the simulated world in words: the sentence, the rows of the table, and what it cannot tell."""

from collections.abc import Iterator
from functools import partial
from math import isnan
from typing import Any

from freshkeeper.maintenance.base.stats import Estimate
from freshkeeper.maintenance.pages.amounts import GAP, UNKNOWN, duration, percent, percent_with_interval, points
from freshkeeper.simulator.budget.answer import BudgetAnswer, Requirement
from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.budget.sheet import FrontierPoint, Sheet, SheetRow, target_percent, three_digits
from freshkeeper.simulator.experiment.point import Point
from freshkeeper.simulator.experiment.ttl_caches import NAMES, ONCE, REFRESH_AHEAD, TTL, UNCACHED


def sheet(answer: BudgetAnswer) -> Sheet:
    """Return the answer as readers see it."""
    question, experiment = answer.question, answer.question.experiment
    heads = ["policy", "setting", f"requests a {question.per}", "fresh", "over TTL"]
    if question.price:
        heads.insert(3, f"cost a {question.per}")
    names = {name: name for name in NAMES}
    names |= {policy.title: policy.name for policy in question.policies}
    rows = [_row(answer, needed, names[needed.curve]) for needed in answer.needed]
    return Sheet(
        target=question.target,
        per=question.per,
        price=question.price,
        lead=lead(answer),
        heads=heads,
        rows=rows,
        title=f"What {target_percent(question.target)} of the answers fresh needs",
        frontier=dict(zip(answer.curves, map(partial(_curve, answer), answer.curves), strict=True)),
        sentences=list(sentences(answer)),
        notes=limits(answer),
        facts=[
            f"target {target_percent(question.target)}",
            f"{answer.arrivals:,} arrivals of {answer.keys:,} keys",
            f"window {duration(experiment.window)}, step {duration(experiment.step)}",
            f"{answer.evaluations:,} evaluations",
            f"{experiment.knowledge.value} knowledge of changes",
        ],
        data={
            "window_ms": experiment.window,
            "step_ms": experiment.step,
            "rows": [_json_row(question, one) for one in answer.needed],
        },
    )


def period_requests(question: Question, point: Point) -> float:
    """Return the requests per period of the question, as a day."""
    return point.requests * question.periods


def requests(question: Question, point: Point) -> str:
    """Format the requests per period with three digits."""
    return three_digits(period_requests(question, point))


def money(question: Question, point: Point) -> str:
    """Format the cost of the requests per period, with two decimals."""
    return f"{period_requests(question, point) * question.price:,.2f}"


def knob(one: Requirement, point: Point) -> str:
    """Format the knob of a point: the budget of an evaluation, or a TTL."""
    if one.budgeted:
        return f"γ{GAP}={GAP}{point.knob:g}"
    if one.curve in (TTL, REFRESH_AHEAD):
        return f"TTL{GAP}{duration(point.knob)}"
    return UNKNOWN


def lead(answer: BudgetAnswer) -> str:
    """Say the answer in a sentence."""
    question, best = answer.question, answer.best
    target = target_percent(question.target)
    if best is None or best.point is None:
        one = max((one for one in answer.needed if one.budgeted), key=lambda one: one.nearest.freshness.mean)
        most = percent_with_interval(one.nearest.freshness)
        return f"No policy keeps {target} of the answers fresh: the nearest is {one.curve} with {most}."
    sent = _per_period(question, best.point)
    said = f"{best.curve} keeps {target} of the answers fresh with {sent}{_paid(question, best.point)}"
    ttl = answer.of(TTL)
    if ttl.point is None:
        return f"{said}; a TTL cache does not get there: an entry that lives for one step is too old already."
    needs = "a TTL cache needs"
    if ttl.point.requests < best.point.requests:
        needs = "here a TTL cache is cheaper, and needs"
    return f"{said}; {needs} {requests(question, ttl.point)}{_paid(question, ttl.point)}."


def _paid(question: Question, point: Point) -> str:
    if not question.price:
        return ""
    return f" for {money(question, point)}"


def _per_period(question: Question, point: Point) -> str:
    return f"{requests(question, point)} requests {'an' if question.per == 'hour' else 'a'} {question.per}"


def sentences(answer: BudgetAnswer) -> Iterator[str]:
    """Yield further sentences: policies against TTL with as many requests, and the ends of the scale."""
    question = answer.question
    for one in answer.needed:
        if one.ttl is not None and one.ahead is not None:
            yield _against_ttl(question, one, one.ttl, one.ahead)
        elif one.ttl is not None:
            yield _no_such_ttl(question, one, one.ttl)
    none, once = answer.of(UNCACHED).nearest, answer.of(ONCE).nearest
    filled = "for nothing after the first tenth of the time"
    if once.requests:
        filled = f"{requests(question, once)} times"
    yield (
        f"No cache at all asks {requests(question, none)} times a {question.per}; fetching once and never again asks "
        f"{filled} and keeps {percent(once.freshness.mean)} fresh."
    )


def _against_ttl(question: Question, one: Requirement, ttl: Point, ahead: Estimate) -> str:
    as_many = f"With as many requests as {one.curve} ({requests(question, one.nearest)}) a TTL cache keeps"
    so_many = f"{percent(ttl.freshness.mean)} fresh"
    if isnan(ahead.mean):
        return f"{as_many} {so_many}."
    if not ahead.sure:
        return f"{as_many} {so_many}: a difference that this trace cannot tell from chance."
    if ahead.mean < 0:
        return f"{as_many} {so_many}: here {one.curve} is {points(ahead)} staler, and a TTL cache the better choice."
    return f"{as_many} {so_many}: {one.curve} is {points(ahead)} fresher."


def _no_such_ttl(question: Question, one: Requirement, ttl: Point) -> str:
    """Say that filling a TTL cache takes more than the whole budget of the policy."""
    return (
        f"No TTL cache makes as few requests as {one.curve} ({requests(question, one.nearest)}): what it lacks alone "
        f"takes {requests(question, ttl)}, and keeps {percent(ttl.freshness.mean)} fresh."
    )


def _row(answer: BudgetAnswer, one: Requirement, style: str) -> SheetRow:
    question, point = answer.question, one.nearest
    ahead = UNKNOWN
    if one.ahead is not None and not isnan(one.ahead.mean):
        ahead = f"{100 * one.ahead.mean:+.1f}"
    if one.ahead is not None and not isnan(one.ahead.half):
        ahead += f" ±{GAP}{100 * one.ahead.half:.1f}"
    cells = [knob(one, point), requests(question, point), percent_with_interval(point.freshness), ahead]
    if question.price:
        cells.insert(2, money(question, point))
    marks = [] if one.budgeted else ["sets no budget"]
    if one.point is None:
        marks.append("below target")
    return SheetRow(one.curve, cells, marks, best=one is answer.best, style=style)


def _curve(answer: BudgetAnswer, name: str) -> list[FrontierPoint]:
    nearest, found = answer.of(name).nearest, []
    for point in answer.curves[name]:
        fresh = point.freshness
        found.append(
            FrontierPoint(
                requests=period_requests(answer.question, point),
                fresh=fresh.mean,
                low=fresh.low,
                high=min(fresh.high, 1.0),
                knob=point.knob,
                in_table=point == nearest,
            )
        )
    return found


def limits(answer: BudgetAnswer) -> list[str]:
    """Return the limits of the answer, as sentences."""
    question, chosen = answer.question, answer.question.experiment
    told = [*answer.notes]
    if question.draws_traces and len(chosen.seed_list) > 1:
        told.append(f"Intervals (95 %) are over {len(chosen.seed_list)} seeds, each with a trace of its own.")
    else:
        told.append(
            "Intervals (95 %) are over stretches of this one trace, and say how much freshness varies in it; "
            "a time that is like no stretch of it is another matter."
        )
    told.append(
        "Shares are fresh answers over all answers. A window answers again at every evaluation; where each event is "
        "answered once, give the log of reads by key itself, which an Enricher is played on."
    )
    told.append(
        "Caches are read when an evaluation answers, at most once for each entry. One that is read at every single "
        "event makes more requests than is said here."
    )
    if chosen.remote.instantaneous:
        told.append("The source answers at once and never fails here; a slow or failing one needs a larger budget.")
    if not chosen.bank:
        told.append(
            "A policy has γ at every evaluation and saves nothing (--bank); a cache without a budget asks in bursts as "
            "it likes, which is worth most where many keys are new."
        )
    told.append("A request is for one key. Where the source takes several in one, all need fewer, and not alike.")
    if chosen.start == "cold":
        told.append("The cache starts empty, and filling it is paid for; the first tenth of the time does not count.")
    return told


def _json_row(question: Question, one: Requirement) -> dict[str, Any]:
    point = one.nearest
    row: dict[str, Any] = {
        "policy": one.curve, "sets_budget": one.budgeted, "reaches_target": one.point is not None,
        "budget": None, "ttl_ms": None,
        "requests_per_evaluation": point.requests, "requests": period_requests(question, point),
        "cost": period_requests(question, point) * question.price,
        "freshness": point.freshness.mean, "ci95": _number(point.freshness.half),
        "ttl_with_as_many_requests": None, "fresher_than_ttl": None, "fresher_than_ttl_ci95": None,
    }  # fmt: skip
    row["budget" if one.budgeted else "ttl_ms"] = point.knob
    if one.ahead is not None and one.ttl is not None:
        row["ttl_with_as_many_requests"] = one.ttl.freshness.mean
        row["fresher_than_ttl"] = _number(one.ahead.mean)
        row["fresher_than_ttl_ci95"] = _number(one.ahead.half)
    return row


def _number(value: float) -> float | None:
    return None if isnan(value) else value
