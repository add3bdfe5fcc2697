"""How fast a run is analysed, in this process and on Spark, beside the same questions as SQL for DuckDB, all at once,
and beside the headline alone as one would write it by hand; each in a process of its own, with the most memory it had.

Asked for: the whole analysis of 20 million answers within 25 s and of 100 million within 100 s (`--millions 20 100`) on
two cores, and the headline within 3 times the one by hand. The tables are made up, written to a temporary directory and
removed; all numbers must agree: what was reported when the tables were made, and whatever any of them finds.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from answers_in_sql import InSql
from pyarrow import parquet
from stopwatch import ratios, show

from freshkeeper.maintenance.analysis.analysis import analyse, headline_alone
from freshkeeper.maintenance.analysis.engine_choice import chosen
from freshkeeper.maintenance.analysis.judging import DuckDB
from freshkeeper.maintenance.analysis.spark_session import spark_session
from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.journal import journal

PER_EVALUATION = 20_000
"""Answers of one evaluation; more rows are more evaluations."""
SNS, SRS, EDGES, REFRESHES, STEP_MS = 5_000, 10_000, 100_000, 200, 1000
CHUNK = 50
"""Evaluations that are made and written at once."""
BYTES_PER_ROW = 8
MOST_IN_SQL = 20
"""Millions of answers; for more it takes minutes."""
TOLD = "told.json"
"""What the first analysis of a run told, in the run."""
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
    """Seconds by the clock and of processor time in a process, the most memory that it had, and that of its JVM."""

    seconds: float
    busy: float
    peak_gb: float
    java_gb: float = 0.0


def whole_analysis(engine: DuckDB, run: Path) -> float:
    """Every table, written; equal to what was found before."""
    digest = analyse(engine, str(run))
    told = {name: rows for name, rows in digest.items() if isinstance(rows, list) and name != "cannot_tell"}
    found = run / TOLD
    if not found.exists():
        found.write_text(json.dumps(told))
    before = json.loads(found.read_text())
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


def headline(run: Path) -> float:
    """The headline as `freshkeeper analyse --headline` tells it."""
    return float(headline_alone(DuckDB(), str(run))["freshness"][0]["freshness"])


STEPS: dict[str, Callable[[Path], float]] = {
    "headline by hand on DuckDB": by_hand,
    "headline alone, in this process": headline,
    "all questions in SQL on DuckDB": lambda run: whole_analysis(InSql(), run),
    "whole analysis, in this process": lambda run: whole_analysis(chosen(str(run), "duckdb")[0], run),
    "whole analysis, on Spark": lambda run: whole_analysis(chosen(str(run), "spark")[0], run),
}
BY_HAND, _, IN_SQL, _, ON_SPARK = STEPS


def peak_gb(process: object) -> float:
    """The most memory that a process had, heap and all else."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024**2


def step(name: str, small: Path, run: Path, memory: str) -> tuple[float, Cost]:
    """What it finds, and at what cost, in this process, which has done it with a small run before."""
    spark = spark_session("local[2]", {"spark.driver.memory": memory}) if name == ON_SPARK else None
    STEPS[name](small)
    Path("/proc/self/clear_refs").write_text("5")  # from here on the most memory is counted anew
    began, busy = time.perf_counter(), time.process_time()
    found = STEPS[name](run)
    cost = Cost(time.perf_counter() - began, time.process_time() - busy, peak_gb("self"))
    if spark is not None:
        ((java,),) = spark.sql("SELECT java_method('java.lang.ProcessHandle', 'current')").collect()
        cost = replace(cost, java_gb=peak_gb(java))
        spark.stop()
    return found, cost


def in_a_process(name: str, small: Path, run: Path, memory: str) -> tuple[float, Cost]:
    """A step in a process of its own, so that its memory is nobody else's."""
    command = [sys.executable, __file__, "--step", name, str(small), str(run), "--memory", memory]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found, cost = json.loads(said.splitlines()[-1])
    return found, Cost(**cost)


def made(place: Path, millions: float) -> tuple[Path, float]:
    """The tables of so many million answers, and how fresh these are."""
    run, rows = place / f"{millions:g}", int(millions * 1e6)
    if shutil.disk_usage(place).free < 5 * BYTES_PER_ROW * rows:
        sys.exit(f"{place} has no room for {rows:,} answers")
    Made(rows // PER_EVALUATION).write(run)
    told = journal.read(run, "evaluations")
    assert told is not None
    counted = ~told["warmup"].to_numpy()
    return run, float((told["fresh"].to_numpy() / told["results"].to_numpy())[counted].mean())


def report(sizes: list[float], steps: list[str], memory: str) -> None:
    """A table, a row per size and step, and ratios."""
    rows, named = [], {}
    taken: dict[str, dict[float, float]] = {}
    with tempfile.TemporaryDirectory(prefix="freshkeeper-") as place:
        small, _ = made(Path(place), 0.2)
        for millions in sizes:
            run, truth = made(Path(place), millions)
            for name in steps if millions <= MOST_IN_SQL else [name for name in steps if name != IN_SQL]:
                found, cost = in_a_process(name, small, run, memory)
                assert abs(found - truth) < 1e-9, f"{name} says {found}, the tables were made with {truth}"
                taken.setdefault(name, {})[millions] = cost.seconds
                java = f"{cost.java_gb:.1f} GB" if cost.java_gb else ""
                figures = [f"{cost.seconds:.1f} s", f"{cost.busy:.1f} s", f"{cost.peak_gb:.2f} GB", java]
                rows.append([f"{name}, {millions:g} M answers", *figures])
            shutil.rmtree(run)
    for name, by_size in taken.items():
        key = name.lower().replace(", ", "_").replace(" ", "_")
        named[f"{key}_growth"] = by_size[max(by_size)] / by_size[min(by_size)]
        for beside, word in ((BY_HAND, "headline_by_hand"), (IN_SQL, "sql")):
            both = [millions for millions in by_size if name != beside and millions in taken.get(beside, {})]
            for millions in both:
                named[f"{key}_over_{word}_{millions:g}_m"] = by_size[millions] / taken[beside][millions]
    show(
        f"Freshness analysis, growth from {sizes[0]:g} M to {sizes[-1]:g} M answers",
        ["", "by the clock", "processor", "memory at most", "of its JVM"],
        rows,
    )
    ratios(named)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, nargs="+", default=[2, 10], help="how many answers, in millions")
    parser.add_argument("--only", nargs="+", default=list(STEPS), choices=list(STEPS), metavar="STEP")
    parser.add_argument("--memory", default="2g", help="the heap of Spark's driver")
    parser.add_argument("--step", nargs=3, metavar=("STEP", "SMALL", "RUN"), help="this alone, of runs that are made")
    asked = parser.parse_args()
    if asked.step:
        what, small, large = asked.step
        found, cost = step(what, Path(small), Path(large), asked.memory)
        print(json.dumps([found, asdict(cost)]))
    else:
        report(asked.millions, asked.only, asked.memory)
