"""Refreshes that did nothing, and those that should have been: wasted where nothing had changed, missed where a stale
SR that answers needed was not chosen.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from freshkeeper.maintenance.pipeline.analysis.on_spark import ENTRY, EVALUATION, RUN
from freshkeeper.maintenance.service.endpoint import PENDING

OWN = ["setting", "policy"]
MISS = r"^(\?|miss )"
"""How an SN is written whose SRs are not known yet; older simulations wrote a question mark."""


def counting(refreshes: DataFrame, evaluated: DataFrame) -> DataFrame:
    """The refreshes with whether their evaluation counts; one of which nothing is known does."""
    known = evaluated.groupBy(*EVALUATION).agg(F.max(~F.col("warmup")).alias("counts"))
    miss = F.col("sr").rlike(MISS)
    joined = refreshes.join(known, EVALUATION, "left").withColumn("counts", F.coalesce("counts", F.lit(True)))
    return joined.withColumn("miss", miss).withColumn("failed", F.col("error").isNotNull())


def wasted(counting: DataFrame, served: DataFrame | None, changes: DataFrame | None) -> DataFrame:
    """Of the refreshes that came, how many brought what was there already; by the truth and by what the engine saw.

    One that was on its way at its deadline counts when it has come.
    """
    counting = counting.filter(F.coalesce(F.col("error") != PENDING, F.lit(True)))
    came = F.col("counts") & ~F.col("failed") & ~F.col("miss")
    nothing = F.lit(None).cast("boolean") if changes is None else F.col("nothing")
    judged = counting if changes is None else _judged(counting, served, changes)
    found = judged.groupBy(*OWN).agg(
        F.count_if("counts").alias("refreshes"),
        F.count_if(F.col("counts") & F.col("failed")).alias("failed"),
        F.count_if(F.col("counts") & F.col("miss")).alias("misses"),
        F.count_if(F.col("counts") & F.col("late")).alias("late"),
        F.count_if(came).alias("came"),
        F.sum(F.when(came, nothing.cast("bigint"))).alias("wasted"),
        F.sum(F.when(came, (~F.col("changed")).cast("bigint"))).alias("wasted_as_reported"),
    )
    return found.withColumn("wasted_share", F.try_divide("wasted", "came")).drop("came")


def missed(served: DataFrame, counting: DataFrame) -> DataFrame:
    """Stale SRs that were not chosen though at least as many answers needed them as the mean one that was chosen.

    Where nothing was chosen, or nothing that answers needed, the mean is over all SRs of the evaluation.
    """
    chosen = counting.select(*EVALUATION, "sr").distinct().withColumn("chosen", F.lit(True))
    marked = served.filter("counts").join(chosen, [*EVALUATION, "sr"], "left")
    marked = marked.withColumn("chosen", F.coalesce("chosen", F.lit(False)))
    whole = Window.partitionBy(*EVALUATION)
    usual = F.coalesce(F.avg(F.when(F.col("chosen"), F.col("demand"))).over(whole), F.avg("demand").over(whole))
    stale = ~F.col("fresh")
    lost = stale & ~F.col("chosen") & (F.col("demand") >= F.col("usual"))
    found = marked.withColumn("usual", usual).groupBy(*OWN)
    return found.agg(
        F.count_if(stale).alias("stale_entries"),
        F.count_if(lost).alias("missed"),
        F.sum(F.when(stale, F.col("demand")).otherwise(0)).alias("stale_answers"),
        F.sum(F.when(lost, F.col("demand")).otherwise(0)).alias("missed_answers"),
    ).withColumn("share_of_stale", F.try_divide("missed_answers", "stale_answers"))


def _judged(counting: DataFrame, served: DataFrame | None, changes: DataFrame) -> DataFrame:
    """Every refresh with `nothing`: no change in (the copy before, the refresh]."""
    changed = changes.select(*ENTRY, F.col("t_ms").alias("time"), F.lit(True).alias("change"))
    asked = _with_copy_before(counting, served).withColumns({"time": F.col("t_ms"), "change": F.lit(False)})
    until = Window.partitionBy(*ENTRY).orderBy("time", F.col("change").desc())  # a change at t is in (r, t]
    last = F.max(F.when(F.col("change"), F.col("time"))).over(until.rowsBetween(Window.unboundedPreceding, 0))
    both = asked.unionByName(changed, allowMissingColumns=True).withColumn("last", last).filter(~F.col("change"))
    unchanged = F.col("last").isNull() | F.coalesce(F.col("last") <= F.col("before"), F.lit(False))
    return both.withColumn("nothing", unchanged)


def _with_copy_before(counting: DataFrame, served: DataFrame | None) -> DataFrame:
    """The instant of the copy that each refresh replaces: of an earlier refresh, or one that answers were made of.

    With none known the copy is as old as the record, and any change since then counts.
    """
    done = counting.withColumn("copied", F.when(~F.col("failed"), F.col("t_ms"))).withColumn("asked", F.lit(True))
    if served is not None:
        used = served.select(*RUN, "sr", F.col("refreshed_ms").alias("t_ms")).distinct()
        used = used.withColumns({"copied": F.col("t_ms"), "asked": F.lit(False)})
        done = done.unionByName(used, allowMissingColumns=True)
    earlier = Window.partitionBy(*RUN, "sr").orderBy("t_ms", F.col("asked").desc())
    before = F.max("copied").over(earlier.rowsBetween(Window.unboundedPreceding, -1))
    return done.withColumn("before", before).filter("asked").drop("copied", "asked")
