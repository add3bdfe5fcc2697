"""Answers judged by the truth: SQL on DuckDB over slices of time, in this process or in tasks of Spark.

A *copy* is what was fetched of an SR at one instant. It is fresh until the first change strictly after that instant,
so every copy has one end, and an answer at t is fresh iff t comes before it: "no change in (refreshed, t]". All else is
told by the copies that an evaluation served, each with its demand: the answers that were made of it. What comes out can
be added up, and a slice has whole evaluations, so slices can be judged wherever there is room.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from freshkeeper.maintenance.pipeline.analysis.journal_tables import Database, Tables, fitted, number, total

SLICE = 4_000_000
"""Answers that are judged at once, with some 200 bytes each; an evaluation that has more is a slice of its own."""
NEVER_STALE = 2**63 - 1
UNKNOWN = 1 - 2**63
"""When a copy was fetched of which nobody knows; it is never fresh."""
SUBS = 64
"""Ages are kept to one part in so many, so that memory does not grow with the answers."""
Slice = tuple[int, int]
"""The first and the last moment of its evaluations."""
Parts = dict[str, pa.Table]

TEXT, WHOLE = pa.string(), pa.int64()
RUN = {"setting": TEXT, "policy": TEXT, "seed": WHOLE}
TABLES: Mapping[str, tuple[Mapping[str, pa.DataType], Mapping[str, pa.DataType]]] = {
    "truths": ({**RUN, "case": TEXT, "moment": WHOLE, "t_ms": WHOLE}, {"held": WHOLE, "true_fresh": WHOLE}),
    "served_entries": ({**RUN, "sr": TEXT}, {"answers": WHOLE, "stale": WHOLE}),
    "served_copies": ({**RUN, "sr": TEXT, "refreshed_ms": WHOLE}, {}),
    "served_edges": ({"setting": TEXT, "seed": WHOLE, "sr": TEXT, "sn": TEXT}, {}),
    "stale_times": ({"setting": TEXT, "policy": TEXT, "what": TEXT, "ms": WHOLE}, {"answers": WHOLE}),
    "not_chosen": (
        {"setting": TEXT, "policy": TEXT},
        dict.fromkeys(("stale_entries", "missed", "stale_answers", "missed_answers"), WHOLE),
    ),
}
"""What comes out: the columns that tell rows apart, and those that are added up. The headline needs `truths`."""

CHANGES = "SELECT setting, seed, sr, t_ms FROM own_changes WHERE sr IS NOT NULL AND t_ms IS NOT NULL"
COUNTED = "SELECT setting, policy, seed, moment, NOT bool_and(warmup) AS counts FROM evaluations GROUP BY ALL"
CHOSEN = "SELECT DISTINCT setting, policy, seed, moment, coalesce(sr, '') AS sr FROM refreshes"
CASES = 'SELECT setting, policy, max("case") AS known_case FROM evaluations GROUP BY ALL'

WITH_CASES = """
    SELECT * EXCLUDE known_case REPLACE (coalesce(known_case, 'bgp') AS "case")
    FROM ({fitted}) AS own LEFT JOIN cases USING (setting, policy)"""
"""Answers of an older schema are of the case of their evaluations."""
COPIES = f"""
    SELECT used.*,
        CASE WHEN refreshed_ms = {UNKNOWN} THEN {UNKNOWN} ELSE coalesce(changes.t_ms, {NEVER_STALE}) END AS stale_from
    FROM (SELECT DISTINCT setting, seed, sr, refreshed_ms FROM slice) AS used
    ASOF LEFT JOIN changes ON {{same}} AND used.refreshed_ms < changes.t_ms"""
"""Each with its end: the first change after it was fetched; one at that very instant is not after it."""
TRUTHS = """
    WITH judged AS (SELECT slice.*, t_ms < stale_from AS fresh
        FROM slice JOIN copies USING (setting, seed, sr, refreshed_ms))
    SELECT setting, policy, seed, "case", moment, min(t_ms) AS t_ms, sum(weight) AS held,
        sum(CASE WHEN fresh THEN weight ELSE 0 END) AS true_fresh
    FROM judged WHERE NOT {whole} GROUP BY ALL
    UNION ALL SELECT setting, policy, seed, "case", moment, min(t_ms), sum(mappings),
        sum(CASE WHEN fresh THEN mappings ELSE 0 END)
    FROM (
        SELECT setting, policy, seed, "case", moment, sn, min(t_ms) AS t_ms, bool_and(fresh) AS fresh,
            max(weight) AS mappings
        FROM judged WHERE {whole} GROUP BY ALL
    ) GROUP BY ALL"""
"""Fresh and held answers of every evaluation: edge by edge, or aggregates, which have one for each mapping."""
BY_COPY = """
    SELECT setting, policy, seed, "case", moment, sr, refreshed_ms, min(t_ms) AS t_ms, sum(weight) AS demand
    FROM slice GROUP BY ALL"""
SERVED = f"""
    SELECT by_copy.*, stale_from, t_ms < stale_from AS fresh, coalesce(counted.counts, FALSE) AS counts,
        counted.counts IS NOT NULL AND refreshed_ms != {UNKNOWN} AS dated, chosen.sr IS NOT NULL AS chosen
    FROM by_copy JOIN copies USING (setting, seed, sr, refreshed_ms)
    LEFT JOIN counted USING (setting, policy, seed, moment)
    LEFT JOIN chosen USING (setting, policy, seed, moment, sr)"""
"""Every copy that an evaluation served, its demand, and from when on it was stale."""
FROM_SERVED = {
    "served_entries": f"""
        SELECT setting, policy, seed, sr, {total("demand")} AS answers,
            {total("CASE WHEN fresh THEN 0 ELSE demand END")} AS stale
        FROM served WHERE counts GROUP BY ALL""",
    "served_copies": "SELECT DISTINCT setting, policy, seed, sr, refreshed_ms FROM served WHERE dated",
    "served_edges": "SELECT DISTINCT setting, seed, sr, sn FROM slice WHERE sn IS NOT NULL",
    "stale_times": f"""
        WITH stale AS (SELECT * FROM served WHERE counts AND dated AND NOT fresh), exact AS (
            SELECT setting, policy, 'overdue' AS what, t_ms - stale_from AS ms, demand FROM stale
            UNION ALL SELECT setting, policy, 'age', t_ms - refreshed_ms, demand FROM stale
        )
        SELECT setting, policy, what, {total("demand")} AS answers,
            ms - ms % greatest(1, cast(pow(2, length(bin(ms)) - 1) AS bigint) // {SUBS}) AS ms
        FROM exact GROUP BY ALL""",
    "not_chosen": f"""
        WITH usual AS (
            SELECT setting, policy, seed, "case", moment,
                coalesce(avg(demand) FILTER (WHERE chosen), avg(demand)) AS usual
            FROM served GROUP BY ALL
        ), marked AS (
            SELECT served.*, NOT fresh AND NOT chosen AND demand >= usual AS lost
            FROM served JOIN usual USING (setting, policy, seed, "case", moment) WHERE counts
        )
        SELECT setting, policy, {number("NOT fresh")} AS stale_entries, {number("lost")} AS missed,
            {total("CASE WHEN fresh THEN 0 ELSE demand END")} AS stale_answers,
            {total("CASE WHEN lost THEN demand ELSE 0 END")} AS missed_answers
        FROM marked GROUP BY ALL""",
}
"""For how long the copies of stale answers had been stale (`overdue`) and how old they were (`age`), in ms that are
rounded down to a 64th of their octave. Not chosen are stale SRs that at least as many answers needed as the mean one
that was chosen; where nothing was chosen, or nothing that answers needed, as the mean of all SRs of the evaluation."""


@dataclass(frozen=True)
class Judge:
    """What answers are judged by, and what is asked of them; small enough for every executor."""

    answers: str
    """SQL that makes answers of `raw_answers`."""
    moment: str
    """The column of these that evaluations differ by."""
    copies: str
    truths: str
    known: Mapping[str, pa.Table]
    headline: bool

    def slices(self, files: Sequence[Path], most: int) -> list[Slice]:
        """Evaluations in the order of time, taken together up to so many answers."""
        with self._over(files) as database:
            rows = database.rows(f"""
                WITH placed AS (
                    SELECT moment, (sum(count(*)) OVER (ORDER BY moment) - count(*)) // {most} AS slice
                    FROM ({self.answers}) AS answers WHERE moment IS NOT NULL GROUP BY moment
                ) SELECT min(moment) AS first, max(moment) AS last FROM placed GROUP BY slice ORDER BY first""")
        return [(row["first"], row["last"]) for row in rows]

    def judged(self, files: Sequence[Path], slices: Iterable[Slice], threads: int | None = None) -> Iterator[Parts]:
        """One slice after another; what is not theirs is hardly read where files are in the order of time."""
        with self._over(files, threads) as database:
            for first, last in slices:
                yield self._parts(database, f"WHERE moment BETWEEN {first} AND {last}")

    def judged_rows(self, rows: pa.Table) -> Parts:
        """Answers of whole evaluations that were brought together elsewhere."""
        with self._over(rows, 1) as database:
            return self._parts(database)

    @contextmanager
    def _over(self, answers: Sequence[Path] | pa.Table, threads: int | None = None) -> Iterator[Database]:
        with closing(Database(threads)) as database:
            for name, rows in self.known.items():
                database.take(name, rows)
            if isinstance(answers, pa.Table):
                database.take("raw_answers", answers)
            else:
                database.parquet("raw_answers", answers)
            yield database

    def _parts(self, database: Database, where: str = "") -> Parts:
        database.view("slice", f"SELECT * FROM ({self.answers}) AS answers {where}")
        database.keep("copies", self.copies)
        asked = {"truths": self.truths}
        if not self.headline:
            if "counted" not in self.known:
                every = "SELECT DISTINCT setting, policy, seed, moment, TRUE AS counts FROM slice"
                database.keep("counted", every)
            database.keep("by_copy", BY_COPY)
            database.keep("served", SERVED)
            asked |= FROM_SERVED
        return {name: database.columns(query).select(list(_schema(name).names)).cast(_schema(name))
                for name, query in asked.items()}  # fmt: skip


def judge(database: Database, tables: Tables, headline: bool) -> Judge:
    """By the changes, evaluations and choices of a run in which answers can be judged."""
    asked, caseless = {"changes": CHANGES}, "case" not in tables.answers and "evaluations" in tables.there
    if caseless:
        asked["cases"] = CASES
    if not headline:
        asked |= {"chosen": CHOSEN} | ({"counted": COUNTED} if "evaluations" in tables.there else {})
    known = {name: database.columns(query) for name, query in asked.items()}
    names = [name for name in ("setting", "seed", "sr") if name not in tables.unnamed]
    copies = COPIES.format(same=" AND ".join(f"used.{name} = changes.{name}" for name in names))
    whole = "\"case\" = 'aggregate'" if "sn" in tables.answers else "FALSE"
    columns = f"* REPLACE (coalesce(refreshed_ms, {UNKNOWN}) AS refreshed_ms), {tables.moment} AS moment"
    answers = f"SELECT {columns} FROM ({fitted('answers', tables.answers)}) AS fitted"
    if caseless:
        answers = WITH_CASES.format(fitted=answers)
    return Judge(answers, tables.moment, copies, TRUTHS.format(whole=whole), known, headline)


def _schema(name: str) -> pa.Schema:
    keys, sums = TABLES[name]
    return pa.schema({**keys, **sums})


def added_up(database: Database, pieces: Iterable[Parts], headline: bool) -> None:
    """What several slices give, added up, as tables of an analysis; memory holds one slice's at a time."""
    asked = ["truths"] if headline else list(TABLES)
    for name in asked:
        database.take(f"each_{name}", _schema(name).empty_table())
    for piece in pieces:
        for name in asked:
            database.add(f"each_{name}", piece[name])
    for name in asked:
        keys, sums = TABLES[name]
        added = "".join(f", {total(column)} AS {column}" for column in sums)
        named = ", ".join(f'"{key}"' for key in keys)
        database.keep(name, f"SELECT {named}{added} FROM each_{name} GROUP BY ALL")
        database.execute(f"DROP TABLE each_{name}")
