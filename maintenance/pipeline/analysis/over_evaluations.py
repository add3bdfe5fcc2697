"""Evaluations one by one: freshness over time, whether expectations were right, what was paid for, how long it took."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from freshkeeper.maintenance.pipeline.analysis.on_spark import SERIES


def over_time(evaluated: DataFrame) -> DataFrame:
    """Freshness at every evaluation, the mean over seeds; the warm-up is in it and marked."""
    number = F.coalesce("k", "at").alias("k")
    return evaluated.groupBy(*SERIES, number).agg(
        F.min("t_ms").alias("t_ms"),
        F.max("warmup").alias("warmup"),
        F.min("basis").alias("basis"),
        F.count("freshness").alias("seeds"),
        F.avg("freshness").alias("freshness"),
        F.avg(F.try_divide("expected_fresh", "results")).alias("expected"),
        F.sum(F.col("results") - F.col("fresh")).alias("stale_answers"),
        F.sum("results").alias("answers"),
    )


def calibration(evaluated: DataFrame) -> DataFrame:
    """Expected freshness against the truth, by tenths of what was expected."""
    expected = F.try_divide("expected_fresh", "results")
    known = evaluated.filter(F.col("basis").isin("truth", "reported") & ~F.col("warmup"))
    known = known.withColumn("expected", expected).filter("expected IS NOT NULL AND freshness IS NOT NULL")
    error = F.col("expected") - F.col("freshness")
    tenth = F.least(F.lit(9), F.floor(F.col("expected") * 10)).alias("tenth")
    return known.groupBy(*SERIES, "basis", tenth).agg(
        F.count("*").alias("evaluations"),
        F.avg("expected").alias("expected"),
        F.avg("freshness").alias("freshness"),
        F.avg(error).alias("bias"),
        F.avg(F.abs(error)).alias("mean_error"),
        F.sum("results").alias("answers"),
    )


def budget_use(evaluations: DataFrame, per_evaluation: Mapping[str, float]) -> DataFrame:
    """What was paid in and what was spent, over all evaluations; `per_evaluation` is γ by setting, where known."""
    gamma = F.lit(None).cast("double")
    for setting, paid in per_evaluation.items():
        gamma = F.when(F.col("setting") == setting, F.lit(float(paid))).otherwise(gamma)
    could = F.least(F.col("budget"), F.col("stale").cast("double"))
    idle = F.col("spent") + 1 <= could
    found = evaluations.withColumns({"paid": gamma, "idle": idle}).groupBy(*SERIES)
    return found.agg(
        F.count("*").alias("evaluations"),
        F.sum("paid").alias("paid_in"),
        F.sum("spent").alias("spent"),
        F.try_divide(F.sum("spent"), F.sum("paid")).alias("used"),
        F.avg("spent").alias("spent_per_evaluation"),
        F.avg("budget").alias("available_per_evaluation"),
        F.max("spent").alias("most_spent"),
        F.count_if("idle").alias("saved_though_stale"),
        F.sum("errors").alias("failed"),
    )


def latency(evaluations: DataFrame, refreshes: DataFrame | None) -> DataFrame:
    """Where the time of an evaluation goes: deciding and fetching; and the latency of single refreshes."""
    own = ["setting", "policy"]
    parts = [
        _part(evaluations, own, "decide", F.col("decide_us") / 1e3),
        _part(evaluations, own, "fetch", F.col("fetch_ms")),
    ]
    both = parts[0].unionByName(parts[1])
    share = F.try_divide("total_ms", F.sum("total_ms").over(Window.partitionBy(*own)))
    split = both.withColumn("share", share)
    if refreshes is None:
        return split
    return split.unionByName(_part(refreshes, own, "refresh", F.col("latency_ms")), allowMissingColumns=True)


def _part(table: DataFrame, own: list[str], name: str, ms: Column) -> DataFrame:
    found = table.withColumn("ms", ms).filter(F.col("ms").isNotNull()).groupBy(*own)
    cuts = F.percentile_approx("ms", [0.5, 0.95, 0.99], 10_000)
    measured = found.agg(
        F.count("*").alias("times"), F.sum("ms").alias("total_ms"), F.avg("ms").alias("mean_ms"), cuts.alias("cut")
    )
    named = [F.col("cut")[n].alias(word) for n, word in enumerate(("median_ms", "p95_ms", "p99_ms"))]
    return measured.select(*own, F.lit(name).alias("part"), "times", "total_ms", "mean_ms", *named)
