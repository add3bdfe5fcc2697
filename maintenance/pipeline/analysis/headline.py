"""Headline freshness, from what is known of every evaluation; tests hold it equal to plain Python over the answers."""

import numpy as np
from scipy.special import stdtrit

from freshkeeper.maintenance.pipeline.analysis.analysis_database import total

SERIES = 'setting, policy, "case", knowledge'
RUN = "setting, policy, seed"
EVALUATION = f"{RUN}, moment"
ENTRY = "setting, seed, sr"


def quantiles(most: int) -> list[float]:
    """The 97.5 % quantiles for 2, 3, ... `most` values, and never none."""
    found: list[float] = stdtrit(np.arange(1, max(2, most)), 0.975).tolist()
    return found


EVALUATIONS = """
    SELECT setting, policy, "case", '' AS knowledge, seed, moment, moment AS k, t_ms, FALSE AS warmup,
        cast(NULL AS double) AS results, cast(NULL AS double) AS fresh, cast(NULL AS double) AS expected_fresh
    FROM truths"""
"""What answers tell of evaluations where nothing else does."""
EVALUATED = f"""
    WITH known AS (
        SELECT setting, policy, own."case", knowledge, seed, moment, k, own.t_ms, warmup,
            coalesce(results, held) AS results, fresh AS reported, expected_fresh,
            CASE WHEN count(held) OVER (PARTITION BY {RUN}) > 0 THEN coalesce(true_fresh, 0) END AS truth
        FROM evaluations AS own LEFT JOIN truths USING ({EVALUATION})
    ), based AS (
        SELECT *, coalesce(truth, reported, expected_fresh) AS fresh,
            CASE WHEN truth IS NOT NULL THEN 'truth' WHEN reported IS NOT NULL THEN 'reported'
                WHEN expected_fresh IS NOT NULL THEN 'expected' END AS basis
        FROM known
    )
    SELECT *, fresh / nullif(results, 0) AS freshness FROM based"""
"""Per evaluation how many answers it has and how many are fresh; misses are in `results` of evaluations alone.

`fresh` is the truth, where answers tell it; else what was reported and else what was expected, as `basis` says. Of a
run without any answers nothing is known."""


def by_seed(target: float = 0.95) -> str:
    """The mean over the evaluations that count and have answers, per seed, and the sums behind the pooled ratio."""
    return f"""
        SELECT {SERIES}, seed, min(basis) AS basis, count(*) AS evaluations, avg(freshness) AS freshness,
            sum(fresh) AS fresh, sum(results) AS results,
            avg(CASE WHEN freshness >= cast({target!r} AS double) THEN cast(1 AS double) ELSE 0 END) AS within_target,
            avg(reported / nullif(results, 0)) AS reported, avg(expected_fresh / nullif(results, 0)) AS expected,
            cast(0 AS bigint) AS audits
        FROM evaluated WHERE NOT warmup AND freshness IS NOT NULL GROUP BY {SERIES}, seed"""


def headline(most: int) -> str:
    """The mean over seeds with its 95 % interval (Student's t); `most` is how many seeds there are at most."""
    student = ", ".join(f"({n}, cast({value!r} AS double))" for n, value in enumerate(quantiles(most), 2))
    return f"""
        WITH found AS (
            SELECT {SERIES}, min(basis) AS basis, count(*) AS seeds, {total("evaluations")} AS evaluations,
                avg(freshness) AS freshness, stddev_samp(freshness) AS spread, sum(fresh) AS fresh,
                sum(results) AS results, avg(within_target) AS within_target, avg(reported) AS reported,
                avg(expected) AS expected, {total("audits")} AS audits
            FROM seeds GROUP BY {SERIES}
        )
        SELECT {SERIES}, basis, found.seeds, evaluations, freshness,
            CASE WHEN found.seeds > 1 THEN quantile * spread / sqrt(found.seeds) END AS ci95,
            fresh / nullif(results, 0) AS pooled, results - fresh AS stale_answers, results AS answers,
            within_target, reported, expected, audits
        FROM found LEFT JOIN (VALUES {student}) AS student(number, quantile) ON found.seeds = student.number"""
