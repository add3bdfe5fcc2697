# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # What budget do I need, and what does it cost?
#
# How many requests a day keep so much of the answers fresh, policy by policy, and how many would a TTL cache need? On
# the command line this is `freshkeeper budget RUN --target .9 --price 0.0004` (docs/budget.md).
#
# `run` is a run, a journal or a trace. Without it a workload is drawn, five seeds of it, each with a trace of its own.

# %% tags=["parameters"]
run = ""  # a run directory, a journal or a trace; default: a workload is drawn
target = 0.9  # how much of the answers should be fresh
setting = ""  # of a journal with several queries or sources, which one
price = 0.0004  # of a request
policies = "lru,plan"  # the policies to ask about

# %%
import tempfile
from pathlib import Path

from freshkeeper.notebook import frontier, needed, show_sentences
from freshkeeper.simulator.budget.answer import answer
from freshkeeper.simulator.budget.question import Question, assumed
from freshkeeper.simulator.budget.words import sheet
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.replay import replay_of

temporary = tempfile.TemporaryDirectory(prefix="freshkeeper-")
if run:
    changes = assumed(Path(run), {"policies": policies})
    experiment = replay_of(Path(run), changes, Path(temporary.name) / "trace", setting).experiment
else:
    drawn = {"sns": 60, "srs": 60, "edges": 150, "change_law": "poisson", "change_interval_ms": [3000, 120_000],
             "arrival_interval_ms": [2000, 15_000]}  # fmt: skip
    workload = {"workload": drawn, "evaluations": 150, "seeds": 5, "knowledge": "learned", "start": "cold"}
    experiment = resolve({**workload, "policies": policies})
found = sheet(answer(Question(experiment, target, price)))
show_sentences(found.lead)

# %% [markdown]
# Beside a TTL cache, which most systems have: what it needs for the target, and how fresh it is with as many requests
# as each policy makes.

# %%
show_sentences(*found.sentences)

# %% [markdown]
# The numbers, and what they cannot tell.

# %%
needed(found)

# %%
show_sentences(*found.notes)

# %% [markdown]
# The frontier: each point is a budget that was tried, or a time to live of a cache without one. Higher is fresher, and
# further left is cheaper.

# %%
frontier(found)
