"""Refreshes that did nothing, and those that should have been: wasted where nothing had changed, missed where a stale
SR that answers needed was not chosen.
"""

from freshkeeper.maintenance.pipeline.analysis.analysis_database import number, total
from freshkeeper.maintenance.pipeline.analysis.headline import EVALUATION, RUN
from freshkeeper.maintenance.service.endpoint import PENDING

MISS = "sr LIKE '?%' OR sr LIKE 'miss %'"
"""How an SN is written whose SRs are not known yet; older simulations wrote a question mark."""

COUNTING = f"""
    WITH known AS (SELECT {EVALUATION}, NOT bool_and(warmup) AS counts FROM evaluated GROUP BY ALL)
    SELECT own.*, coalesce(known.counts, TRUE) AS counts, error IS NOT NULL AS failed, {MISS} AS miss
    FROM refreshes AS own LEFT JOIN known USING ({EVALUATION})"""
"""The refreshes with whether their evaluation counts; one of which nothing is known does."""

MISSED = "SELECT *, missed_answers / nullif(stale_answers, 0) AS share_of_stale FROM not_chosen"
"""Stale SRs that were not chosen though at least as many answers needed them as the mean one that was chosen."""


def wasted(changes: bool) -> str:
    """Of the refreshes that came, how many brought what was there already; by the truth and by what the engine saw.

    One that was on its way at its deadline counts when it has come.
    """
    judged = _JUDGED if changes else f"SELECT *, cast(NULL AS boolean) AS nothing FROM ({_DONE})"
    came = "counts AND NOT failed AND NOT miss"
    return f"""
        WITH judged AS ({judged}), summed AS (
            SELECT setting, policy, {number("counts")} AS refreshes, {number("counts AND failed")} AS failed,
                {number("counts AND miss")} AS misses, {number("counts AND late")} AS late, {number(came)} AS came,
                {total(f"CASE WHEN {came} THEN cast(nothing AS int) END")} AS wasted,
                {total(f"CASE WHEN {came} THEN cast(NOT changed AS int) END")} AS wasted_as_reported
            FROM judged GROUP BY ALL
        )
        SELECT * EXCLUDE came, wasted / nullif(came, 0) AS wasted_share FROM summed"""


_DONE = f"SELECT * FROM counting WHERE error IS NULL OR error != '{PENDING}'"


_JUDGED = f"""
    WITH done AS ({_DONE}), copies AS (
        SELECT {RUN}, sr, t_ms AS copied FROM done WHERE NOT failed
        UNION ALL SELECT {RUN}, sr, refreshed_ms FROM served_copies
    )
    SELECT done.*, last.t_ms IS NULL OR coalesce(last.t_ms <= copies.copied, FALSE) AS nothing
    FROM done ASOF LEFT JOIN copies ON done.setting = copies.setting AND done.policy = copies.policy
        AND done.seed = copies.seed AND done.sr = copies.sr AND done.t_ms > copies.copied
    ASOF LEFT JOIN changes AS last ON done.setting = last.setting AND done.seed = last.seed AND done.sr = last.sr
        AND done.t_ms >= last.t_ms"""
"""Every refresh with `nothing`: no change in (the copy before, the refresh]; a change at t is in it.

The copy before is of an earlier refresh, or one that answers were made of. With none known the copy is as old as the
record, and any change since then counts."""
