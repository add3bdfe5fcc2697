"""SRs one by one: how often each was served and how often stale; by degree, by rate of change, and the worst."""

from freshkeeper.maintenance.pipeline.analysis.analysis_database import number, total
from freshkeeper.maintenance.pipeline.analysis.headline import ENTRY

DEGREES = f"SELECT {ENTRY}, count(*) AS degree FROM served_edges GROUP BY ALL"
"""With how many SNs each SR was served, where answers name them."""

CHANGED = f"""
    SELECT {ENTRY}, coalesce(changes, 0) AS changes FROM (SELECT DISTINCT {ENTRY} FROM served_entries)
    LEFT JOIN (SELECT {ENTRY}, count(*) AS changes FROM changes GROUP BY ALL) USING ({ENTRY})"""
"""How often each SR that was served changed."""

UNCHANGED = f"SELECT count(*) AS entries, {number('changes = 0')} AS without FROM changed"
"""How many SRs were served, and how many of them never changed."""


def by_decile(measured: str, measure: str) -> str:
    """Freshness by decile of a measure of SRs; deciles are per setting and seed, ties in the order of ids."""
    return f"""
        WITH deciles AS (
            SELECT {ENTRY}, {measure}, ntile(10) OVER (PARTITION BY setting, seed ORDER BY {measure}, sr) AS decile
            FROM {measured}
        )
        SELECT setting, policy, decile, count(*) AS entries, min({measure}) AS least, max({measure}) AS most,
            {total("own.answers")} AS answers, {total("own.stale")} AS stale,
            1 - sum(own.stale) / nullif(sum(own.answers), 0) AS freshness
        FROM served_entries AS own JOIN deciles USING ({ENTRY}) GROUP BY ALL"""


def top_stale(top: int) -> str:
    """The SRs that most stale answers came from."""
    return f"""
        WITH ranked AS (
            SELECT *, stale / nullif(sum(stale) OVER (PARTITION BY setting, policy), 0) AS share_of_stale,
                row_number() OVER (PARTITION BY setting, policy ORDER BY stale DESC, seed, sr) AS rank
            FROM served_entries
        )
        SELECT setting, policy, rank, seed, sr, answers, stale, share_of_stale, degree, changes
        FROM ranked LEFT JOIN degrees USING ({ENTRY}) LEFT JOIN changed USING ({ENTRY})
        WHERE rank <= {top} AND stale > 0"""


OCTAVES = f"""
    WITH placed AS (
        SELECT setting, policy, what, CASE WHEN ms < 1 THEN 0 ELSE 1 << (length(bin(ms)) - 1) END AS from_ms,
            {total("answers")} AS answers
        FROM stale_times GROUP BY ALL
    )
    SELECT setting, policy, what, from_ms, greatest(1, 2 * from_ms) AS below_ms, answers,
        answers / nullif(sum(answers) OVER (PARTITION BY setting, policy, what), 0) AS share
    FROM placed"""
"""The distribution: how many stale answers from a power of two milliseconds up to the next."""

STALENESS_QUANTILES = f"""
    WITH running AS (
        SELECT *, sum(answers) OVER (PARTITION BY setting, policy, what ORDER BY ms) AS so_far,
            sum(answers) OVER (PARTITION BY setting, policy, what) AS of_all
        FROM stale_times
    )
    SELECT setting, policy, what, {total("answers")} AS stale_answers,
        min(CASE WHEN so_far * 100 >= of_all * 50 THEN ms END) AS median_ms,
        min(CASE WHEN so_far * 100 >= of_all * 95 THEN ms END) AS p95_ms,
        min(CASE WHEN so_far * 100 >= of_all * 99 THEN ms END) AS p99_ms, max(ms) AS most_ms
    FROM running GROUP BY ALL"""
"""The median and the tails of the same: what so many of the stale answers do not exceed, to one part in 64."""
