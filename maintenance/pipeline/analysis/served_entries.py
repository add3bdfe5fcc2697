"""SRs one by one: how often each was served and how often stale; by degree, by rate of change, and the worst."""

from freshkeeper.maintenance.pipeline.analysis.analysis_database import number, total
from freshkeeper.maintenance.pipeline.analysis.headline import ENTRY, RUN

DEGREES = f"SELECT {ENTRY}, count(*) AS degree FROM served_edges GROUP BY {ENTRY}"
"""With how many SNs each SR was served, where answers name them."""

CHANGED = f"""
    SELECT own.setting, own.seed, own.sr, coalesce(counted.changes, 0) AS changes
    FROM (SELECT DISTINCT {ENTRY} FROM served_entries) AS own
    LEFT JOIN (SELECT {ENTRY}, count(*) AS changes FROM changes GROUP BY {ENTRY}) AS counted
    ON own.setting = counted.setting AND own.seed = counted.seed AND own.sr = counted.sr"""
"""How often each SR that was served changed."""

UNCHANGED = f"SELECT count(*) AS entries, {number('changes = 0')} AS without FROM changed"
"""How many SRs were served, and how many of them never changed."""


def by_decile(measured: str, measure: str) -> str:
    """Freshness by decile of a measure of SRs; deciles are per setting and seed, ties in the order of ids."""
    return f"""
        WITH deciles AS (
            SELECT {ENTRY}, {measure},
                cast(ntile(10) OVER (PARTITION BY setting, seed ORDER BY {measure}, sr) AS bigint) AS decile
            FROM {measured}
        ), found AS (
            SELECT own.setting, own.policy, decile, count(*) AS entries, min({measure}) AS least,
                max({measure}) AS most, {total("answers")} AS answers, {total("stale")} AS stale
            FROM served_entries AS own JOIN deciles ON own.setting = deciles.setting AND own.seed = deciles.seed
                AND own.sr = deciles.sr
            GROUP BY own.setting, own.policy, decile
        )
        SELECT found.*, 1 - stale / nullif(answers, 0) AS freshness FROM found"""


def top_stale(top: int) -> str:
    """The SRs that most stale answers came from."""
    return f"""
        WITH ranked AS (
            SELECT {RUN}, sr, answers, stale,
                stale / nullif(sum(stale) OVER (PARTITION BY setting, policy), 0) AS share_of_stale,
                cast(row_number() OVER (PARTITION BY setting, policy ORDER BY stale DESC, seed, sr) AS bigint) AS rank
            FROM served_entries
        )
        SELECT own.setting, own.policy, own.rank, own.seed, own.sr, own.answers, own.stale, own.share_of_stale,
            degrees.degree, changed.changes
        FROM ranked AS own
        LEFT JOIN degrees ON own.setting = degrees.setting AND own.seed = degrees.seed AND own.sr = degrees.sr
        LEFT JOIN changed ON own.setting = changed.setting AND own.seed = changed.seed AND own.sr = changed.sr
        WHERE own.rank <= {top} AND own.stale > 0"""


OCTAVES = f"""
    WITH placed AS (
        SELECT setting, policy, what, answers,
            CASE WHEN ms < 1 THEN 0 ELSE cast(pow(2, length(bin(ms)) - 1) AS bigint) END AS from_ms
        FROM stale_times
    ), found AS (
        SELECT setting, policy, what, from_ms, {total("answers")} AS answers FROM placed
        GROUP BY setting, policy, what, from_ms
    )
    SELECT setting, policy, what, from_ms, greatest(1, 2 * from_ms) AS below_ms, answers,
        answers / nullif(sum(answers) OVER (PARTITION BY setting, policy, what), 0) AS share
    FROM found"""
"""The distribution: how many stale answers from a power of two milliseconds up to the next."""

STALENESS_QUANTILES = f"""
    WITH running AS (
        SELECT setting, policy, what, ms, answers, sum(answers) OVER (
                PARTITION BY setting, policy, what ORDER BY ms ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS so_far, sum(answers) OVER (PARTITION BY setting, policy, what) AS of_all
        FROM stale_times
    )
    SELECT setting, policy, what, {total("answers")} AS stale_answers,
        min(CASE WHEN so_far * 100 >= of_all * 50 THEN ms END) AS median_ms,
        min(CASE WHEN so_far * 100 >= of_all * 95 THEN ms END) AS p95_ms,
        min(CASE WHEN so_far * 100 >= of_all * 99 THEN ms END) AS p99_ms, max(ms) AS most_ms
    FROM running GROUP BY setting, policy, what"""
"""The median and the tails of the same: what so many of the stale answers do not exceed, to one part in 64."""
