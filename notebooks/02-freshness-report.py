# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # How fresh were the answers?
#
# A report of any run directory or journal: `FRESHKEEPER_RUN=runs/mine` says which one; without it a small one is
# simulated. The first part reads what the engine recorded; the second judges every answer by the truth, on Spark,
# which needs Java 17. [docs/analysis.md](../docs/analysis.md) says what every table and column means.

# %%
import os
import tempfile
from pathlib import Path

from freshkeeper.maintenance.pipeline.spark_session import LEAST_JAVA, java_version, spark_session
from freshkeeper.notebook import figure, told
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve

temporary = tempfile.TemporaryDirectory(prefix="freshkeeper-")
place = Path(temporary.name)
given = os.environ.get("FRESHKEEPER_RUN")
run = Path(given) if given else place / "run"
if not given:
    slow = {"workload": {"change_interval_ms": [1000, 20000]}, "knowledge": "learned", "budget": 3, "answers": True}
    simulate(resolve({**slow, "policies": "random,lru,gain", "seeds": 3}), run)

# %% [markdown]
# ## What the engine recorded
#
# Freshness by policy and over time, with 95 % intervals over seeds. Of a run with several settings these are the
# first one's; a third word names another.

# %%
figure(run, "freshness")

# %%
figure(run, "over-time")

# %% [markdown]
# ## What was true

# %%
analysis = {}
if (java_version() or 0) >= LEAST_JAVA:
    from freshkeeper.maintenance.pipeline.analysis import analyse

    spark = spark_session("local[*]", {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"})
    analysis = analyse(spark, str(run), str(place / "analysis"))
    spark.stop()
else:
    print(f"no Java {LEAST_JAVA}: the tables below are left out")

for sentence in analysis.get("cannot_tell", []):
    print(sentence)

# %%
told(analysis, "freshness", "setting", "policy", "basis", "freshness", "ci95", "pooled", "within_target", "expected")

# %% [markdown]
# Were the requests well spent? `wasted` brought what was there already; `missed` are stale entries in demand that
# were not chosen; `saved_though_stale` are evaluations that kept a unit which a stale candidate could have had.

# %%
told(analysis, "wasted", "setting", "policy", "refreshes", "wasted", "wasted_share", "failed", "late")
told(analysis, "missed", "setting", "policy", "stale_answers", "missed_answers", "share_of_stale")
told(analysis, "budget", "setting", "policy", "spent_per_evaluation", "used", "saved_though_stale")

# %% [markdown]
# Is the freshness right that answers are marked with? By tenths of what was expected; a bias above 0 is too sure.

# %%
told(analysis, "calibration", "setting", "policy", "basis", "tenth", "evaluations", "expected", "freshness", "bias")

# %% [markdown]
# Where do stale answers come from? Deciles of entries by how often they change, and by how many lookup keys they have.

# %%
told(analysis, "by_change_rate", "setting", "policy", "decile", "least", "most", "answers", "freshness")

# %%
told(analysis, "by_degree", "setting", "policy", "decile", "least", "most", "answers", "freshness")

# %% [markdown]
# How stale were they, in ms, and where does the time go?

# %%
told(analysis, "staleness_quantiles", "setting", "policy", "what", "stale_answers", "median_ms", "p95_ms", "most_ms")
told(analysis, "latency", "setting", "policy", "part", "times", "mean_ms", "p95_ms")
