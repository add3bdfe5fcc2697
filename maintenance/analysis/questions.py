"""Every table of an analysis: the SQL that gives it, of the run's own tables and of what judging its answers gave.

Variables: `target`, `top`, `changes` (true if refreshes can be judged by changes), `dates` (true if instants are dates
and not offsets) and `student`, the quantiles of Student's t by the number of seeds. The table `gammas` has γ by
setting, where it is known. Rows are ordered by their keys, which are the first columns.
"""

from collections.abc import Mapping

import duckdb

from freshkeeper.maintenance.analysis.analysis_tables import DATES_FROM_MS
from freshkeeper.maintenance.base.stats import wilson
from freshkeeper.maintenance.fetching.endpoint import PENDING

SERIES = 'setting, policy, "case", knowledge'
RUN = "setting, policy, seed"
EVALUATION = f"{RUN}, moment"
ENTRY = "setting, seed, sr"
MISS = "sr LIKE 'miss %'"
"""The journal writes a fetch of a lookup key whose entries are not known yet as `miss KEY`."""
LOW, HIGH = wilson(
    duckdb.ColumnExpression("freshness"), duckdb.ColumnExpression("audits"),
    lambda square: duckdb.FunctionExpression("sqrt", square),
)  # fmt: skip

EVALUATIONS = """
    SELECT setting, policy, "case", '' AS knowledge, seed, moment, moment AS k, t_ms, FALSE AS warmup,
        cast(NULL AS double) AS results, cast(NULL AS double) AS fresh, cast(NULL AS double) AS expected_fresh,
        cast(NULL AS double) AS spent
    FROM truths"""
"""What answers tell of evaluations where nothing else does."""

LAST_ALONE = f"""
    SELECT * REPLACE (warmup OR row_number() OVER (PARTITION BY {RUN} ORDER BY t_ms DESC, k DESC) > {{last}} AS warmup)
    FROM own_evaluations"""
"""Of each run, only the last evaluations count; all earlier ones are taken as warm-up."""

SEEDS_AND_DATES = f"""
    WITH placed AS (
        SELECT setting, coalesce(k, moment) AS k, min(t_ms) AS first_ms, max(t_ms) AS last_ms
        FROM own_evaluations GROUP BY ALL
    )
    SELECT (SELECT count(DISTINCT seed) FROM own_evaluations), bool_and(first_ms >= {DATES_FROM_MS} AND
        first_ms = last_ms) FROM placed"""
"""The number of seeds, and whether instants are dates that all seeds share, as those of a recorded trace are."""

ON_THE_WAY = {"evaluated", "audited", "degrees", "changed", "judged_refreshes"}
"""Tables that others are made of."""
HEADLINE = {"evaluated", "audited", "seeds", "freshness", "audits", "calibration"}
LARGE = {"evaluations", "over_time", "timeline"}
"""They grow with the run, so they are written as Parquet and not into analysis.json."""
MOST_POINTS, FEWEST_POINTS, ALL_POINTS = 200, 25, 25_000
"""Points of a line in `timeline`: at most and at least, and how many all lines have together."""
SLACK = 1e-9
"""Rounding errors of the cost that do not count as overspending."""
OF: Mapping[str, set[str]] = {
    "audits": {"audits"},
    "evaluations": {"budget", "latency", "timeline"},
    "judged": {"degrees", "changed", "by_degree", "by_change_rate", "top_stale", "missed"}
    | {"staleness", "staleness_quantiles"},
    "refreshes": {"judged_refreshes", "wasted", "missed"},
}
"""Which cannot be told of a run that lacks a table, or answers that can be judged."""


def _half(spread: str, number: str) -> str:
    """Return SQL for the half of Student's 95 % interval of a mean, from the standard deviation of so many values."""
    return f"getvariable('student')[{number}] * {spread} / sqrt({number})"


def _by_decile(measured: str, measure: str) -> str:
    """Freshness by decile of a measure of SRs; deciles are per setting and seed, ties in the order of ids."""
    return f"""
        WITH deciles AS (
            SELECT {ENTRY}, {measure}, ntile(10) OVER (PARTITION BY setting, seed ORDER BY {measure}, sr) AS decile
            FROM {measured}
        )
        SELECT setting, policy, decile, count(*) AS entries, min({measure}) AS least, max({measure}) AS most,
            sum(own.answers)::bigint AS answers, sum(own.stale)::bigint AS stale,
            1 - sum(own.stale) / nullif(sum(own.answers), 0) AS freshness
        FROM served_entries AS own JOIN deciles USING ({ENTRY}) GROUP BY ALL"""


QUESTIONS: Mapping[str, str] = {
    # Per evaluation how many answers it has and how many are fresh: by the truth, where answers tell it, else as was
    # reported and else as was expected, as `basis` says. Misses are in `results` of evaluations alone; of a run without
    # any answers nothing is known.
    "evaluated": f"""
    WITH known AS (
        SELECT setting, policy, own."case", knowledge, seed, moment, k, own.t_ms, warmup,
            coalesce(results, held) AS results, fresh AS reported, expected_fresh, spent,
            CASE WHEN count(held) OVER (PARTITION BY {RUN}) > 0 THEN coalesce(true_fresh, 0) END AS truth
        FROM own_evaluations AS own LEFT JOIN truths USING ({EVALUATION})
    ), based AS (
        SELECT *, coalesce(truth, reported, expected_fresh) AS fresh,
            CASE WHEN truth IS NOT NULL THEN 'truth' WHEN reported IS NOT NULL THEN 'reported'
                WHEN expected_fresh IS NOT NULL THEN 'expected' END AS basis
        FROM known
    )
    SELECT *, fresh / nullif(results, 0) AS freshness, expected_fresh / nullif(results, 0) AS expected FROM based""",
    # Per evaluation that counts how many answers were audited, and how many of them were fresh; where the fetch failed
    # `fresh` is null and the audit says nothing.
    "audited": f"""
    SELECT {SERIES}, seed, moment, expected, count(own.fresh) AS audits, count(*) FILTER (WHERE own.fresh) AS fresh
    FROM evaluated JOIN own_audits AS own USING ({EVALUATION}) WHERE NOT warmup GROUP BY ALL HAVING audits > 0""",
    # The mean over the evaluations that count and have answers, and the sums behind the pooled ratio. Where no truth is
    # known the share of audits that were fresh stands in: it estimates the pooled freshness without bias.
    "seeds": f"""
    WITH told AS (
        SELECT {SERIES}, seed, min(basis) AS basis, count(*) AS evaluations, avg(freshness) AS freshness,
            sum(fresh) AS fresh, sum(results) AS results,
            avg(if(freshness >= getvariable('target'), 1, 0)) AS within_target,
            avg(reported / nullif(results, 0)) AS reported, avg(expected) AS expected
        FROM evaluated WHERE NOT warmup AND freshness IS NOT NULL GROUP BY ALL
    ), found AS (
        SELECT {SERIES}, seed, sum(audits)::bigint AS asked, sum(fresh) / asked AS share FROM audited GROUP BY ALL
    ), joined AS (
        SELECT *, basis != 'truth' AND share IS NOT NULL AS taken FROM told LEFT JOIN found USING ({SERIES}, seed)
    )
    SELECT {SERIES}, seed, if(taken, 'audited', basis) AS basis, evaluations, if(taken, share, freshness) AS freshness,
        if(taken, share * results, fresh) AS fresh, results, if(taken, NULL, within_target) AS within_target,
        reported, expected, if(taken, asked, 0) AS audits
    FROM joined""",
    # The mean over seeds with its 95 % interval.
    "freshness": f"""
    WITH found AS (
        SELECT {SERIES}, min(basis) AS basis, count(*) AS seeds, sum(evaluations)::bigint AS evaluations,
            stddev_samp(freshness) AS spread, avg(freshness) AS freshness, sum(fresh) AS fresh,
            sum(results) AS answers, avg(within_target) AS within_target, avg(reported) AS reported,
            avg(expected) AS expected, sum(audits)::bigint AS audits
        FROM seeds GROUP BY ALL
    )
    SELECT {SERIES}, basis, seeds, evaluations, freshness, {_half("spread", "seeds")} AS ci95,
        fresh / nullif(answers, 0) AS pooled, answers - fresh AS stale_answers, answers, within_target, reported,
        expected, audits
    FROM found""",
    "audits": f"""
    WITH found AS (
        SELECT {SERIES}, sum(audits)::bigint AS audits, sum(fresh)::bigint AS fresh,
            sum(fresh) / sum(audits) AS freshness
        FROM audited GROUP BY ALL
    )
    SELECT *, {LOW} AS low, {HIGH} AS high FROM found""",
    # Expected freshness against the truth, and against audits, by tenths of what was expected. Of the latter
    # evaluations weigh as much as their audits.
    "calibration": f"""
    WITH checked AS (
        SELECT {SERIES}, basis, expected, freshness, 1 AS weight, abs(expected - freshness) AS error, results AS answers
        FROM evaluated WHERE basis IN ('truth', 'reported') AND NOT warmup AND freshness IS NOT NULL
        UNION ALL SELECT {SERIES}, 'audited', expected, fresh / audits, audits, NULL, audits FROM audited
    )
    SELECT {SERIES}, basis, least(9, floor(own.expected * 10)::bigint) AS tenth, count(*) AS evaluations,
        sum(own.expected * weight) / sum(weight) AS expected, sum(own.freshness * weight) / sum(weight) AS freshness,
        sum((own.expected - own.freshness) * weight) / sum(weight) AS bias, avg(error) AS mean_error,
        sum(answers) AS answers
    FROM checked AS own WHERE own.expected IS NOT NULL GROUP BY ALL""",
    "evaluations": f"""
    SELECT {SERIES}, seed, k, t_ms, warmup, results, fresh, freshness, basis, reported, expected_fresh, spent
    FROM evaluated""",
    # Freshness at every evaluation, the mean over seeds; the warm-up is in it and marked.
    "over_time": f"""
    SELECT {SERIES}, coalesce(k, moment) AS k, min(t_ms) AS t_ms, max(warmup) AS warmup, min(basis) AS basis,
        count(freshness) AS seeds, avg(freshness) AS freshness, avg(expected) AS expected,
        sum(results - fresh) AS stale_answers, sum(results) AS answers
    FROM evaluated GROUP BY {SERIES}, coalesce(k, moment)""",
    # Lines that a screen can show. Evaluations lie at their number, or at their instant where that is a date. In a long
    # run a point stands for several successive evaluations: the mean of their freshness and of what they spent. Stale
    # answers add up from the end of the warm-up on.
    "timeline": f"""
    WITH placed AS (
        SELECT *, if(getvariable('dates'), t_ms, coalesce(k, moment)) AS x,
            dense_rank() OVER (PARTITION BY {SERIES} ORDER BY x) - 1 AS place
        FROM evaluated
    ), sized AS (
        SELECT *, ceil((max(place) OVER line + 1) / points)::bigint AS size,
            max(x) FILTER (WHERE warmup) OVER line AS last_warmup,
            sum(results - fresh) FILTER (WHERE NOT warmup) OVER (PARTITION BY {SERIES}, seed ORDER BY x) AS stale
        FROM placed, (
            SELECT greatest(1, count(DISTINCT ({SERIES}))) AS lines,
                least({MOST_POINTS}, greatest({FEWEST_POINTS}, {ALL_POINTS} // lines)) AS points
            FROM evaluated
        ) WINDOW line AS (PARTITION BY {SERIES})
    ), by_seed AS (
        SELECT {SERIES}, seed, place // size AS point, max(x) AS x, max(size) AS evaluations,
            avg(freshness) AS freshness, arg_max(stale, x) AS stale, avg(spent) AS spent,
            max(last_warmup) AS last_warmup, min(x) FILTER (WHERE x > last_warmup) AS after_warmup
        FROM sized GROUP BY ALL
    )
    SELECT {SERIES}, max(x) AS x, max(evaluations) AS evaluations, avg(own.freshness) AS freshness,
        {_half("stddev_samp(own.freshness)", "count(own.freshness)")} AS freshness_ci95,
        avg(own.stale) AS stale, {_half("stddev_samp(own.stale)", "count(own.stale)")} AS stale_ci95,
        avg(own.spent) AS spent, max(last_warmup) / 2
            + coalesce(min(min(after_warmup)) OVER (PARTITION BY {SERIES}), max(last_warmup)) / 2 AS warmup_ends
    FROM by_seed AS own GROUP BY {SERIES}, point""",
    "budget": f"""
    SELECT {SERIES}, count(*) AS evaluations, sum(gamma) AS paid_in, sum(own.spent) AS spent,
        sum(own.spent) / nullif(sum(gamma), 0) AS used, avg(spent) AS spent_per_evaluation,
        avg(budget) AS available_per_evaluation, max(spent) AS most_spent,
        count(*) FILTER (WHERE spent + 1 <= least(budget, stale)) AS saved_though_stale, sum(errors)::bigint AS failed,
        avg(coalesce(requests, own.spent)) AS requests_per_evaluation,
        coalesce(bool_or(own.spent > own.budget + {SLACK}), FALSE) AS over_budget, max(t_ms) AS last_ms
    FROM own_evaluations AS own LEFT JOIN gammas USING (setting) GROUP BY ALL""",
    # Where the time of an evaluation goes: deciding and fetching; and the latency of single refreshes.
    "latency": """
    WITH every AS (
        SELECT setting, policy, 'decide' AS part, decide_us / 1000 AS ms FROM own_evaluations
        UNION ALL SELECT setting, policy, 'fetch', fetch_ms FROM own_evaluations
        UNION ALL SELECT setting, policy, 'refresh', latency_ms FROM own_refreshes
    )
    SELECT setting, policy, part, count(*) AS times, sum(ms) AS total_ms, avg(ms) AS mean_ms,
        quantile_disc(ms, 0.5) AS median_ms, quantile_disc(ms, 0.95) AS p95_ms, quantile_disc(ms, 0.99) AS p99_ms,
        CASE WHEN part != 'refresh' THEN
            sum(ms) / nullif(sum(sum(ms)) OVER (PARTITION BY setting, policy, part = 'refresh'), 0) END AS share
    FROM every WHERE ms IS NOT NULL GROUP BY setting, policy, part""",
    # With how many SNs each SR was served, where answers name them, and how often each changed.
    "degrees": f"SELECT {ENTRY}, count(*) AS degree FROM served_edges GROUP BY ALL",
    "changed": f"""
    SELECT {ENTRY}, coalesce(changes, 0) AS changes FROM (SELECT DISTINCT {ENTRY} FROM served_entries)
    LEFT JOIN (SELECT {ENTRY}, count(*) AS changes FROM changes GROUP BY ALL) USING ({ENTRY})""",
    "by_degree": _by_decile("degrees", "degree"),
    "by_change_rate": _by_decile("changed", "changes"),
    "top_stale": f"""
    SELECT setting, policy, row_number() OVER (PARTITION BY setting, policy ORDER BY stale DESC, seed, sr) AS rank,
        seed, sr, answers, stale, stale / nullif(sum(stale) OVER (PARTITION BY setting, policy), 0) AS share_of_stale,
        degree, changes
    FROM served_entries LEFT JOIN degrees USING ({ENTRY}) LEFT JOIN changed USING ({ENTRY})
    QUALIFY rank <= getvariable('top') AND stale > 0""",
    # How many stale answers from a power of two milliseconds up to the next; then what so many of them do not exceed.
    "staleness": """
    SELECT setting, policy, what, if(ms < 1, 0, 1 << (length(bin(ms)) - 1)) AS from_ms,
        greatest(1, 2 * from_ms) AS below_ms, sum(own.answers)::bigint AS answers,
        sum(own.answers) / nullif(sum(sum(own.answers)) OVER (PARTITION BY setting, policy, what), 0) AS share
    FROM stale_times AS own GROUP BY setting, policy, what, from_ms""",
    "staleness_quantiles": """
    WITH running AS (
        SELECT *, sum(answers) OVER (PARTITION BY setting, policy, what ORDER BY ms)
            / sum(answers) OVER (PARTITION BY setting, policy, what) AS share
        FROM stale_times
    )
    SELECT setting, policy, what, sum(answers)::bigint AS stale_answers,
        min(ms) FILTER (WHERE share >= 0.5) AS median_ms, min(ms) FILTER (WHERE share >= 0.95) AS p95_ms,
        min(ms) FILTER (WHERE share >= 0.99) AS p99_ms, max(ms) AS most_ms
    FROM running GROUP BY ALL""",
    # The refreshes with whether their evaluation counts; one of which nothing is known does. One that was on its way at
    # its deadline counts when it has come. `nothing`: no change in (the copy before, the refresh]. The copy before is,
    # from the next millisecond on, of an earlier refresh or one that answers were made of; with none known it is as old
    # as the record.
    "judged_refreshes": f"""
    WITH known AS (SELECT {EVALUATION}, NOT bool_and(warmup) AS counts FROM evaluated GROUP BY ALL), done AS (
        SELECT own.*, coalesce(known.counts, TRUE) AS counts, error IS NOT NULL AS failed, {MISS} AS miss
        FROM own_refreshes AS own LEFT JOIN known USING ({EVALUATION}) WHERE error IS NULL OR error != '{PENDING}'
    ), copies AS (
        SELECT {RUN}, sr, t_ms AS copied, copied + 1 AS t_ms FROM done WHERE NOT failed
        UNION ALL SELECT {RUN}, sr, refreshed_ms, refreshed_ms + 1 FROM served_copies
    )
    SELECT done.*, counts AND NOT failed AND NOT miss AS came, CASE WHEN getvariable('changes') THEN
        last.t_ms IS NULL OR coalesce(last.t_ms <= copied, FALSE) END AS nothing
    FROM done ASOF LEFT JOIN copies USING (setting, policy, seed, sr, t_ms)
    ASOF LEFT JOIN changes AS last USING (setting, seed, sr, t_ms)""",
    # How many of those that came brought what was there already: by the truth, and by what the engine saw.
    "wasted": """
    WITH summed AS (
        SELECT setting, policy, count(*) FILTER (WHERE counts) AS refreshes,
            count(*) FILTER (WHERE counts AND failed) AS failed,
            count(*) FILTER (WHERE counts AND miss) AS misses, count(*) FILTER (WHERE counts AND late) AS late,
            count(*) FILTER (WHERE came) AS came, sum(if(came, nothing::int, NULL))::bigint AS wasted,
            sum(if(came, (NOT changed)::int, NULL))::bigint AS wasted_as_reported
        FROM judged_refreshes GROUP BY ALL
    )
    SELECT * EXCLUDE came, wasted / nullif(came, 0) AS wasted_share FROM summed""",
    "missed": "SELECT *, missed_answers / nullif(stale_answers, 0) AS share_of_stale FROM not_chosen",
}
