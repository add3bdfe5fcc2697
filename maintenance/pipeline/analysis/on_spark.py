"""Headline freshness on Spark, from answers and changes alone; tests hold it equal to plain Python over the rows.

A *copy* is what was fetched of an SR at one instant. It is fresh until the first change strictly after that instant,
so every copy has one end, `stale_from`, and an answer at t is fresh iff t < stale_from: "no change in (refreshed, t]".
There are as many copies as refreshes were paid for, far fewer than answers, so the as-of join by time is done once per
copy; what is left for the answers is an equi-join with a table that is broadcast. Answers are never sorted, a popular
SR is no skew, and in case 1 none of them is shuffled.
"""

from functools import cache, reduce

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from scipy.special import stdtrit


@cache
def quantiles(most: int) -> tuple[float, ...]:
    """The 97.5 % quantiles for 2, 3, ... `most` values, and never none."""
    found: list[float] = stdtrit(np.arange(1, max(2, most)), 0.975).tolist()
    return tuple(found)


SERIES = ["setting", "policy", "case", "knowledge"]
RUN = ["setting", "policy", "seed"]
EVALUATION = [*RUN, "at"]
ENTRY = ["setting", "seed", "sr"]
NEVER_STALE = 2**63 - 1
BROADCAST_ROWS = 2_000_000
"""Copies up to which every executor gets all of them, about 200 bytes each."""


def copies(answers: DataFrame, changes: DataFrame) -> DataFrame:
    """Every copy that answers were made of, and from when on it was stale."""
    used = answers.select(*ENTRY, F.col("refreshed_ms").alias("time"), F.lit(False).alias("change")).distinct()
    events = used.unionByName(changes.select(*ENTRY, F.col("t_ms").alias("time"), F.lit(True).alias("change")))
    after = Window.partitionBy(*ENTRY).orderBy(F.col("time").desc(), "change")  # a change at r is not after r
    first = F.min(F.when(F.col("change"), F.col("time"))).over(after.rowsBetween(Window.unboundedPreceding, 0))
    found = events.withColumn("stale_from", F.coalesce(first, F.lit(NEVER_STALE))).filter(~F.col("change"))
    return found.select(*ENTRY, F.col("time").alias("refreshed_ms"), "stale_from")


def judged(answers: DataFrame, copies: DataFrame, rows: int = 0) -> DataFrame:
    """Every answer with `fresh`; `rows` is how many copies there are."""
    small = F.broadcast(copies) if rows <= BROADCAST_ROWS else copies
    joined = answers.join(small, [*ENTRY, "refreshed_ms"], "left")
    return joined.withColumn("fresh", F.coalesce(F.col("t_ms") < F.col("stale_from"), F.lit(False)))


def evaluated(judged: DataFrame | None, evaluations: DataFrame | None, aggregates: bool = True) -> DataFrame:
    """Per evaluation how many answers it has and how many are fresh; misses are in `results` of evaluations alone.

    `fresh` is the truth, where answers tell it; else what was reported and else what was expected, as `basis` says.
    """
    reported = evaluations if evaluations is None else evaluations.withColumnRenamed("fresh", "reported")
    if judged is None:
        assert reported is not None
        return _with_basis(reported.withColumn("truth", F.lit(None).cast("double")))
    truth = _counted(judged, aggregates)
    if reported is None:
        known = truth.withColumn("results", F.col("held")).withColumn("truth", F.col("true_fresh"))
        return _with_basis(known.withColumns(_unknown()))
    joined = reported.join(truth.drop("case", "t_ms"), EVALUATION, "left")
    answered = F.count("held").over(Window.partitionBy(*RUN)) > 0  # of a run without any answers nothing is known
    return _with_basis(
        joined.withColumn("results", F.coalesce("results", "held")).withColumn(
            "truth", F.when(answered, F.coalesce("true_fresh", F.lit(0.0)))
        )
    )


def by_seed(evaluated: DataFrame, target: float = 0.95) -> DataFrame:
    """The mean over the evaluations that count and have answers, per seed, and the sums behind the pooled ratio."""
    counting = evaluated.filter(~F.col("warmup") & F.col("freshness").isNotNull())
    return counting.groupBy(*SERIES, "seed").agg(
        F.min("basis").alias("basis"),
        F.count("*").alias("evaluations"),
        F.avg("freshness").alias("freshness"),
        F.sum("fresh").alias("fresh"),
        F.sum("results").alias("results"),
        F.avg((F.col("freshness") >= target).cast("double")).alias("within_target"),
        F.avg(F.try_divide("reported", "results")).alias("reported"),
        F.avg(F.try_divide("expected_fresh", "results")).alias("expected"),
        F.lit(0).cast("bigint").alias("audits"),
    )


def headline(by_seed: DataFrame, most: int) -> DataFrame:
    """The mean over seeds with its 95 % interval (Student's t); `most` is how many seeds there are at most."""
    counts: list[Column] = [F.count("*").alias("seeds"), F.min("basis").alias("basis")]
    means = [F.avg(name).alias(name) for name in ("freshness", "within_target", "reported", "expected")]
    sums = [F.sum(name).alias(name) for name in ("evaluations", "fresh", "results", "audits")]
    found = by_seed.groupBy(*SERIES).agg(*counts, *means, *sums, F.stddev_samp("freshness").alias("spread"))
    return found.select(
        *SERIES,
        "basis",
        "seeds",
        "evaluations",
        "freshness",
        interval(F.col("spread"), F.col("seeds"), most).alias("ci95"),
        F.try_divide("fresh", "results").alias("pooled"),
        (F.col("results") - F.col("fresh")).alias("stale_answers"),
        F.col("results").alias("answers"),
        "within_target",
        "reported",
        "expected",
        "audits",
    )


def interval(spread: Column, number: Column, most: int) -> Column:
    """The half-width of the 95 % interval of a mean; null for fewer than two."""
    student = F.array(*(F.lit(value) for value in quantiles(most)))
    return F.when(number > 1, F.get(student, number - 2) * spread / F.sqrt(number))


def _counted(judged: DataFrame, aggregates: bool) -> DataFrame:
    """Fresh and held answers per evaluation; an aggregate is one answer per mapping, fresh iff all its inputs are."""
    whole = F.col("case") == "aggregate" if aggregates else F.lit(False)
    unit = F.when(whole, F.col("sn")) if aggregates else F.lit(None).cast("string")
    weight, fresh = F.col("weight"), F.col("fresh")
    units = judged.groupBy(*EVALUATION, "case", "t_ms", unit.alias("unit")).agg(
        F.sum(weight).alias("edges"),
        F.sum(F.when(fresh, weight).otherwise(0)).alias("fresh_edges"),
        F.max(weight).alias("mappings"),
        F.min(fresh).alias("all_fresh"),
    )
    held = F.when(whole, F.col("mappings")).otherwise(F.col("edges"))
    good = F.when(whole, F.when(F.col("all_fresh"), F.col("mappings")).otherwise(0)).otherwise(F.col("fresh_edges"))
    return units.groupBy(*EVALUATION, "case", "t_ms").agg(
        F.sum(held).cast("double").alias("held"), F.sum(good).cast("double").alias("true_fresh")
    )


def _unknown() -> dict[str, Column]:
    nothing = F.lit(None).cast("double")
    missing = dict.fromkeys(("reported", "expected_fresh"), nothing)
    return {**missing, "knowledge": F.lit(""), "warmup": F.lit(False), "k": F.col("at")}


def _with_basis(known: DataFrame) -> DataFrame:
    """The best number of fresh answers that there is, and which one it is."""
    sources = [("truth", "truth"), ("reported", "reported"), ("expected", "expected_fresh")]
    basis = F.coalesce(*(F.when(F.col(name).isNotNull(), F.lit(word)) for word, name in sources))
    fresh = reduce(lambda best, name: F.coalesce(best, F.col(name)), [n for _, n in sources[1:]], F.col("truth"))
    found = known.withColumn("basis", basis).withColumn("fresh", fresh)
    return found.withColumn("freshness", F.try_divide("fresh", "results")).drop("true_fresh")
