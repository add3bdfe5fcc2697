"""Freshness from audits: answers drawn uniformly, what they are made of fetched again to see whether they were fresh.

Where there is no truth about every answer they stand in for it. The share of them that was fresh estimates the pooled
freshness without bias, whatever the engine believes.
"""

from math import sqrt

import pyarrow as pa

from freshkeeper.maintenance.budget.audit import wilson
from freshkeeper.maintenance.pipeline.analysis.analysis_database import Database, number, total
from freshkeeper.maintenance.pipeline.analysis.headline import EVALUATION, SERIES

AUDITED = f"""
    WITH found AS (SELECT {EVALUATION}, count(fresh) AS audits, {number("fresh")} AS fresh FROM audits GROUP BY ALL)
    SELECT {SERIES}, seed, moment, expected_fresh / nullif(results, 0) AS expected, found.audits, found.fresh
    FROM evaluated JOIN found USING ({EVALUATION}) WHERE NOT warmup AND found.audits > 0"""
"""Per evaluation that counts how many answers were audited and how many of them were fresh.

Where nobody can tell, because the fetch failed, `fresh` is null and the audit says nothing."""

STAND_IN = f"""
    WITH found AS (
        SELECT {SERIES}, seed, {total("audits")} AS asked, sum(fresh) / sum(audits) AS share FROM audited GROUP BY ALL
    ), joined AS (
        SELECT *, coalesce(basis != 'truth' AND share IS NOT NULL, FALSE) AS taken
        FROM told_seeds LEFT JOIN found USING ({SERIES}, seed)
    )
    SELECT {SERIES}, seed, CASE WHEN taken THEN 'audited' ELSE basis END AS basis, evaluations,
        CASE WHEN taken THEN share ELSE freshness END AS freshness,
        CASE WHEN taken THEN share * results ELSE fresh END AS fresh, results,
        CASE WHEN NOT taken THEN within_target END AS within_target, reported, expected,
        CASE WHEN taken THEN asked ELSE audits END AS audits
    FROM joined"""
"""The seeds with the share of audits that were fresh instead of what the engine says, where no truth is known."""

CALIBRATION = f"""
    WITH found AS (
        SELECT {SERIES}, least(9, cast(floor(own.expected * 10) AS bigint)) AS tenth, count(*) AS evaluations,
            sum(own.expected * audits) / sum(audits) AS expected, sum(fresh) / sum(audits) AS freshness,
            cast(sum(audits) AS double) AS answers
        FROM audited AS own WHERE own.expected IS NOT NULL GROUP BY ALL
    )
    SELECT {SERIES}, 'audited' AS basis, tenth, evaluations, expected, freshness, expected - freshness AS bias,
        cast(NULL AS double) AS mean_error, answers
    FROM found"""
"""Expected freshness against audits, by tenths of what was expected; evaluations weigh as much as their audits."""


SHARES = pa.schema({
    **dict.fromkeys(("setting", "policy", "case", "knowledge"), pa.string()),
    **dict.fromkeys(("audits", "fresh"), pa.int64()),
    **dict.fromkeys(("freshness", "low", "high"), pa.float64()),
})  # fmt: skip


def shares(database: Database) -> None:
    """The audits of a whole series, with Wilson's 95 % interval, as the table `audit_shares`."""
    sums = f"""
        SELECT {SERIES}, {total("audits")} AS audits, {total("fresh")} AS fresh FROM audited
        GROUP BY ALL ORDER BY {SERIES}"""
    rows = []
    for row in database.rows(sums):
        share = row["fresh"] / row["audits"]
        low, high = wilson(share, row["audits"], sqrt)
        rows.append({**row, "freshness": share, "low": low, "high": high})
    database.take("audit_shares", pa.Table.from_pylist(rows, SHARES))
