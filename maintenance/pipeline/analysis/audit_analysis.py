"""Freshness from audits: answers drawn uniformly, what they are made of fetched again to see whether they were fresh.

Where there is no truth about every answer they stand in for it. The share of them that was fresh estimates the pooled
freshness without bias, whatever the engine believes.
"""

from math import sqrt

from freshkeeper.maintenance.budget.audit import wilson
from freshkeeper.maintenance.pipeline.analysis.analysis_database import Database, number, total
from freshkeeper.maintenance.pipeline.analysis.headline import EVALUATION, SERIES

AUDITED = f"""
    WITH found AS (
        SELECT {EVALUATION}, count(fresh) AS audits, {number("fresh")} AS fresh FROM audits GROUP BY {EVALUATION}
    )
    SELECT own.setting, own.policy, own."case", own.knowledge, own.seed, own.moment,
        own.expected_fresh / nullif(own.results, 0) AS expected, found.audits, found.fresh
    FROM evaluated AS own JOIN found ON own.setting = found.setting AND own.policy = found.policy
        AND own.seed = found.seed AND own.moment = found.moment
    WHERE NOT own.warmup AND found.audits > 0"""
"""Per evaluation that counts how many answers were audited and how many of them were fresh.

Where nobody can tell, because the fetch failed, `fresh` is null and the audit says nothing."""

STAND_IN = f"""
    WITH found AS (
        SELECT {SERIES}, seed, {total("audits")} AS asked, sum(fresh) / sum(audits) AS share
        FROM audited GROUP BY {SERIES}, seed
    ), joined AS (
        SELECT own.*, asked, share, coalesce(own.basis != 'truth' AND share IS NOT NULL, FALSE) AS taken
        FROM told_seeds AS own LEFT JOIN found ON own.setting = found.setting AND own.policy = found.policy
            AND own."case" = found."case" AND own.knowledge = found.knowledge AND own.seed = found.seed
    )
    SELECT {SERIES}, seed, CASE WHEN taken THEN 'audited' ELSE basis END AS basis, evaluations,
        CASE WHEN taken THEN share ELSE freshness END AS freshness,
        CASE WHEN taken THEN share * results ELSE fresh END AS fresh, results,
        CASE WHEN NOT taken THEN within_target END AS within_target, reported, expected,
        CASE WHEN taken THEN asked ELSE audits END AS audits
    FROM joined"""
"""The seeds with the share of audits that were fresh instead of what the engine says, where no truth is known."""

CALIBRATION = f"""
    WITH tenths AS (
        SELECT audited.*, least(9, cast(floor(expected * 10) AS bigint)) AS tenth FROM audited
        WHERE expected IS NOT NULL
    ), found AS (
        SELECT {SERIES}, tenth, count(*) AS evaluations, sum(expected * audits) / sum(audits) AS expected,
            sum(fresh) / sum(audits) AS freshness, cast(sum(audits) AS double) AS answers
        FROM tenths GROUP BY {SERIES}, tenth
    )
    SELECT {SERIES}, 'audited' AS basis, tenth, evaluations, expected, freshness, expected - freshness AS bias,
        cast(NULL AS double) AS mean_error, answers
    FROM found"""
"""Expected freshness against audits, by tenths of what was expected; evaluations weigh as much as their audits."""


def shares(database: Database) -> None:
    """The audits of a whole series, with Wilson's 95 % interval, as the table `audit_shares`."""
    sums = f"""
        SELECT {SERIES}, {total("audits")} AS audits, {total("fresh")} AS fresh FROM audited
        GROUP BY {SERIES} ORDER BY {SERIES}"""
    rows = []
    for row in database.rows(sums):
        share = row["fresh"] / row["audits"]
        rows.append([*row.values(), share, *wilson(share, row["audits"], sqrt)])
    words = dict.fromkeys(("setting", "policy", "case", "knowledge"), "string")
    counts, measured = dict.fromkeys(("audits", "fresh"), "bigint"), ("freshness", "low", "high")
    database.given("audit_shares", words | counts | dict.fromkeys(measured, "double"), rows)
