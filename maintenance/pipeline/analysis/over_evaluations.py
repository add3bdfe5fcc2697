"""Evaluations one by one: freshness over time, and whether the engine's expectations were right."""

from pyspark.sql import DataFrame
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
