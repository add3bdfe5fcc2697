"""SRs one by one: how often each was served and how often stale; by degree, by rate of change, and the worst."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from freshkeeper.maintenance.pipeline.analysis.on_spark import ENTRY, EVALUATION, NEVER_STALE, RUN

SUBS = 64
"""Ages are kept to one part in so many, so that memory does not grow with the answers."""


def by_copy(answers: DataFrame) -> DataFrame:
    """The answers of one evaluation that were made of one copy, together: `weight` is then the SR's demand."""
    together = answers.groupBy(*EVALUATION, "case", "t_ms", "sr", "refreshed_ms")
    return together.agg(F.sum("weight").alias("weight"))


def served(by_copy: DataFrame, evaluated: DataFrame) -> DataFrame:
    """Per evaluation and SR the copy that was served and its demand: how many answers it took part in."""
    counting = evaluated.groupBy(*EVALUATION).agg(F.max(~F.col("warmup")).alias("counts"))
    return by_copy.drop("case").withColumnRenamed("weight", "demand").join(counting, EVALUATION)


def by_sr(served: DataFrame) -> DataFrame:
    """Answers and stale answers of every SR over the evaluations that count."""
    stale = F.when(~F.col("fresh"), F.col("demand")).otherwise(0)
    found = served.filter("counts").groupBy(*RUN, "sr")
    return found.agg(F.sum("demand").alias("answers"), F.sum(stale).alias("stale"))


def degrees(answers: DataFrame) -> DataFrame:
    """With how many SNs each SR was served, where answers name them."""
    return (
        answers.filter("sn IS NOT NULL")
        .select(*ENTRY, "sn")
        .distinct()
        .groupBy(*ENTRY)
        .agg(F.count("sn").alias("degree"))
    )


def changed(by_sr: DataFrame, changes: DataFrame) -> DataFrame:
    """How often each SR that was served changed."""
    counted = changes.groupBy(*ENTRY).agg(F.count("*").alias("changes"))
    return by_sr.select(*ENTRY).distinct().join(counted, ENTRY, "left").na.fill(0, ["changes"])


def by_decile(by_sr: DataFrame, measured: DataFrame, measure: str) -> DataFrame:
    """Freshness by decile of a measure of SRs; deciles are per setting and seed, ties in the order of ids."""
    order = Window.partitionBy("setting", "seed").orderBy(measure, "sr")
    deciles = measured.withColumn("decile", F.ntile(10).over(order))
    found = by_sr.join(deciles, ENTRY).groupBy("setting", "policy", "decile")
    return found.agg(
        F.count("*").alias("entries"),
        F.min(measure).alias("least"),
        F.max(measure).alias("most"),
        F.sum("answers").alias("answers"),
        F.sum("stale").alias("stale"),
        (1 - F.try_divide(F.sum("stale"), F.sum("answers"))).alias("freshness"),
    )


def top_stale(by_sr: DataFrame, degrees: DataFrame, changed: DataFrame, top: int) -> DataFrame:
    """The SRs that most stale answers came from."""
    whole = Window.partitionBy("setting", "policy")
    rank = F.row_number().over(whole.orderBy(F.col("stale").desc(), "seed", "sr"))
    share = F.try_divide("stale", F.sum("stale").over(whole))
    worst = by_sr.withColumns({"share_of_stale": share, "rank": rank}).filter(
        (F.col("rank") <= top) & (F.col("stale") > 0)
    )
    return worst.join(degrees, ENTRY, "left").join(changed, ENTRY, "left").select(
        "setting", "policy", "rank", "seed", "sr", "answers", "stale", "share_of_stale", "degree", "changes"
    )  # fmt: skip


def staleness(served: DataFrame) -> DataFrame:
    """For how long the copies of stale answers had been stale (`overdue`) and how old they were (`age`), by octave."""
    stale = served.filter("counts").filter(~F.col("fresh") & (F.col("stale_from") < NEVER_STALE))
    ages = F.explode(
        F.array(
            *(
                F.struct(F.lit(name).alias("what"), (F.col("t_ms") - F.col(since)).alias("ms"))
                for name, since in (("overdue", "stale_from"), ("age", "refreshed_ms"))
            )
        )
    )
    long = stale.select("setting", "policy", "demand", ages.alias("one")).select("setting", "policy", "demand", "one.*")
    return long.groupBy("setting", "policy", "what", _rounded(F.col("ms")).alias("ms")).agg(
        F.sum("demand").alias("answers")
    )


def octaves(staleness: DataFrame) -> DataFrame:
    """The distribution: how many stale answers from a power of two milliseconds up to the next."""
    of = Window.partitionBy("setting", "policy", "what")
    low = F.when(F.col("ms") < 1, 0).otherwise(F.pow(F.lit(2.0), _octave(F.col("ms")))).cast("bigint")
    found = staleness.groupBy("setting", "policy", "what", low.alias("from_ms")).agg(F.sum("answers").alias("answers"))
    below = F.greatest(F.lit(1), 2 * F.col("from_ms")).alias("below_ms")
    share = F.try_divide("answers", F.sum("answers").over(of)).alias("share")
    return found.select("setting", "policy", "what", "from_ms", below, "answers", share)


def staleness_quantiles(staleness: DataFrame) -> DataFrame:
    """The median and the tails of the same, to one part in 64."""
    found = staleness.groupBy("setting", "policy", "what")
    tails = F.percentile("ms", F.array(F.lit(0.5), F.lit(0.95), F.lit(0.99)), F.col("answers"))
    cut = found.agg(tails.alias("cut"), F.max("ms").alias("most_ms"), F.sum("answers").alias("stale_answers"))
    named = [F.col("cut")[n].alias(name) for n, name in enumerate(("median_ms", "p95_ms", "p99_ms"))]
    return cut.select("setting", "policy", "what", "stale_answers", *named, "most_ms")


def _octave(ms: Column) -> Column:
    return F.floor(F.log2(ms.cast("double")))


def _rounded(ms: Column) -> Column:
    """Down to a multiple of a 64th of its octave."""
    unit = F.when(ms < SUBS, 1).otherwise(F.pow(F.lit(2.0), _octave(ms)).cast("bigint") / SUBS).cast("bigint")
    return F.greatest(F.lit(0), ms - F.pmod(ms, unit))
