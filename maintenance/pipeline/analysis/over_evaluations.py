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
    )
    SELECT {SERIES}, basis, least(9, cast(floor(known.expected * 10) AS bigint)) AS tenth, count(*) AS evaluations,
        avg(known.expected) AS expected, avg(known.freshness) AS freshness,
        avg(known.expected - known.freshness) AS bias,
        avg(abs(known.expected - known.freshness)) AS mean_error, sum(results) AS answers
    FROM known WHERE known.expected IS NOT NULL AND known.freshness IS NOT NULL GROUP BY ALL"""
"""Expected freshness against the truth, by tenths of what was expected."""

BUDGET = f"""
    SELECT {SERIES}, count(*) AS evaluations, sum(gamma) AS paid_in, sum(own.spent) AS spent,
        sum(own.spent) / nullif(sum(gamma), 0) AS used, avg(spent) AS spent_per_evaluation,
        avg(budget) AS available_per_evaluation, max(spent) AS most_spent,
        {number("spent + 1 <= least(budget, stale)")} AS saved_though_stale, {total("errors")} AS failed
    FROM evaluations AS own LEFT JOIN gammas USING (setting) GROUP BY ALL"""
"""What was paid in and what was spent, over all evaluations; `gammas` has γ by setting, where known."""

LATENCY = """
    WITH every AS (
        SELECT setting, policy, 'decide' AS part, decide_us / 1000 AS ms FROM evaluations
        UNION ALL SELECT setting, policy, 'fetch', fetch_ms FROM evaluations
        UNION ALL SELECT setting, policy, 'refresh', latency_ms FROM refreshes
    ), parts AS (
        SELECT setting, policy, part, count(*) AS times, sum(ms) AS total_ms, avg(ms) AS mean_ms,
            quantile_disc(ms, 0.5) AS median_ms, quantile_disc(ms, 0.95) AS p95_ms, quantile_disc(ms, 0.99) AS p99_ms
        FROM every WHERE ms IS NOT NULL GROUP BY ALL
    )
    SELECT *, CASE WHEN part != 'refresh' THEN
        total_ms / nullif(sum(total_ms) FILTER (WHERE part != 'refresh') OVER (PARTITION BY setting, policy), 0)
        END AS share
    FROM parts"""
"""Where the time of an evaluation goes: deciding and fetching; and the latency of single refreshes."""
