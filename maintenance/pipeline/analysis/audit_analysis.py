"""Freshness from audits: answers drawn uniformly, what they are made of fetched again to see whether they were fresh.

Where there is no truth about every answer they stand in for it. The share of them that was fresh estimates the pooled
freshness without bias, whatever the engine believes.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from freshkeeper.maintenance.budget.audit import wilson
from freshkeeper.maintenance.pipeline.analysis.on_spark import EVALUATION, SERIES


def audited(audits: DataFrame, evaluated: DataFrame) -> DataFrame:
    """Per evaluation that counts how many answers were audited and how many of them were fresh.

    Where nobody can tell, because the fetch failed, `fresh` is null and the audit says nothing.
    """
    found = audits.groupBy(*EVALUATION).agg(F.count("fresh").alias("audits"), F.count_if("fresh").alias("fresh"))
    expected = F.try_divide("expected_fresh", "results").alias("expected")
    known = evaluated.filter("NOT warmup").select(*SERIES, "seed", "at", expected)
    return known.join(found.filter("audits > 0"), EVALUATION)


def stand_in(by_seed: DataFrame, audited: DataFrame) -> DataFrame:
    """The seeds with the share of audits that were fresh instead of what the engine says, where no truth is known."""
    found = audited.groupBy(*SERIES, "seed").agg(
        F.sum("audits").alias("asked"), F.try_divide(F.sum("fresh"), F.sum("audits")).alias("share")
    )
    taken = (F.col("basis") != "truth") & F.col("share").isNotNull()
    instead = {
        "basis": F.lit("audited"),
        "freshness": F.col("share"),
        "fresh": F.col("share") * F.col("results"),
        "within_target": F.lit(None).cast("double"),
        "audits": F.col("asked"),
    }
    joined = by_seed.join(found, [*SERIES, "seed"], "left").withColumn("taken", taken)
    changed = {name: F.when(F.col("taken"), value).otherwise(F.col(name)) for name, value in instead.items()}
    return joined.withColumns(changed).select(by_seed.columns)


def shares(audited: DataFrame) -> DataFrame:
    """The audits of a whole series, with Wilson's 95 % interval."""
    found = audited.groupBy(*SERIES).agg(F.sum("audits").alias("audits"), F.sum("fresh").alias("fresh"))
    share = F.col("fresh") / F.col("audits")
    low, high = wilson(share, F.col("audits"), F.sqrt)
    return found.select(*SERIES, "audits", "fresh", share.alias("freshness"), low.alias("low"), high.alias("high"))


def calibration(audited: DataFrame) -> DataFrame:
    """Expected freshness against audits, by tenths of what was expected; evaluations weigh as much as their audits."""
    known = audited.filter("expected IS NOT NULL")
    tenth = F.least(F.lit(9), F.floor(F.col("expected") * 10)).alias("tenth")
    share = F.sum("fresh") / F.sum("audits")
    expected = F.sum(F.col("expected") * F.col("audits")) / F.sum("audits")
    return known.groupBy(*SERIES, F.lit("audited").alias("basis"), tenth).agg(
        F.count("*").alias("evaluations"),
        expected.alias("expected"),
        share.alias("freshness"),
        (expected - share).alias("bias"),
        F.lit(None).cast("double").alias("mean_error"),
        F.sum("audits").cast("double").alias("answers"),
    )
