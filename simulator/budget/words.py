"""The answer in words: the sentence, the rows of the table, and what it cannot tell."""

from collections.abc import Iterator
from math import isnan
from typing import Any

from freshkeeper.maintenance.base.stats import Estimate
from freshkeeper.maintenance.pages.amounts import GAP, UNKNOWN, duration, percent, percent_with_interval, points
from freshkeeper.simulator.budget.answer import BudgetAnswer, Requirement
from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.experiment.point import Point
from freshkeeper.simulator.experiment.ttl_caches.caches import ONCE, REFRESH_AHEAD, TTL, UNCACHED


def period_requests(question: Question, point: Point) -> float:
    """Return the requests per period of the question, as a day."""
    return point.requests * question.periods


def requests(question: Question, point: Point) -> str:
    """Format the requests per period with three digits."""
    number = period_requests(question, point)
    if number < 1:
        return f"{number:.2g}"
    return f"{float(f'{number:.3g}'):,.0f}"


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
    target = percent(question.target, 0 if round(100 * question.target, 6).is_integer() else 1)
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


HEADS = ("Policy", "Setting", "Requests", "Cost", "Per window", "At arrival", "Over TTL")


def row(answer: BudgetAnswer, one: Requirement) -> list[str]:
    """Return a row of the table, in the order of its heads."""
    question, point = answer.question, one.nearest
    ahead, cost = UNKNOWN, UNKNOWN
    if one.ahead is not None and not isnan(one.ahead.mean):
        ahead = f"{100 * one.ahead.mean:+.1f}"
    if one.ahead is not None and not isnan(one.ahead.half):
        ahead += f" ±{GAP}{100 * one.ahead.half:.1f}"
    if question.price:
        cost = money(question, point)
    return [
        one.curve,
        knob(one, point),
        requests(question, point),
        cost,
        percent_with_interval(point.freshness),
        percent_with_interval(point.arrival),
        ahead,
    ]


def marks(one: Requirement) -> list[str]:
    """Return the marks of a row."""
    return [*([] if one.budgeted else ["sets no budget"]), *(["below target"] if one.point is None else [])]


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
        "Fresh per window counts every answer of every evaluation; fresh at arrival counts what arrived once, when it "
        "came. The target is for the first; where events are answered once, use --once, which makes them the same."
    )
    told.append(
        "Caches are read when an evaluation answers, at most once for each entry. One that is read at every single "
        "event makes more requests than is said here, and may be fresher at arrival."
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


def as_json(answer: BudgetAnswer) -> dict[str, Any]:
    """Return the answer and every measured point as plain data."""
    question = answer.question
    return {
        "target": question.target, "per": question.per, "price": question.price,
        "window_ms": question.experiment.window, "step_ms": question.experiment.step,
        "answer": lead(answer), "said": list(sentences(answer)), "notes": limits(answer),
        "rows": [_json_row(question, one) for one in answer.needed],
    }  # fmt: skip


def _json_row(question: Question, one: Requirement) -> dict[str, Any]:
    point = one.nearest
    row: dict[str, Any] = {
        "policy": one.curve, "sets_budget": one.budgeted, "reaches_target": one.point is not None,
        "budget": None, "ttl_ms": None,
        "requests_per_evaluation": point.requests, "requests": period_requests(question, point),
        "cost": period_requests(question, point) * question.price,
        "freshness": point.freshness.mean, "ci95": _number(point.freshness.half),
        "freshness_at_arrival": _number(point.arrival.mean), "ci95_at_arrival": _number(point.arrival.half),
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
