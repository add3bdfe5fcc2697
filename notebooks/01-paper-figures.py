# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # The figures of *Planning Ahead*, measured again
#
# Section 6 of the paper (Gao et al., ISWC 2016; 002 in this project), figure by figure, each beside the paper's
# claim in words, and at the end beside a TTL cache, which the paper does not have. Every figure is a config in
# `configs/`. As it stands this runs them with two seeds; with `runs` it reads `runs/fig2a` and so on, where they are,
# as `freshkeeper simulate configs/fig2a.yaml --out runs/fig2a` writes them with 30 seeds.
# [docs/paper.md](../docs/paper.md) has the numbers with 30 seeds and says why some differ from the paper's.
#
# Numbers are fresh answers in percent, as means over evaluations, the bound is the optimum of the whole trace, and an
# asterisk marks a policy that spends more than its budget, with its requests per evaluation.

# %% tags=["parameters"]
runs = ""  # a directory with runs of the figures' configs; those that are missing are simulated
seeds = 2  # seeds of what is simulated

# %%
import tempfile
from pathlib import Path

from freshkeeper.notebook import figure, freshness, show_sentences
from freshkeeper.simulator.experiment.paper import Runs, lifts

temporary = tempfile.TemporaryDirectory(prefix="freshkeeper-")
run_of = Runs(Path(temporary.name), seeds=seeds, ready=Path(runs) if runs else None).of

# %% [markdown]
# ## Figure 2(a): density of the graph
#
# > IBM and SBM are always fresher than random choice and LRU, and their gain shrinks as the graph gets denser.

# %%
figure(run_of("fig2a"), "by-edges")

# %%
freshness(run_of("fig2a"))

# %% [markdown]
# ## Figure 2(b): skew of the cached entries' degrees
#
# > The more skewed the degrees, the more a good choice gains. (The paper's s is 1 − `degree_skew`.)

# %%
figure(run_of("fig2b"), "by-degree-skew")

# %%
freshness(run_of("fig2b"))

# %% [markdown]
# ## Figure 2(c): budget
#
# > All policies get better with more budget, and come together as it nears what changes.

# %%
figure(run_of("fig2c"), "by-budget")

# %%
freshness(run_of("fig2c"))

# %% [markdown]
# ## Figure 2(d): range of change intervals
#
# > IBM, which counts how long a copy will last, gains on SBM most where change intervals differ most.

# %%
figure(run_of("fig2d"), "by-change-interval-ms")

# %%
freshness(run_of("fig2d"))

# %% [markdown]
# The paper sums Figure 2 up as 22 % (least), 43 % (mean) and 93 % (most) over the baselines. Here, over `lru`:

# %%
figure2 = ("fig2a", "fig2b", "fig2c", "fig2d")
for policy in ("sbm", "ibm"):
    gains = [gain for name in figure2 for gain in lifts(run_of(name), policy, "lru").values()]
    show_sentences(f"{policy}: least {min(gains):.0%}, mean {sum(gains) / len(gains):.0%}, most {max(gains):.0%}")

# %% [markdown]
# ## Figure 3(a): aggregates, skew of the cached entries' degrees
#
# > An aggregate is fresh only if all its inputs are; choosing whole lookup keys pays. With 20 inputs per lookup key
# > next to nothing is complete here, whatever the policy.

# %%
figure(run_of("fig3a"), "by-degree-skew")

# %%
freshness(run_of("fig3a"))

# %% [markdown]
# ## Figure 3(b): aggregates, a sparse graph and a tiny budget
#
# > IBM_Agg beats SBM_Agg by up to 12.5 %.

# %%
figure(run_of("fig3b"), "by-budget")

# %%
freshness(run_of("fig3b"))
gains_over_sbm = [f"{gain:+.0%} at {setting}" for setting, gain in lifts(run_of("fig3b"), "ibm", "sbm").items()]
show_sentences(f"ibm over sbm: {', '.join(gains_over_sbm)}.")

# %% [markdown]
# ## Figure 4(a): accumulated stale answers of FBA and IBM
#
# > FBA, which moves budget between evaluations, keeps almost everything fresh at γ = 15, IBM does not. Read
# > literally FBA spends about twice its budget, see the asterisks; kept to the budget it is IBM here.

# %%
figure(run_of("fig4a"), "stale", "budget=15")

# %%
freshness(run_of("fig4a"))

# %% [markdown]
# ## Figure 4(b): budget spent over time
#
# > IBM spends the same at every evaluation, FBA what the moment needs.

# %%
figure(run_of("fig4b"), "spent", "budget=15")

# %%
freshness(run_of("fig4b"))

# %% [markdown]
# ## Like Figure 5: the shape of the recorded data
#
# > On a recording of Twitter, which is not public, the order of the policies is the same. This is its shape: skewed
# > degrees and change intervals that are mostly long.

# %%
figure(run_of("fig5"), "by-budget")

# %%
freshness(run_of("fig5"))

# %% [markdown]
# ## And a TTL cache?
#
# Figure 2(c) once more, with what most systems run: a cache whose entries live so long that it makes as many requests
# as the budget pays for. It knows neither demand nor changes.

# %%
figure(run_of("fig2c", baselines=True), "by-budget")
