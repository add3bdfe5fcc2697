"""Descriptions of a trace: entities, degrees, rates, change intervals, and staleness without refreshes.

For the last, the view is complete and fresh at t0 and never refreshed: an SR is stale once it has changed after t0.
The answers of all evaluations up to the last arrival count, by version and exactly.
"""

from collections.abc import Mapping

import numpy as np
from scipy.stats import rankdata

from freshkeeper.maintenance.base.arrays import Ids, Ints
from freshkeeper.simulator.trace.trace import Trace

Description = Mapping[str, int | float | None]
"""Numbers by name; None means unknown. Names in _ms are times, names with share_ are parts of 1."""

ARRIVALS_PER_STEP, STEPS_PER_WINDOW, LEAST_EVALUATIONS = 30, 4, 20
"""The values of 002's experiments: about 33 arrivals in a step of 1 s, and a window of 4 s."""

_S, _MIN, _H, _D = 1000, 60_000, 3_600_000, 86_400_000
_ROUND_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(_S, 2 * _S, 5 * _S, 10 * _S, 15 * _S, 30 * _S),
    *(_MIN, 2 * _MIN, 5 * _MIN, 10 * _MIN, 15 * _MIN, 30 * _MIN),
    *(_H, 2 * _H, 3 * _H, 6 * _H, 12 * _H, _D, 2 * _D, 7 * _D, 14 * _D, 28 * _D),
)
_UNITS = (("days", _D), ("h", _H), ("min", _MIN), ("s", _S), ("ms", 1))
_QUANTILES = ("min", "median", "p90", "max")
_SPELLING = {
    "sn": "lookup key", "sns": "lookup keys", "sr": "cached entry", "srs": "cached entries",
    "bgp": "(BGP)", "aggregate": "(aggregate)",
}  # fmt: skip


def describe(trace: Trace, window_ms: int | None = None, step_ms: int | None = None) -> Description:
    """Describe a trace under a window; a step that is not given is the suggested one, a window 4 steps."""
    suggested = suggested_step(trace)
    step = step_ms or suggested
    window = window_ms or step * STEPS_PER_WINDOW
    sn_degree = np.bincount(trace.edges.sn, minlength=trace.sns)
    sr_degree = np.bincount(trace.edges.sr, minlength=trace.srs)
    arrivals = np.bincount(trace.arrivals.sn, minlength=trace.sns)
    changes = np.bincount(trace.changes.sr, minlength=trace.srs)
    joined, needed = sn_degree > 0, sr_degree > 0
    return {
        "sns": trace.sns,
        "srs": trace.srs,
        "edges": len(trace.edges),
        "repeated_edges": trace.edges.repeated,
        "arrivals": len(trace.arrivals),
        "changes": len(trace.changes),
        "sns_that_never_arrive": int((arrivals == 0).sum()),
        "arrivals_without_edges": int(arrivals[~joined].sum()),
        "srs_without_edges": int((~needed).sum()),
        "srs_that_never_change": int((needed & (changes == 0)).sum()),
        **_spread("edges_per_sn", sn_degree[joined]),
        **_spread("edges_per_sr", sr_degree[needed]),
        **_spread("arrivals_per_sn", arrivals[arrivals > 0]),
        **_rates(trace),
        **_spread("change_interval_ms", change_intervals(trace)),
        "correlation_of_changes_and_degree": rank_correlation(changes[needed], sr_degree[needed]),
        "correlation_of_arrivals_and_degree": rank_correlation(arrivals[joined], sn_degree[joined]),
        "window_ms": window,
        "step_ms": step,
        **_answers(trace, sn_degree, window, step),
        "suggested_window_ms": suggested * STEPS_PER_WINDOW,
        "suggested_step_ms": suggested,
    }


def text(description: Description) -> list[tuple[str, str]]:
    """Return the description in words: a row (what, how much) per number; a spread is one row."""
    rows: list[tuple[str, str]] = []
    for name, value in description.items():
        stem, _, quantile = name.rpartition("_")
        if quantile not in _QUANTILES:
            rows.append((_words(name), _amount(name, value)))
        elif quantile == _QUANTILES[0]:
            spread = [_amount(stem, description[f"{stem}_{q}"]) for q in _QUANTILES]
            rows.append((f"{_words(stem)}: min, median, 90 %, max", " · ".join(spread)))
    return rows


def suggested_step(trace: Trace) -> int:
    """Return a round step with as many arrivals as 002's, for at least 20 evaluations."""
    duration = int(trace.arrivals.t_ms[-1]) - trace.t0
    wanted = min(duration * ARRIVALS_PER_STEP / len(trace.arrivals), duration / LEAST_EVALUATIONS)
    steps = np.array(_ROUND_MS)
    return int(steps[np.argmin(np.abs(np.log(steps / max(wanted, 1.0))))])


def change_intervals(trace: Trace) -> Ints:
    """Return the times between successive changes of the same SR."""
    order = np.argsort(trace.changes.sr, kind="stable")
    sr, t_ms = trace.changes.sr[order], trace.changes.t_ms[order]
    intervals: Ints = np.diff(t_ms)[sr[1:] == sr[:-1]]
    return intervals


def rank_correlation(left: Ints, right: Ints) -> float | None:
    """Spearman's rank correlation; None where a side does not vary."""
    if left.size < 2 or left.min() == left.max() or right.min() == right.max():
        return None
    return float(np.corrcoef(rankdata(left), rankdata(right))[0, 1])


def runs(trace: Trace, window: int, step: int) -> tuple[Ints, Ints, int]:
    """Return the first and last evaluation k with each arrival in its window, and the number of evaluations.

    An arrival at s is in (t_k − ω, t_k] for ceil((s − t0)/β) ≤ k < ceil((s + ω − t0)/β); in none if last < first.
    """
    since = trace.arrivals.t_ms - trace.t0
    evaluations = int(since[-1]) // step
    first = np.maximum(-(-since // step), 1)
    last = np.minimum(-(-(since + window) // step) - 1, evaluations)
    return first, np.maximum(last, first - 1), evaluations


def first_stale(trace: Trace, step: int, evaluations: int) -> Ints:
    """Return the first evaluation at which each SR has changed since t0, or one past the last evaluation."""
    since = trace.changes_between(trace.t0, trace.t0 + evaluations * step)
    result = np.full(trace.srs, evaluations + 1)
    np.minimum.at(result, since.sr, -(-(since.t_ms - trace.t0) // step))
    return result


def stale_answers(trace: Trace, owner: Ids | Ints, since: Ints, window: int, step: int) -> int:
    """Count the stale answers (arrival, item) of all evaluations; item e, of SN owner[e], is stale from since[e] on.

    Of the arrivals of its SN, those that come into the window after since[e] count with all their evaluations, those
    that leave before with none, and those in between with last + 1 − since[e]: sums of two prefix sums by SN.
    """
    first, last, evaluations = runs(trace, window, step)
    order = np.argsort(trace.arrivals.sn, kind="stable")
    sn, first, last = trace.arrivals.sn[order].astype(np.int64), first[order], last[order]
    owner = owner.astype(np.int64)  # times the number of evaluations it does not fit into 32 bits
    whole = np.append(0, np.cumsum(last - first + 1))
    ends = np.append(0, np.cumsum(last + 1))
    base = evaluations + 2
    after = np.searchsorted(sn * base + first, owner * base + since)
    partly = np.searchsorted(sn * base + last, owner * base + since)
    end = np.searchsorted(sn, owner, side="right")
    counts = whole[end] - whole[after] + ends[after] - ends[partly] - since * (after - partly)
    return int(counts.sum())


def _answers(trace: Trace, sn_degree: Ints, window: int, step: int) -> dict[str, int | float | None]:
    first, last, evaluations = runs(trace, window, step)
    degree = sn_degree[trace.arrivals.sn]
    stale_from = first_stale(trace, step, evaluations)
    inputs_stale_from = np.full(trace.sns, evaluations + 1)
    np.minimum.at(inputs_stale_from, trace.edges.sn, stale_from[trace.edges.sr])
    joined = np.flatnonzero(sn_degree)
    stale = stale_answers(trace, trace.edges.sn, stale_from[trace.edges.sr], window, step)
    stale_sums = stale_answers(trace, joined, inputs_stale_from[joined], window, step)
    length = last - first + 1
    enter = np.bincount(first, degree, evaluations + 2) - np.bincount(last + 1, degree, evaluations + 2)
    return {
        "evaluations": evaluations,
        **_spread("answers_per_evaluation", np.cumsum(enter)[1 : evaluations + 1].astype(np.int64)),
        "share_stale_if_never_refreshed_bgp": _share(stale, int((length * degree).sum())),
        "share_stale_if_never_refreshed_aggregate": _share(stale_sums, int(length[degree > 0].sum())),
    }


def _rates(trace: Trace) -> dict[str, int | float | None]:
    duration = int(trace.arrivals.t_ms[-1]) - trace.t0
    changed = len(trace.changes_between(trace.t0, trace.t0 + duration))
    return {
        "first_arrival_ms": trace.t0,
        "duration_ms": duration,
        "arrivals_per_second": _share(1000 * len(trace.arrivals), duration),
        "changes_per_second": _share(1000 * changed, duration),
    }


def _spread(name: str, values: Ints) -> dict[str, int | float | None]:
    if not values.size:
        return {f"{name}_{quantile}": None for quantile in _QUANTILES}
    numbers = np.quantile(values, (0, 0.5, 0.9, 1)).tolist()
    return {f"{name}_{quantile}": number for quantile, number in zip(_QUANTILES, numbers, strict=True)}


def _share(part: int, whole: int) -> float | None:
    if not whole:
        return None
    return part / whole


def _words(name: str) -> str:
    words = name.removesuffix("_ms").removeprefix("share_").split("_")
    return " ".join(_SPELLING.get(word, word) for word in words)


def _amount(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if name.endswith("_ms"):
        return _instant(value) if name.startswith("first_") else _time(value)
    if name.startswith("share_"):
        return f"{100 * value:.1f} %"
    if name.endswith("_per_second") and value < 0.1:
        return f"{value:.3g}, or {_amount('', value * 86_400)} a day"
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _instant(value: float) -> str:
    """Format an instant: as a date, or as a count of milliseconds if it is small."""
    if value < 365 * _D:
        return f"{value:,.0f} ms"
    return str(np.datetime64(int(value), "ms"))


def _time(value: float) -> str:
    unit, size = next(((unit, size) for unit, size in _UNITS if value >= size), _UNITS[-1])
    if value < 1000 * size:
        return f"{value / size:.3g} {unit}"
    return f"{value / size:,.0f} {unit}"
