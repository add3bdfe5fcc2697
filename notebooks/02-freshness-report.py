# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # How fresh were the answers?
#
# A report of any run directory or journal, answer by answer, judged by the truth or by audits: how fresh, fresher than
# a TTL cache or not, where the stale answers come from, and what the requests brought. As a page, without Jupyter:
# `freshkeeper notebook report RUN --out report.html`. What every number means: docs/analysis.md.

# %% tags=["parameters"]
run = ""  # a run directory or a journal; default: a demonstration is simulated
target = 0.9  # how much of the answers should be fresh
setting = ""  # of several settings which one; default: the first

# %%
import tempfile
from pathlib import Path

from freshkeeper.notebook import judged_run
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve

temporary = tempfile.TemporaryDirectory(prefix="freshkeeper-")
place = Path(run) if run else Path(temporary.name) / "demonstration"
if not run:
    drawn = {"sns": 60, "srs": 60, "edges": 150, "change_law": "poisson", "change_interval_ms": [3000, 120_000]}
    world = {"workload": {**drawn, "arrival_interval_ms": [2000, 15_000]}, "knowledge": "learned", "start": "cold"}
    size = {"evaluations": 150, "seeds": 8, "budget": 4, "policies": "random,lru,plan", "bound": "never"}
    simulate(resolve({**world, **size, "answers": True}), place)
judged = judged_run(place, target, setting)
judged.lead()

# %% [markdown]
# ## Is that better than a TTL cache?
#
# Of a simulation its own baselines tell. Of a journal a replay does: a TTL cache over the same arrivals and changes,
# as far as the journal knows them.

# %%
judged.beside_ttl()

# %% [markdown]
# ## Freshness over time
#
# The dotted line is the target.

# %%
judged.figure("over-time")

# %%
judged.table("freshness", "policy", "basis", "pooled", "freshness", "ci95", "within_target", "expected")

# %% [markdown]
# ## Can the freshness be believed that answers are marked with?

# %%
judged.figure("calibration")

# %%
judged.table("calibration", "policy", "basis", "tenth", "evaluations", "expected", "freshness", "bias")

# %% [markdown]
# ## How stale were the stale ones?

# %%
judged.figure("stale-for")

# %%
judged.table("staleness_quantiles", "policy", "what", "stale_answers", "median_ms", "p95_ms", "most_ms")

# %% [markdown]
# ## Where do stale answers come from?
#
# Entries in ten equal parts: by how often they change, and by how many lookup keys need them. Were all alike, each
# tenth would give a tenth.

# %%
judged.figure("by-change-rate")

# %%
judged.figure("by-degree")

# %%
judged.table("by_change_rate", "policy", "decile", "least", "most", "answers", "stale", "freshness")

# %%
judged.table("by_degree", "policy", "decile", "least", "most", "answers", "stale", "freshness")

# %% [markdown]
# ## The stalest entries

# %%
judged.figure("stalest")

# %%
judged.table("top_stale", "policy", "rank", "sr", "answers", "stale", "share_of_stale", "degree", "changes")

# %% [markdown]
# ## What did the budget buy?
#
# A request is well spent where it finds a change. `missed` below are stale answers that a better choice might have
# saved.

# %%
judged.figure("requests")

# %%
judged.table("wasted", "policy", "refreshes", "wasted", "wasted_share", "misses", "failed", "late")

# %%
judged.table("missed", "policy", "stale_answers", "missed_answers", "share_of_stale")

# %%
judged.table("budget", "policy", "paid_in", "spent", "used", "spent_per_evaluation", "saved_though_stale")

# %% [markdown]
# ## What this cannot tell

# %%
judged.limits()
