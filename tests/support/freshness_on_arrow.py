"""Headline freshness in plain Python over rows of pyarrow tables: slow, obvious, and the reference of `questions.py`.

The functions have the same names and give the same columns, as far as the headline needs them.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Any

import pyarrow as pa
from scipy.special import stdtrit

Row = dict[str, Any]
SERIES = ("setting", "policy", "case", "knowledge")
RUN = ("setting", "policy", "seed")
EVALUATION = (*RUN, "t_ms")
ENTRY = ("setting", "seed", "sr")
NEVER_STALE = 2**63 - 1


def copies(answers: pa.Table, changes: pa.Table) -> dict[tuple[object, ...], int]:
    """Every copy that answers were made of, and from when on it was stale."""
    times: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for change in changes.to_pylist():
        times[_key(change, ENTRY)].append(change["t_ms"])
    for each in times.values():
        each.sort()
    used = {_key(answer, (*ENTRY, "refreshed_ms")) for answer in answers.to_pylist()}
    return {copy: _first_after(times.get(copy[:-1], []), copy[-1]) for copy in used}


def judged(answers: pa.Table, copies: Mapping[tuple[object, ...], int]) -> Iterator[Row]:
    """Every answer with `fresh`."""
    for answer in answers.to_pylist():
        stale_from = copies[_key(answer, (*ENTRY, "refreshed_ms"))]
        yield answer | {"fresh": answer["t_ms"] < stale_from}


def evaluated(judged: Iterable[Row], evaluations: pa.Table) -> list[Row]:
    """Per evaluation how many answers it has and how many are fresh; misses are in `results` of evaluations alone."""
    fresh: dict[tuple[object, ...], int] = defaultdict(int)
    aggregates: dict[tuple[object, ...], tuple[int, bool]] = {}
    for answer in judged:
        evaluation = _key(answer, EVALUATION)
        if answer["case"] == "aggregate":
            _, so_far = aggregates.get((*evaluation, answer["sn"]), (0, True))
            aggregates[*evaluation, answer["sn"]] = (answer["weight"], so_far and answer["fresh"])
        elif answer["fresh"]:
            fresh[evaluation] += answer["weight"]
    for unit, (mappings, all_fresh) in aggregates.items():
        fresh[unit[:-1]] += mappings if all_fresh else 0
    return [row | {"fresh": fresh[_key(row, EVALUATION)]} for row in evaluations.to_pylist()]


def by_seed(evaluated: Sequence[Row], target: float = 0.95) -> list[Row]:
    """The mean over the evaluations that count and have answers, per seed, and the sums behind the pooled ratio."""
    counting = [row for row in evaluated if not row["warmup"] and row["results"]]
    found = []
    for key, rows in _groups(counting, (*SERIES, "seed")):
        shares = [row["fresh"] / row["results"] for row in rows]
        found.append(
            dict(zip((*SERIES, "seed"), key, strict=True))
            | {"evaluations": len(rows), "freshness": mean(shares)}
            | {name: sum(row[name] for row in rows) for name in ("fresh", "results")}
            | {"within_target": mean(share >= target for share in shares)}
        )
    return found


def headline(by_seed: Sequence[Row]) -> list[Row]:
    """The mean over seeds with its 95 % interval (Student's t)."""
    found = []
    for key, rows in _groups(by_seed, SERIES):
        means = [row["freshness"] for row in rows]
        fresh, results = (sum(row[name] for row in rows) for name in ("fresh", "results"))
        found.append(
            dict(zip(SERIES, key, strict=True))
            | {"seeds": len(rows), "freshness": mean(means), "ci95": interval(means)}
            | {"pooled": fresh / results, "stale_answers": results - fresh, "answers": results}
            | {"within_target": mean(row["within_target"] for row in rows)}
        )
    return found


def interval(means: Sequence[float]) -> float | None:
    """The half-width of the 95 % interval of a mean; none for fewer than two."""
    number = len(means)
    return float(stdtrit(number - 1, 0.975)) * stdev(means) / sqrt(number) if number > 1 else None


def _first_after(times: Sequence[int], instant: int) -> int:
    at = bisect_right(times, instant)  # a change at the instant itself is not after it
    return times[at] if at < len(times) else NEVER_STALE


def _key(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _groups(rows: Iterable[Row], names: Sequence[str]) -> list[tuple[tuple[object, ...], list[Row]]]:
    found: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[_key(row, names)].append(row)
    return sorted(found.items())
