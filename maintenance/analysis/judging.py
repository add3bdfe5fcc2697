"""Answers judged by the truth: SQL on DuckDB over slices of time, in this process or in tasks of Spark.

A *copy* is what was fetched of an SR at one instant. It is fresh until the first change strictly after that instant,
so every copy has one end, and an answer at t is fresh iff t comes before it: "no change in (refreshed, t]". All else is
told by the copies that an evaluation served, each with its demand: the answers that were made of it. What comes out can
be added up, and a slice has whole evaluations, so slices can be judged wherever there is room.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from freshkeeper.maintenance.analysis.journal_tables import UNKNOWN, Database, Tables, name_parts, opened
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.journal.enricher_tables import write_tables

SLICE = 4_000_000
"""Answers that are judged at once, with some 200 bytes each; an evaluation that has more is a slice of its own."""
NEVER_STALE = 2**63 - 1
SUBS = 64
"""Ages are kept to one part in so many, so that memory does not grow with the answers."""
Slice = tuple[int, int]
"""The first and the last moment of its evaluations."""
Parts = dict[str, pa.Table]

TABLES = {
    "truths": ("setting policy seed case moment t_ms", "held true_fresh"),
    "served_entries": ("setting policy seed sr", "answers stale"),
    "served_copies": ("setting policy seed sr refreshed_ms", ""),
    "served_edges": ("setting seed sr sn", ""),
    "stale_times": ("setting policy what ms", "answers"),
    "not_chosen": ("setting policy", "stale_entries missed stale_answers missed_answers"),
}
"""What comes out: the columns that tell rows apart, and those that are added up. The headline needs `truths`."""
TEXTS = {"setting", "policy", "case", "sr", "sn", "what"}
"""Those that are texts; all others are whole numbers."""

CHANGES = "SELECT setting, seed, sr, t_ms FROM own_changes WHERE sr IS NOT NULL AND t_ms IS NOT NULL"
COUNTED = "SELECT setting, policy, seed, moment, NOT bool_and(warmup) AS counts FROM own_evaluations GROUP BY ALL"
CHOSEN = "SELECT DISTINCT setting, policy, seed, moment, coalesce(sr, '') AS sr FROM own_refreshes"

COPIES = f"""
    SELECT used.*,
        CASE WHEN refreshed_ms = {UNKNOWN} THEN {UNKNOWN} ELSE coalesce(changes.t_ms, {NEVER_STALE}) END AS stale_from
    FROM (SELECT DISTINCT setting, seed, sr, refreshed_ms FROM slice) AS used
    ASOF LEFT JOIN changes ON used.setting = changes.setting AND used.seed = changes.seed AND used.sr = changes.sr
        AND used.refreshed_ms < changes.t_ms"""
"""Each with its end: the first change after it was fetched; one at that very instant is not after it."""
TRUTHS = """
    WITH judged AS (
        SELECT slice.*, t_ms < stale_from AS fresh FROM slice JOIN copies USING (setting, seed, sr, refreshed_ms)
    ), made AS (
        SELECT setting, policy, seed, "case", moment, t_ms, weight, fresh FROM judged WHERE "case" != 'aggregate'
        UNION ALL SELECT setting, policy, seed, "case", moment, min(t_ms), max(weight), bool_and(fresh)
        FROM judged WHERE "case" = 'aggregate' GROUP BY setting, policy, seed, "case", moment, sn
    )
    SELECT setting, policy, seed, "case", moment, min(t_ms) AS t_ms, sum(weight) AS held,
        sum(if(fresh, weight, 0)) AS true_fresh
    FROM made GROUP BY ALL"""
"""Fresh and held answers of every evaluation: edge by edge, or aggregates, which have one for each mapping."""
SERVED = f"""
    WITH by_copy AS (
        SELECT setting, policy, seed, "case", moment, sr, refreshed_ms, min(t_ms) AS t_ms, sum(weight) AS demand
        FROM slice GROUP BY ALL
    )
    SELECT by_copy.*, t_ms < stale_from AS fresh, if(fresh, 0, demand) AS stale, chosen.sr IS NOT NULL AS chosen,
        coalesce(counted.counts, {{otherwise}}) AS counts,
        (counted.counts IS NOT NULL OR {{otherwise}}) AND refreshed_ms != {UNKNOWN} AS dated, stale_from
    FROM by_copy JOIN copies USING (setting, seed, sr, refreshed_ms)
    LEFT JOIN counted USING (setting, policy, seed, moment)
    LEFT JOIN chosen USING (setting, policy, seed, moment, sr)"""
"""Every copy that an evaluation served, its demand, and from when on it was stale."""
FROM_SERVED = {
    "served_entries": """
        SELECT setting, policy, seed, sr, sum(demand) AS answers, sum(stale) AS stale FROM served WHERE counts
        GROUP BY ALL""",
    "served_copies": "SELECT DISTINCT setting, policy, seed, sr, refreshed_ms FROM served WHERE dated",
    "served_edges": "SELECT DISTINCT setting, seed, sr, sn FROM slice WHERE sn IS NOT NULL",
    "stale_times": f"""
        WITH exact AS (
            SELECT setting, policy, demand, unnest(['overdue', 'age']) AS what,
                unnest([t_ms - stale_from, t_ms - refreshed_ms]) AS ms
            FROM served WHERE counts AND dated AND NOT fresh
        )
        SELECT setting, policy, what, sum(demand) AS answers,
            ms - ms % greatest(1, cast(pow(2, length(bin(ms)) - 1) AS bigint) // {SUBS}) AS ms
        FROM exact GROUP BY ALL""",
    "not_chosen": """
        WITH usual AS (
            SELECT setting, policy, seed, "case", moment,
                coalesce(avg(demand) FILTER (WHERE chosen), avg(demand)) AS usual
            FROM served WHERE counts GROUP BY ALL
        ), marked AS (
            SELECT served.*, NOT fresh AND NOT chosen AND demand >= usual AS lost
            FROM served JOIN usual USING (setting, policy, seed, "case", moment)
        )
        SELECT setting, policy, count(*) FILTER (WHERE NOT fresh) AS stale_entries,
            count(*) FILTER (WHERE lost) AS missed, sum(stale) AS stale_answers,
            sum(if(lost, demand, 0)) AS missed_answers
        FROM marked GROUP BY ALL""",
}
"""For how long the copies of stale answers had been stale (`overdue`) and how old they were (`age`), in ms that are
rounded down to a 64th of their octave. Not chosen are stale SRs that at least as many answers needed as the mean one
that was chosen; where nothing was chosen, or nothing that answers needed, as the mean of all SRs of the evaluation."""


@dataclass(frozen=True)
class Judge:
    """The changes that answers are judged by, and the queries; small enough for every executor."""

    parts: Sequence[Path]
    """Where answers are."""
    answers: str
    """SQL that makes answers of `raw_answers`."""
    tables: Mapping[str, pa.Table]
    """changes, evaluations and choices"""
    shared_queries: Mapping[str, str]
    """SQL of tables that several results need, in the order in which they are made"""
    result_queries: Mapping[str, str]

    def slices(self, most: int) -> list[Slice]:
        """Return slices: evaluations in the order of time, grouped up to so many answers."""
        with self._over() as database:
            return database.sql(f"""
                WITH placed AS (
                    SELECT moment, (sum(count(*)) OVER (ORDER BY moment) - count(*)) // {most} AS slice
                    FROM ({self.answers}) AS answers WHERE moment IS NOT NULL GROUP BY moment
                ) SELECT min(moment) AS first, max(moment) FROM placed GROUP BY slice ORDER BY first""").fetchall()

    def judged(self, slices: Iterable[Slice], threads: int | None = None) -> Iterator[Parts]:
        """Judge one slice after another; files in the order of time are read only where a slice lies."""
        with self._over(threads=threads) as database:
            for first, last in slices:
                yield self._judge_slice(database, f"WHERE moment BETWEEN {first} AND {last}")

    def judged_rows(self, rows: pa.Table) -> Parts:
        """Answers of whole evaluations that were brought together elsewhere."""
        with self._over(rows, 1) as database:
            return self._judge_slice(database)

    @contextmanager
    def _over(self, answers: pa.Table | None = None, threads: int | None = None) -> Iterator[Database]:
        with opened(threads) as database:
            for name, rows in self.tables.items():
                database.from_arrow(rows).create(name)
            if answers is None:
                name_parts(database, "answers", self.parts)
            else:
                database.from_arrow(answers).create("raw_answers")
            yield database

    def _judge_slice(self, database: Database, where: str = "") -> Parts:
        database.sql(f"SELECT * FROM ({self.answers}) AS answers {where}").create_view("slice")
        for name, query in self.shared_queries.items():
            database.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")
        parts = {}
        for name, query in self.result_queries.items():
            parts[name] = database.sql(query).to_arrow_table().select(schema(name).names).cast(schema(name))
        return parts


class DuckDB:
    """This process alone: no Java, no start-up time. Spark is an engine as well, and departs from this one."""

    name = "duckdb"
    failures: tuple[type[Exception], ...] = (duckdb.Error, pa.ArrowException)

    def near(self, run: str) -> Path:
        """Return a directory that this process can read, with the columns of answers if not their rows."""
        write_tables(Path(run))
        return Path(run)

    def judged(self, run: str, judge: Judge) -> Iterator[Parts]:
        """Judge all answers of a run, one slice after another, each on all cores."""
        del run
        return judge.judged(judge.slices(SLICE))

    def deliver(self, made: Path, path: str) -> None:
        """Put a finished directory where this process cannot."""
        del made
        raise ConfigError(f"{path}: DuckDB writes on this machine; --engine spark writes where a cluster does")

    def close(self) -> None:
        """Let go of what was kept."""


def judge(database: Database, tables: Tables, headline: bool) -> Judge:
    """Return the judge of a run whose answers can be judged."""
    of_run = {"changes": CHANGES} | ({} if headline else {"counted": COUNTED, "chosen": CHOSEN})
    known = {name: database.sql(query).to_arrow_table() for name, query in of_run.items()}
    kept, asked = {"copies": COPIES}, {"truths": TRUTHS}
    if not headline:
        kept["served"] = SERVED.format(otherwise="evaluations" not in tables.there)
        asked |= FROM_SERVED
    return Judge(tables.parts, tables.answers, known, kept, asked)


def schema(name: str) -> pa.Schema:
    """Return the schema of a result, whatever types the sums are added up in."""
    columns = " ".join(TABLES[name]).split()
    return pa.schema([(column, pa.string() if column in TEXTS else pa.int64()) for column in columns])


def added_up(database: Database, pieces: Iterable[Parts]) -> None:
    """Add up the results of all slices as tables of an analysis; memory holds the results of one slice at a time."""
    for name in TABLES:
        database.from_arrow(schema(name).empty_table()).create(name)
    for piece in pieces:
        for name, rows in piece.items():
            database.from_arrow(rows).insert_into(name)
    for name, (keys, sums) in TABLES.items():
        columns = [f'"{key}"' for key in keys.split()]
        columns += [f"sum({word})::bigint AS {word}" for word in sums.split()]
        database.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {', '.join(columns)} FROM {name} GROUP BY ALL")
