"""Evaluations one by one: freshness over time, whether expectations were right, what was paid for, how long it took."""

from freshkeeper.maintenance.pipeline.analysis.analysis_database import number, total
from freshkeeper.maintenance.pipeline.analysis.headline import SERIES

OVER_TIME = f"""
    SELECT {SERIES}, coalesce(k, moment) AS k, min(t_ms) AS t_ms, max(warmup) AS warmup, min(basis) AS basis,
        count(freshness) AS seeds, avg(freshness) AS freshness,
        avg(expected_fresh / nullif(results, 0)) AS expected, sum(results - fresh) AS stale_answers,
        sum(results) AS answers
    FROM evaluated GROUP BY {SERIES}, coalesce(k, moment)"""
"""Freshness at every evaluation, the mean over seeds; the warm-up is in it and marked."""

CALIBRATION = f"""
    WITH known AS (
        SELECT {SERIES}, basis, freshness, results, expected_fresh / nullif(results, 0) AS expected FROM evaluated
        WHERE basis IN ('truth', 'reported') AND NOT warmup
    ), tenths AS (
        SELECT known.*, least(9, cast(floor(expected * 10) AS bigint)) AS tenth, expected - freshness AS error
        FROM known WHERE expected IS NOT NULL AND freshness IS NOT NULL
    )
    SELECT {SERIES}, basis, tenth, count(*) AS evaluations, avg(expected) AS expected, avg(freshness) AS freshness,
        avg(error) AS bias, avg(abs(error)) AS mean_error, sum(results) AS answers
    FROM tenths GROUP BY {SERIES}, basis, tenth"""
"""Expected freshness against the truth, by tenths of what was expected."""

BUDGET = f"""
    WITH paid AS (
        SELECT {SERIES}, budget, spent, errors, gamma,
            spent + 1 <= least(budget, cast(stale AS double)) AS idle
        FROM evaluations LEFT JOIN gammas USING (setting)
    )
    SELECT {SERIES}, count(*) AS evaluations, sum(gamma) AS paid_in, sum(spent) AS spent,
        sum(spent) / nullif(sum(gamma), 0) AS used, avg(spent) AS spent_per_evaluation,
        avg(budget) AS available_per_evaluation, max(spent) AS most_spent,
        {number("idle")} AS saved_though_stale, {total("errors")} AS failed
    FROM paid GROUP BY {SERIES}"""
"""What was paid in and what was spent, over all evaluations; `gammas` has γ by setting, where known."""


def latency(refreshes: bool) -> str:
    """Where the time of an evaluation goes: deciding and fetching; and the latency of single refreshes."""
    split = f"""
        WITH parts AS (
            {_part("decide", "decide_us / 1000", "evaluations")} UNION ALL {_part("fetch", "fetch_ms", "evaluations")}
        )
        SELECT parts.*, total_ms / nullif(sum(total_ms) OVER (PARTITION BY setting, policy), 0) AS share FROM parts"""
    if not refreshes:
        return split
    single = _part("refresh", "latency_ms", "refreshes")
    return f"{split} UNION ALL SELECT single.*, cast(NULL AS double) FROM ({single}) AS single"


def _part(name: str, ms: str, table: str) -> str:
    cuts = ", ".join(
        f"percentile_disc({share}) WITHIN GROUP (ORDER BY {ms}) AS {word}"
        for share, word in ((0.5, "median_ms"), (0.95, "p95_ms"), (0.99, "p99_ms"))
    )
    return f"""
        SELECT setting, policy, '{name}' AS part, count(*) AS times, sum({ms}) AS total_ms, avg({ms}) AS mean_ms, {cuts}
        FROM {table} WHERE {ms} IS NOT NULL GROUP BY setting, policy"""
