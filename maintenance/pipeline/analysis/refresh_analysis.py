"""Refreshes that did nothing, and those that should have been: wasted where nothing had changed, missed where a stale
SR that answers needed was not chosen.
"""

from freshkeeper.maintenance.pipeline.analysis.analysis_database import number, total
from freshkeeper.maintenance.pipeline.analysis.headline import ENTRY, EVALUATION, RUN
from freshkeeper.maintenance.service.endpoint import PENDING

MISS = "sr LIKE '?%' OR sr LIKE 'miss %'"
"""How an SN is written whose SRs are not known yet; older simulations wrote a question mark."""

COUNTING = f"""
    WITH known AS (SELECT {EVALUATION}, NOT bool_and(warmup) AS counts FROM evaluated GROUP BY {EVALUATION})
    SELECT own.*, coalesce(known.counts, TRUE) AS counts, own.error IS NOT NULL AS failed, {MISS} AS miss
    FROM refreshes AS own LEFT JOIN known ON own.setting = known.setting AND own.policy = known.policy
        AND own.seed = known.seed AND own.moment = known.moment"""
"""The refreshes with whether their evaluation counts; one of which nothing is known does."""

MISSED = f"""
    WITH summed AS (
        SELECT setting, policy, {total("stale_entries")} AS stale_entries, {total("missed")} AS missed,
            {total("stale_answers")} AS stale_answers, {total("missed_answers")} AS missed_answers
        FROM truths WHERE counts GROUP BY setting, policy
    )
    SELECT summed.*, missed_answers / nullif(stale_answers, 0) AS share_of_stale FROM summed"""
"""Stale SRs that were not chosen though at least as many answers needed them as the mean one that was chosen."""


def wasted(served: bool, changes: bool) -> str:
    """Of the refreshes that came, how many brought what was there already; by the truth and by what the engine saw.

    One that was on its way at its deadline counts when it has come.
    """
    judged = _judged(served) if changes else f"SELECT own.*, cast(NULL AS boolean) AS nothing FROM ({_DONE}) AS own"
    came = "counts AND NOT failed AND NOT miss"
    return f"""
        WITH judged AS ({judged}), summed AS (
            SELECT setting, policy, {number("counts")} AS refreshes, {number("counts AND failed")} AS failed,
                {number("counts AND miss")} AS misses, {number("counts AND late")} AS late, {number(came)} AS came,
                {total(f"CASE WHEN {came} THEN cast(nothing AS int) END")} AS wasted,
                {total(f"CASE WHEN {came} THEN cast(NOT changed AS int) END")} AS wasted_as_reported
            FROM judged GROUP BY setting, policy
        )
        SELECT setting, policy, refreshes, failed, misses, late, wasted, wasted_as_reported,
            wasted / nullif(came, 0) AS wasted_share
        FROM summed"""


_DONE = f"SELECT * FROM counting WHERE error IS NULL OR error != '{PENDING}'"


def _judged(served: bool) -> str:
    """Every refresh with `nothing`: no change in (the copy before, the refresh]; a change at t is in it."""
    return f"""
        WITH asked AS ({_with_copy_before(served)}), events AS (
            SELECT {RUN}, sr, counts, failed, miss, late, changed, before, t_ms AS instant, FALSE AS is_change
            FROM asked
            UNION ALL SELECT setting, NULL, seed, sr, NULL, NULL, NULL, NULL, NULL, NULL, t_ms, TRUE FROM changes
        ), followed AS (
            SELECT *, max(CASE WHEN is_change THEN instant END) OVER (
                PARTITION BY {ENTRY} ORDER BY instant, is_change DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS last_change FROM events
        )
        SELECT followed.*, last_change IS NULL OR coalesce(last_change <= before, FALSE) AS nothing
        FROM followed WHERE NOT is_change"""


def _with_copy_before(served: bool) -> str:
    """The instant of the copy that each refresh replaces: of an earlier refresh, or one that answers were made of.

    With none known the copy is as old as the record, and any change since then counts.
    """
    columns = f"{RUN}, sr, counts, failed, miss, late, changed, t_ms"
    used = f"""
        UNION ALL SELECT {RUN}, sr, FALSE, FALSE, FALSE, FALSE, FALSE, refreshed_ms, refreshed_ms, FALSE
        FROM served_copies""" if served else ""  # fmt: skip
    return f"""
        WITH known AS (
            SELECT {columns}, CASE WHEN NOT failed THEN t_ms END AS copied, TRUE AS asked FROM ({_DONE}) AS done{used}
        ), followed AS (
            SELECT *, max(copied) OVER (
                PARTITION BY {RUN}, sr ORDER BY t_ms, asked DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS before FROM known
        )
        SELECT {columns}, before FROM followed WHERE asked"""
