# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # What budget do I need, and what does it cost?
#
# How many requests a day keep so much of the answers fresh, policy by policy, and what would a TTL cache need? On the
# command line this is `freshkeeper budget RUN --target .9 --price 0.0004` (docs/budget.md).
#
# Parameters: a run, a journal or a trace (`FRESHKEEPER_RUN=runs/mine`; without it a workload is drawn, five seeds of
# it, each with a trace of its own), the target, and the price of a request.

# %%
import os
import tempfile
from pathlib import Path

from freshkeeper.notebook import frontier, needed
from freshkeeper.simulator.budget.answer import answer
from freshkeeper.simulator.budget.question import Question, assumed
from freshkeeper.simulator.budget.words import lead, limits, sentences
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.replay import replay_of

temporary = tempfile.TemporaryDirectory(prefix="freshkeeper-")
target = float(os.environ.get("FRESHKEEPER_TARGET", "0.9"))
price = float(os.environ.get("FRESHKEEPER_PRICE", "0.0004"))
given = os.environ.get("FRESHKEEPER_RUN")

drawn = {"sns": 60, "srs": 60, "edges": 150, "change_law": "poisson", "change_interval_ms": [3000, 120_000],
         "arrival_interval_ms": [2000, 15_000]}  # fmt: skip
workload = {"workload": drawn, "evaluations": 150, "seeds": 5, "knowledge": "learned", "start": "cold"}

# %%
if given:
    experiment = replay_of(Path(given), assumed(Path(given), {"policies": "lru,plan"}), Path(temporary.name)).experiment
else:
    experiment = resolve({**workload, "policies": "lru,plan"})
found = answer(Question(experiment, target, price))
print(lead(found))

# %% [markdown]
# The frontier: each point is a budget that was tried, or a time to live of a cache without one. Higher is fresher, and
# further left is cheaper.

# %%
frontier(found)

# %%
print("\n".join(sentences(found)))

# %% [markdown]
# The numbers, and what they cannot tell.

# %%
needed(found)

# %%
print("\n".join(limits(found)))
