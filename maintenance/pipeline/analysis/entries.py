"""SRs one by one: how often each was served and how often stale; by degree, by rate of change, and the worst."""

from freshkeeper.maintenance.pipeline.analysis.engine import number, total
from freshkeeper.maintenance.pipeline.analysis.headline import ENTRY, EVALUATION, NEVER_STALE, RUN

SUBS = 64
"""Ages are kept to one part in so many, so that memory does not grow with the answers."""

BY_COPY = f"""
    SELECT {EVALUATION}, "case", t_ms, sr, refreshed_ms, {total("weight")} AS weight
    FROM answers GROUP BY {EVALUATION}, "case", t_ms, sr, refreshed_ms"""
"""The answers of one evaluation that were made of one copy, together: `weight` is then the SR's demand."""

SERVED = f"""
    WITH counting AS (SELECT {EVALUATION}, NOT bool_and(warmup) AS counts FROM evaluated GROUP BY {EVALUATION})
    SELECT own.setting, own.policy, own.seed, own.moment, own.t_ms, own.sr, own.refreshed_ms, own.weight AS demand,
        own.stale_from, own.is_fresh, counting.counts
    FROM judged AS own JOIN counting ON own.setting = counting.setting AND own.policy = counting.policy
        AND own.seed = counting.seed AND own.moment = counting.moment"""
"""Per evaluation and SR the copy that was served and its demand: how many answers it took part in."""

BY_SR = f"""
    SELECT {RUN}, sr, {total("demand")} AS answers, {total("CASE WHEN is_fresh THEN 0 ELSE demand END")} AS stale
    FROM served WHERE counts GROUP BY {RUN}, sr"""
"""Answers and stale answers of every SR over the evaluations that count."""

DEGREES = f"""
    SELECT {ENTRY}, count(*) AS degree FROM (SELECT DISTINCT {ENTRY}, sn FROM answers WHERE sn IS NOT NULL) AS pairs
    GROUP BY {ENTRY}"""
"""With how many SNs each SR was served, where answers name them."""

CHANGED = f"""
    SELECT own.setting, own.seed, own.sr, coalesce(counted.changes, 0) AS changes
    FROM (SELECT DISTINCT {ENTRY} FROM by_sr) AS own
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
            FROM by_sr AS own JOIN deciles ON own.setting = deciles.setting AND own.seed = deciles.seed
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
            FROM by_sr
        )
        SELECT own.setting, own.policy, own.rank, own.seed, own.sr, own.answers, own.stale, own.share_of_stale,
            degrees.degree, changed.changes
        FROM ranked AS own
        LEFT JOIN degrees ON own.setting = degrees.setting AND own.seed = degrees.seed AND own.sr = degrees.sr
        LEFT JOIN changed ON own.setting = changed.setting AND own.seed = changed.seed AND own.sr = changed.sr
        WHERE own.rank <= {top} AND own.stale > 0"""


STALENESS = f"""
    WITH stale AS (
        SELECT setting, policy, demand, t_ms - stale_from AS overdue, t_ms - refreshed_ms AS age FROM served
        WHERE counts AND NOT is_fresh AND stale_from < {NEVER_STALE}
    ), ages AS (
        SELECT setting, policy, 'overdue' AS what, overdue AS exact_ms, {total("demand")} AS answers
        FROM stale GROUP BY setting, policy, overdue
        UNION ALL SELECT setting, policy, 'age', age, {total("demand")} FROM stale GROUP BY setting, policy, age
    ), placed AS (
        SELECT ages.*, length(bin(exact_ms)) - 1 AS octave FROM ages
    ), rounded AS (
        SELECT placed.*, exact_ms - exact_ms % (
            CASE WHEN exact_ms < {SUBS} THEN 1 ELSE cast(floor(pow(2, octave) / {SUBS}) AS bigint) END
        ) AS ms FROM placed
    )
    SELECT setting, policy, what, ms, {total("answers")} AS answers FROM rounded GROUP BY setting, policy, what, ms"""
"""For how long the copies of stale answers had been stale (`overdue`) and how old they were (`age`), in ms that are
rounded down to a 64th of their octave."""

OCTAVES = f"""
    WITH placed AS (
        SELECT setting, policy, what, answers,
            CASE WHEN ms < 1 THEN 0 ELSE cast(pow(2, length(bin(ms)) - 1) AS bigint) END AS from_ms
        FROM staleness_ms
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
        FROM staleness_ms
    )
    SELECT setting, policy, what, {total("answers")} AS stale_answers,
        min(CASE WHEN so_far * 100 >= of_all * 50 THEN ms END) AS median_ms,
        min(CASE WHEN so_far * 100 >= of_all * 95 THEN ms END) AS p95_ms,
        min(CASE WHEN so_far * 100 >= of_all * 99 THEN ms END) AS p99_ms, max(ms) AS most_ms
    FROM running GROUP BY setting, policy, what"""
"""The median and the tails of the same: what so many of the stale answers do not exceed, to one part in 64."""
