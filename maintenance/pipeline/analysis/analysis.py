"""A whole analysis: every table as Parquet, one JSON with all that is small, and in words what cannot be told."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from freshkeeper.maintenance.files import whole_directory
from freshkeeper.maintenance.pipeline.analysis import (
    audit_analysis,
    entries,
    journal_tables,
    on_spark,
    over_evaluations,
    refresh_analysis,
)
from freshkeeper.maintenance.pipeline.analysis.journal_tables import SPARK_FAILED, AnalysisError, Tables, located
from freshkeeper.maintenance.pipeline.spark_session import first_words
from freshkeeper.policies.errors import ConfigError

DIGEST = "analysis.json"
LARGE = ("over_time", "evaluations")
"""Tables that grow with the run: Parquet alone holds them."""
PER_EVALUATION = ["seed", "k", "t_ms", "warmup", "results", "fresh", "freshness", "basis", "reported", "expected_fresh"]
CLOSE = 1e-9


class Analysis:
    """What can be told of a run: named tables, computed when they are written or collected."""

    def __init__(self, found: Tables, target: float = 0.95, top: int = 20) -> None:
        """Judge every answer; `target` is a freshness to be met, `top` how many stale entries are named."""
        self.found, self.target, self.top = found, target, top
        self.notes = list(found.notes)
        self._kept = ExitStack()
        if found.evaluations is None and (found.answers is None or found.changes is None):
            raise AnalysisError("there are answers, but neither evaluations nor changes: nothing can be told of them")
        self.by_copy, judged = self._judge(found.answers, found.changes)
        self.evaluated = self.kept(on_spark.evaluated(judged, found.evaluations, found.aggregates))
        seeds = on_spark.by_seed(self.evaluated, target)
        self.audited = None if found.audits is None else self.kept(audit_analysis.audited(found.audits, self.evaluated))
        self.by_seed = self.kept(seeds if self.audited is None else audit_analysis.stand_in(seeds, self.audited))

    def tables(self) -> Iterator[tuple[str, DataFrame]]:
        """Every table that there can be, by name."""
        yield from self._evaluations()
        served = None
        if self.by_copy is not None:
            served = self.kept(entries.served(self.by_copy, self.evaluated), StorageLevel.DISK_ONLY)
            yield from self._entries(served)
        if self.found.refreshes is not None:
            yield from self._refreshes(self.found.refreshes, served)

    def close(self) -> None:
        """Let go of what was kept in memory or on disk."""
        self._kept.close()

    def _evaluations(self) -> Iterator[tuple[str, DataFrame]]:
        most = self.by_seed.select("seed").distinct().count()
        order = on_spark.SERIES
        yield "freshness", _ordered(on_spark.headline(self.by_seed, most), *order)
        yield "seeds", _ordered(self.by_seed, *order, "seed")
        yield "evaluations", self.evaluated.select(*on_spark.SERIES, *PER_EVALUATION)
        yield "over_time", over_evaluations.over_time(self.evaluated)
        calibration = over_evaluations.calibration(self.evaluated)
        if self.audited is not None:
            calibration = calibration.unionByName(audit_analysis.calibration(self.audited))
        yield "calibration", _ordered(calibration, *order, "basis", "tenth")
        if self.audited is not None:
            yield "audits", _ordered(audit_analysis.shares(self.audited), *order)
        if self.found.evaluations is not None:
            yield "budget", _ordered(over_evaluations.budget_use(self.found.evaluations, self._budgets()), *order)
            split = over_evaluations.latency(self.found.evaluations, self.found.refreshes)
            yield "latency", _ordered(split, "setting", "policy", "part")

    def _budgets(self) -> dict[str, float]:
        """γ by setting; with no word of it what was paid in cannot be told."""
        found = {name: about.budget for name, about in self.found.settings.items() if about.budget is not None}
        if not found:
            self.notes.append(
                "There is no run.json that says what was paid in, so the use of the budget cannot be told."
            )
        return found

    def _judge(self, answers: DataFrame | None, changes: DataFrame | None) -> tuple[DataFrame | None, DataFrame | None]:
        """Answers judged, together by copy, and as the headline counts them: aggregates with their SN.

        What every table needs of the answers is read once; they themselves are read again for aggregates and degrees.
        """
        if answers is None or changes is None:
            return None, None
        together = self.kept(entries.by_copy(answers), StorageLevel.DISK_ONLY)
        copies = self.kept(on_spark.copies(together, changes))
        rows = copies.count()
        by_copy = on_spark.judged(together, copies, rows)
        plain = by_copy.filter("case != 'aggregate'").withColumn("sn", F.lit(None).cast("string"))
        if not self.found.aggregates:
            return by_copy, by_copy
        whole = on_spark.judged(answers.filter("case = 'aggregate'"), copies, rows)
        return by_copy, plain.unionByName(whole.select(plain.columns))

    def _entries(self, served: DataFrame) -> Iterator[tuple[str, DataFrame]]:
        answers, changes = self.found.answers, self.found.changes
        assert answers is not None
        assert changes is not None
        by_sr = self.kept(entries.by_sr(served))
        degrees = self.kept(entries.degrees(answers))
        changed = self.kept(entries.changed(by_sr, changes))
        self._say_unchanged(changed)
        order = ("setting", "policy", "decile")
        yield "by_degree", _ordered(entries.by_decile(by_sr, degrees, "degree"), *order)
        yield "by_change_rate", _ordered(entries.by_decile(by_sr, changed, "changes"), *order)
        yield "top_stale", _ordered(entries.top_stale(by_sr, degrees, changed, self.top), "setting", "policy", "rank")
        ages = self.kept(entries.staleness(served))
        yield "staleness", _ordered(entries.octaves(ages), "setting", "policy", "what", "from_ms")
        yield "staleness_quantiles", _ordered(entries.staleness_quantiles(ages), "setting", "policy", "what")

    def _refreshes(self, found: DataFrame, served: DataFrame | None) -> Iterator[tuple[str, DataFrame]]:
        counting = self.kept(refresh_analysis.counting(found, self.evaluated))
        yield "wasted", _ordered(refresh_analysis.wasted(counting, served, self.found.changes), "setting", "policy")
        if served is not None:
            yield "missed", _ordered(refresh_analysis.missed(served, counting), "setting", "policy")

    def _say_unchanged(self, changed: DataFrame) -> None:
        row = changed.agg(F.count("*").alias("all"), F.count_if(F.col("changes") == 0).alias("none")).first()
        if row is not None and row["none"]:
            self.notes.append(
                f"Of {row['all']} entries {row['none']} have no change in changes.parquet; their copies count as fresh."
            )

    def kept(self, table: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK_DESER) -> DataFrame:
        """The table, computed once however often it is used."""
        self._kept.callback(table.unpersist)
        return table.persist(level)


@contextmanager
def analysed(spark: SparkSession, run: str, target: float = 0.95, top: int = 20) -> Iterator[Analysis]:
    """The analysis of a run, for those who want its tables and not its files."""
    if not 0 <= target <= 1:
        raise ConfigError(f"the target is {target:g}; right would be a freshness from 0 to 1")
    try:
        analysis = Analysis(journal_tables.read(spark, run), target, top)
        try:
            yield analysis
        finally:
            analysis.close()
    except SPARK_FAILED as error:
        raise AnalysisError(f"{run} could not be analysed: {first_words(error)}") from error


def analyse(
    spark: SparkSession, run: str, out: str | None = None, target: float = 0.95, top: int = 20
) -> dict[str, Any]:
    """Analyse a run; write tables and analysis.json into `out` (default: analysis in the run), return the latter."""
    place = located(out or f"{run}/analysis")
    _check(place)
    with analysed(spark, run, target, top) as analysis, _unfinished(place) as unfinished:
        digest: dict[str, Any] = {"run": run, "target": target}
        for name, table in analysis.tables():
            if name not in LARGE:
                digest[name] = [row.asDict() for row in analysis.kept(table).collect()]
            table.write.mode("overwrite").parquet(f"{unfinished}/{name}.parquet")
        digest["cannot_tell"] = analysis.notes + _remarks(digest)
        _write(spark, f"{unfinished}/{DIGEST}", json.dumps(digest, indent=1))
    return digest


def _ordered(table: DataFrame, *by: str) -> DataFrame:
    """A small table in one file, sorted without the sampling that `orderBy` does first."""
    return table.coalesce(1).sortWithinPartitions(*by)


def _remarks(digest: dict[str, Any]) -> list[str]:
    """What a reader of the headline has to know."""
    rows = digest["freshness"]
    audited = {tuple(row[word] for word in on_spark.SERIES): row for row in digest.get("audits", ())}
    said = [] if rows else ["No evaluation that counts has answers, so there is no freshness."]
    untrue: dict[str, list[str]] = {}
    for row in rows:
        whose = " ".join(word for word in (row["setting"], row["policy"]) if word) or "the run"
        if row["basis"] == "audited":
            share = audited[tuple(row[word] for word in on_spark.SERIES)]
            said.append(
                f"The freshness of {whose} is an estimate from {share['audits']} audited answers: with 95 % confidence "
                f"between {share['low']:.4f} and {share['high']:.4f}."
            )
        elif row["basis"] != "truth":
            untrue.setdefault(row["basis"], []).append(whose)
        elif row["reported"] is not None and abs(row["reported"] - row["freshness"]) > CLOSE:
            said.append(f"The engine reported {row['reported']:.4f} for {whose}; the truth is {row['freshness']:.4f}.")
    for basis, all_of in untrue.items():
        whose = all_of[0] if len(all_of) == 1 else f"{len(all_of)} of {len(rows)} settings and policies"
        said.append(f"The freshness of {whose} is not the truth but what was {basis} by the engine.")
    return said


def _check(place: str) -> None:
    """An analysis replaces an earlier one and nothing else."""
    path = Path(place)
    if "://" in place or not path.exists() or (path / DIGEST).exists():
        return
    if not path.is_dir() or any(path.iterdir()):
        raise ConfigError(f"{place} holds something that is no analysis; name another directory (--out)")


@contextmanager
def _unfinished(place: str) -> Iterator[str]:
    """Where to write, so that a reader sees a whole analysis or none; on a cluster's file system in place."""
    if "://" in place:
        yield place
        return
    with whole_directory(Path(place)) as part:
        yield str(part)


def _write(spark: SparkSession, place: str, text: str) -> None:
    if "://" in place:
        spark.createDataFrame([(text,)], "value string").coalesce(1).write.mode("overwrite").text(place)
    else:
        Path(place).write_text(text, encoding="utf-8")
