"""How fast a run is analysed, in this process and on Spark, beside the same questions as SQL for DuckDB, all at once,
and beside the headline alone as one would write it by hand.

Asked for: the whole analysis of 20 million answers within 25 s and of 100 million within 100 s (`--millions 20 100`) on
two cores, and the headline within 3 times the one by hand. The tables are made up, written to a temporary directory and
removed; all numbers must agree: what was reported when the tables were made, and whatever any of them finds.
"""

import argparse
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from answers_in_sql import InSql
from pyarrow import parquet
from stopwatch import ratios, show

from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.pipeline.analysis import analyse, chosen, headline_alone
from freshkeeper.maintenance.pipeline.analysis.duckdb_engine import DuckDB
from freshkeeper.maintenance.pipeline.spark_session import spark_session
from freshkeeper.policies.arrays import Ints

PER_EVALUATION = 20_000
"""Answers of one evaluation; more rows are more evaluations."""
SNS, SRS, EDGES, REFRESHES, STEP_MS = 5_000, 10_000, 100_000, 200, 1000
CHUNK = 50
"""Evaluations that are made and written at once."""
BYTES_PER_ROW = 8
MOST_IN_SQL = 20
"""Millions of answers; for more it takes minutes."""
BY_HAND, IN_SQL = "headline by hand on DuckDB", "all questions in SQL on DuckDB"
ALONE = "headline alone, in this process"
NAMES = {"duckdb": "whole analysis, in this process", "spark": "whole analysis, on Spark"}
FOUND: dict[Path, dict[str, list[dict[str, object]]]] = {}
"""What the first analysis of a run told."""
HEADLINE = """
    WITH used AS (SELECT DISTINCT sr, refreshed_ms FROM '{run}/answers.parquet'),
    copies AS (SELECT used.sr, used.refreshed_ms, changes.t_ms AS stale_from
        FROM used ASOF LEFT JOIN '{run}/changes.parquet' AS changes
        ON used.sr = changes.sr AND used.refreshed_ms < changes.t_ms),
    truth AS (SELECT answers.t_ms, sum(CASE WHEN stale_from <= answers.t_ms THEN 0 ELSE weight END) AS fresh
        FROM '{run}/answers.parquet' AS answers JOIN copies USING (sr, refreshed_ms) GROUP BY answers.t_ms)
    SELECT avg(truth.fresh / results) FROM '{run}/evaluations.parquet' JOIN truth USING (t_ms) WHERE NOT warmup
"""


class Made:
    """A journal of one policy: edges in turn, SRs refreshed round about, each with a change interval of its own."""

    def __init__(self, evaluations: int) -> None:
        """So many evaluations; every other number is the same for all sizes."""
        rng = np.random.default_rng(0)
        self.evaluations = evaluations
        popular = SRS * rng.power(2.5, EDGES)
        self.edges = np.stack([rng.integers(0, SNS, EDGES), SRS - 1 - popular.astype(np.int64)])
        self.interval = rng.integers(5_000, 120_000, SRS)
        self.phase = rng.integers(0, self.interval)
        self.labels = {name: pa.array([f"http://example.org/{name}/{n}" for n in range(most)])
                       for name, most in (("sn", SNS), ("sr", SRS))}  # fmt: skip
        self.weight = rng.integers(1, 4, EDGES)

    def write(self, run: Path) -> None:
        """All tables that an analysis reads."""
        run.mkdir()
        results, fresh = [], []
        with parquet.ParquetWriter(run / "answers.parquet", journal.SCHEMAS["answers"], compression="zstd") as writer:
            for first in range(1, self.evaluations + 1, CHUNK):
                k = np.arange(first, min(first + CHUNK, self.evaluations + 1))
                table, good = self.answers(k)
                writer.write_table(table)
                weight = table["weight"].to_numpy()
                results.append(weight.reshape(k.size, -1).sum(axis=1))
                fresh.append((weight * good).reshape(k.size, -1).sum(axis=1))
        journal.write(run, "evaluations", [self.evaluated(np.concatenate(results), np.concatenate(fresh))])
        journal.write(run, "refreshes", [self.refreshed()])
        journal.write(run, "changes", [self.changes()])

    def answers(self, k: Ints) -> tuple[pa.Table, Ints]:
        """The answers of some evaluations, and which are fresh."""
        rows = (k[:, None] * (PER_EVALUATION // 3) + np.arange(PER_EVALUATION)).ravel() % EDGES
        number, (sn, sr) = np.repeat(k, PER_EVALUATION), self.edges[:, rows]
        every = SRS // REFRESHES
        refreshed = np.maximum(0, number - (number + sr) % every) * STEP_MS
        now = number * STEP_MS
        last_change = now - (now - self.phase[sr]) % self.interval[sr]
        table = self.table("answers", number, {
            "sn": self.labels["sn"].take(pa.array(sn)), "sr": self.labels["sr"].take(pa.array(sr)),
            "weight": self.weight[rows], "refreshed_ms": refreshed,
        })  # fmt: skip
        return table, last_change <= refreshed

    def evaluated(self, results: Ints, fresh: Ints) -> pa.Table:
        """The evaluations with the true number of fresh answers."""
        k = np.arange(1, self.evaluations + 1)
        known = {"results": results, "fresh": fresh, "expected_fresh": 0.9 * fresh, "warmup": k <= k.size // 10}
        spent = {"budget": np.full(k.size, REFRESHES), "spent": np.full(k.size, REFRESHES)}
        return self.table("evaluations", k, known | spent | {"decide_us": np.full(k.size, 100.0)})

    def refreshed(self) -> pa.Table:
        """Every SR once in a round."""
        every = SRS // REFRESHES
        k = np.repeat(np.arange(1, self.evaluations + 1), REFRESHES)
        sr = (-k) % every + every * np.tile(np.arange(REFRESHES), self.evaluations)
        none = np.zeros(k.size, bool)
        return self.table("refreshes", k, {"sr": self.labels["sr"].take(pa.array(sr)), "changed": ~none, "late": none})

    def changes(self) -> pa.Table:
        """All changes from the beginning to the end."""
        end = self.evaluations * STEP_MS
        number = (end - self.phase) // self.interval + 1
        sr = np.repeat(np.arange(SRS), number)
        nth = np.arange(sr.size) - np.repeat(np.cumsum(number) - number, number)
        times = self.phase[sr] + nth * self.interval[sr]
        whose = {"setting": pa.repeat("", sr.size), "seed": np.zeros(sr.size, np.int64)}
        columns = {**whose, "sr": self.labels["sr"].take(pa.array(sr)), "t_ms": times}
        return pa.table(columns, schema=journal.SCHEMAS["changes"])

    @staticmethod
    def table(name: str, k: Ints, columns: dict[str, Any]) -> pa.Table:
        """A table of the journal; what it does not say is null."""
        schema, rows = journal.SCHEMAS[name], k.size
        words = {"setting": "", "policy": "lru", "case": "bgp", "knowledge": "learned"}
        whose = {word: pa.repeat(text, rows) for word, text in words.items()}
        known: dict[str, Any] = {**whose, "seed": np.zeros(rows, np.int64), "k": k, "t_ms": k * STEP_MS, **columns}
        arrays = [pa.array(known[part.name], part.type) if part.name in known else pa.nulls(rows, part.type)
                  for part in schema]  # fmt: skip
        return pa.Table.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock and of processor time in this process, and the most memory that it had meanwhile."""

    seconds: float
    busy: float
    peak_gb: float


def timed(run: Callable[[], float]) -> tuple[float, Cost]:
    """What it gives, and at what cost."""
    Path("/proc/self/clear_refs").write_text("5")  # from here on the most memory is counted anew
    began, busy = time.perf_counter(), time.process_time()
    return run(), Cost(time.perf_counter() - began, time.process_time() - busy, peak_gb("self"))


def whole_analysis(engine: DuckDB, run: Path) -> float:
    """Every table, written; equal to what was found before."""
    digest = analyse(engine, str(run))
    told = {name: rows for name, rows in digest.items() if isinstance(rows, list) and name != "cannot_tell"}
    before = FOUND.setdefault(run, told)
    for name, rows in told.items():
        for row, other in zip(rows, before[name], strict=True):
            assert all(_equal(value, other[column]) for column, value in row.items()), f"{name}: {row} and {other}"
    return float(digest["freshness"][0]["freshness"])


def _equal(one: object, other: object) -> bool:
    return one == other or (isinstance(one, float) and isinstance(other, float) and math.isclose(one, other))


def by_hand(run: Path) -> float:
    """The headline alone, by the same plan: copies first, then an equi-join."""
    with duckdb.connect(config={"threads": 2, "memory_limit": "8GB"}) as connection:
        found = connection.execute(HEADLINE.format(run=run)).fetchone()
    assert found is not None
    return float(found[0])


def peak_gb(process: str) -> float:
    """The most memory that a process had, heap and all else."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024**2


def measured(engines: list[str], place: Path, millions: float) -> Iterator[tuple[str, Cost]]:
    """The cost of what was done, for so many million answers."""
    run = place / f"{millions:g}"
    rows = int(millions * 1e6)
    if shutil.disk_usage(place).free < 5 * BYTES_PER_ROW * rows:
        sys.exit(f"{place} has no room for {rows:,} answers")
    Made(rows // PER_EVALUATION).write(run)
    told = journal.read(run, "evaluations")
    assert told is not None
    counted = ~told["warmup"].to_numpy()
    truth = float((told["fresh"].to_numpy() / told["results"].to_numpy())[counted].mean())
    for name, what in _things(engines, run, millions):
        found, cost = timed(what)
        assert abs(found - truth) < 1e-9, f"{name} says {found}, the tables were made with {truth}"
        yield name, cost
    shutil.rmtree(run)


def chosen_analysis(name: str, run: Path) -> float:
    """Seconds of the analysis on an engine by its name."""
    return whole_analysis(chosen(str(run), name)[0], run)


def _things(engines: list[str], run: Path, millions: float) -> Iterator[tuple[str, Callable[[], float]]]:
    yield BY_HAND, partial(by_hand, run)
    yield ALONE, lambda: float(headline_alone(DuckDB(), str(run))["freshness"][0]["freshness"])
    if millions <= MOST_IN_SQL:
        yield IN_SQL, lambda: whole_analysis(InSql(), run)
    for name in engines:
        yield NAMES[name], partial(chosen_analysis, name, run)


def report(sizes: list[float], engines: list[str], memory: str) -> None:
    """A table, a row per size and measure, and ratios."""
    spark = spark_session("local[2]", {"spark.driver.memory": memory}) if "spark" in engines else None
    rows, named = [], {}
    taken: dict[str, dict[float, float]] = {}
    with tempfile.TemporaryDirectory(prefix="freshkeeper-") as place:
        list(measured(engines, Path(place), 0.2))  # the JVM has to get warm
        for millions in sizes:
            for name, cost in measured(engines, Path(place), millions):
                taken.setdefault(name, {})[millions] = cost.seconds
                figures = [f"{cost.seconds:.1f} s", f"{cost.busy:.1f} s", f"{cost.peak_gb:.1f} GB"]
                rows.append([f"{name}, {millions:g} M answers", *figures])
    if spark is not None:
        ((java,),) = spark.sql("SELECT java_method('java.lang.ProcessHandle', 'current')").collect()
        rows.append(["most memory of the JVM", "", "", f"{peak_gb(java):.1f} GB"])
        spark.stop()
    for name, by_size in taken.items():
        key = name.lower().replace(", ", "_").replace(" ", "_")
        named[f"{key}_growth"] = by_size[max(by_size)] / by_size[min(by_size)]
        for beside, word in ((BY_HAND, "headline_by_hand"), (IN_SQL, "sql")):
            both = [millions for millions in by_size if name != beside and millions in taken.get(beside, {})]
            for millions in both:
                named[f"{key}_over_{word}_{millions:g}_m"] = by_size[millions] / taken[beside][millions]
    show(
        f"Freshness analysis, growth from {sizes[0]:g} M to {sizes[-1]:g} M answers",
        ["", "by the clock", "processor, here", "memory, here"],
        rows,
    )
    ratios(named)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, nargs="+", default=[2, 10], help="how many answers, in millions")
    parser.add_argument("--engines", nargs="+", default=["duckdb", "spark"], choices=["duckdb", "spark"])
    parser.add_argument("--memory", default="2g", help="the heap of Spark's driver")
    asked = parser.parse_args()
    report(asked.millions, asked.engines, asked.memory)
