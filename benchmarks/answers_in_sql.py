"""What an analysis asks of answers, as SQL that one would write for DuckDB: the yardstick of `benchmarks/analyse.py`.

It is for tables as that benchmark makes them: every column is there, one setting, edge by edge.
"""

from collections.abc import Iterator

import duckdb

from freshkeeper.maintenance.analysis.judging import NEVER_STALE, SUBS, DuckDB, Judge, Parts, schema

STEPS = {
    "by_copy": """
        SELECT setting, policy, seed, t_ms, "case", sr, refreshed_ms, sum(weight) AS demand
        FROM '{run}/answers.parquet' GROUP BY ALL""",
    "copies": """
        WITH used AS (SELECT DISTINCT setting, seed, sr, refreshed_ms FROM by_copy)
        SELECT used.*, coalesce(changes.t_ms, {never}) AS stale_from
        FROM used ASOF LEFT JOIN '{run}/changes.parquet' AS changes ON used.setting = changes.setting
            AND used.seed = changes.seed AND used.sr = changes.sr AND used.refreshed_ms < changes.t_ms""",
    "served": """
        SELECT by_copy.*, stale_from, by_copy.t_ms < stale_from AS is_fresh, NOT known.warmup AS counts,
            chosen.sr IS NOT NULL AS chosen
        FROM by_copy JOIN copies USING (setting, seed, sr, refreshed_ms)
        JOIN '{run}/evaluations.parquet' AS known USING (setting, policy, seed, t_ms)
        LEFT JOIN (SELECT DISTINCT setting, policy, seed, t_ms, sr FROM '{run}/refreshes.parquet') AS chosen
            USING (setting, policy, seed, t_ms, sr)""",
}
"""Tables that are made on the way, one of the other."""
ASKED = {
    "truths": """
        SELECT setting, policy, seed, "case", t_ms AS moment, t_ms, sum(demand) AS held,
            sum(demand) FILTER (WHERE is_fresh) AS true_fresh FROM served GROUP BY ALL""",
    "not_chosen": """
        WITH usual AS (
            SELECT setting, policy, seed, t_ms, coalesce(avg(demand) FILTER (WHERE chosen), avg(demand)) AS usual
            FROM served GROUP BY ALL
        ), marked AS (
            SELECT *, counts AND NOT is_fresh AS stale, stale AND NOT chosen AND demand >= usual AS lost
            FROM served JOIN usual USING (setting, policy, seed, t_ms)
        )
        SELECT setting, policy, count(*) FILTER (WHERE stale) AS stale_entries, count(*) FILTER (WHERE lost) AS missed,
            coalesce(sum(demand) FILTER (WHERE stale), 0) AS stale_answers,
            coalesce(sum(demand) FILTER (WHERE lost), 0) AS missed_answers
        FROM marked GROUP BY ALL""",
    "served_entries": """
        SELECT setting, policy, seed, sr, sum(demand) AS answers,
            coalesce(sum(demand) FILTER (WHERE NOT is_fresh), 0) AS stale FROM served WHERE counts GROUP BY ALL""",
    "served_copies": "SELECT DISTINCT setting, policy, seed, sr, refreshed_ms FROM served",
    "served_edges": "SELECT DISTINCT setting, seed, sr, sn FROM '{run}/answers.parquet' WHERE sn IS NOT NULL",
    "stale_times": """
        WITH stale AS (SELECT * FROM served WHERE counts AND NOT is_fresh), exact AS (
            SELECT setting, policy, 'overdue' AS what, t_ms - stale_from AS ms, sum(demand) AS answers
            FROM stale GROUP BY ALL
            UNION ALL SELECT setting, policy, 'age', t_ms - refreshed_ms, sum(demand) FROM stale GROUP BY ALL
        )
        SELECT setting, policy, what,
            ms - ms % greatest(1, cast(floor(pow(2, length(bin(ms)) - 1) / {subs}) AS bigint)) AS ms,
            sum(answers) AS answers FROM exact GROUP BY ALL""",
}


class InSql(DuckDB):
    """Answers judged by SQL; the rest is the analysis as it is."""

    name = "SQL"

    def judged(self, run: str, judge: Judge) -> Iterator[Parts]:
        """All at once."""
        del judge
        words = {"run": run, "never": NEVER_STALE, "subs": SUBS}
        with duckdb.connect(config={"threads": 2, "memory_limit": "8GB"}) as connection:
            for name, query in STEPS.items():
                connection.execute(f"CREATE TABLE {name} AS {query.format(**words)}")
            found = {name: connection.sql(query.format(**words)).to_arrow_table() for name, query in ASKED.items()}
            yield {name: rows.select(schema(name).names).cast(schema(name)) for name, rows in found.items()}
