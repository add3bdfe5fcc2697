# ---
# jupyter:
#   jupytext:
#     formats: py:percent
# ---

# %% [markdown]
# # One round, looked at from all sides
#
# A round is what a policy is asked at one evaluation: who needs what, how often, and how long it would stay fresh.
# This is the example of Figure 1 of *Planning Ahead*: three lookup keys in the window, three cached entries, six
# edges. Open it with jupytext (`jupytext --to notebook notebooks/00-one-round.py`) or run it as a program.

# %%
import networkx as nx
import numpy as np

from freshkeeper import Budget, Case, policy, round_of, to_networkx

edges = [(0, 0), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]
counts = [[1, 1], [2, 2], [1, 1]]
"""c_i(m): window mappings of each lookup key now and at the next evaluation"""

round = round_of(edges, counts, life=[1, 2, 2])

# %% [markdown]
# Demand is adjacency times profile: how many answers each cached entry takes part in, now and at the next evaluation.

# %%
print(round.demand)

# %% [markdown]
# What each policy refreshes with one request, and with two. Cached entry 0 is the most popular but changes before the
# next evaluation; cached entry 2 lasts.

# %%
for name in ("sbm", "ibm", "gain", "oracle"):
    picks = [policy(name).select(round, Budget(n, n), np.random.default_rng(0)).chosen.tolist() for n in (1, 2)]
    print(f"{name:7s} one request: {picks[0]}   two: {picks[1]}")

# %% [markdown]
# The same round as aggregates: an answer is fresh only when all inputs of its lookup key are.

# %%
sums = round_of(edges, counts, life=[1, 2, 2], case=Case.AGGREGATE)
for name in ("sbm", "ibm", "bundle", "oracle"):
    chosen = policy(name).select(sums, Budget(2, 2), np.random.default_rng(0)).chosen.tolist()
    print(f"{name:7s} two requests: {chosen}")

# %% [markdown]
# As a graph, for networkx and everything that draws it (docs/draw_graph.py makes the picture in the README).

# %%
graph = to_networkx(round, policy("ibm").select(round, Budget(1, 1), np.random.default_rng(0)))
print(nx.bipartite.degrees(graph, [node for node in graph if node[0] == "sr"])[1])
print({node: data["chosen"] for node, data in graph.nodes(data=True) if node[0] == "sr"})
